"""The catalogue: one row a fault, with its name, the codes that a check of it reports, what is wrong, and the edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID as Purpose

from tppkit.certificates import Use, der, oids
from tppkit.certificates.qcstatements import PdsLocation
from tppkit.certificates.write_qcstatements import write_pds
from tppkit.testpki.certificate import Extension
from tppkit.testpki.faults import cases
from tppkit.testpki.pki import Pki

# isort: off
from tppkit.testpki.faults.edits import (
    AI, CB, PI, UNSPECIFIED, Edit, all_of, another_authority, attribute, changed, critical_extension, exchanged_authority, extension,
    flattened_roles, no_attribute, no_extension, no_statement, policies, printable_authority, psd2, purposes, qc_statements, qc_types,
    raw_extension, role, roles, second_attribute, second_statement, statement, statements_of, usage, value_of, weak_key,
)  # fmt: skip

# isort: on
from tppkit.testpki.faults.valid_pki import DAY, FaultCase, ValidPki
from tppkit.testpki.ocsp import TRY_LATER, write_refusal

FAILS, WARNS, NOTES, ADMITTED = "fails", "warns", "notes", "admitted"
_ORG_ID = oids.ORGANIZATION_IDENTIFIER
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
        gate: The code with which `tppkit.web`'s gate rejects it if it has the same answers about revocation, or `admitted`.
    """

    name: str
    expected: tuple[str, ...]
    summary: str
    edit: Callable[[ValidPki], FaultCase]
    use: Use
    verdict: str
    gate: str

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
    gate: str | None = None,
) -> Fault:
    expected = tuple(sorted(codes.split()))
    first = next(code for code in expected if verdict != FAILS or not code.startswith(("crl.", "ocsp.")))
    return Fault(name, expected, summary, edit, use, verdict, gate or (first if verdict == FAILS else ADMITTED))


def _qwac(name: str, codes: str, summary: str, edit: Edit, verdict: str = FAILS, *, gate: str | None = None) -> Fault:
    """Return a row that edits the QWAC before it is signed; its chain is valid."""
    return _row(name, codes, summary, lambda valid: valid.edited(edit), verdict, gate=gate)


def _seal(name: str, codes: str, summary: str, edit: Edit, verdict: str = FAILS, *, gate: str | None = None) -> Fault:
    """Return a row that edits the QSealC before it is signed; its chain is valid."""
    return _row(name, codes, summary, lambda v: v.edited(edit, use=Use.QSEALC), verdict, use=Use.QSEALC, gate=gate)


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
    _row("qwac-not-yet-valid", "certificate.not-yet-valid", "The QWAC begins in a week", lambda p: p.edited(p.early)),
    _qwac("serial-too-long", "certificate.serial-too-long", "The serial number has 21 bytes", changed(serial=1 << 160), gate=ADMITTED),
    _qwac("weak-key", "certificate.weak-key key.weak", "The key is RSA with 1024 bits", weak_key),
    _row("sha1-signature", "certificate.broken-signature path.weak-signature", "The authority signed with SHA-1",
         lambda p: p.edited(hash_name="sha1"), gate="path.weak-signature"),
    _row("broken-signature", "path.signature", "The serial number of the certificate was changed after it was signed",
         cases.changed_after_signing),
    # Subject.
    _qwac("no-organization-name", "certificate.subject-attribute-missing", "The subject has no organizationName",
          no_attribute(oids.ORGANIZATION), gate=ADMITTED),
    _qwac("two-organization-names", "certificate.subject-attribute-repeated", "The subject has two organizationNames",
          second_attribute(oids.ORGANIZATION, "Second Payments TEST"), gate=ADMITTED),
    _qwac("no-organization-identifier", "organization-identifier.missing", "The subject has no organizationIdentifier",
          no_attribute(_ORG_ID)),
    _qwac("misspelt-scheme", "organization-identifier.malformed", "The organizationIdentifier begins with PDS",
          attribute(_ORG_ID, "PDSLT-BL-LB000000")),
    _qwac("unknown-country", "organization-identifier.country",
          "The organizationIdentifier of a central bank, which names no authority, has a country that is not in ISO 3166",
          all_of(roles((CB, "PSP_CB")), psd2(nca_name="NA", nca_id="NA"), attribute(_ORG_ID, "PSDQQ-BL-LB000000"))),
    _qwac("identifier-of-another-authority", "organization-identifier.authority-mismatch",
          "The organizationIdentifier names another authority than the PSD2 statement", another_authority),
    _qwac("vat-identifier", "organization-identifier.not-psd", "The organizationIdentifier is a VAT number instead of the scheme PSD",
          attribute(_ORG_ID, "VATLT-100001234567"), WARNS, gate="organization-identifier.scheme"),
    _qwac("wrong-lei", "organization-identifier.lei-checksum", "The organizationIdentifier is an LEI with wrong check digits",
          attribute(_ORG_ID, "LEIXG-529900T8BM49AURSDO56")),
    # QcStatements.
    _qwac("no-compliance", "qcstatements.no-compliance", "The QcCompliance statement is absent, so the certificate is not qualified",
          no_statement(oids.QC_COMPLIANCE)),
    _qwac("no-psd2-statement", "qcstatements.no-psd2", "The PSD2 statement is absent", no_statement(oids.QC_PSD2)),
    _qwac("no-qcstatements", _NO_STATEMENTS, "The certificate has no qcStatements", no_extension(oids.QC_STATEMENTS)),
    _qwac("seal-type-in-qwac", "qcstatements.not-web", "The QcType of the QWAC is eseal", qc_types(_ESEAL)),
    _seal("web-type-in-seal", "qcstatements.not-eseal", "The QcType of the QSealC is web", qc_types(_WEB), gate="seal.certificate-type"),
    _qwac("no-roles", "qcstatements.no-roles", "The PSD2 statement names no role", roles()),
    _qwac("role-mismatch", "qcstatements.role-mismatch", "A role has the identifier of PSP_PI and the name of PSP_AI",
          roles((PI, "PSP_AI"))),
    _qwac("unknown-role", "qcstatements.role-unknown", "The identifier of a role is not one of TS 119 495, but its name is",
          roles(("2.999.19495.2", "PSP_PI"), (AI, "PSP_AI")), NOTES),
    _qwac("role-twice", "qcstatements.role-repeated", "A role appears twice", roles((PI, "PSP_PI"), (PI, "PSP_PI")), NOTES),
    _qwac("unspecified-beside-a-role", "qcstatements.role-unspecified", "The role Unspecified appears beside another",
          roles((UNSPECIFIED, "Unspecified"), (PI, "PSP_PI")), gate=ADMITTED),
    _qwac("authority-of-a-clearing-bank", "qcstatements.nca-not-applicable",
          "A certificate for the role PSP_CB names an authority instead of NA", roles((CB, "PSP_CB")), gate=ADMITTED),
    _qwac("bare-statement",
          "qcstatements.bare-statement qcstatements.no-compliance qcstatements.not-web qcstatements.no-english-pds",
          "The qcStatements are one PSD2 statement instead of a SEQUENCE OF statements (adorsys, Indice)",
          qc_statements(lambda d: statements_of(d)[-1])),
    _qwac("flattened-roles", "qcstatements.flattened-roles", "All roles are in one RoleOfPSP (an OBIE OpenSSL profile)", flattened_roles),
    _qwac("compliance-with-null", "qcstatements.unexpected-info", "QcCompliance carries a NULL (ING)",
          statement(oids.QC_COMPLIANCE, b"\x05\x00")),
    _qwac("tagged-roles", "qcstatements.explicit-tag", "The roles have an explicit tag around them",
          psd2(roles=der.write_element(0xA0, der.write_sequence(role(PI, "PSP_PI"))))),
    _qwac("printable-authority-id", "qcstatements.string-type", "The NCAId is a PrintableString", printable_authority),
    _qwac("role-without-identifier", "qcstatements.role-malformed", "A role has no object identifier",
          psd2(roles=der.write_sequence(der.write_sequence(der.write_text("PSP_PI")), role(AI, "PSP_AI")))),
    _qwac("statement-without-authority", "qcstatements.malformed qcstatements.text-size", "The PSD2 statement ends after the roles",
          psd2(nca_name=b"", nca_id=b"")),
    _qwac("authority-id-without-hyphen", "qcstatements.nca-id organization-identifier.authority-mismatch", "The NCAId lacks its hyphen",
          psd2(nca_id="LTBL")),
    _qwac("authority-name-and-id-exchanged", "qcstatements.nca-name-identifier organization-identifier.authority-mismatch",
          "NCAName and NCAId are exchanged", exchanged_authority),
    _qwac("unknown-authority", "authority.unknown", "The identifier of the authority is well formed but unknown",
          all_of(attribute(_ORG_ID, "PSDLT-XBANK-LB000000"), psd2(nca_id="LT-XBANK")), NOTES),
    _qwac("authority-name-in-greek", "qcstatements.nca-name", "The NCAName is not in the Latin alphabet",
          psd2(nca_name="Τράπεζα της Ελλάδος"), gate=ADMITTED),
    _qwac("statement-twice", "qcstatements.duplicate", "QcCompliance appears twice", second_statement(oids.QC_COMPLIANCE)),
    _qwac("device-in-qwac", "qcstatements.sscd-in-web", "The QWAC claims a qualified device, which is for signatures and seals",
          statement(oids.QC_SSCD), gate=ADMITTED),
    _qwac("no-english-disclosure", "qcstatements.no-english-pds", "No disclosure statement is in English",
          statement(oids.QC_PDS, write_pds((PdsLocation("https://pki.test.example.com/pds_lt.pdf", "lt"),))), WARNS),
    _qwac("critical-statements", "qcstatements.critical", "The qcStatements are critical",
          critical_extension(oids.QC_STATEMENTS), gate=ADMITTED),
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
          "The subject alternative name is not DER", raw_extension(oids.SUBJECT_ALTERNATIVE_NAME, b"\x30\x80"),
          gate="certificate.extension-malformed"),
    _qwac("no-client-auth", "certificate.no-client-auth", "The QWAC is for servers only", purposes(Purpose.SERVER_AUTH)),
    _qwac("no-server-auth", "certificate.no-server-auth", "The QWAC is for clients only", purposes(Purpose.CLIENT_AUTH), gate=ADMITTED),
    _seal("seal-for-time-stamps", "certificate.extended-key-usage", "The QSealC is for time stamps only", purposes(Purpose.TIME_STAMPING)),
    _qwac("no-key-usage", "certificate.key-usage-missing", "The QWAC has no key usage", no_extension(oids.KEY_USAGE), gate=ADMITTED),
    _qwac("qwac-for-encipherment", "certificate.key-usage", "The key of the QWAC is for encipherment only", usage("key_encipherment")),
    _seal("seal-of-mixed-usage", "certificate.key-usage-mixed", "The key of the QSealC is for content commitment and for authentication",
          usage("digital_signature", "content_commitment"), WARNS),
    _seal("seal-for-authentication", "certificate.key-usage-authentication", "The key of the QSealC is for authentication only",
          usage("digital_signature"), NOTES),
    _qwac("no-authority-key-identifier", "certificate.no-authority-key", "The authority key identifier is absent",
          no_extension(oids.AUTHORITY_KEY_IDENTIFIER), gate=ADMITTED),
    _qwac("no-information-access", "certificate.no-information-access", "The addresses of the issuer's certificate and of OCSP are absent",
          no_extension(oids.AUTHORITY_INFORMATION_ACCESS), gate=ADMITTED),
    _qwac("no-policies", "certificate.no-policy", "The certificate policies are absent",
          no_extension(oids.CERTIFICATE_POLICIES), gate=ADMITTED),
    _qwac("no-qualified-policy", "certificate.no-qualified-policy", "No policy is one of EN 319 411-2", policies("2.999.1"), WARNS),
    _qwac("seal-policy-in-qwac", "certificate.policy-mismatch", "The QWAC has the policy of seals",
          policies(oids.POLICY_QCP_L), gate=ADMITTED),
    _seal("device-policy-without-statement", "qcstatements.no-sscd", "The policy states a key in a qualified device, but no statement does",
          policies(oids.POLICY_QCP_L_QSCD), gate=ADMITTED),
    _qwac("no-dns-name", "certificate.common-name certificate.no-dns-name", "The QWAC has no subject alternative name",
          no_extension(oids.SUBJECT_ALTERNATIVE_NAME), gate=ADMITTED),
    _qwac("extension-twice", "certificate.extension-malformed path.extension-malformed", "The key usage appears twice",
          lambda d: changed(extensions=(*d.extensions, Extension(oids.KEY_USAGE, value_of(d, oids.KEY_USAGE), critical=True)))(d)),
    # Chains.
    _row("missing-intermediate", "trust.no-path", "The issuing authority is not sent with the certificate",
         lambda p: p.below_edited("tppkit TEST Absent CA")._replace(intermediates=())),
    _row("strange-root", "trust.no-path", "The chain ends at a root that is not trusted", cases.foreign_root),
    _row("expired-authority", "path.expired", "The issuing authority expired",
         lambda p: p.below_edited("tppkit TEST Expired CA", p.expired)),
    _row("authority-not-yet-valid", "path.not-yet-valid", "The issuing authority begins in a week",
         lambda p: p.below_edited("tppkit TEST Early CA", p.early)),
    _row("provider-issues", "path.no-authority", "The QWAC of another provider signed the certificate",
         lambda p: p.below(p.pki.other_qwac, p.pki.qwac_ca), gate="trust.no-path"),
    _row("authority-without-signing-usage", "path.key-usage", "The key of the issuing authority is not for signing certificates",
         lambda p: p.below_edited("tppkit TEST CRL CA", usage("crl_sign"))),
    _row("path-too-long", "path.length", "An authority that may have none below it has one", cases.chain_of_three),
    _row("excluded-name", "path.name-constraints", "The issuing authority excludes the certificate's DNS name",
         _constrained(excluded_subtrees=[x509.DNSName("example.com")])),
    _row("policy-not-passed-on", "path.policy", "The issuing authority requires a policy, and states another than the certificate's",
         lambda p: p.below_edited("tppkit TEST Policy CA",
                                  all_of(policies("2.999.1"), extension(x509.PolicyConstraints(0, None), critical=True)))),
    # Revocation.
    _crl("revoked-by-crl", "revocation.revoked", "The revocation list contains the certificate, because its key was compromised",
         lambda p: p.crl(p.revoked())),
    _ocsp("revoked-by-ocsp", "revocation.revoked", "The OCSP response states that the certificate is revoked",
          lambda p: p.ocsp(p.single(revocation=p.revoked()))),
    _row("revoked-authority", "revocation.revoked", "The root revoked the issuing authority", cases.revoked_authority),
    _crl("stale-crl", "revocation.stale", "The next revocation list was due the day before",
         lambda p: p.crl(this_update=p.start - 8 * DAY, next_update=p.start - DAY)),
    _row("crl-from-the-future", "revocation.future revocation.unknown",
         "The revocation list begins years from now, in the last week of its authority", cases.future_crl, gate="revocation.unknown"),
    _crl("crl-without-end", "crl.undated revocation.unknown", "The revocation list does not state when the next one is due",
         lambda p: p.crl(next_update=None), WARNS),
    _crl("forged-crl", "crl.signature revocation.unknown", "The key of another authority signed the revocation list",
         lambda p: p.crl(key=p.pki.qseal_ca.key)),
    _crl("crl-with-sha1", "crl.weak-signature revocation.unknown", "The revocation list is signed with SHA-1",
         lambda p: p.crl(hash_name="sha1")),
    _crl("crl-with-unknown-critical-extension", "crl.critical-extension revocation.unknown",
         "The revocation list has an unknown critical extension", lambda p: p.crl(further=(_UNKNOWN,))),
    _crl("delta-crl", "crl.delta revocation.unknown", "The revocation list contains only the changes since another one",
         lambda p: p.crl(further=(_DELTA,))),
    _row("stale-ocsp", "revocation.stale", "The OCSP response was valid until the day before", cases.stale_ocsp),
    _ocsp("unknown-to-ocsp", "revocation.unknown", "The OCSP responder does not know the certificate",
          lambda p: p.ocsp(p.single(known=False))),
    _ocsp("ocsp-try-later", "ocsp.status revocation.unknown", "The OCSP responder has no answer now", lambda _: write_refusal(TRY_LATER)),
    _ocsp("forged-ocsp", "ocsp.signature revocation.unknown", "Another key than the responder's signed the OCSP response",
          lambda p: p.ocsp(key=p.pki.qseal.key)),
    _ocsp("ocsp-with-sha1", "ocsp.weak-signature revocation.unknown", "The OCSP response is signed with SHA-1",
          lambda p: p.ocsp(hash_name="sha1")),
    _ocsp("ocsp-of-a-stranger", "ocsp.stranger revocation.unknown", "Another authority certified the OCSP responder",
          lambda p: p.ocsp(responder=p.pki.responder(p.pki.qseal_ca))),
)
# fmt: on
FAULTS: Mapping[str, Fault] = MappingProxyType({fault.name: fault for fault in _ROWS})
