"""A whole test PKI in memory: a root, issuing authorities, what they issue, and the services that vouch for it.

pki = make_pki(at=utc_now())
pki.qwac.certificate, pki.qwac.key, pki.qseal.certificate, make_anchors(pki.authorities)
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit._clock import as_utc, format_time
from tppkit.certificates import EidasCertificate, EidasRequest
from tppkit.errors import ConfigurationError
from tppkit.testpki import profiles
from tppkit.testpki.crl import Revocation, write_crl
from tppkit.testpki.draft import Draft, extension_of, write_name
from tppkit.testpki.issued import Drafted, Issued, for_key, sign_draft
from tppkit.testpki.keys import KEY_KINDS, KeySource, PrivateKey, require_kind
from tppkit.testpki.provider import Provider, make_other_provider, make_provider
from tppkit.testpki.service_profiles import list_signer_extensions, responder_extensions, timestamping_extensions

DEFAULT_DAYS = 365
MAX_DAYS = 36_500
CRL_DAYS = 7
CALLBACK_KEYS = ("callback-test", "callback-live")
_AUTHORITY_DAYS = 3650
_CERTIFIED = (
    "root", "issuing-ca-qwac", "issuing-ca-qseal", "qwac", "qseal", "other-qwac", "other-qseal", "server",
    "ocsp-qwac", "ocsp-qseal", "tsa", "lotl-signer", "list-signer",
)  # fmt: skip
_LOCAL_NAMES: tuple[x509.GeneralName, ...] = (
    x509.DNSName("localhost"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    x509.IPAddress(ipaddress.ip_address("::1")),
)


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
        """
        return sign_draft(self.draft_qwac(provider, label=label, key=key), self.qwac_ca, label, "qwac")

    def issue_requested(self, request: EidasRequest, provider: Provider, *, kind: str, label: str) -> EidasCertificate:
        """The certificate that a request asks for, with the request's key.

        Args:
            request: whose key is certified.
            provider: who asks.
            kind: `qwac` or `qseal`.
            label: short name.
        """
        issuer = self.qwac_ca if kind == "qwac" else self.qseal_ca
        drafted = self.draft_qwac(provider, label=label) if kind == "qwac" else self.draft_qseal(provider, label=label)
        public = request.public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return EidasCertificate.from_der(for_key(drafted.draft, public).sign(issuer.key))

    def issue_qseal(self, provider: Provider, *, label: str, key: str | None = None) -> Issued:
        """A QSealC for another provider, or the same one again.

        Args:
            provider: whom it is for.
            label: short name.
            key: kind of its key, one of `testpki.SEAL_KEY_KINDS`; the PKI's own by default.
        """
        return sign_draft(self.draft_qseal(provider, label=label, key=key), self.qseal_ca, label, "qseal")

    def issue_server(self, dns_name: str, *, label: str, key: str | None = None) -> Issued:
        """A TLS server certificate for another name than localhost; `key` as for `issue_qwac`."""
        name, extensions = profiles.authority_name(dns_name), profiles.server_extensions([x509.DNSName(dns_name)])
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
            public_key=Drafted.public_key_of(private),
            serial=self.keys.make_serial(label),
            not_before=self.not_before,
            not_after=self.not_before + timedelta(days=days or self.days) - timedelta(seconds=1),
            extensions=tuple(extension_of(*extension) for extension in (*extensions, *identifiers)),
        )
        return Drafted(draft, private)


def _require_tls_kind(key: str | None) -> str | None:
    return key if key is None else require_kind(key, KEY_KINDS)


def make_pki(
    *,
    at: datetime,
    provider: Provider | None = None,
    key: str = "p256",
    days: int = DEFAULT_DAYS,
    seed: int | None = None,
    services_url: str = profiles.SERVICES_URL,
    policy: str = "gen",
    qscd: bool = False,
    seal_key: str | None = None,
) -> Pki:
    """A fresh test PKI.

    Args:
        at: the present, aware; everything is valid from midnight UTC of that day.
        provider: who QWAC and QSealC are for; an example provider when absent.
        key: kind of every key but those of callbacks, one of `testpki.KEY_KINDS`.
        days: validity of leaf certificates in days.
        seed: the same seed and day give the same bytes again.
        services_url: where its services answer, as certificates and lists name it; without a slash at its end.
        policy: of QWACs: `gen` (QNCP-w-gen, for payment services only) or `ev` (QEVCP-w, which browsers take as well).
        qscd: QSealCs state a qualified device.
        seal_key: kind of the keys of QSealCs, one of `testpki.SEAL_KEY_KINDS`; that of all other keys by default.

    Raises:
        ConfigurationError: `pki.days`, `pki.key-kind`, `pki.services-url`, `pki.policy`.
    """
    if not 1 <= days <= MAX_DAYS:
        raise ConfigurationError("pki.days", f"a validity of {days} days is not between 1 and {MAX_DAYS}")
    keys = KeySource(key, seed=seed)
    start = as_utc(at).replace(hour=0, minute=0, second=0, microsecond=0)
    if not 1950 <= start.year < 9900:  # what a certificate can say (RFC 5280 section 4.1.2.5), and MAX_DAYS more
        raise ConfigurationError("pki.days", f"a validity from {format_time(start)} is not between 1950 and 9999")
    keys.prepare(_CERTIFIED)
    members: dict[str, Issued] = {}
    provider = provider or make_provider()
    pki = Pki(
        provider=provider,
        other_provider=make_other_provider(provider),
        members=MappingProxyType(members),  # which is filled below, from the top down
        callback_keys=MappingProxyType({label: keys.make_key(label, kind="p256") for label in CALLBACK_KEYS}),
        keys=keys,
        not_before=start,
        days=days,
        services_url=_require_url(services_url),
        policy=_require_policy(policy),
        qscd=qscd,
        seal_key=seal_key,
    )
    for issued in _issue_all(pki):
        members[issued.label] = issued
    return pki


def _require_url(url: str) -> str:
    if not re.fullmatch(r"https?://[A-Za-z0-9.\[\]:-]+(/[A-Za-z0-9._~/-]+)?", url) or url.endswith("/"):
        raise ConfigurationError("pki.services-url", f"{url[:80]!r} is not an http address without a slash at its end")
    return url


def _require_policy(policy: str) -> str:
    if policy not in profiles.QWAC_POLICIES:
        raise ConfigurationError(
            "pki.policy", f"the policy {policy!r} is not one of {', '.join(profiles.QWAC_POLICIES)}"
        )
    return policy


def _issue_all(pki: Pki) -> Iterator[Issued]:
    """Every certificate; each is a member before the next is made."""
    name, long = profiles.authority_name, max(_AUTHORITY_DAYS, pki.days)
    root, issuing = profiles.authority_extensions(path_length=None), profiles.authority_extensions(path_length=0)
    yield pki.issue(None, "root", "root", name("tppkit TEST Root CA"), root, days=long)
    yield pki.issue(pki.root, "issuing-ca-qwac", "issuing-ca", name("tppkit TEST QWAC CA"), issuing, days=long)
    yield pki.issue(pki.root, "issuing-ca-qseal", "issuing-ca", name("tppkit TEST QSealC CA"), issuing, days=long)
    yield pki.issue_qwac(pki.provider, label="qwac")
    yield pki.issue_qseal(pki.provider, label="qseal")
    yield pki.issue_qwac(pki.other_provider, label="other-qwac")
    yield pki.issue_qseal(pki.other_provider, label="other-qseal")
    yield pki.issue(pki.qwac_ca, "server", "server", name("localhost"), profiles.server_extensions(_LOCAL_NAMES))
    for ca, label in ((pki.qwac_ca, "ocsp-qwac"), (pki.qseal_ca, "ocsp-qseal")):
        yield pki.issue(ca, label, "ocsp", name(f"tppkit TEST OCSP {label}"), responder_extensions())
    yield pki.issue(pki.qseal_ca, "tsa", "tsa", name("tppkit TEST TSA"), timestamping_extensions(), days=long)
    for label in ("lotl-signer", "list-signer"):
        yield pki.issue(None, label, "list-signer", name(f"tppkit TEST {label}"), list_signer_extensions(), days=long)
