"""What breaks at banks that know the old certificate when a new one takes its place.

Banks recognise a provider by its certificate's thumbprint, its subject, issuer and serial number, a pinned key, the
organisationIdentifier or the roles. Each row names its strategy (`values["strategy"]`), what breaks and what to do. An error means
that this is another certificate and no renewal; a warning breaks some banks; a notice is for information.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from operator import gt, lt, ne
from types import MappingProxyType

from tppkit._clock import format_time
from tppkit.certificates import oids
from tppkit.certificates.certificate import EidasCertificate
from tppkit.certificates.checks.key_usage import CLIENT_AUTH_ENDS, CLIENT_AUTH_WAY_OUT, key_usage_type
from tppkit.certificates.differences import (
    Difference,
    Find,
    ReadAll,
    Values,
    differs,
    find_differences,
    is_lost,
    is_new,
    key_ids,
    listed,
    lists_are,
    malformations,
    nca_id,
    nca_name,
    no_organization,
    organizations_are,
    public_key_info,
    roles,
)
from tppkit.certificates.identifier import Likeness
from tppkit.certificates.names import DistinguishedName
from tppkit.errors import Finding, Severity

_SECOND = timedelta(seconds=1)  # both ends of a validity are valid, so two that touch are a second apart


def check_renewal(old: EidasCertificate, new: EidasCertificate) -> tuple[Finding, ...]:
    """Everything that changes for a bank when `new` takes the place of `old`; never raises on their content.

    Args:
        old: the certificate that banks know.
        new: the one to take its place, of the same kind.

    Returns:
        One finding or more for each strategy by which a relying party would notice; `values` has `strategy`, `old`, `new`.
        The same certificate twice gives one notice.
    """
    rows = _SAME if old.sha256 == new.sha256 else _CHANGES
    return tuple(find_differences(rows, old, new, names=("old", "new"), is_renewal=True))


def _usages(certificate: EidasCertificate) -> tuple[str, ...]:
    return certificate.extensions.extended_key_usage


def _loses_client_auth(one: EidasCertificate, other: EidasCertificate) -> Values | None:
    before, after = _usages(one), _usages(other)
    if "web" not in one.qc.types or "clientAuth" not in before or "clientAuth" in after:
        return None
    return listed(before), listed(after)


def _usages_are(applies: Callable[[set[str], set[str]], bool]) -> Find:
    def find(one: EidasCertificate, other: EidasCertificate) -> Values | None:
        lost = {"clientAuth"} if _loses_client_auth(one, other) else set[str]()  # which has a row of its own
        before, after = (_usages(certificate) for certificate in (one, other))
        return (listed(before), listed(after)) if applies(set(before) - lost, set(after)) else None

    return find


def _key_usage(one: EidasCertificate, other: EidasCertificate) -> Values | None:
    before, after = one.extensions.key_usage, other.extensions.key_usage
    if set(before) == set(after):
        return None
    return listed(before), listed(after), f"from {_with_type(before)} to {_with_type(after)}"


def _with_type(usages: tuple[str, ...]) -> str:
    kind = key_usage_type(usages)
    return f"{listed(usages)} ({f'type {kind}' if kind else 'no type of EN 319 412-2'})"


def _no_roles(one: EidasCertificate, other: EidasCertificate) -> Values | None:
    before, after = roles(one), roles(other)
    if not ((before and not after) or (one.qc.psd2 and not other.qc.psd2)):
        return None
    what = "its PSD2 statement names no role" if other.qc.psd2 else "it has no PSD2 statement"
    return listed(before), listed(after), f"({what}), the old one {listed(before)}"


def _removed_roles(one: EidasCertificate, other: EidasCertificate) -> Values | None:
    return None if _no_roles(one, other) else lists_are(roles, is_lost)(one, other)


def _name_differs(read: Callable[[EidasCertificate], DistinguishedName]) -> Find:
    def find(one: EidasCertificate, other: EidasCertificate) -> Values | None:
        old, new = read(one), read(other)
        return None if old == new else (old.rfc4514(), new.rfc4514(), _how_names_differ(old, new))

    return find


def _issuer_key(one: EidasCertificate, other: EidasCertificate) -> Values | None:
    key = differs(lambda certificate: (certificate.extensions.authority_key_identifier or b"").hex() or "none")
    return key(one, other) if one.issuer == other.issuer else None


def _issuer_and_serial(one: EidasCertificate, other: EidasCertificate) -> Values | None:
    serials = one.serial_hex, other.serial_hex
    first, second = (f"SN={c.serial_hex},CA={c.issuer.rfc4514()}" for c in (one, other))
    if first == second:
        return None
    changes = " with them the keyId of seals changes, and none may name the old certificate;"
    return (
        first,
        second,
        f"({serials[0]} to {serials[1]}) name another certificate;{changes * ('eseal' in other.qc.types)}",
    )


def _how_names_differ(old: DistinguishedName, new: DistinguishedName) -> str:
    if old.matches(new):
        return "the same attributes in another order, case or spacing: a bank that compares text sees another name"
    before, after = ({oid: name.values(oid) for rdn in name.rdns for oid, _ in rdn} for name in (old, new))
    changed = [oid for oid in dict.fromkeys((*before, *after)) if before.get(oid) != after.get(oid)]
    names = ", ".join(oids.NAME_ATTRIBUTES.get(oid, oid) for oid in changed[:8])
    return f"changed: {names}" if changed else "the same values in another order or grouping"


def _public_key(*, kept: bool) -> Find:
    def find(one: EidasCertificate, other: EidasCertificate) -> Values | None:
        key = public_key_info(one)
        if (key is not None and key == public_key_info(other)) is not kept:
            return None
        return key_ids(one, other)

    return find


def _validity(*, gap: bool) -> Find:
    def find(one: EidasCertificate, other: EidasCertificate) -> Values | None:
        begins, ends = max(one.not_before, other.not_before), min(one.not_after, other.not_after)
        if (begins - ends > _SECOND) is not gap:
            return None
        detail = _duration(max(ends - begins, timedelta()))
        if gap:
            moments = f"from the end of one ({format_time(ends)}) to the start of the other certificate ({format_time(begins)})"
            detail = f"{moments} neither is valid, for {_duration(begins - ends)}"
        return _period(one), _period(other), detail

    return find


def _not_longer(one: EidasCertificate, other: EidasCertificate) -> Values | None:
    if other.not_after > one.not_after:
        return None
    turned = "; perhaps old and new are interchanged" if other.not_before < one.not_before else ""
    ends = f"{format_time(other.not_after)}, not later than the old one ({format_time(one.not_after)})"
    return _period(one), _period(other), f"{ends}: nothing is gained{turned}"


def _period(certificate: EidasCertificate) -> str:
    return f"{format_time(certificate.not_before)} to {format_time(certificate.not_after)}"


def _duration(span: timedelta) -> str:
    if span >= timedelta(days=2):
        return f"{span.days} days"
    return f"{span // timedelta(hours=1)} hours" if span >= timedelta(hours=2) else f"{span // _SECOND} seconds"


_READ: Mapping[str, ReadAll] = MappingProxyType({
    "kind": lambda c: sorted(c.qc.types),
    "compliance": lambda c: ["qualified"] if c.qc.compliance else [],
    "device": lambda c: ["qualified device"] if c.qc.sscd else [],
    "algorithm": lambda c: [f"{c.key.type} {c.key.curve or c.key.bits or ''}".rstrip()],
    "names": lambda c: (*c.extensions.dns_names, *c.extensions.ip_addresses),
    "policies": lambda c: c.extensions.policies,
    "addresses": lambda c: (*c.extensions.ocsp_urls, *c.extensions.crl_urls, *c.extensions.ca_issuers_urls),
})  # fmt: skip


def _lists(what: str, applies: Callable[[set[str], set[str]], bool]) -> Find:
    return lists_are(_READ[what], applies)


_ERROR, _WARNING, _NOTICE = Severity.ERROR, Severity.WARNING, Severity.NOTICE
_ID, _EKU = "organization-identifier", "extended-key-usage"
_LOST = " change from {one} to {other}: a bank that requires what is gone rejects the new certificate"
_NEW = " change from {one} to {other}"
# fmt: off
_SAME = (
    Difference("renewal.same-certificate", _NOTICE, "thumbprint", "both are the same certificate: nothing changes",
               lambda old, new: (old.sha256, new.sha256)),
)
_CHANGES = (
    Difference("renewal.kind", _ERROR, "kind",
               "the QcType changes from {one} to {other}: this is a certificate for another use, no renewal", _lists("kind", ne)),
    Difference("renewal.not-qualified", _ERROR, "kind",
               "the new certificate no longer states that it is EU qualified (QcCompliance): banks reject it",
               _lists("compliance", is_lost)),
    Difference("renewal.qualified", _NOTICE, "kind",
               "the new certificate states that it is EU qualified (QcCompliance), the old one does not", _lists("compliance", is_new)),
    Difference("renewal.device", _WARNING, "kind",
               "QcSSCD is gone: a bank that requires qualified seals requires it", _lists("device", is_lost)),
    Difference("renewal.device", _NOTICE, "kind",
               "QcSSCD is new: a bank that requires qualified seals requires it", _lists("device", is_new)),
    Difference("renewal.no-organisation", _ERROR, _ID,
               "organizationIdentifiers: {one} in the old, {other} in the new certificate; each must have one that names an"
               " organisation, or nothing shows that they belong to one provider", no_organization),
    Difference("renewal.other-organisation", _ERROR, _ID,
               "the organizationIdentifier changes from {one} to {other}: this is another organisation's certificate, no renewal;"
               " banks must register it as new", organizations_are(Likeness.OTHER)),
    Difference("renewal.organisation-text", _WARNING, _ID,
               "the organizationIdentifier changes from {one} to {other}, perhaps the same organisation written otherwise: a bank"
               " that compares the text does not recognise you; have it issued as before, or inform the bank before the change",
               organizations_are(Likeness.WRITTEN_OTHERWISE)),
    Difference("renewal.organisation-scheme", _WARNING, _ID,
               "the organizationIdentifier changes from {one} to {other}, the same number under another scheme or authority: a bank"
               " that compares it does not recognise you; confirm that it is the same organisation, and inform every bank before the"
               " change", organizations_are(Likeness.SAME_NUMBER)),
    Difference("renewal.no-psd2", _ERROR, "roles",
               "the new certificate gives no role {detail}: every bank denies every call", _no_roles),
    Difference("renewal.roles-removed", _WARNING, "roles",
               "roles that are gone: {detail}; every bank denies the calls that need them. If you are still authorised, have the"
               " certificate issued again", _removed_roles),
    Difference("renewal.roles-added", _NOTICE, "roles",
               "roles that are new: {detail}; inform banks that keep your roles", lists_are(roles, is_new)),
    Difference("renewal.authority", _WARNING, "authority",
               "the competent authority changes from {one} to {other}: a bank that looks you up in the register of the old authority"
               " does not find you; inform it before the change", differs(nca_id)),
    Difference("renewal.authority-name", _NOTICE, "authority",
               "the competent authority's name changes from {one} to {other}: its NCAId is what counts", differs(nca_name)),
    Difference("renewal.thumbprint", _NOTICE, "thumbprint",
               "the SHA-256 thumbprint changes from {detail}, as with every renewal: a bank that compares it must have the new one"
               " before you use it", lambda old, new: (old.sha256, new.sha256, f"{old.sha256} to {new.sha256}")),
    Difference("renewal.subject", _WARNING, "subject",
               "the subject changes from {one} to {other} ({detail}): a bank that compares it does not recognise you",
               _name_differs(lambda certificate: certificate.subject)),
    Difference("renewal.issuer", _WARNING, "issuer",
               "the issuer changes from {one} to {other} ({detail}): a bank must trust the new one, and a bank that compares issuer"
               " and subject does not recognise you", _name_differs(lambda certificate: certificate.issuer)),
    Difference("renewal.issuer-key", _WARNING, "issuer",
               "the issuer has the same name and another key ({one} to {other}): send the new intermediate, a bank that keeps the old"
               " one finds no chain", _issuer_key),
    Difference("renewal.issuer-and-serial", _NOTICE, "issuer-and-serial",
               "issuer and serial number {detail} a bank that compares them must have the new ones before you use it",
               _issuer_and_serial),
    Difference("renewal.key-algorithm", _WARNING, "key-algorithm",
               "the key changes from {one} to {other}: the signature algorithm of seals follows the key, and a bank that fixed"
               " algorithm or key size rejects it; ask before the change", _lists("algorithm", ne)),
    Difference("renewal.public-key", _NOTICE, "public-key",
               "the public key is new: a bank that pins it (SPKI) must have it before you use it", _public_key(kept=False)),
    Difference("renewal.public-key-kept", _NOTICE, "public-key",
               "the public key is kept: pins hold, but the old private key stays in use with the new certificate",
               _public_key(kept=True)),
    Difference("renewal.client-auth", _WARNING, _EKU,
               "clientAuth is gone from the extended key usage: banks reject it in mutual TLS."
               f" {CLIENT_AUTH_ENDS}: {CLIENT_AUTH_WAY_OUT}", _loses_client_auth),
    Difference("renewal.extended-key-usage", _WARNING, _EKU, f"the extended key usages{_LOST}", _usages_are(is_lost)),
    Difference("renewal.extended-key-usage", _NOTICE, _EKU, f"the extended key usages{_NEW}", _usages_are(lt)),
    Difference("renewal.key-usage", _WARNING, "key-usage",
               "the key usage changes {detail}: a bank that fixed one type rejects the other", _key_usage),
    Difference("renewal.names", _WARNING, "names", f"the subject alternative names{_LOST}", _lists("names", is_lost)),
    Difference("renewal.names", _NOTICE, "names", f"the subject alternative names{_NEW}", _lists("names", lt)),
    Difference("renewal.policies", _WARNING, "policies", f"the certificate policies{_LOST}", _lists("policies", is_lost)),
    Difference("renewal.policies", _NOTICE, "policies", f"the certificate policies{_NEW}", _lists("policies", lt)),
    Difference("renewal.revocation-addresses", _NOTICE, "revocation-addresses",
               "the addresses for OCSP, CRL and issuer change from {one} to {other}: a bank whose firewall allows known addresses only"
               " cannot check revocation until it knows the new ones", _lists("addresses", ne)),
    Difference("renewal.malformed", _WARNING, "encoding",
               "what is malformed changes from {one} to {other}: a strict bank rejects a certificate with any of it",
               lists_are(malformations, is_new)),
    Difference("renewal.malformed", _NOTICE, "encoding",
               "what is malformed changes from {one} to {other}: a strict bank rejects a certificate with any of it",
               lists_are(malformations, gt)),
    Difference("renewal.gap", _WARNING, "validity", "{detail}: every call fails then", _validity(gap=True)),
    Difference("renewal.overlap", _NOTICE, "validity",
               "both are valid together for {detail}: give every bank the new one within it", _validity(gap=False)),
    Difference("renewal.not-longer", _WARNING, "validity", "the new certificate ends on {detail}", _not_longer),
)
