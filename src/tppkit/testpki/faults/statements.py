"""Faults of QcStatements: what a qualified certificate says about itself, and the PSD2 statement."""

from __future__ import annotations

from dataclasses import replace

from tppkit.certificates import PdsLocation, der, oids
from tppkit.certificates.qcstatements import LimitValue
from tppkit.certificates.write_qcstatements import write_limit_value, write_pds
from tppkit.testpki.draft import Draft
from tppkit.testpki.faults.case import NOTES, WARNS
from tppkit.testpki.faults.edits import (
    psd2_of,
    role_of,
    seq,
    statement,
    statements_of,
    value_of,
    with_authority,
    with_criticality,
    with_psd2,
    with_raw_psd2,
    with_roles,
    with_statement,
    with_statements,
    with_value,
    without_statement,
)
from tppkit.testpki.faults.registry import qwac_fault, seal_fault

PI, AI, CB, UNSPECIFIED = "0.4.0.19495.1.2", "0.4.0.19495.1.3", "0.4.0.19495.1.5", "0.4.0.19495.1.0"
_WEB, _ESEAL = "0.4.0.1862.1.6.3", "0.4.0.1862.1.6.2"


@qwac_fault("qcstatements.no-compliance")
def no_compliance(draft: Draft) -> Draft:
    """The QcCompliance statement is absent: the certificate is not qualified."""
    return without_statement(draft, oids.QC_COMPLIANCE)


@qwac_fault("qcstatements.no-psd2")
def no_psd2_statement(draft: Draft) -> Draft:
    """The PSD2 statement is absent."""
    return without_statement(draft, oids.QC_PSD2)


@seal_fault("qcstatements.no-psd2")
def seal_without_psd2_statement(draft: Draft) -> Draft:
    """The PSD2 statement of the QSealC is absent."""
    return without_statement(draft, oids.QC_PSD2)


@qwac_fault("qcstatements.no-compliance", "qcstatements.no-psd2", "qcstatements.not-web", "qcstatements.no-english-pds")
def no_qcstatements(draft: Draft) -> Draft:
    """The certificate has no qcStatements at all."""
    return draft.without_extension(oids.QC_STATEMENTS)


@qwac_fault("qcstatements.not-web")
def seal_type_in_qwac(draft: Draft) -> Draft:
    """The QcType of the QWAC is eseal."""
    return with_statement(draft, oids.QC_TYPE, seq(der.write_oid(_ESEAL)))


@seal_fault("qcstatements.not-eseal")
def web_type_in_seal(draft: Draft) -> Draft:
    """The QcType of the QSealC is web."""
    return with_statement(draft, oids.QC_TYPE, seq(der.write_oid(_WEB)))


@qwac_fault("qcstatements.not-web")
def no_type(draft: Draft) -> Draft:
    """The QcType statement is absent."""
    return without_statement(draft, oids.QC_TYPE)


@qwac_fault("qcstatements.not-web")
def two_types(draft: Draft) -> Draft:
    """The QcType names web and eseal."""
    return with_statement(draft, oids.QC_TYPE, seq(der.write_oid(_WEB), der.write_oid(_ESEAL)))


@qwac_fault("qcstatements.type-as-statement")
def type_as_statement(draft: Draft) -> Draft:
    """A type stands as a statement of its own."""
    return with_statement(draft, _WEB)


@qwac_fault("qcstatements.no-roles")
def no_roles(draft: Draft) -> Draft:
    """The PSD2 statement names no role."""
    return with_roles(draft)


@qwac_fault("qcstatements.role-mismatch")
def role_mismatch(draft: Draft) -> Draft:
    """A role has the identifier of PSP_PI and the name of PSP_AI."""
    return with_roles(draft, (PI, "PSP_AI"))


@qwac_fault("qcstatements.role-mismatch")
def role_name_in_lower_case(draft: Draft) -> Draft:
    """A role's name is in lower case."""
    return with_roles(draft, (PI, "psp_pi"))


@qwac_fault("qcstatements.role-unknown", verdict=NOTES)
def unknown_role(draft: Draft) -> Draft:
    """A role's identifier is none of TS 119 495, though its name is."""
    return with_roles(draft, ("2.999.19495.2", "PSP_PI"), (AI, "PSP_AI"))


@qwac_fault("qcstatements.role-repeated", verdict=NOTES)
def role_twice(draft: Draft) -> Draft:
    """A role stands twice."""
    return with_roles(draft, (PI, "PSP_PI"), (PI, "PSP_PI"))


@qwac_fault("qcstatements.role-unspecified")
def unspecified_beside_a_role(draft: Draft) -> Draft:
    """The role Unspecified stands beside another."""
    return with_roles(draft, (UNSPECIFIED, "Unspecified"), (PI, "PSP_PI"))


@qwac_fault("qcstatements.nca-not-applicable")
def authority_of_a_clearing_bank(draft: Draft) -> Draft:
    """A certificate for the role PSP_CB names an authority, where NA belongs."""
    return with_roles(draft, (CB, "PSP_CB"))


@qwac_fault(
    "qcstatements.bare-statement", "qcstatements.no-compliance", "qcstatements.not-web", "qcstatements.no-english-pds"
)
def bare_statement(draft: Draft) -> Draft:
    """One bare PSD2 statement stands where a SEQUENCE OF statements belongs (adorsys, Indice)."""
    return with_value(draft, oids.QC_STATEMENTS, statements_of(draft)[-1])


@qwac_fault("qcstatements.flattened-roles")
def flattened_roles(draft: Draft) -> Draft:
    """All roles stand in one RoleOfPSP (an OBIE OpenSSL profile)."""
    parts = b"".join(der.write_oid(role.oid) + der.write_text(role.name) for role in psd2_of(draft).roles)
    return with_raw_psd2(draft, roles=seq(seq(parts)))


@qwac_fault("qcstatements.flattened-roles")
def role_without_its_sequence(draft: Draft) -> Draft:
    """A RoleOfPSP stands where a SEQUENCE OF them belongs."""
    return with_raw_psd2(draft, roles=role_of(PI, "PSP_PI"))


@qwac_fault("qcstatements.unexpected-info")
def compliance_with_null(draft: Draft) -> Draft:
    """QcCompliance carries a NULL (ING)."""
    return with_statement(draft, oids.QC_COMPLIANCE, b"\x05\x00")


@qwac_fault("qcstatements.explicit-tag")
def tagged_role(draft: Draft) -> Draft:
    """An explicit tag stands around a role."""
    return with_raw_psd2(draft, roles=seq(der.write_element(0xA0, role_of(PI, "PSP_PI")), role_of(AI, "PSP_AI")))


@qwac_fault("qcstatements.explicit-tag")
def tagged_roles(draft: Draft) -> Draft:
    """An explicit tag stands around the roles."""
    return with_raw_psd2(draft, roles=der.write_element(0xA0, seq(role_of(PI, "PSP_PI"))))


@qwac_fault("qcstatements.string-type")
def printable_authority_name(draft: Draft) -> Draft:
    """The NCAName is a PrintableString."""
    return with_raw_psd2(draft, nca_name=der.write_text(psd2_of(draft).nca_name, tag=der.PRINTABLE_STRING))


@qwac_fault("qcstatements.string-type")
def printable_authority_id(draft: Draft) -> Draft:
    """The NCAId is a PrintableString."""
    return with_raw_psd2(draft, nca_id=der.write_text(psd2_of(draft).nca_id, tag=der.PRINTABLE_STRING))


@qwac_fault("qcstatements.string-type")
def printable_role_name(draft: Draft) -> Draft:
    """A role's name is a PrintableString."""
    return with_raw_psd2(draft, roles=seq(role_of(PI, "PSP_PI", tag=der.PRINTABLE_STRING)))


@qwac_fault("qcstatements.role-malformed", "qcstatements.role-mismatch", "qcstatements.text-size")
def role_without_name(draft: Draft) -> Draft:
    """A role has no name."""
    return with_raw_psd2(draft, roles=seq(seq(der.write_oid(PI)), role_of(AI, "PSP_AI")))


@qwac_fault("qcstatements.role-malformed")
def role_without_identifier(draft: Draft) -> Draft:
    """A role has no object identifier."""
    return with_raw_psd2(draft, roles=seq(seq(der.write_text("PSP_PI")), role_of(AI, "PSP_AI")))


@qwac_fault("qcstatements.role-malformed")
def identifier_as_text(draft: Draft) -> Draft:
    """A role's object identifier is written as text."""
    return with_raw_psd2(draft, roles=seq(seq(der.write_text(PI), der.write_text("PSP_PI")), role_of(AI, "PSP_AI")))


@qwac_fault("qcstatements.malformed", "qcstatements.text-size")
def statement_without_authority(draft: Draft) -> Draft:
    """The PSD2 statement ends after the roles."""
    return with_raw_psd2(draft, nca_name=b"", nca_id=b"")


@qwac_fault("qcstatements.malformed", "qcstatements.no-psd2")
def cut_off_statement(draft: Draft) -> Draft:
    """The NCAId is longer than what holds it."""
    return with_raw_psd2(draft, nca_id=b"\x0c\x7fLT-BL")


@qwac_fault("qcstatements.nca-id", "organization-identifier.authority-mismatch")
def authority_id_without_hyphen(draft: Draft) -> Draft:
    """The NCAId lacks its hyphen."""
    return with_psd2(draft, replace(psd2_of(draft), nca_id="LTBL"))


@qwac_fault("qcstatements.nca-id", "organization-identifier.authority-mismatch")
def authority_id_of_a_country(draft: Draft) -> Draft:
    """The NCAId is a country code alone."""
    return with_psd2(draft, replace(psd2_of(draft), nca_id="LT"))


@qwac_fault("qcstatements.nca-name-identifier")
def authority_id_for_its_name(draft: Draft) -> Draft:
    """The NCAName is the authority's identifier."""
    return with_psd2(draft, replace(psd2_of(draft), nca_name=psd2_of(draft).nca_id))


@qwac_fault("qcstatements.nca-name-identifier", "organization-identifier.authority-mismatch")
def authority_name_and_id_exchanged(draft: Draft) -> Draft:
    """NCAName and NCAId stand in each other's place."""
    stated = psd2_of(draft)
    return with_psd2(draft, replace(stated, nca_name=stated.nca_id, nca_id=stated.nca_name))


@qwac_fault("organization-identifier.country", "qcstatements.nca-country", "authority.unknown")
def authority_of_no_country(draft: Draft) -> Draft:
    """The authority's country, in the organizationIdentifier and in NCAId, is none of ISO 3166."""
    return with_authority(draft, "QQ-BANK")


@qwac_fault("authority.unknown", verdict=NOTES)
def unknown_authority(draft: Draft) -> Draft:
    """The authority's identifier is of a right form, but of none that is known."""
    return with_authority(draft, "LT-XBANK")


@qwac_fault("qcstatements.nca-name")
def authority_name_in_greek(draft: Draft) -> Draft:
    """The NCAName is not in the Latin alphabet."""
    return with_psd2(draft, replace(psd2_of(draft), nca_name="Τράπεζα της Ελλάδος"))


@qwac_fault("qcstatements.text-size")
def empty_authority_name(draft: Draft) -> Draft:
    """The NCAName is empty."""
    return with_psd2(draft, replace(psd2_of(draft), nca_name=""))


@qwac_fault("qcstatements.duplicate")
def statement_twice(draft: Draft) -> Draft:
    """QcCompliance stands twice."""
    return with_statements(draft, [*statements_of(draft), statement(oids.QC_COMPLIANCE)])


@qwac_fault("qcstatements.duplicate")
def psd2_statement_twice(draft: Draft) -> Draft:
    """The PSD2 statement stands twice, the second time with all roles."""
    every = seq(*(role_of(oid, name) for oid, name in oids.PSP_ROLES.items()))
    second = statement(oids.QC_PSD2, seq(every, der.write_text("Bank of Lithuania"), der.write_text("LT-BL")))
    return with_statements(draft, [*statements_of(draft), second])


@qwac_fault("qcstatements.sscd-in-web")
def device_in_qwac(draft: Draft) -> Draft:
    """The QWAC claims a qualified device, which is for signatures and seals."""
    return with_statement(draft, oids.QC_SSCD)


@qwac_fault("qcstatements.other-legislation")
def other_legislation(draft: Draft) -> Draft:
    """The certificate claims qualification under another country's law."""
    return with_statement(draft, oids.QC_CC_LEGISLATION, seq(der.write_text("CH", tag=der.PRINTABLE_STRING)))


@qwac_fault("qcstatements.other-legislation", "qcstatements.legislation-country")
def legislation_of_no_country(draft: Draft) -> Draft:
    """The country of QcCClegislation is none of ISO 3166."""
    return with_statement(draft, oids.QC_CC_LEGISLATION, seq(der.write_text("QQ", tag=der.PRINTABLE_STRING)))


def _with_pds(draft: Draft, *locations: tuple[str, str]) -> Draft:
    return with_statement(draft, oids.QC_PDS, write_pds(tuple(PdsLocation(*location) for location in locations)))


@qwac_fault("qcstatements.pds-address")
def disclosure_over_http(draft: Draft) -> Draft:
    """The disclosure statement is at an http address."""
    return _with_pds(draft, ("http://pki.test.example.com/pds_en.pdf", "en"))


@qwac_fault("qcstatements.pds-language")
def disclosure_in_no_language(draft: Draft) -> Draft:
    """A disclosure statement's language is none of ISO 639-1."""
    return _with_pds(
        draft, ("https://pki.test.example.com/pds_en.pdf", "en"), ("https://pki.test.example.com/pds_qq.pdf", "qq")
    )


@qwac_fault("qcstatements.pds-language-case", verdict=WARNS)
def disclosure_language_in_capitals(draft: Draft) -> Draft:
    """A disclosure statement's language is in capitals."""
    return _with_pds(draft, ("https://pki.test.example.com/pds_en.pdf", "EN"))


@qwac_fault("qcstatements.no-english-pds", verdict=WARNS)
def no_english_disclosure(draft: Draft) -> Draft:
    """No disclosure statement is in English."""
    return _with_pds(draft, ("https://pki.test.example.com/pds_lt.pdf", "lt"))


def _with_limit(draft: Draft, currency: str, amount: int) -> Draft:
    return with_statement(draft, oids.QC_LIMIT_VALUE, write_limit_value(LimitValue(currency, amount, 0)))


@qwac_fault("qcstatements.limit-value")
def limit_in_no_currency(draft: Draft) -> Draft:
    """The limit's currency is none of ISO 4217."""
    return _with_limit(draft, "QQQ", 1000)


@qwac_fault("qcstatements.limit-value")
def negative_limit(draft: Draft) -> Draft:
    """The limit is negative."""
    return _with_limit(draft, "EUR", -1000)


@qwac_fault("qcstatements.retention")
def negative_retention(draft: Draft) -> Draft:
    """The retention period is negative."""
    return with_statement(draft, oids.QC_RETENTION_PERIOD, der.write_integer(-1))


@qwac_fault("qcstatements.critical")
def critical_statements(draft: Draft) -> Draft:
    """The qcStatements are critical."""
    return with_criticality(draft, oids.QC_STATEMENTS, True)


@qwac_fault(
    "certificate.extension-malformed",
    "qcstatements.no-compliance",
    "qcstatements.no-english-pds",
    "qcstatements.no-psd2",
    "qcstatements.not-web",
)
def cut_off_qcstatements(draft: Draft) -> Draft:
    """The qcStatements end in the middle."""
    return with_value(draft, oids.QC_STATEMENTS, value_of(draft, oids.QC_STATEMENTS)[:-20])
