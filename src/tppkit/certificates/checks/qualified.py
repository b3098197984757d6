"""Checks of the QcStatements of EN 319 412-5, and of the policies that must agree with them."""

from __future__ import annotations

import re
from datetime import datetime

from tppkit._currency import FORMER, is_currency
from tppkit._encoding import shown
from tppkit._iso_codes import COUNTRIES, LANGUAGES
from tppkit.certificates import oids
from tppkit.certificates.certificate import EidasCertificate
from tppkit.certificates.rule import Check, Fault

_NUMBER, _CURRENCY_NUMBER = re.compile(r"-?[0-9]+"), re.compile(r"[1-9][0-9]{0,2}")  # ISO 4217 has 1 to 999
_DEVICE_POLICIES = frozenset({oids.POLICY_QCP_N_QSCD, oids.POLICY_QCP_L_QSCD})
WEB_POLICIES = frozenset({oids.POLICY_QEVCP_W, oids.POLICY_QNCP_W, oids.POLICY_QNCP_W_GEN})
SEAL_POLICIES = frozenset({oids.POLICY_QCP_L, oids.POLICY_QCP_L_QSCD})
_QUALIFIED_POLICIES = WEB_POLICIES | SEAL_POLICIES | {oids.POLICY_QCP_N, oids.POLICY_QCP_N_QSCD}


def not_compliant(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The certificate does not state that it is qualified."""
    if certificate.qc.compliance:
        return None
    return "the QcCompliance statement is absent, so it is not EU qualified", {}


def wrong_type(expected: str) -> Check:
    """QcType is not exactly this type."""

    def check(certificate: EidasCertificate, at: datetime) -> Fault | None:
        types = certificate.qc.types
        if types == (expected,):
            return None
        stated = ", ".join(types) or "none"
        return f"QcType is {stated}; it must be {expected} alone", {"qc_types": stated, "expected": expected}

    return check


def type_as_statement(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A type is used as the identifier of a statement."""
    for oid in certificate.qc.statement_oids:
        if oid in oids.QC_TYPES:
            return f"the type {oids.QC_TYPES[oid]} ({oid}) is a statement of its own, not inside QcType", {"oid": oid}
    return None


def device_in_web(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A website certificate states a signature creation device."""
    return ("it states QcSSCD, which is for signatures and seals", {}) if certificate.qc.sscd else None


def device_missing(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The policy requires a qualified device, but QcSSCD is absent."""
    promised = _DEVICE_POLICIES.intersection(certificate.extensions.policies)
    if not promised or certificate.qc.sscd:
        return None
    policies = ", ".join(sorted(promised))
    return f"the policy {policies} is for keys in a qualified device, but QcSSCD is absent", {"policies": policies}


def device_without_policy(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """QcSSCD is stated, but the policy of EN 319 411-2 is for keys outside a qualified device."""
    policies = certificate.extensions.policies
    found = sorted(_QUALIFIED_POLICIES.intersection(policies))
    if not certificate.qc.sscd or not found or not _DEVICE_POLICIES.isdisjoint(policies):
        return None
    stated = ", ".join(found)
    message = f"it states QcSSCD, but the policy {stated} is not for keys in a qualified device"
    return message, {"policies": stated}


def other_legislation(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The certificate is qualified under another law than the EU's."""
    if oids.QC_CC_LEGISLATION not in certificate.qc.statement_oids:
        return None
    countries = ", ".join(certificate.qc.cc_legislation)
    message = f"it states QcCClegislation ({countries or 'no country'}), so it is not qualified under EU law"
    return message, {"cc_legislation": countries}


def legislation_country(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """QcCClegislation names no country, or one that is not in ISO 3166."""
    if oids.QC_CC_LEGISLATION not in certificate.qc.statement_oids:
        return None
    countries = certificate.qc.cc_legislation
    unknown = [country for country in countries if country not in COUNTRIES]
    if countries and not unknown:
        return None
    stated = ", ".join(countries)
    return f"the countries of QcCClegislation ({shown(stated)}) are not in ISO 3166-1", {"cc_legislation": stated}


def no_english_pds(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """No PKI disclosure statement in English is named."""
    languages = [pds.language for pds in certificate.qc.pds]
    if any(language.lower() == "en" for language in languages):
        return None
    stated = ", ".join(languages) or "none"
    return f"no PKI disclosure statement in English is named (languages: {shown(stated)})", {"languages": stated}


def pds_address(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A PKI disclosure statement that is not at an https address."""
    for pds in certificate.qc.pds:
        if not pds.url.lower().startswith("https://"):
            return f"the PKI disclosure statement {shown(pds.url)} is not at an https address", {"url": pds.url}
    return None


def pds_language(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A PKI disclosure statement in a language that ISO 639-1 does not have."""
    for pds in certificate.qc.pds:
        if pds.language.lower() not in LANGUAGES:
            return f"the language {shown(pds.language)} of a PDS is not in ISO 639-1", {"language": pds.language}
    return None


def pds_language_repeated(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """Two PKI disclosure statements in one language, which may contradict each other."""
    languages = [pds.language.lower() for pds in certificate.qc.pds]
    twice = sorted({shown(language) for language in languages if languages.count(language) > 1})
    if not twice:
        return None
    return f"more than one PKI disclosure statement is in the language {', '.join(twice)}", {
        "languages": ", ".join(twice)
    }


def pds_language_case(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A language with capital letters."""
    for pds in certificate.qc.pds:
        if pds.language != pds.language.lower():
            return f"the language {shown(pds.language)} of a PDS is not in lower case", {"language": pds.language}
    return None


def limit_value(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A limit below zero or without a valid currency. A negative exponent is fine: cents are 10^-2."""
    limit = certificate.qc.limit_value
    if limit is None:
        return None
    is_code = is_currency(limit.currency) or limit.currency in FORMER
    if limit.amount >= 0 and (is_code or _CURRENCY_NUMBER.fullmatch(limit.currency)):
        return None
    stated = f"{limit.amount} x 10^{limit.exponent} {limit.currency}"
    return f"the limit {shown(stated)} is negative or not in a currency of ISO 4217", {"limit_value": stated}


def numeric_currency(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A currency as a number; letters are recommended."""
    limit = certificate.qc.limit_value
    if limit is None or not _NUMBER.fullmatch(limit.currency):
        return None
    return f"the limit's currency is the number {limit.currency}, not letters", {"currency": limit.currency}


def negative_retention(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The retention period is negative."""
    years = certificate.qc.retention_years
    if years is None or years >= 0:
        return None
    return f"records are kept for {years} years", {"years": str(years)}


def no_policy(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """No certificate policy is named."""
    return None if certificate.extensions.policies else ("it names no certificate policy", {})


def no_qualified_policy(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """Policies are named, but none of EN 319 411-2."""
    policies = certificate.extensions.policies
    if not policies or not _QUALIFIED_POLICIES.isdisjoint(policies):
        return None
    stated = ", ".join(policies)
    return f"none of its policies ({stated}) is one of EN 319 411-2", {"policies": stated}


def several_qualified_policies(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """More than one policy of EN 319 411-2."""
    found = sorted(_QUALIFIED_POLICIES.intersection(certificate.extensions.policies))
    if len(found) < 2:
        return None
    return f"it has several policies of EN 319 411-2 ({', '.join(found)})", {"policies": ", ".join(found)}


def policy_mismatch(fitting: frozenset[str]) -> Check:
    """A policy of EN 319 411-2 that is for another kind of certificate."""

    def check(certificate: EidasCertificate, at: datetime) -> Fault | None:
        others = sorted(_QUALIFIED_POLICIES.intersection(certificate.extensions.policies) - fitting)
        if not others:
            return None
        stated = ", ".join(others)
        return f"the policy {stated} is for another kind of certificate", {"policies": stated}

    return check


def psd2_policy_on_seal(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A seal under the policy of PSD2 website certificates."""
    if oids.POLICY_QCP_W_PSD2 not in certificate.extensions.policies:
        return None
    return f"the policy {oids.POLICY_QCP_W_PSD2} is for website certificates", {"policies": oids.POLICY_QCP_W_PSD2}
