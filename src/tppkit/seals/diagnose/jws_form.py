"""A detached JSON Web Signature, read in whatever way it may have been meant; what is wrong with its form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tppkit._encoding import decode_base64, encode_base64url, parse_json
from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError
from tppkit.httpsig.cavage import SignatureParameters
from tppkit.httpsig.jws import parse_detached_jws
from tppkit.httpsig.jws_header import MAX_JWS_LENGTH, check_jws_header
from tppkit.httpsig.message import Message
from tppkit.seals.diagnose.form import Fault, Form, fault
from tppkit.seals.diagnose.mistake import Mistake, Part, by_name
from tppkit.seals.diagnose.recover import make_oracles
from tppkit.seals.key_id import KeyIdForm
from tppkit.seals.profile import Format, SealProfile
from tppkit.seals.profiles import PROFILES

_CARRIERS = tuple(row.carrier.lower() for row in PROFILES.values() if row.format is Format.JWS)

JWS_MISTAKES: tuple[Mistake, ...] = tuple(
    Mistake(name, Part.FORM, cause, mend)
    for name, cause, mend in (
        ("jws-quoted", "The JSON Web Signature stands between quotes.", "Send it bare: header..signature."),
        ("jws-attached", "The JSON Web Signature carries a payload of its own.",
         "Leave out what stands between the two points: header..signature."),
        ("jws-signature-alone", "Only the last part of the JSON Web Signature was sent, without the protected header.",
         "Send the encoded protected header, two points and the signature."),
        ("jws-cut", "Only the beginning of the JSON Web Signature arrived: a piece of its protected header.",
         "Look for what cuts long headers on the way, or send no more certificates in x5c than the seal's."),
        ("jws-base64", "A part of the JSON Web Signature is not base64url without padding.",
         "Write both parts in the alphabet for addresses (- and _), without = at the end."),
        ("jws-critical", "crit of the protected header does not name exactly what a verifier must obey.",
         'Write "crit":["sigT","sigD","b64"]: a list of names that the header has, b64 and sigD among them.'),
        ("jws-b64", "The protected header does not say that the payload is signed as it stands: its b64 is not false.",
         'Write "b64":false, without quotes, and name b64 in crit.'),
        ("jws-signed-data", "sigD of the protected header does not name the signed fields in the form of JAdES.",
         'Write "sigD":{"pars":[names of the fields],"mId":"http://uri.etsi.org/19182/HttpHeaders"}.'),
        ("jws-time", "The time of signing is not written as verifiers read it.",
         'Write sigT as "2026-06-01T12:00:00Z", whole seconds in UTC, or else iat as a bare number.'),
        ("jws-offered-key", "The protected header offers a key, or the address of one.",
         "Leave out jwk, jku and x5u: a verifier takes no key from the sender."),
        ("jws-parameter", "A parameter of the protected header is missing, or is not in its form.",
         "Write alg and kid as texts, x5t#S256 as the SHA-256 of the certificate in base64url, and the time of signing."),
        ("jws-form", "The header with the JSON Web Signature is not in its form.",
         "Write header..signature, both in base64url, the header a JSON object."),
    )
)  # fmt: skip
_ROWS = by_name(JWS_MISTAKES)
# By the parameter that the reader refuses. What is wrong with x5c is wrong with where the certificate stands.
_FAULTS: Mapping[str, Callable[[str], Fault]] = {
    "crit": lambda told: Fault(_ROWS["jws-critical"], told),
    "b64": lambda told: Fault(_ROWS["jws-b64"], told),
    "jwk": lambda told: Fault(_ROWS["jws-offered-key"], told),
    "sigD": lambda told: Fault(_ROWS["jws-signed-data"], told),
    "sigT": lambda told: Fault(_ROWS["jws-time"], told),
    "x5c": lambda told: fault("certificate-form", told),
}
_SHORTEST = 200  # characters of base64, of fewer than a certificate has
_LAST_SECOND = 100_000_000_000  # a larger number is of milliseconds: as seconds it would be a year beyond 5000
# One with its two parts, or three; each run of letters is read once, from where it begins.
_PART = r"[A-Za-z0-9_+/-]++=*+"
_DETACHED = re.compile(rf"(?<![A-Za-z0-9_+/-]){_PART}\.\.{_PART}(?!\.[A-Za-z0-9_+/-])")
_ATTACHED = re.compile(rf"(?<![A-Za-z0-9_+/.-]){_PART}\.{_PART}\.{_PART}(?!\.)")
# Words between points of which the first may be the header of a JSON Web Encryption, which has alg and enc: as many as are left.
_PARTS = re.compile(r"(?<![A-Za-z0-9_.-])(e[A-Za-z0-9_-]{19,}+)(?:\.[A-Za-z0-9_-]*+)++")
_BEGINNING = re.compile(rb'[\t\n\r ]*\{[\t\n\r ]*"[\t\n\r -~]*')  # of a JSON object in ASCII
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.?)*+(?P<end>"?)|[][{}]', re.DOTALL)
_CLOSED_BY = {"{": "}", "[": "]"}


class LooseJws(NamedTuple):
    """The parts of a JSON Web Signature, as they were sent.

    Attributes:
        encoded: the protected header; empty where there is but one part, which is none.
        header: what it says; None where it cannot be read.
        payload: what stands between the points.
        signature: the last part.
    """

    encoded: str
    header: Mapping[str, Any] | None
    payload: str
    signature: str


def split_jws(value: str) -> LooseJws:
    """The parts of a JSON Web Signature, in whatever base64, with and without quotes.

    Args:
        value: of its header, as received; what is longer than 32 KiB is not read.
    """
    text = value.strip(" \t\"'") if len(value) <= MAX_JWS_LENGTH else ""
    first, point, rest = text.partition(".")
    payload, _, signature = rest.rpartition(".")
    header = decode_object(first)
    if not point and header is None:
        return LooseJws("", None, "", first)
    return LooseJws(first, header, payload, signature)


def jws_carriers(profile: SealProfile) -> tuple[str, ...]:
    """Headers in which a JSON Web Signature stands: of this dialect first, then of the others; lower case."""
    own = (profile.carrier.lower(),) if profile.format is Format.JWS else ()
    return tuple(dict.fromkeys((*own, *_CARRIERS)))


def find_jws(name: str, value: str) -> str | None:
    """The JSON Web Signature in a header that is none of its own, or None: one with a protected header that can be read.

    Whatever stands around it. Of one with a payload, as tokens are, the header's name must say that it is a signature.

    Args:
        name: of the header.
        value: as received; what is longer than 32 KiB is not read.
    """
    text = without_encrypted(value) if len(value) <= MAX_JWS_LENGTH else ""
    found = _DETACHED.findall(text) or (_ATTACHED.findall(text) if speaks_of_signature(name) else [])
    longest = max(found, key=len, default="")  # one is read, of however many
    return longest if split_jws(longest).header is not None else None


def without_encrypted(value: str) -> str:
    """A value without the JSON Web Encryptions in it, whole or cut off: sessions and opaque tokens that look like signatures.

    One whose key is agreed on (`dir`) has two points behind its header, as a detached signature has.
    """
    return _PARTS.sub(lambda parts: ";" if _is_of_encryption(decode_object(parts[1]) or {}) else parts[0], value)


def _is_of_encryption(header: Mapping[str, Any]) -> bool:
    """By the algorithm for the content, each of which is of AES (RFC 7518 section 5.1)."""
    return str(header.get("enc", "")).startswith("A")


def speaks_of_signature(name: str) -> bool:
    """Whether a header may hold a signature, by its name: of one for certificates its last word must be that."""
    lower = name.lower()
    is_other = lower == "signature-input" or ("cert" in lower and not lower.endswith(("signature", "jws")))
    return ("signature" in lower or "jws" in lower) and not is_other


def sent_jws(message: Message, profile: SealProfile) -> Iterator[LooseJws]:
    """Every JSON Web Signature of a request, and what may be one and cannot be read, which has no header then: the likeliest first.

    Elsewhere than where a dialect has them, what cannot be read and is too short to hold a certificate is none.

    Args:
        message: the request.
        profile: the dialect it should be in.
    """
    usual = jws_carriers(profile)
    for name in usual:
        yield from map(split_jws, message.values(name))
    for name, value in message.headers:
        if name.lower() in usual:
            continue
        found = find_jws(name, value)
        if found is not None or (speaks_of_signature(name) and len(value) >= _SHORTEST):
            yield split_jws(found or value)


def read_jws_form(value: str, message: Message, profile: SealProfile) -> Form:
    """Read a JSON Web Signature, leniently, and say what is wrong with its form.

    Args:
        value: of its header, as received.
        message: the request.
        profile: the dialect it should be in.
    """
    jws = split_jws(value)
    faults = [*_faults_of_parts(value, jws), *_faults_of_header(jws, profile)]
    if not faults or not jws.encoded:
        faults += _strict_faults(value)
    if jws.header is None:
        part = "" if jws.encoded or jws.payload else jws.signature
        return Form(text=jws.signature, faults=tuple(faults), part=part)
    heads = dict.fromkeys((jws.encoded, encode_base64url(decode_loosely(jws.encoded))))
    readings = [(one, f"{head}.") for one in _readings(jws.header, message, profile) for head in heads]
    parameters, prefixes = zip(*readings, strict=True)
    return Form(parameters, _as_base64(jws.signature), tuple(faults), prefixes, jws.payload)


def tell_part(form: Form, certificates: Sequence[EidasCertificate]) -> Form:
    """What is wrong with a JSON Web Signature of which one part arrived: which part that is, where that is known.

    That it is the signature is proven by the padding of RSA; of other keys any bytes of the right length have the form.

    Args:
        form: as it was read; of any other signature it is as it was.
        certificates: whose keys may have made the signature.
    """
    if not form.part:
        return form
    raw = decode_loosely(form.part)
    fitting = [(one, oracle) for one in certificates for oracle in make_oracles(one.public_key, raw)]
    maker = next((one for one, oracle in fitting if oracle.made.certain), None)
    if _ends_inside_object(form.part):
        told = Fault(_ROWS["jws-cut"], f"its {len(form.part)} characters are those of a JSON object that does not end")
    elif maker is not None:
        told = Fault(_ROWS["jws-signature-alone"], f"its {len(raw)} bytes are those of a signature by {maker.subject}")
    elif fitting:  # as nearly all bytes of that length have, so by whom they are, if by anybody, is not known
        told = Fault(
            _ROWS["jws-form"], f"its {len(raw)} bytes have the length and form of a signature without its header"
        )
    else:
        return form
    return form._replace(faults=tuple([told if one.mistake.name == "jws-form" else one for one in form.faults]))


def _ends_inside_object(part: str) -> bool:
    """Whether a text in base64, ending anywhere, is the beginning of a JSON object in ASCII, and ends within it."""
    bare = part.rstrip("=")
    raw = decode_loosely(bare + "A" * (-len(bare) % 4))[: len(bare) * 3 // 4]
    if _BEGINNING.fullmatch(raw) is None:
        return False
    still_open: list[str] = []
    for match in _STRING_OR_BRACKET.finditer(raw.decode("ascii")):
        token = match[0]
        if token[0] == '"' and not match["end"]:
            return True
        if token in _CLOSED_BY:
            still_open.append(_CLOSED_BY[token])
        elif token[0] != '"' and (still_open.pop() != token or not still_open):
            return False
    return True


def decode_loosely(text: str) -> bytes:
    """The bytes of a text in either alphabet of base64, padded or not; none where it is in neither."""
    with suppress(FormatError):
        return decode_base64(_as_base64(text), what="the text")
    return b""


def _as_base64(text: str) -> str:
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    return bare + "=" * (-len(bare) % 4)


def decode_object(encoded: str) -> Mapping[str, Any] | None:
    """The JSON object in a text in either alphabet of base64; None where it holds none, or one that is too deep or too long."""
    with suppress(FormatError):
        value = parse_json(decode_loosely(encoded), what="the protected header", max_bytes=MAX_JWS_LENGTH, max_depth=8)
        return value if isinstance(value, dict) else None
    return None


def _faults_of_parts(value: str, jws: LooseJws) -> Iterator[Fault]:
    if value.strip(" \t")[:1] in ('"', "'"):
        yield Fault(_ROWS["jws-quoted"], f"it begins with {value.strip()[0]}")
    if jws.payload and jws.header is not None:
        yield Fault(_ROWS["jws-attached"], f"{len(jws.payload)} characters stand between the first point and the last")
    if not jws.encoded:  # of what is one part alone it is not known which
        return
    parts = (("the protected header", jws.encoded), ("the signature", jws.signature))
    others = [name for name, text in parts if not {"+", "/", "="}.isdisjoint(text) and decode_loosely(text)]
    if others:
        yield Fault(_ROWS["jws-base64"], f"+, / or = stands in {' and in '.join(others)}")


def _faults_of_header(jws: LooseJws, profile: SealProfile) -> Iterator[Fault]:
    if jws.header is None:
        return
    for name, refused in check_jws_header(jws.header):
        row = _FAULTS.get(name)
        yield row(refused.message) if row else Fault(_ROWS["jws-parameter"], refused.message)
    if profile.key_id.form is KeyIdForm.THUMBPRINT and "x5t#S256" not in jws.header:
        yield Fault(_ROWS["jws-parameter"], "there is no x5t#S256, by which the dialect names the certificate")
    if profile.max_age is not None and jws.header.keys().isdisjoint(("sigT", "iat")):
        yield Fault(
            _ROWS["jws-parameter"], "there is neither sigT nor iat, and the dialect takes no seal without a time"
        )


def _strict_faults(value: str) -> Iterator[Fault]:
    """What the verifier's reader refuses where nothing else was seen."""
    try:
        parse_detached_jws(value.strip(" \t"))
    except FormatError as e:
        yield Fault(_ROWS["jws-form"], e.message)


def _readings(header: Mapping[str, Any], message: Message, profile: SealProfile) -> Iterator[SignatureParameters]:
    refused = {name for name, _ in check_jws_header(header)}
    named_by = "x5t#S256" if profile.key_id.form is KeyIdForm.THUMBPRINT else "kid"
    key_id, algorithm = ("" if name in refused else header.get(name, "") for name in (named_by, "alg"))
    for names in _covered(header, message, profile):
        yield SignatureParameters(key_id, algorithm, names, b"", _time_of(header))


def _covered(header: Mapping[str, Any], message: Message, profile: SealProfile) -> Iterator[tuple[str, ...]]:
    """The covered names as they stand, and each once; those of the dialect where none stand."""
    data = header.get("sigD")
    names = data.get("pars") if isinstance(data, dict) else data
    if isinstance(names, list) and names:
        written = tuple([name.lower() for name in names if isinstance(name, str)])
        yield from dict.fromkeys((written, tuple(dict.fromkeys(written))))
        return
    present = {name.lower() for name, _ in message.headers}
    usual = (*profile.covered, *profile.covered_if_present)
    yield tuple([name for name in usual if name.startswith("(") or name in present])


def _time_of(header: Mapping[str, Any]) -> int | None:
    """The time of signing in seconds since 1970, from whatever form it can be read in."""
    for value in (header.get("sigT"), header.get("iat")):
        with suppress(ValueError, OverflowError):
            if isinstance(value, str) and not value.isdigit():
                time = datetime.fromisoformat(value)
                aware = time if time.tzinfo else time.replace(tzinfo=UTC)
                return int(
                    aware.astimezone(UTC).timestamp()
                )  # which overflows where the offset leads out of the calendar
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                number = int(value) // (1000 if int(value) > _LAST_SECOND else 1)
                return number if 0 <= number <= _LAST_SECOND else None
    return None
