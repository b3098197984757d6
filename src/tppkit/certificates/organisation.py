"""Comparison of organizationIdentifiers: equal as text, spelt differently, or equal in their number only."""

from __future__ import annotations

import re
from enum import StrEnum

from tppkit.certificates.identifier import OrganizationIdentifier

# Prefixes that some authorities write before the number: credit institution, payment institution, e-money institution,
# provider of account information only.
_INSTITUTION = re.compile(r"\A(?:CI|PI|EMI|RAISP):")
_SEPARATORS = re.compile(r"[ ./:_-]+")
_SMALL = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


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
