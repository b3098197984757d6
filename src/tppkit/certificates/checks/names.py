"""Checks of the subject: its attributes, its organizationIdentifier, and the DNS names of a website certificate."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import datetime

from tppkit._encoding import shown
from tppkit._iso_codes import COUNTRIES
from tppkit.certificates import der, oids
from tppkit.certificates.certificate import EidasCertificate
from tppkit.certificates.general_names import is_dns_name
from tppkit.certificates.identifier import MAX_LENGTH, parse_organization_identifier
from tppkit.certificates.names import DistinguishedName
from tppkit.certificates.rule import Check, Fault
from tppkit.errors import FormatError

# RFC 5280 section 4.1.2.4 and appendix A.1: string types, and upper bounds in characters. Organisation, unit and common
# name may be longer (EN 319 412-3 LEG-4.2.1-9), but not in a public website certificate.
_ANY_STRING = frozenset({der.UTF8_STRING, der.PRINTABLE_STRING})
_STRING_TYPES = {
    oids.COUNTRY: frozenset({der.PRINTABLE_STRING}),
    "2.5.4.5": frozenset({der.PRINTABLE_STRING}),
    "1.2.840.113549.1.9.1": frozenset({der.IA5_STRING}),
    "0.9.2342.19200300.100.1.25": frozenset({der.IA5_STRING}),
}
_LENGTHS = {"2.5.4.5": 64, "2.5.4.7": 128, "2.5.4.8": 128, "1.2.840.113549.1.9.1": 255}
_PUBLIC_LENGTHS = _LENGTHS | {oids.COMMON_NAME: 64, oids.ORGANIZATION: 64, "2.5.4.11": 64}
# The last three are of RFC 2606: no public DNS name is below them.
_INTERNAL_ZONES = (
    ".local", ".localhost", ".localdomain", ".internal", ".intranet", ".private", ".lan", ".home", ".corp", ".home.arpa",
    ".test", ".example", ".invalid",
)  # fmt: skip
_NATURAL_PERSON = ("2.5.4.42", "2.5.4.4", "2.5.4.65")  # givenName, surname, pseudonym
_STATE = 0x80  # registrationStateOrProvince [0] IMPLICIT PrintableString


def missing_issuer_attribute(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The issuer, a legal person, lacks country, organisation or common name.

    Authorities that issue public website certificates follow the CA/Browser Forum's rule on common names instead.
    """
    issuer = certificate.issuer
    if any(issuer.values(oid) for oid in _NATURAL_PERSON):
        return None
    absent = _missing(issuer, with_common_name=not certificate.extensions.is_public_tls)
    return (f"the issuer has no {absent}", {"missing": absent}) if absent else None


def _missing(name: DistinguishedName, *, with_common_name: bool) -> str:
    needed = [oids.COUNTRY, oids.ORGANIZATION, *([oids.COMMON_NAME] if with_common_name else [])]
    return ", ".join(oids.NAME_ATTRIBUTES[oid] for oid in needed if not name.values(oid))


def missing_attribute(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The subject lacks country, organisation or common name; a public website certificate needs no common name."""
    absent = _missing(certificate.subject, with_common_name=not certificate.extensions.is_public_tls)
    return (f"the subject has no {absent}", {"missing": absent}) if absent else None


def repeated_attribute(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The subject has country, organisation or common name twice."""
    subject = certificate.subject
    twice = [
        oids.NAME_ATTRIBUTES[oid]
        for oid in (oids.COUNTRY, oids.ORGANIZATION, oids.COMMON_NAME)
        if len(subject.values(oid)) > 1
    ]
    if not twice:
        return None
    return f"the subject has {', '.join(twice)} more than once", {"repeated": ", ".join(twice)}


def unknown_country(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The subject's country is not in ISO 3166."""
    for country in certificate.subject.values(oids.COUNTRY):
        if country not in COUNTRIES:
            return f"the country {shown(country)} is not in ISO 3166-1", {"country": country}
    return None


def string_type(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A subject attribute has a string type that its syntax does not allow."""
    for oid, tag, value in _attributes(certificate):
        if tag not in _STRING_TYPES.get(oid, _ANY_STRING):
            name = oids.NAME_ATTRIBUTES.get(oid, oid)
            message = f"the subject's {name} has string type 0x{tag:02x}, which is not allowed"
            return message, {"attribute": name, "tag": f"0x{tag:02x}", "value": value}
    return None


def string_length(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A subject attribute is empty or longer than its syntax allows."""
    limits = _PUBLIC_LENGTHS if certificate.extensions.is_public_tls else _LENGTHS
    for rdn in certificate.subject.rdns:
        for oid, value in rdn:
            if oid == oids.COUNTRY and len(value) != 2:
                return f"the country {shown(value)} does not have two letters", {"attribute": "C", "value": value}
            if not value or len(value) > limits.get(oid, len(value)):
                name = oids.NAME_ATTRIBUTES.get(oid, oid)
                message = f"the subject's {name} has {len(value)} characters, not 1 to {limits.get(oid, 'any number')}"
                return message, {"attribute": name, "characters": str(len(value))}
    return None


def _attributes(certificate: EidasCertificate) -> Iterator[tuple[str, int, str]]:
    """Yield (identifier, string tag, value) of the subject's attributes, from DER because names do not keep string types."""
    data = certificate.der
    parts = der.read_children(data, der.read_children(data, der.read_whole(data, tag=der.SEQUENCE))[0])
    subject = parts[(1 if parts[0].tag == 0xA0 else 0) + 4]
    for rdn, values in zip(der.read_children(data, subject), certificate.subject.rdns, strict=True):
        for pair, (oid, value) in zip(der.read_children(data, rdn), values, strict=True):
            yield oid, der.read_children(data, pair)[1].tag, value


def no_organization_identifier(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The subject has no or several organizationIdentifiers."""
    values = certificate.subject.values(oids.ORGANIZATION_IDENTIFIER)
    if len(values) == 1 and values[0]:
        return None
    if len(values) > 1:
        return f"the subject has {len(values)} organizationIdentifiers", {"organization_identifiers": ", ".join(values)}
    return "the subject has no organizationIdentifier", {}


def unusable_identifier(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The organizationIdentifier cannot name an organisation, or may look like another one."""
    identifier = certificate.organization_identifier
    if identifier is None or not identifier.text or identifier.is_usable:
        return None
    message = (
        f"the organizationIdentifier {shown(identifier.text)} names no organisation: it is a placeholder, longer than"
        f" {MAX_LENGTH} characters, or has invisible characters"
    )
    return message, {"organization_identifier": identifier.text}


def unusual_identifier(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The organizationIdentifier has leading, trailing or double white space, or letters that are not ASCII."""
    identifier = certificate.organization_identifier
    if identifier is None or not identifier.is_usable:
        return None
    text = identifier.text
    if text.isascii() and text == " ".join(text.split()):
        return None
    message = (
        f"{shown(text)} has leading, trailing or double white space, or letters beyond ASCII, so comparisons may fail"
    )
    return message, {"organization_identifier": text}


def identifier_form(code: str) -> Check:
    """The organizationIdentifier cannot be parsed, with this code as the reason."""

    def check(certificate: EidasCertificate, at: datetime) -> Fault | None:
        identifier = certificate.organization_identifier
        if identifier is None or identifier.scheme is not None:
            return None
        try:
            parse_organization_identifier(identifier.text)
        except FormatError as e:
            return (e.message, {"organization_identifier": identifier.text}) if e.code == code else None
        return None

    return check


def identifier_country(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The country of the organizationIdentifier does not exist in its scheme."""
    identifier = certificate.organization_identifier
    if identifier is None or identifier.scheme is None or identifier.country is None:
        return None
    if identifier.has_known_country:
        return None
    message = (
        f"{shown(identifier.text)} names the country {identifier.country}, which {identifier.scheme} does not have"
    )
    return message, {"organization_identifier": identifier.text, "country": identifier.country}


def not_psd_form(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The organizationIdentifier is not the authorization number of a competent authority."""
    identifier = certificate.organization_identifier
    if identifier is None or identifier.scheme in (None, "PSD"):
        return None
    message = (
        f"{shown(identifier.text)} is not PSDcc-AUTHORITY-number;"
        " another registered identifier is allowed only if the authority issued no number (GEN-5.2.1-4)"
    )
    return message, {"organization_identifier": identifier.text}


def identifier_is_name(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The organizationIdentifier only repeats the organisation's name."""
    identifier = certificate.organization_identifier
    names = [name.casefold() for name in certificate.subject.values(oids.ORGANIZATION)]
    if identifier is None or identifier.text.casefold() not in names:
        return None
    return "the organizationIdentifier is the organisation's name", {"organization_identifier": identifier.text}


def local_scheme_unregistered(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A national scheme (`xx:`) without the address of its registration authority."""
    identifier = certificate.organization_identifier
    if identifier is None or not identifier.is_local or certificate.qc.name_registration_authorities:
        return None
    message = f"{shown(identifier.text)} is of a national scheme, but nameRegistrationAuthorities names no register"
    return message, {"organization_identifier": identifier.text}


def eidas_identifier(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """An identifier by the eIDAS network's semantics has white space or more than 256 characters."""
    identifier = certificate.organization_identifier
    if identifier is None or certificate.qc.semantics != oids.SEMANTICS_EIDAS_LEGAL:
        return None
    text = identifier.text
    if len(text) <= 256 and not any(character.isspace() for character in text):
        return None
    message = f"{shown(text)} has white space or more than 256 characters, which an eIDAS identifier must not have"
    return message, {"organization_identifier": text}


def other_registration(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The CA/Browser Forum's organisation identifier extension names another organisation than the subject."""
    identifier, oid = certificate.organization_identifier, oids.CABF_ORGANIZATION_IDENTIFIER
    if identifier is None or oid not in certificate.extensions.present:
        return None
    try:
        stated = _read_registration(certificate.extension_values[oid])
    except FormatError as e:
        return f"its CA/Browser Forum organizationIdentifier extension cannot be read: {e.message}", {"oid": oid}
    if stated == identifier.text:
        return None
    message = f"its CA/Browser Forum organizationIdentifier extension names {shown(stated)}, the subject {shown(identifier.text)}"
    return message, {"organization_identifier": identifier.text, "extension": stated}


def _read_registration(value: bytes) -> str:
    """Return the extension's parts (scheme, country, optional state, reference) in the format of the subject's attribute.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    parts = der.read_children(value, der.read_whole(value, tag=der.SEQUENCE))
    texts = [der.read_text(value, part) for part in parts if part.tag != _STATE]
    states = [value[part.start : part.end].decode("ascii", "replace") for part in parts if part.tag == _STATE]
    if len(texts) != 3 or len(states) > 1:
        raise FormatError("der.malformed", "it does not have the parts scheme, country, state (optional) and reference")
    scheme, country, reference = texts
    return f"{scheme}{country}{''.join(f'+{state}' for state in states)}-{reference}"


def no_dns_name(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A website certificate without a DNS name."""
    return None if certificate.extensions.dns_names else ("the subject alternative name has no dNSName", {})


def dns_name_syntax(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A dNSName that is not a DNS name; `*.` may precede one."""
    for name in certificate.extensions.dns_names:
        if not is_dns_name(name.removeprefix("*.")):
            message = (
                f"the dNSName {shown(name)} is not a DNS name: labels of 1 to 63 letters, digits and inner hyphens, with dots"
                " between them, 253 characters in all"
            )
            return message, {"name": name}
    return None


def common_name_is_no_dns_name(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The common name of a website certificate is none of its DNS names, ignoring case."""
    names = {name.lower() for name in certificate.extensions.dns_names}
    for common_name in certificate.subject.values(oids.COMMON_NAME):
        if common_name.lower() not in names:
            message = f"the common name {shown(common_name)} is none of the DNS names"
            return message, {"common_name": common_name, "dns_names": ", ".join(certificate.extensions.dns_names)}
    return None


def internal_name(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A DNS name or address that is internal to one network."""
    for name in (*certificate.extensions.dns_names, *certificate.extensions.ip_addresses):
        if is_internal_host(name):
            return f"{shown(name)} is an internal name or address, not one of the public internet", {"name": name}
    return None


def is_internal_host(host: str) -> bool:
    """Whether a host name or address is internal to one network, so that it has another or no meaning outside."""
    name = host.lower().rstrip(".")
    if "." not in name and ":" not in name:
        return True
    if name.endswith(_INTERNAL_ZONES):
        return True
    if name[-1:].isalpha() and ":" not in name:
        return False
    try:
        return not ipaddress.ip_address(name.strip("[]")).is_global
    except ValueError:
        return False
