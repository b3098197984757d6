"""QcStatements as the standards have them: written, read, and read from hostile bytes."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.certificates import PdsLocation, Psd2Statement, RoleOfPsp, der, oids, parse_qc_statements
from tppkit.certificates.qcstatements import QcStatements, read_qc_statements
from tppkit.certificates.write_qcstatements import write_qc_statements
from tppkit.errors import FormatError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
ASCII = st.text(st.characters(codec="ascii"), max_size=20)
ROLES = st.builds(RoleOfPsp, st.sampled_from([*oids.PSP_ROLES, "2.999.7"]), TEXT)
PSD2 = st.builds(Psd2Statement, st.lists(ROLES, max_size=5).map(tuple), TEXT, TEXT)
STATED = st.fixed_dictionaries(
    {
        "qc_type": st.sampled_from(["esign", "eseal", "web"]),
        "psd2": st.none() | PSD2,
        "pds": st.lists(st.builds(PdsLocation, ASCII, ASCII), max_size=3).map(tuple),
        "compliance": st.booleans(),
        "sscd": st.booleans(),
        "semantics": st.none() | st.just(oids.SEMANTICS_LEGAL),
    }
)
GOOD = write_qc_statements(
    qc_type="web",
    psd2=Psd2Statement((RoleOfPsp("0.4.0.19495.1.2", "PSP_PI"),), "Bank of Lithuania", "LT-BL"),
    pds=(PdsLocation("https://pki.test.example/pds_en.pdf", "en"),),
)


def statement(oid: str, *info: bytes) -> bytes:
    return der.write_element(der.SEQUENCE, der.write_oid(oid), *info)


def statements(*parts: bytes) -> bytes:
    return der.write_element(der.SEQUENCE, *parts)


@given(STATED)
def test_what_is_written_is_read_again(stated):
    read = parse_qc_statements(write_qc_statements(**stated))
    assert (read.psd2, read.pds, read.compliance, read.sscd, read.semantics, read.types) == (
        stated["psd2"], stated["pds"], stated["compliance"], stated["sscd"], stated["semantics"], (stated["qc_type"],)
    )  # fmt: skip


@given(STATED)
def test_what_is_written_gives_no_finding(stated):
    assert read_qc_statements(write_qc_statements(**stated)).findings == ()


@given(st.binary(max_size=100))
def test_reading_random_bytes_gives_findings_and_no_error(value):
    assert isinstance(read_qc_statements(value), QcStatements)


@given(st.binary(max_size=100))
def test_only_format_error_escapes_from_the_strict_reading(value):
    with suppress(FormatError):
        assert parse_qc_statements(value).findings == ()


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


def test_statements_that_are_cut_off_anywhere_are_refused():
    for end in range(len(GOOD)):
        with pytest.raises(FormatError):
            parse_qc_statements(GOOD[:end])


def test_statements_stand_in_the_order_of_the_certificate():
    value = statements(statement(oids.QC_SSCD), statement("1.2.3"), statement(oids.QC_COMPLIANCE))
    assert read_qc_statements(value).statement_oids == (oids.QC_SSCD, "1.2.3", oids.QC_COMPLIANCE)


def test_an_empty_extension_states_nothing():
    assert read_qc_statements(statements()) == QcStatements()


def test_an_unknown_statement_is_kept_as_it_came():
    value = statements(statement("1.2.3"), statement("2.999.1", b"\x02\x01\x07"))
    read = read_qc_statements(value)
    assert read.unknown == (("1.2.3", b""), ("2.999.1", b"\x02\x01\x07"))
    assert read.findings == ()


def test_an_unknown_type_is_kept_as_its_identifier():
    info = der.write_element(der.SEQUENCE, der.write_oid("0.4.0.1862.1.6.4"), der.write_oid("0.4.0.1862.1.6.2"))
    assert read_qc_statements(statements(statement(oids.QC_TYPE, info))).types == ("0.4.0.1862.1.6.4", "eseal")


def test_retention_and_legislation_are_read():
    value = statements(
        statement(oids.QC_RETENTION_PERIOD, der.write_integer(15)),
        statement(
            oids.QC_CC_LEGISLATION,
            der.write_element(der.SEQUENCE, *(der.write_text(c, tag=der.PRINTABLE_STRING) for c in ("CH", "GB"))),
        ),
    )
    read = read_qc_statements(value)
    assert (read.retention_years, read.cc_legislation, read.findings) == (15, ("CH", "GB"), ())


@pytest.mark.parametrize(
    "info", [(), (der.write_element(der.SEQUENCE),), (der.write_element(der.SEQUENCE, b"\x30\x00"),)]
)
@pytest.mark.parametrize("oid", [oids.QCS_SYNTAX_V1, oids.QCS_SYNTAX_V2])
def test_semantics_information_may_name_no_identifier(oid, info):
    read = read_qc_statements(statements(statement(oid, *info)))
    assert (read.semantics, read.findings) == (None, ())


def test_a_role_of_an_unknown_identifier_keeps_its_name():
    assert RoleOfPsp("2.999.7", "PSP_XX").standard_name == "PSP_XX"


def test_the_identifier_of_a_known_role_decides_over_its_name():
    assert RoleOfPsp("0.4.0.19495.1.2", "PSP_AI").standard_name == "PSP_PI"


def test_the_names_of_the_roles_are_those_of_the_standard():
    read = Psd2Statement((RoleOfPsp("0.4.0.19495.1.3", "x"), RoleOfPsp("0.4.0.19495.1.2", "y")), "", "")
    assert read.role_names == ("PSP_AI", "PSP_PI")


def test_a_role_of_an_unknown_identifier_gives_no_role_by_its_name():
    read = Psd2Statement((RoleOfPsp("2.999.7", "PSP_PI"), RoleOfPsp("2.999.8", "PSP_AI")), "", "")
    assert read.role_names == ("2.999.7", "2.999.8")
