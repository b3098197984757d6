"""A test PKI in memory: a root, issuing authorities, what they have issued, and what they issue further."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from cryptography import x509

from tppkit._clock import as_utc, format_time
from tppkit.certificates import EidasCertificate, Use, check_certificate
from tppkit.certificates.rules import first_error
from tppkit.errors import ConfigurationError, Finding
from tppkit.testpki import profiles
from tppkit.testpki.crl import Revocation, write_crl
from tppkit.testpki.draft import Draft, extension_of, write_name
from tppkit.testpki.issued import Drafted, Issued, sign_draft
from tppkit.testpki.keys import KEY_KINDS, KeySource, PrivateKey, public_key_der, require_kind
from tppkit.testpki.provider import Provider

DEFAULT_DAYS = 365
MAX_DAYS = 36_500
CRL_DAYS = 7


@dataclass(frozen=True, slots=True)
class Pki:
    """A test PKI.

    Attributes:
        provider: the provider that QWAC and QSealC are made for.
        other_provider: another organisation.
        members: every certificate by its label, the root first.
        callback_keys: P-256 keys of the legacy interface's callbacks, `callback-test` and `callback-live`.
        keys: makes further keys and serial numbers.
        not_before: start of validity of everything, aware UTC.
        days: validity of leaf certificates in days.
        revocations: what is revoked, by the label of its issuer.
        services_url: where its services answer, as certificates and lists name it; without a slash at its end.
        policy: of QWACs, one of `profiles.QWAC_POLICIES`.
        qscd: QSealCs state a qualified device (which no test key is in).
        seal_key: kind of the keys of QSealCs, one of `testpki.SEAL_KEY_KINDS`; None for that of all other keys.
        requested: what was issued to requests, the keys of which are elsewhere.
    """

    provider: Provider
    other_provider: Provider
    members: Mapping[str, Issued]
    callback_keys: Mapping[str, PrivateKey]
    keys: KeySource
    not_before: datetime
    days: int
    revocations: Mapping[str, tuple[Revocation, ...]] = field(default_factory=lambda: MappingProxyType({}))
    services_url: str = profiles.SERVICES_URL
    policy: str = "gen"
    qscd: bool = False
    seal_key: str | None = None
    requested: tuple[EidasCertificate, ...] = ()

    @property
    def root(self) -> Issued:
        """The trust anchor."""
        return self.members["root"]

    @property
    def qwac_ca(self) -> Issued:
        """Issues QWACs and the server certificate."""
        return self.members["issuing-ca-qwac"]

    @property
    def qseal_ca(self) -> Issued:
        """Issues QSealCs and the time-stamping authority's certificate."""
        return self.members["issuing-ca-qseal"]

    @property
    def qwac(self) -> Issued:
        """The provider's website certificate, for client and server authentication."""
        return self.members["qwac"]

    @property
    def qseal(self) -> Issued:
        """The provider's seal certificate."""
        return self.members["qseal"]

    @property
    def other_qwac(self) -> Issued:
        """The other organisation's website certificate."""
        return self.members["other-qwac"]

    @property
    def other_qseal(self) -> Issued:
        """The other organisation's seal certificate."""
        return self.members["other-qseal"]

    @property
    def server(self) -> Issued:
        """A TLS server certificate for localhost."""
        return self.members["server"]

    @property
    def tsa(self) -> Issued:
        """The time-stamping authority."""
        return self.members["tsa"]

    @property
    def issued(self) -> tuple[Issued, ...]:
        """Everything in the PKI, the root first."""
        return tuple(self.members.values())

    @property
    def issuers(self) -> tuple[Issued, ...]:
        """The root and both issuing authorities with their keys."""
        return (self.root, self.qwac_ca, self.qseal_ca)

    @property
    def authorities(self) -> tuple[EidasCertificate, ...]:
        """The root and both issuing authorities, for `trust.make_anchors`."""
        return tuple(issuer.certificate for issuer in self.issuers)

    def issuing_from(
        self, at: datetime, *, days: int | None = None, policy: str | None = None, qscd: bool | None = None
    ) -> Pki:
        """The same PKI, with what it issues valid from midnight UTC of another day; options not given stay.

        Args:
            at: a time of the day, aware.
            days: validity of leaf certificates in days; by default as before, or what is left of the authorities', or with the
                policy `ev` what browsers take.
            policy: of QWACs, one of `profiles.QWAC_POLICIES`.
            qscd: QSealCs state a qualified device.

        Raises:
            ConfigurationError: `pki.ended`: the authorities had ended; `pki.days`: not within their validity; `pki.policy`.
        """
        start, authority = midnight(at), self.root.certificate
        if start > authority.not_after:
            ended = format_time(authority.not_after)
            raise ConfigurationError("pki.ended", f"the authorities ended on {ended}, before {format_time(start)}")
        left = (authority.not_after - start).days + 1
        policy = self.policy if policy is None else profiles.require_policy(policy)
        chosen = profiles.longest_days(policy, start.date(), min(self.days, left)) if days is None else days
        if start < authority.not_before or not 1 <= chosen <= left:
            span = f"{format_time(authority.not_before)} to {format_time(authority.not_after)}"
            asked = "" if days is None else f" for {days} days"
            message = f"a validity from {format_time(start)}{asked} is not within that of the authorities, {span}"
            raise ConfigurationError("pki.days", message)
        return replace(
            self,
            not_before=start,
            days=chosen,
            policy=policy,
            qscd=self.qscd if qscd is None else qscd,
        )

    def responder(self, issuer: Issued) -> Issued:
        """Who answers by OCSP for one of `issuers`: its delegated responder, or the root for itself."""
        return self.members.get(issuer.label.replace("issuing-ca", "ocsp"), issuer)

    def draft_qwac(self, provider: Provider, *, label: str, key: str | None = None) -> Drafted:
        """A QWAC before it is signed, and its private key; arguments as for `issue_qwac`."""
        name = profiles.qwac_name(provider, policy=self.policy)
        extensions = profiles.qwac_extensions(provider, services_url=self.services_url, policy=self.policy)
        return self._draft(self.qwac_ca, label, name, extensions, key=_require_tls_kind(key))

    def draft_qseal(self, provider: Provider, *, label: str, key: str | None = None) -> Drafted:
        """A QSealC before it is signed, and its private key; arguments as for `issue_qseal`."""
        name = profiles.provider_name(provider, provider.name)
        extensions = profiles.qseal_extensions(provider, services_url=self.services_url, qscd=self.qscd)
        return self._draft(self.qseal_ca, label, name, extensions, key=key or self.seal_key)

    def issue_qwac(self, provider: Provider, *, label: str, key: str | None = None) -> Issued:
        """A QWAC for another provider, or the same one again.

        Args:
            provider: whom it is for.
            label: short name.
            key: kind of its key, one of `testpki.KEY_KINDS`; the PKI's own by default.

        Raises:
            ConfigurationError: `pki.profile`: it would break a rule of its profile; `pki.key-kind`.
        """
        drafted = self.draft_qwac(provider, label=label, key=key)
        return _require_sound(sign_draft(drafted, self.qwac_ca, label, "qwac"))

    def issue_qseal(self, provider: Provider, *, label: str, key: str | None = None) -> Issued:
        """A QSealC for another provider, or the same one again.

        Args:
            provider: whom it is for.
            label: short name.
            key: kind of its key, one of `testpki.SEAL_KEY_KINDS`; the PKI's own by default.

        Raises:
            ConfigurationError: `pki.profile`: it would break a rule of its profile; `pki.key-kind`.
        """
        drafted = self.draft_qseal(provider, label=label, key=key)
        return _require_sound(sign_draft(drafted, self.qseal_ca, label, "qseal"))

    def issue_server(self, *names: str, label: str, key: str | None = None) -> Issued:
        """A TLS server certificate for DNS names and IP addresses, the first of which is its common name; `key` as for `issue_qwac`."""
        name, extensions = profiles.authority_name(names[0]), profiles.server_extensions([*map(_general_name, names)])
        drafted = self._draft(self.qwac_ca, label, name, extensions, key=_require_tls_kind(key))
        return sign_draft(drafted, self.qwac_ca, label, "server")

    def crl(self, issuer: Issued, *, at: datetime, number: int = 1, days: int = CRL_DAYS) -> bytes:
        """DER of the revocation list of one of `issuers`, issued at a time (aware).

        Args:
            issuer: one of `issuers`.
            at: when it is issued; what was revoked later does not stand in it.
            number: CRL number.
            days: how long it is good.
        """
        at = as_utc(at)
        return write_crl(
            issuer=issuer.name,
            key=issuer.key,
            authority_key_identifier=issuer.key_identifier,
            revoked=[revocation for revocation in self.revocations.get(issuer.label, ()) if revocation.at <= at],
            this_update=at,
            next_update=at + timedelta(days=days),
            number=number,
        )

    def issue(
        self,
        issuer: Issued | None,
        label: str,
        kind: str,
        name: profiles.Name,
        extensions: Sequence[profiles.Extension],
        *,
        days: int | None = None,
    ) -> Issued:
        """A certificate of any other kind, signed by one of `issuers`, or by itself when there is none."""
        return sign_draft(self._draft(issuer, label, name, extensions, days=days), issuer, label, kind)

    def _draft(
        self,
        issuer: Issued | None,
        label: str,
        name: profiles.Name,
        extensions: Sequence[profiles.Extension],
        *,
        key: str | None = None,
        days: int | None = None,
    ) -> Drafted:
        private = self.keys.make_key(label, kind=key)
        public = private.public_key()
        identifiers = profiles.key_identifiers(public, issuer.key.public_key() if issuer else public)
        draft = Draft(
            subject=name,
            issuer=issuer.name if issuer else write_name(name),
            public_key=public_key_der(private),
            serial=self.keys.make_serial(label),
            not_before=self.not_before,
            not_after=self.not_before + timedelta(days=days or self.days) - timedelta(seconds=1),
            extensions=tuple(extension_of(*extension) for extension in (*extensions, *identifiers)),
        )
        return Drafted(draft, private)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _require_tls_kind(key: str | None) -> str | None:
    return key if key is None else require_kind(key, KEY_KINDS)


def _require_sound(issued: Issued) -> Issued:
    require_profile(issued.certificate, issued.kind)
    return issued


def require_profile(certificate: EidasCertificate, kind: str) -> None:
    """Require that no check of a provider's certificate fails while it is valid; a name reserved for tests is allowed.

    Args:
        certificate: the certificate.
        kind: `qwac` or `qseal`.

    Raises:
        ConfigurationError: `pki.profile`.
    """
    findings = check_certificate(certificate, as_=Use(kind), at=certificate.not_before)
    fault = first_error(tuple(finding for finding in findings if not _is_for_tests(finding)))
    if fault is not None:
        message = f"the {kind} would break the rule {fault.code}: {fault.message} ({fault.clause})"
        raise ConfigurationError("pki.profile", message, clause=fault.clause)


def _is_for_tests(finding: Finding) -> bool:
    # RFC 2606: no public certificate may have such a name, a test certificate should.
    return finding.code == "certificate.internal-name" and finding.values["name"].lower().endswith(
        (".test", ".example")
    )


def midnight(at: datetime) -> datetime:
    """The midnight (UTC) at which the day of a time (aware) began."""
    return as_utc(at).replace(hour=0, minute=0, second=0, microsecond=0)
