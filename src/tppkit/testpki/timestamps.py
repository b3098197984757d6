"""Time stamps: requests read, and tokens of a time-stamping authority written and signed.

    TimeStampReq ::= SEQUENCE { version, messageImprint, reqPolicy OPTIONAL, nonce OPTIONAL, certReq DEFAULT FALSE, … }
    TSTInfo      ::= SEQUENCE { version, policy, messageImprint, serialNumber, genTime, …, nonce OPTIONAL, … }

Sources: RFC 3161 sections 2.4.1 and 2.4.2, RFC 5652 section 5 (SignedData), RFC 5816 (ESSCertIDv2).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from tppkit._clock import as_utc
from tppkit.certificates import der
from tppkit.errors import FormatError
from tppkit.testpki.certificate import Issued, write_attribute, write_generalized_time, write_time
from tppkit.testpki.pki import Pki
from tppkit.testpki.signing import sign_bytes, signature_algorithm

POLICY = "2.999.3161.1"  # an example arc (ITU-T X.660)
_SIGNED_DATA, _TST_INFO = "1.2.840.113549.1.7.2", "1.2.840.113549.1.9.16.1.4"
_CONTENT_TYPE, _MESSAGE_DIGEST, _SIGNING_TIME = "1.2.840.113549.1.9.3", "1.2.840.113549.1.9.4", "1.2.840.113549.1.9.5"
_SIGNING_CERTIFICATE_V2 = "1.2.840.113549.1.9.16.2.47"
_SHA256 = "2.16.840.1.101.3.4.2.1"
_DIGEST_SIZES: Mapping[str, int] = MappingProxyType(
    {_SHA256: 32, "2.16.840.1.101.3.4.2.2": 48, "2.16.840.1.101.3.4.2.3": 64}
)
_GRANTED, _REJECTION = 0, 2
_BAD_ALGORITHM, _BAD_DATA_FORMAT, _UNACCEPTED_POLICY = 0, 5, 15  # PKIFailureInfo, bits
MAX_REQUEST_BYTES = 4096


class TimeStampRequest(NamedTuple):
    """A request for a time stamp.

    Attributes:
        imprint: DER of the messageImprint, as received.
        algorithm: Dotted identifier of its hash.
        digest: The hash value.
        policy: Dotted identifier of the requested policy, or None.
        nonce: DER of the nonce, or empty.
        with_certificate: Whether the response should contain the authority's certificate.
    """

    imprint: bytes
    algorithm: str
    digest: bytes
    policy: str | None
    nonce: bytes
    with_certificate: bool


def parse_timestamp_request(data: bytes) -> TimeStampRequest:
    """Read a TimeStampReq.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    if len(data) > MAX_REQUEST_BYTES:
        raise FormatError("der.malformed", f"a time-stamp request of {len(data)} bytes is too long")
    parts = der.read_children(data, der.read_whole(data, tag=der.SEQUENCE))
    if len(parts) < 2:
        raise FormatError("der.malformed", "a time-stamp request lacks version or messageImprint")
    imprint = der.read_children(data, der.expect(parts[1], der.SEQUENCE))
    if len(imprint) != 2:
        raise FormatError("der.malformed", "a messageImprint is not a pair", offset=parts[1].offset)
    algorithm = der.read_children(data, der.expect(imprint[0], der.SEQUENCE))
    if not algorithm:
        raise FormatError("der.malformed", "the hash is not named", offset=imprint[0].offset)
    digest = der.expect(imprint[1], der.OCTET_STRING)
    rest = {part.tag: part for part in parts[2:]}
    policy, nonce, wanted = rest.get(der.OID), rest.get(der.INTEGER), rest.get(der.BOOLEAN)
    return TimeStampRequest(
        imprint=data[parts[1].offset : parts[1].end],
        algorithm=der.read_oid(data, algorithm[0]),
        digest=data[digest.start : digest.end],
        policy=der.read_oid(data, policy) if policy else None,
        nonce=data[nonce.offset : nonce.end] if nonce else b"",
        with_certificate=wanted is not None and data[wanted.start : wanted.end] == b"\xff",
    )


def answer_timestamp(pki: Pki, request: bytes, *, at: datetime, serial: int) -> bytes:
    """Answer a time-stamp request with a token or the reason why there is none, as DER of a TimeStampResp.

    Args:
        pki: The PKI, whose time-stamping authority answers.
        request: DER of the TimeStampReq.
        at: The time to stamp, aware.
        serial: The token's serial number.
    """
    try:
        asked = parse_timestamp_request(request)
    except FormatError:
        return _refuse(_BAD_DATA_FORMAT)
    if _DIGEST_SIZES.get(asked.algorithm) != len(asked.digest):
        return _refuse(_BAD_ALGORITHM)
    if asked.policy not in (None, POLICY):
        return _refuse(_UNACCEPTED_POLICY)
    token = _write_token(asked, pki.tsa, at=as_utc(at).replace(microsecond=0), serial=serial)
    status = der.write_sequence(der.write_integer(_GRANTED))
    return der.write_sequence(status, token)


def _refuse(failure: int) -> bytes:
    bits = (1 << (23 - failure)).to_bytes(3, "big").rstrip(b"\x00")
    info = der.write_element(der.BIT_STRING, bytes([7 - failure % 8]), bits)
    return der.write_sequence(der.write_sequence(der.write_integer(_REJECTION), info))


def _write_token(request: TimeStampRequest, tsa: Issued, *, at: datetime, serial: int) -> bytes:
    """Write a TimeStampToken as DER: a CMS SignedData around a TSTInfo."""
    info = der.write_sequence(der.write_integer(1), der.write_oid(POLICY), request.imprint, der.write_integer(serial),
        write_generalized_time(at), request.nonce,
    )  # fmt: skip
    sha256 = der.write_sequence(der.write_oid(_SHA256))
    certificates = der.write_element(0xA0, tsa.certificate.der) if request.with_certificate else b""
    content = der.write_sequence(der.write_oid(_TST_INFO), der.write_element(0xA0, der.write_octets(info)))
    signed_data = der.write_sequence(der.write_integer(3), der.write_element(der.SET, sha256), content, certificates,
        der.write_element(der.SET, _signer_info(info, sha256, tsa, at)),
    )  # fmt: skip
    return der.write_sequence(der.write_oid(_SIGNED_DATA), der.write_element(0xA0, signed_data))


def _signer_info(info: bytes, sha256: bytes, tsa: Issued, at: datetime) -> bytes:
    certificate, key = tsa.certificate, tsa.key
    cert_id = der.write_sequence(der.write_octets(hashlib.sha256(certificate.der).digest()))
    attributes = sorted(  # DER sorts the members of a SET OF
        [
            write_attribute(_CONTENT_TYPE, der.write_oid(_TST_INFO)),
            write_attribute(_SIGNING_TIME, write_time(at)),
            write_attribute(_MESSAGE_DIGEST, der.write_octets(hashlib.sha256(info).digest())),
            write_attribute(_SIGNING_CERTIFICATE_V2, der.write_sequence(der.write_sequence(cert_id))),
        ]
    )
    signature = sign_bytes(key, der.write_element(der.SET, *attributes), "sha256")
    issuer = der.write_sequence(certificate.issuer_der, der.write_integer(certificate.serial))
    return der.write_sequence(der.write_integer(1), issuer, sha256, der.write_element(0xA0, *attributes),
        signature_algorithm(key, "sha256"), der.write_octets(signature),
    )  # fmt: skip
