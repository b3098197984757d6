"""Strength of keys and signature algorithms, and the check of signatures.

Source: SOG-IS Agreed Cryptographic Mechanisms 1.3 as ETSI TS 119 312 adopts them: the keys of `key_facts.STRONG_KEYS`, and SHA-2
from 256 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from types import MappingProxyType

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from tppkit.certificates import EidasCertificate, der
from tppkit.certificates.key_facts import key_weakness
from tppkit.errors import CertificateRejected
from tppkit.trust.path.links import Link

_CLAUSE = "ETSI TS 119 312 clause 5"
_STRONG_HASHES = (hashes.SHA256, hashes.SHA384, hashes.SHA512)
_PSS, _MGF1 = "1.2.840.113549.1.1.10", "1.2.840.113549.1.1.8"
_NULL = der.write_element(der.NULL)


def _algorithm(oid: str, *parameters: bytes) -> bytes:
    return der.write_sequence(der.write_oid(oid), *parameters)


def _pss(hash_oid: str, salt_length: int) -> bytes:
    digest = _algorithm(hash_oid, _NULL)
    parts = (digest, _algorithm(_MGF1, digest), der.write_integer(salt_length))
    explicit = (der.write_element(0xA0 + place, part) for place, part in enumerate(parts))
    return _algorithm(_PSS, der.write_sequence(*explicit))


_SHA256, _SHA384, _SHA512 = (f"2.16.840.1.101.3.4.2.{number}" for number in (1, 2, 3))
# Each signature algorithm in its one encoding: RFC 4055 sections 3.1 and 5, RFC 5758 section 3.2, RFC 8410 section 3.
_SIGNATURES: Mapping[bytes, str] = MappingProxyType({
    _algorithm("1.2.840.113549.1.1.11", _NULL): "1.2.840.113549.1.1.11",  # RSASSA-PKCS1-v1_5
    _algorithm("1.2.840.113549.1.1.12", _NULL): "1.2.840.113549.1.1.12",
    _algorithm("1.2.840.113549.1.1.13", _NULL): "1.2.840.113549.1.1.13",
    _pss(_SHA256, 32): _PSS,
    _pss(_SHA384, 48): _PSS,
    _pss(_SHA512, 64): _PSS,
    _algorithm("1.2.840.10045.4.3.2"): "1.2.840.10045.4.3.2",  # ECDSA
    _algorithm("1.2.840.10045.4.3.3"): "1.2.840.10045.4.3.3",
    _algorithm("1.2.840.10045.4.3.4"): "1.2.840.10045.4.3.4",
    _algorithm("1.3.101.112"): "1.3.101.112",  # Ed25519
    _algorithm("1.3.101.113"): "1.3.101.113",  # Ed448
})  # fmt: skip
_SIGNATURE_OIDS = frozenset(_SIGNATURES.values())
# What each type of key signs, strong or not. An RSASSA-PSS key makes no other signatures (RFC 4055 section 1.2).
_SIGNATURES_OF_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "rsa": ("1.2.840.113549.1.1.",),
    "rsa-pss": (_PSS,),
    "ec": ("1.2.840.10045.4.",),
    "ed25519": ("1.3.101.112",),
    "ed448": ("1.3.101.113",),
})  # fmt: skip


def require_key(certificate: EidasCertificate) -> None:
    """Reject a weak key.

    Raises:
        CertificateRejected: `key.weak`, `key.unsupported`.
    """
    key = certificate.key
    code = key_weakness(key)
    if code is not None:
        message = f"the key of {certificate.subject} is weak or unsupported: {key.name}, {key.bits or 'unknown'} bits"
        raise CertificateRejected(code, message, clause=_CLAUSE)


def require_signature_algorithm(certificate: EidasCertificate) -> None:
    """Reject a certificate whose signature algorithm is weak, unknown or has unusual parameters.

    Raises:
        CertificateRejected: `path.weak-signature`.
    """
    if certificate.signature_algorithm_der not in _SIGNATURES:
        algorithm = certificate.signature_algorithm
        raise CertificateRejected(
            "path.weak-signature",
            f"{certificate.subject} is signed with {algorithm}, which is weak, unknown or has unusual parameters",
            clause=_CLAUSE,
        )


def signature_weakness(oid: str, hash_algorithm: hashes.HashAlgorithm | None) -> str | None:
    """The weakness of a signature algorithm; None if it is strong.

    Args:
        oid: dotted object identifier.
        hash_algorithm: as `cryptography` read it; None if the algorithm names none.
    """
    if oid not in _SIGNATURE_OIDS:
        return f"the signature algorithm {oid}"
    if hash_algorithm is not None and not isinstance(hash_algorithm, _STRONG_HASHES):
        return f"a signature with {hash_algorithm.name}"
    return "an RSASSA-PSS signature without a hash" if oid == _PSS and hash_algorithm is None else None


def check_signatures(chain: Sequence[Link], at: datetime) -> None:
    """Check every signature of a chain; the anchor's own signature is not checked.

    The anchor's comes first: it cannot be forged, and keys that a stranger made can be slow to verify with.

    Raises:
        CertificateRejected: `path.signature`.
    """
    for link, issuer in reversed(tuple(pairwise(chain))):
        if not is_signed_by(link.certificate, issuer.certificate):
            raise CertificateRejected(
                "path.signature",
                f"{link} is not signed with the key of {issuer}",
                clause="RFC 5280 section 6.1.3 (a) (1)",
            )


def is_signed_by(certificate: EidasCertificate, issuer: EidasCertificate) -> bool:
    """Whether the issuer's key made the certificate's signature, and the issuer has the name that the certificate states."""
    parsed = certificate.x509
    oid = parsed.signature_algorithm_oid.dotted_string
    if not any(oid.startswith(prefix) for prefix in _SIGNATURES_OF_KEYS.get(issuer.key.type, ())):
        return False
    if certificate.issuer.comparable != issuer.subject.comparable or not certificate.has_one_signature_algorithm:
        return False
    try:
        parameters = parsed.signature_algorithm_parameters if oid == _PSS else None
        return is_signature_of(
            issuer.x509.public_key(),
            signature=parsed.signature,
            data=parsed.tbs_certificate_bytes,
            hash_algorithm=parsed.signature_hash_algorithm,
            pss=parameters if isinstance(parameters, padding.PSS) else None,
        )
    except (ValueError, UnsupportedAlgorithm):
        return False


def is_signature_of(
    key: CertificatePublicKeyTypes,
    *,
    signature: bytes,
    data: bytes,
    hash_algorithm: hashes.HashAlgorithm | None,
    pss: padding.PSS | None = None,
) -> bool:
    """Whether `key` made `signature` over `data`.

    Args:
        key: the public key, whose type decides the algorithm.
        signature: the signature bytes.
        data: what was signed.
        hash_algorithm: for RSA and ECDSA.
        pss: the parameters of an RSASSA-PSS signature; None for PKCS #1 v1.5.
    """
    try:
        if isinstance(key, rsa.RSAPublicKey) and hash_algorithm is not None:
            key.verify(signature, data, pss or padding.PKCS1v15(), hash_algorithm)
        elif isinstance(key, ec.EllipticCurvePublicKey) and hash_algorithm is not None:
            key.verify(signature, data, ec.ECDSA(hash_algorithm))
        elif isinstance(key, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
            key.verify(signature, data)
        else:
            return False
    except (InvalidSignature, ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True
