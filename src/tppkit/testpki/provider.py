"""Whom certificates are made for: a payment provider, checked by the rules that its certificates will be read by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from tppkit._encoding import shown
from tppkit._iso_codes import COUNTRIES
from tppkit._text import nearest
from tppkit.certificates import (
    EidasCertificate,
    EidasRequest,
    OrganizationIdentifier,
    general_names,
    oids,
    parse_organization_identifier,
)
from tppkit.certificates.authorities import AUTHORITIES
from tppkit.errors import ConfigurationError, FormatError

DEFAULT_ORGANIZATION_IDENTIFIER = "PSDLT-BL-LB000000"
DEFAULT_NAME = "Example Payments TEST"
DEFAULT_ROLES = ("PSP_PI", "PSP_AI")
DEFAULT_DNS_NAME = "tpp.test.example.com"

# VAT's own codes, and where who has them is established.
_ESTABLISHED: Mapping[str, str] = MappingProxyType({"EL": "GR", "XI": "GB"})
# What is written for a country and is not its code.
_MEANT: Mapping[str, str] = MappingProxyType({"EL": "GR", "UK": "GB"})
NOT_APPLICABLE = "NA"
UNSUPERVISED = frozenset({"PSP_CB", "PSP_PA"})  # name no authority (TS 119 495 GEN-5.2.3-1A, GEN-5.2.3-5)
# Characters: organisation and common name (RFC 5280 appendix A.1, X.520 annex C), NCAName (TS 119 495 annex A).
_NAME_LIMIT, _NCA_NAME_LIMIT = 64, 256


@dataclass(frozen=True, slots=True)
class Provider:
    """A payment provider that certificates are made for.

    Attributes:
        organization_identifier: for example `PSDLT-BL-LB000000`.
        name: the organisation's name (O), 1 to 64 printable characters.
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
        country: two letters; that of the organizationIdentifier when None (an LEI has none).
        roles: names of TS 119 495, at least one, none twice.
        nca_name: the competent authority's name; looked up, or made from its identifier, when None; `NA` for central banks
            and public authorities.
        dns_name: the name in the QWAC, lower case.

    Raises:
        ConfigurationError: `pki.organization-identifier`, `pki.name`, `pki.country`, `pki.role`, `pki.dns-name`.
    """
    identifier = _require_identifier(organization_identifier)
    country = _require_country(_country_of(identifier) if country is None else country)
    if identifier.text.casefold() == name.casefold():
        raise ConfigurationError(
            "pki.name", "the organisation's name is its organizationIdentifier (EN 319 412-3 LEG-4.2.1-6)"
        )
    roles = _require_roles(roles)
    nca_id = NOT_APPLICABLE if UNSUPERVISED.intersection(roles) else _nca_id_of(identifier, country)
    if nca_name is None:
        nca_name = authority_name_of(nca_id)
    return Provider(
        identifier,
        _require_name(name, what="organisation's", limit=_NAME_LIMIT),
        country,
        roles,
        _require_name(nca_name, what="authority's", limit=_NCA_NAME_LIMIT),
        nca_id,
        _require_dns_name(dns_name),
    )


def authority_name_of(nca_id: str) -> str:
    """The competent authority's name where it is known, else one made from its identifier; `NA` for `NA`."""
    return AUTHORITIES.get(nca_id) or (NOT_APPLICABLE if nca_id == NOT_APPLICABLE else f"Competent authority {nca_id}")


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


def make_provider_like(
    provider: Provider,
    *,
    organization_identifier: str | None = None,
    name: str | None = None,
    country: str | None = None,
    roles: Sequence[str] | None = None,
    nca_name: str | None = None,
    dns_name: str | None = None,
) -> Provider:
    """A provider like another but for what is given; the country goes with the identifier, the authority's name with the authority.

    Raises:
        ConfigurationError: as `make_provider`.
    """
    if country is None and organization_identifier is None:
        country = provider.country
    made = make_provider(
        organization_identifier=_given(organization_identifier, provider.organization_identifier.text),
        name=_given(name, provider.name),
        country=country,
        roles=provider.roles if roles is None else roles,
        nca_name=nca_name,
        dns_name=_given(dns_name, provider.dns_name),
    )
    keeps_authority = nca_name is None and made.nca_id == provider.nca_id
    return replace(made, nca_name=provider.nca_name) if keeps_authority else made


def _given(value: str | None, otherwise: str) -> str:
    return otherwise if value is None else value


def make_other_provider(provider: Provider) -> Provider:
    """Another organisation, for what must be refused: one of two, whichever `provider` is not."""
    for identifier in ("PSDDE-BAFIN-999999", "PSDFI-FINFSA-9999999-9"):
        if identifier != provider.organization_identifier.text:
            break
    return make_provider(
        organization_identifier=identifier, name="Another Provider TEST", dns_name="other.test.example.com"
    )


def is_dns_name(text: str) -> bool:
    """Whether a text is a DNS name in lower case, as certificates have it."""
    return general_names.is_dns_name(text) and text == text.lower()


def _require_identifier(text: str) -> OrganizationIdentifier:
    try:
        identifier = parse_organization_identifier(text)
    except FormatError as e:
        raise ConfigurationError("pki.organization-identifier", _with_clause(e), clause=e.clause) from e
    if not identifier.is_usable:
        message = f"{shown(text)} names no organisation: its number is a placeholder"
        raise ConfigurationError("pki.organization-identifier", message)
    if not identifier.has_known_country:
        clause = "EN 319 412-1 LEG-5.1.4-03"
        message = (
            f"{shown(text)} names the country {identifier.country}, which is not in ISO 3166-1 nor one that {identifier.scheme}"
            f" has besides{_meant(identifier.country)} ({clause})"
        )
        raise ConfigurationError("pki.organization-identifier", message, clause=clause)
    return identifier


def _with_clause(error: FormatError) -> str:
    return f"{error.message} ({error.clause})" if error.clause else error.message


def _meant(country: str | None) -> str:
    meant = _MEANT.get(country or "")
    return f": {meant} is meant" if meant else ""


def _country_of(identifier: OrganizationIdentifier) -> str:
    """The country in which the organisation is established, where the identifier says it."""
    country = _ESTABLISHED.get(identifier.country or "", identifier.country or "")
    if country not in COUNTRIES:
        message = f"{identifier.text} does not say in which country the organisation is: give it (--country)"
        raise ConfigurationError("pki.country", message)
    return country


def _require_country(country: str) -> str:
    if country not in COUNTRIES:
        message = f"the country {shown(country)} is not two capital letters of ISO 3166-1{_meant(country)}"
        raise ConfigurationError(
            "pki.country", f"{message} (EN 319 412-3 LEG-4.2.1-4)", clause="EN 319 412-3 LEG-4.2.1-4"
        )
    return country


def _require_roles(roles: Sequence[str]) -> tuple[str, ...]:
    if not roles or len(set(roles)) != len(roles) or not oids.ROLE_OIDS.keys() >= set(roles):
        stated = shown(", ".join(roles)) if roles else "none"
        known = ", ".join(oids.ROLE_OIDS)
        message = f"the roles ({stated}) are not one or more, each once, of {known} (TS 119 495 GEN-5.2.2-1)"
        meant = {role: oids.ROLE_OF_PROVIDER.get(role.upper()) or nearest(role, oids.ROLE_OIDS) for role in roles}
        hints = [f"for {role[:40]} give {found}" for role, found in meant.items() if found and found != role]
        message += f"; {', '.join(hints)}" if hints else ""
        raise ConfigurationError("pki.role", message, clause="TS 119 495 GEN-5.2.2-1")
    return tuple(roles)


def _nca_id_of(identifier: OrganizationIdentifier, country: str) -> str:
    if identifier.country not in COUNTRIES and identifier.nca_id is not None:
        clause = "TS 119 495 GEN-5.2.3-2"
        message = f"the authority {identifier.nca_id} is of no country of ISO 3166-1 ({clause}): only PSP_CB and PSP_PA name none"
        raise ConfigurationError("pki.organization-identifier", message, clause=clause)
    return identifier.nca_id or f"{country}-TEST"


def _require_name(name: str, *, what: str, limit: int) -> str:
    if not 1 <= len(name) <= limit or not name.isprintable():
        message = f"the {what} name {shown(name)} has {len(name)} characters, not 1 to {limit} printable ones"
        raise ConfigurationError("pki.name", message)
    return name


def _require_dns_name(name: str) -> str:
    if not is_dns_name(name) or len(name) > _NAME_LIMIT:  # it is the common name too
        message = f"{shown(name)} is not a DNS name in lower case of 1 to {_NAME_LIMIT} characters"
        raise ConfigurationError("pki.dns-name", message)
    return name
