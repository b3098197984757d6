"""Whether two organizationIdentifiers name one organisation: as text, when written otherwise, or by number only."""

from __future__ import annotations

import re
from enum import StrEnum

from tppkit.certificates.identifier import OrganizationIdentifier

# Kinds of institution that some authorities write before the number: credit, payment and e-money institution, account
# information provider only.
_INSTITUTION = re.compile(r"\A(?:CI|PI|EMI|RAISP):")
_SEPARATOR = re.compile(r"[\W_]+")


class Likeness(StrEnum):
    """How much two organizationIdentifiers have in common."""

    SAME = "same"
    WRITTEN_OTHERWISE = "written otherwise"
    SAME_NUMBER = "same number of another register"
    OTHER = "other"


def compare_organizations(one: OrganizationIdentifier, other: OrganizationIdentifier) -> Likeness:
    """How much two organizationIdentifiers have in common.

    Only `SAME`, equal text, is one organisation to a machine. `WRITTEN_OTHERWISE` differs in case, separators or the kind of
    institution before the number; `SAME_NUMBER` has the same number and country under another scheme or authority. Both need
    a person to look.
    """
    if one.text == other.text:
        return Likeness.SAME
    if not _number(one) or not _number(other):
        return Likeness.OTHER  # nothing but separators
    if _is_written_otherwise(one, other):
        return Likeness.WRITTEN_OTHERWISE
    if one.country and one.country == other.country and _number(one) == _number(other):
        return Likeness.SAME_NUMBER
    return Likeness.OTHER


def _is_written_otherwise(one: OrganizationIdentifier, other: OrganizationIdentifier) -> bool:
    if one.scheme is None or other.scheme is None:  # some forget the PSD, so it does not count here
        return _letters(one.text).removeprefix("psd") == _letters(other.text).removeprefix("psd")
    return _place(one) == _place(other) and _number(one) == _number(other)


def _place(identifier: OrganizationIdentifier) -> tuple[str | None, ...]:
    return identifier.scheme, identifier.country, identifier.authority


def _number(identifier: OrganizationIdentifier) -> str:
    return _letters(_INSTITUTION.sub("", identifier.reference or identifier.text))


def _letters(text: str) -> str:
    return _SEPARATOR.sub("", text).casefold()
