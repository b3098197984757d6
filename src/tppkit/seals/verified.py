"""What was proven about a request."""

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
    """What a verified head and a verified request have in common.

    A named tuple, because one is made for every request and this is the cheapest value.

    Attributes:
        parameters: what the Signature header said.
        signing_string: the bytes that were signed.
        seal: the QSealC, which fits its profile and is believed at `at`.
        path: the chain from the seal to its root, with what is known of its revocation.
        qwac: the certificate whose organisation the seal has, or None when the caller had none to compare with.
        at: the time of judgement, aware UTC.
        profile: the dialect it was verified by.
        unverified_message: the whole request as it was given, with headers that nobody signed.
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
        """The covered headers' values by lower-case name; a header that nobody signed is not in it."""
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
            ConfigurationError: `seal.target-uncovered`, nobody signed it.
        """
        self._require_target()
        return self.unverified_message.method

    @property
    def target(self) -> str:
        """The covered path and query, as on the wire.

        Raises:
            ConfigurationError: `seal.target-uncovered`, nobody signed it.
        """
        self._require_target()
        return self.unverified_message.target

    def _require_target(self) -> None:
        if not self.covers_target:
            raise ConfigurationError(
                "seal.target-uncovered",
                f"a seal of the profile {self.profile.name} covers neither method nor target; nobody signed them",
            )

    @property
    def organization_identifier(self) -> str:
        """The sealing organisation's organizationIdentifier."""
        identifier = self.seal.organization_identifier
        return identifier.text if identifier else ""

    @property
    def request_id(self) -> str:
        """The covered X-Request-ID, or what the dialect has in its place; empty where the seal covers none."""
        return self.covered.get(self.profile.request_id or "", "")


class VerifiedRequest(_Proven):
    """What was proven about a request. A handler works on this and on nothing else of the request.

    Beside the attributes of a verified head it has the body.
    """

    __slots__ = ()

    @property
    def body(self) -> bytes:
        """The exact bytes whose hash was covered.

        In a dialect that hashes `{}` where there is no body (`EmptyBody.BRACES`), empty bytes may have been sealed as `{}`: the two
        are one to its banks and cannot be told apart.
        """
        return self.unverified_message.body


class VerifiedHead(_Proven):
    """What was proven of a request before its body was read: the seal, and which digest the body must have.

    Nothing of the body is proven yet; `receive_body` gives the second half.
    """

    __slots__ = ()

    def receive_body(self, *, max_bytes: int) -> BodyReceiver:
        """Take the body in pieces.

        Args:
            max_bytes: a longer body is refused as soon as it is.
        """
        return BodyReceiver(self, max_bytes=max_bytes)


class BodyReceiver:
    """The second half of a verification: keeps the body while it arrives; gives it out when it is proven.

    Args:
        head: the first half.
        max_bytes: how much is kept.
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
        """Take the next bytes.

        Raises:
            FormatError: `message.too-large`.
        """
        self._length += len(chunk)
        if self._length > self._max_bytes:
            raise FormatError("message.too-large", f"the body has more than {self._max_bytes} bytes")
        self._chunks.append(chunk)

    def finish(self) -> VerifiedRequest:
        """The verified request, once the whole body was taken.

        Raises:
            SignatureRejected: `digest.mismatch`, `signature.uncovered`.
        """
        body, head = b"".join(self._chunks), self._head
        verify_body(self._hashes, body, head.profile)
        message = new_tuple(Message, (*head.unverified_message[:3], body))
        return new_tuple(VerifiedRequest, (*head[:-1], message))


def read_digest(value: str, profile: SealProfile) -> Mapping[str, bytes]:
    """The hashes in the digest header of a profile, by algorithm.

    Raises:
        FormatError: as `parse_digest` or `parse_content_digest`; the message has the form that the profile expects.
    """
    parse = parse_content_digest if profile.format is Format.RFC9421 else parse_digest
    try:
        return parse(value)
    except FormatError as e:
        raise with_form(e, digest_form(profile), profile) from e


def verify_body(hashes: Mapping[str, bytes] | None, body: bytes, profile: SealProfile) -> None:
    """Compare the whole body with the hashes of the digest header; without one, refuse bytes that nothing covers.

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
