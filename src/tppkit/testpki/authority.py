"""A whole test PKI in memory: a root, one issuing authority each for QWACs and QSealCs, and what they issue.

pki = make_pki(at=utc_now())
pki.qwac.certificate, pki.qwac.key, pki.qseal.certificate, make_anchors(pki.authorities)
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from tppkit._clock import as_utc, format_time
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError
from tppkit.testpki import profiles
from tppkit.testpki.keys import KeySource, PrivateKey
from tppkit.testpki.profiles import Extension, Provider, make_provider

DEFAULT_DAYS = 365
MAX_DAYS = 36_500
_AUTHORITY_DAYS = 3650


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate, its private key, and the authorities above it.

    Attributes:
        label: short name, also the stem of its files.
        kind: `root`, `issuing-ca`, `qwac`, `qseal` or `server`.
        certificate: the certificate.
        key: its private key; a test key.
        chain: issuing authorities from the nearest upwards, without the root.
    """

    label: str
    kind: str
    certificate: EidasCertificate
    key: PrivateKey
    chain: tuple[EidasCertificate, ...] = ()

    def __repr__(self) -> str:
        return f"Issued(label={self.label!r}, kind={self.kind!r}, subject={str(self.certificate.subject)!r})"


@dataclass(frozen=True, slots=True)
class Pki:
    """A test PKI.

    Attributes:
        provider: the provider that QWAC and QSealC are made for.
        root: the trust anchor.
        qwac_ca: issues QWACs and the server certificate.
        qseal_ca: issues QSealCs.
        qwac: the provider's website certificate (client and server authentication).
        qseal: the provider's seal certificate.
        server: a TLS server certificate for localhost.
        keys: makes further keys and serial numbers.
        not_before: start of validity of everything, aware UTC.
        days: validity of leaf certificates in days.
    """

    provider: Provider
    root: Issued
    qwac_ca: Issued
    qseal_ca: Issued
    qwac: Issued
    qseal: Issued
    server: Issued
    keys: KeySource
    not_before: datetime
    days: int

    @property
    def authorities(self) -> tuple[EidasCertificate, ...]:
        """The root and both issuing authorities, for `trust.make_anchors`."""
        return (self.root.certificate, self.qwac_ca.certificate, self.qseal_ca.certificate)

    @property
    def issued(self) -> tuple[Issued, ...]:
        """Everything in the PKI, the root first."""
        return (self.root, self.qwac_ca, self.qseal_ca, self.qwac, self.qseal, self.server)

    def issue_qwac(self, provider: Provider, *, label: str) -> Issued:
        """A QWAC for another provider, or the same one again."""
        return _issue_qwac(self.keys, self.qwac_ca, provider, label, self.not_before, self.days)

    def issue_qseal(self, provider: Provider, *, label: str) -> Issued:
        """A QSealC for another provider, or the same one again."""
        return _issue_qseal(self.keys, self.qseal_ca, provider, label, self.not_before, self.days)


def make_pki(
    *,
    at: datetime,
    provider: Provider | None = None,
    key: str = "p256",
    days: int = DEFAULT_DAYS,
    seed: int | None = None,
) -> Pki:
    """A fresh test PKI.

    Args:
        at: the present, aware; everything is valid from midnight UTC of that day.
        provider: who QWAC and QSealC are for; an example provider when absent.
        key: kind of every key, one of `testpki.KEY_KINDS`.
        days: validity of leaf certificates in days.
        seed: the same seed and day give the same bytes again (EC keys only).

    Raises:
        ConfigurationError: `pki.days`, `pki.key-kind`, `pki.seeded-rsa`.
    """
    if not 1 <= days <= MAX_DAYS:
        raise ConfigurationError("pki.days", f"a validity of {days} days is not between 1 and {MAX_DAYS}")
    provider = provider or make_provider()
    keys = KeySource(key, seed=seed)
    start = as_utc(at).replace(hour=0, minute=0, second=0, microsecond=0)
    if not 1950 <= start.year < 9900:  # what a certificate can say (RFC 5280 section 4.1.2.5), and MAX_DAYS more
        raise ConfigurationError("pki.days", f"a validity from {format_time(start)} is not between 1950 and 9999")
    root = _issue_authority(keys, None, "root", "tppkit TEST Root CA", start, days)
    qwac_ca = _issue_authority(keys, root, "issuing-ca-qwac", "tppkit TEST QWAC CA", start, days)
    qseal_ca = _issue_authority(keys, root, "issuing-ca-qseal", "tppkit TEST QSealC CA", start, days)
    return Pki(
        provider=provider,
        root=root,
        qwac_ca=qwac_ca,
        qseal_ca=qseal_ca,
        qwac=_issue_qwac(keys, qwac_ca, provider, "qwac", start, days),
        qseal=_issue_qseal(keys, qseal_ca, provider, "qseal", start, days),
        server=_issue_server(keys, qwac_ca, start, days),
        keys=keys,
        not_before=start,
        days=days,
    )


def _issue_authority(
    keys: KeySource, issuer: Issued | None, label: str, name: str, start: datetime, days: int
) -> Issued:
    extensions = profiles.authority_extensions(path_length=None if issuer is None else 0)
    kind = "root" if issuer is None else "issuing-ca"
    return _issue(
        keys, issuer, label, kind, profiles.authority_name(name), extensions, start, max(_AUTHORITY_DAYS, days)
    )


def _issue_qwac(keys: KeySource, issuer: Issued, provider: Provider, label: str, start: datetime, days: int) -> Issued:
    name = profiles.provider_name(provider, provider.dns_name)
    return _issue(keys, issuer, label, "qwac", name, profiles.qwac_extensions(provider), start, days)


def _issue_qseal(keys: KeySource, issuer: Issued, provider: Provider, label: str, start: datetime, days: int) -> Issued:
    name = profiles.provider_name(provider, provider.name)
    return _issue(keys, issuer, label, "qseal", name, profiles.qseal_extensions(provider), start, days)


def _issue_server(keys: KeySource, issuer: Issued, start: datetime, days: int) -> Issued:
    addresses = (ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1"))
    names: Sequence[x509.GeneralName] = [x509.DNSName("localhost"), *(x509.IPAddress(address) for address in addresses)]
    name = profiles.authority_name("localhost")
    return _issue(keys, issuer, "server", "server", name, profiles.server_extensions(names), start, days)


def _issue(
    keys: KeySource,
    issuer: Issued | None,
    label: str,
    kind: str,
    subject: x509.Name,
    extensions: list[Extension],
    start: datetime,
    days: int,
) -> Issued:
    key = keys.make_key(label)
    issuer_key = issuer.key if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.x509.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(keys.make_serial(label))
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=days) - timedelta(seconds=1))
    )
    for extension, critical in [*extensions, *profiles.key_identifiers(key.public_key(), issuer_key.public_key())]:
        builder = builder.add_extension(extension, critical)
    deterministic = True if isinstance(issuer_key, ec.EllipticCurvePrivateKey) else None
    signed = builder.sign(issuer_key, _hash_for(issuer_key), ecdsa_deterministic=deterministic)
    chain = (issuer.certificate, *issuer.chain) if issuer and issuer.kind != "root" else ()
    return Issued(label, kind, EidasCertificate.from_der(signed.public_bytes(Encoding.DER)), key, chain)


def _hash_for(key: PrivateKey) -> hashes.SHA256 | hashes.SHA384:
    return hashes.SHA384() if isinstance(key, ec.EllipticCurvePrivateKey) and key.key_size == 384 else hashes.SHA256()
