"""Certificates from public repositories: we read what an independent reader found, and more.

Where the two differ, the DER was looked at with `openssl asn1parse`; the reason stands beside each exception.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import pytest

from tppkit.certificates import EidasCertificate, Use, check_certificate, oids
from tppkit.certificates.certificate import EidasRequest
from tppkit.certificates.names import parse_name

pytestmark = pytest.mark.shared

BARE = "bare QCStatement (SEQUENCE OF missing)"
FLATTENED = "flattened RoleOfPSP"

# The first of three statements has no identifier; the row calls that a bare statement.
NO_STATEMENT_ID = "qc_other/zlint__QcStmtEtsiTaggedValueCert20__8f7bd8c2.der"
# The PDS statement stands twice; the row lists both, we read the first and say so.
PDS_TWICE = "qc_other/zlint__QcStmtPsd2Cert107RepeatedEtsiQcStmt__ed23b0f4.der"
# The row's reader gave up on a name with a prohibited label.
NO_SAN_IN_ROW = "qc_other/pkilint__prohibited-plabel-san__eaa1493b.der"

USAGES = {
    "server_auth": "serverAuth", "client_auth": "clientAuth", "ocsp_signing": "OCSPSigning",
    "email_protection": "emailProtection", "digital_signature": "digitalSignature", "non_repudiation": "nonRepudiation",
    "key_encipherment": "keyEncipherment", "data_encipherment": "dataEncipherment", "key_cert_sign": "keyCertSign",
    "crl_sign": "cRLSign",
}  # fmt: skip
CURVES = {"secp256r1": "P-256", "secp384r1": "P-384"}

Row = Mapping[str, str]
Read = EidasCertificate | EidasRequest


@pytest.fixture(scope="module")
def collection(shared_data: Path) -> list[tuple[Row, Read]]:
    folder = shared_data / "certificates"
    with (folder / "index.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 150
    kinds = {"cert": EidasCertificate, "csr": EidasRequest}
    return [(row, kinds[row["kind"]].from_der((folder / row["file"]).read_bytes())) for row in rows]


def listed(text: str) -> list[str]:
    return sorted(USAGES.get(name, name) for name in text.rstrip("!").split("+") if name)


def values(oid: str):
    return lambda read: " | ".join(read.subject.values(oid))


def codes(read: Read) -> list[str]:
    return [finding.code for finding in read.findings]


def psd2_roles(read: Read) -> str:
    return "+".join(f"{role.oid or None}={role.name}" for role in read.qc.psd2.roles) if read.qc.psd2 else ""


def key(row: Row) -> tuple:
    kind, size = row["key"].split()
    return (kind, int(size), None) if kind == "rsa" else (kind, int(size[4:7]), CURVES[size])


def usage(row: Row) -> tuple[list[str], bool]:
    return listed(row["key_usage(!=critical)"]), row["key_usage(!=critical)"].endswith("!")


def dates(read: Read) -> tuple[str, str] | None:
    both = (read.not_before, read.not_after) if isinstance(read, EidasCertificate) else None
    return both and tuple(time.date().isoformat() for time in both)


def authority(read: Read) -> tuple[str, str]:
    return (read.qc.psd2.nca_name, read.qc.psd2.nca_id) if read.qc.psd2 else ("", "")


def is_bare(row: Row) -> bool:
    return row["psd2_structure"] == BARE


# What is compared, the row's value, ours, and the rows that are known to differ.
COLUMNS = {
    "digest": (lambda row: row["sha256"], lambda read: read.sha256, None),
    "organisation": (lambda row: row["subject_o"], values("2.5.4.10"), None),
    "common name": (lambda row: row["subject_cn"], values("2.5.4.3"), None),
    "country": (lambda row: row["subject_c"], values("2.5.4.6"), None),
    "identifier": (lambda row: row["orgid"], values(oids.ORGANIZATION_IDENTIFIER), None),
    "extended usage": (lambda row: listed(row["eku"]), lambda read: sorted(read.extensions.extended_key_usage), None),
    "policies": (lambda row: listed(row["policies"]), lambda read: sorted(read.extensions.policies), None),
    "types": (lambda row: listed(row["qc_types"]), lambda read: sorted(read.qc.types), None),
    "key": (key, lambda read: (read.key.type, read.key.bits, read.key.curve), None),
    "usage": (usage, lambda read: (sorted(read.extensions.key_usage), "2.5.29.15" in read.extensions.critical), None),
    "dates": (lambda row: (row["not_before"], row["not_after"]) if row["kind"] == "cert" else None, dates, None),
    "statements": (
        lambda row: row["qc_statement_oids"], lambda read: "+".join(read.qc.statement_oids),
        lambda row: is_bare(row) and row["file"] != NO_STATEMENT_ID,
    ),
    "disclosure statements": (
        lambda row: row["pds"], lambda read: " ; ".join(f"{pds.url}/{pds.language}" for pds in read.qc.pds),
        lambda row: row["file"] == PDS_TWICE,
    ),
    "roles": (lambda row: row["psd2_roles"], psd2_roles, is_bare),
    "authority": (lambda row: (row["nca_name"], row["nca_id"]), authority, is_bare),
}  # fmt: skip


@pytest.mark.parametrize(("expected", "found", "differs"), COLUMNS.values(), ids=COLUMNS)
def test_what_is_read_is_what_the_row_says(collection, expected, found, differs):
    compared = [(row, read) for row, read in collection if differs is None or not differs(row)]
    assert {row["file"]: found(read) for row, read in compared} == {row["file"]: expected(row) for row, _ in compared}


def test_many_organisations_are_in_the_collection(collection):
    assert len({read.organization_identifier and read.organization_identifier.text for _, read in collection}) > 40


def test_every_key_can_be_loaded_and_has_the_size_that_was_read(collection):
    assert [row["file"] for row, read in collection if read.public_key.key_size != read.key.bits] == []


def test_dns_names_are_those_of_the_rows(collection):
    # The column also lists addresses, and is cut off after 120 characters.
    for row, read in collection:
        if row["file"] != NO_SAN_IN_ROW:
            names = row["san"].split("+") if row["san"] else []
            whole = names[:-1] if len(row["san"]) == 120 else names
            expected = [name for name in whole if "@" not in name and not name.replace(".", "").isdigit()]
            assert list(read.extensions.dns_names[: len(expected)]) == expected, row["file"]
            assert len(row["san"]) == 120 or len(read.extensions.dns_names) == len(expected), row["file"]


def test_bare_statements_are_read_and_named(collection):
    bare = [read for row, read in collection if row["psd2_structure"] == BARE and row["file"] != NO_STATEMENT_ID]
    assert len(bare) == 2
    for read in bare:
        assert read.roles == ("PSP_AS", "PSP_PI", "PSP_AI", "PSP_IC")
        assert "qcstatements.bare-statement" in codes(read)


def test_flattened_roles_are_all_read_and_named(collection):
    flattened = [(row, read) for row, read in collection if row["psd2_structure"] == FLATTENED]
    assert len(flattened) == 2
    for row, read in flattened:
        assert len(read.roles) == len(row["psd2_roles"].split("+")) > 1
        assert codes(read) == ["qcstatements.flattened-roles"]


def test_what_the_rows_call_malformed_is_never_skipped(collection):
    malformed = [(row, read) for row, read in collection if row["psd2_structure"].startswith("malformed")]
    assert len(malformed) >= 6
    for row, read in malformed:
        found = {finding.code for finding in check_certificate(read, as_=Use.QWAC, at=read.not_before)}
        assert found & {"qcstatements.string-type", "qcstatements.role-malformed", "qcstatements.no-roles"}, row["file"]


def test_a_statement_without_identifier_is_named_and_the_others_read(collection):
    (read,) = (read for row, read in collection if row["file"] == NO_STATEMENT_ID)
    assert (codes(read), read.qc.types, len(read.qc.pds)) == (["qcstatements.malformed"], ("web",), 2)


def test_statements_with_content_that_should_have_none_are_named(collection):
    for row, read in collection:
        assert ("QcCompliance has statementInfo" in row["oddities"]) == ("qcstatements.unexpected-info" in codes(read))


def test_well_formed_psd2_statements_give_no_finding_about_them(collection):
    faults = {
        "qcstatements.malformed",
        "qcstatements.role-malformed",
        "qcstatements.string-type",
        "qcstatements.bare-statement",
    }
    found = {row["file"] for row, read in collection if row["psd2_structure"] == "ok" and faults & {*codes(read)}}
    assert found == set()


def test_every_name_survives_its_own_text(collection):
    for row, read in collection:
        for text in (str(read.subject), read.subject.rfc4514()):
            assert parse_name(text) == read.subject, row["file"]


@pytest.mark.filterwarnings("ignore:Attribute's length must be")  # the other reader's remark about one long name
def test_names_as_another_library_writes_them_match(collection):
    for row, read in collection:
        pairs = [(read.subject, read.x509.subject)]
        if isinstance(read, EidasCertificate):
            pairs.append((read.issuer, read.x509.issuer))
        for name, theirs in pairs:
            assert parse_name(theirs.rfc4514_string()).matches(name), row["file"]
