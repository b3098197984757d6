"""`tppkit qr`, as a user runs it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import resvg_py

from tppkit.qr import make_picture, parse_payment, read_picture

TPPKIT = Path(sys.executable).with_name("tppkit")
TEXT = "TX:LT121000011101001000:Žalia knyga:EUR:12.50:A:Order 4711"
FIELDS = {
    "acc": "LT121000011101001000",
    "name": "Žalia knyga",
    "ccc": "EUR",
    "amt": "12.50",
    "type": "A",
    "msg": "Order 4711",
}
PAYMENT = tuple(word for name, value in FIELDS.items() for word in (f"--{name}", value))
BLOCKS = set(" ▀▄█")


def test_a_payment_is_drawn_and_then_printed(tppkit):
    result = tppkit("qr", "payment", *PAYMENT)
    assert result.exit_code == 0
    assert result.stdout == make_picture(parse_payment(TEXT)).terminal(colour=False) + TEXT + "\n"
    assert result.stderr == ""


def test_each_kind_of_code_as_json(tppkit):
    assert tppkit("qr", "payment", *PAYMENT, "--json").json == {"kind": "payment", "text": TEXT, **FIELDS}
    assert tppkit("qr", "login", "https://shop.example:8443/login/7c1f", "--json").json == {
        "kind": "login", "text": "LOGIN:shop.example:8443/login/7c1f", "url": "https://shop.example:8443/login/7c1f",
        "host": "shop.example", "port": 8443,
    }  # fmt: skip
    link = tppkit("qr", "scan", "https://legacy.example", "LOGIN:shop.example/", "--json").json
    assert link["text"] == "https://legacy.example/scan?LOGIN%3Ashop.example%2F"
    assert (link["kind"], link["service"], link["code"]["url"]) == (
        "scan",
        "https://legacy.example",
        "https://shop.example/",
    )


def test_pictures_are_written_and_read_back(tppkit, tmp_path):
    result = tppkit("qr", "payment", *PAYMENT, "--png", "code.png", "--svg", "code.svg", "--json")
    assert (result.exit_code, result.json["png"], result.json["svg"]) == (0, "code.png", "code.svg")
    rendered = bytes(resvg_py.svg_to_bytes(svg_string=(tmp_path / "code.svg").read_text("utf-8")))
    assert read_picture(rendered).text == TEXT
    assert tppkit("qr", "read", "code.png", "--json").json["text"] == TEXT


def test_with_a_file_only_the_text_is_printed(tppkit):
    result = tppkit("qr", "payment", *PAYMENT, "--svg", "code.svg")
    assert (result.stdout, result.stderr) == (TEXT + "\n", "wrote code.svg\n")


@pytest.mark.parametrize("option", ["--png", "--svg"])
def test_an_existing_file_is_not_overwritten(option, tppkit, tmp_path):
    (tmp_path / "kept").write_text("kept")
    result = tppkit("qr", "login", "https://shop.example/", option, "kept")
    assert result.exit_code == 2
    assert "file.exists" in result.stderr
    assert (tmp_path / "kept").read_text() == "kept"


def test_a_png_on_standard_output_is_read_from_standard_input(tppkit):
    drawn = subprocess.run(
        [TPPKIT, "qr", "login", "https://shop.example/", "--png", "-"], capture_output=True, check=True, timeout=60
    )
    assert tppkit("qr", "read", "-", "--json", stdin=drawn.stdout).json["url"] == "https://shop.example/"


def test_an_svg_on_standard_output_has_no_other_output(tppkit):
    result = tppkit("qr", "login", "https://shop.example/", "--svg", "-")
    assert result.stdout.startswith("<svg ")
    assert result.stdout.endswith("</svg>")


@pytest.mark.parametrize("other", [("--svg", "-"), ("--json",)])
def test_two_results_on_standard_output_are_wrong_usage(tppkit, other):
    result = tppkit("qr", "login", "https://shop.example/", "--png", "-", *other)
    assert (result.exit_code, "only one result" in result.stderr) == (2, True)


def test_the_level_can_be_chosen(tppkit):
    low, high = (tppkit("qr", "payment", *PAYMENT, "--level", level).stdout.splitlines() for level in "LH")
    assert len(low) < len(high)


def test_a_wrong_field_makes_no_code(tppkit, tmp_path):
    result = tppkit("qr", "payment", *PAYMENT, "--type", "a\u202eb", "--png", "code.png", "--json")
    assert (result.exit_code, result.json["error"]["code"]) == (3, "qr.character")
    assert "qr.character" in result.stderr
    assert not (tmp_path / "code.png").exists()


def test_a_text_is_read(tppkit):
    result = tppkit("qr", "read", "LOGIN:shop.example/login")
    assert result.exit_code == 0
    assert result.stdout.split() == [
        "login", "text", "LOGIN:shop.example/login", "url", "https://shop.example/login", "host", "shop.example", "port", "443",
    ]  # fmt: skip


def test_the_code_in_a_scan_link_is_printed_too(tppkit):
    result = tppkit("qr", "read", "https://legacy.example/scan?TX:%2B37060000000:Shop:EUR:1::")
    assert result.stdout.splitlines()[0] == "scan"
    assert "payment" in result.stdout.splitlines()
    assert "+37060000000" in result.stdout


def test_a_text_from_a_file_or_standard_input_is_read(tppkit, tmp_path):
    (tmp_path / "code.txt").write_text(TEXT + "\n", "utf-8")
    (tmp_path / "windows.txt").write_bytes(TEXT.encode() + b"\r\n")
    for result in (
        tppkit("qr", "read", "code.txt", "--json"),
        tppkit("qr", "read", "windows.txt", "--json"),
        tppkit("qr", "read", "-", "--json", stdin=TEXT.encode()),
    ):
        assert result.json["text"] == TEXT


@pytest.mark.parametrize(
    ("argument", "stdin", "code"),
    [
        ("absent.png", b"", "qr.unknown"),
        ("a" * 5000, b"", "qr.unknown"),
        (".", b"", "file.unreadable"),
        ("-", b"", "qr.unknown"),
        ("-", b"\xff\xfe", "qr.unknown"),
        ("-", TEXT.encode() + b"\n\n", "qr.character"),
        ("-", b"\x89PNG\r\n\x1a\n", "qr.picture-malformed"),
        ("-", bytes(16 * 1024 * 1024 + 1), "file.too-large"),
        ("TX:a", b"", "qr.fields"),
        ("HTTPS://legacy.example/scan", b"", "qr.scan-form"),
    ],
)
def test_input_without_a_code_cannot_be_read(argument, stdin, code, tppkit):
    result = tppkit("qr", "read", argument, "--json", stdin=stdin)
    assert (result.exit_code, result.json["error"]["code"]) == (3, code)


Screen = Callable[..., tuple[str, str]]


@pytest.fixture
def on_a_terminal() -> Screen:
    """Run a command whose standard output is a terminal; gives what was drawn there, and standard error."""

    def run(*arguments: str, **environment: str) -> tuple[str, str]:
        ours, its = pty.openpty()
        without = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
        process = subprocess.Popen(
            [TPPKIT, "qr", *arguments],
            stdout=its,
            stderr=subprocess.PIPE,
            env={**without, "COLUMNS": "80", **environment},
        )
        os.close(its)
        drawn = b""
        try:
            while data := os.read(ours, 65536):
                drawn += data
        except OSError:  # how Linux says that nobody writes to the terminal any more
            pass
        os.close(ours)
        _, talk = process.communicate(timeout=60)
        assert process.returncode == 0, talk
        return drawn.decode().replace("\r\n", "\n"), talk.decode()

    return run


def test_a_terminal_gets_black_on_white(on_a_terminal):
    drawn, _ = on_a_terminal("payment", *PAYMENT)
    assert drawn == make_picture(parse_payment(TEXT)).terminal() + TEXT + "\n"


def test_no_color_is_honoured(on_a_terminal):
    drawn, _ = on_a_terminal("payment", *PAYMENT, NO_COLOR="1")
    assert "\033" not in drawn
    assert set(drawn.splitlines()[10]) <= BLOCKS


def test_a_terminal_that_is_too_narrow_gets_the_text_alone(on_a_terminal):
    drawn, talk = on_a_terminal("payment", *PAYMENT, COLUMNS="30")
    assert drawn == TEXT + "\n"
    assert "widen the terminal" in talk


def test_json_on_a_terminal_is_ascii(on_a_terminal):
    drawn, _ = on_a_terminal("payment", *PAYMENT, "--json")
    assert drawn.isascii()
    assert json.loads(drawn)["text"] == TEXT
