"""Reader of public keys in a PKCS#11 device. Source: PKCS #11 Cryptographic Token Interface 2.40 (OASIS)."""

from __future__ import annotations

from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import load_der_public_key

from tppkit.errors import FormatError


def read_public_key(p11: Any, key: Any) -> CertificatePublicKeyTypes | None:
    """Read the public key from a key object; None for an EC private key, which does not contain it.

    Args:
        p11: the module `pkcs11`.
        key: a public or private key of the device.

    Raises:
        FormatError: `key.unsupported`.
    """
    try:
        match key.key_type:
            case p11.KeyType.RSA:  # private key objects have these attributes too
                modulus, exponent = key[p11.Attribute.MODULUS], key[p11.Attribute.PUBLIC_EXPONENT]
                numbers = rsa.RSAPublicNumbers(int.from_bytes(exponent, "big"), int.from_bytes(modulus, "big"))
                return numbers.public_key()
            case p11.KeyType.EC:
                found = load_der_public_key(p11.util.ec.encode_ec_public_key(key))
                return found if isinstance(found, ec.EllipticCurvePublicKey) else None
            case p11.KeyType.EC_EDWARDS:
                return ed25519.Ed25519PublicKey.from_public_bytes(_octets(key[p11.Attribute.EC_POINT]))
    except (p11.AttributeTypeInvalid, p11.AttributeSensitive):
        return None
    except (ValueError, UnsupportedAlgorithm) as e:
        raise FormatError("key.unsupported", "the device's public key is of an unsupported type") from e
    raise FormatError("key.unsupported", "the device's key is neither RSA nor EC")


def _octets(point: bytes) -> bytes:
    # PKCS #11 3.0 has the raw point, earlier drafts wrap it in an OCTET STRING; devices have both.
    return point[2:] if point[:2] == b"\x04\x20" and len(point) == 34 else point


def read_certificate_key(der: bytes) -> CertificatePublicKeyTypes:
    """Read the public key of a certificate in the device.

    Raises:
        FormatError: `key.unsupported`.
    """
    try:
        return x509.load_der_x509_certificate(der).public_key()
    except (ValueError, UnsupportedAlgorithm) as e:
        raise FormatError("key.unsupported", "the certificate in the device has an unsupported key") from e
