"""Whether a QWAC and a QSealC are one provider's, and which of their differences matter.

A bank takes the roles from the QWAC of the connection and demands that the seal is the same organisation's; many also
compare authority and roles. Each difference is a finding that says what it breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from types import MappingProxyType

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit._clock import format_time
from tppkit._encoding import shown
from tppkit.certificates import oids
from tppkit.certificates.certificate import EidasCertificate
from tppkit.certificates.organisation import Likeness, compare_organizations
from tppkit.errors import Finding, FormatError, Severity

_MAX_ROLES = 20  # told by name; an honest certificate has at most nine
_SAME_PROVIDER = "PSD2 document A.5 rule 4"


def check_pair(qwac: EidasCertificate, qsealc: EidasCertificate) -> tuple[Finding, ...]:
    """Every difference between a QWAC and a QSealC that matters; never raises on what the certificates hold.

    Whether each fits its own profile is asked by `check_certificate`, whether it is believed by `tppkit.trust`.

    Args:
        qwac: the website certificate.
        qsealc: the seal certificate.

    Returns:
        No error among them: both are one provider's, from one authority, with the same roles, valid together at some time.

    Source: PSD2 document, part A section 5 rules 2 and 4; TS 119 495 GEN-5.3-2, -3 and GEN-5.4-2, -3.
    """
    return tuple(finding for check in _CHECKS for finding in check(qwac, qsealc))


def valid_together(one: EidasCertificate, other: EidasCertificate) -> tuple[datetime, datetime] | None:
    """First and last moment at which both certificates are valid, aware UTC; None when there is none."""
    begins, ends = max(one.not_before, other.not_before), min(one.not_after, other.not_after)
    return (begins, ends) if begins <= ends else None


def public_key_info(certificate: EidasCertificate) -> bytes | None:
    """DER of the SubjectPublicKeyInfo, which a key pin is the hash of; None when the key cannot be read."""
    try:
        return certificate.public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except FormatError:
        return None


def role_oids(certificate: EidasCertificate) -> frozenset[str]:
    """The dotted identifiers of the PSD2 roles."""
    psd2 = certificate.qc.psd2
    return frozenset(role.oid for role in psd2.roles if role.oid) if psd2 else frozenset()


def role_list(roles: frozenset[str]) -> str:
    """Role identifiers as people read them: `PSP_PI, PSP_AI`, `none`; of more than twenty, the first and how many more."""
    ordered = sorted(roles, key=_by_number)
    more = [f"{len(ordered) - _MAX_ROLES} more"] if len(ordered) > _MAX_ROLES else []
    return ", ".join([*(oids.PSP_ROLES.get(oid, oid) for oid in ordered[:_MAX_ROLES]), *more]) or "none"


def _by_number(oid: str) -> tuple[int, ...]:
    return tuple(int(arc) for arc in oid.split("."))


def _finding(
    code: str, severity: Severity, message: str, qwac: str, qsealc: str, *, clause: str | None = None
) -> Finding:
    return Finding(code, severity, message, clause, MappingProxyType({"qwac": qwac, "qseal": qsealc}))


def _kinds(qwac: EidasCertificate, qsealc: EidasCertificate) -> Iterator[Finding]:
    types = ", ".join(qwac.qc.types) or "none", ", ".join(qsealc.qc.types) or "none"
    clause = "EN 319 412-5 clause 4.2.3"
    if qwac.sha256 == qsealc.sha256:
        message = "both are the same certificate; a website certificate and a seal certificate are two"
        yield _finding("pair.same-certificate", Severity.ERROR, message, qwac.sha256, qsealc.sha256)
    elif types == ("eseal", "web"):
        message = (
            "they stand the other way round: the first is the seal certificate, the second the website certificate"
        )
        yield _finding("pair.swapped", Severity.ERROR, message, *types, clause=clause)
        return
    if types[0] != "web":
        message = f"the first certificate is no QWAC: its QcType is {types[0]}, not web"
        yield _finding("pair.kind", Severity.ERROR, message, *types, clause=clause)
    if types[1] != "eseal":
        message = f"the second certificate is no QSealC: its QcType is {types[1]}, not eseal"
        yield _finding("pair.kind", Severity.ERROR, message, *types, clause=clause)


def _organisation(qwac: EidasCertificate, qsealc: EidasCertificate) -> Iterator[Finding]:
    ours, theirs = qwac.organization, qsealc.organization
    if ours is None or theirs is None:
        stated = [", ".join(c.subject.values(oids.ORGANIZATION_IDENTIFIER)) or "none" for c in (qwac, qsealc)]
        message = (
            f"organizationIdentifiers: {shown(stated[0])} in the QWAC, {shown(stated[1])} in the seal; each must have one that"
            " names an organisation, or nothing shows that they are one provider's"
        )
        yield _finding("pair.no-organisation", Severity.ERROR, message, *stated)
        return
    told = f"{shown(ours.text)} in the QWAC, {shown(theirs.text)} in the seal"
    values, clause = (ours.text, theirs.text), _SAME_PROVIDER
    match compare_organizations(ours, theirs):
        case Likeness.OTHER:
            message = f"two organisations: {told}; a bank refuses the seal"
            yield _finding("pair.other-organisation", Severity.ERROR, message, *values, clause=clause)
        case Likeness.WRITTEN_OTHERWISE:
            message = (
                f"perhaps one organisation written in two ways: {told}; a bank that compares the text refuses the seal"
            )
            yield _finding("pair.organisation-text", Severity.ERROR, message, *values, clause=clause)
        case Likeness.SAME_NUMBER:
            message = (
                f"the same number under two schemes or authorities: {told}; probably one organisation, but a bank that"
                " compares the identifier refuses the seal"
            )
            yield _finding("pair.organisation-scheme", Severity.ERROR, message, *values, clause=clause)


def _authority(qwac: EidasCertificate, qsealc: EidasCertificate) -> Iterator[Finding]:
    ours, theirs = qwac.qc.psd2, qsealc.qc.psd2
    if ours is None or theirs is None:
        lacking = " and ".join(name for name, psd2 in (("the QWAC", ours), ("the seal", theirs)) if psd2 is None)
        message = f"{lacking} has no PSD2 statement, so authority and roles cannot be compared"
        clause = "TS 119 495 GEN-5.3-2, GEN-5.4-2"
        yield _finding("pair.no-psd2", Severity.ERROR, message, _stated(qwac), _stated(qsealc), clause=clause)
        return
    if ours.nca_id != theirs.nca_id:
        message = f"two competent authorities: {shown(ours.nca_id)} in the QWAC, {shown(theirs.nca_id)} in the seal"
        clause = "TS 119 495 GEN-5.2.3-2"
        yield _finding("pair.other-authority", Severity.ERROR, message, ours.nca_id, theirs.nca_id, clause=clause)
    elif ours.nca_name != theirs.nca_name:
        message = (
            f"one competent authority ({ours.nca_id}) by two names: {shown(ours.nca_name)} and {shown(theirs.nca_name)}"
        )
        yield _finding("pair.authority-name", Severity.NOTICE, message, ours.nca_name, theirs.nca_name)


def _stated(certificate: EidasCertificate) -> str:
    return "absent" if certificate.qc.psd2 is None else "present"


def _roles(qwac: EidasCertificate, qsealc: EidasCertificate) -> Iterator[Finding]:
    ours, theirs = role_oids(qwac), role_oids(qsealc)
    if ours == theirs or qwac.qc.psd2 is None or qsealc.qc.psd2 is None:
        return
    breaks = []
    if ours - theirs:
        breaks.append(f"{role_list(ours - theirs)} only in the QWAC: a bank that asks the seal too denies those calls")
    if theirs - ours:
        breaks.append(f"{role_list(theirs - ours)} only in the seal: every bank denies those calls, the QWAC decides")
    message = f"the roles differ: {'; '.join(breaks)}"
    clause = "PSD2 document A.5 rule 2"
    yield _finding("pair.other-roles", Severity.ERROR, message, role_list(ours), role_list(theirs), clause=clause)


def _names(qwac: EidasCertificate, qsealc: EidasCertificate) -> Iterator[Finding]:
    for code, what, oid in (
        ("pair.organisation-name", "organizationName", oids.ORGANIZATION),
        ("pair.country", "countryName", oids.COUNTRY),
    ):
        ours, theirs = (", ".join(c.subject.values(oid)) or "none" for c in (qwac, qsealc))
        if ours != theirs:
            message = f"the {what} differs: {shown(ours)} in the QWAC, {shown(theirs)} in the seal"
            yield _finding(code, Severity.WARNING, message, ours, theirs)


def _validity(qwac: EidasCertificate, qsealc: EidasCertificate) -> Iterator[Finding]:
    periods = [f"{format_time(c.not_before)} to {format_time(c.not_after)}" for c in (qwac, qsealc)]
    if periods[0] == periods[1]:
        return
    together = valid_together(qwac, qsealc)
    if together is None:
        message = f"they are never valid together: the QWAC from {periods[0]}, the seal from {periods[1]}"
        yield _finding("pair.never-together", Severity.ERROR, message, *periods, clause="RFC 5280 section 4.1.2.5")
        return
    begins, ends = map(format_time, together)
    message = f"both are valid only from {begins} to {ends}; replace the one that ends first before that"
    yield _finding("pair.validity", Severity.NOTICE, message, *periods)


def _keys(qwac: EidasCertificate, qsealc: EidasCertificate) -> Iterator[Finding]:
    ours = public_key_info(qwac)
    if ours is not None and ours == public_key_info(qsealc) and qwac.sha256 != qsealc.sha256:
        message = "both certify one key: who can open TLS connections can also seal; make a key for each"
        clause = "NIST SP 800-57 part 1 section 5.2"
        yield Finding("pair.same-key", Severity.WARNING, message, clause)


def _issuers(qwac: EidasCertificate, qsealc: EidasCertificate) -> Iterator[Finding]:
    ours, theirs = str(qwac.issuer), str(qsealc.issuer)
    if ours != theirs:
        message = (
            f"two issuers: the QWAC is from {shown(ours, limit=200)}, the seal from {shown(theirs, limit=200)};"
            " a bank must believe both"
        )
        yield _finding("pair.other-issuer", Severity.NOTICE, message, ours, theirs)


def _malformed(qwac: EidasCertificate, qsealc: EidasCertificate) -> Iterator[Finding]:
    faults = [", ".join(sorted({finding.code for finding in c.findings})) for c in (qwac, qsealc)]
    if any(faults):
        told = "; ".join(f"{what}: {codes}" for what, codes in zip(("QWAC", "seal"), faults, strict=True) if codes)
        message = f"this compares what could be read of malformed certificates ({told}); a strict bank refuses them"
        yield _finding("pair.malformed", Severity.WARNING, message, *faults)


_CHECKS: tuple[Callable[[EidasCertificate, EidasCertificate], Iterator[Finding]], ...] = (
    _kinds, _organisation, _authority, _roles, _names, _validity, _keys, _issuers, _malformed,
)  # fmt: skip
