"""What is wrong with a signature that no key which was given can have made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tppkit.certificates import EidasCertificate
from tppkit.seals.diagnose.encodings import MAX_ENCODED, decode_any
from tppkit.seals.diagnose.hashes import BY_SIZE, SIGNED


def tell_malformed(text: str, certificates: Sequence[EidasCertificate]) -> Iterator[str]:
    """What is wrong, as far as length and form tell it.

    Args:
        text: of the signature, as written.
        certificates: whose keys were tried.
    """
    decoded = decode_any(text)
    if not text:
        yield "The signature is empty."
    elif len(text) > MAX_ENCODED:
        yield f"The signature has {len(text)} characters; no key makes one that long."
    elif not decoded:
        yield f"The signature is neither base64 nor hexadecimal: {len(text)} characters, {_odd_one(text)}."
    else:
        raw = decoded[0].raw
        wanted = dict.fromkeys(_wanted(certificate, raw) for certificate in certificates)
        yield f"The signature has {len(raw)} bytes; {'; '.join(wanted)}."
        row = BY_SIZE.get(len(raw))
        if row in SIGNED:
            yield f"{len(raw)} bytes are as long as an HMAC with {row.name}: was it made with a shared secret?"


def _odd_one(text: str) -> str:
    alphabet = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
    odd = next((place for place, character in enumerate(text) if character not in alphabet), None)
    return "which is no whole number of bytes" if odd is None else f"the one at {odd} is not of its alphabet"


def _wanted(certificate: EidasCertificate, raw: bytes) -> str:
    match certificate.public_key:
        case rsa.RSAPublicKey() as key:
            size = (key.key_size + 7) // 8
            right = f"an RSA-{key.key_size} key makes {size}"
            return f"{right}, of a smaller number than its modulus" if len(raw) == size else right
        case ec.EllipticCurvePublicKey() as key:
            size = (key.key_size + 7) // 8
            return f"a {key.curve.name} key makes a DER SEQUENCE of two integers from 1 to below its order (or, bare, {2 * size} bytes)"
    return "an Ed25519 key makes 64"
