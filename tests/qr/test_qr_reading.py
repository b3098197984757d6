"""Pictures read: codes from pictures of many forms, and hostile files."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from itertools import product
from time import process_time

import pytest
import segno
from drawing import CODES, PAYMENT
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from tppkit.errors import FormatError
from tppkit.qr import make_picture, read_picture, read_texts
from tppkit.qr.picture import encode_text
from tppkit.qr.picture_file import pixels_only
from tppkit.qr.reading import MAX_PICTURE_BYTES, _load

pytestmark = pytest.mark.slow

PNG = make_picture(PAYMENT).png()


def opened(data: bytes = PNG) -> Image.Image:
    return Image.open(BytesIO(data))


def saved(picture: Image.Image, kind: str = "PNG", **options) -> bytes:
    out = BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


JPEG = saved(opened().convert("RGB"), "JPEG", quality=40)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Require that the block takes no more processor time."""
    begun = process_time()
    yield
    assert process_time() - begun < seconds


def assert_refused(data: bytes, code: str) -> FormatError:
    with pytest.raises(FormatError) as refused:
        read_picture(data)
    assert refused.value.code == code
    return refused.value


def test_a_picture_of_each_code_is_read(code):
    assert read_picture(make_picture(code).png()) == code


def black_on_nothing() -> bytes:
    light = opened().convert("L")
    picture = Image.new("RGBA", light.size, (0, 0, 0, 0))
    picture.putalpha(light.point(lambda v: 255 - v))
    return saved(picture)


def photograph() -> bytes:
    """The code within twelve million pixels."""
    photo = Image.effect_noise((4000, 3000), 20).convert("RGB")
    photo.paste(opened().convert("RGB").resize((900, 900)), (1700, 900))
    return saved(photo, "JPEG")


def turned(degrees: int) -> bytes:
    return saved(opened().convert("L").rotate(degrees, expand=True, fillcolor=255))


PICTURES = {
    **{mode: lambda mode=mode: saved(opened().convert("L").convert(mode)) for mode in ("1", "L", "LA", "P", "RGB", "RGBA")},
    "I;16": lambda: saved(opened().convert("I").point(lambda v: v * 257).convert("I;16")),
    "black on nothing": black_on_nothing,
    "palette with transparent light": lambda: saved(opened().convert("P"), transparency=bytes(range(255, -1, -1))),
    **{f"turned by {degrees}": lambda degrees=degrees: turned(degrees) for degrees in (90, 180, 270, 17)},
    "inverted": lambda: saved(opened().convert("L").point(lambda v: 255 - v)),
    "in a photograph": photograph,
}  # fmt: skip


@pytest.mark.parametrize("make", PICTURES.values(), ids=PICTURES)
def test_a_picture_of_every_form_is_read(make):
    assert read_picture(make()) == PAYMENT


def two_codes() -> bytes:
    one, other = opened(), opened(make_picture(CODES["login"]).png())
    both = Image.new("L", (one.width + other.width, max(one.height, other.height)), 255)
    both.paste(one, (0, 0))
    both.paste(other, (one.width, 0))
    return saved(both)


def test_several_codes_are_refused_for_none_is_meant_and_all_returned_as_texts():
    assert "2 QR codes" in assert_refused(two_codes(), "qr.several-codes").message
    assert sorted(read_texts(two_codes())) == sorted([PAYMENT.text, CODES["login"].text])


def test_no_code_is_reported():
    picture = saved(Image.new("L", (200, 200), 255))
    assert_refused(picture, "qr.no-code")
    assert read_texts(picture) == ()


@pytest.mark.parametrize(
    ("picture", "code"),
    [
        (saved(opened().crop((0, 0, 160, 328))), "qr.no-code"),
        (encode_text("WIFI:S:x;;").png(), "qr.unknown"),
        (encode_text(PAYMENT.text.replace("LT12", "LT13")).png(), "qr.account"),
        (encode_text(PAYMENT.text + "\u202e").png(), "qr.character"),
        (encode_text(PAYMENT.text + "\n").png(), "qr.character"),
    ],
    ids=["half a code", "another kind", "wrong by its own rule", "hidden character", "line end"],
)
def test_a_picture_of_half_a_code_or_of_another_text_is_refused(picture, code):
    assert_refused(picture, code)


def symbol(content: str, **options) -> bytes:
    out = BytesIO()
    segno.make_qr(content, **options).save(out, kind="png", scale=8)
    return out.getvalue()


def parts(text: str, **options) -> list[Image.Image]:
    """The pictures of a text that is split over several codes."""
    found = []
    for part in segno.make_sequence(text, **options):
        out = BytesIO()
        part.save(out, kind="png", scale=6)
        found.append(opened(out.getvalue()).convert("L"))
    return found


@pytest.mark.parametrize("mask", range(8))
def test_a_part_of_a_text_is_not_mistaken_for_the_whole(mask):
    pictures = parts(CODES["login"].text + "/" + "ab12" * 20, version=3, mask=mask)
    assert len(pictures) > 1
    for picture in pictures:
        turned_by_17 = picture.rotate(17, expand=True, fillcolor=255)
        for changed in (picture, ImageOps.mirror(picture), ImageOps.invert(picture), turned_by_17):
            assert_refused(saved(changed), "qr.part")


def test_a_part_is_known_in_every_size():
    for length, level in product((6, 250, 2400), "LMQH"):
        for picture in parts((PAYMENT.text * 50)[:length], symbol_count=2, error=level):
            assert_refused(saved(picture), "qr.part")


def test_a_whole_text_is_not_a_part_in_any_mask(code):
    ascii_only = code.text.isascii()
    for mask in range(8):
        whole = symbol(code.text, mask=mask, encoding="iso-8859-1" if ascii_only else "utf-8", eci=not ascii_only)
        plain = opened(whole).convert("L")
        for picture in (plain, ImageOps.mirror(plain), ImageOps.invert(plain)):
            assert read_picture(saved(picture)) == code, mask


def test_utf_8_that_is_not_named_is_read():
    assert read_picture(symbol(CODES["letters"].text, encoding="utf-8")) == CODES["letters"]


def test_another_character_set_is_refused():
    for eci in (False, True):
        assert_refused(symbol("TX:é", encoding="iso-8859-15", eci=eci), "qr.charset")
    # C5 BE is ž in UTF-8 and Å¾ in Latin-1, which the code names as its own
    assert_refused(symbol("TX:Å¸", encoding="cp1252", eci=True), "qr.charset")


@pytest.mark.parametrize(
    "data", [b"", b"GIF89a", b"\x89PNG", b"%PDF-1.7", b"<svg/>", saved(opened(), "GIF"), saved(opened(), "BMP")]
)
def test_other_files_are_not_pictures(data):
    assert_refused(data, "qr.picture-malformed")


@pytest.mark.parametrize("data", [PNG, JPEG], ids=["png", "jpeg"])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_a_file_cut_off_is_refused(data, share):
    assert_refused(data[: max(9, int(len(data) * share))], "qr.picture-malformed")


@given(
    st.sampled_from([PNG, JPEG]), st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=6)), max_size=4)
)
def test_only_format_error_escapes(data, changes):
    changed = bytearray(data)
    for place, new in changes:
        at = int(place * len(data))
        changed[at : at + len(new)] = new
    with suppress(FormatError):
        read_texts(bytes(changed))


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def with_chunks(chunks: bytes) -> bytes:
    """The payment code, with chunks before its pixels."""
    inserted = PNG.index(b"IDAT") - 4
    return PNG[:inserted] + chunks + PNG[inserted:]


def png(width: int, height: int, *between: bytes, pixels: bytes = b"", bits: int = 8) -> bytes:
    """A picture in grey."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0))
    chunks = (head, *between, chunk(b"IDAT", zlib.compress(pixels)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def sixteen_bits(dark: int, light: int, *between: bytes) -> bytes:
    """The payment code in grey of 16 bits."""
    grey = opened().convert("L")
    values = [struct.pack(">H", light if value else dark) for value in grey.tobytes()]
    lines = b"".join(b"\0" + b"".join(values[at : at + grey.width]) for at in range(0, len(values), grey.width))
    return png(grey.width, grey.height, *between, pixels=lines, bits=16)


@pytest.mark.parametrize(
    ("dark", "light", "between"),
    [
        (0x2000, 0xE000, ()),
        (0x0100, 0x8000, ()),
        (0x7000, 0xFFFF, ()),
        (0x2000, 0x4000, (chunk(b"tRNS", b"\x40\x00"),)),  # the light is transparent
    ],
)
def test_grey_of_16_bits_is_read_in_its_own_scale(dark, light, between):
    assert read_picture(sixteen_bits(dark, light, *between)) == PAYMENT


def test_a_picture_of_too_long_a_side_is_refused():
    for size in ((65_536, 1), (1, 65_536), (16_000_000, 1)):
        refused = assert_refused(saved(Image.new("1", size, 1)), "qr.picture-too-large")
        assert "65535 for each side" in refused.message, size
    for size in ((1, 1), (1, 5000), (5000, 1), (3, 3), (65_535, 1)):
        assert_refused(saved(Image.new("L", size)), "qr.no-code")


def test_a_picture_of_very_many_chunks_is_refused_at_once():
    with within(4):
        assert_refused(png(8, 8, chunk(b"aaAa", b"") * 1_300_000, pixels=bytes(72)), "qr.picture-too-large")


def test_a_picture_of_many_chunks_is_read():
    assert read_picture(with_chunks(chunk(b"aaAa", b"") * 9_000)) == PAYMENT


@pytest.mark.parametrize(("width", "height"), [(4001, 4000), (10_000, 10_000), (2**31 - 1, 2**31 - 1), (1, 16_000_001)])
def test_a_picture_of_too_many_pixels_is_refused_before_it_is_unpacked(width, height):
    assert_refused(png(width, height), "qr.picture-too-large")


@pytest.mark.parametrize("kind", [b"zTXt", b"iCCP", b"iTXt", b"eXIf"])
def test_nothing_beside_the_pixels_of_a_png_is_unpacked(kind):
    with within(8):
        bomb = chunk(kind, b"a\0\0" + zlib.compress(bytes(1_000_000), 9))
        assert read_picture(with_chunks(bomb * 9_000)) == PAYMENT


def test_a_png_keeps_its_palette_and_what_of_it_is_transparent():
    picture = opened().convert("P")
    picture.info["transparency"] = 0
    png_file = saved(picture)
    assert {b"PLTE", b"tRNS"} <= {kind for kind in (b"PLTE", b"tRNS") if kind in pixels_only(png_file)}
    assert pixels_only(png_file) == png_file


def segment(kind: int, data: bytes) -> bytes:
    return bytes([0xFF, kind]) + struct.pack(">H", 2 + len(data)) + data


@pytest.mark.parametrize(
    "beside",
    [
        segment(0xE1, b"Exif\0\0" + b"x" * 10) * 900_000, segment(0xE1, b"Exif\0\0") * 1_600_000, segment(0xE9, b"") * 4_000_000,
        segment(0xFE, b"") * 4_000_000, segment(0xDB, b"") * 4_000_000, b"\xff\xd8" * 8_000_000,
    ],
    ids=["exif", "empty exif", "applications", "comments", "tables", "beginnings"],
)  # fmt: skip
def test_a_jpeg_of_very_many_segments_is_refused_at_once(beside):
    with within(4):
        assert_refused((JPEG[:2] + beside)[: MAX_PICTURE_BYTES - len(JPEG)] + JPEG[2:], "qr.picture-too-large")


def test_a_jpeg_is_read_whatever_its_other_segments_contain():
    beside = segment(0xE1, b"Exif\0\0" + b"x" * 60_000) * 100 + segment(0xE2, b"ICC_PROFILE\0" + b"y" * 60_000) * 50
    with within(4):
        assert read_picture(JPEG[:2] + beside + b"\xff" * 1_000_000 + JPEG[2:]) == PAYMENT
    assert b"Exif" not in pixels_only(JPEG[:2] + beside + JPEG[2:])


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize("progressive", [False, True])
def test_what_says_how_a_jpegs_colours_are_written_is_kept(mode, progressive):
    jpeg = saved(opened().convert(mode), "JPEG", progressive=progressive)
    assert pixels_only(jpeg) == jpeg
    assert read_picture(jpeg) == PAYMENT


@pytest.mark.parametrize("padding", [b"\0", bytes(10), b"\xff\0", b"\xff\xff", b"pad"])
def test_what_pads_the_segments_of_a_jpeg_is_skipped(padding):
    behind_first = 4 + int.from_bytes(JPEG[4:6], "big")
    assert read_picture(JPEG[:behind_first] + padding + JPEG[behind_first:]) == PAYMENT


@pytest.mark.parametrize(
    "broken",
    [
        b"\xff\xd8\xff",
        b"\xff\xd8\xff\xe1",
        JPEG[:2] + b"\0" + JPEG[2:],
        JPEG[:2] + b"\xff\xe1\0\1" + JPEG[2:],
        JPEG[:30],
    ],
)
def test_a_jpeg_whose_segments_do_not_follow_each_other_is_refused(broken):
    assert_refused(broken + bytes(3), "qr.picture-malformed")


def test_a_file_of_too_many_bytes_is_refused():
    assert_refused(PNG + bytes(MAX_PICTURE_BYTES), "qr.picture-too-large")


def test_a_jpeg_of_too_many_scans_is_refused():
    progressive = saved(Image.effect_noise((64, 64), 50), "JPEG", progressive=True)
    at = progressive.rindex(b"\xff\xda")
    last = progressive[at:-2]
    assert read_texts(progressive) == ()
    assert_refused(progressive[:at] + last * 100 + progressive[-2:], "qr.picture-too-large")


def test_a_film_behind_a_photograph_is_skipped():
    assert read_picture(JPEG + random.Random(1).randbytes(8_000_000)) == PAYMENT


@pytest.mark.parametrize("size", [(0, 0), (0, 8)])
def test_a_picture_without_pixels_is_refused(size):
    assert_refused(png(*size), "qr.picture-malformed")


def test_a_field_of_corner_marks_is_searched_within_the_limit():
    # What looks like the corner of a code is compared with all the others: the time grows with the square of the area.
    corner = opened(symbol("a")).convert("L").crop((32, 32, 88, 88)).resize((14, 14))
    field = Image.new("L", (3999, 3999), 255)
    for x, y in product(range(0, 3980, 18), repeat=2):
        field.paste(corner, (x, y))
    loaded = _load(saved(field))
    assert loaded.width * loaded.height <= 2_100_000
    assert_refused(saved(field), "qr.no-code")


@pytest.mark.parametrize(
    ("size", "searched"),
    [
        ((1920, 1080), (1920, 1080)),
        ((2100, 1001), (1050, 501)),
        ((2800, 2800), (1400, 1400)),
        ((4000, 4000), (1334, 1334)),
    ],
)
def test_large_pictures_are_searched_at_a_fraction_of_their_size(size, searched):
    assert _load(saved(Image.new("L", size))).size == searched
