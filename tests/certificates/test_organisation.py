"""Two organizationIdentifiers: the same, the same written otherwise, the same number elsewhere, or two organisations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.certificates.identifier import read_organization_identifier
from tppkit.certificates.organisation import Likeness, compare_organizations

PAIRS = [
    ("PSDLT-BL-LB000000", "PSDLT-BL-LB000000", Likeness.SAME),
    ("PSDLT-BL-LB000000", "PSDLT-BL-lb000000", Likeness.WRITTEN_OTHERWISE),
    ("PSDPL-PFSA-1234567890", "PSDPL-PFSA-1234.567.890", Likeness.WRITTEN_OTHERWISE),
    ("PSDFR-ACPR-12345", "PSDFR-ACPR-CI:12345", Likeness.WRITTEN_OTHERWISE),
    ("GR-BOG-800000005", "GR BOG 800000005", Likeness.WRITTEN_OTHERWISE),
    ("psdlt-bl-lb000000", "PSDLT-BL-LB000000", Likeness.WRITTEN_OTHERWISE),
    ("GR-BOG-800000005", "PSDGR-BOG-800000005", Likeness.WRITTEN_OTHERWISE),
    ("PSDLT-BL-123456789", "VATLT-123456789", Likeness.SAME_NUMBER),
    ("PSDHR-CNB-123", "PSDHR-HNB-123", Likeness.SAME_NUMBER),
    ("PSDLT-BL-LB000000", "PSDLT-BL-LB000001", Likeness.OTHER),
    ("PSDLT-BL-1", "PSDDE-BAFIN-1", Likeness.OTHER),
    ("PSDLT-BL-01", "PSDLT-BL-1", Likeness.OTHER),
    ("PSDLT-BL-L1", "PSDLT-BLL-1", Likeness.OTHER),
    ("PSDFR-ACPR-XPI:1", "PSDFR-ACPR-X1", Likeness.OTHER),
    ("---", "PSDLT-BL-1", Likeness.OTHER),
    ("---", "...", Likeness.OTHER),
    ("VATLT--", "NTRLT-.", Likeness.OTHER),
    ("VATLT--", "VATLT-.", Likeness.OTHER),
    ("PSDFR-ACPR-XX:12345", "PSDFR-ACPR-12345", Likeness.OTHER),
    ("VATDE-1", "VATAT-1", Likeness.OTHER),
    ("", "PSDLT-BL-1", Likeness.OTHER),
]


@pytest.mark.parametrize(("one", "other", "likeness"), PAIRS)
def test_two_identifiers_are_compared_from_either_side(one: str, other: str, likeness: Likeness) -> None:
    first, second = read_organization_identifier(one), read_organization_identifier(other)
    assert compare_organizations(first, second) == compare_organizations(second, first) == likeness


@given(st.text(), st.text())
def test_only_equal_text_is_the_same(one: str, other: str) -> None:
    likeness = compare_organizations(read_organization_identifier(one), read_organization_identifier(other))
    assert (likeness is Likeness.SAME) == (one == other)
