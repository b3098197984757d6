"""A seal certificate with its signer, and the headers that sealing reads and writes in a dialect."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Self, TypedDict, Unpack

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from tppkit._encoding import shown
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, SignatureRejected, TppkitError
from tppkit.httpsig.algorithms import ALGORITHMS, Verify, make_verifiers, verify_signature
from tppkit.httpsig.cavage import AUTHORIZATION_SCHEME, CREATED, EXPIRES
from tppkit.httpsig.components import Origin
from tppkit.httpsig.signers import KeySigner, Signer
from tppkit.message import Header
from tppkit.seals.key_id import make_key_id
from tppkit.seals.profile import Format, Order, SealProfile
from tppkit.seals.profiles import PSD2_V1

_PROBE = b"tppkit: does this signer sign for this certificate?"


class Layout(NamedTuple):
    """The headers that sealing reads and writes in a dialect, computed once; all names are in lower case.

    Attributes:
        covered: names that are always covered, in order.
        written: the fields that sealing adds.
        if_present: fields that are covered if the request has them.
        prefixes: like `if_present`, for every field whose name begins with a prefix.
        spellings: the spelling of names that are not written in lower case.
        certificate: the header with the certificate, or nothing.
        timed: the seal has a time.
        digest: the header with the digest, in lower case.
        order: the order in which names are written.
        make_digest: returns the value of the header with the digest for the hashed bytes.
    """

    covered: tuple[str, ...]
    written: frozenset[str]
    if_present: tuple[str, ...]
    prefixes: tuple[str, ...]
    spellings: Mapping[str, str]
    certificate: tuple[Header, ...]
    timed: bool
    digest: str
    order: Order
    make_digest: Callable[[bytes], str]

    def covered_in(self, values: Collection[str]) -> tuple[str, ...]:
        """The names to cover in a request with these fields, in order."""
        names = [name for name in self.covered if name != self.digest or name in values]
        names += [name for name in self.if_present if name in values]
        if self.prefixes:
            names += sorted(name for name in values if name.startswith(self.prefixes) and name not in names)
        return tuple(names if self.order is Order.LISTED else sorted(names))


def make_layout(profile: SealProfile, certificate: EidasCertificate) -> Layout:
    """Compute the layout of a dialect for a certificate."""
    names = (*profile.covered, *profile.covered_if_present)
    conditional = [name.lower() for name in profile.covered_if_present]
    prefixes = tuple([name[:-1] for name in conditional if name.endswith("*")])
    covered = tuple([name.lower() for name in profile.covered])
    certificate_header = profile.certificate_headers(certificate)
    written = profile.carriers | {profile.digest_name, *(name.lower() for name, _ in certificate_header)}
    timed = not {CREATED, EXPIRES}.isdisjoint(covered) or profile.format is not Format.CAVAGE
    return Layout(
        covered=covered,
        written=written,
        if_present=tuple([name for name in conditional if not name.endswith("*")]),
        prefixes=prefixes,
        spellings={name.lower(): name for name in names if name != name.lower()},
        certificate=certificate_header,
        timed=timed,
        digest=profile.digest_name,
        order=profile.order,
        make_digest=profile.digest_function(profile.digest_algorithm),
    )


class SealOptions(TypedDict, total=False):
    """Options of `Seal`.

    Attributes:
        profile: the bank's dialect, which also chooses the algorithm for a key; by default that of the PSD2 document.
        key_id: the client id or address, for a dialect whose keyId cannot be derived from the certificate.
        origin: the origin of the bank, for a dialect that covers scheme or authority.
        verify_own: verify each signature before it is sent.
    """

    profile: SealProfile
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
        profile: the bank's dialect.
        key_id: the client id or address, for a dialect whose keyId cannot be derived from the certificate.
        origin: the origin of the bank, for a dialect that covers scheme or authority.
        verify_own: verify each signature before it is sent, to detect a failing device.

    Raises:
        ConfigurationError: `seal.certificate-type`, the certificate is not for seals, for example a QWAC; `seal.key-mismatch`, the
            signer's signature does not verify with the certificate's key; `signer.answer`, `signer.failed`; `profile.algorithm`, the
            dialect has no name for the signer's algorithm; `seal.key-id-needed`.
        FormatError: `key.unsupported`, `key.weak`.
    """

    def __init__(
        self,
        certificate: EidasCertificate,
        signer: Signer,
        *,
        profile: SealProfile = PSD2_V1,
        key_id: str | None = None,
        origin: Origin | None = None,
        verify_own: bool = False,
    ) -> None:
        self._make_ready(certificate, signer, profile, key_id, origin, verify_own)
        self._require_key(self.sign(_PROBE))

    @classmethod
    def for_key(
        cls,
        certificate: EidasCertificate,
        key: PrivateKeyTypes,
        **options: Unpack[SealOptions],
    ) -> Self:
        """Make a seal with a key in memory, with the dialect's algorithm for the key.

        Args:
            certificate: the QSealC.
            key: its private key.
            options: see the constructor.

        Raises:
            The errors of the constructor; FormatError: `profile.key`, the dialect has no algorithm for such a key.
        """
        algorithm = options.get("profile", PSD2_V1).algorithm_for(certificate)
        return cls(certificate, KeySigner(key, algorithm=algorithm.name), **options)

    @classmethod
    async def make_async(
        cls,
        certificate: EidasCertificate,
        signer: Signer,
        **options: Unpack[SealOptions],
    ) -> Self:
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
        profile: SealProfile = PSD2_V1,
        key_id: str | None = None,
        origin: Origin | None = None,
        verify_own: bool = False,
    ) -> None:
        if signer.public_key != certificate.public_key:
            raise ConfigurationError("seal.key-mismatch", f"the signer's key is not the key of {certificate.subject}")
        require_seal_type(certificate)
        self.certificate, self.signer, self.profile, self.verify_own = certificate, signer, profile, verify_own
        self.origin = origin
        self.layout = make_layout(profile, certificate)
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
        names = " ".join([self.layout.spellings.get(name, name) for name in covered])
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
