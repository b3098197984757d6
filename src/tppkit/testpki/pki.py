"""A test PKI in memory: a root, two issuing authorities, everything they issued, and what they can issue further.

pki = make_pki(at=utc_now(), provider=make_provider(roles=["PSP_PI"]))
pki.qwac.certificate, pki.qwac.key, make_anchors(pki.authorities)
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from cryptography import x509

from tppkit._clock import as_utc, format_time
from tppkit.certificates import EidasCertificate, Use, check_certificate
from tppkit.certificates.rules import first_error
from tppkit.errors import ConfigurationError, Finding
from tppkit.testpki import profiles
from tppkit.testpki.certificate import Draft, Drafted, Issued, below, extension_of, sign_draft
from tppkit.testpki.crl import Revocation, write_crl
from tppkit.testpki.keys import KEY_KINDS, KeySource, PrivateKey, require_kind
from tppkit.testpki.provider import Provider, make_bank, make_other_provider, make_provider

DEFAULT_DAYS = 365
MAX_DAYS = 36_500
CALLBACK_KEYS = ("callback-test", "callback-live")
_AUTHORITY_DAYS = 3650
BANK_SEAL = "bank-seal"  # label and kind
_LEAVES = ("qwac", "qseal", "other-qwac", "other-qseal", "server", BANK_SEAL)
_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
_URL = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+(/[A-Za-z0-9._~/-]*[A-Za-z0-9._~-])?")


class Signer(NamedTuple):
    """A certificate that signs for the PKI: its kind, the label of its issuer (its own if it signs itself), its common name."""

    kind: str
    issuer: str
    common_name: str


# By label. The first three are the authorities.
SIGNERS: Mapping[str, Signer] = MappingProxyType({
    "root": Signer("root", "root", "tppkit TEST Root CA"),
    "issuing-ca-qwac": Signer("issuing-ca", "root", "tppkit TEST QWAC CA"),
    "issuing-ca-qseal": Signer("issuing-ca", "root", "tppkit TEST QSealC CA"),
    "ocsp-qwac": Signer("ocsp", "issuing-ca-qwac", "tppkit TEST OCSP ocsp-qwac"),
    "ocsp-qseal": Signer("ocsp", "issuing-ca-qseal", "tppkit TEST OCSP ocsp-qseal"),
    "tsa": Signer("tsa", "issuing-ca-qseal", "tppkit TEST TSA"),
    "lotl-signer": Signer("list-signer", "lotl-signer", "tppkit TEST lotl-signer"),
    "list-signer": Signer("list-signer", "list-signer", "tppkit TEST list-signer"),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pki:
    """A test PKI.

    pki = make_pki(at=utc_now(), seed=1)
    more = pki.issue_qseal(make_provider(name="Another TEST"), label="more")

    Attributes:
        provider: The provider of the QWAC and the QSealC.
        other_provider: Another organisation.
        members: Every certificate by its label, the root first.
        callback_keys: P-256 keys that sign callbacks of the legacy interface, `callback-test` and `callback-live`.
        keys: Makes further keys and serial numbers.
        not_before: Start of validity of all certificates, aware UTC.
        days: Validity of leaf certificates in days.
        revocations: The revoked certificates, by the label of their issuer.
        services_url: Base URL of the services, as certificates and lists name it; without a final slash.
        policy: Policy of QWACs, one of `profiles.QWAC_POLICIES`.
        qscd: Whether QSealCs state a qualified device (which no test key is in).
        seal_key: Kind of the keys of QSealCs, one of `testpki.keys.SEAL_KEY_KINDS`; None for that of all other keys.
        requested: Certificates issued to requests, whose keys are elsewhere.
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
        """The issuer of QWACs and of the server certificate."""
        return self.members["issuing-ca-qwac"]

    @property
    def qseal_ca(self) -> Issued:
        """The issuer of QSealCs and of the time-stamping authority's certificate."""
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
    def bank_seal(self) -> Issued | None:
        """The seal certificate of a bank, which signs its answers; None in a folder of an earlier version."""
        return self.members.get(BANK_SEAL)

    @property
    def tsa(self) -> Issued:
        """The time-stamping authority."""
        return self.members["tsa"]

    @property
    def issued(self) -> tuple[Issued, ...]:
        """All members, the root first."""
        return tuple(self.members.values())

    @property
    def issuers(self) -> tuple[Issued, ...]:
        """The root and both issuing authorities with their keys."""
        return (self.root, self.qwac_ca, self.qseal_ca)

    @property
    def authorities(self) -> tuple[EidasCertificate, ...]:
        """The certificates of the root and both issuing authorities, for `trust.make_anchors`."""
        return tuple(issuer.certificate for issuer in self.issuers)

    def issuing_from(
        self, at: datetime, *, days: int | None = None, policy: str | None = None, qscd: bool | None = None
    ) -> Pki:
        """Return the same PKI with other options for what it issues from now on; options not given stay.

        Args:
            at: Certificates are valid from midnight UTC of this day, aware.
            days: Validity of leaf certificates in days. By default as before, but no longer than the authorities are valid, and
                with the policy `ev` at least a day less than browsers accept.
            policy: Policy of QWACs, one of `profiles.QWAC_POLICIES`.
            qscd: QSealCs state a qualified device.

        Raises:
            ConfigurationError: `pki.ended`: the authorities expired; `pki.days`: not within their validity; `pki.policy`.
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
        return replace(self, not_before=start, days=chosen, policy=policy, qscd=self.qscd if qscd is None else qscd)

    def responder(self, issuer: Issued) -> Issued:
        """Return the OCSP signer for one of `issuers`: its delegated responder, or the root itself."""
        return self.members.get(issuer.label.replace("issuing-ca", "ocsp"), issuer)

    def issuer_of(self, kind: str) -> Issued:
        """Return the authority that issues certificates of a kind: `qwac`, `qseal` or `server`."""
        return self.qseal_ca if kind == "qseal" else self.qwac_ca

    def draft(self, kind: str, provider: Provider, *, label: str, key: str | None = None) -> Drafted:
        """Return a QWAC or QSealC before it is signed, and its private key; arguments as for `issue_leaf`."""
        name, extensions = profiles.provider_profile(
            kind, provider, services_url=self.services_url, policy=self.policy, qscd=self.qscd
        )
        key = (key or self.seal_key) if kind == "qseal" else _require_tls_kind(key)
        return self._draft(self.issuer_of(kind), label, name, extensions, key=key)

    def issue_leaf(self, kind: str, provider: Provider, *, label: str, key: str | None = None) -> Issued:
        """Issue a QWAC or QSealC.

        Args:
            kind: `qwac` or `qseal`.
            provider: The provider that it names.
            label: Short name.
            key: Kind of its key, for a QWAC one of `testpki.keys.KEY_KINDS`, for a QSealC one of `testpki.keys.SEAL_KEY_KINDS`; that of
                the PKI by default.

        Raises:
            ConfigurationError: `pki.profile`: it would break a rule of its profile; `pki.key-kind`.
        """
        issued = sign_draft(self.draft(kind, provider, label=label, key=key), self.issuer_of(kind), label, kind)
        require_profile(issued.certificate, kind)
        return issued

    def issue_qwac(self, provider: Provider, *, label: str, key: str | None = None) -> Issued:
        """Issue a QWAC; arguments and errors as for `issue_leaf`."""
        return self.issue_leaf("qwac", provider, label=label, key=key)

    def issue_qseal(self, provider: Provider, *, label: str, key: str | None = None) -> Issued:
        """Issue a QSealC; arguments and errors as for `issue_leaf`."""
        return self.issue_leaf("qseal", provider, label=label, key=key)

    def issue_server(self, *names: str, label: str, key: str | None = None) -> Issued:
        """Issue a TLS server certificate.

        Args:
            names: DNS names and IP addresses; the first is the common name.
            label: Short name.
            key: Kind of its key, one of `testpki.keys.KEY_KINDS`; that of the PKI by default.

        Raises:
            ConfigurationError: `pki.key-kind`.
        """
        name, extensions = profiles.authority_name(names[0]), profiles.server_extensions([*map(_general_name, names)])
        drafted = self._draft(self.qwac_ca, label, name, extensions, key=_require_tls_kind(key))
        return sign_draft(drafted, self.qwac_ca, label, "server")

    def issue(
        self, issuer: Issued | None, label: str, kind: str, name: profiles.Name, extensions: Sequence[profiles.Extension], *,
        days: int | None = None,
    ) -> Issued:  # fmt: skip
        """Issue a certificate of any other kind, signed by one of `issuers`, or self-signed if `issuer` is None."""
        return sign_draft(self._draft(issuer, label, name, extensions, days=days), issuer, label, kind)

    def crl(self, issuer: Issued, *, at: datetime, number: int = 1) -> bytes:
        """Write the revocation list of an authority, as DER; it is valid for as long as leaf certificates are.

        Args:
            issuer: One of `issuers`.
            at: Time of issue, aware; certificates revoked later are left out.
            number: CRL number.
        """
        at = as_utc(at)
        revoked = [revocation for revocation in self.revocations.get(issuer.label, ()) if revocation.at <= at]
        return write_crl(issuer, revoked, this_update=at, next_update=at + timedelta(days=self.days), number=number)

    def _draft(
        self, issuer: Issued | None, label: str, name: profiles.Name, extensions: Sequence[profiles.Extension], *,
        key: str | None = None, days: int | None = None,
    ) -> Drafted:  # fmt: skip
        private = self.keys.make_key(label, kind=key)
        draft = Draft(
            subject=name,
            issuer=b"",
            public_key=b"",
            serial=self.keys.make_serial(label),
            not_before=self.not_before,
            not_after=self.not_before + timedelta(days=days or self.days) - timedelta(seconds=1),
            extensions=tuple(extension_of(*extension) for extension in extensions),
        )
        return Drafted(below(draft, private.public_key(), issuer), private)


def make_pki(
    *, at: datetime, provider: Provider | None = None, key: str = "p256", days: int | None = None, seed: int | None = None,
    services_url: str = profiles.SERVICES_URL, policy: str = "gen", qscd: bool = False, seal_key: str | None = None,
) -> Pki:  # fmt: skip
    """Make a new test PKI.

        pki = make_pki(at=utc_now(), provider=make_provider(roles=["PSP_AI"]))
        pki.qseal.certificate, pki.qseal.key

    Args:
        at: The present, aware; everything is valid from midnight UTC of that day.
        provider: The provider of QWAC and QSealC; an example provider by default.
        key: Kind of every key except those of callbacks, one of `testpki.keys.KEY_KINDS`.
        days: Validity of leaf certificates in days; 365 by default, with the policy `ev` at least a day less than browsers accept.
        seed: The same seed and day give the same bytes again.
        services_url: Base URL of the services, as certificates and lists name it; without a final slash.
        policy: Policy of QWACs: `gen` (QNCP-w-gen, for payment services only) or `ev` (QEVCP-w, which browsers accept too).
        qscd: QSealCs state a qualified device.
        seal_key: Kind of the keys of QSealCs, one of `testpki.keys.SEAL_KEY_KINDS`; that of all other keys by default.

    Raises:
        ConfigurationError: `pki.days`, `pki.key-kind`, `pki.services-url`, `pki.policy`, `pki.profile`.
    """
    if not _URL.fullmatch(services_url):
        message = f"{services_url[:80]!r} is not an http address without a slash at its end"
        raise ConfigurationError("pki.services-url", message)
    policy, keys, start = profiles.require_policy(policy), KeySource(key, seed=seed), midnight(at)
    if days is None:
        days = profiles.longest_days(policy, start.date(), DEFAULT_DAYS)
    if not 1 <= days <= MAX_DAYS:
        raise ConfigurationError("pki.days", f"a validity of {days} days is not between 1 and {MAX_DAYS}")
    if not 1950 <= start.year < 9900:  # the range of a certificate (RFC 5280 section 4.1.2.5), with room for MAX_DAYS
        raise ConfigurationError("pki.days", f"a validity from {format_time(start)} is not between 1950 and 9999")
    keys.prepare((*SIGNERS, *_LEAVES))
    members: dict[str, Issued] = {}
    provider = provider or make_provider()
    pki = Pki(
        provider=provider,
        other_provider=make_other_provider(provider),
        members=MappingProxyType(members),  # filled below, issuers before what they issue
        callback_keys=MappingProxyType({label: keys.make_key(label, kind="p256") for label in CALLBACK_KEYS}),
        keys=keys, not_before=start, days=days, services_url=services_url, policy=policy, qscd=qscd, seal_key=seal_key,
    )  # fmt: skip
    for issued in _issue_all(pki):
        members[issued.label] = issued
    return pki


def _issue_all(pki: Pki) -> Iterator[Issued]:
    """Issue every certificate; each is a member before the next is issued."""
    authorities, others = list(SIGNERS)[:3], list(SIGNERS)[3:]
    yield from (_issue_signer(pki, label) for label in authorities)
    yield pki.issue_qwac(pki.provider, label="qwac")
    yield pki.issue_qseal(pki.provider, label="qseal")
    yield pki.issue_qwac(pki.other_provider, label="other-qwac")
    yield pki.issue_qseal(pki.other_provider, label="other-qseal")
    yield pki.issue_server(*_LOCAL_NAMES, label="server")
    # The kind of the PKI's own keys: a dialect of requests may need another one, such as Ed25519, which answers do not have.
    bank_seal = pki.issue_qseal(make_bank(pki.provider), label=BANK_SEAL, key=pki.keys.kind)
    yield replace(bank_seal, kind=BANK_SEAL)
    yield from (_issue_signer(pki, label) for label in others)


def _issue_signer(pki: Pki, label: str) -> Issued:
    kind, issuer, common_name = SIGNERS[label]
    name, extensions = profiles.authority_name(common_name), profiles.SIGNER_EXTENSIONS[kind]
    return pki.issue(pki.members.get(issuer), label, kind, name, extensions, days=max(_AUTHORITY_DAYS, pki.days))


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _require_tls_kind(key: str | None) -> str | None:
    return key if key is None else require_kind(key, KEY_KINDS)


def require_profile(certificate: EidasCertificate, kind: str) -> None:
    """Require that a provider's certificate breaks no rule of its profile; names reserved for tests are allowed.

    Args:
        certificate: The certificate.
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
    # RFC 2606: no public certificate may have such a name, but a test certificate should.
    return finding.code == "certificate.internal-name" and finding.values["name"].lower().endswith(
        (".test", ".example")
    )


def midnight(at: datetime) -> datetime:
    """Return the midnight (UTC) at which the day of an aware time began."""
    return as_utc(at).replace(hour=0, minute=0, second=0, microsecond=0)
