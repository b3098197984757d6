"""Every rule has a certificate, made and signed here, that breaks it alone."""

from __future__ import annotations

import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa, x25519
from cryptography.x509.oid import AuthorityInformationAccessOID as Access
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from varying import write_any_statements

from tppkit.certificates import EidasCertificate, Psd2Statement, Use, check_certificate, der, oids
from tppkit.certificates.checks.psd2 import are_name_and_id_exchanged
from tppkit.certificates.qcstatements import LimitValue, PdsLocation, RoleOfPsp
from tppkit.certificates.rules import RULES
from tppkit.testpki.profiles import key_usage

QWAC, SEAL = Use.QWAC, Use.QSEALC
TYPES = {QWAC: "web", SEAL: "eseal"}
WEB, ESEAL = "0.4.0.1862.1.6.3", "0.4.0.1862.1.6.2"
PUBLIC, GEN, QCP_L, QCP_L_QSCD = "2.23.140.1.2.2", "0.4.0.194112.1.6", "0.4.0.194112.1.1", "0.4.0.194112.1.3"
OID = x509.ObjectIdentifier
ORG_ID = OID(oids.ORGANIZATION_IDENTIFIER)
PDS = PdsLocation("https://pki.test.example.com/pds_en.pdf", "en")
Change = dict[str, Any]


def role(name: str, *, named: str | None = None) -> RoleOfPsp:
    return RoleOfPsp(oids.ROLE_OIDS[name], name if named is None else named)


PSD2 = Psd2Statement((role("PSP_PI"), role("PSP_AI")), "Bank of Lithuania", "LT-BL")


def qc(use: Use, **changes: Any) -> Change:
    """Good statements but for the named ones; `psd2` holds the fields of the PSD2 statement that differ, or is None."""
    psd2 = changes.pop("psd2", {})
    stated = {
        "qc_type": TYPES[use], "pds": (PDS,), "psd2": None if psd2 is None else replace(PSD2, **psd2), **changes
    }  # fmt: skip
    return {"qc": write_any_statements(**stated)}


def statements(*further: bytes, without: str = "", use: Use = QWAC) -> Change:
    """Good statements, without the one of an identifier, and with others."""
    good = qc(use)["qc"]
    kept = [
        good[child.offset : child.end]
        for child in der.read_children(good, der.read_whole(good, tag=der.SEQUENCE))
        if not without or der.write_oid(without) not in good[child.offset : child.end]
    ]
    return {"qc": der.write_sequence(*kept, *further)}


def statement(oid: str, *info: bytes) -> bytes:
    return der.write_sequence(der.write_oid(oid), *info)


def qc_types(*types: str) -> Change:
    return statements(statement(oids.QC_TYPE, der.write_sequence(*map(der.write_oid, types))), without=oids.QC_TYPE)


def attribute(oid: x509.ObjectIdentifier, value: str) -> x509.NameAttribute:
    """One attribute, of a length that the library warns of if need be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return x509.NameAttribute(oid, value, _validate=False)


def subject(
    use: Use, *further: x509.NameAttribute, without: x509.ObjectIdentifier | None = None, **values: str
) -> Change:
    """The good subject, with other values (c, o, org_id, cn), without an attribute, with further ones."""
    kinds = {"c": NameOID.COUNTRY_NAME, "o": NameOID.ORGANIZATION_NAME, "org_id": ORG_ID, "cn": NameOID.COMMON_NAME}
    good = {"c": "LT", "o": "Example Payments TEST", "org_id": "PSDLT-BL-LB000000"}
    good |= {"cn": "tpp.test.example.com" if use is QWAC else "Example Payments TEST"} | values
    attributes = [attribute(kinds[name], value) for name, value in good.items()]
    return {"subject": x509.Name([*(a for a in attributes if a.oid != without), *further])}


def issuer(**values: str) -> Change:
    """The issuer's name with these attributes only."""
    kinds = {"c": NameOID.COUNTRY_NAME, "o": NameOID.ORGANIZATION_NAME, "cn": NameOID.COMMON_NAME}
    kinds |= {"gn": NameOID.GIVEN_NAME, "sn": NameOID.SURNAME, "pseudonym": NameOID.PSEUDONYM}
    return {"issuer": x509.Name([attribute(kinds[name], value) for name, value in values.items()])}


def registration(scheme: str, country: str, reference: str, *, state: bytes = b"") -> Change:
    """The CA/Browser Forum's extension with an organisation identifier in parts."""
    texts = [der.write_text(text, tag=der.PRINTABLE_STRING) for text in (scheme, country)]
    return registered(der.write_sequence(*texts, state, der.write_text(reference)))


def registered(value: bytes) -> Change:
    return {"extensions": (x509.UnrecognizedExtension(OID("2.23.140.3.1"), value),)}


def org_id(value: str) -> Change:
    return subject(SEAL, org_id=value)


def usage(*names: str) -> Change:
    return {"critical": (key_usage(*names)[0],)}


def purposes(*usages: x509.ObjectIdentifier) -> Change:
    return {"extensions": (x509.ExtendedKeyUsage(usages),)}


def policies(*dotted: str) -> Change:
    return {"extensions": (x509.CertificatePolicies([x509.PolicyInformation(OID(oid), None) for oid in dotted]),)}


def access(**urls: str) -> Change:
    methods = {"ocsp": Access.OCSP, "issuer": Access.CA_ISSUERS}
    stated = {"ocsp": "http://pki.test.example.com/ocsp", "issuer": "http://pki.test.example.com/ca.der"} | urls
    return {
        "extensions": (
            x509.AuthorityInformationAccess(
                [
                    x509.AccessDescription(methods[name], x509.UniformResourceIdentifier(url))
                    for name, url in stated.items()
                    if url
                ]
            ),
        )
    }


def names(*general: x509.GeneralName) -> Change:
    return {"extensions": (x509.SubjectAlternativeName(general),)}


def crl(url: str) -> x509.CRLDistributionPoints:
    return x509.CRLDistributionPoints([x509.DistributionPoint([x509.UniformResourceIdentifier(url)], None, None, None)])


def unread(oid: str) -> x509.UnrecognizedExtension:
    return x509.UnrecognizedExtension(OID(oid), b"\x30\x00")


def issued(year: int, month: int, day: int, *, seconds: int = 0) -> Change:
    return {"not_before": datetime(year, month, day, tzinfo=UTC) + timedelta(seconds=seconds)}


SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
TELETEX = x509.NameAttribute(NameOID.LOCALITY_NAME, "Vilnius", x509.name._ASN1Type.T61String)
SIGNS = {QWAC: key_usage("digital_signature")[0], SEAL: key_usage("content_commitment")[0]}
TWO_POLICIES = {
    QWAC: policies("0.4.0.194112.1.5", GEN),
    SEAL: policies(QCP_L, QCP_L_QSCD) | qc(SEAL, sscd=True),
}
GOOD_NAME = x509.DNSName("tpp.test.example.com")
WEAK_KEY = rsa.RSAPublicNumbers(65537, (1 << 1023) + 15).public_key()
EXCHANGE_KEY = x25519.X25519PrivateKey.from_private_bytes(bytes(32)).public_key()
RARE_KEY = ec.derive_private_key(7, ec.SECP521R1()).public_key()
CURVE_KEY = ec.derive_private_key(7, ec.SECP256K1()).public_key()
OTHER_BANK = {"nca_name": "NA", "nca_id": "NA", "roles": (role("PSP_CB"),)}
SEMANTICS = {"semantics": oids.SEMANTICS_EIDAS_LEGAL}
PUBLIC_POLICIES = policies(GEN, PUBLIC)
LATE = {"late": timedelta(days=90, microseconds=1)}
EARLY = {"late": timedelta(microseconds=-1)}
MALFORMED_ID = "organization-identifier.malformed"
MISMATCH, OTHER_LAW = "organization-identifier.authority-mismatch", "qcstatements.other-legislation"
# RFC 1034 section 3.5, RFC 1123 section 2.1
NO_DNS_NAMES = [
    "_www.example.com", "name@example.com", "www.example.com:443", "-www.example.com", "www-.example.com", "www..example.com",
    "example.com.", ".example.com", "w*.example.com", "www.*.com", "8.8.8.8", f"{'a' * 64}.example.com", "a." * 124 + "com.com",
]  # fmt: skip
# What always comes with a public QWAC that has clientAuth.
ENDS = {"certificate.client-auth-ends"}

# Code, use, what is other than in the good certificate (arguments of `issue`, and `late`: the time after its beginning), and
# the codes that cannot but come with it.
BREAKS: list[tuple[str, Use, Change, set[str]]] = [
    *((code, use, change, also) for use in Use for code, change, also in [
        ("certificate.not-yet-valid", EARLY, set()),
        ("certificate.expired", LATE, set()),
        ("certificate.is-ca", {"extensions": (x509.BasicConstraints(ca=True, path_length=None),)}, set()),
        ("certificate.precertificate", {"critical": (x509.PrecertPoison(),)}, set()),
        ("certificate.critical-extension", {"critical": (unread("2.999.1"),)}, set()),
        ("organization-identifier.missing", subject(use, without=ORG_ID), set()),
        ("organization-identifier.missing", subject(use, x509.NameAttribute(ORG_ID, "PSDLT-BL-LB000000")), set()),
        ("organization-identifier.unusable", subject(use, org_id="N/A"), {MALFORMED_ID}),
        ("organization-identifier.unusable", subject(use, org_id="-"), {MALFORMED_ID}),
        ("organization-identifier.unusable", subject(use, org_id="PSDLT-BL-none"), set()),
        ("organization-identifier.unusable", subject(use, org_id="PSDLT-BL-..."), set()),
        ("organization-identifier.unusable", subject(use, org_id="PSDLT-BL-1\u202e2"), {MALFORMED_ID}),
        ("organization-identifier.unusable", subject(use, org_id="PSDLT-BL-1\n"), {MALFORMED_ID}),
        ("organization-identifier.unusable", subject(use, org_id="PSDLT-BL-" + "1" * 248), {MALFORMED_ID}),
        ("organization-identifier.unusual-text", subject(use, org_id="PSDLT-BL-LB000000 "), set()),
        ("organization-identifier.unusual-text", subject(use, org_id=" PSDLT-BL-LB000000"), {MALFORMED_ID}),
        ("organization-identifier.unusual-text", subject(use, org_id="PSDLT-BL-LB  000000"), set()),
        ("organization-identifier.unusual-text", subject(use, org_id="PSDLT-BL-L\u0412000000"), set()),
        ("qcstatements.no-compliance", qc(use, compliance=False), set()),
        ("qcstatements.no-psd2", qc(use, psd2=None), set()),
        ("qcstatements.no-roles", qc(use, psd2={"roles": ()}), set()),
        ("qcstatements.role-mismatch", qc(use, psd2={"roles": (role("PSP_PI"), role("PSP_AI", named="PSP_PI"))}), set()),
        ("certificate.unusual-key", {"public_key": CURVE_KEY}, set()),
        ("certificate.key-unreadable", {"public_key": EXCHANGE_KEY}, set()),
        ("certificate.rare-key", {"public_key": RARE_KEY}, set()),
        ("certificate.weak-key", {"public_key": WEAK_KEY}, set()),
        ("certificate.subject-attribute-missing", subject(use, without=NameOID.COUNTRY_NAME), set()),
        ("certificate.subject-attribute-missing", subject(use, without=NameOID.COMMON_NAME), set()),
        ("certificate.subject-attribute-repeated", subject(use, x509.NameAttribute(NameOID.COUNTRY_NAME, "LT")), set()),
        ("certificate.subject-country", subject(use, c="ZZ"), set()),
        ("certificate.subject-length", subject(use, c="Lithuania"), {"certificate.subject-country"}),
        ("certificate.subject-length", subject(use, attribute(NameOID.LOCALITY_NAME, "v" * 129)), set()),
        ("certificate.subject-string-type", subject(use, TELETEX), set()),
        ("organization-identifier.malformed", subject(use, org_id="12345987"), set()),
        ("organization-identifier.lei-checksum", subject(use, org_id="LEIXG-AEYE00EKXESVZUUEBP68"), set()),
        ("organization-identifier.country", subject(use, org_id="PSDZZ-BL-1"), {MISMATCH}),
        ("organization-identifier.not-psd", subject(use, org_id="NTRLT-123456789"), set()),
        ("organization-identifier.is-name", subject(use, o="psdlt-bl-lb000000"), set()),
        ("organization-identifier.unregistered-scheme", subject(use, org_id="EI:SE-5567971433"), {"organization-identifier.not-psd"}),
        ("organization-identifier.eidas-form", subject(use, org_id="PSDLT-BL-LB 000000") | qc(use, **SEMANTICS), set()),
        ("organization-identifier.authority-mismatch", subject(use, org_id="PSDDE-BAFIN-1"), set()),
        ("certificate.key-usage-not-critical", {"extensions": (SIGNS[use],)}, set()),
        ("certificate.must-not-be-critical", {"critical": (x509.IssuerAlternativeName([GOOD_NAME]),)}, {"certificate.critical-extension"}),
        ("certificate.must-not-be-critical", {"critical": (crl("http://a.example.com/ca.crl"),)}, {"certificate.critical-extension"}),
        ("certificate.should-not-be-critical", {"critical": policies(GEN if use is QWAC else QCP_L)["extensions"]}, set()),
        ("certificate.no-authority-key", {"without": (x509.AuthorityKeyIdentifier,)}, set()),
        ("certificate.no-subject-key", {"without": (x509.SubjectKeyIdentifier,)}, set()),
        ("certificate.authority-extension", {"extensions": (x509.InhibitAnyPolicy(0),)}, set()),
        ("certificate.authority-extension", {"extensions": (x509.PolicyConstraints(0, None),)}, set()),
        ("certificate.authority-extension", {"extensions": (x509.NameConstraints([GOOD_NAME], None),)}, set()),
        ("certificate.authority-extension", {"extensions": (unread(oids.POLICY_MAPPINGS),)}, set()),
        ("certificate.no-information-access", {"without": (x509.AuthorityInformationAccess,)}, set()),
        ("certificate.no-issuer-location", access(issuer=""), set()),
        ("certificate.no-issuer-location", access(issuer="ldap://pki.test.example.com/ca"), set()),
        ("certificate.no-status-location", access(ocsp="") | {"without": (x509.CRLDistributionPoints,)}, set()),
        ("certificate.no-status-location", access(ocsp="ftp://pki.test.example.com/") | {"without": (x509.CRLDistributionPoints,)}, set()),
        ("certificate.crl-scheme", {"extensions": (crl("https://pki.test.example.com/ca.crl"),)}, set()),
        ("certificate.internal-address", access(ocsp="http://127.0.0.1/ocsp"), set()),
        ("certificate.internal-address", access(issuer="http://ca.corp/ca.der"), set()),
        ("certificate.internal-address", {"extensions": (crl("http://[fd00::1]/ca.crl"),)}, set()),
        ("certificate.no-policy", {"without": (x509.CertificatePolicies,)}, set()),
        ("certificate.no-qualified-policy", policies("1.2.3.4"), set()),
        ("certificate.several-qualified-policies", TWO_POLICIES[use], set()),
        ("certificate.policy-mismatch", policies(QCP_L if use is QWAC else GEN), set()),
        ("qcstatements.critical", {"critical": (x509.UnrecognizedExtension(OID(oids.QC_STATEMENTS), qc(use)["qc"]),)}, set()),
        ("qcstatements.type-as-statement", statements(statement(ESEAL), use=use), set()),
        ("qcstatements.no-sscd", policies(QCP_L_QSCD), {"certificate.policy-mismatch"} if use is QWAC else set()),
        ("qcstatements.other-legislation", qc(use, cc_legislation=("GB",)), set()),
        ("qcstatements.legislation-country", qc(use, cc_legislation=("ZZ",)), {OTHER_LAW}),
        ("qcstatements.legislation-country", statements(statement(oids.QC_CC_LEGISLATION, b"\x30\x00"), use=use), {OTHER_LAW}),
        ("qcstatements.no-english-pds", qc(use, pds=()), set()),
        ("qcstatements.no-english-pds", qc(use, pds=(PdsLocation(PDS.url, "lt"),)), set()),
        ("qcstatements.pds-address", qc(use, pds=(PDS, PdsLocation("http://pki.test.example.com/pds", "lt"))), set()),
        ("qcstatements.pds-language", qc(use, pds=(PDS, PdsLocation(PDS.url, "xx"))), set()),
        ("qcstatements.pds-language-case", qc(use, pds=(PdsLocation(PDS.url, "EN"),)), set()),
        ("qcstatements.limit-value", qc(use, limit_value=LimitValue("XTS", 1, 0)), set()),
        ("qcstatements.limit-value", qc(use, limit_value=LimitValue("EUR", -1, 0)), set()),
        ("qcstatements.limit-value", qc(use, limit_value=LimitValue("0", 1, 0)), {"qcstatements.numeric-currency"}),
        ("qcstatements.numeric-currency", qc(use, limit_value=LimitValue("978", 1, 0)), set()),
        ("qcstatements.retention", qc(use, retention_years=-1), set()),
        ("qcstatements.role-unspecified", qc(use, psd2={"roles": (role("Unspecified"), role("PSP_PI"))}), set()),
        ("qcstatements.role-unknown", qc(use, psd2={"roles": (RoleOfPsp("2.999.7", "PSP_XX"),)}), set()),
        ("qcstatements.role-later", qc(use, psd2={"roles": (role("PSP_PI"), role("PSP_CB"))}) | issued(2021, 3, 31), set()),
        ("qcstatements.role-later", qc(use, psd2={"roles": (role("VOP_RS"),)}) | issued(2021, 3, 31), set()),
        ("qcstatements.role-later", qc(use, psd2={"roles": (role("VOP_VS"),)}) | issued(2026, 3, 31), set()),
        ("qcstatements.role-repeated", qc(use, psd2={"roles": (role("PSP_PI"), role("PSP_PI"))}), set()),
        ("qcstatements.text-size", qc(use, psd2={"nca_name": ""}), set()),
        ("qcstatements.text-size", qc(use, psd2={"nca_name": "n" * 257}), set()),
        ("qcstatements.text-size", qc(use, psd2={"roles": (RoleOfPsp("2.999.7", ""),)}), {"qcstatements.role-unknown"}),
        ("qcstatements.text-size", qc(use, psd2={"nca_id": ""}), set()),
        ("qcstatements.nca-name", qc(use, psd2={"nca_name": "Банк на България"}), set()),
        ("qcstatements.nca-name", qc(use, psd2={"nca_name": "Bank of\x1b[31m Lithuania"}), set()),
        ("qcstatements.nca-name", qc(use, psd2={"nca_name": "Bank of \u202eLithuania"}), set()),
        ("qcstatements.nca-name-absent", qc(use, psd2={"nca_name": "NA"}), set()),
        ("qcstatements.nca-id", qc(use, psd2={"nca_id": "LT_BL"}), {MISMATCH}),
        ("qcstatements.nca-name-identifier", qc(use, psd2={"nca_name": "LT-BL", "nca_id": "Bank of Lithuania"}), {MISMATCH}),
        ("qcstatements.nca-name-identifier", qc(use, psd2={"nca_name": "LT-BL", "nca_id": "Finanstilsynet"}), {MISMATCH}),
        ("qcstatements.nca-name-identifier", qc(use, psd2={"nca_name": "LT-BL"}), set()),
        ("qcstatements.nca-name-identifier", qc(use, psd2={"nca_name": "LT-BL", "nca_id": ""}), {"qcstatements.text-size"}),
        ("qcstatements.nca-name-identifier", qc(use, psd2={"nca_name": "LT-BL", "nca_id": "N/A"}),
         {MISMATCH, "qcstatements.nca-id"}),
        ("qcstatements.nca-name-identifier", qc(use, psd2={"nca_name": "LT-BL", "nca_id": "lt-bl"}),
         {MISMATCH, "qcstatements.nca-id"}),
        ("qcstatements.nca-id", qc(use, psd2={"nca_id": "NA", "nca_name": "NA"}), {MISMATCH}),
        ("qcstatements.nca-country", qc(use, psd2={"nca_id": "ZZ-BL"}), {MISMATCH, "authority.unknown"}),
        ("qcstatements.nca-not-applicable", qc(use, psd2={"roles": (role("PSP_CB"),)}), set()),
        ("authority.unknown", subject(use, org_id="PSDHR-ABC-1") | qc(use, psd2={"nca_id": "HR-ABC"}), set()),
        ("certificate.issuer-attribute-missing", issuer(o="Trust TEST", cn="TEST CA"), set()),
        ("certificate.issuer-attribute-missing", issuer(c="LT", cn="TEST CA"), set()),
        ("certificate.issuer-attribute-missing", issuer(c="LT", o="Trust TEST"), set()),
        ("organization-identifier.extension", registration("PSD", "LT", "BL-LB000001"), set()),
        ("organization-identifier.extension", registration("NTR", "LT", "BL-LB000000"), set()),
        ("organization-identifier.extension", registration("PSD", "LT", "BL-LB000000", state=b"\x80\x02CA"), set()),
        ("organization-identifier.extension", registered(b"\x30\x00"), set()),
        ("organization-identifier.extension", registered(b"\x04\x00"), set()),
        ("qcstatements.pds-language-repeated", qc(use, pds=(PDS, PdsLocation("https://pki.test.example.com/other", "en"))), set()),
    ]),
    ("qcstatements.not-web", QWAC, qc(SEAL), set()),
    ("qcstatements.not-web", QWAC, qc_types(), set()),
    ("qcstatements.not-web", QWAC, qc_types(WEB, ESEAL), set()),
    ("qcstatements.not-eseal", SEAL, qc(QWAC), set()),
    ("qcstatements.not-eseal", SEAL, qc_types(ESEAL, WEB), set()),
    ("certificate.no-client-auth", QWAC, purposes(SERVER), set()),
    ("certificate.no-client-auth", QWAC, {"without": (x509.ExtendedKeyUsage,)}, {"certificate.no-server-auth"}),
    ("certificate.no-server-auth", QWAC, purposes(CLIENT), set()),
    ("certificate.client-auth-ends", QWAC, PUBLIC_POLICIES, set()),
    ("certificate.key-usage", QWAC, usage("content_commitment"), set()),
    ("certificate.key-usage", QWAC, usage("key_encipherment"), set()),
    ("certificate.key-usage", SEAL, usage("key_encipherment", "data_encipherment"), {"certificate.key-usage-type"}),
    ("certificate.key-usage", SEAL, {"without": (x509.KeyUsage,)}, set()),
    ("certificate.key-usage-missing", QWAC, {"without": (x509.KeyUsage,)}, set()),
    ("certificate.key-usage-type", QWAC, usage("digital_signature", "data_encipherment"), set()),
    ("certificate.key-usage-type", SEAL, usage("content_commitment", "crl_sign"), set()),
    ("certificate.key-usage-mixed", QWAC, usage("digital_signature", "key_encipherment"), set()),
    ("certificate.key-usage-mixed", SEAL, usage("content_commitment", "digital_signature"), set()),
    ("certificate.key-usage-authentication", SEAL, usage("digital_signature"), set()),
    ("certificate.extended-key-usage", SEAL, purposes(ExtendedKeyUsageOID.TIME_STAMPING), set()),
    ("certificate.extended-key-usage", SEAL, purposes(SERVER, ExtendedKeyUsageOID.OCSP_SIGNING), set()),
    ("certificate.must-not-be-critical", QWAC, {"critical": purposes(SERVER, CLIENT)["extensions"]}, set()),
    ("certificate.must-not-be-critical", SEAL, {"critical": purposes(OID("1.3.6.1.4.1.311.10.3.12"))["extensions"]}, set()),
    ("certificate.must-not-be-critical", QWAC, {"critical": names(GOOD_NAME)["extensions"]}, set()),
    ("certificate.no-dns-name", QWAC, {"without": (x509.SubjectAlternativeName,)}, {"certificate.common-name"}),
    ("certificate.common-name", QWAC, subject(QWAC, cn="other.test.example.com"), set()),
    ("certificate.internal-name", QWAC, names(GOOD_NAME, x509.DNSName("localhost")), set()),
    *(("certificate.internal-name", QWAC, names(GOOD_NAME, x509.DNSName(f"tpp.{zone}")), set())
      for zone in ("corp", "test", "example", "invalid", "TEST")),
    *(("certificate.dns-name", QWAC, names(GOOD_NAME, x509.DNSName(name)), set()) for name in NO_DNS_NAMES),
    ("certificate.validity-too-long", QWAC, PUBLIC_POLICIES | issued(2018, 3, 2) | {"days": 826}, ENDS),
    ("certificate.validity-too-long", QWAC, PUBLIC_POLICIES | issued(2020, 8, 31) | {"days": 826}, ENDS),
    ("certificate.validity-too-long", QWAC, PUBLIC_POLICIES | issued(2020, 9, 1) | {"days": 398}, ENDS),
    ("certificate.validity-too-long", QWAC, PUBLIC_POLICIES | issued(2029, 3, 15) | {"days": 47}, ENDS),
    ("certificate.validity-too-long", QWAC, PUBLIC_POLICIES | issued(2026, 3, 15) | {"days": 200}, ENDS),
    ("certificate.validity-too-long", QWAC, PUBLIC_POLICIES | issued(2027, 3, 15) | {"days": 100}, ENDS),
    ("certificate.psd2-policy-on-seal", SEAL, policies(QCP_L, "0.4.0.19495.3.1"), set()),
    ("qcstatements.sscd-in-web", QWAC, qc(QWAC, sscd=True), set()),
    ("qcstatements.sscd-without-policy", SEAL, qc(SEAL, sscd=True), set()),
]  # fmt: skip
# Each of these needs its own way to be made; the tests below have them.
MADE_APART = {(f"certificate.{name}", use) for name in ("broken-signature", "serial-too-long") for use in Use}


def found(issue, use: Use, change: Change) -> dict[str, str]:
    """Codes and severities of the findings about a certificate made with `change`."""
    options = dict(change)
    late, extensions = options.pop("late", timedelta()), options.pop("extensions", ())
    certificate = issue(use, *extensions, **options)
    findings = check_certificate(certificate, as_=use, at=certificate.not_before + late)
    assert all(finding.message and finding.clause for finding in findings)
    return {finding.code: finding.severity.value for finding in findings}


@pytest.mark.parametrize(
    ("code", "use", "change", "also"), BREAKS, ids=[f"{n} {code} {use}" for n, (code, use, _, _) in enumerate(BREAKS)]
)
def test_a_certificate_that_breaks_one_rule_gives_its_finding_alone(issue, code, use, change, also):
    assert {*found(issue, use, change)} == {code} | also


@pytest.mark.parametrize(
    ("use", "change", "message"),
    [
        (QWAC, qc_types(WEB, ESEAL), "QcType is web, eseal; it must be web alone"),
        (QWAC, PUBLIC_POLICIES | issued(2026, 3, 15) | {"days": 200},
         "it is valid for 200 days, 0:00:01 hours; the limit of a public one is 200 days"),
    ],
)  # fmt: skip
def test_a_finding_says_how_far_the_value_is_from_the_rule(issue, use, change, message):
    certificate = issue(use, *change.pop("extensions", ()), **change)
    assert message in [f.message for f in check_certificate(certificate, as_=use, at=certificate.not_before)]


def test_every_rule_has_a_certificate_that_breaks_it():
    broken = {(code, use) for code, use, _, _ in BREAKS} | MADE_APART
    assert broken == {(rule.code, use) for rule in RULES for use in rule.uses}


# What is close to a break and none.
FINE: list[tuple[Use, Change]] = [
    (QWAC, {"serial": (1 << 159) - 1}),
    (SEAL, qc(SEAL, limit_value=LimitValue("EUR", 10000, -2))),
    (SEAL, qc(SEAL, limit_value=LimitValue("HRK", 10000, -2))),
    (SEAL, qc(SEAL, retention_years=0)),
    (SEAL, qc(SEAL, psd2={"nca_name": "Banco de España"})),
    (SEAL, qc(SEAL, psd2={"nca_name": "Kredītiestāžu ŪĪ № 1, Æß (ĳ)"})),
    (SEAL, qc(SEAL, psd2={"roles": (role("Unspecified"),)})),
    (SEAL, qc(SEAL, psd2={"roles": (role("VOP_RS"), role("VOP_VS"))})),
    (SEAL, qc(SEAL, psd2=OTHER_BANK)),
    (SEAL, qc(SEAL, psd2={"nca_name": "n" * 256})),
    (SEAL, policies(QCP_L_QSCD) | qc(SEAL, sscd=True)),
    (SEAL, purposes(ExtendedKeyUsageOID.EMAIL_PROTECTION)),
    (SEAL, purposes(SERVER, OID("1.3.6.1.4.1.311.10.3.12"))),
    (SEAL, access(ocsp="")),
    (SEAL, {"without": (x509.CRLDistributionPoints,)}),
    (SEAL, access(ocsp="http://[")),
    (SEAL, {"extensions": (crl("LDAP://pki.test.example.com/ca"),)}),
    (QWAC, subject(QWAC, cn="TPP.test.example.com")),
    (QWAC, policies(GEN, "0.4.0.19495.3.1", "1.2.3.4")),
    (QWAC, {"days": 3000}),
    (QWAC, qc(QWAC, pds=(PdsLocation("http://pki.test.example.com/pds", "en"),)) | issued(2023, 8, 31)),
    (SEAL, usage("content_commitment", "crl_sign") | issued(2020, 6, 30)),
    (SEAL, usage("content_commitment", "digital_signature") | issued(2020, 6, 30)),
    (SEAL, issuer(c="LT", o="Trust TEST", cn="TEST CA")),
    (SEAL, issuer(c="LT", gn="Jonas", sn="Jonaitis", cn="Jonas Jonaitis")),
    (QWAC, registration("PSD", "LT", "BL-LB000000")),
    (SEAL, qc(SEAL, pds=(PDS, PdsLocation(PDS.url, "lt")))),
    (SEAL, qc(SEAL, pds=(PDS, PDS)) | issued(2023, 8, 31)),
    (SEAL, subject(SEAL, org_id="PSDHR-HNB-1") | qc(SEAL, psd2={"nca_id": "HR-HNB"})),
    (QWAC, names(GOOD_NAME, x509.DNSName("*.test.example.com"), x509.DNSName("xn--bcher-kva.example.com"))),
    (QWAC, names(GOOD_NAME, x509.DNSName(f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 57}.com"))),
    (QWAC, names(GOOD_NAME, x509.DNSName("contest.com"), x509.DNSName("1.EXAMPLE.com"))),
]  # fmt: skip


@pytest.mark.parametrize(("use", "change"), FINE, ids=[str(n) for n in range(len(FINE))])
def test_what_is_close_to_a_break_and_none_gives_no_finding(issue, use, change):
    assert found(issue, use, change) == {}


@pytest.mark.parametrize(
    ("day", "days"),
    [
        ((2018, 3, 1), 900),
        ((2018, 3, 2), 825),
        ((2020, 8, 31), 825),
        ((2020, 9, 1), 397),
        ((2026, 3, 14), 397),
        ((2026, 3, 15), 199),
        ((2029, 3, 14), 99),
        ((2029, 3, 15), 46),
    ],
)
def test_a_public_certificate_may_be_valid_as_long_as_browsers_allowed_then(issue, day, days):
    assert {*found(issue, QWAC, PUBLIC_POLICIES | issued(*day) | {"days": days})} == ENDS


def test_the_psd2_policy_puts_the_specification_before_the_browsers(issue):
    change = policies(GEN, PUBLIC, "0.4.0.19495.3.1") | {"days": 900}
    assert {*found(issue, QWAC, change)} == ENDS


@pytest.mark.parametrize(
    ("change", "severity"), [(issued(2027, 3, 15, seconds=-1), "notice"), (issued(2027, 3, 15), "warning")]
)
def test_the_end_of_client_auth_weighs_more_from_the_day_it_is_there(issue, change, severity):
    assert found(issue, QWAC, PUBLIC_POLICIES | change) == {"certificate.client-auth-ends": severity}


def test_a_public_certificate_without_client_auth_gets_advice(issue, pki):
    eku = purposes(SERVER)["extensions"]
    public = issue(QWAC, *PUBLIC_POLICIES["extensions"], *eku)
    (finding,) = check_certificate(public, as_=QWAC, at=pki.not_before)
    assert (finding.code, "QNCP-w-gen" in finding.message) == ("certificate.no-client-auth", True)
    (finding,) = check_certificate(issue(QWAC, *eku), as_=QWAC, at=pki.not_before)
    assert "QNCP-w-gen" not in finding.message


def test_a_public_certificate_follows_the_browsers_in_key_usage_and_common_name(issue):
    change = {**subject(QWAC, without=NameOID.COMMON_NAME), **usage("digital_signature", "key_encipherment")}
    change |= issuer(c="ES", o="Public TEST")
    assert {*found(issue, QWAC, PUBLIC_POLICIES | change)} == ENDS
    assert {*found(issue, QWAC, PUBLIC_POLICIES | {"without": (x509.KeyUsage,)})} == ENDS


@pytest.mark.parametrize(
    ("address", "codes"),
    [
        ("8.8.8.8", set()), ("2001:4860:4860::8888", set()), ("10.0.0.1", {"certificate.internal-name"}),
        ("127.0.0.1", {"certificate.internal-name"}), ("192.0.2.1", {"certificate.internal-name"}),
        ("fd00::1", {"certificate.internal-name"}), ("::1", {"certificate.internal-name"}),
    ],
)  # fmt: skip
def test_only_an_address_of_one_network_is_a_fault(issue, address, codes):
    assert {*found(issue, QWAC, names(GOOD_NAME, x509.IPAddress(ip_address(address))))} == codes


def test_a_registered_national_scheme_is_only_no_psd_form(issue):
    change = org_id("EI:SE-5567971433") | qc(SEAL, name_registration_authorities=("https://registry.test.example.com",))
    assert found(issue, SEAL, change) == {"organization-identifier.not-psd": "warning"}


@pytest.mark.parametrize("currency", ["1" * 5000, "²", "٣٣", "", "EURO", "\x00"])
def test_a_currency_of_any_text_is_judged(issue, currency):
    # Not PrintableString, but it is read: the reader takes any string type here.
    amount = der.write_sequence(der.write_text(currency), der.write_integer(1), der.write_integer(0))
    change = statements(statement(oids.QC_LIMIT_VALUE, amount))
    assert "qcstatements.limit-value" in found(issue, QWAC, change)


def test_a_signature_over_a_broken_hash_is_named(pki):
    # The libraries no longer make such signatures, so the algorithm's identifier is exchanged in a certificate's bytes.
    sha256 = der.write_sequence(der.write_oid("1.2.840.10045.4.3.2"))
    sha1 = der.write_sequence(der.write_oid("1.2.840.10045.4.1"))
    for use, holder in ((QWAC, pki.qwac), (SEAL, pki.qseal)):
        exchanged = EidasCertificate.from_der(exchange(holder.certificate.der, sha256, sha1))
        codes = [f.code for f in check_certificate(exchanged, as_=use, at=pki.not_before)]
        assert codes == ["certificate.broken-signature"]


def test_a_serial_number_of_more_than_twenty_octets_is_named(pki):
    for use, holder in ((QWAC, pki.qwac), (SEAL, pki.qseal)):
        ours = der.write_integer(holder.certificate.serial)
        exchanged = EidasCertificate.from_der(exchange(holder.certificate.der, ours, b"\x02\x15\x01" + bytes(20)))
        (finding,) = check_certificate(exchanged, as_=use, at=pki.not_before)
        assert (finding.code, dict(finding.values)) == ("certificate.serial-too-long", {"octets": "21"})


def exchange(whole: bytes, old: bytes, new: bytes) -> bytes:
    """A certificate with the part `old`, inside or beside what is signed, changed to `new`; the signature stays as it was."""
    to_be_signed, *rest = der.read_children(whole, der.read_whole(whole, tag=der.SEQUENCE))
    parts = [[whole[part.offset : part.end] for part in of] for of in (der.read_children(whole, to_be_signed), rest)]
    assert any(old in of for of in parts)
    inner, outer = ([new if part == old else part for part in of] for of in parts)
    return der.write_sequence(der.write_sequence(*inner), *outer)


@pytest.mark.parametrize(
    ("nca_id", "exchanged"),
    [
        ("Bank of Lithuania", True),
        ("Finanstilsynet", True),
        ("LT-BL", False),
        ("", False),
        ("N/A", False),
        ("lt-bl", False),
    ],
)
def test_name_and_identifier_are_called_exchanged_only_where_they_are(nca_id, exchanged):
    assert are_name_and_id_exchanged(Psd2Statement((), "LT-BL", nca_id)) is exchanged
