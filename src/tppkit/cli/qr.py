"""`tppkit qr`: make and read login codes, payment codes and scan links."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import click

from tppkit._files import write_new
from tppkit.cli.output import Raw, Result, fact_lines, json_option, read_input, say
from tppkit.errors import FormatError
from tppkit.qr import Code, Level, Login, Payment, Picture, ScanLink, make_picture, parse_code, read_picture
from tppkit.qr.code import is_code
from tppkit.qr.payment import parse_amount
from tppkit.qr.picture_file import is_picture
from tppkit.qr.reading import MAX_PICTURE_BYTES


@click.group()
def qr() -> None:
    """Make and read login codes, payment codes and scan links."""


def _drawing(command: Callable[..., Code]) -> Callable[..., int]:
    """Add the options of a picture to a command, and draw the code that it returns."""

    @click.option("--png", metavar="FILE", help="Write the picture as PNG; - is standard output.")
    @click.option("--svg", metavar="FILE", help="Write the picture as SVG; - is standard output.")
    @click.option(
        "--level",
        type=click.Choice([level.value for level in Level]),
        default="M",
        show_default=True,
        help="Damage that the picture tolerates: 7, 15, 25 or 30 percent.",
    )
    @json_option
    @wraps(command)
    def draw(png: str | None, svg: str | None, level: str, **options: Any) -> Result:
        code = command(**options)
        as_json = click.get_current_context().params["as_json"]
        if "-" in (png, svg) and (as_json or png == svg):
            raise click.UsageError("only one result can go to standard output")
        picture = make_picture(code, level=Level(level)) if png or svg or not as_json else None
        if picture and png:
            _write(png, picture.png())
        if picture and svg:
            _write(svg, picture.svg().encode())
        shown = [] if "-" in (png, svg) else [code.text]
        if picture and not (png or svg):
            shown = [*_terminal_lines(picture), *shown]
        return Result(_object(code) | {name: file for name, file in (("png", png), ("svg", svg)) if file}, shown)

    return draw  # fmt: skip


@qr.command()
@click.argument("url")
@_drawing
def login(url: str) -> Code:
    """Make a login code for the callback address URL: LOGIN:<address without https://>."""
    return Login(url)


@qr.command()
@click.option("--acc", required=True, help="The receiver's IBAN or phone number.")
@click.option("--name", required=True, help="The receiver; may be empty.")
@click.option("--ccc", required=True, help="The currency, ISO 4217.")
@click.option("--amt", required=True, help="The amount in the major unit, such as 12.50.")
@click.option("--type", "kind", default="", help="The type.")
@click.option("--msg", default="", help="The message.")
@_drawing
def payment(acc: str, name: str, ccc: str, amt: str, kind: str, msg: str) -> Code:
    """Make a payment code: TX:<ACC>:<NAME>:<CCC>:<AMT>:<TYPE>:<MSG>. No field may contain a colon."""
    return Payment(account=acc, name=name, currency=ccc, amount=parse_amount(amt), type=kind, message=msg)


@qr.command()
@click.argument("service")
@click.argument("code")
@_drawing
def scan(service: str, code: str) -> Code:
    """Make a scan link: a link to the service's base address SERVICE with the text CODE."""
    return ScanLink(service, code)


@qr.command()
@click.argument("text_or_image")
@json_option
def read(text_or_image: str) -> Result:
    """Read a code: its text, or a PNG or JPEG file, or a file with the text; - is standard input.

    The address of a login code is untrusted data; nothing is fetched.
    """
    found = _object(_read(text_or_image))
    return Result(found, _lines(found))


def _lines(found: dict[str, Any]) -> Iterator[str]:
    facts = {name: str(value) for name, value in found.items() if name not in ("kind", "code")}
    yield found["kind"]
    yield from fact_lines(facts.items())
    if found.get("code"):
        yield from _lines(found["code"])


def _read(text_or_image: str) -> Code:
    if is_code(text_or_image):
        return parse_code(text_or_image)
    if text_or_image != "-" and not os.path.exists(text_or_image):
        raise FormatError("qr.unknown", "the argument is neither a login code, payment code or scan link nor a file")
    data = read_input(text_or_image, max_bytes=MAX_PICTURE_BYTES)
    if is_picture(data):
        return read_picture(data)
    try:
        return parse_code(data.decode("utf-8").removesuffix("\n").removesuffix("\r"))
    except UnicodeDecodeError:
        raise FormatError("qr.unknown", "the input is neither a PNG or JPEG file nor UTF-8 text") from None


def _write(file: str, data: bytes) -> None:
    if file == "-":
        sys.stdout.buffer.write(data)
    else:
        write_new(Path(file), data)
        say(f"wrote {file}")


def _terminal_lines(picture: Picture) -> list[Raw]:
    terminal = sys.stdout.isatty()
    if terminal and picture.width > shutil.get_terminal_size().columns:
        say(f"the picture needs {picture.width} columns; widen the terminal, or use --png or --svg")
        return []
    text = picture.terminal(colour=terminal and click.get_current_context().color is not False)
    return [Raw(line) for line in text.splitlines()]


def _object(code: Code) -> dict[str, Any]:
    match code:
        case Login():
            return {"kind": "login", "text": code.text, "url": code.url, "host": code.host, "port": code.port}
        case Payment():
            fields = {"acc": code.account, "name": code.name, "ccc": code.currency, "amt": str(code.amount)}
            return {"kind": "payment", "text": code.text, **fields, "type": code.type, "msg": code.message}
        case ScanLink():
            inner = None if code.code is None else _object(code.code)
            fields = {"service": code.service, "content": code.content}
            return {"kind": "scan", "text": code.text, **fields, "code": inner}
