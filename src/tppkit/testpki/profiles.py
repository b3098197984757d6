"""Names and extensions of the certificates of a test PKI, as production profiles prescribe them.

Every authority has the word TEST in its name. A provider's certificate has it in the organisation's name, the locality or the policy.

Sources: ETSI EN 319 412-1, -3, -4, -5 and TS 119 495 (leaf profiles), RFC 5280 (authorities), RFC 6960 section 4.2.2.2, RFC 3161
section 2.3, ETSI TS 119 612 clause 5.7.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from types import MappingProxyType

from cryptography import x509
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID

from tppkit._encoding import shown
from tppkit.certificates import EidasCertificate, OrganizationIdentifier, Psd2Statement, der, oids
from tppkit.certificates.checks.validity import public_limit_on
from tppkit.certificates.qcstatements import PdsLocation, RoleOfPsp
from tppkit.certificates.write_qcstatements import write_qc_statements
from tppkit.errors import ConfigurationError
from tppkit.testpki.certificate import Attribute, attribute_of
from tppkit.testpki.provider import Provider

Extension = tuple[x509.ExtensionType, bool]
Name = tuple[Attribute, ...]

SERVICES_URL = "http://pki.test.example.com"
PDS = (PdsLocation("https://pki.test.example.com/pds_en.pdf", "en"),)
# Registers the names of a national scheme (EN 319 412-1 LEG-5.1.4-05).
_REGISTRAR = "https://pki.test.example.com/register"
_JURISDICTION, _BUSINESS_CATEGORY = "1.3.6.1.4.1.311.60.2.1.3", "2.5.4.15"
_SERIAL_NUMBER, _LOCALITY = "2.5.4.5", "2.5.4.7"
_TEST = re.compile(r"(?<![^\W_])TEST(?![^\W_])")
_PRINTABLE_STRING = re.compile(r"[A-Za-z0-9 '()+,./:=?-]{1,64}")
EV_ATTRIBUTES = frozenset({_JURISDICTION, _BUSINESS_CATEGORY})  # only in the names of EV certificates
_TSL_SIGNING = "0.4.0.2231.3.0"
# Website certificates for payment services only (QNCP-w-gen), or also for browsers (QEVCP-w with CABF EV).
QWAC_POLICIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"gen": (oids.POLICY_QNCP_W_GEN,), "ev": ("2.23.140.1.1", "0.4.0.194112.1.4")}
)


def contains_test(text: str) -> bool:
    """Return whether a name contains the word TEST; ATTESTATION does not."""
    return _TEST.search(text) is not None


def policy_of(qwac: EidasCertificate) -> str:
    """Return which of `QWAC_POLICIES` a QWAC has."""
    return next((name for name, stated in QWAC_POLICIES.items() if stated == qwac.extensions.policies), "gen")


def require_policy(policy: str) -> str:
    """Return the policy, if it is one of `QWAC_POLICIES`.

    Raises:
        ConfigurationError: `pki.policy`.
    """
    if policy not in QWAC_POLICIES:
        raise ConfigurationError("pki.policy", f"the policy {policy!r} is not one of {', '.join(QWAC_POLICIES)}")
    return policy


def authority_name(common_name: str) -> Name:
    """Return the name of a test authority."""
    return _name(
        (oids.COUNTRY, "LT"),
        (oids.ORGANIZATION, "tppkit TEST Trust Services"),
        (oids.ORGANIZATION_IDENTIFIER, "NTRLT-000000000"),
        (oids.COMMON_NAME, common_name),
    )


def longest_days(policy: str, issued: date, wanted: int) -> int:
    """Return the wanted validity of a QWAC in days; with the policy `ev`, at least a day less than browsers accept.

    Args:
        policy: One of `QWAC_POLICIES`.
        issued: The first day of validity.
        wanted: Days.
    """
    limit = public_limit_on(issued) if policy == "ev" else None
    return wanted if limit is None else min(wanted, limit - 1)


def qwac_name(provider: Provider, *, policy: str = "gen") -> Name:
    """Return the name of a QWAC; with the EV policy, it also states the registration (EV guidelines 7.1.4.2)."""
    country, *others = provider_name(provider, provider.dns_name)
    if policy != "ev":
        return country, *others
    registered = _name(
        (_JURISDICTION, provider.country),
        (_BUSINESS_CATEGORY, "Private Organization"),
        (_SERIAL_NUMBER, _registration_number(provider.organization_identifier)),
    )
    return *registered, country, *_name((_LOCALITY, "TEST")), *others


def _registration_number(identifier: OrganizationIdentifier) -> str:
    reference = identifier.reference or ""
    if not _PRINTABLE_STRING.fullmatch(reference):
        clause = "RFC 5280 appendix A.1"
        message = f"the policy ev needs a serialNumber of 1 to 64 characters of PrintableString, not {shown(reference)} ({clause})"
        raise ConfigurationError("pki.organization-identifier", message, clause=clause)
    return reference


def provider_name(provider: Provider, common_name: str) -> Name:
    """Return the name of a provider's certificate (EN 319 412-3 clause 4.2.1)."""
    return _name(
        (oids.COUNTRY, provider.country),
        (oids.ORGANIZATION, provider.name),
        (oids.ORGANIZATION_IDENTIFIER, provider.organization_identifier.text),
        (oids.COMMON_NAME, common_name),
    )


def _name(*attributes: tuple[str, str]) -> Name:
    return tuple(attribute_of(oid, text) for oid, text in attributes)


def key_usage(*names: str) -> Extension:
    """Return a critical keyUsage with the given names, for example `digital_signature`."""
    fields = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: name in names for name in fields}), True


def purposes(*oids_: x509.ObjectIdentifier, critical: bool = False) -> Extension:
    """Return an extended key usage."""
    return x509.ExtendedKeyUsage(list(oids_)), critical


def authority_extensions(*, path_length: int | None) -> tuple[Extension, ...]:
    """Return the extensions of a root (`path_length` None) or an issuing authority."""
    return (x509.BasicConstraints(ca=True, path_length=path_length), True), key_usage("key_cert_sign", "crl_sign")


_LEAF = x509.BasicConstraints(ca=False, path_length=None)
# Extensions of the certificates that sign for the PKI, by kind: RFC 5280, RFC 6960 section 4.2.2.2.1 (the revocation of a responder
# is not checked), RFC 3161 section 2.3 (the one purpose of a time-stamping authority is critical), TS 119 612 clause 5.7.1.
SIGNER_EXTENSIONS: Mapping[str, tuple[Extension, ...]] = MappingProxyType({
    "root": authority_extensions(path_length=None),
    "issuing-ca": authority_extensions(path_length=0),
    "ocsp": (key_usage("digital_signature"), purposes(ExtendedKeyUsageOID.OCSP_SIGNING), (x509.OCSPNoCheck(), False)),
    "tsa": (key_usage("digital_signature"), purposes(ExtendedKeyUsageOID.TIME_STAMPING, critical=True)),
    "list-signer": ((_LEAF, True), key_usage("digital_signature"), purposes(x509.ObjectIdentifier(_TSL_SIGNING))),
})  # fmt: skip


def provider_profile(
    kind: str, provider: Provider, *, services_url: str = SERVICES_URL, policy: str = "gen", qscd: bool = False,
    pds: tuple[PdsLocation, ...] = PDS,
) -> tuple[Name, list[Extension]]:  # fmt: skip
    """Return the name and the extensions of a `qwac` or a `qseal`; arguments as for their extensions."""
    if kind == "qwac":
        name = qwac_name(provider, policy=policy)
        return name, qwac_extensions(provider, services_url=services_url, policy=policy, pds=pds)
    name = provider_name(provider, provider.name)
    return name, qseal_extensions(provider, services_url=services_url, qscd=qscd, pds=pds)


def qwac_extensions(
    provider: Provider, *, services_url: str = SERVICES_URL, policy: str = "gen", pds: tuple[PdsLocation, ...] = PDS
) -> list[Extension]:
    """Return the extensions of a QWAC (EN 319 412-4, TS 119 495 clause 5.3).

    Args:
        provider: The provider.
        services_url: Base URL of the authority's services.
        policy: One of `QWAC_POLICIES`.
        pds: Addresses of the authority's disclosure statements; none in a request, because only the authority knows them.
    """
    identifier = provider.organization_identifier
    return [
        key_usage("digital_signature"),
        purposes(ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
        (x509.SubjectAlternativeName([x509.DNSName(provider.dns_name)]), False),
        _policies(provider, *QWAC_POLICIES[policy]),
        _qc_statements(provider, "web", pds=pds),
        *([_registration(identifier)] if policy == "ev" and not identifier.is_local else []),
        *_information("qwac", services_url),
    ]


def qseal_extensions(
    provider: Provider, *, services_url: str = SERVICES_URL, qscd: bool = False, pds: tuple[PdsLocation, ...] = PDS
) -> list[Extension]:
    """Return the extensions of a QSealC (EN 319 412-3, TS 119 495 clause 5.4).

    Args:
        provider: The provider.
        services_url: Base URL of the authority's services.
        qscd: State that the key is in a qualified device (which no test key is).
        pds: As for `qwac_extensions`.
    """
    return [
        key_usage("content_commitment"),
        _policies(provider, oids.POLICY_QCP_L_QSCD if qscd else oids.POLICY_QCP_L),
        _qc_statements(provider, "eseal", pds=pds, sscd=qscd),
        *_information("qseal", services_url),
    ]


def server_extensions(names: Sequence[x509.GeneralName]) -> list[Extension]:
    """Return the extensions of a TLS server certificate."""
    return [
        key_usage("digital_signature"),
        purposes(ExtendedKeyUsageOID.SERVER_AUTH),
        (x509.SubjectAlternativeName(list(names)), False),
    ]


def _policies(provider: Provider, *stated: str) -> Extension:
    """Return the policies. A User Notice says TEST if the organisation's name does not.

    Policies of the CA/Browser Forum allow no User Notice (BR section 7.1.2.7.9); such a certificate has TEST as its locality.
    """
    may_notice = oids.PUBLIC_TLS_POLICIES.isdisjoint(stated) and not contains_test(provider.name)
    notice = [x509.UserNotice(None, "TEST certificate, not to be relied on")] if may_notice else None
    first, *others = (x509.ObjectIdentifier(oid) for oid in stated)
    stating = [x509.PolicyInformation(first, notice), *(x509.PolicyInformation(oid, None) for oid in others)]
    return x509.CertificatePolicies(stating), False


def _registration(identifier: OrganizationIdentifier) -> Extension:
    """Return the CA/Browser Forum's extension with the organizationIdentifier (EV guidelines 7.1.2.4)."""
    reference = "-".join(part for part in (identifier.authority, identifier.reference) if part)
    value = der.write_sequence(
        der.write_text(identifier.scheme or "", tag=der.PRINTABLE_STRING),
        der.write_text(identifier.country or "", tag=der.PRINTABLE_STRING),
        der.write_text(reference),
    )
    return x509.UnrecognizedExtension(x509.ObjectIdentifier(oids.CABF_ORGANIZATION_IDENTIFIER), value), False


def _qc_statements(provider: Provider, qc_type: str, *, pds: tuple[PdsLocation, ...], sscd: bool = False) -> Extension:
    value = write_qc_statements(
        qc_type=qc_type,
        psd2=Psd2Statement(
            tuple(RoleOfPsp(oids.ROLE_OIDS[r], r) for r in provider.roles), provider.nca_name, provider.nca_id
        ),
        pds=pds,
        sscd=sscd,
        name_registration_authorities=(_REGISTRAR,) if provider.organization_identifier.is_local else (),
    )
    return x509.UnrecognizedExtension(x509.ObjectIdentifier(oids.QC_STATEMENTS), value), False


def _information(issuer: str, services_url: str) -> list[Extension]:
    access = [
        (AuthorityInformationAccessOID.OCSP, f"{services_url}/ocsp"),
        (AuthorityInformationAccessOID.CA_ISSUERS, f"{services_url}/issuing-ca-{issuer}.der"),
    ]
    descriptions = [x509.AccessDescription(method, x509.UniformResourceIdentifier(url)) for method, url in access]
    point = x509.DistributionPoint(
        [x509.UniformResourceIdentifier(f"{services_url}/issuing-ca-{issuer}.crl")], None, None, None
    )
    return [(x509.AuthorityInformationAccess(descriptions), False), (x509.CRLDistributionPoints([point]), False)]
