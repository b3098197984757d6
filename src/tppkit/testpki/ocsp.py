"""OCSP answers, written.

Source: RFC 6960 section 4.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from tppkit.certificates import der
from tppkit.testpki.certificate import Extension, write_extension, write_generalized_time
from tppkit.testpki.crl import REASONS, Revocation
from tppkit.testpki.keys import PrivateKey
from tppkit.testpki.signing import default_hash, sign_bytes, signature_algorithm

_ENUMERATED = 0x0A
_BASIC, NONCE = "1.3.6.1.5.5.7.48.1.1", "1.3.6.1.5.5.7.48.1.2"
HASH_NAMES = {
    "1.3.14.3.2.26": "sha1", "2.16.840.1.101.3.4.2.1": "sha256", "2.16.840.1.101.3.4.2.2": "sha384",
    "2.16.840.1.101.3.4.2.3": "sha512",
}  # fmt: skip
_HASH_OIDS = {name: oid for oid, name in HASH_NAMES.items()}

MALFORMED_REQUEST, INTERNAL_ERROR, TRY_LATER, UNAUTHORIZED = 1, 2, 3, 6  # RFC 6960 section 4.2.1


class CertId(NamedTuple):
    """Which certificate is meant: hash (one of `HASH_NAMES`) of its issuer's name and key, and its serial number."""

    hash_name: str
    issuer_name_hash: bytes
    issuer_key_hash: bytes
    serial: int


class Single(NamedTuple):
    """What is said of one certificate: good (`revocation` None), revoked, or unknown; aware UTC."""

    cert_id: CertId
    revocation: Revocation | None
    this_update: datetime
    next_update: datetime | None
    known: bool = True


def make_cert_id(issuer_name: bytes, issuer_key: bytes, serial: int, *, hash_name: str = "sha1") -> CertId:
    """The CertID of a certificate.

    Args:
        issuer_name: DER of the issuer's name.
        issuer_key: the issuer's public key: content of the BIT STRING, without the byte of unused bits.
        serial: its serial number.
        hash_name: `sha1`, which every responder knows, or another of `HASH_NAMES`.
    """
    return CertId(
        hash_name, hashlib.new(hash_name, issuer_name).digest(), hashlib.new(hash_name, issuer_key).digest(), serial
    )


def write_refusal(status: int) -> bytes:
    """DER of an OCSP answer that only says why there is none (`MALFORMED_REQUEST`, …)."""
    return der.write_element(der.SEQUENCE, der.write_element(_ENUMERATED, bytes([status])))


def write_answer(
    singles: Iterable[Single],
    *,
    responder_key_hash: bytes,
    key: PrivateKey,
    certificates: tuple[bytes, ...],
    produced_at: datetime,
    nonce: bytes | None = None,
    hash_name: str | None = None,
) -> bytes:
    """DER of a successful OCSP answer, signed.

    Args:
        singles: what is said of each certificate.
        responder_key_hash: SHA-1 of the responder's public key, by which it names itself.
        key: the responder's key.
        certificates: DER of the certificates sent along: the delegated responder's own.
        produced_at: aware UTC.
        nonce: DER of the request's nonce value, repeated; None writes none.
        hash_name: one of `signing.HASHES`; the one that fits the key by default.
    """
    extensions = write_extension(Extension(NONCE, nonce)) if nonce is not None else b""
    data = der.write_element(
        der.SEQUENCE,
        der.write_element(0xA2, der.write_element(der.OCTET_STRING, responder_key_hash)),
        write_generalized_time(produced_at),
        der.write_element(der.SEQUENCE, *map(_single, singles)),
        der.write_element(0xA1, der.write_element(der.SEQUENCE, extensions)) if extensions else b"",
    )
    hash_name = hash_name or default_hash(key)
    basic = der.write_element(
        der.SEQUENCE,
        data,
        signature_algorithm(key, hash_name),
        der.write_element(der.BIT_STRING, b"\x00", sign_bytes(key, data, hash_name)),
        der.write_element(0xA0, der.write_element(der.SEQUENCE, *certificates)) if certificates else b"",
    )
    answer = der.write_element(der.SEQUENCE, der.write_oid(_BASIC), der.write_element(der.OCTET_STRING, basic))
    return der.write_element(der.SEQUENCE, der.write_element(_ENUMERATED, b"\x00"), der.write_element(0xA0, answer))


def _single(single: Single) -> bytes:
    following = single.next_update
    return der.write_element(
        der.SEQUENCE,
        _cert_id(single.cert_id),
        _status(single),
        write_generalized_time(single.this_update),
        der.write_element(0xA0, write_generalized_time(following)) if following else b"",
    )


def _cert_id(cert_id: CertId) -> bytes:
    return der.write_element(
        der.SEQUENCE,
        der.write_element(der.SEQUENCE, der.write_oid(_HASH_OIDS[cert_id.hash_name]), b"\x05\x00"),
        der.write_element(der.OCTET_STRING, cert_id.issuer_name_hash),
        der.write_element(der.OCTET_STRING, cert_id.issuer_key_hash),
        der.write_integer(cert_id.serial),
    )


def _status(single: Single) -> bytes:
    if not single.known:
        return der.write_element(0x82)
    if single.revocation is None:
        return der.write_element(0x80)
    reason = der.write_element(0xA0, der.write_element(_ENUMERATED, bytes([REASONS[single.revocation.reason]])))
    return der.write_element(0xA1, write_generalized_time(single.revocation.at), reason)
