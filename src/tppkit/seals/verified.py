"""The results of verifying a sealed request."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from tppkit._named_tuple import new_tuple
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, FormatError, SignatureRejected
from tppkit.httpsig.cavage import SignatureParameters
from tppkit.httpsig.content_digest import parse_content_digest
from tppkit.httpsig.digest import parse_digest, require_digests
from tppkit.httpsig.message import Message, message_components
from tppkit.seals.advice import digest_form, with_form
from tppkit.seals.profile import Format, SealProfile, covers_target
from tppkit.trust import TrustedPath


class _Proven(NamedTuple):
    """The common part of a verified head and a verified request. A named tuple, because it is the fastest to create.

    Attributes:
        parameters: the parameters of the signature.
        signing_string: the signed bytes.
        seal: the QSealC, which fits its profile and is trusted at `at`.
        path: the path from the seal to its root, with what is known of its revocation.
        qwac: the website certificate of the same organisation, or None if the caller passed none.
        at: the time of verification, aware UTC.
        profile: the dialect.
        unverified_message: the whole request as received, including headers that are not signed.
    """

    parameters: SignatureParameters
    signing_string: bytes
    seal: EidasCertificate
    path: TrustedPath
    qwac: EidasCertificate | None
    at: datetime
    profile: SealProfile
    unverified_message: Message

    @property
    def chain(self) -> tuple[EidasCertificate, ...]:
        """The seal first, the root last."""
        return self.path.chain

    @property
    def covered(self) -> Mapping[str, str]:
        """The values of the covered headers by lower-case name."""
        values, _ = message_components(self.unverified_message, only=self.parameters.headers)
        return MappingProxyType({name: values[name] for name in self.parameters.headers if name[0] not in '(@"'})

    @property
    def covers_target(self) -> bool:
        """Whether this seal covers method and target; some dialects never do."""
        return covers_target(self.parameters.headers)

    @property
    def method(self) -> str:
        """The covered method, as on the wire.

        Raises:
            ConfigurationError: `seal.target-uncovered`, the seal does not cover it.
        """
        self._require_target()
        return self.unverified_message.method

    @property
    def target(self) -> str:
        """The covered path and query, as on the wire.

        Raises:
            ConfigurationError: `seal.target-uncovered`, the seal does not cover it.
        """
        self._require_target()
        return self.unverified_message.target

    def _require_target(self) -> None:
        if not self.covers_target:
            raise ConfigurationError(
                "seal.target-uncovered",
                f"this seal of the profile {self.profile.name} does not cover method and target",
            )

    @property
    def organization_identifier(self) -> str:
        """The sealing organisation's organizationIdentifier."""
        identifier = self.seal.organization_identifier
        return identifier.text if identifier else ""

    @property
    def request_id(self) -> str:
        """The covered X-Request-ID, or the dialect's field for it; empty if the seal covers none."""
        return self.covered.get(self.profile.request_id or "", "")


class VerifiedRequest(_Proven):
    """A request whose seal is verified. Handlers should use only this, not the received request."""

    __slots__ = ()

    @property
    def body(self) -> bytes:
        """The exact bytes whose hash is covered.

        With `EmptyBody.BRACES`, an empty body and `{}` have the same hash, so the sender may have sealed `{}` if this is empty.
        """
        return self.unverified_message.body


class VerifiedHead(_Proven):
    """A request whose seal is verified, but not yet its body; see `receive_body`."""

    __slots__ = ()

    def receive_body(self, *, max_bytes: int) -> BodyReceiver:
        """Return a receiver that verifies the body in chunks.

        Args:
            max_bytes: maximum length of the body.
        """
        return BodyReceiver(self, max_bytes=max_bytes)


class BodyReceiver:
    """Collects the chunks of a body, and returns the verified request at the end.

    Args:
        head: the verified head.
        max_bytes: maximum length of the body.
    """

    def __init__(self, head: VerifiedHead, *, max_bytes: int) -> None:
        self._head = head
        self._max_bytes = max_bytes
        self._chunks: list[bytes] = []
        self._length = 0
        name, digest = head.profile.digest_name, None
        if name in head.parameters.headers:
            digest = ", ".join([value.strip(" \t") for value in head.unverified_message.values(name)]) or None
        self._hashes = None if digest is None else read_digest(digest, head.profile)

    def update(self, chunk: bytes) -> None:
        """Add the next chunk.

        Raises:
            FormatError: `message.too-large`.
        """
        self._length += len(chunk)
        if self._length > self._max_bytes:
            raise FormatError("message.too-large", f"the body has more than {self._max_bytes} bytes")
        self._chunks.append(chunk)

    def finish(self) -> VerifiedRequest:
        """Return the verified request after the last chunk.

        Raises:
            SignatureRejected: `digest.mismatch`, `signature.uncovered`.
        """
        body, head = b"".join(self._chunks), self._head
        verify_body(self._hashes, body, head.profile)
        message = new_tuple(Message, (*head.unverified_message[:3], body))
        return new_tuple(VerifiedRequest, (*head[:-1], message))


def read_digest(value: str, profile: SealProfile) -> Mapping[str, bytes]:
    """Parse the digest header of a profile into hashes by algorithm.

    Raises:
        FormatError: see `parse_digest` and `parse_content_digest`; the message states the form that the profile expects.
    """
    parse = parse_content_digest if profile.format is Format.RFC9421 else parse_digest
    try:
        return parse(value)
    except FormatError as e:
        raise with_form(e, digest_form(profile), profile) from e


def verify_body(hashes: Mapping[str, bytes] | None, body: bytes, profile: SealProfile) -> None:
    """Compare the whole body with the hashes of the digest header; without hashes, reject a body that is not empty.

    Raises:
        SignatureRejected: `digest.mismatch`, `signature.uncovered`.
    """
    if hashes is None:
        if body:
            raise SignatureRejected(
                "signature.uncovered",
                f"the seal covers no digest, and the request has a body of {len(body)} bytes; "
                f"send and cover {digest_form(profile)}",
            )
        return
    try:
        require_digests(hashes, body or profile.empty_content)
    except SignatureRejected as e:
        if body or not profile.empty_content:
            raise
        hashed = profile.empty_content.decode()
        message = f"{e.message}; without a body the profile {profile.name} hashes {hashed}"
        raise SignatureRejected(e.code, message, clause=e.clause) from e
