"""Signers with keys in memory, and readers of PEM, DER and PKCS#12 files."""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes, PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key

from tppkit._encoding import pem_fault, utf8
from tppkit._locals import without_locals
from tppkit.certificates import EidasCertificate
from tppkit.certificates.pkcs12_files import certificates_of, is_pkcs12, open_pkcs12
from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig.algorithms import make_sign
from tppkit.httpsig.signers.protocol import choose_algorithm


class KeySigner:
    """Signs with a private key in memory.

        signer = KeySigner(load_private_key(path.read_bytes()), algorithm="rsa-pss-sha256")
        signature = signer.sign(data)

    Args:
        key: RSA of at least 2048 bits, EC P-256, P-384 or P-521 (JWS only), or Ed25519.
        algorithm: a name of `httpsig.algorithms.ALGORITHMS`; by default the key's usual one.

    Raises:
        FormatError: `key.unsupported`, `key.weak`, `signature.algorithm`.
    """

    @without_locals
    def __init__(self, key: PrivateKeyTypes, *, algorithm: str | None = None) -> None:
        self.algorithm = choose_algorithm(key, algorithm)
        if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
            raise FormatError("key.unsupported", f"a {type(key).__name__} cannot sign")
        self.public_key: CertificatePublicKeyTypes = key.public_key()
        self.sign = make_sign(key, self.algorithm)

    def __repr__(self) -> str:
        return f"KeySigner(algorithm={self.algorithm.name!r})"

    async def sign_async(self, data: bytes) -> bytes:
        """Sign directly: a signature with a key in memory is faster than a thread switch."""
        return self.sign(data)


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A private key and its certificates from a PKCS#12 file.

    Attributes:
        key: the private key.
        certificate: its certificate.
        chain: the file's other certificates, in the file's order.
    """

    key: PrivateKeyTypes
    certificate: EidasCertificate
    chain: tuple[EidasCertificate, ...]


@without_locals
def parse_pkcs12(data: bytes, *, password: bytes | str | None = None) -> KeyFile:
    """Read a private key and its certificate from PKCS#12.

    Args:
        data: the file.
        password: for an encrypted file; text is encoded as UTF-8. An unencrypted file is read with or without a password.

    Raises:
        FormatError: `pkcs12.unreadable`, `pkcs12.too-costly`, `certificate.*`.
        ConfigurationError: `key.unreadable`, the file has no private key, or no certificate for it.
    """
    bundle = open_pkcs12(data, password)
    key = _require_key(bundle.key)
    own = key.public_key()
    certificates = [EidasCertificate.from_der(found) for found in certificates_of(bundle)]
    # Some files do not state which certificate belongs to the key, so compare the public keys.
    place = next((at for at, certificate in enumerate(certificates) if certificate.public_key == own), None)
    if place is None:
        raise ConfigurationError("key.unreadable", "this PKCS#12 file has no certificate for its private key")
    return KeyFile(key, certificates.pop(place), tuple(certificates))


def _require_key(key: PrivateKeyTypes | None) -> PrivateKeyTypes:
    if key is None:
        raise ConfigurationError("key.unreadable", "this PKCS#12 file has no private key")
    return key


@without_locals
def load_private_key(data: bytes, *, password: bytes | str | None = None) -> PrivateKeyTypes:
    """Read a private key from PEM, DER (PKCS#8, PKCS#1 or SEC1) or PKCS#12.

        key = load_private_key(Path("qseal.p12").read_bytes(), password="secret")

    Args:
        data: the file.
        password: for an encrypted key; text is encoded as UTF-8. An unencrypted key is read with or without a password.

    Raises:
        ConfigurationError: `key.unreadable`; the message contains no part of the key.
        FormatError: `pkcs12.unreadable`, `pkcs12.too-costly`.
    """
    given: object = data
    if isinstance(given, str):  # a file name or PEM text, which the message must not show
        raise ConfigurationError("key.unreadable", "the private key is text, not bytes: read its file first")
    if is_pkcs12(data):
        return _require_key(open_pkcs12(data, password).key)
    password = utf8(password)
    load = load_der_private_key if data[:1] == b"\x30" else load_pem_private_key
    try:
        try:
            return load(data, password)
        except TypeError:
            if password is None:
                raise
            return load(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as e:
        reason = pem_fault(data) or "it is damaged, or the password is wrong"
        if "not given" in str(e):
            reason = f"it is encrypted and {'the password is neither text nor bytes' if password else 'no password was given'}"
        elif _is_certificate(data):
            reason = "it is a certificate, not a private key"
        raise ConfigurationError("key.unreadable", f"the private key cannot be read: {reason}") from None


def _is_certificate(data: bytes) -> bool:
    try:
        read = EidasCertificate.from_der if data[:1] == b"\x30" else EidasCertificate.from_pem
        read(data)
    except FormatError:
        return False
    return True
