"""One request under examination: what every step reads and adds its findings to, and the verifier with trust left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from tppkit.certificates import EidasCertificate, OrganizationPolicy, Use
from tppkit.certificates.differences import public_key_info
from tppkit.errors import FormatError, SignatureRejected, VerificationError
from tppkit.httpsig.algorithms import Algorithm, key_kind
from tppkit.httpsig.components import Origin, parse_origin
from tppkit.httpsig.http_date import parse_http_date
from tppkit.httpsig.signing_string import message_components
from tppkit.message import Message
from tppkit.seals.key_id import KeyIdForm
from tppkit.seals.policy import SealPolicy
from tppkit.seals.profile import Format, SealProfile
from tppkit.seals.profiles import PROFILES
from tppkit.seals.verify import ReadSeal, read_seal, verify_request
from tppkit.trust import TrustedPath
from tppkit.trust.path.window import Window

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


class Examination:
    """One request, with what was found so far.

        examination = Examination(message, profile=PSD2_V1, certificates=[qseal, qwac])
        examine_certificate(examination)
        examination.findings

    Args:
        message: the request as received.
        profile: the dialect it should be in.
        certificates: those that were given.
        at: the time to judge at; None for the request's own, so that an old request is not rejected for its age.
        qwac: the certificate of its connection, whose organisation the seal must have; None if that is not known.
        origin: where it was sent, for a dialect that covers scheme or authority; None for https and http at its Host.

    Attributes:
        given: the request as received.
        message: the request, its certificate and then its signature rewritten in the dialect's form.
        certificate: its seal certificate; None until it is found.
        candidates: the certificates whose keys may have signed it, the seal's first.
        unusable: the certificates that were given and whose keys cannot be read.
        findings: the names of the mistakes that were proven, each with the values that prove it.
        refusal: what the verifier rejects and no finding explains.
    """

    def __init__(
        self,
        message: Message,
        *,
        profile: SealProfile,
        certificates: Sequence[EidasCertificate],
        at: datetime | None = None,
        qwac: EidasCertificate | None = None,
        origin: Origin | None = None,
    ) -> None:
        known = dict.fromkeys((*certificates, *([qwac] if qwac is not None else [])))
        self.candidates = tuple([one for one in known if public_key_info(one) is not None])
        self.unusable = tuple([one for one in known if one not in self.candidates])
        self.given = self.message = message
        self.profile, self.at, self.qwac, self.origin = profile, at, qwac, origin
        self.certificate: EidasCertificate | None = None
        self.findings: list[tuple[str, str]] = []
        self.refusal: Refusal | None = None

    def find(self, name: str, evidence: str) -> None:
        """Add a proven mistake, by the name of its row."""
        self.findings.append((name, evidence))

    def due(self, owner: EidasCertificate, *, named: str = "") -> Algorithm | None:
        """The algorithm that the signature names, or else the usual one, for the key of a certificate."""
        with suppress(FormatError):
            names = self.profile.algorithms_of(key_kind(owner.public_key))
            return names.get(named) or self.profile.algorithm_for(owner)
        return None

    def read(self, message: Message, profile: SealProfile) -> ReadSeal:
        """What the seal of a request says in a dialect.

        Raises:
            FormatError: as `verify_request`.
            SignatureRejected: `signature.missing`, `signature.header-absent`, `signature.algorithm`.
        """
        values = message_components(message)[0]
        absent = sorted(profile.carriers.difference(values))
        if absent:
            raise SignatureRejected("signature.missing", f"the request has no {', no '.join(absent)} header")
        return read_seal(message, values, self._policy(profile))

    def judge(self, message: Message, profile: SealProfile) -> Refusal | None:
        """Why `verify_request` rejects a request whose certificate it trusts; None if it does not."""
        at, known = self.at or _time_of(message), {}
        with suppress(FormatError, SignatureRejected, OverflowError, ValueError, OSError):
            parameters = self.read(message, profile).parameters
            if self.certificate is not None and profile.certificate_header is None and not profile.sends_x5c:
                known = {parameters.key_id: self.certificate}
            if self.at is None and parameters.created is not None:
                at = datetime.fromtimestamp(parameters.created, UTC)
        try:
            verify_request(message, qwac=self.qwac, at=at, policy=self._policy(profile, known))
        except (FormatError, VerificationError) as e:
            return e
        return None

    def _policy(self, profile: SealProfile, known: Mapping[str, EidasCertificate] | None = None) -> SealPolicy:
        return SealPolicy(
            _AnyPath(), profile=profile, origin=self.origin, organizations=_AnyOrganization(), certificates=known or {}
        )

    def choose_origin(self) -> None:
        """Take the origin under which the request verifies, or else the usual one, if none was given."""
        if self.origin is not None or self.profile.format is not Format.RFC9421:
            return
        origins = []
        for scheme in ("https", "http"):
            with suppress(FormatError):
                origins += [parse_origin(f"{scheme}://{host}") for host in self.message.values("host")[:1]]
        for self.origin in origins:
            if self.judge(self.message, self.profile) is None:
                return
        self.origin = origins[0] if origins else None

    def other_dialects(self, refused: Refusal) -> tuple[SealProfile, ...]:
        """The other dialects in which the request verifies.

        A client id proves nothing, so a keyId that names a certificate, or is rejected for naming none, is not read as one.
        """
        names_certificate = any('keyId="SN=' in value for _, value in self.given.headers)
        is_client_id = not (refused.code.startswith("key-id.") or names_certificate)
        return tuple([
            row
            for row in PROFILES.values()
            if row.name != self.profile.name
            and (is_client_id or row.key_id.form is not KeyIdForm.CLIENT_ID)
            and self.judge(self.given, row) is None
        ])  # fmt: skip


def _time_of(message: Message) -> datetime:
    """The Date of a request; a fixed time if it has none."""
    for value in message.values("date"):
        with suppress(FormatError):
            return parse_http_date(value)
    return UNDATED
