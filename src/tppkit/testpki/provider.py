"""The payment provider that certificates name, checked by the rules that its certificates are read by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tppkit._encoding import shown
from tppkit._iso_codes import COUNTRIES
from tppkit._text import nearest
from tppkit.certificates import EidasCertificate, OrganizationIdentifier, general_names, oids
from tppkit.certificates.authorities import AUTHORITIES
from tppkit.certificates.certificate import EidasRequest
from tppkit.certificates.identifier import parse_organization_identifier
from tppkit.errors import ConfigurationError, FormatError

# Country codes of VAT numbers only, and the country in ISO 3166-1.
_VAT_COUNTRIES: Mapping[str, str] = MappingProxyType({"EL": "GR", "XI": "GB"})
NOT_APPLICABLE = "NA"
UNSUPERVISED = frozenset({"PSP_CB", "PSP_PA"})  # roles without an authority (TS 119 495 GEN-5.2.3-1A, GEN-5.2.3-5)
# Characters: organisation and common name (RFC 5280 appendix A.1, X.520 annex C), NCAName (TS 119 495 annex A).
_NAME_LIMIT, _NCA_NAME_LIMIT = 64, 256


@dataclass(frozen=True, slots=True)
class Provider:
    """A payment provider that certificates name.

    provider = make_provider(organization_identifier="PSDDE-BAFIN-123456", name="Zahlgut TEST", roles=["PSP_AI"])
    pki = make_pki(at=utc_now(), provider=provider)

    Attributes:
        organization_identifier: For example `PSDLT-BL-LB000000`.
        name: The organisation's name (O), 1 to 64 printable characters.
        country: Two letters (C).
        roles: Of `oids.ROLE_OIDS`, for example `("PSP_PI", "PSP_AI")`.
        nca_name: The competent authority's name.
        nca_id: The competent authority's identifier, `CC-AUTHORITY`.
        dns_name: The DNS name in the QWAC.
    """

    organization_identifier: OrganizationIdentifier
    name: str
    country: str
    roles: tuple[str, ...]
    nca_name: str
    nca_id: str
    dns_name: str


EXAMPLE = Provider(
    organization_identifier=parse_organization_identifier("PSDLT-BL-LB000000"), name="Example Payments TEST", country="LT",
    roles=("PSP_PI", "PSP_AI"), nca_name=AUTHORITIES["LT-BL"], nca_id="LT-BL", dns_name="tpp.test.example.com",
)  # fmt: skip


def make_provider(
    *, organization_identifier: str | None = None, name: str | None = None, country: str | None = None,
    roles: Sequence[str] | None = None, nca_name: str | None = None, dns_name: str | None = None, like: Provider = EXAMPLE,
) -> Provider:  # fmt: skip
    """Make a provider whose certificates follow the rules.

    Args:
        organization_identifier: Any form of EN 319 412-1 clause 5.1.4 or TS 119 495 GEN-5.2.1-3.
        name: The organisation's name.
        country: Two letters. If the organizationIdentifier differs from that of `like`, its country by default (an LEI has none).
        roles: One or more names of TS 119 495, each once.
        nca_name: The competent authority's name. If the authority differs from that of `like`, it is by default looked up, or
            made from the identifier; `NA` for central banks and public authorities.
        dns_name: The DNS name in the QWAC, lower case.
        like: The provider whose values are the defaults.

    Raises:
        ConfigurationError: `pki.organization-identifier`, `pki.name`, `pki.country`, `pki.role`, `pki.dns-name`.
    """
    text = like.organization_identifier.text if organization_identifier is None else organization_identifier
    identifier, name = _require_identifier(text), like.name if name is None else name
    if country is None:
        country = like.country if identifier == like.organization_identifier else _country_of(identifier)
    country = _require_country(country)
    if identifier.text.casefold() == name.casefold():
        message = "the organisation's name is its organizationIdentifier (EN 319 412-3 LEG-4.2.1-6)"
        raise ConfigurationError("pki.name", message)
    roles = _require_roles(like.roles if roles is None else roles)
    nca_id = NOT_APPLICABLE if UNSUPERVISED.intersection(roles) else _nca_id_of(identifier, country)
    if nca_name is None:
        nca_name = like.nca_name if nca_id == like.nca_id else _authority_name(nca_id)
    return Provider(
        organization_identifier=identifier,
        name=_require_name(name, what="organisation's", limit=_NAME_LIMIT),
        country=country,
        roles=roles,
        nca_name=_require_name(nca_name, what="authority's", limit=_NCA_NAME_LIMIT),
        nca_id=nca_id,
        dns_name=_require_dns_name(like.dns_name if dns_name is None else dns_name),
    )


def provider_of(certificate: EidasCertificate | EidasRequest) -> Provider:
    """Return the provider that a test certificate or request names.

    Raises:
        ConfigurationError: As `make_provider`.
    """
    identifier, psd2 = certificate.organization_identifier, certificate.qc.psd2
    values = certificate.subject.values
    return make_provider(
        organization_identifier=identifier.text if identifier else "",
        name=" ".join(values(oids.ORGANIZATION)),
        country=" ".join(values(oids.COUNTRY)),
        roles=certificate.roles,
        nca_name=psd2.nca_name if psd2 else None,
        dns_name=next(iter(certificate.extensions.dns_names), None),
    )


def make_other_provider(provider: Provider) -> Provider:
    """Make another organisation than `provider`."""
    candidates = ("PSDDE-BAFIN-999999", "PSDFI-FINFSA-9999999-9")
    identifier = next(one for one in candidates if one != provider.organization_identifier.text)
    return make_provider(
        organization_identifier=identifier, name="Another Provider TEST", dns_name="other.test.example.com"
    )


def make_bank(provider: Provider) -> Provider:
    """Make a bank (PSP_AS), another organisation than `provider`."""
    candidates = ("PSDLT-BL-LB900000", "PSDDE-BAFIN-900000")
    identifier = next(one for one in candidates if one != provider.organization_identifier.text)
    return make_provider(
        organization_identifier=identifier, name="Example Bank TEST", roles=["PSP_AS"], dns_name="bank.test.example.com"
    )


def is_dns_name(text: str) -> bool:
    """Return whether a text is a DNS name in lower case, as certificates contain it."""
    return general_names.is_dns_name(text) and text == text.lower()


def _authority_name(nca_id: str) -> str:
    return AUTHORITIES.get(nca_id) or (NOT_APPLICABLE if nca_id == NOT_APPLICABLE else f"Competent authority {nca_id}")


def _require_identifier(text: str) -> OrganizationIdentifier:
    try:
        identifier = parse_organization_identifier(text)
    except FormatError as e:
        message = f"{e.message} ({e.clause})" if e.clause else e.message
        raise ConfigurationError("pki.organization-identifier", message, clause=e.clause) from e
    if not identifier.is_usable:
        message = f"{shown(text)} names no organisation: its number is a placeholder"
        raise ConfigurationError("pki.organization-identifier", message)
    if not identifier.has_known_country:
        clause = "EN 319 412-1 LEG-5.1.4-03"
        message = (
            f"{shown(text)} names the country {identifier.country}, which is neither in ISO 3166-1 nor allowed for"
            f" {identifier.scheme} ({clause})"
        )
        raise ConfigurationError("pki.organization-identifier", message, clause=clause)
    return identifier


def _country_of(identifier: OrganizationIdentifier) -> str:
    """Return the country of the organisation, if the identifier states it."""
    country = _VAT_COUNTRIES.get(identifier.country or "", identifier.country or "")
    if country not in COUNTRIES:
        message = f"{identifier.text} does not state in which country the organisation is: give it (--country)"
        raise ConfigurationError("pki.country", message)
    return country


def _require_country(country: str) -> str:
    if country not in COUNTRIES:
        clause = "EN 319 412-3 LEG-4.2.1-4"
        message = f"the country {shown(country)} is not two capital letters of ISO 3166-1 ({clause})"
        raise ConfigurationError("pki.country", message, clause=clause)
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
        message = f"the authority {identifier.nca_id} has no country of ISO 3166-1 ({clause}): only PSP_CB and PSP_PA name none"
        raise ConfigurationError("pki.organization-identifier", message, clause=clause)
    return identifier.nca_id or f"{country}-TEST"


def _require_name(name: str, *, what: str, limit: int) -> str:
    if not 1 <= len(name) <= limit or not name.isprintable():
        message = f"the {what} name {shown(name)} has {len(name)} characters, not 1 to {limit} printable ones"
        raise ConfigurationError("pki.name", message)
    return name


def _require_dns_name(name: str) -> str:
    if not is_dns_name(name) or len(name) > _NAME_LIMIT:  # it is also the common name
        message = (
            f"{shown(name)} is not a DNS name in lower case, without underscores, of 1 to {_NAME_LIMIT} characters"
        )
        raise ConfigurationError("pki.dns-name", message)
    return name
