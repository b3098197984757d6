"""Mistakes in the signing string as a whole, and other bytes that were signed in its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from tppkit._encoding import decode_base64, encode_base64, encode_base64url
from tppkit.errors import FormatError
from tppkit.seals.diagnose.bodies import BODY_MISTAKES, changed_bodies
from tppkit.seals.diagnose.draft import Draft, Seen
from tppkit.seals.diagnose.hashes import KNOWN
from tppkit.seals.diagnose.mistake import Part, StringMistake

_MAX_BODY = 256 * 1024
_INDENTS = ("    ", "  ", "\t", " " * 8, " " * 6, " " * 12, " " * 16, "\t\t", " " * 10)
_JOIN = "Join the lines by one line feed, without one after the last."
_ONCE = "Give the signing string itself to the function that signs; it hashes by itself."

Apply = Callable[[Draft, Seen], Iterator[Draft]]


def _printed(form: str) -> Callable[[bytes], bytes]:
    """The SHA-256 in hexadecimal, as a tool prints it."""
    return lambda data: form.format(KNOWN["SHA-256"].digest(data).hex()).encode()


# What was done to the bytes before they were signed.
WHOLE: Mapping[str, Callable[[bytes], bytes]] = MappingProxyType(
    {
        "sha256": KNOWN["SHA-256"].digest,
        "sha512": KNOWN["SHA-512"].digest,
        "sha1": KNOWN["SHA-1"].digest,
        "sha384": KNOWN["SHA-384"].digest,
        "sha256 in hexadecimal": _printed("{}"),
        "sha256 in hexadecimal and a line feed": _printed("{}\n"),
        "sha256 in capital hexadecimal": lambda data: KNOWN["SHA-256"].digest(data).hex().upper().encode(),
        "sha512 in hexadecimal": lambda data: KNOWN["SHA-512"].digest(data).hex().encode(),
        "sha256 as sha256sum prints it": _printed("{}  -\n"),
        "sha256 as openssl prints it": _printed("SHA2-256(stdin)= {}\n"),
        "sha256 as openssl 3.0 prints it": _printed("SHA256(stdin)= {}\n"),
        "sha256 as openssl 1.1 prints it": _printed("(stdin)= {}\n"),
        "sha256 in base64": lambda data: encode_base64(KNOWN["SHA-256"].digest(data)).encode(),
        "sha256 in base64 and a line feed": lambda data: encode_base64(KNOWN["SHA-256"].digest(data)).encode() + b"\n",
        "sha512 in base64": lambda data: encode_base64(KNOWN["SHA-512"].digest(data)).encode(),
        "base64": lambda data: encode_base64(data).encode(),
        "hexadecimal": lambda data: data.hex().encode(),
        "lower case": bytes.lower,
        "capitals": bytes.upper,
    }
)


def _row(
    name: str, cause: str, apply: Apply, mend: str, *, common: bool = False, likely: int = 4, of_bytes: bool = False
) -> StringMistake:
    return StringMistake(name, Part.STRING, cause, mend, apply, common, likely, of_bytes)


def _after(*texts: str) -> Apply:
    return lambda draft, seen: (draft._replace(after=text) for text in texts)


def _before(*texts: str) -> Apply:
    return lambda draft, seen: (draft._replace(before=text) for text in texts)


def _joined(*texts: str) -> Apply:
    return lambda draft, seen: (draft._replace(joiner=text) for text in texts)


def _encoded(*names: str) -> Apply:
    return lambda draft, seen: (draft._replace(encoding=name) for name in names)


def _hashed(*names: str) -> Apply:
    def apply(draft: Draft, seen: Seen) -> Iterator[Draft]:
        if not draft.hashed:
            yield from (draft._replace(hashed=name) for name in names)

    return apply


def _signed_body(draft: Draft, seen: Seen) -> Iterator[Draft]:
    if seen.message.body:
        yield from draft.replaced(seen.message.body)
        for mistake in BODY_MISTAKES if len(seen.message.body) <= _MAX_BODY else ():
            for body in changed_bodies(seen.message.body, mistake=mistake):
                yield from draft.replaced(body)


def _signed_digest(draft: Draft, seen: Seen) -> Iterator[Draft]:
    value = seen.values.get(seen.digest_name)
    if value is None:
        return
    encoded = value.partition("=")[2]
    for text in (value, encoded, f"{seen.digest_name}: {value}", f"{seen.digest_name.title()}: {value}"):
        yield from draft.replaced(text.encode("latin-1", "replace"))
    try:
        yield from draft.replaced(decode_base64(encoded.strip(":"), what="the digest"))
    except FormatError:
        return


def _string_and_body(draft: Draft, seen: Seen) -> Iterator[Draft]:
    if draft.instead is None and 0 < len(seen.message.body) <= _MAX_BODY:
        for between in (b"\n", b"", b"\n\n", b"\r\n", b"\r\n\r\n"):
            yield draft._replace(instead=draft.text() + between + seen.message.body)


def _as_object(draft: Draft, seen: Seen) -> Iterator[Draft]:
    lines = {line.component: line.value for line in draft.lines}
    for text in (
        json.dumps(lines, ensure_ascii=False),
        json.dumps(lines, ensure_ascii=False, separators=(",", ":")),
        json.dumps(lines, ensure_ascii=False, indent=2),
        json.dumps(lines, ensure_ascii=False, indent=4),
        str(lines),
    ):
        yield from draft.replaced(text.encode("latin-1", "replace"))


def _indented(draft: Draft, seen: Seen) -> Iterator[Draft]:
    alone = [draft._replace(joiner=draft.joiner + blanks) for blanks in _INDENTS]
    yield from alone
    for blanks, indented in zip(_INDENTS, alone, strict=True):
        yield indented._replace(before=blanks)
        yield from (
            indented._replace(before=f"\n{blanks}", after=f"\n{end}")
            for end in ("", blanks[: len(blanks) // 2], blanks)
        )


def _target_and_body(draft: Draft, seen: Seen) -> Iterator[Draft]:
    body, target = seen.message.body, seen.message.target.encode("latin-1", "replace")
    method = seen.message.method.encode("latin-1", "replace")
    for text in (target + body, method + target + body, method + b" " + target + b"\n" + body):
        yield from draft.replaced(text)


def _payload_encoded(draft: Draft, seen: Seen) -> Iterator[Draft]:
    """As a JSON Web Signature is signed without b64=false."""
    if draft.prefix and draft.instead is None:
        lines = draft._replace(prefix="").text()
        yield draft._replace(instead=f"{draft.prefix}{encode_base64url(lines)}".encode("ascii"))
        if seen.message.body:
            yield draft._replace(instead=f"{draft.prefix}{encode_base64url(seen.message.body)}".encode("ascii"))


def _without_protected(draft: Draft, seen: Seen) -> Iterator[Draft]:
    if draft.prefix:
        yield draft._replace(prefix="")
        yield draft._replace(prefix=draft.prefix.removesuffix("."))


def _both_ends(draft: Draft, seen: Seen) -> Iterator[Draft]:
    yield draft._replace(joiner="\r\n")
    yield draft._replace(joiner="\r\n", after="\r\n")
    yield draft._replace(joiner="\r")


STRING_MISTAKES: tuple[StringMistake, ...] = (
    _row("string-newline-after", "A line feed stands after the last line of what was signed.", _after("\n", "\n\n"), _JOIN, common=True),
    _row("string-crlf-after", "CR LF stands after the last line of what was signed.", _after("\r\n", "\r", "\r\n\r\n"), _JOIN, common=True),
    _row("string-newline-before", "A line break or space stands before the first line of what was signed.",
         _before("\n", "\r\n", " "), _JOIN),
    _row("string-crlf", "The lines were joined by CR LF instead of LF.", _both_ends, _JOIN, common=True),
    _row("string-joined-otherwise", "The lines were not joined by line feeds.",
         _joined("", " ", ", ", ",", "\\n", "\\r\\n", "&", ";", "; ", "\n\n", "|"), _JOIN, common=True),
    _row("lines-indented", "Lines begin with white space in what was signed, as in a text that is indented in a program.",
         _indented, _JOIN),
    _row("string-space-after", "A space or zero byte stands after the last line of what was signed.", _after(" ", "\0", "\t"), _JOIN),
    _row("string-bom", "A byte order mark stands before what was signed.", _before("ï»¿"), "Turn text into bytes without a mark."),
    _row("string-utf-16", "The signing string was turned into bytes as UTF-16.", _encoded("utf-16-le", "utf-16-be", "utf-16"),
         "Turn the signing string into bytes one by one (ASCII)."),
    _row("string-utf-8", "A value beyond ASCII was turned into bytes as UTF-8 of Latin-1.", _encoded("utf-8"),
         "Sign header values as the bytes that are sent; better, send ASCII."),
    _row("string-quoted", "Quotes stand around what was signed.", lambda draft, seen: iter((draft._replace(before='"', after='"'),)),
         "Sign the text alone."),
    _row("hashed-first", "The signature is over the hash of the signing string: it was hashed twice.",
         _hashed("sha256", "sha512", "sha1", "sha384"), _ONCE, of_bytes=True, common=True),
    _row("hashed-first-as-hex", "The signature is over the hash of the signing string in hexadecimal text.",
         _hashed("sha256 in hexadecimal", "sha256 in hexadecimal and a line feed", "sha256 in capital hexadecimal", "sha512 in hexadecimal",
                 "sha256 as sha256sum prints it", "sha256 as openssl prints it", "sha256 as openssl 3.0 prints it",
                 "sha256 as openssl 1.1 prints it"), _ONCE, of_bytes=True, common=True),
    _row("hashed-first-as-base64", "The signature is over the hash of the signing string in base64 text.",
         _hashed("sha256 in base64", "sha256 in base64 and a line feed", "sha512 in base64"), _ONCE, of_bytes=True),
    _row("string-encoded", "The signing string was encoded (base64 or hexadecimal) before it was signed.", _hashed("base64",
         "hexadecimal"), _ONCE, of_bytes=True),
    _row("string-lower-case", "The whole signing string was written in lower case before it was signed.", _hashed("lower case"),
         "Only the names of headers and the method are in lower case."),
    _row("string-upper-case", "The whole signing string was written in capitals before it was signed.", _hashed("capitals"),
         "Only values have capitals, those that are sent."),
    _row("jws-payload-encoded", "The lines (or the body) were signed in base64url, as a JSON Web Signature has its payload otherwise.",
         _payload_encoded, "Sign the encoded protected header, a point, and the lines as they are."),
    _row("jws-header-not-signed", "The JSON Web Signature's protected header, or the point behind it, is missing from what was signed.",
         _without_protected, "Sign the encoded protected header, a point, and the lines."),
    _row("signed-digest-alone", "Only the digest was signed, not the signing string.", _signed_digest,
         "Sign the lines of the signing string."),
    _row("signed-body", "The body was signed, not the signing string.", _signed_body,
         "Sign the lines of the signing string; the digest covers the body."),
    _row("string-and-body", "The signing string was signed with the body behind it.", _string_and_body,
         "Sign the lines of the signing string alone; the digest covers the body."),
    _row("string-json", "The lines were signed as a JSON object (or as Python prints a dict).", _as_object, _JOIN),
    _row("signed-target-and-body", "Target and body were signed, not the signing string.", _target_and_body,
         "Sign the lines of the signing string; the digest covers the body."),
)  # fmt: skip


def signed_bytes(draft: Draft) -> bytes:
    """What a draft says was signed."""
    text = draft.text()
    return WHOLE[draft.hashed](text) if draft.hashed else text
