"""The log of requests and answers: a line for each request, without secrets, and a limit of lines that repeat."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from tppkit._iban import is_iban
from tppkit.web.log import LimitedHandler

if TYPE_CHECKING:
    from tppkit.sandbox.exchange import Exchange, Observer

_CONNECTIONS = ("tppkit.sandbox.http", "tppkit.sandbox.tls")  # loggers

_MAX_TARGET = 1024  # so that a line fits into the buffer of a pipe
VISIBLE = "".join(map(chr, range(0x21, 0x7F)))  # characters of a target that the log does not percent-encode


def _encoded(text: str) -> str:
    """Return a pattern for a text with characters that may be percent-encoded, also repeatedly, as in /%61pprove/."""
    return "".join(f"(?:{char}|%(?:25)*(?:{ord(char):02x}|{ord(char.upper()):02x}))" for char in text)


_TOKENS = ("ais/", "pis/", "access/")
_SECRETS = ("%", "approve/", "gateway/", "login:", *_TOKENS)
_LINK = re.compile(rf"({_encoded('approve/')}(?:{_encoded('/')})*)[^\s'\"]+", re.IGNORECASE)
_TOKEN = re.compile(rf"((?:{'|'.join(map(_encoded, _TOKENS))})(?:{_encoded('/')})*)[^\s'\"/?]+", re.IGNORECASE)
# A login code. Its host is kept; a comma follows its prefix in an error text.
_LOGIN = re.compile(rf"({_encoded('login:')}[\w.-]*)[^\s\w.,-]\S*", re.IGNORECASE)
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-"
# Pages of the gateway have tokens; calls of the control host have ids instead.
_PAGE = re.compile(
    rf"((?:{_encoded('gateway/orders/')}|{_encoded('gateway/transactions/')}|{_encoded('gateway/links/')})(?:{_encoded('/')})*)"
    rf"(?!{_UUID}[0-9a-f]{{12}}(?![^\s'\"/?]))[^\s'\"/?]+",
    re.IGNORECASE,
)  # fmt: skip
# A card number has 12 digits or more, with at most one separator between two digits, perhaps percent-encoded. Time stamps have fewer
# digits before a letter or colon. Numbers after it are its expiry date and security code, or the rest of a track.
_DIGIT = "(?:[0-9]|%(?:25)*3[0-9])"
_SEPARATORS = " +._\u00a0\u2007-\u2015\u202f-"  # also narrow spaces and dashes, as word processors write them
_CARD = re.compile(
    # Atomic groups: before Python 3.11.5, a possessive quantifier behind a group matches wrongly.
    rf"{_DIGIT}(?>(?:(?:[{_SEPARATORS}]|%(?:25)*(?:[02][0-9a-f]|5f))?{_DIGIT}){{11,}})"
    rf"(?>(?:(?:[^0-9a-z%]|%(?:25)*(?:[02][0-9a-f]|3[a-f]|5[b-f]|7[b-e]))(?>{_DIGIT}+))*)",
    re.IGNORECASE,
)
_MAYBE_CARD = re.compile(f"[0-9{_SEPARATORS}]{{12}}")
_ID = (
    re.compile(  # a UUID, what may be an IBAN, or a text of a distinguished name in hexadecimal (RFC 4514 section 2.4)
        rf"(?<![0-9a-z])(?:{_UUID}[0-9a-f]{{12}}|(?P<iban>[a-z]{{2}}[0-9]{{2}}[0-9a-z]{{11,30}})"
        r"|(?<==)#(?P<der>(?:0c|13|16)[0-7][0-9a-f](?:[0-9a-f]{2}){1,127}))(?![0-9a-z])",
        re.IGNORECASE,
    )
)
_SECRET = re.compile(
    r"authorization|cookie|token|secret|passw|credential|session|assertion|otp|api.?key|(^|[_-])key", re.IGNORECASE
)
_CARD_DATA = re.compile(
    "(?:card)?(?:pan|cv[cv]?|csc|(?:security|verification)(?:code|value|number)|exp(?:iry|iration)?(?:date|month|year)?"
    "|track(?:data)?)|card(?:no|number)?|primaryaccountnumber|receiveraccountnumber"
)
_PUBLIC = frozenset({"keyid"})
_EQUALS = re.compile("(?>(?:=|%(?:25)*3d)+)", re.IGNORECASE)
_MAX_NAME = 96  # characters before an equals sign in which the name of a parameter is looked for
_BEFORE_NAME = re.compile(r"[\s?&;#/,\"'(]")
_VALUE = re.compile(r"[^\s&\"'<>]+")
_TOKEN_HOSTS = frozenset({"legacy", "legacy_live"})  # tokens are in their paths
_LEGACY_TOKEN = re.compile("(?>(?:[0-9a-z]|%(?:25)*(?:3[0-9]|[46][1-9a-f]|[57][0-9a])){20,})", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """Replace secrets in a text by `***`.

    They are the secret part of each approval link, page address and login code, each access token, the value of each parameter (as
    `name=value`) with a name of secrets or card data, and each card number with the numbers after it.
    """
    lower = text.lower()
    if any(word in lower for word in _SECRETS):  # the patterns take ten times as long
        for pattern in (_LINK, _TOKEN, _PAGE, _LOGIN):
            text = pattern.sub(r"\1***", text)
    if "=" in text or "%" in text:
        text = _without_values(text)
    return _without_cards(text) if "%" in text or _MAYBE_CARD.search(text) else text


def is_secret(name: str) -> bool:
    """Whether values with this name (of a header, a field or a parameter) are secrets or card data."""
    plain = re.sub("[^a-z]", "", name.lower())
    return plain not in _PUBLIC and (_SECRET.search(name) is not None or _CARD_DATA.fullmatch(plain) is not None)


@lru_cache
def _ends_secret(text: str) -> bool:
    """Whether a text ends with the name of a secret, perhaps percent-encoded."""
    if "%" in text:
        text = unquote(re.sub("%(?:25)+", "%", text), "latin-1")
    return is_secret(_BEFORE_NAME.split(text)[-1])


def _without_values(text: str) -> str:
    parts, shown, begin = [], 0, 0
    for found in _EQUALS.finditer(text):
        if found.start() < shown:
            continue
        name = text[max(found.start() - _MAX_NAME, begin) : found.start()]
        begin = found.end()
        if _ends_secret(name.rpartition("&")[2]) and (value := _VALUE.match(text, begin)) is not None:
            parts += [text[shown:begin], "***"]
            shown = begin = value.end()
    return "".join([*parts, text[shown:]])


def _is_id(found: re.Match[str]) -> bool:
    if found["iban"] is not None:
        return is_iban(found["iban"].upper())
    if found["der"] is not None:
        raw = bytes.fromhex(found["der"])
        text = raw[2:].decode("latin-1")
        return raw[1] == len(raw) - 2 and text.isprintable() and _CARD.search(text) is None
    return True


def _without_cards(text: str) -> str:
    parts, end = [], 0
    for found in _ID.finditer(text):
        if _is_id(found):
            parts += [_CARD.sub("***", text[end : found.start()]), found[0]]
            end = found.end()
    return "".join([*parts, _CARD.sub("***", text[end:])])


def line_writer(log: Callable[[str], object]) -> Observer:
    """Return an observer that calls `log` with `METHOD target status code fault:NAME`, without secrets and line breaks.

    Code and fault are left out if there are none.
    """

    def write(exchange: Exchange) -> None:
        fault = f"fault:{exchange.fault}" if exchange.fault else ""
        parts = (without_secrets(exchange.method), shown_target(exchange), str(exchange.status), exchange.code, fault)
        with suppress(OSError):  # a closed pipe
            log(" ".join(filter(None, parts)))

    return write


def limited(handler: logging.Handler) -> LimitedHandler:
    """Return a handler that writes at most 20 lines about connections in 30 seconds, and each traceback only once."""
    return LimitedHandler(
        handler, key=lambda record: record.name in _CONNECTIONS or None, most=20, period_s=30.0
    )  # fmt: skip


def shown_target(exchange: Exchange) -> str:
    """Return path and query as printable ASCII, shortened, with secrets and card numbers as `***`.

    If no row of a legacy interface fits, each text that may be an access token is a secret.
    """
    text = exchange.target[:_MAX_TARGET]
    is_visible = text.isascii() and text.isprintable() and " " not in text
    shown = without_secrets(text if is_visible else quote(text.encode("latin-1"), safe=VISIBLE))
    if exchange.row is None and exchange.host in _TOKEN_HOSTS:
        return _LEGACY_TOKEN.sub("***", shown)
    return shown
