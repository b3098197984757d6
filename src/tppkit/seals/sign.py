"""Seal a request: add the digest, the signature and the seal certificate.

Use `sign_request` or `sign_request_async`. To sign elsewhere, call `prepare_request`, which returns the bytes to sign, and pass
the signature to `PreparedRequest.finish`.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Self

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from tppkit._clock import as_utc
from tppkit._encoding import shown
from tppkit._named_tuple import new_tuple
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, LocalProtocolError, SignatureRejected, TppkitError
from tppkit.httpsig.algorithms import ALGORITHMS, Verify, make_verifiers, verify_signature
from tppkit.httpsig.cavage import AUTHORIZATION_SCHEME, CREATED, EXPIRES
from tppkit.httpsig.components import Origin
from tppkit.httpsig.content_digest import make_content_digest
from tppkit.httpsig.digest import make_digest
from tppkit.httpsig.message import Header, Message, make_signing_string, message_components
from tppkit.httpsig.signers import KeySigner, Signer
from tppkit.seals.formats import UnsignedSeal, prepare_seal
from tppkit.seals.key_id import make_key_id
from tppkit.seals.layout import Layout, make_layout
from tppkit.seals.profile import EmptyBody, Format, Order, SealProfile
from tppkit.seals.profiles import PSD2_V1

_PROBE = b"tppkit: does this signer sign for this certificate?"
_REMEMBERED = 64


class Seal:
    """A QSealC and the signer of its key, prepared for many requests in one dialect.

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
            signer's signature does not verify with the certificate's key;
            `signer.answer`, `signer.failed`;
            `profile.algorithm`, the dialect has no name for the signer's algorithm; `seal.key-id-needed`.
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
        *,
        profile: SealProfile = PSD2_V1,
        key_id: str | None = None,
        origin: Origin | None = None,
        verify_own: bool = False,
    ) -> Self:
        """Make a seal with a key in memory, with the dialect's algorithm for the key.

        Args:
            certificate: the QSealC.
            key: its private key.
            profile: see the constructor.
            key_id: see the constructor.
            origin: see the constructor.
            verify_own: see the constructor.

        Raises:
            The errors of the constructor; FormatError: `profile.key`, the dialect has no algorithm for such a key.
        """
        signer = KeySigner(key, algorithm=profile.algorithm_for(certificate).name)
        return cls(certificate, signer, profile=profile, key_id=key_id, origin=origin, verify_own=verify_own)

    @classmethod
    async def make_async(
        cls,
        certificate: EidasCertificate,
        signer: Signer,
        *,
        profile: SealProfile = PSD2_V1,
        key_id: str | None = None,
        origin: Origin | None = None,
        verify_own: bool = False,
    ) -> Self:
        """Make a seal with a signer that has `sign_async`. Arguments and errors are the constructor's."""
        seal = cls.__new__(cls)
        seal._make_ready(certificate, signer, profile, key_id, origin, verify_own)
        seal._require_key(await seal.sign_async(_PROBE))
        return seal

    def __repr__(self) -> str:
        return f"Seal({shown(str(self.certificate.subject), limit=160)}, profile={self.profile.name!r})"

    def _make_ready(
        self,
        certificate: EidasCertificate,
        signer: Signer,
        profile: SealProfile,
        key_id: str | None,
        origin: Origin | None,
        verify_own: bool,
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
        self._heads: dict[tuple[str, ...], str] = {}

    def sign(self, data: bytes) -> bytes:
        """Return the signature of the signer.

        Raises:
            ConfigurationError: `signer.failed`, the signer raised an error that is not a TppkitError.
            TppkitError: what the signer raises.
        """
        try:
            return self.signer.sign(data)
        except Exception as e:
            raise _signer_error(e) from e

    async def sign_async(self, data: bytes) -> bytes:
        """Return the signature of the signer. Raises the errors of `sign`."""
        try:
            return await self.signer.sign_async(data)
        except Exception as e:
            raise _signer_error(e) from e

    def _require_key(self, signature: bytes) -> None:
        _require_bytes(signature)
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
        """Return keyId, algorithm and covered names as in the Signature header; the result is cached."""
        head = self._heads.get(covered)
        if head is None:
            if len(self._heads) >= _REMEMBERED:
                self._heads.clear()
            head = self._heads[covered] = f'{self._head},headers="{" ".join(map(self.layout.spell, covered))}"'
        return head


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


def _require_bytes(signature: object) -> None:
    if not isinstance(signature, bytes):
        raise ConfigurationError("signer.answer", f"the signer returned a {type(signature).__name__}, not bytes")


def _verifiers(certificate: EidasCertificate) -> Mapping[str, Verify]:
    key = certificate.public_key
    return make_verifiers(key, names=ALGORITHMS, pss_only=certificate.key.type == "rsa-pss")


class PreparedRequest(NamedTuple):
    """A request that lacks only its signature.

    Attributes:
        message: the message to seal.
        seal: the seal to use.
        signing_string: the bytes to sign.
        digest: the Digest header, or nothing.
        head: the Signature header before the signature; empty in other formats than draft-cavage.
        unsigned: the seal without its signature, in other formats than draft-cavage.
    """

    message: Message
    seal: Seal
    signing_string: bytes
    digest: tuple[Header, ...]
    head: str
    unsigned: UnsignedSeal | None = None

    def finish(self, signature: bytes) -> Message:
        """Return the sealed message, with the headers of the seal at the end.

        Args:
            signature: over `signing_string`, in the form of the signer's algorithm.

        Raises:
            ConfigurationError: `seal.own-signature`, the signature does not verify (with `verify_own`); `signer.answer`, it is not
                bytes.
        """
        message, seal, signing_string, digest, head, unsigned = self
        profile = seal.profile
        if type(signature) is not bytes:
            _require_bytes(signature)
        if seal.verify_own:
            _require_own(seal, signature, signing_string)
        if unsigned is not None:
            headers = message.headers + digest + unsigned.finish(signature) + seal.layout.certificate
            return message._replace(headers=headers)
        text = b2a_base64(signature, newline=False).decode("ascii")
        value = f'{head},signature="{text}"' if profile.signature_quoted else f"{head},signature={text}"
        headers = message.headers + digest + ((profile.carrier, value), *seal.layout.certificate)
        return new_tuple(Message, (message.method, message.target, headers, message.body))


def _require_own(seal: Seal, signature: bytes, data: bytes) -> None:
    try:
        seal.verify(signature, data)
    except SignatureRejected as e:
        raise ConfigurationError(
            "seal.own-signature", f"the signer of {seal.certificate.subject} made a signature that does not verify"
        ) from e


def prepare_request(message: Message, *, seal: Seal, at: datetime | None = None) -> PreparedRequest:
    """Compute the bytes to sign, to sign them elsewhere.

    Args:
        message: method, target, body and every header that the profile covers except Digest (for `psd2-v1`: X-Request-ID), as they
            will be sent.
        seal: certificate and signer.
        at: the time of signing, aware, for a dialect that writes it.

    Raises:
        LocalProtocolError: `seal.header-present`, the message already has a header of the seal, or has a covered header twice.
        SignatureRejected: `signature.header-absent`, a covered header is missing.
        FormatError: `header.control-character`, `message.malformed`.
        ConfigurationError: `seal.time-needed`, `time.naive`.

    Source: PSD2 document, part A section 4; draft-cavage-http-signatures-10 and -12.
    """
    layout, profile = seal.layout, seal.profile
    values, doubled = message_components(message, only=layout.watched)
    if doubled or not layout.written.isdisjoint(values):
        _refuse_present(doubled, values, layout)
    if layout.plain:
        digest = values[layout.digest] = make_digest(message.body, algorithm=profile.digest_algorithm)
        signing_string = make_signing_string(layout.covered, values)
        head = seal.head(layout.covered)
        return new_tuple(
            PreparedRequest, (message, seal, signing_string, ((profile.digest_field, digest),), head, None)
        )
    return _prepare_by_request(message, seal, values, at)


def _refuse_present(doubled: tuple[str, ...], values: Mapping[str, str], layout: Layout) -> None:
    covered = {*layout.covered, *layout.if_present}
    twice = [n for n in doubled if n in covered or n in layout.written or n.startswith(layout.prefixes)]
    names = sorted({*twice, *layout.written.intersection(values)})
    if names:
        raise LocalProtocolError(
            "seal.header-present", f"{', '.join(names)}: sealing writes this header, or covers it and found it twice"
        )


def _prepare_by_request(message: Message, seal: Seal, values: dict[str, str], at: datetime | None) -> PreparedRequest:
    """Prepare a request in a dialect whose covered names, digest or time depend on the request."""
    layout, profile = seal.layout, seal.profile
    digest: tuple[Header, ...] = ()
    if message.body or profile.empty_body is not EmptyBody.ABSENT:
        make = make_content_digest if profile.format is Format.RFC9421 else make_digest
        values[layout.digest] = make(message.body or profile.empty_content, algorithm=profile.digest_algorithm)
        digest = ((profile.digest_field, values[layout.digest]),)
    covered = _covered(values, layout, profile)
    if profile.format is not Format.CAVAGE:
        return _prepare_other(message, seal, digest, covered, at)
    head = seal.head(covered)
    if layout.timed:
        created, expires = _times(profile, at)
        values |= {CREATED: str(created), EXPIRES: str(expires)}
        head += f",created={created}" + (f",expires={expires}" if EXPIRES in covered else "")
    return PreparedRequest(message, seal, make_signing_string(covered, values), digest, head)


def _prepare_other(
    message: Message, seal: Seal, digest: tuple[Header, ...], covered: tuple[str, ...], at: datetime | None
) -> PreparedRequest:
    unsigned = prepare_seal(
        message.with_headers(*digest, *seal.layout.certificate),
        covered,
        profile=seal.profile,
        certificate=seal.certificate,
        algorithm=seal.algorithm,
        key_id=seal.key_id,
        at=_required_time(seal.profile, at),
        origin=seal.origin,
    )
    return PreparedRequest(message, seal, unsigned.signing_string, digest, "", unsigned)


def _covered(values: Mapping[str, str], layout: Layout, profile: SealProfile) -> tuple[str, ...]:
    names = [name for name in layout.covered if name != layout.digest or layout.digest in values]
    names += [name for name in layout.if_present if name in values]
    if layout.prefixes:
        names += sorted(name for name in values if name.startswith(layout.prefixes) and name not in names)
    return tuple(names if profile.order is Order.LISTED else sorted(names))


def _times(profile: SealProfile, at: datetime | None) -> tuple[int, int | None]:
    created = int(_required_time(profile, at).timestamp())
    lifetime = profile.expires_after
    return created, None if lifetime is None else created + int(lifetime.total_seconds())


def _required_time(profile: SealProfile, at: datetime | None) -> datetime:
    if at is None:
        raise ConfigurationError("seal.time-needed", f"the profile {profile.name} writes the time of signing; pass at=")
    return as_utc(at)


def sign_request(message: Message, *, seal: Seal, at: datetime | None = None) -> Message:
    """Seal a request.

    Args:
        message: the request, with every header that the profile covers except Digest.
        seal: certificate and signer.
        at: the time of signing, aware, for a dialect that writes it.

    Returns:
        The message with Digest, Signature and the certificate's header added at the end.

    Raises:
        The errors of `prepare_request`, `PreparedRequest.finish` and `Seal.sign`, for example `signer.async-only`.
    """
    prepared = prepare_request(message, seal=seal, at=at)
    return prepared.finish(seal.sign(prepared.signing_string))


async def sign_request_async(message: Message, *, seal: Seal, at: datetime | None = None) -> Message:
    """Seal a request without blocking the event loop. Arguments and errors are those of `sign_request`."""
    prepared = prepare_request(message, seal=seal, at=at)
    return prepared.finish(await seal.sign_async(prepared.signing_string))
