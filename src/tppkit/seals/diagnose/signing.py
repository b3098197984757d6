"""Mistakes in the signature itself and in its key: seen once it is known how the signature was made."""

from __future__ import annotations

import hmac
from collections.abc import Iterator

from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit.httpsig.algorithms import Algorithm, Scheme
from tppkit.seals.diagnose.encodings import ENCODINGS
from tppkit.seals.diagnose.form import Fault
from tppkit.seals.diagnose.hashes import KNOWN, SIGNED
from tppkit.seals.diagnose.mistake import Mistake, Part, by_name
from tppkit.seals.diagnose.recover import Made

_PROFILE_MEND = "Sign with the algorithm that the bank's dialect names for this key."

SIGNING_MISTAKES: tuple[Mistake, ...] = (
    *(
        Mistake(f"signature-{name}", Part.SIGNATURE, f"The signature {what}.", mend)
        for name, (what, mend) in ENCODINGS.items()
    ),
    *(
        Mistake(name, Part.SIGNATURE, cause, mend)
        for name, cause, mend in (
            ("signature-reversed", "The signature's bytes stand in reverse order, as Windows' CryptoAPI gives them.",
             "Reverse them before encoding."),
            ("signature-leading-zero", "The signature was written as a number: a zero byte stands before it, or its own is lost.",
             "Encode the bytes that the library gives; never make a number of them."),
            ("signature-trailing-bytes", "Further bytes stand behind the DER of the signature.",
             "Cut the buffer to the length that the signing function gives back."),
            ("pss-for-pkcs1", "The signature is RSASSA-PSS where PKCS#1 is due.", _PROFILE_MEND),
            ("pkcs1-for-pss", "The signature is PKCS#1 where RSASSA-PSS is due.", _PROFILE_MEND),
            ("pss-salt-length", "The signature is RSASSA-PSS with a salt of another length than the hash has.",
             "Use a salt as long as the hash."),
            ("pss-mgf", "The signature is RSASSA-PSS with another hash in its mask than the one it signs.", "Use one hash for both."),
            ("raw-for-der", "The signature is ECDSA as bare r and s, and the dialect has DER.",
             "Write the signature as a DER SEQUENCE of r and s."),
            ("der-for-raw", "The signature is ECDSA in DER, and the dialect has bare r and s.",
             "Write r and s bare, each as long as the curve."),
            ("signature-hash", "The signature is over another hash than is due.", _PROFILE_MEND),
            ("signature-hash-weak", "The signature is over a hash that banks do not take.", "Sign with SHA-256 or SHA-512."),
            ("no-digest-info", "The RSA signature holds the bare hash, without the name of the hash before it (DigestInfo).",
             "Sign with a function that hashes and pads by itself (SHA256withRSA, not NONEwithRSA or RSA/ECB/PKCS1Padding)."),
            ("digest-info-without-null", "The RSA signature names its hash without the NULL that belongs there (in its DigestInfo).",
             "Use the signing function of a library; where DigestInfo is built by hand, write the parameters as NULL."),
            ("not-hashed", "The RSA signature holds the text itself: nothing was hashed.",
             "Sign with a function that hashes by itself (SHA256withRSA, not NONEwithRSA)."),
            ("hmac-with-public-key", "The signature is an HMAC whose secret is the public key or certificate.",
             "Sign with the private key."),
        )
    ),
    *(
        Mistake(name, Part.KEY, cause, mend)
        for name, cause, mend in (
            ("key-of-qwac", "The signature was made with the key of the QWAC, not of the seal certificate.",
             "Sign with the QSealC's private key."),
            ("key-of-other", "The signature was made with the key of another certificate than the one it was sent with.",
             "Send the certificate of the key that signs; after a renewal change both at once."),
            ("certificate-not-seal", "The certificate that was sent is not a seal certificate (QSealC).",
             "Send the QSealC, and sign with its key."),
            ("key-id-other", "keyId names another certificate than the one that was sent.",
             "Write keyId from the certificate that is sent."),
            ("key-id-form", "keyId is not in the form of the dialect.", "Write keyId as the dialect has it, from the certificate."),
            ("algorithm-name", "The algorithm is named in a way that the dialect does not have.", "Name it as the dialect does."),
            ("key-unusable", "The certificate's key is too weak, or of a kind that the dialect has no algorithm for.",
             "Have a certificate issued for an RSA key of 2048 bits or more, or a P-256 key."),
            ("algorithm-other-key", "The algorithm that is named is for another kind of key than the certificate has.",
             "Name the algorithm of the certificate's key."),
        )
    ),
)  # fmt: skip
_ROWS = by_name(SIGNING_MISTAKES)

_STRONG = ("SHA-256", "SHA-384", "SHA-512")


def signing_fault(name: str, detail: str = "") -> Fault:
    """A fault of the signature or key by its row's name."""
    return Fault(_ROWS[name], detail)


def faults_of_making(made: Made, expected: Algorithm | None) -> Iterator[Fault]:
    """What differs between how a signature was made and how its algorithm has it.

    Args:
        made: how it was made.
        expected: what the algorithm parameter stands for; None when that is not known.
    """
    if made.scheme == "PKCS#1 without DigestInfo":
        told = f"its padding holds {len(made.recovered)} bytes and no DigestInfo"
        yield signing_fault("no-digest-info" if made.hash else "not-hashed", told)
        return
    if made.scheme == "PKCS#1, DigestInfo without NULL":
        yield signing_fault("digest-info-without-null", f"its hash is {made.hash}")
    yield from _faults_of_scheme(made, expected)
    wanted = "" if expected is None else expected.hash.name.upper().replace("SHA", "SHA-")
    if made.hash and made.hash not in _STRONG:
        yield signing_fault("signature-hash-weak", f"it is {made.hash}")
    elif wanted and made.hash and made.hash != wanted:
        yield signing_fault("signature-hash", f"it is {made.hash}, due is {wanted}")


def _faults_of_scheme(made: Made, expected: Algorithm | None) -> Iterator[Fault]:
    scheme = None if expected is None else expected.scheme
    told = f"it verifies as {made.scheme}, {made.hash}"
    if made.scheme == "PSS" and scheme is Scheme.PKCS1:
        yield signing_fault("pss-for-pkcs1", told)
    elif made.scheme == "PKCS#1" and scheme is Scheme.PSS:
        yield signing_fault("pkcs1-for-pss", told)
    elif made.scheme == "ECDSA, r and s bare" and scheme is Scheme.ECDSA_DER:
        yield signing_fault("raw-for-der", told)
    elif made.scheme == "ECDSA, DER" and scheme is Scheme.ECDSA_RAW:
        yield signing_fault("der-for-raw", told)
    if made.scheme == "PSS" and scheme is Scheme.PSS:
        size = KNOWN[made.hash].size
        if made.salt_length != size:
            yield signing_fault("pss-salt-length", f"{made.salt_length} bytes, the hash has {size}")
        if made.mgf_hash != made.hash:
            yield signing_fault("pss-mgf", f"the mask has {made.mgf_hash}, the signature {made.hash}")


def hmac_secrets(key: CertificatePublicKeyTypes, certificate_der: bytes) -> Iterator[bytes]:
    """Public things that a confused sender, or an attacker, takes as the secret of an HMAC."""
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    yield from (
        pem,
        pem.rstrip(b"\n"),
        key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        certificate_der,
    )


def is_hmac(signature: bytes, data: bytes, secret: bytes) -> str | None:
    """The hash of an HMAC that a signature is, or None."""
    for row in SIGNED:
        if hmac.compare_digest(hmac.digest(secret, data, row.function), signature):
            return row.name
    return None
