"""A seal certificate with its signer, prepared for a dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self, TypedDict, Unpack

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from tppkit._encoding import shown
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, SignatureRejected, TppkitError
from tppkit.httpsig import KeySigner, Signer
from tppkit.httpsig.algorithms import ALGORITHMS, Verify, make_verifiers, verify_signature
from tppkit.httpsig.cavage import AUTHORIZATION_SCHEME
from tppkit.httpsig.components import Origin
from tppkit.seals.key_id import make_key_id
from tppkit.seals.profile import SealProfile
from tppkit.seals.profiles import PSD2_V1, find_profile

_PROBE = b"tppkit: does this signer sign for this certificate?"


class SealOptions(TypedDict, total=False):
    """Options of `Seal`, which describes them."""

    profile: SealProfile | str
    key_id: str | None
    origin: Origin | None
    verify_own: bool


class Seal:
    """A QSealC and the signer of its key, prepared for many requests in one dialect.

    Example:
        seal = Seal(certificate, KeySigner(key))
        sealed = sign_request(message, seal=seal)

    Args:
        certificate: the QSealC.
        signer: signs with the certificate's private key; the constructor tests it with one signature. For a signer that has only
            `sign_async`, use `Seal.make_async`.
        profile: the bank's dialect or its name in `PROFILES`. It also chooses the algorithm for a key. By default that of the PSD2
            document.
        key_id: the client id or address, for a dialect whose keyId cannot be derived from the certificate.
        origin: the origin of the bank, for a dialect that covers scheme or authority.
        verify_own: verify each signature before it is sent, to detect a failing device.

    Attributes:
        certificate_headers: the header with the certificate, or nothing.
        written: the lower-case names of the fields that sealing adds.

    Raises:
        ConfigurationError: `seal.certificate-type`, the certificate is not for seals, for example a QWAC; `seal.key-mismatch`, the
            signer's signature does not verify with the certificate's key; `signer.answer`, `signer.failed`; `profile.algorithm`, the
            dialect has no name for the signer's algorithm; `profile.unknown`; `seal.key-id-needed`.
        FormatError: `key.unsupported`, `key.weak`.
    """

    def __init__(self, certificate: EidasCertificate, signer: Signer, **options: Unpack[SealOptions]) -> None:
        self._make_ready(certificate, signer, **options)
        self._require_key(self.sign(_PROBE))

    @classmethod
    def for_key(cls, certificate: EidasCertificate, key: PrivateKeyTypes, **options: Unpack[SealOptions]) -> Self:
        """Make a seal with a key in memory, with the dialect's algorithm for the key.

        Args:
            certificate: the QSealC.
            key: its private key.
            options: see the constructor.

        Raises:
            The errors of the constructor; FormatError: `profile.key`, the dialect has no algorithm for such a key.
        """
        algorithm = find_profile(options.get("profile", PSD2_V1)).algorithm_for(certificate)
        return cls(certificate, KeySigner(key, algorithm=algorithm.name), **options)

    @classmethod
    async def make_async(cls, certificate: EidasCertificate, signer: Signer, **options: Unpack[SealOptions]) -> Self:
        """Make a seal with a signer that has `sign_async`. Arguments and errors are the constructor's."""
        seal = cls.__new__(cls)
        seal._make_ready(certificate, signer, **options)
        seal._require_key(await seal.sign_async(_PROBE))
        return seal

    def __repr__(self) -> str:
        return f"Seal({shown(str(self.certificate.subject), limit=160)}, profile={self.profile.name!r})"

    def _make_ready(
        self,
        certificate: EidasCertificate,
        signer: Signer,
        *,
        profile: SealProfile | str = PSD2_V1,
        key_id: str | None = None,
        origin: Origin | None = None,
        verify_own: bool = False,
    ) -> None:
        if signer.public_key != certificate.public_key:
            raise ConfigurationError("seal.key-mismatch", f"the signer's key is not the key of {certificate.subject}")
        require_seal_type(certificate)
        profile = find_profile(profile)
        self.certificate, self.signer, self.profile, self.verify_own = certificate, signer, profile, verify_own
        self.origin = origin
        self.certificate_headers = profile.certificate_headers(certificate)
        self.written = frozenset(
            {
                *profile.carriers,
                *([] if profile.covers_body else [profile.digest_name]),
                *(name.lower() for name, _ in self.certificate_headers),
            }
        )
        self._verifiers = _verifiers(certificate)
        self.key_id = make_key_id(certificate, style=profile.key_id, text=key_id)
        self.algorithm = profile.name_of(signer.algorithm)
        self._head = f'keyId="{self.key_id}",algorithm="{self.algorithm}"'
        if profile.carrier == "Authorization":
            self._head = AUTHORIZATION_SCHEME + self._head

    def sign(self, data: bytes) -> bytes:
        """Return the signature of the signer.

        Raises:
            ConfigurationError: `signer.failed`, the signer raised an error that is not a TppkitError.
            TppkitError: what the signer raises.
        """
        try:
            return self.signer.sign(data)
        except Exception as e:  # signers raise errors of their libraries
            raise _signer_error(e) from e

    async def sign_async(self, data: bytes) -> bytes:
        """Return the signature of the signer. Raises the errors of `sign`."""
        try:
            return await self.signer.sign_async(data)
        except Exception as e:  # signers raise errors of their libraries
            raise _signer_error(e) from e

    def _require_key(self, signature: bytes) -> None:
        require_bytes(signature)
        try:
            self.verify(signature, _PROBE)
        except SignatureRejected as e:
            raise ConfigurationError(
                "seal.key-mismatch", f"the signer has not the key of {self.certificate.subject}: {e.message}"
            ) from e

    def verify(self, signature: bytes, data: bytes) -> None:
        """Verify a signature of this seal.

        Raises:
            SignatureRejected: `signature.algorithm`, `signature.invalid`.
        """
        verify_signature(self._verifiers, self.signer.algorithm.name, signature, data)

    def head(self, covered: tuple[str, ...]) -> str:
        """Return keyId, algorithm and covered names as in the Signature header."""
        spellings = self.profile.spellings
        names = " ".join([spellings.get(name, name) for name in covered])
        return f'{self._head},headers="{names}"'


def require_seal_type(certificate: EidasCertificate) -> None:
    """Reject a certificate that states another type than seal.

    Raises:
        ConfigurationError: `seal.certificate-type`.
    """
    types = certificate.qc.types
    if types and "eseal" not in types:
        raise ConfigurationError(
            "seal.certificate-type",
            f"the certificate of {certificate.subject} is for {' and '.join(types)}, not for seals",
        )


def _signer_error(error: Exception) -> TppkitError:
    if isinstance(error, TppkitError):
        return error
    return ConfigurationError("signer.failed", f"the signer raised {type(error).__name__}")


def require_bytes(signature: object) -> None:
    """Reject a signature that is not bytes.

    Raises:
        ConfigurationError: `signer.answer`.
    """
    if not isinstance(signature, bytes):
        raise ConfigurationError("signer.answer", f"the signer returned a {type(signature).__name__}, not bytes")


def _verifiers(certificate: EidasCertificate) -> Mapping[str, Verify]:
    key = certificate.public_key
    return make_verifiers(key, names=ALGORITHMS, pss_only=certificate.key.type == "rsa-pss")
