"""The results of verifying a sealed request."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, FormatError, SignatureRejected
from tppkit.httpsig.cavage import SignatureParameters
from tppkit.httpsig.digest import make_digest, parse_content_digest, parse_digest, require_digests
from tppkit.httpsig.jws import parse_detached_jws
from tppkit.httpsig.signing_string import message_components
from tppkit.message import Message
from tppkit.seals.advice import digest_form, with_form
from tppkit.seals.private_parameters import private_names
from tppkit.seals.profile import Format, SealProfile, covers_target
from tppkit.trust import TrustedPath


class VerifiedHead(NamedTuple):
    """A request whose seal is verified, but not yet its body. A named tuple, because it is the fastest to create.

    Example:
        head = verify_request_head(received, qwac=qwac, at=utc_now(), policy=policy)
        verified = head.verify_body(b"".join(chunks))

    Attributes:
        parameters: the parameters of the signature.
        signing_string: the signed bytes.
        seal: the QSealC, which fits its profile and is trusted at `at`.
        path: the path from the seal to its root, with what is known of its revocation.
        qwac: the website certificate of the same organisation, or None if the caller passed none.
        at: the time of verification, aware UTC.
        profile: the dialect.
        digest: the covered value of the digest header; None if the request has none, or the seal covers the body itself.
        unverified_message: the request as received, including headers that are not signed; in a head without its body.
        date_fault: why its covered Date rejects it as a new request, or None. Only with `allow_old_date` of `verify_request_head`: such a
            request may get the kept answer of an earlier one, and nothing else.
    """

    parameters: SignatureParameters
    signing_string: bytes
    seal: EidasCertificate
    path: TrustedPath
    qwac: EidasCertificate | None
    at: datetime
    profile: SealProfile
    digest: str | None
    unverified_message: Message
    date_fault: SignatureRejected | None = None

    @property
    def chain(self) -> tuple[EidasCertificate, ...]:
        """The seal first, the root last."""
        return self.path.chain

    @property
    def covered(self) -> Mapping[str, str]:
        """The values of the covered headers by lower-case name."""
        values, _ = message_components(self.unverified_message)
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

    @property
    def private_parameters(self) -> Mapping[str, str]:
        """The texts of the profile's private parameters, for a JWS over the body.

        Of those with the rule `text`, only that the holder of the seal wrote them is proven.
        """
        if not self.profile.private:
            return MappingProxyType({})
        header, _ = parse_detached_jws(
            message_components(self.unverified_message)[0][self.profile.carrier.lower()],
            private=private_names(self.profile),
        )
        return MappingProxyType(dict(header.texts))

    def verify_body(self, body: bytes) -> VerifiedRequest:
        """Compare the whole body with the digest.

        Returns:
            The verified request.

        Raises:
            SignatureRejected: `digest.mismatch`, `signature.uncovered`.
            FormatError: `form-data.*`, the profile hashes the file of a form.
        """
        method, target, headers, _ = self.unverified_message
        message = Message(method, target, headers, body)
        require_body(self.digest, message, self.profile)
        return VerifiedRequest(*self[:-2], message, self.date_fault)


class VerifiedRequest(VerifiedHead):
    """A request whose seal is verified. Handlers should use only this, not the received request.

    Example:
        verified = verify_request(received, qwac=qwac, at=utc_now(), policy=policy)
        pay(PaymentInitiation.from_wire(verified.body, unknown_fields=True), by=verified.organization_identifier)
    """

    __slots__ = ()

    @property
    def body(self) -> bytes:
        """The exact bytes that the seal covers: the whole body, or with `DigestOf.FIRST_FILE` the file of a form alone.

        The other fields of such a form are not signed; they are in the body of `unverified_message`. With `EmptyBody.BRACES`, an empty
        body and `{}` have the same hash, so the sender may have sealed `{}` if this is empty.
        """
        message = self.unverified_message
        file = self.profile.signed_file(message)
        return message.body if file is None else file

    @property
    def covers_file_only(self) -> bool:
        """Whether only the file of a form is signed, and not its other fields."""
        return self.profile.signed_file(self.unverified_message) is not None


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


def require_body(digest: str | None, message: Message, profile: SealProfile) -> None:
    """Compare the whole body, or its file, with the digest header; without one, reject a body that is not empty.

    Raises:
        FormatError: see `read_digest` and `SealProfile.hashed`.
        SignatureRejected: `digest.mismatch`, `signature.uncovered`.
    """
    body = message.body
    if digest is None:
        if body:
            raise SignatureRejected(
                "signature.uncovered",
                f"the seal covers no digest, and the request has a body of {len(body)} bytes; "
                f"send and cover {digest_form(profile)}",
            )
        return
    content = profile.hashed(message)
    if profile.format is not Format.RFC9421 and digest == make_digest(content):
        return  # nearly always; parsing takes three times as long
    try:
        require_digests(read_digest(digest, profile), content)
    except SignatureRejected as e:
        if body or not profile.empty_content:
            raise
        hashed = profile.empty_content.decode()
        text = f"{e.message}; without a body the profile {profile.name} hashes {hashed}"
        raise SignatureRejected(e.code, text, clause=e.clause) from e
