"""Detached JSON Web Signatures over HTTP fields: `x-jws-signature` as JAdES and the openFinance framework have it.

    x-jws-signature: <protected header, base64url>..<signature, base64url>

    {"b64":false,"crit":["sigT","sigD","b64"],"sigT":"2026-06-01T12:00:00Z","alg":"PS256","x5c":["MII…"],
     "sigD":{"mId":"http://uri.etsi.org/19182/HttpHeaders","pars":["(request-target)","digest"]}}

Signed are the encoded header, a point, and the lines of the fields that `sigD` names, written as in draft-cavage: so the
payload is not in the signature and not in base64 (`b64` is false), and the body is covered through its digest.

Only this one form is read. `joserfc` could carry it, but it takes the last of two members of one name in the header, reads
payloads in every form, and wants keys as objects of its own; what would be left to it is a dozen lines, so they stand here
over `algorithms.JWS`, where neither `none` nor an HMAC has a name. The tests have it sign and verify as a second opinion.
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
from tppkit.httpsig.message import Message, make_signing_string, message_components
from tppkit.httpsig.times import CLOCK_SKEW, verify_times

_DETACHED = re.compile(r"([A-Za-z0-9_-]+)\.\.([A-Za-z0-9_-]+)")


def make_jws_signing_input(header: JwsHeader, payload: bytes) -> bytes:
    """The bytes that are signed.

    Args:
        header: of the signature.
        payload: the lines of `header.covered`, as `message.make_signing_string` writes them.

    Source: RFC 7797 section 3.
    """
    return header.encoded.encode("ascii") + b"." + payload


def make_detached_jws(header: JwsHeader, signature: bytes) -> str:
    """The value of the x-jws-signature field."""
    return f"{header.encoded}..{encode_base64url(signature)}"


def parse_detached_jws(value: str) -> tuple[JwsHeader, bytes]:
    """Read the value of an x-jws-signature field.

    Args:
        value: as received, at most 32 KiB.

    Returns:
        The header, and the signature's bytes.

    Raises:
        FormatError: `jws.malformed`, `jws.attached` for one that carries its payload, `jws.critical`, `jws.encoded-payload`,
            `jws.offered-key`, `jws.signed-data`, `jws.covered-names`, `jws.time`; `json.*`, `base64.*`.
    """
    if len(value) > MAX_JWS_LENGTH:
        raise FormatError("jws.malformed", f"a signature of {len(value)} characters is too long")
    match = _DETACHED.fullmatch(value)
    if match is None:
        if value.count(".") == 2 and ".." not in value:
            raise FormatError(
                "jws.attached", "the signature carries a payload of its own; the request's is what counts"
            )
        raise FormatError("jws.malformed", "the signature is not header..signature in base64url")
    header, signature = match.groups()
    return read_jws_header(header), decode_base64url(signature, what="the signature")


class VerifiedJws(NamedTuple):
    """What was proven: the owner of the key signed these lines.

    Attributes:
        header: what the signature says and covers.
        signing_input: the bytes that were signed.
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
    """Verify the x-jws-signature of a request. What it covers is the caller's to judge, and so is the body.

    Args:
        message: the request as received.
        verifiers: of the key, by the names of JWS: `make_verifiers(key, names=JWS)`.
        at: the time to judge at, aware.
        skew: how far the two clocks may be apart.
        max_age: how old it may be.

    Raises:
        FormatError: as `parse_detached_jws` and `message.make_signing_string`; `header.duplicate`.
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
