"""Readers of the extensions that path validation needs in full: name constraints, policy constraints, CRL points.

    NameConstraints   ::= SEQUENCE { permittedSubtrees [0] GeneralSubtrees OPTIONAL, excludedSubtrees [1] GeneralSubtrees OPTIONAL }
    GeneralSubtree    ::= SEQUENCE { base GeneralName, minimum [0] BaseDistance DEFAULT 0, maximum [1] BaseDistance OPTIONAL }
    PolicyConstraints ::= SEQUENCE { requireExplicitPolicy [0] SkipCerts OPTIONAL, inhibitPolicyMapping [1] SkipCerts OPTIONAL }
    IssuingDistributionPoint ::= SEQUENCE { distributionPoint [0] DistributionPointName OPTIONAL,
                                            onlyContainsUserCerts [1], onlyContainsCACerts [2] BOOLEAN DEFAULT FALSE,
                                            onlySomeReasons [3] ReasonFlags OPTIONAL,
                                            indirectCRL [4], onlyContainsAttributeCerts [5] BOOLEAN DEFAULT FALSE }

Source: RFC 5280 sections 4.2.1.10, 4.2.1.11, 4.2.1.13 and 5.2.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tppkit.certificates import der
from tppkit.certificates.general_names import GeneralName, read_general_name
from tppkit.errors import FormatError

_FIRST, _SECOND = 0xA0, 0xA1  # constructed context tags
_REQUIRE, _INHIBIT, _URI = 0x80, 0x81, 0x86
_ONLY_USERS, _ONLY_AUTHORITIES, _ONLY_REASONS, _INDIRECT, _ONLY_ATTRIBUTES = 0x81, 0x82, 0x83, 0x84, 0x85
_TRUE = b"\xff"
# ReasonFlags ::= BIT STRING (RFC 5280 section 4.2.1.13), bit 1 first
_REASON_FLAGS = (
    "key_compromise", "ca_compromise", "affiliation_changed", "superseded", "cessation_of_operation", "certificate_hold",
    "privilege_withdrawn", "aa_compromise",
)  # fmt: skip


class NameConstraints(NamedTuple):
    """The names that an authority may certify: within one of `permitted` (if there are any) and within none of `excluded`.

    `has_distance`: a minimum or maximum is stated, which RFC 5280 does not allow.
    """

    permitted: tuple[GeneralName, ...]
    excluded: tuple[GeneralName, ...]
    has_distance: bool


class PolicyConstraints(NamedTuple):
    """After how many authorities a policy is required, and mappings are forbidden; None if not stated."""

    require_explicit_policy: int | None
    inhibit_policy_mapping: int | None


class IssuingPoint(NamedTuple):
    """The certificates that a CRL covers.

    `full_name`: the names of the list, or None; `has_relative_name`: it is named in another form; `only_some_reasons`: names of
    RFC 5280 section 5.3.1, or None for all reasons.
    """

    full_name: tuple[GeneralName, ...] | None
    has_relative_name: bool
    only_some_reasons: tuple[str, ...] | None
    indirect_crl: bool
    only_contains_user_certs: bool
    only_contains_ca_certs: bool
    only_contains_attribute_certs: bool


def read_name_constraints(data: bytes) -> NameConstraints:
    """The value of the extension nameConstraints.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    subtrees: dict[int, tuple[GeneralName, ...]] = {_FIRST: (), _SECOND: ()}
    has_distance = False
    parts = _parts(data, (_FIRST, _SECOND))
    if not parts:
        raise FormatError("der.malformed", "nameConstraints without subtrees")
    for part in parts:
        bases = []
        listed = der.read_children(data, part)
        if not listed:
            raise FormatError("der.malformed", f"the subtrees at byte {part.offset} are empty", offset=part.offset)
        for subtree in listed:
            children = der.read_children(data, der.expect(subtree, der.SEQUENCE))
            if not children:
                raise FormatError(
                    "der.malformed", f"the subtree at byte {subtree.offset} is empty", offset=subtree.offset
                )
            bases.append(read_general_name(data, children[0], is_base=True))
            has_distance = has_distance or len(children) > 1
        subtrees[part.tag] = tuple(bases)
    return NameConstraints(subtrees[_FIRST], subtrees[_SECOND], has_distance)


def read_policy_constraints(data: bytes) -> PolicyConstraints:
    """The value of the extension policyConstraints.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    stated = {
        part.tag: _read_count(data, part._replace(tag=der.INTEGER)) for part in _parts(data, (_REQUIRE, _INHIBIT))
    }
    return PolicyConstraints(stated.get(_REQUIRE), stated.get(_INHIBIT))


def read_inhibit_any_policy(data: bytes) -> int:
    """The value of the extension inhibitAnyPolicy: after how many authorities anyPolicy no longer counts.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    return _read_count(data, der.read_whole(data, tag=der.INTEGER))


def read_points(data: bytes) -> frozenset[GeneralName]:
    """The full names of every point of the extension cRLDistributionPoints.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    points = der.read_children(data, der.read_whole(data, tag=der.SEQUENCE))
    return frozenset(name for point in points for name in _full_names(data, point))


def read_issuing_point(data: bytes) -> IssuingPoint:
    """The value of the extension issuingDistributionPoint of a CRL.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    tags = (_FIRST, _ONLY_USERS, _ONLY_AUTHORITIES, _ONLY_REASONS, _INDIRECT, _ONLY_ATTRIBUTES)
    parts = {part.tag: part for part in _parts(data, tags)}
    for tag in parts.keys() - {_FIRST, _ONLY_REASONS}:
        if data[parts[tag].start : parts[tag].end] != _TRUE:
            raise FormatError("der.malformed", "issuingDistributionPoint with a flag that is not TRUE")
    point, reasons = parts.get(_FIRST), parts.get(_ONLY_REASONS)
    is_full = point is not None and der.read_element(data, point.start, point.end).tag == _FIRST
    flags = 0 if reasons is None else int.from_bytes(data[reasons.start + 1 : reasons.end][:2].ljust(2, b"\0"), "big")
    return IssuingPoint(
        full_name=tuple(_full_names(data, der.read_whole(data, tag=der.SEQUENCE))) if is_full else None,
        has_relative_name=point is not None and not is_full,
        only_some_reasons=None if reasons is None else tuple(
            name for place, name in enumerate(_REASON_FLAGS, start=1) if flags & 0x8000 >> place
        ),
        indirect_crl=_INDIRECT in parts,
        only_contains_user_certs=_ONLY_USERS in parts,
        only_contains_ca_certs=_ONLY_AUTHORITIES in parts,
        only_contains_attribute_certs=_ONLY_ATTRIBUTES in parts,
    )  # fmt: skip


def _full_names(data: bytes, point: der.Element) -> Iterator[GeneralName]:
    # Without addresses that are not ASCII, which name no list.
    # distributionPoint [0] CHOICE { fullName [0] GeneralNames, nameRelativeToCRLIssuer [1] RelativeDistinguishedName }
    for part in der.read_children(data, der.expect(point, der.SEQUENCE)):
        for choice in der.read_children(data, part) if part.tag == _FIRST else ():
            for name in der.read_children(data, choice) if choice.tag == _FIRST else ():
                if name.tag != _URI or data[name.start : name.end].isascii():
                    yield read_general_name(data, name)


def _parts(data: bytes, tags: tuple[int, ...]) -> list[der.Element]:
    """The parts of a sequence of optional parts."""
    parts = der.read_children(data, der.read_whole(data, tag=der.SEQUENCE))
    found = [part.tag for part in parts]
    if found != [tag for tag in tags if tag in found]:
        raise FormatError("der.malformed", f"its parts have the tags {', '.join(f'0x{tag:02x}' for tag in found[:9])}")
    return parts


def _read_count(data: bytes, element: der.Element) -> int:
    count = der.read_integer(data, element)
    if count < 0:
        raise FormatError("der.malformed", f"the number at byte {element.offset} is negative", offset=element.offset)
    return count
