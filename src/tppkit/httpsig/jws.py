"""Detached JSON Web Signatures over HTTP fields: `x-jws-signature` of JAdES and the openFinance framework.

    x-jws-signature: <protected header, base64url>..<signature, base64url>

    {"b64":false,"crit":["sigT","sigD","b64"],"sigT":"2026-06-01T12:00:00Z","alg":"PS256","x5c":["MII…"],
     "sigD":{"mId":"http://uri.etsi.org/19182/HttpHeaders","pars":["(request-target)","digest"]}}

The signature covers the encoded header, a point, and the lines of the fields that `sigD` names, written as in draft-cavage.
So the payload is detached and not in base64 (`b64` is false), and the body is covered by its digest.

Only this form is supported. `joserfc` is not used, because it accepts duplicate members in the header, reads payloads in every
form and needs its own key objects. `algorithms.JWS` has neither `none` nor HMAC. The tests compare with `joserfc`.
Source: RFC 7515; RFC 7797 sections 3 and 5 to 8; ETSI TS 119 182-1 clauses 5.1 and 5.2.8.2; Open Banking Europe, JSON Web
Signature Profile for Open Banking 001-001 (2021-05-18).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from tppkit._encoding import decode_base64url, encode_base64url
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig.algorithms import Verify, verify_signature
from tppkit.httpsig.jws_header import MAX_JWS_LENGTH, JwsHeader, read_jws_header
from tppkit.httpsig.signing_string import make_signing_string, message_components
from tppkit.httpsig.times import CLOCK_SKEW, verify_times
from tppkit.message import Message

_DETACHED = re.compile(r"([A-Za-z0-9_-]+)\.\.([A-Za-z0-9_-]+)")


def make_jws_signing_input(header: JwsHeader, payload: bytes) -> bytes:
    """Return the bytes to sign.

        signature = signer.sign(make_jws_signing_input(header, payload))

    Args:
        header: the header of the signature.
        payload: the lines of `header.covered`, as `message.make_signing_string` writes them.

    Source: RFC 7797 section 3.
    """
    return header.encoded.encode("ascii") + b"." + payload


def make_detached_jws(header: JwsHeader, signature: bytes) -> str:
    """Return the value of the x-jws-signature field.

    Example:
        signed = request.with_headers(("x-jws-signature", make_detached_jws(header, signature)))
    """
    return f"{header.encoded}..{encode_base64url(signature)}"


def parse_detached_jws(value: str) -> tuple[JwsHeader, bytes]:
    """Parse the value of an x-jws-signature field.

    Args:
        value: as received, at most 32 KiB.

    Returns:
        The header, and the signature's bytes.

    Raises:
        FormatError: `jws.malformed`, `jws.attached` (it contains a payload), `jws.critical`, `jws.encoded-payload`,
            `jws.offered-key`, `jws.signed-data`, `jws.covered-names`, `jws.time`; `json.*`, `base64.*`.
    """
    if len(value) > MAX_JWS_LENGTH:
        raise FormatError("jws.malformed", f"a signature of {len(value)} characters is too long")
    match = _DETACHED.fullmatch(value)
    if match is None:
        if value.count(".") == 2 and ".." not in value:
            raise FormatError("jws.attached", "the signature contains a payload; it must be detached")
        raise FormatError("jws.malformed", "the signature is not header..signature in base64url")
    header, signature = match.groups()
    return read_jws_header(header), decode_base64url(signature, what="the signature")


class VerifiedJws(NamedTuple):
    """A verified signature: the owner of the key signed these lines.

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
) -> VerifiedJws:
    """Verify the x-jws-signature of a request. The caller must check what it covers, and the digest of the body.

        verified = verify_detached_jws(message, verifiers=make_verifiers(key, names=JWS), at=utc_now())
        verified.header.covered

    Args:
        message: the request as received.
        verifiers: those of the key, by the names of JWS: `make_verifiers(key, names=JWS)`.
        at: the time to judge at, aware.
        skew: tolerated difference between the two clocks.
        max_age: maximum age of the signature.

    Raises:
        FormatError: see `parse_detached_jws` and `message.make_signing_string`; `header.duplicate`.
        SignatureRejected: `signature.missing`, `signature.algorithm`, `signature.created`, `signature.expired`,
            `signature.header-absent`, `signature.invalid`.
    """
    value = message.single("x-jws-signature")
    if value is None:
        raise SignatureRejected("signature.missing", "the request has no x-jws-signature")
    header, signature = parse_detached_jws(value.strip(" \t"))
    verify_times(header.created, None, at=at, skew=skew, max_age=max_age)
    payload = make_signing_string(header.covered, message_components(message)[0])
    signing_input = make_jws_signing_input(header, payload)
    verify_signature(verifiers, header.algorithm, signature, signing_input)
    return VerifiedJws(header, signing_input)
