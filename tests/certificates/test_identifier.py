"""organizationIdentifier: its forms, and two of them compared."""

from __future__ import annotations

import csv
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.certificates import OrganizationIdentifier
from tppkit.certificates.identifier import (
    MAX_LENGTH,
    Likeness,
    compare_organizations,
    is_lei,
    parse_organization_identifier,
    read_organization_identifier,
)
from tppkit.errors import FormatError

LEI = "529900T8BM49AURSDO55"  # its check digits, 55, are right


@pytest.mark.parametrize(
    ("text", "scheme", "country", "authority", "reference"),
    [
        ("PSDLT-BL-LB000000", "PSD", "LT", "BL", "LB000000"),
        ("PSDFI-FINFSA-2858394-9", "PSD", "FI", "FINFSA", "2858394-9"),
        ("PSDDE-BAFIN-CI:A 12345", "PSD", "DE", "BAFIN", "CI:A 12345"),
        ("PSDIT-BI-1234.567.890", "PSD", "IT", "BI", "1234.567.890"),
        ("VATDE-123456789", "VAT", "DE", None, "123456789"),
        ("NTRNO-976098897", "NTR", "NO", None, "976098897"),
        (f"LEIXG-{LEI}", "LEI", "XG", None, LEI),
        ("EI:SE-5567971433", "EI:", "SE", None, "5567971433"),
    ],
)
def test_every_known_form_is_split(text, scheme, country, authority, reference):
    assert parse_organization_identifier(text) == OrganizationIdentifier(text, scheme, country, authority, reference)


@pytest.mark.parametrize(
    "text",
    [
        "", "12345987", "PSDLT-BL", "PSDLT-BL-", "PSDLT-B-1", "PSDLT-ABCDEFGHI-1", "PSDLT-bl-1", "PSDlt-BL-1", "PSDLTU-BL-1",
        "PSDLT_BL_1", "PDSDE-BAFIN-1", "VATDE", "VATDE-", "NTRDEU-1", "NTRDE+BW-1", "ABCDE-1", f"LEIDE-{LEI}", "GOVUS-1",
        "E1:SE-1", "EI:S-1", " PSDLT-BL-1", "PSDLT-BL-1\n", "PSDLT-BL-a\tb", "PSDLT-BL-" + "1" * MAX_LENGTH,
    ],
)  # fmt: skip
def test_every_other_form_is_malformed(text):
    with refused(FormatError, "organization-identifier.malformed"):
        parse_organization_identifier(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("GOVUS+PA", "CA/Browser Forum only"),
        ("INTXG-123456", "CA/Browser Forum only"),
        ("NTRDE+BW-1234567890", "CA/Browser Forum only"),
        (f"LEIUS-{LEI}", "country XG"),
        ("PSDde-BAFIN-1", "lower-case letters"),
        ("PSDDE-Bafin-1", "lower-case letters"),
        ("vatde-1", "lower-case letters"),
        ("PSDDE-BAFIN_1", "2 to 8 capital letters"),
        ("PSDDE-B-abc", "2 to 8 capital letters"),
        ("LEIXG", "number is missing"),
        ("NTRDEU-1", "country has two letters"),
        ("PDSDE-BAFIN-1", "not a known scheme"),
        ("EIS:SE-1", "two letters before the colon"),
        ("12345987", "not begin with scheme and country"),
    ],
)
def test_a_value_of_unknown_form_is_refused_with_the_reason(text, reason):
    with pytest.raises(FormatError, match=reason):
        parse_organization_identifier(text)


@pytest.mark.parametrize("reference", ["1234-1234", LEI[:-1] + "6", LEI[:-1], LEI.lower()])
def test_an_lei_with_wrong_check_digits_is_refused(reference):
    with refused(FormatError, "organization-identifier.lei-checksum"):
        parse_organization_identifier(f"LEIXG-{reference}")


@given(st.text(max_size=80) | st.from_regex(r"(PSD|VAT|NTR|LEI|[a-z]{2}:)[A-Z]{2}(-.{0,9}){1,2}"))
def test_only_format_error_escapes_and_the_text_is_kept(text):
    with suppress(FormatError):
        assert str(parse_organization_identifier(text)) == text


@given(st.text(max_size=80))
def test_the_lenient_reading_never_fails(text):
    assert read_organization_identifier(text).text == text


def test_an_unknown_form_is_kept_with_only_its_text():
    assert read_organization_identifier("12345987") == OrganizationIdentifier("12345987")


def test_country_and_authority_make_the_nca_identifier():
    assert parse_organization_identifier("PSDLT-BL-LB000000").nca_id == "LT-BL"


@pytest.mark.parametrize("text", ["VATDE-123456789", "EI:SE-5567971433"])
def test_only_the_psd_scheme_names_an_authority(text):
    assert parse_organization_identifier(text).nca_id is None


@given(st.integers(0, 19), st.sampled_from("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
def test_one_changed_character_makes_an_lei_invalid(place, character):
    if character.isdigit() != LEI[place].isdigit():
        character = LEI[place]  # a letter counts as two digits, so the check digits need not tell it from a digit
    assert is_lei(LEI[:place] + character + LEI[place + 1 :]) == (LEI[place] == character)


@pytest.mark.shared
def test_every_collected_value_is_classified_as_its_row_says(shared_data):
    # The rows take any country and number of an LEI, and a lower-case authority, for well formed. EN 319 412-1 clause 5.1.4
    # knows only XG, ISO 17442 check digits, and TS 119 495 GEN-5.2.1-3 capital letters.
    stricter = {
        "LEIUS-AEYE00EKXESVZUUEBP67", "LEIRO-1234567890", "LEIXG-1234-1234", "LEIXG-123456", "PSDDE-Bafin-1234567890",
    }  # fmt: skip
    with (shared_data / "certificates" / "orgids.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = {
        r["organizationIdentifier"]: next(v for k, v in r.items() if k.startswith("matches")) == "yes" for r in rows
    }
    known = {text: read_organization_identifier(text).scheme is not None for text in expected}
    assert len(expected) > 200
    assert {text for text in expected if known[text] != expected[text]} == stricter
    assert not any(known[text] for text in stricter)


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
