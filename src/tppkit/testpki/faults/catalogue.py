"""The catalogue: one row a fault, with its name, the codes that a check of it reports, what is wrong, and the edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cryptography import x509
from cryptography.x509.oid import AuthorityInformationAccessOID as Access
from cryptography.x509.oid import ExtendedKeyUsageOID as Purpose

from tppkit.certificates import Use, der, oids
from tppkit.testpki.certificate import Extension
from tppkit.testpki.faults import cases
from tppkit.testpki.pki import Pki

# isort: off
from tppkit.testpki.faults.edits import (
    AI, CB, PI, UNSPECIFIED, Edit, access, all_of, attribute, authority, changed, crl_address, critical_extension, extension,
    flattened_roles, legislation, limit, no_attribute, no_extension, no_statement, pds, policies, psd2, psd2_of, purposes,
    qc_statements, qc_types, raw_extension, raw_psd2, role, roles, second_attribute, second_dns_name, second_statement, statement,
    statements_of, text_of, unusual_curve, usage, value_of, weak_key,
)  # fmt: skip

# isort: on
from tppkit.testpki.faults.valid_pki import DAY, FaultCase, ValidPki
from tppkit.testpki.ocsp import TRY_LATER, write_refusal
from tppkit.testpki.profiles import SERVICES_URL

FAILS, WARNS, NOTES = "fails", "warns", "notes"
_ORG_ID, _TELETEX = oids.ORGANIZATION_IDENTIFIER, 0x14
_WEB, _ESEAL = "0.4.0.1862.1.6.3", "0.4.0.1862.1.6.2"
_UNKNOWN = Extension("2.999.7", b"\x05\x00", critical=True)
_DELTA = Extension("2.5.29.27", der.write_integer(1), critical=True)
_NO_STATEMENTS = "qcstatements.no-compliance qcstatements.no-psd2 qcstatements.not-web qcstatements.no-english-pds"


@dataclass(frozen=True, slots=True)
class Fault:
    """One row of the catalogue.

    files = FAULTS["role-mismatch"].make(plain_pki(pki))

    Attributes:
        name: Short name, which is also the stem of its files.
        expected: Every code that a check of it reports, sorted.
        summary: What is wrong, in one line.
        edit: Makes the fault from a valid PKI.
        use: The use that the certificate claims.
        verdict: `fails` if a check rejects it, `warns` if it breaks a recommendation and the check holds, `notes` if the check
            holds with notices only.
    """

    name: str
    expected: tuple[str, ...]
    summary: str
    edit: Callable[[ValidPki], FaultCase]
    use: Use
    verdict: str

    def make(self, pki: Pki) -> FaultCase:
        """Make the files of the fault from a PKI that `plain_pki` returned."""
        return self.edit(ValidPki(pki, self.name))


def _row(
    name: str,
    codes: str,
    summary: str,
    edit: Callable[[ValidPki], FaultCase],
    verdict: str = FAILS,
    *,
    use: Use = Use.QWAC,
) -> Fault:
    return Fault(name, tuple(sorted(codes.split())), summary, edit, use, verdict)


def _qwac(name: str, codes: str, summary: str, edit: Edit, verdict: str = FAILS) -> Fault:
    """Return a row that edits the QWAC before it is signed; its chain is valid."""
    return _row(name, codes, summary, lambda valid: valid.edited(edit), verdict)


def _seal(name: str, codes: str, summary: str, edit: Edit, verdict: str = FAILS) -> Fault:
    """Return a row that edits the QSealC before it is signed; its chain is valid."""
    return _row(name, codes, summary, lambda valid: valid.edited(edit, use=Use.QSEALC), verdict, use=Use.QSEALC)


def _crl(name: str, codes: str, summary: str, make: Callable[[ValidPki], bytes], verdict: str = FAILS) -> Fault:
    """Return a row that judges the valid QWAC with a CRL."""
    return _row(name, codes, summary, lambda valid: valid.judged_by(crls=(make(valid),)), verdict)


def _ocsp(name: str, codes: str, summary: str, make: Callable[[ValidPki], bytes], verdict: str = FAILS) -> Fault:
    """Return a row that judges the valid QWAC with an OCSP response."""
    return _row(name, codes, summary, lambda valid: valid.judged_by(ocsp=(make(valid),)), verdict)


def _constrained(**constraints: list[x509.GeneralName]) -> Callable[[ValidPki], FaultCase]:
    subtrees = {"permitted_subtrees": None, "excluded_subtrees": None, **constraints}
    edit = extension(x509.NameConstraints(**subtrees), critical=True)
    return lambda valid: valid.below_edited("tppkit TEST Constrained CA", edit)


# fmt: off
_ROWS = (
    # Validity, signature and key.
    _row("qwac-expired", "certificate.expired", "The QWAC expired the day before", lambda p: p.edited(p.expired)),
    _row("seal-expired", "certificate.expired", "The QSealC expired the day before",
         lambda p: p.edited(p.expired, use=Use.QSEALC), use=Use.QSEALC),
    _row("qwac-not-yet-valid", "certificate.not-yet-valid", "The QWAC begins in a week", lambda p: p.edited(p.early)),
    _qwac("serial-too-long", "certificate.serial-too-long", "The serial number has 21 bytes", changed(serial=1 << 160)),
    _qwac("weak-key", "certificate.weak-key key.weak", "The key is RSA with 1024 bits", weak_key),
    _qwac("unusual-curve", "certificate.unusual-key key.unsupported", "The key is on the curve secp256k1, which no trust service uses",
          unusual_curve),
    _row("sha1-signature", "certificate.broken-signature path.weak-signature", "The authority signed with SHA-1",
         lambda p: p.edited(hash_name="sha1")),
    _row("broken-signature", "path.signature", "The serial number of the certificate was changed after it was signed",
         cases.changed_after_signing),
    _row("signed-by-another-key", "path.signature", "The QSealC authority signed a certificate that names the QWAC authority",
         lambda p: p.edited(key=p.pki.qseal_ca.key)),
    _qwac("unknown-issuer", "trust.no-path", "The certificate names an issuer that is not trusted", changed(issuer=cases.UNKNOWN_ISSUER)),
    # Subject.
    _qwac("no-organization-name", "certificate.subject-attribute-missing", "The subject has no organizationName",
          no_attribute(oids.ORGANIZATION)),
    _qwac("no-country", "certificate.subject-attribute-missing", "The subject has no countryName", no_attribute(oids.COUNTRY)),
    _seal("no-common-name", "certificate.subject-attribute-missing", "The subject has no commonName", no_attribute(oids.COMMON_NAME)),
    _qwac("two-organization-names", "certificate.subject-attribute-repeated", "The subject has two organizationNames",
          second_attribute(oids.ORGANIZATION, "Second Payments TEST")),
    _qwac("teletex-organization-name", "certificate.subject-string-type", "The organizationName is a TeletexString",
          attribute(oids.ORGANIZATION, "Example Payments TEST", tag=_TELETEX)),
    _qwac("long-country", "certificate.subject-country certificate.subject-length", "The countryName is a word, not a code",
          attribute(oids.COUNTRY, "Lithuania")),
    _qwac("no-organization-identifier", "organization-identifier.missing", "The subject has no organizationIdentifier",
          no_attribute(_ORG_ID)),
    _seal("seal-without-organization-identifier", "organization-identifier.missing",
          "The subject of the QSealC has no organizationIdentifier", no_attribute(_ORG_ID)),
    _qwac("two-organization-identifiers", "organization-identifier.missing", "The subject has two organizationIdentifiers",
          second_attribute(_ORG_ID, "PSDLT-BL-LB999999")),
    _qwac("bare-number", "organization-identifier.malformed", "The organizationIdentifier is a number without scheme",
          attribute(_ORG_ID, "12345987")),
    _qwac("misspelt-scheme", "organization-identifier.malformed", "The organizationIdentifier begins with PDS",
          attribute(_ORG_ID, "PDSLT-BL-LB000000")),
    _qwac("lower-case-country", "organization-identifier.malformed", "The country of the organizationIdentifier is in lower case",
          attribute(_ORG_ID, "PSDlt-BL-LB000000")),
    _qwac("unknown-country", "organization-identifier.country",
          "The organizationIdentifier of a central bank, which names no authority, has a country that is not in ISO 3166",
          all_of(roles((CB, "PSP_CB")), psd2(lambda _: {"nca_name": "NA", "nca_id": "NA"}), attribute(_ORG_ID, "PSDQQ-BL-LB000000"))),
    _qwac("identifier-of-another-authority", "organization-identifier.authority-mismatch",
          "The organizationIdentifier names another authority than the PSD2 statement",
          lambda d: attribute(_ORG_ID, f"PSD{'FI-FINFSA' if psd2_of(d).nca_id == 'DE-BAFIN' else 'DE-BAFIN'}-LB000000")(d)),
    _qwac("vat-identifier", "organization-identifier.not-psd", "The organizationIdentifier is a VAT number instead of the scheme PSD",
          attribute(_ORG_ID, "VATLT-100001234567"), WARNS),
    _qwac("wrong-lei", "organization-identifier.lei-checksum", "The organizationIdentifier is an LEI with wrong check digits",
          attribute(_ORG_ID, "LEIXG-529900T8BM49AURSDO56")),
    _qwac("local-scheme-without-registrar", "organization-identifier.unregistered-scheme organization-identifier.not-psd",
          "The organizationIdentifier has a national scheme, and no statement names its registrar", attribute(_ORG_ID, "LB:LT-000000")),
    _qwac("identifier-as-name", "organization-identifier.is-name", "The organizationName repeats the organizationIdentifier",
          lambda d: attribute(oids.ORGANIZATION, text_of(d, _ORG_ID))(d)),
    # QcStatements.
    _qwac("no-compliance", "qcstatements.no-compliance", "The QcCompliance statement is absent, so the certificate is not qualified",
          no_statement(oids.QC_COMPLIANCE)),
    _qwac("no-psd2-statement", "qcstatements.no-psd2", "The PSD2 statement is absent", no_statement(oids.QC_PSD2)),
    _seal("seal-without-psd2-statement", "qcstatements.no-psd2", "The PSD2 statement of the QSealC is absent", no_statement(oids.QC_PSD2)),
    _qwac("no-qcstatements", _NO_STATEMENTS, "The certificate has no qcStatements", no_extension(oids.QC_STATEMENTS)),
    _qwac("seal-type-in-qwac", "qcstatements.not-web", "The QcType of the QWAC is eseal", qc_types(_ESEAL)),
    _seal("web-type-in-seal", "qcstatements.not-eseal", "The QcType of the QSealC is web", qc_types(_WEB)),
    _qwac("no-type", "qcstatements.not-web", "The QcType statement is absent", no_statement(oids.QC_TYPE)),
    _qwac("two-types", "qcstatements.not-web", "The QcType names web and eseal", qc_types(_WEB, _ESEAL)),
    _qwac("type-as-statement", "qcstatements.type-as-statement", "A type is a statement of its own", statement(_WEB)),
    _qwac("no-roles", "qcstatements.no-roles", "The PSD2 statement names no role", roles()),
    _qwac("role-mismatch", "qcstatements.role-mismatch", "A role has the identifier of PSP_PI and the name of PSP_AI",
          roles((PI, "PSP_AI"))),
    _qwac("role-name-in-lower-case", "qcstatements.role-mismatch", "The name of a role is in lower case", roles((PI, "psp_pi"))),
    _qwac("unknown-role", "qcstatements.role-unknown", "The identifier of a role is not one of TS 119 495, but its name is",
          roles(("2.999.19495.2", "PSP_PI"), (AI, "PSP_AI")), NOTES),
    _qwac("role-twice", "qcstatements.role-repeated", "A role appears twice", roles((PI, "PSP_PI"), (PI, "PSP_PI")), NOTES),
    _qwac("unspecified-beside-a-role", "qcstatements.role-unspecified", "The role Unspecified appears beside another",
          roles((UNSPECIFIED, "Unspecified"), (PI, "PSP_PI"))),
    _qwac("authority-of-a-clearing-bank", "qcstatements.nca-not-applicable",
          "A certificate for the role PSP_CB names an authority instead of NA", roles((CB, "PSP_CB"))),
    _qwac("bare-statement",
          "qcstatements.bare-statement qcstatements.no-compliance qcstatements.not-web qcstatements.no-english-pds",
          "The qcStatements are one PSD2 statement instead of a SEQUENCE OF statements (adorsys, Indice)",
          qc_statements(lambda d: statements_of(d)[-1])),
    _qwac("flattened-roles", "qcstatements.flattened-roles", "All roles are in one RoleOfPSP (an OBIE OpenSSL profile)", flattened_roles),
    _qwac("role-without-its-sequence", "qcstatements.flattened-roles", "The roles are one RoleOfPSP instead of a SEQUENCE OF them",
          raw_psd2(roles=role(PI, "PSP_PI"))),
    _qwac("compliance-with-null", "qcstatements.unexpected-info", "QcCompliance carries a NULL (ING)",
          statement(oids.QC_COMPLIANCE, b"\x05\x00")),
    _qwac("tagged-role", "qcstatements.explicit-tag", "A role has an explicit tag around it",
          raw_psd2(roles=der.write_sequence(der.write_element(0xA0, role(PI, "PSP_PI")), role(AI, "PSP_AI")))),
    _qwac("tagged-roles", "qcstatements.explicit-tag", "The roles have an explicit tag around them",
          raw_psd2(roles=der.write_element(0xA0, der.write_sequence(role(PI, "PSP_PI"))))),
    _qwac("printable-authority-name", "qcstatements.string-type", "The NCAName is a PrintableString",
          raw_psd2(nca_name=der.PRINTABLE_STRING)),
    _qwac("printable-authority-id", "qcstatements.string-type", "The NCAId is a PrintableString", raw_psd2(nca_id=der.PRINTABLE_STRING)),
    _qwac("printable-role-name", "qcstatements.string-type", "The name of a role is a PrintableString",
          raw_psd2(roles=der.write_sequence(role(PI, "PSP_PI", tag=der.PRINTABLE_STRING)))),
    _qwac("role-without-name", "qcstatements.role-malformed qcstatements.role-mismatch qcstatements.text-size", "A role has no name",
          raw_psd2(roles=der.write_sequence(der.write_sequence(der.write_oid(PI)), role(AI, "PSP_AI")))),
    _qwac("role-without-identifier", "qcstatements.role-malformed", "A role has no object identifier",
          raw_psd2(roles=der.write_sequence(der.write_sequence(der.write_text("PSP_PI")), role(AI, "PSP_AI")))),
    _qwac("identifier-as-text", "qcstatements.role-malformed", "The object identifier of a role is written as text",
          raw_psd2(roles=der.write_sequence(der.write_sequence(der.write_text(PI), der.write_text("PSP_PI")), role(AI, "PSP_AI")))),
    _qwac("statement-without-authority", "qcstatements.malformed qcstatements.text-size", "The PSD2 statement ends after the roles",
          raw_psd2(nca_name=b"", nca_id=b"")),
    _qwac("cut-off-statement", "qcstatements.malformed qcstatements.no-psd2", "The NCAId is longer than the statement around it",
          raw_psd2(nca_id=b"\x0c\x7fLT-BL")),
    _qwac("authority-id-without-hyphen", "qcstatements.nca-id organization-identifier.authority-mismatch", "The NCAId lacks its hyphen",
          psd2(lambda _: {"nca_id": "LTBL"})),
    _qwac("authority-id-of-a-country", "qcstatements.nca-id organization-identifier.authority-mismatch", "The NCAId is only a country code",
          psd2(lambda _: {"nca_id": "LT"})),
    _qwac("authority-id-for-its-name", "qcstatements.nca-name-identifier", "The NCAName is the identifier of the authority",
          psd2(lambda s: {"nca_name": s.nca_id})),
    _qwac("authority-name-and-id-exchanged", "qcstatements.nca-name-identifier organization-identifier.authority-mismatch",
          "NCAName and NCAId are exchanged", psd2(lambda s: {"nca_name": s.nca_id, "nca_id": s.nca_name})),
    _qwac("authority-of-no-country", "organization-identifier.country qcstatements.nca-country authority.unknown",
          "The country of the authority, in organizationIdentifier and NCAId, is not in ISO 3166", authority("QQ-BANK")),
    _qwac("unknown-authority", "authority.unknown", "The identifier of the authority is well formed but unknown", authority("LT-XBANK"),
          NOTES),
    _qwac("authority-name-in-greek", "qcstatements.nca-name", "The NCAName is not in the Latin alphabet",
          psd2(lambda _: {"nca_name": "Τράπεζα της Ελλάδος"})),
    _qwac("empty-authority-name", "qcstatements.text-size", "The NCAName is empty", psd2(lambda _: {"nca_name": ""})),
    _qwac("statement-twice", "qcstatements.duplicate", "QcCompliance appears twice", second_statement(oids.QC_COMPLIANCE)),
    _qwac("psd2-statement-twice", "qcstatements.duplicate", "The PSD2 statement appears twice, the second time with all roles",
          second_statement(oids.QC_PSD2, der.write_sequence(der.write_sequence(*(role(*known) for known in oids.PSP_ROLES.items())),
                                             der.write_text("Bank of Lithuania"), der.write_text("LT-BL")))),
    _qwac("device-in-qwac", "qcstatements.sscd-in-web", "The QWAC claims a qualified device, which is for signatures and seals",
          statement(oids.QC_SSCD)),
    _qwac("other-legislation", "qcstatements.other-legislation", "The certificate claims qualification by the law of another country",
          legislation("CH")),
    _qwac("legislation-of-no-country", "qcstatements.other-legislation qcstatements.legislation-country",
          "The country of QcCClegislation is not in ISO 3166", legislation("QQ")),
    _qwac("disclosure-over-http", "qcstatements.pds-address", "The disclosure statement is at an http address",
          pds(("http://pki.test.example.com/pds_en.pdf", "en"))),
    _qwac("disclosure-in-no-language", "qcstatements.pds-language", "The language of a disclosure statement is not in ISO 639-1",
          pds(("pds_en.pdf", "en"), ("pds_qq.pdf", "qq"))),
    _qwac("disclosure-language-in-capitals", "qcstatements.pds-language-case", "The language of a disclosure statement is in capitals",
          pds(("pds_en.pdf", "EN")), WARNS),
    _qwac("no-english-disclosure", "qcstatements.no-english-pds", "No disclosure statement is in English",
          pds(("pds_lt.pdf", "lt")), WARNS),
    _qwac("limit-in-no-currency", "qcstatements.limit-value", "The currency of the limit is not in ISO 4217", limit("QQQ", 1000)),
    _qwac("negative-limit", "qcstatements.limit-value", "The limit is negative", limit("EUR", -1000)),
    _qwac("negative-retention", "qcstatements.retention", "The retention period is negative",
          statement(oids.QC_RETENTION_PERIOD, der.write_integer(-1))),
    _qwac("critical-statements", "qcstatements.critical", "The qcStatements are critical", critical_extension(oids.QC_STATEMENTS)),
    _qwac("cut-off-qcstatements", f"certificate.extension-malformed {_NO_STATEMENTS}", "The last bytes of the qcStatements are missing",
          qc_statements(lambda d: value_of(d, oids.QC_STATEMENTS)[:-20])),
    # Extensions.
    _qwac("provider-as-authority", "certificate.is-ca", "The QWAC is marked as a certificate authority",
          extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)),
    _qwac("precertificate", "certificate.precertificate path.pre-certificate",
          "The certificate is a pre-certificate of certificate transparency, with its poison extension",
          extension(x509.PrecertPoison(), critical=True)),
    _qwac("unknown-critical-extension", "certificate.critical-extension path.critical-extension", "A critical extension is unknown",
          raw_extension(*_UNKNOWN)),
    _qwac("malformed-extension",
          "certificate.common-name certificate.extension-malformed certificate.no-dns-name path.extension-malformed",
          "The subject alternative name is not DER", raw_extension(oids.SUBJECT_ALTERNATIVE_NAME, b"\x30\x80")),
    _qwac("no-client-auth", "certificate.no-client-auth", "The QWAC is for servers only", purposes(Purpose.SERVER_AUTH)),
    _qwac("no-server-auth", "certificate.no-server-auth", "The QWAC is for clients only", purposes(Purpose.CLIENT_AUTH)),
    _qwac("no-extended-key-usage", "certificate.no-client-auth certificate.no-server-auth", "The QWAC has no extended key usage",
          no_extension(oids.EXTENDED_KEY_USAGE)),
    _qwac("email-only", "certificate.no-client-auth certificate.no-server-auth", "The QWAC is for e-mail only",
          purposes(Purpose.EMAIL_PROTECTION)),
    _seal("seal-for-time-stamps", "certificate.extended-key-usage", "The QSealC is for time stamps only", purposes(Purpose.TIME_STAMPING)),
    _qwac("no-key-usage", "certificate.key-usage-missing", "The QWAC has no key usage", no_extension(oids.KEY_USAGE)),
    _qwac("qwac-for-encipherment", "certificate.key-usage", "The key of the QWAC is for encipherment only", usage("key_encipherment")),
    _seal("seal-for-encipherment", "certificate.key-usage", "The key of the QSealC is for encipherment only", usage("key_encipherment")),
    _seal("seal-without-key-usage", "certificate.key-usage", "The QSealC has no key usage", no_extension(oids.KEY_USAGE)),
    _seal("seal-of-mixed-usage", "certificate.key-usage-mixed", "The key of the QSealC is for content commitment and for authentication",
          usage("digital_signature", "content_commitment"), WARNS),
    _seal("seal-for-authentication", "certificate.key-usage-authentication", "The key of the QSealC is for authentication only",
          usage("digital_signature"), NOTES),
    _qwac("key-usage-not-critical", "certificate.key-usage-not-critical", "The key usage is not critical",
          usage("digital_signature", critical=False), WARNS),
    _qwac("qwac-of-no-usage-type", "certificate.key-usage-type", "The key usage is none of the types that the standard lists",
          usage("digital_signature", "data_encipherment")),
    _qwac("no-authority-key-identifier", "certificate.no-authority-key", "The authority key identifier is absent",
          no_extension(oids.AUTHORITY_KEY_IDENTIFIER)),
    _qwac("no-subject-key-identifier", "certificate.no-subject-key", "The subject key identifier is absent",
          no_extension(oids.SUBJECT_KEY_IDENTIFIER), WARNS),
    _qwac("authority-extension", "certificate.authority-extension", "The QWAC has an extension that only authorities may have",
          extension(x509.InhibitAnyPolicy(0))),
    _qwac("no-information-access", "certificate.no-information-access", "The addresses of the issuer's certificate and of OCSP are absent",
          no_extension(oids.AUTHORITY_INFORMATION_ACCESS)),
    _qwac("no-issuer-location", "certificate.no-issuer-location", "The address of the issuer's certificate is absent",
          access(Access.OCSP, f"{SERVICES_URL}/ocsp")),
    _qwac("no-status-location", "certificate.no-status-location", "The addresses of OCSP and of the revocation list are absent",
          all_of(access(Access.CA_ISSUERS, f"{SERVICES_URL}/issuing-ca-qwac.der"), no_extension(oids.CRL_DISTRIBUTION_POINTS))),
    _qwac("crl-over-ftp", "certificate.crl-scheme", "The revocation list is at an ftp address",
          crl_address("ftp://pki.test.example.com/issuing-ca-qwac.crl")),
    _qwac("crl-on-loopback", "certificate.internal-address", "The revocation list is at a loopback address",
          crl_address("http://127.0.0.1/issuing-ca-qwac.crl"), WARNS),
    _qwac("no-policies", "certificate.no-policy", "The certificate policies are absent", no_extension(oids.CERTIFICATE_POLICIES)),
    _qwac("no-qualified-policy", "certificate.no-qualified-policy", "No policy is one of EN 319 411-2", policies("2.999.1"), WARNS),
    _seal("two-qualified-policies", "certificate.policy-mismatch certificate.several-qualified-policies",
          "The policies of seals and of natural persons' signatures appear together", policies(oids.POLICY_QCP_L, oids.POLICY_QCP_N)),
    _qwac("seal-policy-in-qwac", "certificate.policy-mismatch", "The QWAC has the policy of seals", policies(oids.POLICY_QCP_L)),
    _seal("web-policy-in-seal", "certificate.policy-mismatch", "The QSealC has the policy of website certificates",
          policies(oids.POLICY_QNCP_W_GEN)),
    _seal("device-policy-without-statement", "qcstatements.no-sscd", "The policy states a key in a qualified device, but no statement does",
          policies(oids.POLICY_QCP_L_QSCD)),
    _seal("psd2-policy-in-seal", "certificate.psd2-policy-on-seal", "The QSealC also has the policy of PSD2 website certificates",
          policies(oids.POLICY_QCP_L, oids.POLICY_QCP_W_PSD2), WARNS),
    _qwac("critical-policies", "certificate.should-not-be-critical", "The certificate policies are critical",
          critical_extension(oids.CERTIFICATE_POLICIES), WARNS),
    _qwac("critical-crl-address", "certificate.critical-extension certificate.must-not-be-critical path.critical-extension",
          "The CRL distribution points are critical", critical_extension(oids.CRL_DISTRIBUTION_POINTS)),
    _qwac("no-dns-name", "certificate.common-name certificate.no-dns-name", "The QWAC has no subject alternative name",
          no_extension(oids.SUBJECT_ALTERNATIVE_NAME)),
    _qwac("common-name-elsewhere", "certificate.common-name", "The commonName is none of the DNS names",
          attribute(oids.COMMON_NAME, "elsewhere.test.example.com")),
    _qwac("internal-name", "certificate.internal-name", "A DNS name is known in an internal network only", second_dns_name("tpp.internal")),
    _qwac("extension-twice", "certificate.extension-malformed path.extension-malformed", "The key usage appears twice",
          lambda d: changed(extensions=(*d.extensions, Extension(oids.KEY_USAGE, value_of(d, oids.KEY_USAGE), critical=True)))(d)),
    _qwac("written-default", "certificate.extension-malformed path.extension-malformed",
          "BasicConstraints contains the default value FALSE, which DER leaves out",
          raw_extension(oids.BASIC_CONSTRAINTS, der.write_sequence(der.write_element(der.BOOLEAN, b"\x00")))),
    # Chains.
    _row("missing-intermediate", "trust.no-path", "The issuing authority is not sent with the certificate",
         lambda p: p.below_edited("tppkit TEST Absent CA")._replace(intermediates=())),
    _row("strange-root", "trust.no-path", "The chain ends at a root that is not trusted", cases.foreign_root),
    _row("expired-authority", "path.expired", "The issuing authority expired",
         lambda p: p.below_edited("tppkit TEST Expired CA", p.expired)),
    _row("authority-not-yet-valid", "path.not-yet-valid", "The issuing authority begins in a week",
         lambda p: p.below_edited("tppkit TEST Early CA", p.early)),
    _row("issuer-is-no-authority", "path.no-authority", "The certificate of the issuer is not one of an authority",
         lambda p: p.below_edited("tppkit TEST No CA", extension(x509.BasicConstraints(ca=False, path_length=None), critical=True))),
    _row("provider-issues", "path.no-authority", "The QWAC of another provider signed the certificate",
         lambda p: p.below(p.pki.other_qwac, p.pki.qwac_ca)),
    _row("authority-without-signing-usage", "path.key-usage", "The key of the issuing authority is not for signing certificates",
         lambda p: p.below_edited("tppkit TEST CRL CA", usage("crl_sign"))),
    _row("path-too-long", "path.length", "An authority that may have none below it has one", cases.chain_of_three),
    _row("excluded-name", "path.name-constraints", "The issuing authority excludes the certificate's DNS name",
         _constrained(excluded_subtrees=[x509.DNSName("example.com")])),
    _row("name-not-permitted", "path.name-constraints", "The issuing authority permits other DNS names only",
         _constrained(permitted_subtrees=[x509.DNSName("elsewhere.example.org")])),
    _row("policy-not-passed-on", "path.policy", "The issuing authority requires a policy, and states another than the certificate's",
         lambda p: p.below_edited("tppkit TEST Policy CA",
                                  all_of(policies("2.999.1"), extension(x509.PolicyConstraints(0, None), critical=True)))),
    _row("authority-with-unknown-critical-extension", "path.critical-extension", "The issuing authority has an unknown critical extension",
         lambda p: p.below_edited("tppkit TEST Critical CA", raw_extension(*_UNKNOWN))),
    _row("authority-signed-with-sha1", "path.weak-signature", "The root signed the issuing authority with SHA-1",
         lambda p: p.below_edited("tppkit TEST SHA-1 CA", hash_name="sha1")),
    _row("authority-of-another-root", "path.signature", "Another key than the root's signed the issuing authority in its name",
         cases.forged_authority),
    # Revocation.
    _crl("revoked-by-crl", "revocation.revoked", "The revocation list contains the certificate, because its key was compromised",
         lambda p: p.crl(p.revoked())),
    _crl("on-hold", "revocation.revoked", "The certificate is on hold", lambda p: p.crl(p.revoked("certificateHold"))),
    _ocsp("revoked-by-ocsp", "revocation.revoked", "The OCSP response states that the certificate is revoked",
          lambda p: p.ocsp(p.single(revocation=p.revoked()))),
    _row("revoked-authority", "revocation.revoked", "The root revoked the issuing authority", cases.revoked_authority),
    _crl("stale-crl", "revocation.stale", "The next revocation list was due the day before",
         lambda p: p.crl(this_update=p.start - 8 * DAY, next_update=p.start - DAY)),
    _row("crl-from-the-future", "revocation.future revocation.unknown",
         "The revocation list begins years from now, in the last week of its authority", cases.future_crl),
    _crl("crl-without-end", "crl.undated revocation.unknown", "The revocation list does not state when the next one is due",
         lambda p: p.crl(next_update=None), WARNS),
    _crl("forged-crl", "crl.signature revocation.unknown", "The key of another authority signed the revocation list",
         lambda p: p.crl(key=p.pki.qseal_ca.key)),
    _crl("crl-with-sha1", "crl.weak-signature revocation.unknown", "The revocation list is signed with SHA-1",
         lambda p: p.crl(hash_name="sha1")),
    _crl("crl-of-another-authority", "revocation.unknown", "The revocation list is that of the QSealC authority",
         lambda p: p.crl(issuer=p.pki.qseal_ca)),
    _crl("crl-with-unknown-critical-extension", "crl.critical-extension revocation.unknown",
         "The revocation list has an unknown critical extension", lambda p: p.crl(further=(_UNKNOWN,))),
    _crl("delta-crl", "crl.delta revocation.unknown", "The revocation list contains only the changes since another one",
         lambda p: p.crl(further=(_DELTA,))),
    _crl("crl-of-authorities-only", "crl.scope revocation.unknown", "The revocation list covers authorities only",
         lambda p: p.crl(further=(cases.crl_scope(authorities_only=True),))),
    _crl("indirect-crl", "crl.indirect revocation.unknown", "The revocation list covers certificates of several authorities",
         lambda p: p.crl(further=(cases.crl_scope(indirect=True),))),
    _row("crl-of-an-authority-that-may-not", "crl.key-usage revocation.unknown",
         "The key of the issuing authority is not for revocation lists", cases.crl_without_permission),
    _row("stale-ocsp", "revocation.stale", "The OCSP response was valid until the day before", cases.stale_ocsp),
    _row("ocsp-from-the-future", "revocation.future revocation.unknown",
         "The OCSP response begins years from now, in the last week of its authority", cases.future_ocsp),
    _ocsp("unknown-to-ocsp", "revocation.unknown", "The OCSP responder does not know the certificate",
          lambda p: p.ocsp(p.single(known=False))),
    _ocsp("ocsp-try-later", "ocsp.status revocation.unknown", "The OCSP responder has no answer now", lambda _: write_refusal(TRY_LATER)),
    _ocsp("ocsp-about-another-certificate", "revocation.unknown", "The OCSP response is about another certificate of the same authority",
          lambda p: p.ocsp(p.single(p.pki.other_qwac))),
    _ocsp("forged-ocsp", "ocsp.signature revocation.unknown", "Another key than the responder's signed the OCSP response",
          lambda p: p.ocsp(key=p.pki.qseal.key)),
    _ocsp("ocsp-with-sha1", "ocsp.weak-signature revocation.unknown", "The OCSP response is signed with SHA-1",
          lambda p: p.ocsp(hash_name="sha1")),
    _ocsp("ocsp-of-a-stranger", "ocsp.stranger revocation.unknown", "Another authority certified the OCSP responder",
          lambda p: p.ocsp(responder=p.pki.responder(p.pki.qseal_ca))),
    _ocsp("ocsp-of-a-provider", "ocsp.stranger revocation.unknown", "A provider's certificate, which is not for OCSP, signed the response",
          lambda p: p.ocsp(responder=p.pki.other_qwac)),
    _ocsp("expired-responder", "ocsp.stranger revocation.unknown", "The certificate of the OCSP responder expired",
          lambda p: p.ocsp(responder=p.responder(p.expired))),
    _ocsp("responder-without-purpose", "ocsp.stranger revocation.unknown", "The certificate of the OCSP responder is not for OCSP",
          lambda p: p.ocsp(responder=p.responder(no_extension(oids.EXTENDED_KEY_USAGE)))),
)
# fmt: on
FAULTS: Mapping[str, Fault] = MappingProxyType({fault.name: fault for fault in _ROWS})
