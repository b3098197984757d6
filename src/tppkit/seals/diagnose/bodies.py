"""Why a digest does not fit the body: how it may be written, and what senders hash instead of the bytes they send.

Each row leads from the body that arrived to what may have been hashed. JSON is written again with its texts and numbers exactly as
they arrived, so an amount that was altered is never explained as white space; escapes that differ are rows of their own.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

from tppkit._encoding import parse_json
from tppkit.errors import FormatError
from tppkit.seals.diagnose.encodings import decode_any
from tppkit.seals.diagnose.signatures import HASHES, digest_by

MAX_CHANGED_BYTES = 4 * 1024 * 1024  # a longer body is compared as it is
MAX_JSON_BYTES = 1024 * 1024
_MAX_WRITTEN = 24 * 1024 * 1024  # bytes of all changes of one body

_MAX_SIGNED = 256 * 1024

# The names without hyphens; RFC 3230 calls SHA-1 `SHA`.
_ALGORITHMS: Mapping[str, str] = MappingProxyType({"SHA": "SHA-1"} | {name.replace("-", ""): name for name in HASHES})

_BOM = b"\xef\xbb\xbf"
_COMPACT = (",", ":")
# A text with its escapes.
_TEXT = re.compile(r'"((?>(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*))"')
_WRITTEN = re.compile(r'\\(["\\])')
_ESCAPE_OR_SLASH = re.compile(r"\\.|/")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_HTML, _GSON = re.compile("[<>&\u2028\u2029]"), re.compile("[<>&='\u2028\u2029]")

Apply = Callable[[bytes], Iterable[bytes]]
Change = Callable[[str], str]


def changed_bodies(body: bytes) -> Iterator[tuple[str, bytes]]:
    """The bytes that may have been hashed under each mistake, without the body itself and without repetitions."""
    seen, written = {body}, 0
    for mistake, apply in BODY_MISTAKES.items() if len(body) <= MAX_CHANGED_BYTES else ():
        for changed in apply(body):
            if changed not in seen:
                seen.add(changed)
                written += len(changed)
                if written > _MAX_WRITTEN:
                    return
                yield mistake, changed


# ---- character sets and compression


def _latin_1(body: bytes) -> Iterator[bytes]:
    for name in ("latin-1", "cp1252"):
        try:
            text = body.decode("utf-8").encode(name)
        except UnicodeError:
            continue
        try:
            text.decode("utf-8")  # then it was not Latin-1, but had been encoded twice
        except UnicodeError:
            yield text


def _decompressed(body: bytes) -> Iterator[bytes]:
    if body.startswith(b"\x1f\x8b"):
        reader = zlib.decompressobj(wbits=31)
        try:
            inside = reader.decompress(body, MAX_CHANGED_BYTES)
        except zlib.error:
            return
        if reader.eof:
            yield inside


def _line_feeds(body: bytes) -> bytes:
    return body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


# ---- JSON


class _Document:
    """A JSON value whose texts keep their escapes, and whose numbers are texts between two marks that no text of the body contains."""

    def __init__(self, value: Any, mark: str) -> None:
        self.value = value
        self.mark = mark

    def write(self, **options: Any) -> bytes:
        """The document as `json.dumps` writes it with these options."""
        written = json.dumps(self.value, ensure_ascii=False, **options)
        if "\\" in written:
            written = _WRITTEN.sub(r"\1", written)
        return written.replace(f'"{self.mark}', "").replace(f'{self.mark}"', "").encode("utf-8")


def _read(body: bytes) -> _Document | None:
    if len(body) > MAX_JSON_BYTES:
        return None
    mark = hashlib.sha256(body).hexdigest()[:24]  # no text of the body can contain a hash of the whole body
    try:
        raw = body.removeprefix(_BOM)
        raw = _TEXT.sub(_with_escapes_kept, raw.decode()).encode() if b"\\" in raw else raw
        value = parse_json(
            raw, what="the body", max_bytes=2 * MAX_JSON_BYTES, number=lambda text: f"{mark}{text}{mark}"
        )
    except (FormatError, UnicodeError):
        return None
    return _Document(value, mark)


def _with_escapes_kept(text: re.Match[str]) -> str:
    return json.dumps(text[1], ensure_ascii=False) if "\\" in text[1] else text[0]


def _serialised(*all_options: dict[str, Any], value: Callable[[Any], Any] = lambda value: value) -> Apply:
    """The body written again, where it is JSON."""

    def apply(body: bytes) -> Iterator[bytes]:
        document = _read(body)
        if document is None:
            return
        changed = _Document(value(document.value), document.mark)
        for options in all_options:
            try:
                yield changed.write(**options)
            except (UnicodeError, ValueError, RecursionError):
                continue

    return apply


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    return [_without_nulls(member) for member in value] if isinstance(value, list) else value


def _escapes(*changes: Change) -> Apply:
    """Changes of the text of a body that is JSON."""

    def apply(body: bytes) -> Iterator[bytes]:
        if _read(body) is not None:
            text = body.decode("utf-8")
            yield from (changed.encode("utf-8") for change in changes if (changed := change(text)) != text)

    return apply


def _escaping(characters: re.Pattern[str]) -> Change:
    return lambda text: characters.sub(lambda character: f"\\u{ord(character[0]):04x}", text)


def _slashes(text: str) -> str:
    return _ESCAPE_OR_SLASH.sub(lambda match: "\\/" if match[0] == "/" else match[0], text)


def _beyond_ascii(text: str) -> str:
    return _BEYOND_ASCII.sub(lambda character: json.dumps(character[0])[1:-1], text)


def _as_php(text: str) -> str:
    """The text with its slashes and all beyond ASCII escaped; without a slash unchanged, for then `json-escaped` is the cause."""
    slashed = _slashes(text)
    return text if slashed == text else _beyond_ascii(slashed)


_pretty = _serialised({"indent": 2}, {"indent": 4}, {"indent": "\t"}, {"indent": 2, "separators": (",", " : ")})


def _with_line_ends(body: bytes) -> Iterator[bytes]:
    for text in (written for written in _pretty(body) if written.translate(None, b"\n") == body):
        yield from (text, text + b"\n", (lines := text.replace(b"\n", b"\r\n")), lines + b"\r\n")


# What was done to the body that arrived, by the names of `mistakes.toml`: the bytes that may have been hashed then.
BODY_MISTAKES: Mapping[str, Apply] = MappingProxyType({
    "body-ignored": lambda body: (b"",) if body else (),
    "body-braces": lambda body: () if body else (b"{}", b"null", b'""', b"[]", b"undefined", b"None", b"\n"),
    "body-crlf-to-lf": lambda body: (_line_feeds(body),),
    "body-lf-to-crlf": lambda body: (_line_feeds(body).replace(b"\n", b"\r\n"),),
    "body-newline-dropped": lambda body: (body.removesuffix(b"\n"), body.removesuffix(b"\r\n"), body.rstrip(b" \t\r\n")),
    "body-newline-added": lambda body: (body + b"\n", body + b"\r\n") if body else (),
    "body-newlines-removed": lambda body: (body.translate(None, b"\r\n"),),
    "body-newlines-lost": _with_line_ends,
    "body-bom-dropped": lambda body: (body.removeprefix(_BOM) if body.startswith(_BOM) else _BOM + body,),
    "json-escaped": _escapes(_beyond_ascii),
    "json-slashes": _escapes(_slashes, _as_php),
    "json-html-escaped": _escapes(_escaping(_HTML), _escaping(_GSON)),
    "json-compact": _serialised({"separators": _COMPACT}),
    "json-python": _serialised({}),
    "json-pretty": _pretty,
    "json-sorted": _serialised(
        *[{"sort_keys": True, **options} for options in ({"separators": _COMPACT}, {}, {"indent": 2}, {"indent": 4})]
    ),
    "json-nulls-dropped": _serialised({"separators": _COMPACT}, {}, {"indent": 2}, value=_without_nulls),
    "body-latin-1": _latin_1,
    "body-gzip": _decompressed,
    "digest-twice": lambda body: (hashlib.sha256(body).digest(), hashlib.sha512(body).digest()),
    "digest-of-hex": lambda body: (
        hashlib.sha256(body).hexdigest().encode(), hashlib.sha256(body).hexdigest().upper().encode(),
    ),
})  # fmt: skip


# ---- the digest


class DigestFinding(NamedTuple):
    """Why a digest does not fit.

    Attributes:
        mistakes: their names; together they lead to the digest.
        hashed: the bytes that were hashed.
        algorithm: the hash that was used.
    """

    mistakes: tuple[str, ...]
    hashed: bytes
    algorithm: str


class _Reading(NamedTuple):
    mistakes: tuple[str, ...]
    algorithm: str
    raw: bytes


def explain_digest(value: str, body: bytes) -> DigestFinding | None:
    """The mistakes that lead to this digest, with at most one change of the body.

    Args:
        value: the header's value as received; if it has several algorithms, all of them must be of the same bytes.
        body: as received.
    """
    parts = tuple([tuple(_readings(part)) for part in _judged_parts(value)])
    algorithms = {one.algorithm for part in parts for one in part}
    for change, candidate in chain([(None, body)], changed_bodies(body)):
        hashes = {name: digest_by(name, candidate) for name in algorithms}
        fitting = [[one for one in part if hashes[one.algorithm] == one.raw][:1] for part in parts]
        if all(fitting):
            found = dict.fromkeys([mistake for (one,) in fitting for mistake in one.mistakes])
            return DigestFinding((*((change,) if change else ()), *found), candidate, fitting[0][0].algorithm)
    return None


def _judged_parts(value: str) -> tuple[str, ...]:
    """The parts that a verifier compares: those of SHA-256 and SHA-512, or every part if neither is there."""
    parts = tuple(dict.fromkeys([part.strip(" \t") for part in value[:4096].split(",")[:8]]))
    return tuple([part for part in parts if part.upper().startswith(("SHA-256=", "SHA-512="))]) or parts


def _readings(part: str) -> Iterator[_Reading]:
    name, separator, encoded = part.partition("=")
    label = _ALGORITHMS.get(name.upper().replace("-", "").replace("_", ""))
    names: list[str] = []
    if label is None or not separator:
        label, encoded, names = None, part, ["digest-bare"]
    elif name.upper() not in (*HASHES, "SHA"):
        names = ["digest-name"]
    if len(encoded) > 2 and encoded[0] == encoded[-1] and encoded[0] in ":'\"":
        encoded, names = encoded[1:-1], [*names, "digest-in-colons"]
    for decoded in decode_any(encoded):
        algorithm = next((name for name, row in HASHES.items() if row.digest_size == len(decoded.raw)), None)
        if algorithm is not None:
            more = ["digest-label"] * (label not in (None, algorithm))
            more += ["digest-weak"] * (algorithm not in ("SHA-256", "SHA-512"))
            more += [f"digest-{decoded.name}"] * bool(decoded.name)
            yield _Reading((*names, *more), algorithm, decoded.raw)


def possible_bodies(body: bytes) -> Iterator[bytes]:
    """The bodies whose digest may have been signed instead of the one that was sent: the body, and one change of it."""
    yield body
    yield from (changed for _, changed in signed_bodies(body))


def signed_bodies(body: bytes) -> Iterator[tuple[str, bytes]]:
    """The bodies that may have been signed in place of the one that was sent, each with its mistake; none for a long body."""
    if len(body) <= _MAX_SIGNED:
        yield from changed_bodies(body)
