"""What a relying party demands of a seal, and what it remembers of those it has verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple, Protocol

from tppkit.certificates import EidasCertificate, OrganizationPolicy, Use
from tppkit.httpsig.algorithms import Verify, key_kind, make_verifiers
from tppkit.httpsig.cavage import SignatureParameters
from tppkit.httpsig.components import Origin
from tppkit.httpsig.times import CLOCK_SKEW
from tppkit.seals.advice import digest_fault
from tppkit.seals.profile import EmptyBody, Format, SealProfile
from tppkit.seals.profiles import PSD2_V1
from tppkit.trust import TrustedPath, Window

_REMEMBERED = 256
_NOTHING: Mapping[str, EidasCertificate] = MappingProxyType({})
_ORGANIZATIONS = OrganizationPolicy()

# A request has these at most once (RFC 9110 section 5.3 allows lists, these are none); two of them are two readings.
_SINGLETONS = ("digest", "signature", "x-request-id", "content-type", "content-length", "host", "date", "authorization")


class Demands(NamedTuple):
    """What verification asks of a request's headers, worked out once from the profile; every name in lower case.

    Attributes:
        watched: the fields that are looked at, or None for all (the profile names some by their beginning).
        singletons: fields that may stand once.
        sealing: fields without which a request is not sealed.
        carrier: the field that holds the signature.
        certificate_header: the field that holds the certificate, or None.
        covered: what every signature must cover.
        if_present: what it must cover where the request has it.
        prefixes: the same for every field whose name begins so.
        allowed: what it may cover, or None for anything.
        digests: what a digest header by a single algorithm that the profile takes begins with.
    """

    watched: frozenset[str] | None
    singletons: frozenset[str]
    sealing: frozenset[str]
    carrier: str
    certificate_header: str | None
    covered: frozenset[str]
    if_present: frozenset[str]
    prefixes: tuple[str, ...]
    allowed: frozenset[str] | None
    digests: tuple[str, ...]


def demands_of(profile: SealProfile) -> Demands:
    """What verification by this profile asks of a request."""
    conditional = [name.lower() for name in profile.covered_if_present]
    optional = frozenset({profile.digest_name} if profile.empty_body is EmptyBody.ABSENT else ())
    prefixes = tuple([name[:-1] for name in conditional if name.endswith("*")])
    if_present = frozenset(name for name in conditional if not name.endswith("*"))
    written = frozenset(name.lower() for name in profile.covered)
    certificate = None if profile.certificate_header is None else profile.certificate_header.lower()
    sealing = profile.carriers | {profile.digest_name, *([certificate] if certificate else [])}
    watched = written | if_present | sealing | {*_SINGLETONS}
    begins = [f"{name}=" for name in (profile.digest_algorithm, *profile.digest_algorithms)]
    # RFC 9421 has dictionaries of signatures, which may stand on several lines (RFC 9651 section 3.2); no label stands twice.
    several = profile.carriers if profile.format is Format.RFC9421 else frozenset()
    return Demands(
        watched=None if prefixes else watched,
        singletons=watched - several,
        sealing=frozenset(sealing - optional),
        carrier=profile.carrier.lower(),
        certificate_header=certificate,
        covered=profile.demanded - optional,
        if_present=(if_present - profile.demanded) | optional,
        prefixes=prefixes,
        allowed=written | if_present if profile.only_these else None,
        digests=tuple(begin for begin in begins if not digest_fault(begin, profile)),
    )


class BelievedSeal(NamedTuple):
    """A seal certificate that fits its profile and is believed within a window.

    Attributes:
        certificate: the QSealC.
        path: its chain.
        window: when that is believed.
        verifiers: by the algorithm's name on the wire.
        qwac: the certificate last accepted beside it.
    """

    certificate: EidasCertificate
    path: TrustedPath
    window: Window
    verifiers: Mapping[str, Verify]
    qwac: EidasCertificate | None = None


class SealMemory:
    """At most 256 certificates, and 256 ways of naming and covering, under which a signature was verified.

    Nothing enters before that, and nothing is believed outside the window of its chain, which news of a revocation closes.

    Attributes:
        seals: by what names the certificate in a request (its header's value, or keyId).
        heads: what the Signature header says before the signature, by its text and by what names the certificate.
    """

    def __init__(self) -> None:
        self.seals: dict[str, BelievedSeal] = {}
        self.heads: dict[tuple[str, str], SignatureParameters] = {}

    def keep(self, named: str, seal: BelievedSeal, head: str, parameters: SignatureParameters) -> None:
        """Remember a seal, and the head of its signature unless that is empty."""
        if len(self.seals) >= _REMEMBERED or len(self.heads) >= _REMEMBERED:
            # Together: a text that stays behind without its certificate would never have it remembered again.
            self.seals.clear()
            self.heads.clear()
        self.seals[named] = seal
        if head:
            self.heads[head, named] = parameters


class Paths(Protocol):
    """Verifies certificates: a `trust.PathVerifier` or `trust.TrustMaterial`."""

    def verify_use(
        self, certificate: EidasCertificate, *, as_: Use, at: datetime, intermediates: Sequence[EidasCertificate] = ()
    ) -> TrustedPath:
        """The chain of a certificate that fits its use and is believed at a time.

        Raises:
            CertificateRejected: as `PathVerifier.verify_use`.
        """


class SealPolicy:
    """What a relying party demands of a seal.

    It remembers what it has verified: a provider sends the same certificate and the same parameters, all but the signature,
    with every request.

    Args:
        paths: believes certificates.
        profile: the dialect.
        clock_skew: how far a sender's clock may be from the time of judgement, where a seal covers a time.
        certificates: seal certificates by keyId: where a dialect sends none, the one to verify with; where it sends one, the
            only one that is taken under that keyId. Nothing is ever fetched.
        origin: where requests arrive, for a dialect that covers scheme or authority.
        organizations: the organizationIdentifiers that are accepted, in the seal and in the website certificate beside it.

    Attributes:
        paths: as given.
        profile: as given.
        clock_skew: as given.
        certificates: as given.
        origin: as given.
        organizations: as given.
        demands: what the profile asks of a request's headers.
        memory: what was verified.
    """

    def __init__(
        self,
        paths: Paths,
        *,
        profile: SealProfile = PSD2_V1,
        clock_skew: timedelta = CLOCK_SKEW,
        certificates: Mapping[str, EidasCertificate] = _NOTHING,
        origin: Origin | None = None,
        organizations: OrganizationPolicy = _ORGANIZATIONS,
    ) -> None:
        self.paths = paths
        self.profile = profile
        self.clock_skew = clock_skew
        self.certificates = certificates
        self.origin = origin
        self.organizations = organizations
        self.demands = demands_of(profile)
        self.memory = SealMemory()

    def believe(
        self, certificate: EidasCertificate, *, at: datetime, intermediates: Sequence[EidasCertificate]
    ) -> BelievedSeal:
        """The seal of a certificate, when it fits the profile of seals and is believed at the time.

        Raises:
            CertificateRejected: as `PathVerifier.verify_use` and `OrganizationPolicy.require`.
            FormatError: `key.unsupported`, `key.weak`, `profile.key`; `certificate.key-unreadable`.
        """
        path = self.paths.verify_use(certificate, as_=Use.QSEALC, at=at, intermediates=intermediates)
        self.organizations.require(certificate)
        names = self.profile.algorithms_of(key_kind(certificate.public_key))
        verifiers = make_verifiers(certificate.public_key, names=names, pss_only=certificate.key.type == "rsa-pss")
        return BelievedSeal(certificate, path, path.window, verifiers)
