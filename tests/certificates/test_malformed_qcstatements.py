"""Malformed QcStatements: what is forgiven is read and named, what is not does not take the rest with it."""

from __future__ import annotations

import pytest

from tppkit.certificates import der, oids
from tppkit.certificates.qcstatements import MAX_EXTENSION_BYTES, RoleOfPsp, read_qc_statements
from tppkit.errors import Severity

PI, AI = der.write_oid("0.4.0.19495.1.2"), der.write_oid("0.4.0.19495.1.3")
PSP_PI, PSP_AI = der.write_text("PSP_PI"), der.write_text("PSP_AI")
NCA_NAME, NCA_ID = der.write_text("Bank of Lithuania"), der.write_text("LT-BL")
SEMANTICS = der.write_oid(oids.SEMANTICS_LEGAL)
COMPLIANCE = der.write_sequence(der.write_oid(oids.QC_COMPLIANCE))


def seq(*parts: bytes) -> bytes:
    return der.write_sequence(*parts)


def psd2(*roles: bytes, tail: bytes = NCA_NAME + NCA_ID) -> bytes:
    return seq(der.write_oid(oids.QC_PSD2), seq(seq(*roles), tail))


GOOD_PSD2 = psd2(seq(PI, PSP_PI), seq(AI, PSP_AI))

# The encoding, the code of its one finding, and the roles that are read all the same.
FORGIVEN = {
    "one bare statement": (GOOD_PSD2, "qcstatements.bare-statement", ("PSP_PI", "PSP_AI")),
    "two roles in one RoleOfPSP": (seq(psd2(seq(PI, PSP_PI, AI, PSP_AI))), "qcstatements.flattened-roles", ("PSP_PI", "PSP_AI")),
    "QcCompliance with NULL": (
        seq(seq(der.write_oid(oids.QC_COMPLIANCE), b"\x05\x00"), GOOD_PSD2), "qcstatements.unexpected-info", ("PSP_PI", "PSP_AI"),
    ),
    "QcSSCD with an empty sequence": (
        seq(seq(der.write_oid(oids.QC_SSCD), seq()), GOOD_PSD2), "qcstatements.unexpected-info", ("PSP_PI", "PSP_AI"),
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
        seq(seq(der.write_oid(oids.QC_PSD2), seq(seq(PI, PSP_PI), NCA_NAME, NCA_ID))), "qcstatements.flattened-roles", ("PSP_PI",),
    ),
    "role in an explicit tag": (
        seq(psd2(der.write_element(0xA0, seq(PI, PSP_PI)), seq(AI, PSP_AI))), "qcstatements.explicit-tag", ("PSP_PI", "PSP_AI"),
    ),
    "roles in an explicit tag": (
        seq(seq(der.write_oid(oids.QC_PSD2), seq(der.write_element(0xA1, seq(seq(PI, PSP_PI))), NCA_NAME, NCA_ID))),
        "qcstatements.explicit-tag", ("PSP_PI",),
    ),
    "role name in an explicit tag": (
        seq(psd2(seq(PI, der.write_element(0xA1, PSP_PI)))), "qcstatements.explicit-tag", ("PSP_PI",),
    ),
    "currency of another string type": (
        seq(seq(der.write_oid(oids.QC_LIMIT_VALUE), seq(der.write_text("EUR"), b"\x02\x01\x01", b"\x02\x01\x00")), GOOD_PSD2),
        "qcstatements.string-type", ("PSP_PI", "PSP_AI"),
    ),
    "country of law of another string type": (
        seq(seq(der.write_oid(oids.QC_CC_LEGISLATION), seq(der.write_text("LT"))), GOOD_PSD2),
        "qcstatements.string-type", ("PSP_PI", "PSP_AI"),
    ),
    "two semantics in one statement": (
        seq(seq(der.write_oid(oids.QCS_SYNTAX_V2), seq(SEMANTICS, SEMANTICS)), GOOD_PSD2),
        "qcstatements.duplicate", ("PSP_PI", "PSP_AI"),
    ),
    "semantics by both syntaxes": (
        seq(*(seq(der.write_oid(oid), seq(SEMANTICS)) for oid in (oids.QCS_SYNTAX_V1, oids.QCS_SYNTAX_V2)), GOOD_PSD2),
        "qcstatements.duplicate", ("PSP_PI", "PSP_AI"),
    ),
    "PSD2 without authority": (seq(psd2(seq(PI, PSP_PI), tail=b"")), "qcstatements.malformed", ("PSP_PI",)),
    "PSD2 with a fourth part": (
        seq(psd2(seq(PI, PSP_PI), tail=NCA_NAME + NCA_ID + NCA_ID)), "qcstatements.malformed", ("PSP_PI",),
    ),
    "two lists of roles and one text": (
        seq(seq(der.write_oid(oids.QC_PSD2), seq(seq(seq(PI, PSP_PI)), seq(seq(AI, PSP_AI)), NCA_NAME))), "qcstatements.malformed",
        ("PSP_PI", "PSP_AI"),
    ),
    "three lists of roles": (
        seq(seq(der.write_oid(oids.QC_PSD2), seq(seq(seq(PI, PSP_PI)), seq(), seq()))), "qcstatements.malformed", ("PSP_PI",),
    ),
    "roles behind the authority": (
        seq(seq(der.write_oid(oids.QC_PSD2), seq(NCA_NAME, NCA_ID, seq(seq(PI, PSP_PI))))), "qcstatements.malformed", ("PSP_PI",),
    ),
    "roles inside the authority": (
        seq(seq(der.write_oid(oids.QC_PSD2), seq(NCA_NAME, seq(seq(PI, PSP_PI)), NCA_ID))), "qcstatements.malformed", ("PSP_PI",),
    ),
    "three texts": (seq(seq(der.write_oid(oids.QC_PSD2), seq(NCA_NAME, NCA_ID, NCA_ID))), "qcstatements.malformed", ()),
    "authority name as number": (
        seq(psd2(seq(PI, PSP_PI), tail=b"\x02\x01\x01" + NCA_ID)), "qcstatements.malformed", ("PSP_PI",),
    ),
    "empty role": (seq(psd2(seq(), seq(AI, PSP_AI))), "qcstatements.role-malformed", ("PSP_AI",)),
    "role that is no sequence": (seq(psd2(PSP_PI, seq(AI, PSP_AI))), "qcstatements.role-malformed", ("PSP_AI",)),
    "statement twice": (seq(psd2(seq(PI, PSP_PI)), GOOD_PSD2), "qcstatements.duplicate", ("PSP_PI",)),
    "statement without identifier": (seq(seq(b"\x80\x01x"), GOOD_PSD2), "qcstatements.malformed", ("PSP_PI", "PSP_AI")),
    "empty statement": (seq(seq(), GOOD_PSD2), "qcstatements.malformed", ("PSP_PI", "PSP_AI")),
    "statement with three parts": (
        seq(seq(der.write_oid(oids.QC_SSCD), seq(), seq()), GOOD_PSD2), "qcstatements.malformed", ("PSP_PI", "PSP_AI"),
    ),
    "statement that is no sequence": (seq(b"\x02\x01\x07", GOOD_PSD2), "qcstatements.malformed", ("PSP_PI", "PSP_AI")),
    "QcType that is no sequence": (
        seq(seq(der.write_oid(oids.QC_TYPE), PI), GOOD_PSD2), "qcstatements.malformed", ("PSP_PI", "PSP_AI"),
    ),
    "QcType without content": (seq(seq(der.write_oid(oids.QC_TYPE)), GOOD_PSD2), "qcstatements.malformed", ("PSP_PI", "PSP_AI")),
    "PDS that is no pair": (
        seq(seq(der.write_oid(oids.QC_PDS), seq(seq(NCA_NAME))), GOOD_PSD2), "qcstatements.malformed", ("PSP_PI", "PSP_AI"),
    ),
    "retention of a thousand bytes": (
        seq(seq(der.write_oid(oids.QC_RETENTION_PERIOD), der.write_element(der.INTEGER, b"\x7f" * 1000)), GOOD_PSD2),
        "qcstatements.malformed", ("PSP_PI", "PSP_AI"),
    ),
}  # fmt: skip

# Nothing of the PSD2 statement can be read.
REFUSED = {
    "PSD2 without content": seq(seq(der.write_oid(oids.QC_PSD2))),
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
    read = read_qc_statements(seq(seq(der.write_oid("2.999.1")), seq(der.write_oid("2.999.1"), NCA_ID)))
    assert read.unknown == (("2.999.1", b""),)
    assert [finding.code for finding in read.findings] == ["qcstatements.duplicate"]


def test_the_byte_inside_a_statement_is_named_where_it_is_known():
    value = seq(COMPLIANCE, seq(der.write_oid(oids.QC_TYPE), seq(NCA_ID)))
    (finding,) = read_qc_statements(value).findings
    assert finding.offset is not None
    assert value[finding.offset :] == NCA_ID


def filled(size: int) -> bytes:
    """Good statements of exactly `size` bytes, for a large size."""

    def made(filler: int) -> bytes:
        unknown = seq(der.write_oid("2.999.1"), der.write_element(der.OCTET_STRING, bytes(filler)))
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
    read = read_qc_statements(seq(seq(der.write_oid("2.999.1"), deep), GOOD_PSD2))
    assert read.unknown == (("2.999.1", deep),)
    assert read.psd2 is not None


def test_an_extension_full_of_statements_is_read_to_its_end():
    filler = [seq(der.write_oid(f"2.999.{number}")) for number in range(6000)]
    read = read_qc_statements(seq(*filler, GOOD_PSD2))
    assert (len(read.unknown), read.findings) == (6000, ())
    assert read.psd2 is not None


def test_of_two_semantics_the_first_counts():
    other = der.write_oid(oids.SEMANTICS_EIDAS_LEGAL)
    statement = seq(der.write_oid(oids.QCS_SYNTAX_V2), seq(SEMANTICS, other))
    assert read_qc_statements(seq(statement)).semantics == oids.SEMANTICS_LEGAL
