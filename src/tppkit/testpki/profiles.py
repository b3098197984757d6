"""The certificates of a test PKI: names, extensions and validity, as production profiles have them.

Sources: ETSI EN 319 412-1, -3, -4, -5 and TS 119 495 (leaf profiles), RFC 5280 (authorities). Every authority says TEST in
its name, and every provider's certificate in the organisation's name or in its policy, so that none can be taken for one of
production.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID, NameOID

from tppkit.certificates import (
    EidasCertificate,
    EidasRequest,
    OrganizationIdentifier,
    PdsLocation,
    Psd2Statement,
    RoleOfPsp,
    der,
    oids,
    parse_organization_identifier,
)
from tppkit.certificates.authorities import AUTHORITIES
from tppkit.certificates.write_qcstatements import write_qc_statements
from tppkit.errors import ConfigurationError, FormatError

Extension = tuple[x509.ExtensionType, bool]

_ORGANIZATION_IDENTIFIER = x509.ObjectIdentifier(oids.ORGANIZATION_IDENTIFIER)
SERVICES_URL = "http://pki.test.example.com"
_COUNTRY = re.compile(r"[A-Z]{2}")
_DNS_NAME = re.compile(r"(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# Countries that only identifiers have: VAT's codes of Greece and Northern Ireland, and LEI's of the whole world.
_ESTABLISHED = {"EL": "GR", "XI": "GB", "XG": ""}
_UNSUPERVISED = frozenset({"PSP_CB", "PSP_PA"})  # name no authority (TS 119 495 GEN-5.2.3-1A, GEN-5.2.3-5)
_TEXT_LIMIT = 64
_QCP_L_QSCD = "0.4.0.194112.1.3"
# Website certificates for payment services only (QNCP-w-gen), or ones that browsers believe as well (QEVCP-w with CABF EV).
QWAC_POLICIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"gen": (oids.POLICY_QNCP_W_GEN,), "ev": ("2.23.140.1.1", "0.4.0.194112.1.4")}
)
_NCA_NAME_LIMIT = 256


@dataclass(frozen=True, slots=True)
class Provider:
    """A payment provider that certificates are made for.

    Attributes:
        organization_identifier: for example `PSDLT-BL-LB000000`.
        name: the organisation's name (O), 1 to 64 bytes of printable UTF-8.
        country: two letters (C).
        roles: of `oids.ROLE_OIDS`, for example `("PSP_PI", "PSP_AI")`.
        nca_name: the competent authority's name.
        nca_id: the competent authority's identifier, `CC-AUTHORITY`.
        dns_name: the name in the QWAC.
    """

    organization_identifier: OrganizationIdentifier
    name: str
    country: str
    roles: tuple[str, ...]
    nca_name: str
    nca_id: str
    dns_name: str


DEFAULT_ORGANIZATION_IDENTIFIER = "PSDLT-BL-LB000000"
DEFAULT_NAME = "Example Payments TEST"
DEFAULT_ROLES = ("PSP_PI", "PSP_AI")
DEFAULT_DNS_NAME = "tpp.test.example.com"


def make_provider(
    *,
    organization_identifier: str = DEFAULT_ORGANIZATION_IDENTIFIER,
    name: str = DEFAULT_NAME,
    country: str | None = None,
    roles: Sequence[str] = DEFAULT_ROLES,
    nca_name: str | None = None,
    dns_name: str = DEFAULT_DNS_NAME,
) -> Provider:
    """A provider, checked against the rules that its certificates will be read by.

    Args:
        organization_identifier: any form of EN 319 412-1 clause 5.1.4 or TS 119 495 GEN-5.2.1-3.
        name: the organisation's name.
        country: two letters; that of the organizationIdentifier when absent (an LEI has none).
        roles: names of TS 119 495, at least one, none twice.
        nca_name: the competent authority's name; looked up, or made from its identifier, when absent; `NA` for central banks
            and public authorities.
        dns_name: the name in the QWAC, lower case.

    Raises:
        ConfigurationError: `pki.organization-identifier`, `pki.name`, `pki.country`, `pki.role`, `pki.dns-name`.
    """
    try:
        identifier = parse_organization_identifier(organization_identifier)
    except FormatError as e:
        raise ConfigurationError("pki.organization-identifier", e.message, clause=e.clause) from e
    country = country or _ESTABLISHED.get(identifier.country or "", identifier.country or "")
    nca_id = identifier.nca_id or f"{country}-TEST"
    if _UNSUPERVISED.intersection(roles):
        nca_id, nca_name = "NA", nca_name or "NA"
    provider = Provider(
        identifier,
        name,
        country,
        tuple(roles),
        nca_name or AUTHORITIES.get(nca_id) or f"Competent authority {nca_id}",
        nca_id,
        dns_name,
    )
    _check(provider)
    return provider


def provider_of(certificate: EidasCertificate | EidasRequest) -> Provider:
    """The provider that a test certificate or request was made for.

    Raises:
        ConfigurationError: as `make_provider`.
    """
    identifier, psd2 = certificate.organization_identifier, certificate.qc.psd2
    values = certificate.subject.values
    return make_provider(
        organization_identifier=identifier.text if identifier else "",
        name=" ".join(values(oids.ORGANIZATION)),
        country=" ".join(values(oids.COUNTRY)),
        roles=certificate.roles,
        nca_name=psd2.nca_name if psd2 else None,
        dns_name=next(iter(certificate.extensions.dns_names), DEFAULT_DNS_NAME),
    )


def is_dns_name(text: str) -> bool:
    """Whether a text is a DNS name in lower case, as certificates have it."""
    return _DNS_NAME.fullmatch(text) is not None


def policy_of(qwac: EidasCertificate) -> str:
    """Which of `QWAC_POLICIES` a QWAC was made with."""
    return next((name for name, stated in QWAC_POLICIES.items() if stated == qwac.extensions.policies), "gen")


def make_other_provider(provider: Provider) -> Provider:
    """Another organisation, for what must be refused: one of two, whichever `provider` is not."""
    for identifier in ("PSDDE-BAFIN-999999", "PSDFI-FINFSA-9999999-9"):
        if identifier != provider.organization_identifier.text:
            break
    return make_provider(
        organization_identifier=identifier, name="Another Provider TEST", dns_name="other.test.example.com"
    )


def _check(provider: Provider) -> None:
    if not _COUNTRY.fullmatch(provider.country):
        raise ConfigurationError(
            "pki.country", f"the country {provider.country!r} is not two capital letters (ISO 3166)"
        )
    name_bytes = len(provider.name.encode("utf-8", "replace"))  # `cryptography` takes X.520's limit in bytes
    for what, text, size, limit in (
        ("organisation's", provider.name, name_bytes, _TEXT_LIMIT),
        ("authority's", provider.nca_name, len(provider.nca_name), _NCA_NAME_LIMIT),
    ):
        if not 1 <= size <= limit or not text.isprintable():
            raise ConfigurationError("pki.name", f"the {what} name {text[:80]!r} is empty, too long or not printable")
    unknown = [role for role in provider.roles if role not in oids.ROLE_OIDS]
    if unknown or not provider.roles or len(set(provider.roles)) != len(provider.roles):
        raise ConfigurationError(
            "pki.role",
            f"the roles {', '.join(provider.roles) or 'none'} are not one or more, each once, of {', '.join(oids.ROLE_OIDS)}",
        )
    if not is_dns_name(provider.dns_name) or len(provider.dns_name) > _TEXT_LIMIT:
        raise ConfigurationError("pki.dns-name", f"{provider.dns_name[:80]!r} is not a lower-case DNS name")


def authority_name(common_name: str) -> x509.Name:
    """The name of a test authority."""
    return _name(
        {
            NameOID.COUNTRY_NAME: "LT",
            NameOID.ORGANIZATION_NAME: "tppkit TEST Trust Services",
            _ORGANIZATION_IDENTIFIER: "NTRLT-000000000",
            NameOID.COMMON_NAME: common_name,
        }
    )


def qwac_name(provider: Provider, *, policy: str = "gen") -> x509.Name:
    """The name of a QWAC; one with the EV policy also says how the organisation is registered (EV guidelines 7.1.4.2)."""
    if policy != "ev":
        return provider_name(provider, provider.dns_name)
    country, reference = provider.country, provider.organization_identifier.reference or ""
    return _name(
        {
            NameOID.JURISDICTION_COUNTRY_NAME: country,
            NameOID.BUSINESS_CATEGORY: "Private Organization",
            NameOID.SERIAL_NUMBER: reference,
            NameOID.COUNTRY_NAME: country,
            NameOID.LOCALITY_NAME: "TEST",
            NameOID.ORGANIZATION_NAME: provider.name,
            _ORGANIZATION_IDENTIFIER: provider.organization_identifier.text,
            NameOID.COMMON_NAME: provider.dns_name,
        }
    )


def provider_name(provider: Provider, common_name: str) -> x509.Name:
    """The name of a provider's certificate (EN 319 412-3 clause 4.2.1)."""
    return _name(
        {
            NameOID.COUNTRY_NAME: provider.country,
            NameOID.ORGANIZATION_NAME: provider.name,
            _ORGANIZATION_IDENTIFIER: provider.organization_identifier.text,
            NameOID.COMMON_NAME: common_name,
        }
    )


def _name(attributes: dict[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes.items()])


def key_usage(*names: str) -> Extension:
    """A critical keyUsage of the given names (`digital_signature`, `content_commitment`, …)."""
    fields = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: name in names for name in fields}), True


def authority_extensions(*, path_length: int | None) -> list[Extension]:
    """Extensions of a root (`path_length` None) or an issuing authority."""
    return [
        (x509.BasicConstraints(ca=True, path_length=path_length), True),
        key_usage("key_cert_sign", "crl_sign"),
    ]


def qwac_extensions(provider: Provider, *, services_url: str = SERVICES_URL, policy: str = "gen") -> list[Extension]:
    """Extensions of a QWAC (EN 319 412-4, TS 119 495 clause 5.3).

    Args:
        provider: whom it is for.
        services_url: where the authority's services answer.
        policy: one of `QWAC_POLICIES`.
    """
    return [
        key_usage("digital_signature"),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), False),
        (x509.SubjectAlternativeName([x509.DNSName(provider.dns_name)]), False),
        _policies(provider, *QWAC_POLICIES[policy]),
        _qc_statements(provider, "web"),
        *([_registration(provider.organization_identifier)] if policy == "ev" else []),
        *_information("qwac", services_url),
    ]


def qseal_extensions(provider: Provider, *, services_url: str = SERVICES_URL, qscd: bool = False) -> list[Extension]:
    """Extensions of a QSealC (EN 319 412-3, TS 119 495 clause 5.4).

    Args:
        provider: whom it is for.
        services_url: where the authority's services answer.
        qscd: state that the key is in a qualified device (which no test key is).
    """
    return [
        key_usage("content_commitment"),
        _policies(provider, _QCP_L_QSCD if qscd else oids.POLICY_QCP_L),
        _qc_statements(provider, "eseal", sscd=qscd),
        *_information("qseal", services_url),
    ]


def server_extensions(names: Sequence[x509.GeneralName]) -> list[Extension]:
    """Extensions of a TLS server on this machine."""
    return [
        key_usage("digital_signature"),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName(list(names)), False),
    ]


def key_identifiers(key: CertificatePublicKeyTypes, issuer_key: CertificatePublicKeyTypes) -> list[Extension]:
    """Subject and authority key identifiers (RFC 5280 section 4.2.1.2, method 1)."""
    return [
        (x509.SubjectKeyIdentifier.from_public_key(key), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), False),  # type: ignore[arg-type]
    ]


def _policies(provider: Provider, *stated: str) -> Extension:
    """The policies; the first says TEST where the organisation's name does not."""
    notice = None if "TEST" in provider.name else [x509.UserNotice(None, "TEST certificate, not to be relied on")]
    first, *others = (x509.ObjectIdentifier(oid) for oid in stated)
    stating = [x509.PolicyInformation(first, notice), *(x509.PolicyInformation(oid, None) for oid in others)]
    return x509.CertificatePolicies(stating), False


def _registration(identifier: OrganizationIdentifier) -> Extension:
    """The organizationIdentifier again, in the parts of the CA/Browser Forum's extension (EV guidelines 7.1.2.4)."""
    reference = "-".join(part for part in (identifier.authority, identifier.reference) if part)
    value = der.write_element(
        der.SEQUENCE,
        der.write_text(identifier.scheme or "", tag=der.PRINTABLE_STRING),
        der.write_text(identifier.country or "", tag=der.PRINTABLE_STRING),
        der.write_text(reference),
    )
    return x509.UnrecognizedExtension(x509.ObjectIdentifier("2.23.140.3.1"), value), False


def _qc_statements(provider: Provider, qc_type: str, *, sscd: bool = False) -> Extension:
    value = write_qc_statements(
        qc_type=qc_type,
        psd2=Psd2Statement(
            tuple(RoleOfPsp(oids.ROLE_OIDS[r], r) for r in provider.roles), provider.nca_name, provider.nca_id
        ),
        pds=(PdsLocation("https://pki.test.example.com/pds_en.pdf", "en"),),
        sscd=sscd,
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
