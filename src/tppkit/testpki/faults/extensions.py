"""Faults of extensions: usage, policies, names, addresses."""

from __future__ import annotations

from dataclasses import replace

from cryptography import x509
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID

from tppkit.certificates import der, oids
from tppkit.testpki.draft import Draft, Extension, extension_of
from tppkit.testpki.faults.case import NOTES, WARNS
from tppkit.testpki.faults.edits import seq, with_attribute, with_criticality
from tppkit.testpki.faults.registry import qwac_fault, seal_fault
from tppkit.testpki.profiles import SERVICES_URL, key_usage

_SERVER, _CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
_TEST_POLICY = "2.999.1"


def _with(draft: Draft, extension: x509.ExtensionType, *, critical: bool = False) -> Draft:
    return draft.with_extension(extension_of(extension, critical))


def _with_usage(draft: Draft, *names: str, critical: bool = True) -> Draft:
    return _with(draft, key_usage(*names)[0], critical=critical)


def _with_purposes(draft: Draft, *purposes: x509.ObjectIdentifier, critical: bool = False) -> Draft:
    return _with(draft, x509.ExtendedKeyUsage(list(purposes)), critical=critical)


def _with_policies(draft: Draft, *policies: str, critical: bool = False) -> Draft:
    stated = [x509.PolicyInformation(x509.ObjectIdentifier(policy), None) for policy in policies]
    return _with(draft, x509.CertificatePolicies(stated), critical=critical)


def _with_access(draft: Draft, *locations: tuple[x509.ObjectIdentifier, str]) -> Draft:
    access = [x509.AccessDescription(method, x509.UniformResourceIdentifier(url)) for method, url in locations]
    return _with(draft, x509.AuthorityInformationAccess(access))


def _with_crl_address(draft: Draft, url: str) -> Draft:
    point = x509.DistributionPoint([x509.UniformResourceIdentifier(url)], None, None, None)
    return _with(draft, x509.CRLDistributionPoints([point]))


_OCSP = (AuthorityInformationAccessOID.OCSP, f"{SERVICES_URL}/ocsp")
_ISSUER = (AuthorityInformationAccessOID.CA_ISSUERS, f"{SERVICES_URL}/issuing-ca-qwac.der")


@qwac_fault("certificate.is-ca")
def provider_as_authority(draft: Draft) -> Draft:
    """The QWAC says that it is an authority."""
    return _with(draft, x509.BasicConstraints(ca=True, path_length=None), critical=True)


@qwac_fault("certificate.precertificate", "path.pre-certificate")
def precertificate(draft: Draft) -> Draft:
    """The certificate is the pre-certificate of certificate transparency: its poison is there."""
    return _with(draft, x509.PrecertPoison(), critical=True)


@qwac_fault("certificate.critical-extension", "path.critical-extension")
def unknown_critical_extension(draft: Draft) -> Draft:
    """A critical extension is one that nobody knows."""
    return draft.with_extension(Extension("2.999.7", b"\x05\x00", critical=True))


@qwac_fault(
    "certificate.common-name", "certificate.extension-malformed", "certificate.no-dns-name", "path.extension-malformed"
)
def malformed_extension(draft: Draft) -> Draft:
    """The subject alternative name is no DER."""
    return draft.with_extension(Extension(oids.SUBJECT_ALTERNATIVE_NAME, b"\x30\x80"))


@qwac_fault("certificate.no-client-auth")
def no_client_auth(draft: Draft) -> Draft:
    """The QWAC is for servers only."""
    return _with_purposes(draft, _SERVER)


@qwac_fault("certificate.no-server-auth")
def no_server_auth(draft: Draft) -> Draft:
    """The QWAC is for clients only."""
    return _with_purposes(draft, _CLIENT)


@qwac_fault("certificate.no-client-auth", "certificate.no-server-auth")
def no_extended_key_usage(draft: Draft) -> Draft:
    """The QWAC has no extended key usage."""
    return draft.without_extension(oids.EXTENDED_KEY_USAGE)


@qwac_fault("certificate.no-client-auth", "certificate.no-server-auth")
def email_only(draft: Draft) -> Draft:
    """The QWAC is for e-mail only."""
    return _with_purposes(draft, ExtendedKeyUsageOID.EMAIL_PROTECTION)


@seal_fault("certificate.extended-key-usage")
def seal_for_time_stamps(draft: Draft) -> Draft:
    """The QSealC is for time stamps only."""
    return _with_purposes(draft, ExtendedKeyUsageOID.TIME_STAMPING)


@qwac_fault("certificate.key-usage-missing")
def no_key_usage(draft: Draft) -> Draft:
    """The QWAC has no key usage."""
    return draft.without_extension(oids.KEY_USAGE)


@qwac_fault("certificate.key-usage")
def qwac_for_encipherment(draft: Draft) -> Draft:
    """The QWAC's key is for encipherment only."""
    return _with_usage(draft, "key_encipherment")


@seal_fault("certificate.key-usage")
def seal_for_encipherment(draft: Draft) -> Draft:
    """The QSealC's key is for encipherment only."""
    return _with_usage(draft, "key_encipherment")


@seal_fault("certificate.key-usage")
def seal_without_key_usage(draft: Draft) -> Draft:
    """The QSealC has no key usage."""
    return draft.without_extension(oids.KEY_USAGE)


@seal_fault("certificate.key-usage-mixed", verdict=WARNS)
def seal_of_mixed_usage(draft: Draft) -> Draft:
    """The QSealC's key is for content commitment and for authentication."""
    return _with_usage(draft, "digital_signature", "content_commitment")


@seal_fault("certificate.key-usage-authentication", verdict=NOTES)
def seal_for_authentication(draft: Draft) -> Draft:
    """The QSealC's key is for authentication only."""
    return _with_usage(draft, "digital_signature")


@qwac_fault("certificate.key-usage-not-critical", verdict=WARNS)
def key_usage_not_critical(draft: Draft) -> Draft:
    """The key usage is not critical."""
    return _with_usage(draft, "digital_signature", critical=False)


@qwac_fault("certificate.key-usage-type")
def qwac_of_no_usage_type(draft: Draft) -> Draft:
    """The key usage is none of the types that the standard lists."""
    return _with_usage(draft, "digital_signature", "data_encipherment")


@qwac_fault("certificate.no-authority-key")
def no_authority_key_identifier(draft: Draft) -> Draft:
    """The authority key identifier is absent."""
    return draft.without_extension(oids.AUTHORITY_KEY_IDENTIFIER)


@qwac_fault("certificate.no-subject-key", verdict=WARNS)
def no_subject_key_identifier(draft: Draft) -> Draft:
    """The subject key identifier is absent."""
    return draft.without_extension(oids.SUBJECT_KEY_IDENTIFIER)


@qwac_fault("certificate.authority-extension")
def authority_extension(draft: Draft) -> Draft:
    """The QWAC has an extension that only authorities may have."""
    return _with(draft, x509.InhibitAnyPolicy(0))


@qwac_fault("certificate.no-information-access")
def no_information_access(draft: Draft) -> Draft:
    """Nothing says where the issuer's certificate and OCSP are."""
    return draft.without_extension(oids.AUTHORITY_INFORMATION_ACCESS)


@qwac_fault("certificate.no-issuer-location")
def no_issuer_location(draft: Draft) -> Draft:
    """Nothing says where the issuer's certificate is."""
    return _with_access(draft, _OCSP)


@qwac_fault("certificate.no-status-location")
def no_status_location(draft: Draft) -> Draft:
    """Nothing says where revocation can be looked up."""
    return _with_access(draft, _ISSUER).without_extension(oids.CRL_DISTRIBUTION_POINTS)


@qwac_fault("certificate.crl-scheme")
def crl_over_ftp(draft: Draft) -> Draft:
    """The revocation list is at an ftp address."""
    return _with_crl_address(draft, "ftp://pki.test.example.com/issuing-ca-qwac.crl")


@qwac_fault("certificate.internal-address", verdict=WARNS)
def crl_on_loopback(draft: Draft) -> Draft:
    """The revocation list is at an address of nobody else's network."""
    return _with_crl_address(draft, "http://127.0.0.1/issuing-ca-qwac.crl")


@qwac_fault("certificate.no-policy")
def no_policies(draft: Draft) -> Draft:
    """The certificate policies are absent."""
    return draft.without_extension(oids.CERTIFICATE_POLICIES)


@qwac_fault("certificate.no-qualified-policy", verdict=WARNS)
def no_qualified_policy(draft: Draft) -> Draft:
    """No policy is one of EN 319 411-2."""
    return _with_policies(draft, _TEST_POLICY)


@seal_fault("certificate.policy-mismatch", "certificate.several-qualified-policies")
def two_qualified_policies(draft: Draft) -> Draft:
    """The policies of seals and of natural persons' signatures stand together."""
    return _with_policies(draft, oids.POLICY_QCP_L, "0.4.0.194112.1.0")


@qwac_fault("certificate.policy-mismatch")
def seal_policy_in_qwac(draft: Draft) -> Draft:
    """The QWAC has the policy of seals."""
    return _with_policies(draft, oids.POLICY_QCP_L)


@seal_fault("certificate.policy-mismatch")
def web_policy_in_seal(draft: Draft) -> Draft:
    """The QSealC has the policy of website certificates."""
    return _with_policies(draft, oids.POLICY_QNCP_W_GEN)


@seal_fault("qcstatements.no-sscd")
def device_policy_without_statement(draft: Draft) -> Draft:
    """The policy says that the key is in a qualified device; no statement does."""
    return _with_policies(draft, "0.4.0.194112.1.3")


@seal_fault("certificate.psd2-policy-on-seal", verdict=WARNS)
def psd2_policy_in_seal(draft: Draft) -> Draft:
    """The QSealC has the policy of PSD2 website certificates beside its own."""
    return _with_policies(draft, oids.POLICY_QCP_L, "0.4.0.19495.3.1")


@qwac_fault("certificate.should-not-be-critical", verdict=WARNS)
def critical_policies(draft: Draft) -> Draft:
    """The certificate policies are critical."""
    return with_criticality(draft, oids.CERTIFICATE_POLICIES, True)


@qwac_fault("certificate.critical-extension", "certificate.must-not-be-critical", "path.critical-extension")
def critical_crl_address(draft: Draft) -> Draft:
    """The CRL distribution points are critical."""
    return with_criticality(draft, oids.CRL_DISTRIBUTION_POINTS, True)


@qwac_fault("certificate.common-name", "certificate.no-dns-name")
def no_dns_name(draft: Draft) -> Draft:
    """The QWAC has no subject alternative name."""
    return draft.without_extension(oids.SUBJECT_ALTERNATIVE_NAME)


@qwac_fault("certificate.common-name")
def common_name_elsewhere(draft: Draft) -> Draft:
    """The commonName is none of the DNS names."""
    return with_attribute(draft, oids.COMMON_NAME, "elsewhere.test.example.com")


@qwac_fault("certificate.internal-name")
def internal_name(draft: Draft) -> Draft:
    """A DNS name is one that only an inner network knows."""
    names = [x509.DNSName(name) for name in (_common_name(draft), "tpp.internal")]
    return _with(draft, x509.SubjectAlternativeName(names))


def _common_name(draft: Draft) -> str:
    return next(text for oid, text, _ in draft.subject if oid == oids.COMMON_NAME)


@qwac_fault("certificate.extension-malformed", "path.extension-malformed")
def extension_twice(draft: Draft) -> Draft:
    """The key usage stands twice."""
    usage = next(extension for extension in draft.extensions if extension.oid == oids.KEY_USAGE)
    return replace(draft, extensions=(*draft.extensions, usage))


@qwac_fault("certificate.extension-malformed", "path.extension-malformed")
def written_default(draft: Draft) -> Draft:
    """BasicConstraints writes out that it is no authority, which DER leaves out."""
    return draft.with_extension(Extension(oids.BASIC_CONSTRAINTS, seq(der.write_element(der.BOOLEAN, b"\x00"))))
