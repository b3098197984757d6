"""Whether a certificate fits the profile of its use. One row a rule; each gives a finding or nothing.

Each check costs microseconds and knows no trust: whether a certificate is believed is asked in `tppkit.trust`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from tppkit._clock import as_utc, format_time
from tppkit._encoding import shown
from tppkit.certificates import oids
from tppkit.certificates.certificate import EidasCertificate
from tppkit.errors import Finding, Severity

Fault = tuple[str, dict[str, str]]
Check = Callable[[EidasCertificate, datetime], Fault | None]


class Use(StrEnum):
    """What a certificate is used as."""

    QWAC = "qwac"
    QSEALC = "qseal"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table of rules.

    Attributes:
        code: the finding's code.
        uses: the certificate uses it holds for.
        severity: the finding's severity.
        clause: where the rule stands.
        check: gives (message, values) when the certificate breaks the rule, else None.
    """

    code: str
    uses: frozenset[Use]
    severity: Severity
    clause: str
    check: Check


def check_certificate(certificate: EidasCertificate, *, as_: Use, at: datetime) -> tuple[Finding, ...]:
    """Every finding about a certificate used as `as_` at a time; never raises on what the certificate holds.

    Args:
        certificate: the certificate.
        as_: QWAC or QSEALC.
        at: the time to judge at, aware.

    Returns:
        What was malformed when reading, then one finding for each broken rule, in the order of the table.

    Raises:
        ConfigurationError: `time.naive`.
    """
    at = as_utc(at)
    findings = [*certificate.findings]
    for rule in RULES:
        fault = rule.check(certificate, at) if as_ in rule.uses else None
        if fault is not None:
            message, values = fault
            findings.append(Finding(rule.code, rule.severity, message, rule.clause, MappingProxyType(values)))
    return tuple(findings)


def first_error(findings: tuple[Finding, ...]) -> Finding | None:
    """The first finding that makes a check fail, or None."""
    return next((finding for finding in findings if finding.severity is Severity.ERROR), None)


def _not_yet_valid(certificate: EidasCertificate, at: datetime) -> Fault | None:
    if at >= certificate.not_before:
        return None
    begins = format_time(certificate.not_before)
    return f"it is not valid before {begins}", {"not_before": begins, "at": format_time(at)}


def _expired(certificate: EidasCertificate, at: datetime) -> Fault | None:
    if at <= certificate.not_after:
        return None
    ended = format_time(certificate.not_after)
    return f"it expired on {ended}", {"not_after": ended, "at": format_time(at)}


def _is_ca(certificate: EidasCertificate, at: datetime) -> Fault | None:
    return ("it is the certificate of a certification authority", {}) if certificate.extensions.is_ca else None


def _unknown_critical(certificate: EidasCertificate, at: datetime) -> Fault | None:
    unknown = [oid for oid in certificate.extensions.critical if oid not in _PROCESSED]
    return (f"the critical extension {unknown[0]} is not processed", {"oid": unknown[0]}) if unknown else None


def _no_organization_identifier(certificate: EidasCertificate, at: datetime) -> Fault | None:
    count = len(certificate.subject.values(oids.ORGANIZATION_IDENTIFIER))
    return (
        None
        if count == 1
        else (f"the subject has {count} organizationIdentifier attributes, not one", {"count": str(count)})
    )


def _not_compliant(certificate: EidasCertificate, at: datetime) -> Fault | None:
    return (
        None if certificate.qc.compliance else ("the QcCompliance statement is absent, so it is not EU qualified", {})
    )


def _no_psd2_statement(certificate: EidasCertificate, at: datetime) -> Fault | None:
    return None if certificate.qc.psd2 else ("no PSD2 QcStatement can be read", {})


def _no_roles(certificate: EidasCertificate, at: datetime) -> Fault | None:
    psd2 = certificate.qc.psd2
    return ("the PSD2 QcStatement names no role", {}) if psd2 and not psd2.roles else None


def _role_mismatch(certificate: EidasCertificate, at: datetime) -> Fault | None:
    for role in certificate.qc.psd2.roles if certificate.qc.psd2 else ():
        if role.oid in oids.PSP_ROLES and role.name != role.standard_name:
            return f"role {role.oid} is {role.standard_name}, but is named {shown(role.name)}", {
                "oid": role.oid,
                "name": role.name,
            }
    return None


def _wrong_type(expected: str) -> Check:
    def check(certificate: EidasCertificate, at: datetime) -> Fault | None:
        types = certificate.qc.types
        if types == (expected,):
            return None
        stated = ", ".join(types) or "none"
        return f"QcType is {stated}, not {expected}", {"qc_types": stated, "expected": expected}

    return check


def _no_client_auth(certificate: EidasCertificate, at: datetime) -> Fault | None:
    usages = certificate.extensions.extended_key_usage
    if "clientAuth" in usages:
        return None
    stated = ", ".join(usages) or "none"
    return f"the extended key usage has no clientAuth (stated: {stated})", {"extended_key_usage": stated}


def _no_signature_usage(certificate: EidasCertificate, at: datetime) -> Fault | None:
    usage = certificate.extensions.key_usage
    if "digitalSignature" in usage or "nonRepudiation" in usage:
        return None
    stated = ", ".join(usage) or "absent"
    return f"its key usage is {stated}: not for signatures", {"key_usage": stated}


def _not_for_tls(certificate: EidasCertificate, at: datetime) -> Fault | None:
    usage = certificate.extensions.key_usage
    if not usage or "digitalSignature" in usage:
        return None
    return f"its key usage is {', '.join(usage)}: not for TLS authentication", {"key_usage": ", ".join(usage)}


# Extensions whose criticality is honoured: key usage, subject names, basic constraints, policies, extended key usage.
_PROCESSED = frozenset({"2.5.29.15", "2.5.29.17", "2.5.29.19", "2.5.29.32", "2.5.29.37", oids.QC_STATEMENTS})
_BOTH = frozenset(Use)
_QWAC = frozenset({Use.QWAC})
_QSEALC = frozenset({Use.QSEALC})

# Sources: TS 119 495 V1.8.1; EN 319 412-5 V2.5.1; EN 319 412-2 clause 4.3.2 (a seal's key usage may be type A, B, C or F,
# which says nonRepudiation or digitalSignature); RFC 5280; the PSD2 document, part A section 5 rules 1, 2 and 4.
# fmt: off
RULES: tuple[Rule, ...] = (
    Rule("certificate.not-yet-valid", _BOTH, Severity.ERROR, "RFC 5280 section 4.1.2.5", _not_yet_valid),
    Rule("certificate.expired", _BOTH, Severity.ERROR, "RFC 5280 section 4.1.2.5", _expired),
    Rule("certificate.is-ca", _BOTH, Severity.ERROR, "RFC 5280 section 4.2.1.9", _is_ca),
    Rule("certificate.critical-extension", _BOTH, Severity.ERROR, "RFC 5280 section 4.2", _unknown_critical),
    Rule("organization-identifier.missing", _BOTH, Severity.ERROR, "TS 119 495 GEN-5.3-3, GEN-5.4-3", _no_organization_identifier),
    Rule("qcstatements.no-compliance", _BOTH, Severity.ERROR, "EN 319 412-5 clause 5", _not_compliant),
    Rule("qcstatements.no-psd2", _BOTH, Severity.ERROR, "TS 119 495 GEN-5.3-2, GEN-5.4-2", _no_psd2_statement),
    Rule("qcstatements.no-roles", _BOTH, Severity.ERROR, "TS 119 495 GEN-5.2.2-1", _no_roles),
    Rule("qcstatements.role-mismatch", _BOTH, Severity.ERROR, "TS 119 495 GEN-5.2.2-5", _role_mismatch),
    Rule("qcstatements.not-web", _QWAC, Severity.ERROR, "EN 319 412-5 clause 4.2.3", _wrong_type("web")),
    Rule("qcstatements.not-eseal", _QSEALC, Severity.ERROR, "EN 319 412-5 clause 4.2.3", _wrong_type("eseal")),
    Rule("certificate.no-client-auth", _QWAC, Severity.ERROR, "PSD2 document A.5 rule 1", _no_client_auth),
    Rule("certificate.key-usage", _QWAC, Severity.ERROR, "RFC 5280 section 4.2.1.3", _not_for_tls),
    Rule("certificate.key-usage", _QSEALC, Severity.ERROR, "EN 319 412-2 clause 4.3.2", _no_signature_usage),
)
# fmt: on
