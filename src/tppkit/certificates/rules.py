"""The rules of certificate profiles, by the edition of each document that was in force when the certificate was issued.

Each rule is one row. A rule whose severity changed with an edition has two rows. Whether a certificate is trusted is checked
by `tppkit.trust`.

A relying party rejects a certificate for the rules marked essential. Issuers and auditors look at the others too: no payment fails
for a missing disclosure statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import zip_longest
from types import MappingProxyType
from typing import cast

from tppkit._clock import as_utc
from tppkit._text import shortened
from tppkit.certificates import oids
from tppkit.certificates.certificate import EidasCertificate, Subject
from tppkit.certificates.checks import extensions, key_usage, names, psd2, qualified, validity
from tppkit.certificates.editions import (
    CHROME_SERVER_ONLY,
    EDITIONS,
    EN_319_412_2_V2_2_1,
    EN_319_412_5_V2_4_1,
    PUBLIC_LIMITS,
    TS_119_495_V1_5_1,
    find_edition,
)
from tppkit.certificates.rule import Fault, Part, Rule, SubjectCheck, Use
from tppkit.errors import Finding, Severity

_MAX_MESSAGE = 1000


def check_certificate(
    certificate: EidasCertificate, *, as_: Use, at: datetime, edition: str | None = None, essential_only: bool = False
) -> tuple[Finding, ...]:
    """Every finding about a certificate used as `as_` at a time; never raises on its content.

        for finding in check_certificate(qwac, as_=Use.QWAC, at=utc_now()):
            print(finding.severity, finding.code, finding.message)

    Args:
        certificate: the certificate.
        as_: QWAC or QSEALC.
        at: the time to judge at, aware.
        edition: a version of TS 119 495, for example `V1.4.1`: judge by the rules that this document had then. Without it, and
            for the rules of every other document, the day of issue decides.
        essential_only: only the rules for which a relying party rejects a certificate.

    Returns:
        Findings about malformed parts, then one for each broken rule, in the order of the table.

    Raises:
        ConfigurationError: `time.naive`, `rules.edition`.
    """
    at = as_utc(at)
    issued, judged_by = certificate.not_before.date(), None if edition is None else find_edition(edition)
    findings = [f for f in certificate.findings if essential_only or f.code not in _JUDGED]
    for rule in _ESSENTIAL[as_] if essential_only else _ALL[as_]:
        if (rule.since is not None or rule.until is not None) and not rule.holds_on(issued, judged_by=judged_by):
            continue
        fault = rule.check(certificate, at)
        if fault is not None:
            findings.append(_finding(rule, fault))
    return tuple(findings)


def check_statement(subject: Subject) -> tuple[Finding, ...]:
    """Findings about the PSD2 statement of a certificate or request, for every use, time and edition; none without a statement."""
    return _check_part(subject, _STATEMENT)


def check_key(subject: Subject) -> tuple[Finding, ...]:
    """Findings about the key of a certificate or request, for every use and time."""
    return _check_part(subject, _KEY)


def _check_part(subject: Subject, part: Part) -> tuple[Finding, ...]:
    findings = []
    for rule in RULES:
        # The rules of a part ask for nothing else of a certificate, and not for the time.
        fault = cast("SubjectCheck", rule.check)(subject, datetime.max) if rule.part is part else None
        if fault is not None:
            findings.append(_finding(rule, fault))
    return tuple(findings)


def _finding(rule: Rule, fault: Fault) -> Finding:
    message, values = fault
    # A certificate may list any number of addresses, policies and languages.
    return Finding(rule.code, rule.severity, shortened(message, _MAX_MESSAGE), rule.clause, MappingProxyType(values))


def first_error(findings: tuple[Finding, ...]) -> Finding | None:
    """The first finding that makes a check fail, or None."""
    return next((finding for finding in findings if finding.severity is Severity.ERROR), None)


_BOTH, _QWAC, _QSEALC = frozenset(Use), frozenset({Use.QWAC}), frozenset({Use.QSEALC})
_STATEMENT, _KEY = Part.STATEMENT, Part.KEY
_ERROR, _WARNING, _NOTICE = Severity.ERROR, Severity.WARNING, Severity.NOTICE


def _public_limits() -> Iterator[Rule]:
    """One row for each maximum validity, until the next one begins."""
    for limit, following in zip_longest(PUBLIC_LIMITS, PUBLIC_LIMITS[1:]):
        check = validity.longer_than(limit.max_days or 0, last_second=not limit.last_second_free)
        yield Rule(
            "certificate.validity-too-long", _QWAC, _ERROR, "BR section 6.3.2", check, since=limit, until=following
        )


def _later_roles() -> Iterator[Rule]:
    """One row for each edition that introduces roles: before it, its roles and those of the editions after it are later ones."""
    previous = None
    introducing = [edition for edition in EDITIONS if edition.roles]
    for place, edition in enumerate(introducing):
        check = psd2.role_of_later(*[role for later in introducing[place:] for role in later.roles])
        yield Rule(
            "qcstatements.role-later", _BOTH, _NOTICE, "TS 119 495 clause 5.1", check, since=previous, until=edition
        )
        previous = edition


# Sources: TS 119 495 V1.8.1; EN 319 412-1 V1.6.1, -2 V2.4.1, -3 V1.3.1, -4 V1.3.2, -5 V2.6.1; EN 319 411-2 V2.5.1;
# TS 119 312; RFC 5280; CA/Browser Forum Baseline Requirements (BR); the PSD2 document, part A section 5 rules 1, 2 and 4.
# Each was compared with two of pkilint, zlint and its fork by mtg; where they disagree, tests/certificates/peer_verdicts.json
# has our verdict and the reason. A statement that appears twice is rejected by the reader in every edition: two readers could
# take the roles from different ones. A seal's key usage may be type A, B, C or F (EN 319 412-2 clause 4.3.2).
# fmt: off
RULES: tuple[Rule, ...] = (
    Rule("certificate.not-yet-valid", _BOTH, _ERROR, "RFC 5280 section 4.1.2.5", validity.not_yet_valid, essential=True),
    Rule("certificate.expired", _BOTH, _ERROR, "RFC 5280 section 4.1.2.5", validity.expired, essential=True),
    Rule("certificate.is-ca", _BOTH, _ERROR, "RFC 5280 section 4.2.1.9", extensions.is_ca, essential=True),
    Rule("certificate.precertificate", _BOTH, _ERROR, "RFC 6962 section 3.1", extensions.precertificate, essential=True),
    Rule("certificate.critical-extension", _BOTH, _ERROR, "RFC 5280 section 4.2", extensions.unknown_critical, essential=True),
    Rule("organization-identifier.missing", _BOTH, _ERROR, "TS 119 495 GEN-5.3-3, GEN-5.4-3",
         names.no_organization_identifier, essential=True),
    Rule("organization-identifier.unusable", _BOTH, _ERROR, "TS 119 495 GEN-5.3-3, GEN-5.4-3",
         names.unusable_identifier, essential=True),
    Rule("qcstatements.no-compliance", _BOTH, _ERROR, "EN 319 412-5 QCS-5-01", qualified.not_compliant, essential=True),
    Rule("qcstatements.no-psd2", _QWAC, _ERROR, "TS 119 495 GEN-5.3-2", psd2.no_statement, essential=True),
    # Not essential: the roles come from the QWAC, and the PSD2 document asks of a seal that it is a valid one of the same provider.
    Rule("qcstatements.no-psd2", _QSEALC, _ERROR, "TS 119 495 GEN-5.4-2", psd2.no_statement),
    Rule("qcstatements.no-roles", _BOTH, _ERROR, "TS 119 495 GEN-5.2.2-1", psd2.no_roles, part=_STATEMENT, essential=True),
    Rule("qcstatements.role-mismatch", _BOTH, _ERROR, "TS 119 495 GEN-5.2.2-5", psd2.role_mismatch, part=_STATEMENT, essential=True),
    Rule("qcstatements.not-web", _QWAC, _ERROR, "EN 319 412-5 clause 4.2.3", qualified.wrong_type("web"), essential=True),
    Rule("qcstatements.not-eseal", _QSEALC, _ERROR, "EN 319 412-5 clause 4.2.3", qualified.wrong_type("eseal"), essential=True),
    Rule("certificate.no-client-auth", _QWAC, _ERROR, "PSD2 document A.5 rule 1", key_usage.no_client_auth, essential=True),
    Rule("certificate.key-usage", _QWAC, _ERROR, "RFC 5280 section 4.2.1.3", key_usage.not_for_tls, essential=True),
    Rule("certificate.key-usage", _QSEALC, _ERROR, "EN 319 412-2 clause 4.3.2", key_usage.not_for_signatures, essential=True),
    Rule("certificate.extended-key-usage", _QSEALC, _ERROR, "RFC 5280 section 4.2.1.12", key_usage.purposes_exclude_seals, essential=True),

    Rule("certificate.serial-too-long", _BOTH, _ERROR, "RFC 5280 section 4.1.2.2", validity.long_serial),
    Rule("certificate.weak-key", _BOTH, _ERROR, "BR section 6.1.5, TS 119 312 clause 8.4", validity.weak_key, part=_KEY),
    Rule("certificate.key-unreadable", _BOTH, _ERROR, "TS 119 312 clause 8.4", validity.unsupported_key, part=_KEY),
    Rule("certificate.rare-key", _BOTH, _WARNING, "PSD2 document A.5 rule 4", validity.rare_key),
    Rule("certificate.unusual-key", _BOTH, _WARNING, "EN 319 412-2 GEN-4.2.5-1", validity.unusual_key, part=_KEY),
    Rule("certificate.broken-signature", _BOTH, _ERROR, "BR section 7.1.3.2, EN 319 412-2 GEN-4.2.2-1", validity.broken_signature),
    *_public_limits(),

    # Public website certificates need no common name here either, as pkilint has it: one of a production authority has none.
    Rule("certificate.issuer-attribute-missing", _BOTH, _ERROR, "EN 319 412-2 GEN-4.2.3.1-2", names.missing_issuer_attribute),
    Rule("certificate.subject-attribute-missing", _BOTH, _ERROR, "EN 319 412-3 LEG-4.2.1-2", names.missing_attribute),
    Rule("certificate.subject-attribute-repeated", _BOTH, _ERROR, "EN 319 412-3 LEG-4.2.1-3", names.repeated_attribute),
    Rule("certificate.subject-country", _BOTH, _NOTICE, "EN 319 412-3 LEG-4.2.1-4", names.unknown_country),
    Rule("certificate.subject-string-type", _BOTH, _ERROR, "RFC 5280 section 4.1.2.4", names.string_type),
    Rule("certificate.subject-length", _BOTH, _ERROR, "RFC 5280 appendix A.1", names.string_length),
    Rule("organization-identifier.malformed", _BOTH, _ERROR, "TS 119 495 GEN-5.3-3, GEN-5.4-3",
         names.identifier_form("organization-identifier.malformed")),
    Rule("organization-identifier.lei-checksum", _BOTH, _ERROR, "ISO 17442", names.identifier_form("organization-identifier.lei-checksum")),
    Rule("organization-identifier.unusual-text", _BOTH, _NOTICE, "EN 319 412-1 LEG-5.1.4-03", names.unusual_identifier),
    Rule("organization-identifier.country", _BOTH, _ERROR, "EN 319 412-1 LEG-5.1.4-03", names.identifier_country),
    # A shall before V1.5.1 and a should since, but every edition allows another identifier where the authority gave no number.
    Rule("organization-identifier.not-psd", _BOTH, _WARNING, "TS 119 495 GEN-5.2.1-3, GEN-5.2.1-4", names.not_psd_form),
    Rule("organization-identifier.is-name", _BOTH, _ERROR, "EN 319 412-3 LEG-4.2.1-6", names.identifier_is_name),
    Rule("organization-identifier.unregistered-scheme", _BOTH, _ERROR, "EN 319 412-1 LEG-5.1.4-05", names.local_scheme_unregistered),
    Rule("organization-identifier.eidas-form", _BOTH, _ERROR, "EN 319 412-1 LEG-5.1.6-03", names.eidas_identifier),
    Rule("organization-identifier.extension", _BOTH, _ERROR, "EV Guidelines 9.2.8, 9.8.2", names.other_registration),
    Rule("certificate.no-dns-name", _QWAC, _ERROR, "EN 319 412-4 WEB-4.1.3-4", names.no_dns_name),
    Rule("certificate.dns-name", _QWAC, _ERROR, "RFC 5280 section 4.2.1.6, BR section 7.1.2.7.12", names.dns_name_syntax),
    Rule("certificate.common-name", _QWAC, _ERROR, "EN 319 412-4 WEB-4.1.3-4 (d)", names.common_name_is_no_dns_name),
    Rule("certificate.internal-name", _QWAC, _ERROR, "BR section 7.1.4.2", names.internal_name),

    Rule("certificate.key-usage-missing", _QWAC, _ERROR, "EN 319 412-2 clause 4.3.2", key_usage.no_key_usage),
    Rule("certificate.key-usage-type", _BOTH, _ERROR, "EN 319 412-2 clause 4.3.2 table 1", key_usage.untyped, since=EN_319_412_2_V2_2_1),
    Rule("certificate.key-usage-mixed", _BOTH, _WARNING, "EN 319 412-2 clause 4.3.2", key_usage.mixed, since=EN_319_412_2_V2_2_1),
    Rule("certificate.key-usage-authentication", _QSEALC, _NOTICE, "EN 319 412-3 LEG-4.3.1-3", key_usage.authentication_only),
    Rule("certificate.key-usage-not-critical", _BOTH, _WARNING, "RFC 5280 section 4.2.1.3", extensions.key_usage_not_critical),
    Rule("certificate.no-server-auth", _QWAC, _ERROR, "EN 319 412-4 WEB-4.1.3-4 (a)", key_usage.no_server_auth),
    Rule("certificate.client-auth-ends", _QWAC, _NOTICE, "Chrome Root Program Policy 1.8 section 1.3.2",
         key_usage.client_auth_ends, until=CHROME_SERVER_ONLY),
    Rule("certificate.client-auth-ends", _QWAC, _WARNING, "Chrome Root Program Policy 1.8 section 1.3.2",
         key_usage.client_auth_ends, since=CHROME_SERVER_ONLY),
    Rule("certificate.must-not-be-critical", _BOTH, _ERROR, "EN 319 412-2 GEN-4.3.10-1",
         extensions.critical(oids.EXTENDED_KEY_USAGE, "extended key usage")),
    Rule("certificate.must-not-be-critical", _BOTH, _ERROR, "EN 319 412-2 GEN-4.3.5-1",
         extensions.critical(oids.SUBJECT_ALTERNATIVE_NAME, "subject alternative name")),
    Rule("certificate.must-not-be-critical", _BOTH, _ERROR, "EN 319 412-2 GEN-4.3.6-1",
         extensions.critical(oids.ISSUER_ALTERNATIVE_NAME, "issuer alternative name")),
    Rule("certificate.must-not-be-critical", _BOTH, _ERROR, "EN 319 412-2 GEN-4.3.11-5",
         extensions.critical(oids.CRL_DISTRIBUTION_POINTS, "CRL distribution points")),
    Rule("certificate.should-not-be-critical", _BOTH, _WARNING, "EN 319 412-2 GEN-4.3.3-1",
         extensions.critical(oids.CERTIFICATE_POLICIES, "certificate policies")),
    Rule("certificate.no-authority-key", _BOTH, _ERROR, "EN 319 412-2 GEN-4.3.1-1",
         extensions.absent(oids.AUTHORITY_KEY_IDENTIFIER, "authority key identifier")),
    Rule("certificate.no-subject-key", _BOTH, _WARNING, "RFC 5280 section 4.2.1.2",
         extensions.absent(oids.SUBJECT_KEY_IDENTIFIER, "subject key identifier")),
    Rule("certificate.authority-extension", _BOTH, _ERROR, "EN 319 412-2 GEN-4.3.4-1, -4.3.8-1, -4.3.9-1, -4.3.12-1",
         extensions.authority_extension),
    Rule("certificate.no-information-access", _BOTH, _ERROR, "EN 319 412-2 GEN-4.4.1-2",
         extensions.absent(oids.AUTHORITY_INFORMATION_ACCESS, "authority information access")),
    Rule("certificate.no-issuer-location", _BOTH, _ERROR, "EN 319 412-2 GEN-4.4.1-3, GEN-4.4.1-4", extensions.no_issuer_location),
    Rule("certificate.no-status-location", _BOTH, _ERROR, "EN 319 412-2 GEN-4.3.11-2, GEN-4.4.1-8", extensions.no_status_location),
    Rule("certificate.crl-scheme", _BOTH, _ERROR, "EN 319 412-2 GEN-4.3.11-4", extensions.crl_scheme),
    # An error in pkilint (any URI), a warning in zlint; the clause itself asks for HTTP addresses only.
    Rule("certificate.internal-address", _BOTH, _WARNING, "BR section 7.1.2.7.7", extensions.internal_address),

    Rule("certificate.no-policy", _BOTH, _ERROR, "EN 319 412-2 GEN-4.3.3-2", qualified.no_policy),
    Rule("certificate.no-qualified-policy", _BOTH, _WARNING, "EN 319 412-2 QCS-5.2-1", qualified.no_qualified_policy),
    Rule("certificate.several-qualified-policies", _BOTH, _WARNING, "EN 319 412-2 QCS-5.2-1", qualified.several_qualified_policies),
    Rule("certificate.policy-mismatch", _QWAC, _ERROR, "EN 319 412-2 QCS-5.2-2", qualified.policy_mismatch(qualified.WEB_POLICIES)),
    Rule("certificate.policy-mismatch", _QSEALC, _ERROR, "EN 319 412-2 QCS-5.2-2", qualified.policy_mismatch(qualified.SEAL_POLICIES)),
    # One source only (pkilint), and the only public seal that it names for it is no fault.
    Rule("certificate.psd2-policy-on-seal", _QSEALC, _WARNING, "TS 119 495 OVR-6.1-3", qualified.psd2_policy_on_seal),
    Rule("qcstatements.critical", _BOTH, _ERROR, "EN 319 412-5 QCS-4.1-02",
         extensions.critical(oids.QC_STATEMENTS, "qcStatements extension")),
    Rule("qcstatements.type-as-statement", _BOTH, _ERROR, "EN 319 412-5 clause 4.2.3", qualified.type_as_statement),
    Rule("qcstatements.sscd-in-web", _QWAC, _ERROR, "EN 319 412-5 QCS-5-01", qualified.device_in_web),
    Rule("qcstatements.no-sscd", _BOTH, _ERROR, "EN 319 412-5 QCS-5-01", qualified.device_missing),
    Rule("qcstatements.sscd-without-policy", _QSEALC, _ERROR, "EN 319 412-2 QCS-5.2-2", qualified.device_without_policy),
    Rule("qcstatements.other-legislation", _BOTH, _ERROR, "EN 319 412-5 QCS-5-01", qualified.other_legislation, essential=True),
    Rule("qcstatements.legislation-country", _BOTH, _ERROR, "EN 319 412-5 clause 4.2.4", qualified.legislation_country),
    Rule("qcstatements.no-english-pds", _BOTH, _WARNING, "EN 319 412-5 clause 4.3.4", qualified.no_english_pds),
    Rule("qcstatements.pds-address", _BOTH, _ERROR, "EN 319 412-5 clause 4.3.4", qualified.pds_address, since=EN_319_412_5_V2_4_1),
    Rule("qcstatements.pds-language", _BOTH, _ERROR, "EN 319 412-5 clause 4.3.4", qualified.pds_language),
    Rule("qcstatements.pds-language-repeated", _BOTH, _ERROR, "EN 319 412-5 QCS-5-01 table 2",
         qualified.pds_language_repeated, since=EN_319_412_5_V2_4_1),
    Rule("qcstatements.pds-language-case", _BOTH, _WARNING, "EN 319 412-5 clause 4.3.4", qualified.pds_language_case),
    Rule("qcstatements.limit-value", _BOTH, _ERROR, "EN 319 412-5 QCS-4.3.2-01", qualified.limit_value),
    Rule("qcstatements.numeric-currency", _BOTH, _WARNING, "EN 319 412-5 QCS-4.3.2-02", qualified.numeric_currency),
    # Both pkilint (which refuses zero too) and zlint (e_qcstatem_qcretentionperiod_valid).
    Rule("qcstatements.retention", _BOTH, _ERROR, "EN 319 412-5 clause 4.3.3", qualified.negative_retention),

    Rule("qcstatements.role-unspecified", _BOTH, _ERROR, "TS 119 495 GEN-5.2.2-1", psd2.unspecified_and_more, part=_STATEMENT),
    Rule("qcstatements.role-unknown", _BOTH, _NOTICE, "TS 119 495 GEN-5.2.2-4", psd2.role_unknown, part=_STATEMENT),
    *_later_roles(),
    Rule("qcstatements.role-repeated", _BOTH, _NOTICE, "TS 119 495 GEN-5.2.2-1", psd2.role_repeated, part=_STATEMENT),
    Rule("qcstatements.text-size", _BOTH, _ERROR, "TS 119 495 annex A", psd2.text_size, part=_STATEMENT),
    Rule("qcstatements.nca-name", _BOTH, _ERROR, "TS 119 495 GEN-5.2.3-1", psd2.name_not_plain, part=_STATEMENT),
    Rule("qcstatements.nca-id", _BOTH, _ERROR, "TS 119 495 GEN-5.2.3-2", psd2.nca_id_form, part=_STATEMENT),
    Rule("qcstatements.nca-name-identifier", _BOTH, _ERROR, "TS 119 495 GEN-5.2.3-1", psd2.name_is_identifier, part=_STATEMENT),
    # No clause says it: who is supervised by an authority that its NCAId names has written NA for the name of the authority.
    Rule("qcstatements.nca-name-absent", _BOTH, _NOTICE, "TS 119 495 GEN-5.2.3-1, GEN-5.2.3-1A", psd2.name_not_applicable, part=_STATEMENT),
    Rule("qcstatements.nca-country", _BOTH, _ERROR, "TS 119 495 GEN-5.2.3-2", psd2.nca_country, part=_STATEMENT),
    # Both pkilint and the fork of zlint by mtg.
    Rule("qcstatements.nca-not-applicable", _BOTH, _ERROR, "TS 119 495 GEN-5.2.3-1A, GEN-5.2.3-5",
         psd2.authority_where_none_is, since=TS_119_495_V1_5_1),
    Rule("organization-identifier.authority-mismatch", _BOTH, _ERROR, "TS 119 495 GEN-5.2.3-4", psd2.authority_mismatch, part=_STATEMENT),
    Rule("authority.unknown", _BOTH, _NOTICE, "TS 119 495 annex D (informative)", psd2.authority_unknown),
)
# fmt: on
_ALL: Mapping[Use, tuple[Rule, ...]] = MappingProxyType(
    {u: tuple(rule for rule in RULES if u in rule.uses) for u in Use}
)
_ESSENTIAL: Mapping[Use, tuple[Rule, ...]] = MappingProxyType(
    {use: tuple(rule for rule in rules if rule.essential) for use, rules in _ALL.items()}
)
# Codes of the reader that have a row as well: reported once, with the severity of the row.
_JUDGED = frozenset(rule.code for rule in RULES)
