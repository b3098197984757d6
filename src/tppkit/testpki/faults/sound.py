"""What faults are made from: sound certificates that say nothing unusual, so that a check of a fault finds that fault alone."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from tppkit.certificates import EidasCertificate
from tppkit.certificates.authorities import AUTHORITIES
from tppkit.testpki import profiles
from tppkit.testpki.authority import DEFAULT_DAYS, Pki
from tppkit.testpki.issued import Issued, for_key
from tppkit.testpki.provider import Provider, make_provider


def sound_pki(pki: Pki) -> Pki:
    """The PKI itself when it was made with plain options; else one of the same authorities and keys that was.

    A provider of a known authority stays; its roles are the default ones.
    """
    provider = _plain(pki.provider)
    options = (provider, "gen", False, DEFAULT_DAYS, profiles.SERVICES_URL)
    if (pki.provider, pki.policy, pki.qscd, pki.days, pki.services_url) == options:
        return pki
    plain = replace(
        pki, provider=provider, policy="gen", qscd=False, days=DEFAULT_DAYS, services_url=profiles.SERVICES_URL
    )
    again = {issued.label: _again(plain, issued) for issued in pki.issued if issued.kind in ("qwac", "qseal")}
    return replace(plain, members=MappingProxyType({**pki.members, **again}))


def _plain(provider: Provider) -> Provider:
    if provider.organization_identifier.nca_id not in AUTHORITIES:
        return make_provider()
    return make_provider(
        organization_identifier=provider.organization_identifier.text, name=provider.name, country=provider.country,
        dns_name=provider.dns_name,
    )  # fmt: skip


def _again(plain: Pki, issued: Issued) -> Issued:
    """The certificate once more, with its key and a serial number of its own."""
    issuer = plain.qwac_ca if issued.kind == "qwac" else plain.qseal_ca
    provider = plain.other_provider if issued.label.startswith("other-") else plain.provider
    label = f"fault {issued.label}"
    make_draft = plain.draft_qwac if issued.kind == "qwac" else plain.draft_qseal
    drafted = make_draft(provider, label=label, key="p256")
    signed = for_key(drafted.draft, issued.public_key_der).sign(issuer.key)
    return replace(issued, certificate=EidasCertificate.from_der(signed))
