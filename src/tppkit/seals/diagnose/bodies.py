"""What senders hash instead of the bytes they send: one row a mistake.

Each row goes from the body that arrived to what may have been hashed. The rows of JSON and of forms stand in modules of their own.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator

from tppkit._encoding import encode_base64, parse_json
from tppkit.errors import FormatError
from tppkit.seals.diagnose.coded_bodies import CODED_BODY_MISTAKES
from tppkit.seals.diagnose.form_bodies import FORM_BODY_MISTAKES
from tppkit.seals.diagnose.json_bodies import BOM, JSON_MISTAKES, MAX_JSON_BYTES, RAW
from tppkit.seals.diagnose.json_escapes import JSON_ESCAPES
from tppkit.seals.diagnose.mistake import MAX_CHANGED_BYTES, BodyMistake, Part

_LATIN = ("latin-1", "cp1252")
_CODE_PAGES = ("cp1257", "iso8859-13", "cp1250", "iso8859-2", "iso8859-15", "iso8859-4")
_CHARACTER_SET = "Hash the text in the character set it is sent in; say UTF-8 explicitly where text becomes bytes."

Apply = Callable[[bytes], Iterable[bytes]]


def _row(name: str, cause: str, apply: Apply, mend: str = RAW) -> BodyMistake:
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


def _lone_line_feeds(body: bytes) -> bytes:
    return body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _read_lines(body: bytes) -> bytes:
    return _lone_line_feeds(body).removesuffix(b"\n")


def _is_utf_8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeError:
        return False
    return True


def _in_character_sets(body: bytes, names: Iterable[str]) -> Iterator[bytes]:
    """The text of the body in these character sets; what is UTF-8 even so was no text in one of them."""
    for name in names:
        yield from (text for text in _text(str, encoding=name)(body) if not _is_utf_8(text))


def _encoded_again(body: bytes, character_set: str) -> Iterator[bytes]:
    """UTF-8 taken for text in another character set, and encoded once more."""
    try:
        twice = body.decode(character_set).encode("utf-8")
    except UnicodeError:
        return
    if _is_utf_8(body):
        yield twice


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
         f"curl --data drops the line breaks of a file: use --data-binary. {RAW}"),
    _row("body-stripped", "White space around the body was not hashed.", _one(bytes.strip)),
    _row("body-bom-dropped", "The body begins with a byte order mark that was not hashed.", _one(lambda b: b.removeprefix(BOM))),
    _row("body-bom-added", "What was hashed begins with a byte order mark that was not sent.",
         lambda body: () if body.startswith(BOM) else (BOM + body,)),
    *JSON_ESCAPES,
    *JSON_MISTAKES,
    *FORM_BODY_MISTAKES,
    _row("json-quoted", "The body was serialised twice: what was hashed is the JSON text inside a JSON string.",
         _text(lambda text: json.dumps(text, ensure_ascii=False))),
    _row("json-unquoted", "The body is a JSON string, and what was hashed is the text inside it: one of them was serialised twice.",
         lambda body: (text.encode("utf-8", "replace") for text in _strings_in(body))),
    _row("body-utf-8-twice", "The body is UTF-8, and what was hashed was encoded as UTF-8 once more (PHP's utf8_encode of what is UTF-8).",
         lambda body: (twice for name in (*_LATIN, *_CODE_PAGES) for twice in _encoded_again(body, name)),
         f"Turn text into bytes once. {RAW}"),
    _row("body-sent-utf-8-twice", "The body was encoded as UTF-8 twice, and what was hashed is the text encoded once.",
         lambda body: (once for name in (*_LATIN, *_CODE_PAGES) for once in _text(str, encoding=name)(body) if _is_utf_8(once)),
         f"Turn text into bytes once: the body that was sent has the wrong letters. {RAW}"),
    _row("body-latin-1", "The body is UTF-8, and what was hashed is the same text in Latin-1.",
         lambda body: _in_character_sets(body, _LATIN), _CHARACTER_SET),
    _row("body-code-page", "The body is UTF-8, and what was hashed is the same text in a Baltic or Central European character set.",
         lambda body: _in_character_sets(body, _CODE_PAGES), _CHARACTER_SET),
    *CODED_BODY_MISTAKES,
    _row("body-from-latin-1", "The body is Latin-1, and what was hashed is the same text in UTF-8.",
         lambda body: () if _is_utf_8(body) else (body.decode(name, "replace").encode("utf-8") for name in _LATIN),
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
