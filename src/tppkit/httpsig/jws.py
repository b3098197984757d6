"""Detached JSON Web Signatures over HTTP fields (JAdES, the openFinance framework) or over the body (Open Banking UK and others).

    x-jws-signature: <protected header, base64url>..<signature, base64url>

    {"b64":false,"crit":["sigT","sigD","b64"],"sigT":"2026-06-01T12:00:00Z","alg":"PS256","x5c":["MII…"],
     "sigD":{"mId":"http://uri.etsi.org/19182/HttpHeaders","pars":["(request-target)","digest"]}}

The signature covers the encoded header, a point, and the payload. With `sigD`, the payload is the lines of the fields that it
names, written as in draft-cavage: it is not in base64 (`b64` is false), and the body is covered by its digest.

Without `sigD`, the payload is the body, in base64url unless `b64` is false. Then `covered` is `(body)` alone: **method, target and
headers are not signed**, so the same signature fits every other request with this body.

Only these forms are supported. `joserfc` is not used, because it accepts duplicate members in the header and needs its own key
objects. `algorithms.JWS` has neither `none` nor HMAC. The tests compare with `joserfc`.
Source: RFC 7515 section 4 and appendix F; RFC 7797 sections 3 and 5 to 8; ETSI TS 119 182-1 clauses 5.1 and 5.2.8.2; Open Banking
Europe, JSON Web Signature Profile for Open Banking 001-001 (2021-05-18); Open Banking Read-Write API Profile 3.1.3, 3.1.10 and 4.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from tppkit._clock import as_utc
from tppkit._encoding import decode_base64, decode_base64url, encode_base64, encode_base64url, parse_json, shown
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig.algorithms import Verify, verify_signature
from tppkit.httpsig.signing_string import REQUEST_TARGET, is_covered_field, make_signing_string, message_components
from tppkit.httpsig.times import CLOCK_SKEW, verify_times
from tppkit.message import Message

MAX_JWS_LENGTH = 32 * 1024
MAX_CERTIFICATES = 8
HTTP_HEADERS = "http://uri.etsi.org/19182/HttpHeaders"
BODY = "(body)"
"""The covered name of a signature whose payload is the body."""


class Private(Enum):
    """The value of a private parameter that a scheme lists in `crit`."""

    TIME = "the time of signing in whole seconds since 1970"
    TEXT = "a text that is not empty"


PrivateNames = Mapping[str, Private]
OPEN_BANKING_UK: PrivateNames = MappingProxyType(
    {
        "http://openbanking.org.uk/iat": Private.TIME,
        "http://openbanking.org.uk/iss": Private.TEXT,
        "http://openbanking.org.uk/tan": Private.TEXT,
    }
)
"""The private parameters of the Open Banking Read-Write API Profile: time of signing, signer and trust anchor."""

_MAX_NAMES = 64
_SIGNING_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
# The critical parameters that this reader supports. RFC 7515 does not allow its own parameters in crit.
_UNDERSTOOD = frozenset({"b64", "sigD", "sigT", "iat"})
REGISTERED = frozenset(
    {
        "alg",
        "b64",
        "crit",
        "cty",
        "iat",
        "jku",
        "jwk",
        "kid",
        "sigD",
        "sigT",
        "typ",
        "url",
        "x5c",
        "x5t",
        "x5t#S256",
        "x5u",
    }
)
"""Names of parameters that are not private."""
_MUST_BE_CRITICAL = frozenset({"b64", "sigD"})  # if sigD is present
# Keys and addresses of keys chosen by the sender: they may be an attacker's, or make this server send requests.
_OFFERED_KEYS = ("jwk", "jku", "x5u")
_DETACHED = re.compile(r"([A-Za-z0-9_-]+)\.\.([A-Za-z0-9_-]+)")


class JwsHeader(NamedTuple):
    """The contents of a protected header.

    Attributes:
        algorithm: the `alg` parameter; the key must support it.
        covered: names of the covered fields in order, lower case, with `(request-target)` for the start line; or `(body)` alone.
        signed_at: `sigT`, `iat` or the private time, aware UTC, or None.
        key_id: the `kid` parameter, or None; a hint only.
        certificates: DER of the certificates in `x5c`, the signer's first; empty if there is none.
        certificate_sha256: the `x5t#S256` parameter, 32 bytes, or None.
        encoded: the header as signed.
        critical: the names in `crit`.
        texts: names and values of the private parameters among them, except the time.
        is_payload_encoded: the payload is signed in base64url.
    """

    algorithm: str
    covered: tuple[str, ...]
    signed_at: datetime | None
    key_id: str | None
    certificates: tuple[bytes, ...]
    certificate_sha256: bytes | None
    encoded: str
    critical: tuple[str, ...] = ()
    texts: tuple[tuple[str, str], ...] = ()
    is_payload_encoded: bool = False

    @property
    def created(self) -> int | None:
        """`signed_at` in seconds since 1970."""
        return None if self.signed_at is None else int(self.signed_at.timestamp())


def make_jws_header(
    covered: Sequence[str],
    *,
    algorithm: str,
    signed_at: datetime,
    certificates: Sequence[bytes] = (),
    certificate_sha256: bytes | None = None,
    key_id: str | None = None,
    private: Mapping[str, str | None] = MappingProxyType({}),
    b64: bool = True,
) -> JwsHeader:
    """Build the protected header of a new signature.

        header = make_jws_header(("(request-target)", "digest"), algorithm="ES256", signed_at=utc_now())

    Args:
        covered: names in order, lower case; or `(body)` alone.
        algorithm: a name of `algorithms.JWS`.
        signed_at: the time of signing, aware; whole seconds are written.
        certificates: DER, the signer's first, for `x5c`.
        certificate_sha256: SHA-256 of the signer's certificate, for `x5t#S256`.
        key_id: the value of `kid`.
        private: of a signature over the body, the private parameters for `crit` in order; None for the time of signing, which is
            otherwise written as `iat`.
        b64: whether a body is signed in base64url; the lines of fields never are.

    Raises:
        FormatError: `jws.covered-names`, `jws.private`, `jws.time`.
        ConfigurationError: `time.naive`.
    """
    covers_body, signed_at = tuple(covered) == (BODY,), as_utc(signed_at)
    header: dict[str, Any] = {} if covers_body else {"b64": False, "crit": ["sigT", "sigD", "b64"]}
    header["alg"] = algorithm
    if certificates:
        header["x5c"] = [encode_base64(der) for der in certificates]
    if certificate_sha256 is not None:
        header["x5t#S256"] = encode_base64url(certificate_sha256)
    if key_id is not None:
        header["kid"] = key_id
    if covers_body:
        seconds = int(signed_at.timestamp())
        header |= {name: seconds if text is None else text for name, text in private.items()}
        if None not in private.values():
            header["iat"] = seconds
        if not b64:
            header["b64"] = False
        if critical := [*(() if b64 else ("b64",)), *private]:
            header["crit"] = critical
    else:
        header["sigT"] = f"{signed_at:%Y-%m-%dT%H:%M:%SZ}"
        header["sigD"] = {"pars": list(covered), "mId": HTTP_HEADERS}
    rules = {name: Private.TIME if text is None else Private.TEXT for name, text in private.items()}
    raw = json.dumps(header, separators=(",", ":")).encode("utf-8")
    return read_jws_header(encode_base64url(raw), private=rules)


def read_jws_header(encoded: str, *, private: PrivateNames = OPEN_BANKING_UK) -> JwsHeader:
    """Parse a protected header.

    Args:
        encoded: the header in base64url, as in the signature.
        private: the private parameters that the caller processes if `crit` lists them.

    Raises:
        FormatError: `jws.malformed`, `jws.critical`, `jws.encoded-payload`, `jws.offered-key`, `jws.signed-data`,
            `jws.covered-names`, `jws.private`, `jws.time`; `json.*`, `base64.*`.
    """
    raw = decode_base64url(encoded, what="the protected header")
    header = parse_json(raw, what="the protected header", max_bytes=MAX_JWS_LENGTH, max_depth=4)
    if not isinstance(header, dict):
        raise FormatError("jws.malformed", "the protected header is not a JSON object")
    critical = _read_critical(header, private)
    is_encoded = _read_encoding(header)
    _check_offered_keys(header)
    used = {name: private[name] for name in critical if name in private}
    return JwsHeader(
        algorithm=_read_algorithm(header),
        covered=_read_signed_data(header) if "sigD" in header else (BODY,),
        signed_at=_read_time(header, [name for name, rule in used.items() if rule is Private.TIME]),
        key_id=_text(header, "kid"),
        certificates=_read_certificates(header),
        certificate_sha256=_read_thumbprint(header),
        encoded=encoded,
        critical=tuple(critical),
        texts=tuple([(name, _read_private(header, name)) for name, rule in used.items() if rule is Private.TEXT]),
        is_payload_encoded=is_encoded,
    )


def _read_encoding(header: Mapping[str, Any]) -> bool:
    b64 = header.get("b64", True)
    if not isinstance(b64, bool):
        raise FormatError("jws.encoded-payload", "b64 is neither true nor false")
    if b64 and "sigD" in header:
        raise FormatError("jws.encoded-payload", "b64 is not false: the lines of fields are signed without base64")
    return b64


def _read_private(header: Mapping[str, Any], name: str) -> str:
    text = header[name]
    if not isinstance(text, str) or not text:
        raise FormatError("jws.private", f"{shown(name)} in the protected header is not {Private.TEXT.value}")
    return text


def _check_offered_keys(header: Mapping[str, Any]) -> None:
    for name in _OFFERED_KEYS:
        if name in header:
            raise FormatError("jws.offered-key", f"the protected header has a key of the sender in {name}")


def _text(header: Mapping[str, Any], name: str) -> str | None:
    value = header.get(name)
    if (value is None and name not in header) or isinstance(value, str):
        return value
    raise FormatError("jws.malformed", f"{name} in the protected header is not a string")


def _read_algorithm(header: Mapping[str, Any]) -> str:
    algorithm = _text(header, "alg")
    if algorithm is None:
        raise FormatError("jws.malformed", "the protected header has no alg")
    return algorithm


def _read_critical(header: Mapping[str, Any], private: PrivateNames) -> list[str]:
    """Read crit: its parameters are supported and present, each once, and those that change the signed bytes are listed."""
    required = _MUST_BE_CRITICAL if "sigD" in header else frozenset({"b64"} if header.get("b64") is False else ())
    if not required and "crit" not in header:
        return []
    critical = header.get("crit")
    if not isinstance(critical, list) or not critical or not all(isinstance(name, str) for name in critical):
        raise FormatError("jws.critical", "the protected header has no list crit")
    unknown = [name for name in critical if name not in _UNDERSTOOD and name not in private]
    if unknown:
        raise FormatError("jws.critical", f"crit names {shown(', '.join(unknown))}, which is not supported")
    if len(set(critical)) != len(critical) or not all(name in header for name in critical):
        raise FormatError("jws.critical", "crit names a parameter twice, or an absent one")
    missing = required.difference(critical)
    if missing:
        raise FormatError("jws.critical", f"crit does not name {', '.join(sorted(missing))}")
    return critical


def _read_signed_data(header: Mapping[str, Any]) -> tuple[str, ...]:
    data = header.get("sigD")
    if not isinstance(data, dict) or data.keys() != {"mId", "pars"} or data["mId"] != HTTP_HEADERS:
        raise FormatError("jws.signed-data", f"sigD is not an object with pars and the mId {HTTP_HEADERS}")
    names = data["pars"]
    if not isinstance(names, list) or not 0 < len(names) <= _MAX_NAMES:
        raise FormatError("jws.covered-names", f"pars is not a list of 1 to {_MAX_NAMES} names")
    if not all(isinstance(name, str) and (name == REQUEST_TARGET or _is_field(name)) for name in names):
        raise FormatError("jws.covered-names", "pars contains an invalid name of a field")
    covered = tuple([name.lower() for name in names])  # some senders write Digest; the signed line has digest
    if len(set(covered)) != len(covered):
        raise FormatError("jws.covered-names", "pars names a field twice")
    return covered


def _is_field(name: str) -> bool:
    return name.isascii() and is_covered_field(name.lower())


def _read_time(header: Mapping[str, Any], private: Sequence[str]) -> datetime | None:
    names = [name for name in ("sigT", "iat", *private) if name in header]
    if not names:
        return None
    if len(names) > 1:
        raise FormatError("jws.time", f"the protected header has several times of signing: {shown(', '.join(names))}")
    value = header[names[0]]
    try:
        if names == ["sigT"] and isinstance(value, str) and _SIGNING_TIME.fullmatch(value):
            return datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        if names != ["sigT"] and type(value) is int:
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    form = "YYYY-MM-DDTHH:MM:SSZ" if names == ["sigT"] else "a whole number of seconds"
    raise FormatError("jws.time", f"the time of signing in {shown(names[0])} is not {form}")


def _read_certificates(header: Mapping[str, Any]) -> tuple[bytes, ...]:
    certificates = header.get("x5c", [])
    if not isinstance(certificates, list) or len(certificates) > MAX_CERTIFICATES:
        raise FormatError("jws.malformed", f"x5c is not a list of at most {MAX_CERTIFICATES} certificates")
    if not all(isinstance(text, str) for text in certificates):
        raise FormatError("jws.malformed", "x5c contains a value that is not a string")
    return tuple([decode_base64(text, what="a certificate in x5c") for text in certificates])


def _read_thumbprint(header: Mapping[str, Any]) -> bytes | None:
    text = _text(header, "x5t#S256")
    if text is None:
        return None
    raw = decode_base64url(text, what="x5t#S256")
    if len(raw) != 32:
        raise FormatError("jws.malformed", f"x5t#S256 has {len(raw)} bytes, not 32")
    return raw


def make_jws_payload(header: JwsHeader, message: Message) -> bytes:
    """Return the payload of a signature: the body, or the lines of the covered fields.

        signing_input = make_jws_signing_input(header, make_jws_payload(header, message))

    Args:
        header: the header of the signature.
        message: the request, with the covered fields.

    Raises:
        SignatureRejected: `signature.header-absent`.
        FormatError: see `message.make_signing_string`.
    """
    if header.covered != (BODY,):
        return make_signing_string(header.covered, message_components(message)[0])
    return encode_base64url(message.body).encode("ascii") if header.is_payload_encoded else message.body


def make_jws_signing_input(header: JwsHeader, payload: bytes) -> bytes:
    """Return the bytes to sign.

        signature = signer.sign(make_jws_signing_input(header, payload))

    Args:
        header: the header of the signature.
        payload: what `make_jws_payload` returns.

    Source: RFC 7797 section 3.
    """
    return header.encoded.encode("ascii") + b"." + payload


def make_detached_jws(header: JwsHeader, signature: bytes) -> str:
    """Return the value of the x-jws-signature field.

    Example:
        signed = request.with_headers(("x-jws-signature", make_detached_jws(header, signature)))
    """
    return f"{header.encoded}..{encode_base64url(signature)}"


def parse_detached_jws(value: str, *, private: PrivateNames = OPEN_BANKING_UK) -> tuple[JwsHeader, bytes]:
    """Parse the value of an x-jws-signature field.

    Args:
        value: as received, at most 32 KiB.
        private: the private parameters that the caller processes if `crit` lists them.

    Returns:
        The header, and the signature's bytes.

    Raises:
        FormatError: `jws.malformed`, `jws.attached` (it contains a payload), `jws.critical`, `jws.encoded-payload`,
            `jws.offered-key`, `jws.signed-data`, `jws.covered-names`, `jws.private`, `jws.time`; `json.*`, `base64.*`.
    """
    if len(value) > MAX_JWS_LENGTH:
        raise FormatError("jws.malformed", f"a signature of {len(value)} characters is too long")
    match = _DETACHED.fullmatch(value)
    if match is None:
        if value.count(".") == 2 and ".." not in value:
            raise FormatError("jws.attached", "the signature contains a payload; it must be detached")
        raise FormatError("jws.malformed", "the signature is not header..signature in base64url")
    header, signature = match.groups()
    return read_jws_header(header, private=private), decode_base64url(signature, what="the signature")


class VerifiedJws(NamedTuple):
    """A verified signature: the owner of the key signed these lines, or this body.

    Attributes:
        header: the header of the signature.
        signing_input: the signed bytes.
    """

    header: JwsHeader
    signing_input: bytes


def verify_detached_jws(
    message: Message,
    *,
    verifiers: Mapping[str, Verify],
    at: datetime,
    skew: timedelta = CLOCK_SKEW,
    max_age: timedelta | None = None,
    private: PrivateNames = OPEN_BANKING_UK,
) -> VerifiedJws:
    """Verify the x-jws-signature of a request. The caller must check what it covers.

    `(body)` proves neither method nor target. Fields prove the body only if they include a digest, which the caller compares.

        verified = verify_detached_jws(message, verifiers=make_verifiers(key, names=JWS), at=utc_now())
        verified.header.covered

    Args:
        message: the request as received.
        verifiers: those of the key, by the names of JWS: `make_verifiers(key, names=JWS)`.
        at: the time to judge at, aware.
        skew: tolerated difference between the two clocks.
        max_age: maximum age of the signature.
        private: the private parameters that the caller processes if `crit` lists them; their texts are in the header.

    Raises:
        FormatError: see `parse_detached_jws` and `message.make_signing_string`; `header.duplicate`.
        SignatureRejected: `signature.missing`, `signature.algorithm`, `signature.created`, `signature.expired`,
            `signature.header-absent`, `signature.invalid`.
    """
    value = message.single("x-jws-signature")
    if value is None:
        raise SignatureRejected("signature.missing", "the request has no x-jws-signature")
    header, signature = parse_detached_jws(value.strip(" \t"), private=private)
    verify_times(header.created, None, at=at, skew=skew, max_age=max_age)
    signing_input = make_jws_signing_input(header, make_jws_payload(header, message))
    verify_signature(verifiers, header.algorithm, signature, signing_input)
    return VerifiedJws(header, signing_input)
