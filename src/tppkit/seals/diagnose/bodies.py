"""What senders hash instead of the bytes they send: one row a mistake.

Each row goes from the body that arrived to what may have been hashed. Where a change loses something (white space of JSON),
the usual writers are tried: those of JavaScript, Python, Java, Go and PHP.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tppkit._encoding import encode_base64, parse_json
from tppkit.errors import FormatError
from tppkit.seals.diagnose.mistake import BodyMistake, Part

MAX_JSON_BYTES = 1024 * 1024
MAX_CHANGED_BYTES = 4 * 1024 * 1024  # a longer body is compared as it is

MAX_GZIPPED_BYTES = 256 * 1024

# RFC 1952 section 2.3.1: level, the flags that tell of it, and what is written for the operating system.
_GZIP_WRITERS = ((6, 0, (0, 3, 255)), (9, 2, (3, 255)))
_CODE_PAGES = ("cp1257", "iso8859-13", "cp1250", "iso8859-2", "iso8859-15", "iso8859-4")
_BOM = b"\xef\xbb\xbf"
_GZIP = "Hash the bytes that are sent, compressed or not; better, send the body uncompressed."
_RAW = "Hash the very bytes that are sent: serialise once, keep them, and hand the same bytes to the digest and to the HTTP client."

Apply = Callable[[bytes], Iterable[bytes]]


def _row(name: str, cause: str, apply: Apply, mend: str = _RAW) -> BodyMistake:
    return BodyMistake(name, Part.BODY, cause, mend, apply)


def _one(change: Callable[[bytes], bytes]) -> Apply:
    return lambda body: (change(body),)


def _text(change: Callable[[str], str], *, encoding: str = "utf-8") -> Apply:
    """A change of the text, where the body is one."""

    def apply(body: bytes) -> Iterator[bytes]:
        try:
            yield change(body.decode("utf-8")).encode(encoding)
        except UnicodeError:
            return

    return apply


def _json(*writers: Callable[[Any], str]) -> Apply:
    """The body read as JSON and written again, where it is JSON."""

    def apply(body: bytes) -> Iterator[bytes]:
        try:
            value = parse_json(body.removeprefix(_BOM), what="the body", max_bytes=MAX_JSON_BYTES)
        except FormatError:
            return
        for write in writers:
            try:
                yield write(value).encode("utf-8")
            except (UnicodeError, ValueError, RecursionError):
                continue

    return apply


def _dumps(**options: Any) -> Callable[[Any], str]:
    return lambda value: json.dumps(value, **{"ensure_ascii": False} | options)


_COMPACT = (",", ":")
_compact = _dumps(separators=_COMPACT)


def _pretty_spaced_colon(value: Any) -> str:
    # Jackson's default printer has spaces on both sides of a colon.
    return json.dumps(value, ensure_ascii=False, indent=2, separators=(",", " : "))


def _php(value: Any) -> str:
    return json.dumps(value, separators=_COMPACT).replace("/", "\\/")


def _go(value: Any) -> str:
    text = _compact(value)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def _gson(value: Any) -> str:
    text = _compact(value)
    for mark in "<>&='\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def _gzipped_away(body: bytes) -> Iterator[bytes]:
    """What is inside a compressed body, if that is not too long."""
    if body.startswith(b"\x1f\x8b"):
        reader = zlib.decompressobj(wbits=31)
        try:
            inside = reader.decompress(body, MAX_CHANGED_BYTES)
        except zlib.error:
            return
        if reader.eof:
            yield inside


def _gzipped(body: bytes) -> Iterator[bytes]:
    """The body compressed as usual writers do it without a time: those of Java, Node.js, Python and gzip itself."""
    if not body or len(body) > MAX_GZIPPED_BYTES:
        return
    end = zlib.crc32(body).to_bytes(4, "little") + len(body).to_bytes(4, "little")
    for level, flags, systems in _GZIP_WRITERS:
        writer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
        content = writer.compress(body) + writer.flush()
        for system in systems:
            yield b"\x1f\x8b\x08\0\0\0\0\0" + bytes((flags, system)) + content + end


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    return [_without_nulls(member) for member in value] if isinstance(value, list) else value


def _numbers_from_texts(value: Any) -> Any:
    """Amounts that a serialiser wrote as numbers where the request has texts."""
    if isinstance(value, dict):
        return {name: _numbers_from_texts(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_numbers_from_texts(member) for member in value]
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,14}\.[0-9]{1,3}", value):
        return float(value)
    return value


def _lone_line_feeds(body: bytes) -> bytes:
    return body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _read_lines(body: bytes) -> bytes:
    return _lone_line_feeds(body).removesuffix(b"\n")


def _no_body(body: bytes, *texts: bytes) -> Iterator[bytes]:
    if not body:
        yield from texts


def _added_ends(body: bytes) -> Iterator[bytes]:
    if body:
        yield from (body + b"\n", body + b"\r\n", body + b"\r\n\r\n", body + b"\0")


BODY_MISTAKES: tuple[BodyMistake, ...] = (
    _row("body-braces", "There is no body, and the digest is that of the text {}.",
         lambda body: _no_body(body, b"{}"), "Without a body hash zero bytes, unless the bank's dialect says otherwise."),
    _row("body-null", "There is no body, and the digest is that of a text that stands for nothing (null, \"\", []).",
         lambda body: _no_body(body, b"null", b'""', b"[]", b"undefined", b"None", b"\n", b"\r\n", b" "),
         "Without a body hash zero bytes."),
    _row("body-ignored", "The digest is that of no bytes at all, and there is a body.",
         lambda body: (b"",) if body else (), "Compute the digest after the body was set, from the bytes that are sent."),
    _row("body-crlf-to-lf", "The body has CR LF at its line ends; what was hashed has LF alone.", _one(_lone_line_feeds)),
    _row("body-lf-to-crlf", "The body has LF at its line ends; what was hashed has CR LF.",
         _one(lambda body: _lone_line_feeds(body).replace(b"\n", b"\r\n"))),
    _row("body-newline-dropped", "The body ends with a line break or white space that was not hashed.",
         lambda body: (body.removesuffix(b"\n"), body.removesuffix(b"\r\n"), body.rstrip(b" \t\r\n"))),
    _row("body-newline-added", "What was hashed ends with a line break (or a zero byte) that was not sent.", _added_ends),
    _row("body-read-by-lines", "The body was read line by line and put together again with LF, so its last line end is lost.",
         _one(_read_lines)),
    _row("body-newlines-removed", "What was hashed has no line breaks; the body that arrived has them.",
         lambda body: (body.translate(None, b"\r\n"), re.sub(rb"\r?\n[ \t]*", b"", body)),
         f"curl --data drops the line breaks of a file: use --data-binary. {_RAW}"),
    _row("body-stripped", "White space around the body was not hashed.", _one(bytes.strip)),
    _row("body-bom-dropped", "The body begins with a byte order mark that was not hashed.", _one(lambda b: b.removeprefix(_BOM))),
    _row("body-bom-added", "What was hashed begins with a byte order mark that was not sent.",
         lambda body: () if body.startswith(_BOM) else (_BOM + body,)),
    _row("json-compact", "The body is JSON, and what was hashed is the same JSON without white space (as JSON.stringify writes it).",
         _json(_compact)),
    _row("json-python",
         "The body is JSON, and what was hashed is the same JSON with a space after commas and colons (Python's json.dumps).",
         _json(_dumps(), _dumps(ensure_ascii=True))),
    _row("json-pretty", "The body is JSON, and what was hashed is the same JSON printed over several lines.",
         _json(_dumps(indent=2), _dumps(indent=4), _dumps(indent="\t"), _pretty_spaced_colon, _dumps(indent=3), _dumps(indent=1))),
    _row("json-sorted", "The body is JSON, and what was hashed is the same JSON with its names in alphabetical order.",
         _json(_dumps(sort_keys=True, separators=_COMPACT), _dumps(sort_keys=True), _dumps(sort_keys=True, indent=2),
               _dumps(sort_keys=True, indent=4), _dumps(sort_keys=True, ensure_ascii=True, separators=_COMPACT))),
    _row("json-escaped", "The body is JSON with characters beyond ASCII, and what was hashed has them as \\u escapes.",
         _json(_dumps(ensure_ascii=True, separators=_COMPACT), _dumps(ensure_ascii=True, indent=2), _dumps(ensure_ascii=True, indent=4))),
    _row("json-slashes", "The body is JSON, and what was hashed has its slashes escaped (PHP's json_encode).",
         _json(_php, lambda value: _compact(value).replace("/", "\\/"))),
    _row("json-html-escaped", "The body is JSON, and what was hashed has <, > and & as \\u escapes (Go's encoding/json).", _json(_go)),
    _row("json-html-escaped-gson", "The body is JSON, and what was hashed has <, >, &, = and ' as \\u escapes (Java's Gson).",
         _json(_gson), f"Build Gson with disableHtmlEscaping. {_RAW}"),
    _row("json-nulls-dropped", "The body is JSON, and what was hashed lacks the members that are null.",
         _json(lambda value: _compact(_without_nulls(value)), lambda value: json.dumps(_without_nulls(value), indent=2,
         ensure_ascii=False))),
    _row("json-numbers", "The body is JSON with amounts as texts, and what was hashed has them as numbers.",
         _json(lambda value: _compact(_numbers_from_texts(value)), lambda value: json.dumps(_numbers_from_texts(value)))),
    _row("json-quoted", "The body was serialised twice: what was hashed is the JSON text inside a JSON string.",
         _text(lambda text: json.dumps(text, ensure_ascii=False))),
    _row("json-unquoted", "The body is a JSON string, and what was hashed is the text inside it: one of them was serialised twice.",
         lambda body: (text.encode("utf-8", "replace") for text in _strings_in(body))),
    _row("body-latin-1", "The body is UTF-8, and what was hashed is the same text in Latin-1.",
         lambda body: (*_text(str, encoding="latin-1")(body), *_text(str, encoding="cp1252")(body)),
         "Hash the text in the character set it is sent in; say UTF-8 explicitly where text becomes bytes."),
    _row("body-code-page", "The body is UTF-8, and what was hashed is the same text in a Baltic or Central European character set.",
         lambda body: (changed for name in _CODE_PAGES for changed in _text(str, encoding=name)(body)),
         "Hash the text in the character set it is sent in; say UTF-8 explicitly where text becomes bytes."),
    _row("body-gzip", "The body that arrived is compressed (gzip), and what was hashed is what it holds.", _gzipped_away,
         _GZIP),
    _row("body-gzipped", "The body arrived uncompressed, and what was hashed is the same body compressed (gzip).", _gzipped, _GZIP),
    _row("body-from-latin-1", "The body is Latin-1, and what was hashed is the same text in UTF-8.",
         lambda body: (body.decode("latin-1").encode("utf-8"), body.decode("cp1252", "replace").encode("utf-8")),
         "Send the text in the character set that was hashed; say UTF-8 explicitly where text becomes bytes."),
    _row("body-ascii", "Characters beyond ASCII were replaced (by ? or U+FFFD) in what was hashed.",
         lambda body: (body.decode("utf-8", "replace").encode("ascii", "replace"), body.decode("ascii", "replace").encode("utf-8"),
                       body.decode("utf-8", "replace").encode("utf-8")),
         "Say UTF-8 explicitly where text becomes bytes."),
    _row("body-utf-16", "What was hashed is the text in UTF-16.",
         lambda body: (*_text(str, encoding="utf-16-le")(body), *_text(str, encoding="utf-16-be")(body), *_text(str,
         encoding="utf-16")(body)),
         "Hash the text in UTF-8, as it is sent."),
    _row("body-unicode-form", "What was hashed has its accented letters composed otherwise (Unicode NFC or NFD).",
         lambda body: (*_text(lambda text: unicodedata.normalize("NFC", text))(body), *_text(lambda text: unicodedata.normalize("NFD",
         text))(body))),
    _row("body-base64", "What was hashed is the body in base64.", _one(lambda body: encode_base64(body).encode())),
    _row("body-repr", "What was hashed is how Python prints the body: b'…'.", _one(lambda body: repr(body).encode())),
    _row("digest-twice", "The hash was hashed once more.", lambda body: (hashlib.sha256(body).digest(), hashlib.sha512(body).digest()),
         "Hash the body once; a function that signs or verifies a digest often hashes by itself."),
    _row("digest-of-hex", "The hash was written in hexadecimal, and that text was hashed once more.",
         lambda body: (hashlib.sha256(body).hexdigest().encode(), hashlib.sha256(body).hexdigest().upper().encode()),
         "Hash the body once."),
)  # fmt: skip


def _strings_in(body: bytes) -> Iterator[str]:
    try:
        value = parse_json(body, what="the body", max_bytes=MAX_JSON_BYTES)
    except FormatError:
        return
    if isinstance(value, str):
        yield value


def changed_bodies(body: bytes, *, mistake: BodyMistake) -> Iterator[bytes]:
    """What may have been hashed under one mistake; nothing that equals the body, and nothing twice."""
    seen = {body}
    for changed in mistake.apply(body) if len(body) <= MAX_CHANGED_BYTES else ():
        if changed not in seen:
            seen.add(changed)
            yield changed
