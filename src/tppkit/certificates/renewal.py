"""What a bank that is keyed on the old certificate trips over when the new one comes.

Banks recognise a provider by different things: the certificate's thumbprint, its subject, issuer and serial number, a pinned
key, the organisationIdentifier, the roles. One check a strategy; each finding names it (`values["strategy"]`), says what
breaks and what to do. An error is no renewal but another certificate; a warning trips some banks; a notice is for information.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from types import MappingProxyType

from tppkit._clock import format_time
from tppkit._encoding import shown
from tppkit.certificates import oids
from tppkit.certificates.certificate import EidasCertificate
from tppkit.certificates.checks.key_usage import CLIENT_AUTH_ENDS, CLIENT_AUTH_WAY_OUT, key_usage_type
from tppkit.certificates.names import DistinguishedName
from tppkit.certificates.organisation import Likeness, compare_organizations
from tppkit.certificates.pair import public_key_info, role_list, role_oids
from tppkit.errors import Finding, Severity

_SECOND = timedelta(seconds=1)  # both ends of a validity are valid, so two that touch are a second apart
_LIMIT = 240


def check_renewal(old: EidasCertificate, new: EidasCertificate) -> tuple[Finding, ...]:
    """Everything that changes for a bank when `new` takes the place of `old`; never raises on what the certificates hold.

    Args:
        old: the certificate that banks know.
        new: the one to take its place, of the same kind.

    Returns:
        One finding or more for each strategy by which a relying party would notice; `values` holds `strategy`, `old`, `new`.
        The same certificate twice gives one notice.
    """
    if old.sha256 == new.sha256:
        message = "both are the same certificate: nothing changes"
        return (_change("renewal.same-certificate", Severity.NOTICE, "thumbprint", message, old.sha256, new.sha256),)
    return tuple(finding for check in _CHECKS for finding in check(old, new))


def _change(code: str, severity: Severity, strategy: str, message: str, *values: str) -> Finding:
    old, new = values
    return Finding(code, severity, message, None, MappingProxyType({"strategy": strategy, "old": old, "new": new}))


def _from_to(old: str, new: str) -> str:
    return f"from {shown(old, limit=_LIMIT)} to {shown(new, limit=_LIMIT)}"


def _kind(old: EidasCertificate, new: EidasCertificate) -> Iterator[Finding]:
    before, after = (", ".join(sorted(c.qc.types)) or "none" for c in (old, new))
    if before != after:
        message = f"the QcType changes from {before} to {after}: this is a certificate for another use, no renewal"
        yield _change("renewal.kind", Severity.ERROR, "kind", message, before, after)
    if old.qc.compliance and not new.qc.compliance:
        message = "the new certificate no longer states that it is EU qualified (QcCompliance): banks refuse it"
        yield _change("renewal.not-qualified", Severity.ERROR, "kind", message, "qualified", "not qualified")
    elif old.qc.compliance != new.qc.compliance:
        message = "the new certificate states that it is EU qualified (QcCompliance), the old one does not"
        yield _change("renewal.qualified", Severity.NOTICE, "kind", message, "not qualified", "qualified")
    if old.qc.sscd != new.qc.sscd:
        states = [("no " if not c.qc.sscd else "") + "qualified device" for c in (old, new)]
        severity = Severity.WARNING if old.qc.sscd else Severity.NOTICE
        message = f"QcSSCD changes ({states[0]} to {states[1]}): a bank that asks for qualified seals asks for it"
        yield _change("renewal.device", severity, "kind", message, *states)


def _organisation(old: EidasCertificate, new: EidasCertificate) -> Iterator[Finding]:
    strategy = "organization-identifier"
    before, after = old.organization, new.organization
    if before is None or after is None:
        stated = [", ".join(c.subject.values(oids.ORGANIZATION_IDENTIFIER)) or "none" for c in (old, new)]
        message = (
            f"organizationIdentifiers: {shown(stated[0])} in the old, {shown(stated[1])} in the new certificate; each must"
            " have one that names an organisation, or nothing shows that they are one provider's"
        )
        yield _change("renewal.no-organisation", Severity.ERROR, strategy, message, *stated)
        return
    texts, changes = (
        (before.text, after.text),
        f"the organizationIdentifier changes {_from_to(before.text, after.text)}",
    )
    match compare_organizations(before, after):
        case Likeness.OTHER:
            message = f"{changes}: this is another organisation's certificate, no renewal; banks onboard it anew"
            yield _change("renewal.other-organisation", Severity.ERROR, strategy, message, *texts)
        case Likeness.WRITTEN_OTHERWISE:
            message = (
                f"{changes}, perhaps the same organisation written otherwise: a bank keyed on the text takes you for a stranger;"
                " have it issued as before, or tell the bank before the change"
            )
            yield _change("renewal.organisation-text", Severity.WARNING, strategy, message, *texts)
        case Likeness.SAME_NUMBER:
            message = (
                f"{changes}, the same number under another scheme or authority: a bank keyed on it takes you for a stranger;"
                " confirm that it is the same organisation, and tell every bank before the change"
            )
            yield _change("renewal.organisation-scheme", Severity.WARNING, strategy, message, *texts)


def _roles(old: EidasCertificate, new: EidasCertificate) -> Iterator[Finding]:
    before, after = role_oids(old), role_oids(new)
    values = role_list(before), role_list(after)
    if (before and not after) or (old.qc.psd2 and not new.qc.psd2):
        what = "its PSD2 statement names no role" if new.qc.psd2 else "it has no PSD2 statement"
        message = f"the new certificate gives no role ({what}), the old one {values[0]}: every bank denies every call"
        yield _change("renewal.no-psd2", Severity.ERROR, "roles", message, *values)
    elif before - after:
        message = (
            f"roles that are gone: {role_list(before - after)}; every bank denies the calls that need them."
            " If you are still authorised, have the certificate issued again"
        )
        yield _change("renewal.roles-removed", Severity.WARNING, "roles", message, *values)
    if after - before:
        message = f"roles that are new: {role_list(after - before)}; a bank that keeps your roles must be told"
        yield _change("renewal.roles-added", Severity.NOTICE, "roles", message, *values)


def _authority(old: EidasCertificate, new: EidasCertificate) -> Iterator[Finding]:
    before, after = old.qc.psd2, new.qc.psd2
    if before is None or after is None:
        return  # told with the roles
    if before.nca_id != after.nca_id:
        message = (
            f"the competent authority changes {_from_to(before.nca_id, after.nca_id)}: a bank that looks you up in the"
            " register of the old authority does not find you; tell it before the change"
        )
        yield _change("renewal.authority", Severity.WARNING, "authority", message, before.nca_id, after.nca_id)
    names = before.nca_name, after.nca_name
    if names[0] != names[1]:
        message = f"the competent authority's name changes {_from_to(*names)}: its NCAId is what counts"
        yield _change("renewal.authority-name", Severity.NOTICE, "authority", message, *names)


def _thumbprint(old: EidasCertificate, new: EidasCertificate) -> Iterator[Finding]:
    message = (
        f"the SHA-256 thumbprint changes from {old.sha256} to {new.sha256}, as with every renewal: a bank keyed on it must"
        " have the new one before you use it"
    )
    yield _change("renewal.thumbprint", Severity.NOTICE, "thumbprint", message, old.sha256, new.sha256)


def _subject(old: EidasCertificate, new: EidasCertificate) -> Iterator[Finding]:
    if old.subject != new.subject:
        message = (
            f"the subject changes {_from_to(old.subject.rfc4514(), new.subject.rfc4514())}"
            f" ({_how_names_differ(old.subject, new.subject)}): a bank keyed on it takes you for a stranger"
        )
        texts = old.subject.rfc4514(), new.subject.rfc4514()
        yield _change("renewal.subject", Severity.WARNING, "subject", message, *texts)


def _issuer(old: EidasCertificate, new: EidasCertificate) -> Iterator[Finding]:
    texts = old.issuer.rfc4514(), new.issuer.rfc4514()
    keys = [(c.extensions.authority_key_identifier or b"").hex() or "none" for c in (old, new)]
    if old.issuer != new.issuer:
        message = (
            f"the issuer changes {_from_to(*texts)} ({_how_names_differ(old.issuer, new.issuer)}): a bank must believe the"
            " new one, and one keyed on issuer and subject takes you for a stranger"
        )
        yield _change("renewal.issuer", Severity.WARNING, "issuer", message, *texts)
    elif keys[0] != keys[1]:
        message = (
            f"the issuer has the same name and another key ({keys[0]} to {keys[1]}): send the new intermediate, a bank that"
            " keeps the old one finds no chain"
        )
        yield _change("renewal.issuer-key", Severity.WARNING, "issuer", message, *keys)
    serials = old.serial_hex, new.serial_hex
    if serials[0] != serials[1] or texts[0] != texts[1]:
        key_id = " with them the keyId of seals changes, and none may name the old certificate;" if _seals(new) else ""
        message = (
            f"issuer and serial number ({serials[0]} to {serials[1]}) name another certificate;{key_id} a bank keyed on them"
            " must have the new ones before you use it"
        )
        values = tuple(f"SN={serial},CA={text}" for serial, text in zip(serials, texts, strict=True))
        yield _change("renewal.issuer-and-serial", Severity.NOTICE, "issuer-and-serial", message, *values)


def _seals(certificate: EidasCertificate) -> bool:
    return "eseal" in certificate.qc.types


def _how_names_differ(old: DistinguishedName, new: DistinguishedName) -> str:
    if old.matches(new):
        return "the same attributes in another order, case or spacing: a bank that compares text sees another name"
    before, after = _by_attribute(old), _by_attribute(new)
    changed = [oid for oid in dict.fromkeys((*before, *after)) if before.get(oid) != after.get(oid)]
    names = ", ".join(oids.NAME_ATTRIBUTES.get(oid, oid) for oid in changed[:8])
    return f"changed: {names}" if changed else "the same values in another order or grouping"


def _by_attribute(name: DistinguishedName) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for rdn in name.rdns:
        for oid, value in rdn:
            values.setdefault(oid, []).append(value)
    return values


def _public_key(old: EidasCertificate, new: EidasCertificate) -> Iterator[Finding]:
    before, after = (_key_text(c) for c in (old, new))
    if before != after:
        message = (
            f"the key changes from {before} to {after}: the signature algorithm of seals follows the key, and a bank that"
            " fixed algorithm or key size refuses it; ask before the change"
        )
        yield _change("renewal.key-algorithm", Severity.WARNING, "key-algorithm", message, before, after)
    keys = [public_key_info(c) for c in (old, new)]
    if keys[0] is None or keys[0] != keys[1]:
        message = "the public key is new: a bank that pins it (SPKI) must have it before you use it"
        yield _change("renewal.public-key", Severity.NOTICE, "public-key", message, *_key_ids(old, new))
    else:
        message = "the public key is kept: pins hold, but the old private key lives on with the new certificate"
        yield _change("renewal.public-key-kept", Severity.NOTICE, "public-key", message, *_key_ids(old, new))


def _key_text(certificate: EidasCertificate) -> str:
    key = certificate.key
    return f"{key.type} {key.curve or key.bits or ''}".rstrip()


def _key_ids(*certificates: EidasCertificate) -> tuple[str, ...]:
    return tuple((c.extensions.subject_key_identifier or b"").hex() or "none" for c in certificates)


def _usages(old: EidasCertificate, new: EidasCertificate) -> Iterator[Finding]:
    before, after = (c.extensions.extended_key_usage for c in (old, new))
    if "web" in old.qc.types and "clientAuth" in before and "clientAuth" not in after:
        message = (
            "clientAuth is gone from the extended key usage: banks refuse it in mutual TLS."
            f" {CLIENT_AUTH_ENDS}: {CLIENT_AUTH_WAY_OUT}"
        )
        yield _change(
            "renewal.client-auth", Severity.WARNING, "extended-key-usage", message, _listed(before), _listed(after)
        )
        before = tuple(usage for usage in before if usage != "clientAuth")
    if set(before) != set(after):
        what = "the extended key usage"
        yield _set_change("renewal.extended-key-usage", "extended-key-usage", what, before, after)
    before, after = (c.extensions.key_usage for c in (old, new))
    if set(before) != set(after):
        message = (
            f"the key usage changes from {_with_type(before)} to {_with_type(after)}: a bank that fixed one type refuses the"
            " other"
        )
        yield _change("renewal.key-usage", Severity.WARNING, "key-usage", message, _listed(before), _listed(after))


def _with_type(usages: tuple[str, ...]) -> str:
    kind = key_usage_type(usages)
    return f"{_listed(usages)} ({f'type {kind}' if kind else 'no type of EN 319 412-2'})"


def _names_and_policies(old: EidasCertificate, new: EidasCertificate) -> Iterator[Finding]:
    names = [(*c.extensions.dns_names, *c.extensions.ip_addresses) for c in (old, new)]
    if set(names[0]) != set(names[1]):
        yield _set_change("renewal.names", "names", "the subject alternative names", *names)
    policies = old.extensions.policies, new.extensions.policies
    if set(policies[0]) != set(policies[1]):
        yield _set_change("renewal.policies", "policies", "the certificate policies", *policies)


def _addresses(old: EidasCertificate, new: EidasCertificate) -> Iterator[Finding]:
    before, after = (
        (*c.extensions.ocsp_urls, *c.extensions.crl_urls, *c.extensions.ca_issuers_urls) for c in (old, new)
    )
    if set(before) != set(after):
        message = (
            f"the addresses for OCSP, CRL and issuer change {_from_to(_listed(before), _listed(after))}: a bank whose"
            " firewall lets out to known addresses only cannot check revocation until it knows the new ones"
        )
        values = _listed(before), _listed(after)
        yield _change("renewal.revocation-addresses", Severity.NOTICE, "revocation-addresses", message, *values)


def _listed(values: Collection[str]) -> str:
    return ", ".join(values) or "none"


def _set_change(code: str, strategy: str, what: str, before: Collection[str], after: Collection[str]) -> Finding:
    message = f"{what} change {_from_to(_listed(before), _listed(after))}"
    lost = set(before) - set(after)
    if lost:
        message += ": a bank that asks for what is gone refuses the new certificate"
    severity = Severity.WARNING if lost else Severity.NOTICE
    return _change(code, severity, strategy, message, _listed(before), _listed(after))


def _malformed(old: EidasCertificate, new: EidasCertificate) -> Iterator[Finding]:
    codes = [sorted({finding.code for finding in c.findings}) for c in (old, new)]
    if codes[0] != codes[1]:
        severity = Severity.WARNING if set(codes[1]) - set(codes[0]) else Severity.NOTICE
        message = (
            f"what is malformed changes {_from_to(_listed(codes[0]), _listed(codes[1]))}: a strict bank refuses a certificate"
            " with any of it"
        )
        yield _change("renewal.malformed", severity, "encoding", message, _listed(codes[0]), _listed(codes[1]))


def _validity(old: EidasCertificate, new: EidasCertificate) -> Iterator[Finding]:
    periods = [f"{format_time(c.not_before)} to {format_time(c.not_after)}" for c in (old, new)]
    begins, ends = max(old.not_before, new.not_before), min(old.not_after, new.not_after)
    if begins - ends > _SECOND:
        message = (
            f"from the end of one ({format_time(ends)}) to the start of the other certificate ({format_time(begins)}) neither is"
            f" valid, for {_duration(begins - ends)}: every call fails then"
        )
        yield _change("renewal.gap", Severity.WARNING, "validity", message, *periods)
    else:
        overlap = max(ends - begins, timedelta())
        message = f"both are valid together for {_duration(overlap)}: have every bank know the new one within it"
        yield _change("renewal.overlap", Severity.NOTICE, "validity", message, *periods)
    if new.not_after <= old.not_after:
        turned = "; perhaps old and new are interchanged" if new.not_before < old.not_before else ""
        message = (
            f"the new certificate ends on {format_time(new.not_after)}, not later than the old one"
            f" ({format_time(old.not_after)}): nothing is gained{turned}"
        )
        yield _change("renewal.not-longer", Severity.WARNING, "validity", message, *periods)


def _duration(span: timedelta) -> str:
    if span >= timedelta(days=2):
        return f"{span.days} days"
    return f"{span // timedelta(hours=1)} hours" if span >= timedelta(hours=2) else f"{span // _SECOND} seconds"


_CHECKS: tuple[Callable[[EidasCertificate, EidasCertificate], Iterator[Finding]], ...] = (
    _kind, _organisation, _roles, _authority, _thumbprint, _subject, _issuer, _public_key, _usages, _names_and_policies,
    _addresses, _malformed, _validity,
)  # fmt: skip
