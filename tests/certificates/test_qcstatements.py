"""QcStatements: written, read, and read from malformed and hostile bytes; what is forgiven is read and named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from varying import write_any_statements

from tppkit.certificates import Psd2Statement, der, oids
from tppkit.certificates.qcstatements import (
    MAX_EXTENSION_BYTES,
    LimitValue,
    PdsLocation,
    QcStatements,
    RoleOfPsp,
    read_qc_statements,
)
from tppkit.certificates.write_qcstatements import write_qc_statements
from tppkit.errors import Severity

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
seq = der.write_sequence


def statement(oid: str, *info: bytes) -> bytes:
    return seq(der.write_oid(oid), *info)


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
    assert read_qc_statements(seq()) == QcStatements()


def test_an_unknown_statement_is_kept_as_it_came():
    value = seq(statement("1.2.3"), statement("2.999.1", b"\x02\x01\x07"))
    read = read_qc_statements(value)
    assert read.unknown == (("1.2.3", b""), ("2.999.1", b"\x02\x01\x07"))
    assert read.findings == ()


def test_an_unknown_type_is_kept_as_its_identifier():
    info = seq(der.write_oid("0.4.0.1862.1.6.4"), der.write_oid("0.4.0.1862.1.6.2"))
    assert read_qc_statements(seq(statement(oids.QC_TYPE, info))).types == ("0.4.0.1862.1.6.4", "eseal")


def test_retention_and_legislation_are_read():
    value = seq(
        statement(oids.QC_RETENTION_PERIOD, der.write_integer(15)),
        statement(
            oids.QC_CC_LEGISLATION,
            seq(*(der.write_text(c, tag=der.PRINTABLE_STRING) for c in ("CH", "GB"))),
        ),
    )
    read = read_qc_statements(value)
    assert (read.retention_years, read.cc_legislation, read.findings) == (15, ("CH", "GB"), ())


@pytest.mark.parametrize("info", [(), (seq(),), (seq(b"\x30\x00"),)])
@pytest.mark.parametrize("oid", [oids.QCS_SYNTAX_V1, oids.QCS_SYNTAX_V2])
def test_semantics_information_may_name_no_identifier(oid, info):
    read = read_qc_statements(seq(statement(oid, *info)))
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


def test_of_disclosure_statements_those_that_can_be_read_are_read():
    good = seq(der.write_text("https://a.example", tag=der.IA5_STRING), der.write_text("en", tag=der.PRINTABLE_STRING))
    read = read_qc_statements(seq(statement(oids.QC_PDS, seq(seq(), good))))
    assert read.pds == (PdsLocation("https://a.example", "en"),)
    assert [finding.code for finding in read.findings] == ["qcstatements.malformed"]


def test_a_disclosure_statement_in_another_string_type_is_read_and_named():
    pair = seq(der.write_text("https://a.example"), der.write_text("en"))
    read = read_qc_statements(seq(statement(oids.QC_PDS, seq(pair))))
    assert read.pds == (PdsLocation("https://a.example", "en"),)
    assert [finding.code for finding in read.findings] == ["qcstatements.string-type"] * 2


PI, AI = der.write_oid("0.4.0.19495.1.2"), der.write_oid("0.4.0.19495.1.3")
PSP_PI, PSP_AI = der.write_text("PSP_PI"), der.write_text("PSP_AI")
NCA_NAME, NCA_ID = der.write_text("Bank of Lithuania"), der.write_text("LT-BL")
SEMANTICS = der.write_oid(oids.SEMANTICS_LEGAL)
COMPLIANCE = statement(oids.QC_COMPLIANCE)


def psd2(*roles: bytes, tail: bytes = NCA_NAME + NCA_ID) -> bytes:
    return statement(oids.QC_PSD2, seq(seq(*roles), tail))


GOOD_PSD2 = psd2(seq(PI, PSP_PI), seq(AI, PSP_AI))

# The encoding, the code of its one finding, and the roles that are read all the same.
FORGIVEN = {
    "one bare statement": (GOOD_PSD2, "qcstatements.bare-statement", ("PSP_PI", "PSP_AI")),
    "two roles in one RoleOfPSP": (seq(psd2(seq(PI, PSP_PI, AI, PSP_AI))), "qcstatements.flattened-roles", ("PSP_PI", "PSP_AI")),
    "QcCompliance with NULL": (
        seq(statement(oids.QC_COMPLIANCE, b"\x05\x00"), GOOD_PSD2), "qcstatements.unexpected-info", ("PSP_PI", "PSP_AI"),
    ),
    "QcSSCD with an empty sequence": (
        seq(statement(oids.QC_SSCD, seq()), GOOD_PSD2), "qcstatements.unexpected-info", ("PSP_PI", "PSP_AI"),
    ),
    "role name of another string type": (
        seq(psd2(seq(PI, der.write_text("PSP_PI", tag=der.PRINTABLE_STRING)))), "qcstatements.string-type", ("PSP_PI",),
    ),
    "authority name of another string type": (
        seq(psd2(seq(PI, PSP_PI), tail=der.write_text("Bank", tag=der.IA5_STRING) + NCA_ID)), "qcstatements.string-type", ("PSP_PI",),
    ),
    "authority identifier of another string type": (
        seq(psd2(seq(PI, PSP_PI), tail=NCA_NAME + der.write_text("LT-BL", tag=0x1E))), "qcstatements.string-type", ("PSP_PI",),
    ),
    "role without identifier": (seq(psd2(seq(PSP_AI), seq(PI, PSP_PI))), "qcstatements.role-malformed", ("PSP_PI",)),
    "role name as number": (
        seq(psd2(seq(PI, b"\x02\x01\x01"), seq(AI, PSP_AI))), "qcstatements.role-malformed", ("PSP_PI", "PSP_AI"),
    ),
    "role name that is no UTF-8": (
        seq(psd2(seq(PI, b"\x0c\x01\xff"), seq(AI, PSP_AI))), "qcstatements.role-malformed", ("PSP_PI", "PSP_AI"),
    ),
    "role without name": (seq(psd2(seq(PI), seq(AI, PSP_AI))), "qcstatements.role-malformed", ("PSP_PI", "PSP_AI")),
    "roles without their sequence": (
        seq(statement(oids.QC_PSD2, seq(seq(PI, PSP_PI), NCA_NAME, NCA_ID))), "qcstatements.flattened-roles", ("PSP_PI",),
    ),
    "role in an explicit tag": (
        seq(psd2(der.write_element(0xA0, seq(PI, PSP_PI)), seq(AI, PSP_AI))), "qcstatements.explicit-tag", ("PSP_PI", "PSP_AI"),
    ),
    "roles in an explicit tag": (
        seq(statement(oids.QC_PSD2, seq(der.write_element(0xA1, seq(seq(PI, PSP_PI))), NCA_NAME, NCA_ID))),
        "qcstatements.explicit-tag", ("PSP_PI",),
    ),
    "role name in an explicit tag": (
        seq(psd2(seq(PI, der.write_element(0xA1, PSP_PI)))), "qcstatements.explicit-tag", ("PSP_PI",),
    ),
    "currency of another string type": (
        seq(statement(oids.QC_LIMIT_VALUE, seq(der.write_text("EUR"), b"\x02\x01\x01", b"\x02\x01\x00")), GOOD_PSD2),
        "qcstatements.string-type", ("PSP_PI", "PSP_AI"),
    ),
    "country of law of another string type": (
        seq(statement(oids.QC_CC_LEGISLATION, seq(der.write_text("LT"))), GOOD_PSD2),
        "qcstatements.string-type", ("PSP_PI", "PSP_AI"),
    ),
    "two semantics in one statement": (
        seq(statement(oids.QCS_SYNTAX_V2, seq(SEMANTICS, SEMANTICS)), GOOD_PSD2),
        "qcstatements.duplicate", ("PSP_PI", "PSP_AI"),
    ),
    "semantics by both syntaxes": (
        seq(*(statement(oid, seq(SEMANTICS)) for oid in (oids.QCS_SYNTAX_V1, oids.QCS_SYNTAX_V2)), GOOD_PSD2),
        "qcstatements.duplicate", ("PSP_PI", "PSP_AI"),
    ),
    "PSD2 without authority": (seq(psd2(seq(PI, PSP_PI), tail=b"")), "qcstatements.malformed", ("PSP_PI",)),
    "PSD2 with a fourth part": (
        seq(psd2(seq(PI, PSP_PI), tail=NCA_NAME + NCA_ID + NCA_ID)), "qcstatements.malformed", ("PSP_PI",),
    ),
    "two lists of roles and one text": (
        seq(statement(oids.QC_PSD2, seq(seq(seq(PI, PSP_PI)), seq(seq(AI, PSP_AI)), NCA_NAME))), "qcstatements.malformed",
        ("PSP_PI", "PSP_AI"),
    ),
    "three lists of roles": (
        seq(statement(oids.QC_PSD2, seq(seq(seq(PI, PSP_PI)), seq(), seq()))), "qcstatements.malformed", ("PSP_PI",),
    ),
    "roles behind the authority": (
        seq(statement(oids.QC_PSD2, seq(NCA_NAME, NCA_ID, seq(seq(PI, PSP_PI))))), "qcstatements.malformed", ("PSP_PI",),
    ),
    "roles inside the authority": (
        seq(statement(oids.QC_PSD2, seq(NCA_NAME, seq(seq(PI, PSP_PI)), NCA_ID))), "qcstatements.malformed", ("PSP_PI",),
    ),
    "three texts": (seq(statement(oids.QC_PSD2, seq(NCA_NAME, NCA_ID, NCA_ID))), "qcstatements.malformed", ()),
    "authority name as number": (
        seq(psd2(seq(PI, PSP_PI), tail=b"\x02\x01\x01" + NCA_ID)), "qcstatements.malformed", ("PSP_PI",),
    ),
    "empty role": (seq(psd2(seq(), seq(AI, PSP_AI))), "qcstatements.role-malformed", ("PSP_AI",)),
    "role that is no sequence": (seq(psd2(PSP_PI, seq(AI, PSP_AI))), "qcstatements.role-malformed", ("PSP_AI",)),
    "statement twice": (seq(psd2(seq(PI, PSP_PI)), GOOD_PSD2), "qcstatements.duplicate", ("PSP_PI",)),
    "statement without identifier": (seq(seq(b"\x80\x01x"), GOOD_PSD2), "qcstatements.malformed", ("PSP_PI", "PSP_AI")),
    "empty statement": (seq(seq(), GOOD_PSD2), "qcstatements.malformed", ("PSP_PI", "PSP_AI")),
    "statement with three parts": (
        seq(statement(oids.QC_SSCD, seq(), seq()), GOOD_PSD2), "qcstatements.malformed", ("PSP_PI", "PSP_AI"),
    ),
    "statement that is no sequence": (seq(b"\x02\x01\x07", GOOD_PSD2), "qcstatements.malformed", ("PSP_PI", "PSP_AI")),
    "QcType that is no sequence": (
        seq(statement(oids.QC_TYPE, PI), GOOD_PSD2), "qcstatements.malformed", ("PSP_PI", "PSP_AI"),
    ),
    "QcType without content": (seq(statement(oids.QC_TYPE), GOOD_PSD2), "qcstatements.malformed", ("PSP_PI", "PSP_AI")),
    "PDS that is no pair": (
        seq(statement(oids.QC_PDS, seq(seq(NCA_NAME))), GOOD_PSD2), "qcstatements.malformed", ("PSP_PI", "PSP_AI"),
    ),
    "retention of a thousand bytes": (
        seq(statement(oids.QC_RETENTION_PERIOD, der.write_element(der.INTEGER, b"\x7f" * 1000)), GOOD_PSD2),
        "qcstatements.malformed", ("PSP_PI", "PSP_AI"),
    ),
    **{
        name: (seq(statement(oid, seq(*parts)), GOOD_PSD2), "qcstatements.malformed", ("PSP_PI", "PSP_AI"))
        for name, oid, *parts in (
            ("limit of two parts", oids.QC_LIMIT_VALUE, der.write_integer(978), der.write_integer(1)),
            ("limit whose amount is text", oids.QC_LIMIT_VALUE, der.write_integer(978), NCA_ID, der.write_integer(1)),
            ("identification method that is text", oids.QC_IDENTIFICATION_METHOD, NCA_ID),
            ("country that is a number", oids.QC_QSCD_LEGISLATION, der.write_integer(1)),
            ("registration authorities that are text", oids.QCS_SYNTAX_V2, NCA_ID),
        )
    },
}  # fmt: skip

# Nothing of the PSD2 statement can be read.
REFUSED = {
    "PSD2 without content": seq(statement(oids.QC_PSD2)),
    "set in place of the sequence": der.write_element(der.SET, GOOD_PSD2),
    "indefinite length": b"\x30\x80" + GOOD_PSD2 + b"\x00\x00",
    "length of five bytes": b"\x30\x85\x00\x00\x00\x00" + bytes([len(GOOD_PSD2)]) + GOOD_PSD2,
    "length beyond the end": b"\x30\x84\x7f\xff\xff\xff" + GOOD_PSD2,
    "bytes after the end": seq(GOOD_PSD2) + b"\x00",
    "no bytes": b"",
}


@pytest.mark.parametrize(("value", "code", "roles"), FORGIVEN.values(), ids=FORGIVEN)
def test_roles_are_read_and_the_fault_is_named(value, code, roles):
    read = read_qc_statements(value)
    assert read.psd2 is not None
    assert read.psd2.role_names == roles
    assert [(finding.code, finding.severity) for finding in read.findings] == [(code, Severity.ERROR)]


@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_gives_no_roles_and_one_finding(value):
    read = read_qc_statements(value)
    assert read.psd2 is None
    assert [finding.code for finding in read.findings] == ["qcstatements.malformed"]


def test_roles_that_lack_their_identifier_are_kept_and_grant_nothing():
    read = read_qc_statements(seq(psd2(seq(PI, PSP_PI), seq(der.write_text("0.4.0.19495.1.3"), PSP_AI))))
    assert read.psd2 is not None
    kept = (RoleOfPsp("0.4.0.19495.1.2", "PSP_PI"), RoleOfPsp("", "0.4.0.19495.1.3"), RoleOfPsp("", "PSP_AI"))
    assert (read.psd2.roles, read.psd2.role_names) == (kept, ("PSP_PI",))
    assert {finding.code for finding in read.findings} == {"qcstatements.role-malformed"}


def test_all_that_is_wrong_with_a_role_is_named():
    read = read_qc_statements(seq(psd2(seq(PI, PSP_PI, AI), seq(AI, PSP_AI))))
    assert read.psd2 is not None
    assert [role.standard_name for role in read.psd2.roles] == ["PSP_PI", "PSP_AI", "PSP_AI"]
    assert [finding.code for finding in read.findings] == [
        "qcstatements.flattened-roles",
        "qcstatements.role-malformed",
    ]


@pytest.mark.parametrize(
    ("tail", "authority"),
    [(b"", ("", "")), (NCA_NAME, ("Bank of Lithuania", "")), (b"\x02\x01\x01" + NCA_ID, ("", "LT-BL"))],
)
def test_of_an_authority_what_can_be_read_is_read(tail, authority):
    read = read_qc_statements(seq(psd2(seq(PI, PSP_PI), tail=tail)))
    assert read.psd2 is not None
    assert (read.psd2.nca_name, read.psd2.nca_id) == authority


def test_a_bare_statement_of_another_kind_is_read_too():
    read = read_qc_statements(COMPLIANCE)
    assert (read.compliance, [f.code for f in read.findings]) == (True, ["qcstatements.bare-statement"])


def test_of_a_statement_that_appears_twice_the_first_is_read():
    read = read_qc_statements(seq(psd2(seq(AI, PSP_AI)), psd2(seq(PI, PSP_PI))))
    assert read.psd2 is not None
    assert read.psd2.roles == (RoleOfPsp("0.4.0.19495.1.3", "PSP_AI"),)
    assert read.statement_oids == (oids.QC_PSD2, oids.QC_PSD2)
    assert "names PSP_PI" in read.findings[0].message


def test_an_unknown_statement_that_appears_twice_is_named_as_well():
    read = read_qc_statements(seq(statement("2.999.1"), statement("2.999.1", NCA_ID)))
    assert read.unknown == (("2.999.1", b""),)
    assert [finding.code for finding in read.findings] == ["qcstatements.duplicate"]


def test_the_byte_inside_a_statement_is_named_where_it_is_known():
    value = seq(COMPLIANCE, statement(oids.QC_TYPE, seq(NCA_ID)))
    (finding,) = read_qc_statements(value).findings
    assert finding.offset is not None
    assert value[finding.offset :] == NCA_ID


def filled(size: int) -> bytes:
    """Good statements of exactly `size` bytes, for a large size."""

    def made(filler: int) -> bytes:
        unknown = statement("2.999.1", der.write_element(der.OCTET_STRING, bytes(filler)))
        return seq(GOOD_PSD2, unknown)

    return made(size - (len(made(size // 2)) - size // 2))


def test_an_extension_of_the_greatest_size_is_read():
    assert len(filled(MAX_EXTENSION_BYTES)) == MAX_EXTENSION_BYTES
    assert read_qc_statements(filled(MAX_EXTENSION_BYTES)).findings == ()


def test_an_extension_that_is_too_large_is_not_read():
    read = read_qc_statements(filled(MAX_EXTENSION_BYTES + 1))
    assert read.psd2 is None
    assert [finding.code for finding in read.findings] == ["qcstatements.malformed"]


def test_a_statement_that_nests_deeply_is_kept_without_recursion():
    deep = b""
    for _ in range(10_000):
        deep = seq(deep)
    read = read_qc_statements(seq(statement("2.999.1", deep), GOOD_PSD2))
    assert read.unknown == (("2.999.1", deep),)
    assert read.psd2 is not None


def test_an_extension_full_of_statements_is_read_to_its_end():
    filler = [seq(der.write_oid(f"2.999.{number}")) for number in range(6000)]
    read = read_qc_statements(seq(*filler, GOOD_PSD2))
    assert (len(read.unknown), read.findings) == (6000, ())
    assert read.psd2 is not None


def test_of_two_semantics_the_first_counts():
    other = der.write_oid(oids.SEMANTICS_EIDAS_LEGAL)
    both = statement(oids.QCS_SYNTAX_V2, seq(SEMANTICS, other))
    assert read_qc_statements(seq(both)).semantics == oids.SEMANTICS_LEGAL
