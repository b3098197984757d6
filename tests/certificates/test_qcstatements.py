"""QcStatements as the standards have them: written, read, and read from hostile bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from varying import write_any_statements

from tppkit.certificates import Psd2Statement, der, oids
from tppkit.certificates.qcstatements import LimitValue, PdsLocation, QcStatements, RoleOfPsp, read_qc_statements
from tppkit.certificates.write_qcstatements import write_qc_statements

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
ASCII = st.text(st.characters(codec="ascii"), max_size=20)
ROLES = st.builds(RoleOfPsp, st.sampled_from([*oids.PSP_ROLES, "2.999.7"]), TEXT)
PSD2 = st.builds(Psd2Statement, st.lists(ROLES, max_size=5).map(tuple), TEXT, TEXT)
CURRENCY = st.sampled_from(["EUR", "978", "HUF"])
COUNTRIES = st.lists(st.sampled_from(["DE", "LT", "CH"]), max_size=3).map(tuple)
STATED = st.fixed_dictionaries(
    {
        "qc_type": st.sampled_from(["esign", "eseal", "web"]),
        "psd2": st.none() | PSD2,
        "pds": st.lists(st.builds(PdsLocation, ASCII, ASCII), max_size=3).map(tuple),
        "compliance": st.booleans(),
        "sscd": st.booleans(),
        "semantics": st.none() | st.just(oids.SEMANTICS_LEGAL),
        "name_registration_authorities": st.lists(ASCII, max_size=2).map(tuple),
        "limit_value": st.none() | st.builds(LimitValue, CURRENCY, st.integers(-(2**63), 2**63), st.integers(-99, 99)),
        "retention_years": st.none() | st.integers(0, 99),
        "cc_legislation": COUNTRIES,
        "identification_methods": st.lists(st.sampled_from(sorted(oids.IDENTIFICATION_METHODS)), max_size=2).map(tuple),
        "qscd_legislation": COUNTRIES,
    }
)
GOOD = write_qc_statements(
    qc_type="web",
    psd2=Psd2Statement((RoleOfPsp("0.4.0.19495.1.2", "PSP_PI"),), "Bank of Lithuania", "LT-BL"),
    pds=(PdsLocation("https://pki.test.example.com/pds_en.pdf", "en"),),
)


def statement(oid: str, *info: bytes) -> bytes:
    return der.write_sequence(der.write_oid(oid), *info)


def statements(*parts: bytes) -> bytes:
    return der.write_sequence(*parts)


@given(STATED)
def test_what_is_written_is_read_again(stated):
    read = read_qc_statements(write_any_statements(**stated))
    assert read.findings == ()
    expected = stated | {"types": (stated["qc_type"],)}
    del expected["qc_type"]
    expected["identification_methods"] = tuple(
        oids.IDENTIFICATION_METHODS[oid] for oid in stated["identification_methods"]
    )
    assert {name: getattr(read, name) for name in expected} == expected


@given(st.binary(max_size=100))
def test_reading_random_bytes_gives_findings_and_no_error(value):
    assert isinstance(read_qc_statements(value), QcStatements)


@given(st.integers(0, len(GOOD) - 1), st.integers(0, len(GOOD) - 1), st.binary(max_size=3))
def test_reading_changed_statements_gives_findings_and_no_error(place, end, change):
    value = GOOD[:place] + change + GOOD[max(place, end) :]
    read = read_qc_statements(value)
    assert all(0 <= finding.offset <= len(value) for finding in read.findings)


def test_every_change_of_one_bit_is_read_without_error():
    for place in range(8 * len(GOOD)):
        value = bytearray(GOOD)
        value[place // 8] ^= 1 << place % 8
        read_qc_statements(bytes(value))


def test_statements_cut_off_anywhere_give_a_finding():
    for end in range(len(GOOD)):
        assert read_qc_statements(GOOD[:end]).findings, end


def test_an_empty_extension_states_nothing():
    assert read_qc_statements(statements()) == QcStatements()


def test_an_unknown_statement_is_kept_as_it_came():
    value = statements(statement("1.2.3"), statement("2.999.1", b"\x02\x01\x07"))
    read = read_qc_statements(value)
    assert read.unknown == (("1.2.3", b""), ("2.999.1", b"\x02\x01\x07"))
    assert read.findings == ()


def test_an_unknown_type_is_kept_as_its_identifier():
    info = der.write_sequence(der.write_oid("0.4.0.1862.1.6.4"), der.write_oid("0.4.0.1862.1.6.2"))
    assert read_qc_statements(statements(statement(oids.QC_TYPE, info))).types == ("0.4.0.1862.1.6.4", "eseal")


def test_retention_and_legislation_are_read():
    value = statements(
        statement(oids.QC_RETENTION_PERIOD, der.write_integer(15)),
        statement(
            oids.QC_CC_LEGISLATION,
            der.write_sequence(*(der.write_text(c, tag=der.PRINTABLE_STRING) for c in ("CH", "GB"))),
        ),
    )
    read = read_qc_statements(value)
    assert (read.retention_years, read.cc_legislation, read.findings) == (15, ("CH", "GB"), ())


@pytest.mark.parametrize("info", [(), (der.write_sequence(),), (der.write_sequence(b"\x30\x00"),)])
@pytest.mark.parametrize("oid", [oids.QCS_SYNTAX_V1, oids.QCS_SYNTAX_V2])
def test_semantics_information_may_name_no_identifier(oid, info):
    read = read_qc_statements(statements(statement(oid, *info)))
    assert (read.semantics, read.findings) == (None, ())


def test_a_role_of_an_unknown_identifier_never_passes_for_a_known_one():
    assert RoleOfPsp("2.999.7", "PSP_PI").standard_name == "2.999.7"
    assert Psd2Statement((RoleOfPsp("2.999.7", "PSP_PI"), RoleOfPsp("", "PSP_AI")), "", "").role_names == ("2.999.7",)


def test_the_identifier_of_a_known_role_decides_over_its_name():
    assert RoleOfPsp("0.4.0.19495.1.2", "PSP_AI").standard_name == "PSP_PI"


def test_a_role_that_appears_twice_counts_once():
    roles = (RoleOfPsp("0.4.0.19495.1.2", "PSP_PI"), RoleOfPsp("0.4.0.19495.1.2", "PSP_PI"))
    assert Psd2Statement(roles, "", "").role_names == ("PSP_PI",)


def test_the_names_of_the_roles_are_those_of_the_standard():
    read = Psd2Statement((RoleOfPsp("0.4.0.19495.1.3", "x"), RoleOfPsp("2.999.7", "y")), "", "")
    assert read.role_names == ("PSP_AI", "2.999.7")


MALFORMED = {
    "limit of two parts": statement(oids.QC_LIMIT_VALUE, statements(der.write_integer(978), der.write_integer(1))),
    "limit whose amount is text": statement(
        oids.QC_LIMIT_VALUE, statements(der.write_integer(978), der.write_text("1"), der.write_integer(1))
    ),
    "identification method that is text": statement(oids.QC_IDENTIFICATION_METHOD, statements(der.write_text("1"))),
    "country that is a number": statement(oids.QC_QSCD_LEGISLATION, statements(der.write_integer(1))),
    "registration authorities that are text": statement(
        oids.QCS_SYNTAX_V2, statements(der.write_text("https://a.example"))
    ),
}


@pytest.mark.parametrize("malformed", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_statement_is_named_and_the_others_are_read(malformed):
    read = read_qc_statements(statements(malformed, statement(oids.QC_SSCD)))
    assert [finding.code for finding in read.findings] == ["qcstatements.malformed"]
    assert read.sscd


def test_of_disclosure_statements_those_that_can_be_read_are_read():
    good = statements(
        der.write_text("https://a.example", tag=der.IA5_STRING), der.write_text("en", tag=der.PRINTABLE_STRING)
    )
    read = read_qc_statements(statements(statement(oids.QC_PDS, statements(statements(), good))))
    assert read.pds == (PdsLocation("https://a.example", "en"),)
    assert [finding.code for finding in read.findings] == ["qcstatements.malformed"]


def test_a_disclosure_statement_in_another_string_type_is_read_and_named():
    pair = statements(der.write_text("https://a.example"), der.write_text("en"))
    read = read_qc_statements(statements(statement(oids.QC_PDS, statements(pair))))
    assert read.pds == (PdsLocation("https://a.example", "en"),)
    assert [finding.code for finding in read.findings] == ["qcstatements.string-type"] * 2
