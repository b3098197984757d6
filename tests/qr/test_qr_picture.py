"""Pictures of codes: what is drawn is read back by another program, each kind of picture and of code."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from io import BytesIO

import pytest
import resvg_py
import zxingcpp
from drawing import CODES, PAYMENT, decode, decode_file
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError
from tppkit.qr import Level, Login, make_picture
from tppkit.qr.picture import encode_text

ESCAPE = re.compile("\033\\[[0-9;]*m")


def rows(text: str) -> list[list[bool]]:
    """The drawn half blocks of a terminal picture as rows of ink."""
    lines = [ESCAPE.sub("", line) for line in text.splitlines()]
    assert {len(line) for line in lines} == {len(lines[0])}
    return [[mark in half for mark in line] for line in lines for half in ("█▀", "█▄")]


def drawn(ink: list[list[bool]], *, ink_is_dark: bool) -> Image.Image:
    """Rows of ink as a picture, eight pixels a module."""
    picture = Image.new("L", (len(ink[0]), len(ink)))
    picture.putdata([0 if mark == ink_is_dark else 255 for row in ink for mark in row])
    return picture.resize((8 * picture.width, 8 * picture.height), Image.Resampling.NEAREST)


def test_every_form_of_picture_says_the_text(code):
    picture = make_picture(code)
    assert decode_file(picture.png()) == [code.text]
    assert decode_file(bytes(resvg_py.svg_to_bytes(svg_string=picture.svg()))) == [code.text]
    assert decode(drawn(rows(picture.terminal()), ink_is_dark=True)) == [code.text]
    assert decode(drawn(rows(picture.terminal(colour=False)), ink_is_dark=False)) == [code.text]  # on a dark background


def test_a_plain_terminal_picture_on_a_light_background_is_inverted():
    ink = drawn(rows(make_picture(PAYMENT).terminal(colour=False)), ink_is_dark=True)
    assert zxingcpp.read_barcodes(ink, try_invert=False) == []
    assert decode(ink) == [PAYMENT.text]


@given(st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=80), st.sampled_from(Level))
def test_any_text_is_read_back(text, level):
    assert decode_file(encode_text(text, level=level).png(scale=4)) == [text]


def test_only_colour_sets_black_and_white_and_takes_them_back():
    for line in make_picture(PAYMENT).terminal().splitlines():
        assert line.startswith("\033[38;5;16;48;5;231m")
        assert line.endswith("\033[0m")
    assert set(make_picture(PAYMENT).terminal(colour=False)) == {" ", "█", "▀", "▄", "\n"}


def quiet(light: list[list[bool]]) -> bool:
    sides = [light, light[::-1], list(zip(*light, strict=True)), list(zip(*light, strict=True))[::-1]]
    return all(all(all(row) for row in side[:4]) for side in sides)


def test_every_picture_has_the_quiet_zone():
    picture = make_picture(PAYMENT)
    png = Image.open(BytesIO(picture.png(scale=1))).convert("1")
    assert png.size == (picture.width, picture.width)
    assert quiet([[bool(png.getpixel((x, y))) for x in range(png.width)] for y in range(png.height)])
    assert quiet(rows(picture.terminal(colour=False)))


def test_an_svg_is_black_on_white_and_safe_under_any_policy():
    picture = make_picture(PAYMENT)
    root = ET.fromstring(picture.svg(scale=5))
    side = str(5 * picture.width)
    assert (root.attrib["width"], root.attrib["height"], root.attrib["viewBox"]) == (side, side, f"0 0 {side} {side}")
    assert {element.tag.rpartition("}")[2] for element in root.iter()} == {"svg", "title", "g", "path"}
    assert not {"style", "class", "id", "href"} & {name for element in root.iter() for name in element.attrib}
    below, above = (element.attrib for element in root.iter() if element.tag.endswith("path"))
    assert (below["fill"], above["stroke"]) == ("#fff", "#000")


@pytest.mark.parametrize("level", Level)
def test_a_picture_tolerates_at_least_the_requested_damage(level):
    picture = make_picture(PAYMENT, level=level)
    found = zxingcpp.read_barcodes(Image.open(BytesIO(picture.png())))[0]
    assert found.ec_level == picture.level
    assert "LMQH".index(picture.level) >= "LMQH".index(level)


@pytest.mark.parametrize(("level", "capacity"), [("L", 2953), ("M", 2331), ("Q", 1663), ("H", 1273)])
@pytest.mark.parametrize("letter", ["a", "ž"])
def test_what_fits_a_level_is_drawn_and_one_byte_more_is_refused(level, capacity, letter):
    room = capacity if letter == "a" else capacity - 1
    text = letter + "a" * (room - len(letter.encode()))
    assert encode_text(text, level=Level(level)).version == 40
    with refused(FormatError, "qr.too-long"):
        encode_text(text + "a", level=Level(level))


@pytest.mark.parametrize(("name", "begins"), [("payment", "]Q1TX:"), ("letters", "]Q2\\000026TX:")])
def test_utf_8_is_named_where_there_is_more_than_ascii(name, begins):
    picture = Image.open(BytesIO(make_picture(CODES[name]).png()))
    raw = zxingcpp.read_barcodes(picture, text_mode=zxingcpp.TextMode.HexECI)[0].text
    assert bytes.fromhex(raw).decode().startswith(begins)


def test_the_picture_of_a_code_says_what_it_says():
    picture = make_picture(PAYMENT)
    assert picture.text == PAYMENT.text
    assert picture.width == 17 + 4 * picture.version + 8
    assert "segno" not in repr(picture)


@pytest.mark.parametrize("scale", [0, -1, 101])
@pytest.mark.parametrize("form", ["png", "svg"])
def test_a_scale_that_cannot_be_is_refused(form, scale):
    with refused(ConfigurationError, "qr.scale"):
        getattr(make_picture(Login("https://shop.example/")), form)(scale=scale)
