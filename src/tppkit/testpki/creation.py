"""A whole test PKI made: a root, issuing authorities, what they issue, and the services that vouch for it.

pki = make_pki(at=utc_now())
pki.qwac.certificate, pki.qwac.key, pki.qseal.certificate, make_anchors(pki.authorities)
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from datetime import datetime
from types import MappingProxyType

from cryptography import x509

from tppkit._clock import format_time
from tppkit.errors import ConfigurationError
from tppkit.testpki import profiles
from tppkit.testpki.authority import DEFAULT_DAYS, MAX_DAYS, Pki, midnight
from tppkit.testpki.issued import Issued
from tppkit.testpki.keys import KeySource
from tppkit.testpki.provider import Provider, make_other_provider, make_provider
from tppkit.testpki.service_profiles import list_signer_extensions, responder_extensions, timestamping_extensions

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


def make_pki(
    *,
    at: datetime,
    provider: Provider | None = None,
    key: str = "p256",
    days: int | None = None,
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
        days: validity of leaf certificates in days; by default 365, with the policy `ev` no more than browsers take.
        seed: the same seed and day give the same bytes again.
        services_url: where its services answer, as certificates and lists name it; without a slash at its end.
        policy: of QWACs: `gen` (QNCP-w-gen, for payment services only) or `ev` (QEVCP-w, which browsers take as well).
        qscd: QSealCs state a qualified device.
        seal_key: kind of the keys of QSealCs, one of `testpki.SEAL_KEY_KINDS`; that of all other keys by default.

    Raises:
        ConfigurationError: `pki.days`, `pki.key-kind`, `pki.services-url`, `pki.policy`, `pki.profile`.
    """
    services_url, policy = _require_url(services_url), profiles.require_policy(policy)
    keys, start = KeySource(key, seed=seed), midnight(at)
    if days is None:
        days = profiles.longest_days(policy, start.date(), DEFAULT_DAYS)
    if not 1 <= days <= MAX_DAYS:
        raise ConfigurationError("pki.days", f"a validity of {days} days is not between 1 and {MAX_DAYS}")
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
        services_url=services_url,
        policy=policy,
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
        yield pki.issue(ca, label, "ocsp", name(f"tppkit TEST OCSP {label}"), responder_extensions(), days=long)
    yield pki.issue(pki.qseal_ca, "tsa", "tsa", name("tppkit TEST TSA"), timestamping_extensions(), days=long)
    for label in ("lotl-signer", "list-signer"):
        yield pki.issue(None, label, "list-signer", name(f"tppkit TEST {label}"), list_signer_extensions(), days=long)
