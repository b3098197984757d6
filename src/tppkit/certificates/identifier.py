"""organizationIdentifier (2.5.4.97): the identifier of the certificate's organisation, read and compared.

PSDLT-BL-LB000000       scheme PSD, country LT, authority BL, reference LB000000 (TS 119 495 GEN-5.2.1-3)
VATDE-123456789         scheme VAT, NTR or LEI, country, reference (EN 319 412-1 LEG-5.1.4)
xx:DE-123               a nationally defined scheme (EN 319 412-1 LEG-5.1.4-05)
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from tppkit._encoding import shown
from tppkit._iso_codes import COUNTRIES
from tppkit.errors import FormatError

MAX_LENGTH = 256

# EN 319 412-1 LEG-5.1.4-03: in addition to ISO 3166, and for VAT the tax codes of Greece and Northern Ireland.
_COUNTRIES_OF_ALL = COUNTRIES | {"EU", "EZ", "SU", "UN"}
_COUNTRIES: Mapping[str, frozenset[str]] = MappingProxyType(
    {"VAT": _COUNTRIES_OF_ALL | {"EL", "XI"}, "LEI": frozenset({"XG"})}
)

_PSD = re.compile(r"PSD([A-Z]{2})-([A-Z]{2,8})-(.+)")
_LEGAL = re.compile(r"(VAT|NTR|LEI(?=XG))([A-Z]{2})-(.+)")
_LOCAL = re.compile(r"([A-Za-z]{2}:)([A-Z]{2})-(.+)")
_LEI = re.compile(r"[0-9A-Z]{18}[0-9]{2}")
# Unicode's categories of invisible characters: control, format, surrogate, private, unassigned, line and paragraph separators.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Placeholders for a missing value, by their letters and digits.
_PLACEHOLDERS = frozenset(
    {"", "na", "nil", "none", "null", "notapplicable", "notavailable", "tbd", "unknown", "undefined"}
)

# Prefixes that some authorities write before the number: credit institution, payment institution, e-money institution,
# provider of account information only.
_INSTITUTION = re.compile(r"\A(?:CI|PI|EMI|RAISP):")
_SEPARATORS = re.compile(r"[ ./:_-]+")
_SMALL = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True, slots=True)
class OrganizationIdentifier:
    """An organizationIdentifier, split into parts if its form is known.

    Attributes:
        text: the value as in the certificate; two identifiers name the same organisation if their texts are equal.
        scheme: `PSD`, `VAT`, `NTR`, `LEI`, or a local scheme with its colon (`xx:`); None if the form is unknown.
        country: two letters, None if the form is unknown.
        authority: the competent authority's letters (only scheme PSD), else None.
        reference: the number issued by the authority or register, None if the form is unknown.
    """

    text: str
    scheme: str | None = None
    country: str | None = None
    authority: str | None = None
    reference: str | None = None

    @property
    def nca_id(self) -> str | None:
        """Country and authority as an NCAId of TS 119 495 (`LT-BL`), None if the scheme is not PSD."""
        return f"{self.country}-{self.authority}" if self.authority else None

    @property
    def has_known_country(self) -> bool:
        """Whether the country exists in its scheme (EN 319 412-1 LEG-5.1.4-03); False if the form is unknown."""
        return self.country in _COUNTRIES.get(self.scheme or "", _COUNTRIES_OF_ALL)

    @property
    def is_local(self) -> bool:
        """Whether the scheme is a national one (`xx:`, EN 319 412-1 LEG-5.1.4-05)."""
        return self.scheme is not None and self.scheme.endswith(":")

    @property
    def is_usable(self) -> bool:
        """Whether the value can name an organisation, whatever its form.

        It cannot if it is longer than 256 characters, has invisible characters (so that different values look the same), has no
        letter or digit, or is a placeholder (`N/A`, `none`).
        """
        parts = (self.text,) if self.reference is None else (self.text, self.reference)
        return (
            len(self.text) <= MAX_LENGTH
            and (self.text.isprintable() or _UNSEEN.isdisjoint(map(unicodedata.category, self.text)))
            and all(_letters_and_digits(part) not in _PLACEHOLDERS for part in parts)
        )

    def __str__(self) -> str:
        return self.text


def _letters_and_digits(text: str) -> str:
    return "".join(filter(str.isalnum, text)).lower()


def parse_organization_identifier(text: str) -> OrganizationIdentifier:
    """Split an organizationIdentifier.

    Args:
        text: the attribute's value, for example `PSDLT-BL-LB000000`.

    Raises:
        FormatError: `organization-identifier.malformed`, it is in no known form; `organization-identifier.lei-checksum`, the
            check digits of an LEI are wrong.

    Source: ETSI TS 119 495 GEN-5.2.1-3, ETSI EN 319 412-1 clause 5.1.4, ISO 17442 (LEI).
    """
    if len(text) > MAX_LENGTH or not text.isprintable():
        raise FormatError("organization-identifier.malformed", f"{shown(text)} is too long or not printable")
    psd = _PSD.fullmatch(text)
    if psd:
        return OrganizationIdentifier(text, "PSD", *psd.groups())
    legal = _LEGAL.fullmatch(text) or _LOCAL.fullmatch(text)
    if legal is None:
        raise FormatError(
            "organization-identifier.malformed",
            f"{shown(text)} is not PSDcc-AUTHORITY-number, VATcc-…, NTRcc-…, LEIXG-… or xx:cc-…: {_why_unknown(text)}",
            clause="TS 119 495 GEN-5.2.1-3",
        )
    scheme, country, reference = legal.groups()
    if scheme == "LEI" and not is_lei(reference):
        raise FormatError("organization-identifier.lei-checksum", f"{shown(reference)} is not a valid LEI")
    return OrganizationIdentifier(text, scheme, country, None, reference)


# Why a value is in no known form; the first row that fits is reported. Each row occurs in real certificates.
_UNKNOWN: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(GOV|INT)[A-Z]{2}.*|GOV|INT"), "GOV and INT are schemes of the CA/Browser Forum only"),
    (re.compile(r"[A-Z]{3}[A-Z]{2}\+.*"), "+state is a form of the CA/Browser Forum only"),
    (re.compile(r"LEI[A-Z]{2}-.*"), "an LEI has the country XG"),
    (re.compile(r"(?=[^-]*[a-z])(?i:(PSD|VAT|NTR|LEI)[A-Z]{2})-.+|PSD[A-Z]{2}-(?=[^-]*[a-z])[A-Za-z]{2,8}-.+"),
     "it has lower-case letters where capitals are required"),
    (re.compile(r"PSD[A-Z]{2}-.*"), "the authority has 2 to 8 capital letters, and a hyphen on either side"),
    (re.compile(r"(VAT|NTR|PSD|LEI)[A-Z]{2}"), "the number is missing"),
    (re.compile(r"(VAT|NTR|PSD|LEI)[A-Z]{3,}-.*"), "the country has two letters"),
    (re.compile(r"[A-Z]{3}[A-Z]{2}-.+"), "its first three letters are not a known scheme"),
    (re.compile(r"[A-Z]{3,}:[A-Z]{2}-.+"), "a national scheme has two letters before the colon"),
)  # fmt: skip


def _why_unknown(text: str) -> str:
    return next(
        (reason for form, reason in _UNKNOWN if form.fullmatch(text)), "it does not begin with scheme and country"
    )


def read_organization_identifier(text: str) -> OrganizationIdentifier:
    """Split an organizationIdentifier; one of unknown form has only its text."""
    try:
        return parse_organization_identifier(text)
    except FormatError:
        return OrganizationIdentifier(text)


def is_lei(text: str) -> bool:
    """Whether `text` is a Legal Entity Identifier with correct check digits (ISO 17442, ISO 7064 MOD 97-10)."""
    return bool(_LEI.fullmatch(text)) and int("".join(str(int(c, 36)) for c in text)) % 97 == 1


class Likeness(StrEnum):
    """How much two organizationIdentifiers have in common."""

    SAME = "same"
    WRITTEN_OTHERWISE = "perhaps the same, written otherwise"
    SAME_NUMBER = "same number of another register"
    OTHER = "other"


def compare_organizations(one: OrganizationIdentifier, other: OrganizationIdentifier) -> Likeness:
    """Return how much two organizationIdentifiers have in common.

    Only `SAME` (equal text) is certain to be one organisation. `WRITTEN_OTHERWISE` differs in case (of ASCII), in separators or
    in a prefix for the kind of institution. `SAME_NUMBER` has the same number and country under another scheme or authority. For
    both, a person has to decide.
    """
    if one.text == other.text:
        return Likeness.SAME
    if not one.is_usable or not other.is_usable:
        return Likeness.OTHER
    if _is_written_otherwise(one, other):
        return Likeness.WRITTEN_OTHERWISE
    if one.country and one.country == other.country and _is_same_number(one, other):
        return Likeness.SAME_NUMBER
    return Likeness.OTHER


def _is_written_otherwise(one: OrganizationIdentifier, other: OrganizationIdentifier) -> bool:
    if one.scheme is None or other.scheme is None:  # PSD is sometimes forgotten, so ignore it
        return _is_alike(*(_lowered(identifier.text).removeprefix("psd") for identifier in (one, other)))
    return _place(one) == _place(other) and _is_same_number(one, other)


def _place(identifier: OrganizationIdentifier) -> tuple[str | None, ...]:
    return identifier.scheme, identifier.country, identifier.authority


def _is_same_number(one: OrganizationIdentifier, other: OrganizationIdentifier) -> bool:
    numbers = [identifier.reference or identifier.text for identifier in (one, other)]
    kinds = {kind.group() for kind in map(_INSTITUTION.match, numbers) if kind}
    # Each kind of institution has its own register, so equal numbers of two kinds differ.
    return len(kinds) < 2 and _is_alike(*(_lowered(_INSTITUTION.sub("", number)) for number in numbers))


def _is_alike(one: str, other: str) -> bool:
    """Whether two texts differ only in the characters used as separators, or in having none; `1.23` and `12.3` differ."""
    parts, other_parts = (_SEPARATORS.split(text.strip()) for text in (one, other))
    return parts == other_parts or (1 in (len(parts), len(other_parts)) and "".join(parts) == "".join(other_parts))


def _lowered(text: str) -> str:
    return text.translate(_SMALL)
