"""Two organizationIdentifiers: the same, the same written otherwise, the same number elsewhere, or two organisations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.certificates.identifier import Likeness, compare_organizations, read_organization_identifier

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
    ("PSDFR-ACPR-CI:12345", "PSDFR-ACPR-EMI:12345", Likeness.OTHER),
    ("PSDFR-ACPR-CI:12345", "NTRFR-EMI:12345", Likeness.OTHER),
    ("PSDFR-ACPR-CI:12345", "PSDFR-ACPR-CI:123-45", Likeness.WRITTEN_OTHERWISE),
    ("PSDFR-ACPR-CI:12345", "NTRFR-12345", Likeness.SAME_NUMBER),
    ("PSDFR-ACPR-1.23", "PSDFR-ACPR-12.3", Likeness.OTHER),
    ("PSDFR-ACPR-1.23", "PSDFR-ACPR-1-23", Likeness.WRITTEN_OTHERWISE),
    ("PSDFR-ACPR-1.23", "PSDFR-ACPR-123", Likeness.WRITTEN_OTHERWISE),
    ("VATFR-1.23", "NTRFR-12.3", Likeness.OTHER),
    ("PSDDE-BAFIN-ß1", "PSDDE-BAFIN-SS1", Likeness.OTHER),
    ("PSDDE-BAFIN-\u212a1", "PSDDE-BAFIN-K1", Likeness.OTHER),
    ("PSDDE-BAFIN-\u017f1", "PSDDE-BAFIN-S1", Likeness.OTHER),
    ("PSDDE-BAFIN-1\u03072", "PSDDE-BAFIN-12", Likeness.OTHER),
    ("GRBOG1", "GR-BOG-1", Likeness.WRITTEN_OTHERWISE),
    ("G-RBOG1", "GR-BOG-1", Likeness.OTHER),
    ("N/A", "n/a", Likeness.OTHER),
    ("PSDLT-BL-1\u202e", "PSDLT-BL-1 \u202e", Likeness.OTHER),
]


@pytest.mark.parametrize(("one", "other", "likeness"), PAIRS)
def test_two_identifiers_are_compared_from_either_side(one, other, likeness):
    first, second = read_organization_identifier(one), read_organization_identifier(other)
    assert compare_organizations(first, second) == compare_organizations(second, first) == likeness


@given(st.text(), st.text())
def test_only_equal_text_is_the_same(one, other):
    likeness = compare_organizations(read_organization_identifier(one), read_organization_identifier(other))
    assert (likeness is Likeness.SAME) == (one == other)
