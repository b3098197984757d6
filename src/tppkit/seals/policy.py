"""The requirements of a relying party for seals, and its cache of verified ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple, Protocol

from tppkit._cache import Cache
from tppkit.certificates import EidasCertificate, OrganizationPolicy, Use
from tppkit.httpsig.algorithms import Verify, key_kind, make_verifiers
from tppkit.httpsig.components import Origin
from tppkit.httpsig.times import CLOCK_SKEW
from tppkit.seals.advice import digest_fault
from tppkit.seals.profile import EmptyBody, Format, SealProfile
from tppkit.seals.profiles import PSD2_V1
from tppkit.trust import TrustedPath
from tppkit.trust.path.window import Window

_REMEMBERED = 256
_NOTHING: Mapping[str, EidasCertificate] = MappingProxyType({})
_ORGANIZATIONS = OrganizationPolicy()

# These must not appear twice: they are not lists (RFC 9110 section 5.3), so two of them are ambiguous.
_SINGLETONS = ("digest", "signature", "x-request-id", "content-type", "content-length", "host", "date", "authorization")


class Demands(NamedTuple):
    """The requirements of a profile for a request's headers, computed once; all names are in lower case.

    Attributes:
        singletons: fields that must not appear twice.
        sealing: fields that a sealed request must have.
        carrier: the field with the signature.
        certificate_header: the field with the certificate, or None.
        covered: fields that every signature must cover.
        if_present: fields that a signature must cover if the request has them.
        allowed: the only fields that a signature may cover, or None for any.
        digests: beginnings of a digest header with one accepted algorithm.
    """

    singletons: frozenset[str]
    sealing: frozenset[str]
    carrier: str
    certificate_header: str | None
    covered: frozenset[str]
    if_present: frozenset[str]
    allowed: frozenset[str] | None
    digests: tuple[str, ...]


def demands_of(profile: SealProfile) -> Demands:
    """Compute the requirements of a profile."""
    digest = frozenset(() if profile.covers_body else {profile.digest_name})
    optional = digest if profile.empty_body is EmptyBody.ABSENT else frozenset()
    if_present, written = frozenset(profile.if_present), frozenset(profile.covered_names)
    certificate = None if profile.certificate_header is None else profile.certificate_header.lower()
    sealing = profile.carriers | digest | {*([certificate] if certificate else [])}
    begins = [f"{name}=" for name in (profile.digest_algorithm, *profile.digest_algorithms)]
    # The fields of RFC 9421 are dictionaries, which may have several lines (RFC 9651 section 3.2).
    several = profile.carriers if profile.format is Format.RFC9421 else frozenset()
    return Demands(
        singletons=(written | if_present | sealing | {*_SINGLETONS}) - several,
        sealing=frozenset(sealing - optional),
        carrier=profile.carrier.lower(),
        certificate_header=certificate,
        covered=profile.demanded - optional,
        if_present=(if_present - profile.demanded) | optional,
        allowed=written | if_present if profile.only_these else None,
        digests=tuple(begin for begin in begins if not digest_fault(begin, profile)),
    )


class TrustedSeal(NamedTuple):
    """A seal certificate that fits its profile and is trusted within a window.

    Attributes:
        certificate: the QSealC.
        path: its chain.
        window: when the chain is trusted.
        verifiers: verification functions by the algorithm's name on the wire.
        key_id: the keyId last accepted for it; None before the first.
        qwac: the website certificate last accepted with it.
    """

    certificate: EidasCertificate
    path: TrustedPath
    window: Window
    verifiers: Mapping[str, Verify]
    key_id: str | None = None
    qwac: EidasCertificate | None = None


class Paths(Protocol):
    """Verifies certificates: a `trust.PathVerifier` or `trust.TrustMaterial`.

    Example:
        def make_policy(paths: Paths) -> SealPolicy:
            return SealPolicy(paths, profile=PROFILES["berlin-group"])
    """

    def verify_use(
        self, certificate: EidasCertificate, *, as_: Use, at: datetime, intermediates: Sequence[EidasCertificate] = ()
    ) -> TrustedPath:
        """Return the chain of a certificate that fits its use and is trusted at a time.

        Raises:
            CertificateRejected: see `PathVerifier.verify_use`.
        """


class SealPolicy:
    """The requirements of a relying party for seals, with a cache of at most 256 verified certificates.

        policy = SealPolicy(PathVerifier(load_anchors("anchors.pem")), profile=PROFILES["berlin-group"])
        verified = verify_request(received, qwac=qwac, at=utc_now(), policy=policy)

    The cache helps because a provider sends the same certificate with every request. A certificate is cached only after a signature
    was verified, and trusted only within the window of its chain, which ends at a known revocation.

    Args:
        paths: decides whether a certificate is trusted.
        profile: the dialect.
        clock_skew: tolerated difference between a covered time and the time of verification.
        certificates: seal certificates by keyId. If the dialect sends no certificate, this one is used; if it sends one, it must be
            this one. A certificate that is sent with another keyId is judged as usual. Certificates are never fetched.
        origin: the origin of requests, for a dialect that covers scheme or authority.
        organizations: the accepted organizationIdentifiers, in the seal and in the website certificate.

    Attributes:
        demands: the requirements of the profile for a request's headers.
        remembered: the cached seals, by the text that identifies the certificate in a request (the value of its header, or its SHA-256).
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
        self.remembered = Cache[str, TrustedSeal](_REMEMBERED)

    def trust(
        self, certificate: EidasCertificate, *, at: datetime, intermediates: Sequence[EidasCertificate]
    ) -> TrustedSeal:
        """Return the trusted seal of a certificate that fits the profile of seals.

        Raises:
            CertificateRejected: see `PathVerifier.verify_use` and `OrganizationPolicy.require`.
            FormatError: `key.unsupported`, `key.weak`, `profile.key`; `certificate.key-unreadable`.
        """
        path = self.paths.verify_use(certificate, as_=Use.QSEALC, at=at, intermediates=intermediates)
        self.organizations.require(certificate)
        names = self.profile.algorithms_of(key_kind(certificate.public_key))
        verifiers = make_verifiers(certificate.public_key, names=names, pss_only=certificate.key.type == "rsa-pss")
        return TrustedSeal(certificate, path, path.window, verifiers)
