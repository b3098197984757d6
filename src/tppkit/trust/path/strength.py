"""Which keys and signature algorithms are strong enough, and the check of one signature.

Source: SOG-IS Agreed Cryptographic Mechanisms 1.3 as ETSI TS 119 312 takes them up: RSA from 2048 bits, the NIST and
Brainpool curves from 256 bits, Ed25519 and Ed448, SHA-2 from 256 bits. SHA-1 is neither.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import SignatureAlgorithmOID as Algorithm

from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected
from tppkit.trust.path.names import comparable_issuer, comparable_subject

MIN_RSA_BITS = 2048
_CLAUSE = "ETSI TS 119 312 clause 5"
_CURVES = frozenset({"P-256", "P-384", "P-521", "brainpoolP256r1", "brainpoolP384r1", "brainpoolP512r1"})
_WEB_CURVES = frozenset({"P-256", "P-384", "P-521"})
_STRONG_HASHES = (hashes.SHA256, hashes.SHA384, hashes.SHA512)
_PSS = Algorithm.RSASSA_PSS.dotted_string
_SIGNATURES = frozenset(
    oid.dotted_string
    for oid in (
        Algorithm.RSA_WITH_SHA256, Algorithm.RSA_WITH_SHA384, Algorithm.RSA_WITH_SHA512, Algorithm.RSASSA_PSS,
        Algorithm.ECDSA_WITH_SHA256, Algorithm.ECDSA_WITH_SHA384, Algorithm.ECDSA_WITH_SHA512,
        Algorithm.ED25519, Algorithm.ED448,
    )
)  # fmt: skip


def require_key(certificate: EidasCertificate) -> None:
    """Refuse a weak key.

    Raises:
        CertificateRejected: `key.weak`, `key.unsupported`.
    """
    key = certificate.key
    if key.type in ("rsa", "rsa-pss"):
        if (key.bits or 0) < MIN_RSA_BITS:
            raise CertificateRejected(
                "key.weak", f"the RSA key of {certificate.subject} has {key.bits} bits, fewer than {MIN_RSA_BITS}",
                clause=_CLAUSE,
            )  # fmt: skip
    elif key.type not in ("ed25519", "ed448") and key.curve not in _CURVES:
        raise CertificateRejected(
            "key.unsupported",
            f"the key of {certificate.subject} is of type {key.type}, curve {key.curve or 'unknown'}",
            clause=_CLAUSE,
        )


def require_signature_algorithm(certificate: EidasCertificate) -> None:
    """Refuse a certificate whose signature is made with a weak or unknown algorithm.

    Raises:
        CertificateRejected: `path.weak-signature`.
    """
    parsed = certificate.x509
    try:
        weak = signature_weakness(parsed.signature_algorithm_oid.dotted_string, parsed.signature_hash_algorithm)
    except (UnsupportedAlgorithm, ValueError) as e:
        weak = str(e)[:120]
    if weak:
        raise CertificateRejected("path.weak-signature", f"{certificate.subject} is signed with {weak}", clause=_CLAUSE)


def signature_weakness(oid: str, hash_algorithm: hashes.HashAlgorithm | None) -> str | None:
    """What is wrong with a signature algorithm; None when it is strong.

    Args:
        oid: dotted object identifier.
        hash_algorithm: as `cryptography` read it; None where the algorithm names none.
    """
    if oid not in _SIGNATURES:
        return f"the signature algorithm {oid}"
    if hash_algorithm is not None and not isinstance(hash_algorithm, _STRONG_HASHES):
        return f"a signature with {hash_algorithm.name}"
    return "an RSASSA-PSS signature without a hash" if oid == _PSS and hash_algorithm is None else None


def is_for_the_web(certificate: EidasCertificate) -> bool:
    """Whether `cryptography`'s verifier knows the key: it takes what browsers take, so no Brainpool and no Edwards curve."""
    key = certificate.key
    return key.type == "rsa" or key.curve in _WEB_CURVES


def is_signed_by(certificate: EidasCertificate, issuer: EidasCertificate) -> bool:
    """Whether the issuer's key made the certificate's signature, and issuer and subject name fit."""
    pss = certificate.x509.signature_algorithm_oid == Algorithm.RSASSA_PSS
    if issuer.key.type == "rsa-pss" and not pss:
        return False  # RFC 4055 section 1.2: such a key makes no other signatures
    try:
        if certificate.issuer_der != issuer.subject_der:
            return comparable_issuer(certificate) == comparable_subject(issuer) and _has_key_of(issuer, certificate)
        certificate.x509.verify_directly_issued_by(issuer.x509)
    except (InvalidSignature, ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True


def _has_key_of(issuer: EidasCertificate, certificate: EidasCertificate) -> bool:
    parameters = certificate.x509.signature_algorithm_parameters
    return is_signature_of(
        issuer.x509.public_key(),
        signature=certificate.x509.signature,
        data=certificate.x509.tbs_certificate_bytes,
        hash_algorithm=certificate.x509.signature_hash_algorithm,
        pss=parameters if isinstance(parameters, padding.PSS) else None,
    )


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
        pss: the parameters of an RSASSA-PSS signature, else PKCS #1 v1.5 is meant.
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
