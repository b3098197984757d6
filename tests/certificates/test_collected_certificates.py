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


def differences(collection, expected, found, *, except_for=frozenset()) -> dict[str, tuple]:
    return {
        row["file"]: (expected(row), found(read))
        for row, read in collection
        if row["file"] not in except_for and expected(row) != found(read)
    }


def listed(text: str) -> list[str]:
    return sorted(USAGES.get(name, name) for name in text.rstrip("!").split("+") if name)


def values(oid: str):
    return lambda read: " | ".join(read.subject.values(oid))


def codes(read: Read) -> list[str]:
    return [finding.code for finding in read.findings]


def psd2_roles(read: Read) -> str:
    return "+".join(f"{role.oid or None}={role.name}" for role in read.qc.psd2.roles) if read.qc.psd2 else ""


COLUMNS = {
    "sha256": (lambda row: row["sha256"], lambda read: read.sha256),
    "subject_o": (lambda row: row["subject_o"], values("2.5.4.10")),
    "subject_cn": (lambda row: row["subject_cn"], values("2.5.4.3")),
    "subject_c": (lambda row: row["subject_c"], values("2.5.4.6")),
    "eku": (lambda row: listed(row["eku"]), lambda read: sorted(read.extensions.extended_key_usage)),
    "policies": (lambda row: listed(row["policies"]), lambda read: sorted(read.extensions.policies)),
    "qc_types": (lambda row: listed(row["qc_types"]), lambda read: sorted(read.qc.types)),
}


@pytest.mark.parametrize(("expected", "found"), COLUMNS.values(), ids=COLUMNS)
def test_what_is_read_is_what_the_column_says(collection, expected, found):
    assert differences(collection, expected, found) == {}


def test_identifiers_are_those_of_the_rows(collection):
    assert differences(collection, lambda row: row["orgid"], values(oids.ORGANIZATION_IDENTIFIER)) == {}
    text = {read.organization_identifier.text if read.organization_identifier else "" for _, read in collection}
    assert len(text) > 40


def test_keys_are_those_of_the_rows(collection):
    def expected(row: Row) -> tuple:
        kind, size = row["key"].split()
        return (kind, int(size), None) if kind == "rsa" else (kind, int(size[4:7]), CURVES[size])

    assert differences(collection, expected, lambda read: (read.key.type, read.key.bits, read.key.curve)) == {}


def test_every_key_can_be_loaded_and_has_the_size_that_was_read(collection):
    assert [row["file"] for row, read in collection if read.public_key.key_size != read.key.bits] == []


def test_dates_are_those_of_the_rows(collection):
    certificates = [(row, read) for row, read in collection if row["kind"] == "cert"]

    def found(read: EidasCertificate) -> tuple[str, str]:
        return read.not_before.date().isoformat(), read.not_after.date().isoformat()

    assert differences(certificates, lambda row: (row["not_before"], row["not_after"]), found) == {}


def test_key_usages_are_those_of_the_rows(collection):
    def expected(row: Row) -> tuple[list[str], bool]:
        return listed(row["key_usage(!=critical)"]), row["key_usage(!=critical)"].endswith("!")

    def found(read: Read) -> tuple[list[str], bool]:
        return sorted(read.extensions.key_usage), "2.5.29.15" in read.extensions.critical

    assert differences(collection, expected, found) == {}


def test_dns_names_are_those_of_the_rows(collection):
    # The column also lists addresses, and is cut off after 120 characters.
    for row, read in collection:
        if row["file"] != NO_SAN_IN_ROW:
            names = row["san"].split("+") if row["san"] else []
            whole = names[:-1] if len(row["san"]) == 120 else names
            expected = [name for name in whole if "@" not in name and not name.replace(".", "").isdigit()]
            assert list(read.extensions.dns_names[: len(expected)]) == expected, row["file"]
            assert len(row["san"]) == 120 or len(read.extensions.dns_names) == len(expected), row["file"]


def test_statements_are_those_of_the_rows(collection):
    unread = {row["file"] for row, _ in collection if row["psd2_structure"] == BARE} - {NO_STATEMENT_ID}
    found = differences(
        collection,
        lambda row: row["qc_statement_oids"],
        lambda read: "+".join(read.qc.statement_oids),
        except_for=unread,
    )
    assert found == {}


def test_disclosure_statements_are_those_of_the_rows(collection):
    def found(read: Read) -> str:
        return " ; ".join(f"{location.url}/{location.language}" for location in read.qc.pds)

    assert differences(collection, lambda row: row["pds"], found, except_for={PDS_TWICE}) == {}


def test_roles_are_those_of_the_rows(collection):
    unread = {row["file"] for row, _ in collection if row["psd2_structure"] == BARE}
    assert differences(collection, lambda row: row["psd2_roles"], psd2_roles, except_for=unread) == {}


def test_authorities_are_those_of_the_rows(collection):
    unread = {row["file"] for row, _ in collection if row["psd2_structure"] == BARE}

    def found(read: Read) -> tuple[str, str]:
        return (read.qc.psd2.nca_name, read.qc.psd2.nca_id) if read.qc.psd2 else ("", "")

    assert differences(collection, lambda row: (row["nca_name"], row["nca_id"]), found, except_for=unread) == {}


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
