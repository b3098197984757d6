"""The verifier's own refusals, with trust left out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from tppkit.certificates import EidasCertificate, OrganizationPolicy, Use
from tppkit.errors import FormatError, SignatureRejected, VerificationError
from tppkit.httpsig.components import Origin, parse_origin
from tppkit.httpsig.http_date import parse_http_date
from tppkit.httpsig.signing_string import message_components
from tppkit.message import Message
from tppkit.seals.key_id import KeyIdForm
from tppkit.seals.policy import SealPolicy
from tppkit.seals.profile import Format, SealProfile
from tppkit.seals.profiles import PROFILES
from tppkit.seals.verify import ReadSeal, read_seal, verify_request
from tppkit.trust import TrustedPath, Window

Refusal = FormatError | VerificationError

UNDATED = datetime(2000, 1, 1, tzinfo=UTC)  # the time at which a request without a time is judged


class _AnyPath:
    """Accepts every certificate: trust is not judged here."""

    def verify_use(
        self, certificate: EidasCertificate, *, as_: Use, at: datetime, intermediates: Sequence[EidasCertificate] = ()
    ) -> TrustedPath:
        return TrustedPath((certificate,), Window())


class _AnyOrganization(OrganizationPolicy):
    """Accepts every organisation: whose certificates a bank accepts is not judged here."""

    def require(self, certificate: EidasCertificate) -> None:
        """Reject none."""


class Verifier(NamedTuple):
    """What a request is judged by, apart from trust.

    Attributes:
        profile: the dialect.
        at: the time; None for the request's own, so that an old request is not rejected for its age.
        qwac: the certificate of its connection, whose organisation the seal must have; None if that is not known.
        origin: where it was sent, for a dialect that covers scheme or authority; None for https and http at its Host.
    """

    profile: SealProfile
    at: datetime | None = None
    qwac: EidasCertificate | None = None
    origin: Origin | None = None

    def refusal(self, message: Message, certificate: EidasCertificate | None) -> Refusal | None:
        """Why `verify_request` rejects a request whose certificate it trusts; None if it does not.

        Args:
            message: the request.
            certificate: its seal certificate; of use for a dialect that sends none.
        """
        at, known = self.at or _time_of(message), {}
        with suppress(FormatError, SignatureRejected, OverflowError, ValueError, OSError):
            parameters = self.read(message).parameters
            if certificate is not None and self.profile.certificate_header is None and not self.profile.sends_x5c:
                known = {parameters.key_id: certificate}
            if self.at is None and parameters.created is not None:
                at = datetime.fromtimestamp(parameters.created, UTC)
        policy = SealPolicy(
            _AnyPath(), profile=self.profile, origin=self.origin, organizations=_AnyOrganization(), certificates=known
        )
        try:
            verify_request(message, qwac=self.qwac, at=at, policy=policy)
        except (FormatError, VerificationError) as e:
            return e
        return None

    def read(self, message: Message) -> ReadSeal:
        """What the seal says.

        Raises:
            FormatError: as `verify_request`.
            SignatureRejected: `signature.missing`, `signature.header-absent`, `signature.algorithm`.
        """
        policy = SealPolicy(_AnyPath(), profile=self.profile, origin=self.origin)
        values = message_components(message)[0]
        absent = sorted(self.profile.carriers.difference(values))
        if absent:
            raise SignatureRejected("signature.missing", f"the request has no {', no '.join(absent)} header")
        return read_seal(message, values, policy)

    def with_origin(self, message: Message, certificate: EidasCertificate) -> Verifier:
        """The same with the origin under which a request verifies, or else the usual one."""
        if self.origin is not None or self.profile.format is not Format.RFC9421:
            return self
        origins = []
        for scheme in ("https", "http"):
            with suppress(FormatError):
                origins += [parse_origin(f"{scheme}://{host}") for host in message.values("host")[:1]]
        usual = [self._replace(origin=origin) for origin in origins]
        return next((one for one in usual if one.refusal(message, certificate) is None), [*usual, self][0])

    def other_dialects(
        self, message: Message, certificate: EidasCertificate | None, *, refused: Refusal | None
    ) -> tuple[SealProfile, ...]:
        """The other dialects in which a request verifies.

        A client id proves nothing, so a keyId that names a certificate, or is rejected for naming none, is not read as one.
        """
        is_other_form = refused is None or not refused.code.startswith("key-id.")
        is_client_id = is_other_form and not any('keyId="SN=' in v for _, v in message.headers)
        return tuple([
            row
            for row in PROFILES.values()
            if row.name != self.profile.name
            and (is_client_id or row.key_id.form is not KeyIdForm.CLIENT_ID)
            and self._replace(profile=row).refusal(message, certificate) is None
        ])  # fmt: skip


def _time_of(message: Message) -> datetime:
    """The Date of a request; a fixed time if it has none."""
    for value in message.values("date"):
        with suppress(FormatError):
            return parse_http_date(value)
    return UNDATED
