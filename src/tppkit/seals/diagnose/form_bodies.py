"""Bodies of forms (application/x-www-form-urlencoded) as HTTP clients write them anew."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus, unquote_to_bytes

from tppkit.seals.diagnose.json_bodies import RAW
from tppkit.seals.diagnose.mistake import BodyMistake, Part
from tppkit.seals.diagnose.queries import PERCENT, other_orders

MAX_FORM_BYTES = 64 * 1024
_FORM = re.compile(rb"[^\s\"<>{}\[\]\\=]+=[^\s\"<>{}\[\]\\]*")


def _text(body: bytes) -> str | None:
    is_form = len(body) <= MAX_FORM_BYTES and body.isascii() and _FORM.fullmatch(body) is not None
    return body.decode("ascii") if is_form else None


def _reencoded(body: bytes) -> Iterator[bytes]:
    text = _text(body)
    if text is None:
        return
    yield text.replace("+", "%20").encode()
    yield text.replace("%20", "+").encode()
    yield PERCENT.sub(lambda escape: escape[0].lower(), text).encode()
    yield PERCENT.sub(lambda escape: escape[0].upper(), text).encode()
    pairs = [[unquote_to_bytes(part.replace("+", " ")) for part in pair.split("=", 1)] for pair in text.split("&")]
    for write in (quote_plus, quote, lambda part: quote(part, safe="")):
        yield "&".join(["=".join(map(write, pair)) for pair in pairs]).encode()
    yield b"&".join([b"=".join(pair) for pair in pairs])


def _reordered(body: bytes) -> Iterator[bytes]:
    text = _text(body)
    if text is not None:
        yield from (order.encode() for order in other_orders(text))


FORM_BODY_MISTAKES: tuple[BodyMistake, ...] = (
    BodyMistake("form-encoded-otherwise", Part.BODY, "The body is a form, and what was hashed has its characters encoded otherwise (+ or "
                "%20, letters of escapes, more or fewer escapes).", RAW, _reencoded),
    BodyMistake("form-order", Part.BODY, "The body is a form, and what was hashed has its fields in another order.", RAW, _reordered),
)  # fmt: skip
