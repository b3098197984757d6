from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp

from tppkit.certificates import der, oids
from tppkit.testpki import certificate_pem
from tppkit.testpki.certificate import Attribute, Draft, Extension, sign_draft, write_name
from tppkit.testpki.crl import Revocation, write_crl
from tppkit.testpki.faults.catalogue import FAULTS
from tppkit.testpki.faults.valid_pki import plain_pki
from tppkit.testpki.ocsp import answer_ocsp
from tppkit.trust.revocation.ocsp_response import make_ocsp_request

KEYS = {
    "file", "sha256", "kind", "subject", "issuer", "serial_hex", "not_before", "not_after", "key", "organization_identifier", "psd2",
    "qc_types", "qc_compliance", "qc_sscd", "qc_pds", "policies", "key_usage", "extended_key_usage", "findings",
}  # fmt: skip


@pytest.fixture
def qwac_file(tmp_path, pki):
    path = tmp_path / "qwac.pem"
    path.write_bytes(certificate_pem(pki.qwac.certificate))
    return path


def test_json_has_the_facts_of_a_qwac(tppkit, qwac_file, pki):
    (entry,) = tppkit("cert", "show", "--json", qwac_file).json
    assert entry.keys() >= KEYS
    assert entry["kind"] == "certificate"
    assert entry["sha256"] == pki.qwac.certificate.sha256
    assert entry["organization_identifier"] == {
        "text": "PSDLT-BL-LB000000", "scheme": "PSD", "country": "LT", "authority": "BL", "reference": "LB000000",
    }  # fmt: skip
    assert entry["psd2"] == {
        "roles": ["PSP_PI", "PSP_AI"], "role_oids": ["0.4.0.19495.1.2", "0.4.0.19495.1.3"],
        "nca_name": "Bank of Lithuania", "nca_id": "LT-BL",
    }  # fmt: skip
    assert entry["qc_types"] == ["web"]
    assert entry["key"] == {"type": "ec", "bits": 256, "curve": "P-256"}
    assert entry["extended_key_usage"] == ["serverAuth", "clientAuth"]
    assert entry["findings"] == []


def test_the_text_has_the_same_facts(tppkit, qwac_file):
    lines = tppkit("cert", "show", qwac_file).stdout.splitlines()
    facts = (
        "  organization_identifier   text: PSDLT-BL-LB000000; scheme: PSD; country: LT; authority: BL; reference: LB000000",
        "  psd2                      roles: PSP_PI, PSP_AI", "                            nca_id: LT-BL",
        "  qc_types                  web", "  extended_key_usage        serverAuth, clientAuth", "  is_ca                     no",
    )  # fmt: skip
    assert [fact for fact in facts if fact not in lines] == []


def test_an_unreadable_file_does_not_hide_the_others(tppkit, tmp_path, qwac_file):
    (tmp_path / "bad").write_bytes(b"\x30\x82garbage")
    result = tppkit("cert", "show", "--json", "bad", qwac_file, "absent")
    assert result.exit_code == 3
    first, second, third = result.json
    assert first.keys() == {"file", "error"}
    assert first["error"]["code"] == "certificate.malformed"
    assert second["kind"] == "certificate"
    assert third["error"]["code"] == "file.unreadable"


def test_the_command_that_converts_a_file_has_its_name(tppkit, tmp_path, qwac_file):
    (file := tmp_path / "my qwac.pem").write_bytes(qwac_file.read_text().encode("utf-16"))
    for command in (("cert", "show"), ("cert", "check", "--as", "qwac")):
        shown = tppkit(*command, file)
        assert shown.exit_code == 3
        assert f"iconv -f UTF-16 -t UTF-8 '{file}' > '{file}'.pem" in shown.stderr
    assert "iconv -f UTF-16 -t UTF-8 FILE" in tppkit("cert", "show", "-", stdin=file.read_bytes()).stderr


def test_standard_input_is_read_for_a_dash(tppkit, pki):
    line = base64.b64encode(pki.qseal.certificate.der)
    (entry,) = tppkit("cert", "show", "--json", "-", stdin=line).json
    assert entry["file"] == "-"
    assert entry["qc_types"] == ["eseal"]


def test_control_characters_of_a_certificate_do_not_reach_the_terminal(tppkit, tmp_path, pki):
    from tppkit.testpki import make_provider

    provider = make_provider(nca_name="Bank of Lithuania")
    object.__setattr__(provider, "nca_name", "Evil\x1b[2J\nBank")
    evil = sign_draft(
        pki.draft("qwac", provider, label="evil"), pki.qwac_ca, "evil", "qwac"
    )  # no PKI issues such a one
    (tmp_path / "evil.pem").write_bytes(certificate_pem(evil.certificate))
    shown = tppkit("cert", "show", "evil.pem").stdout
    assert "\x1b" not in shown
    assert "Evil\\x1b[2J\\nBank" in shown


def test_json_has_the_extensions_and_statements_of_a_certificate(tppkit, qwac_file, pki):
    (entry,) = tppkit("cert", "show", "--json", qwac_file).json
    extensions = pki.qwac.certificate.extensions
    assert entry["ocsp_urls"] == list(extensions.ocsp_urls) != []
    assert entry["crl_urls"] == list(extensions.crl_urls) != []
    assert entry["ca_issuers_urls"] == list(extensions.ca_issuers_urls) != []
    assert entry["subject_key_identifier"] == extensions.subject_key_identifier.hex()
    assert entry["authority_key_identifier"] == pki.qwac_ca.certificate.extensions.subject_key_identifier.hex()
    assert (entry["is_ca"], entry["path_length"], entry["precertificate"]) == (False, None, False)
    assert entry["qc_semantics"] == "0.4.0.194121.1.2"
    assert (entry["qc_limit_value"], entry["qc_retention_years"], entry["qc_unknown_statements"]) == (None, None, [])
    assert entry["critical_extensions"] == ["2.5.29.15"]


def test_an_authority_is_shown_as_one(tppkit, tmp_path, pki):
    (tmp_path / "ca.pem").write_bytes(certificate_pem(pki.qwac_ca.certificate))
    (tmp_path / "server.pem").write_bytes(certificate_pem(pki.server.certificate))
    result = tppkit("cert", "show", "ca.pem", "server.pem")
    assert "path_length               0\n" in result.stdout
    assert "127.0.0.1, ::1" in result.stdout
    (authority, _) = tppkit("cert", "show", "--json", "ca.pem", "server.pem").json
    assert (authority["is_ca"], authority["path_length"]) == (True, 0)


def _with_statements(pki) -> bytes:
    """The provider's certificate, with every QcStatement that it does not have already."""

    def sequence(*parts: bytes) -> bytes:
        return der.write_element(der.SEQUENCE, *parts)

    def integer(value: int) -> bytes:
        return der.write_element(der.INTEGER, bytes([value]))

    def printable(text: str) -> bytes:
        return der.write_element(der.PRINTABLE_STRING, text.encode())

    statements = [
        (oids.QC_LIMIT_VALUE, sequence(printable("EUR"), integer(5), integer(3))),
        (oids.QC_RETENTION_PERIOD, integer(10)),
        (oids.QC_CC_LEGISLATION, sequence(printable("CH"))),
        (oids.QC_IDENTIFICATION_METHOD, sequence(der.write_oid("0.4.0.1862.1.8.4"))),
        (oids.QC_QSCD_LEGISLATION, sequence(printable("JP"))),
        (oids.QCS_SYNTAX_V2, sequence(sequence(der.write_element(0x86, b"https://registry.example")))),
        ("2.999.1", printable("x")),
    ]
    value = sequence(*(sequence(der.write_oid(oid), info) for oid, info in statements))
    extension = x509.UnrecognizedExtension(x509.ObjectIdentifier(oids.QC_STATEMENTS), value)
    builder = (
        x509.CertificateBuilder()
        .subject_name(pki.qwac.certificate.x509.subject)
        .issuer_name(pki.root.certificate.x509.subject)
        .public_key(pki.qwac.key.public_key())
        .serial_number(1)
        .not_valid_before(pki.not_before)
        .not_valid_after(pki.not_before + timedelta(days=1))
        .add_extension(extension, critical=False)
    )
    return builder.sign(pki.root.key, hashes.SHA256()).public_bytes(Encoding.DER)


def test_every_qc_statement_is_shown(tppkit, tmp_path, pki):
    (tmp_path / "all.der").write_bytes(_with_statements(pki))
    (entry,) = tppkit("cert", "show", "--json", "all.der").json
    assert entry["qc_limit_value"] == {"currency": "EUR", "amount": 5, "exponent": 3}
    assert entry["qc_retention_years"] == 10
    assert entry["qc_cc_legislation"] == ["CH"]
    assert entry["qc_identification_methods"] == ["eIDAS2-b"]
    assert entry["qc_qscd_legislation"] == ["JP"]
    assert entry["qc_name_registration_authorities"] == ["https://registry.example"]
    assert entry["qc_unknown_statements"] == ["2.999.1"]
    shown = tppkit("cert", "show", "all.der").stdout
    for reported in (
        "currency: EUR; amount: 5; exponent: 3",
        "CH",
        "eIDAS2-b",
        "JP",
        "https://registry.example",
        "2.999.1",
    ):
        assert reported in shown


def test_a_role_without_identifier_has_none_in_the_list(tppkit, tmp_path, pki):
    (tmp_path / "role.der").write_bytes(FAULTS["role-without-identifier"].make(plain_pki(pki)).leaf)
    (entry,) = tppkit("cert", "show", "--json", "role.der").json
    assert entry["psd2"]["role_oids"] == ["0.4.0.19495.1.3"]
    assert len(entry["psd2_written_role_names"]) == 2


def test_the_place_of_a_malformed_encoding_is_shown(tppkit, tmp_path, pki):
    (tmp_path / "cut.der").write_bytes(pki.qwac.certificate.der[:-1] + b"\x30\x00")
    (entry,) = tppkit("cert", "show", "--json", "cut.der").json
    assert entry["error"].keys() == {"code", "message", "offset"}
    assert f"  at byte {entry['error']['offset']}\n" in tppkit("cert", "show", "cut.der").stderr


def test_a_request_is_shown_without_what_only_an_issuer_states(tppkit, tmp_path, request_der):
    (tmp_path / "request.der").write_bytes(request_der)
    (entry,) = tppkit("cert", "show", "--json", "request.der").json
    assert (entry["kind"], entry["issuer"], entry["not_after"]) == ("csr", None, None)
    assert tppkit("cert", "show", "request.der").stdout.startswith("request.der: csr\n")


@pytest.fixture
def answers(tmp_path, pki):
    """A CRL of two entries, an OCSP answer of each kind, and a PEM file of a certificate and two CRLs."""
    at = datetime(2026, 6, 1, tzinfo=UTC)
    ca, revoked = pki.qwac_ca, [Revocation(0xAB, at, "keyCompromise"), Revocation(0xCD, at)]
    crl = write_crl(
        ca, revoked, this_update=at, next_update=None, number=7,
        further=(Extension("2.5.29.27", der.write_integer(3), critical=True),),
    )  # fmt: skip
    request = make_ocsp_request(pki.qwac.certificate, issuer=ca.certificate, nonce=b"nonce")
    pem = certificate_pem(pki.qwac.certificate) + x509.load_der_x509_crl(crl).public_bytes(Encoding.PEM) * 2
    files = {
        "a.crl": crl, "good.ocsp": answer_ocsp(pki, request, at=at), "none.ocsp": answer_ocsp(pki, b"", at=at), "all.pem": pem,
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    return files


def test_lists_and_ocsp_answers_are_shown(tppkit, answers, pki):
    result = tppkit("cert", "show", "--json", *answers)
    assert result.exit_code == 0
    crl, good, none, *bundle = result.json
    assert [entry["kind"] for entry in result.json] == ["crl", "ocsp", "ocsp", "crl", "crl", "certificate"]
    assert crl == {
        "file": "a.crl", "sha256": hashlib.sha256(answers["a.crl"]).hexdigest(), "kind": "crl",
        "issuer": str(pki.qwac_ca.certificate.subject), "this_update": "2026-06-01T00:00:00Z", "next_update": None, "number": 7,
        "base_number": 3, "distribution_point": None, "signature_algorithm": "ecdsa-with-SHA256", "revoked": [
            {"serial_hex": "AB", "revoked_at": "2026-06-01T00:00:00Z", "reason": "key_compromise", "certificate_issuer": None},
            {"serial_hex": "CD", "revoked_at": "2026-06-01T00:00:00Z", "reason": None, "certificate_issuer": None},
        ], "extensions": ["2.5.29.35", "2.5.29.20", "2.5.29.27"], "critical_extensions": ["2.5.29.27"],
        "findings": crl["findings"],
    }  # fmt: skip
    assert [finding["code"] for finding in crl["findings"]] == ["crl.undated"]
    (single,) = good.pop("responses")
    assert single == {
        "serial_hex": pki.qwac.certificate.serial_hex, "state": "good", "this_update": "2026-06-01T00:00:00Z",
        "next_update": "2026-06-02T00:00:00Z", "revoked_at": None, "reason": None,
    }  # fmt: skip
    assert (good["status"], good["nonce"], len(good["certificates"])) == ("successful", b"nonce".hex(), 1)
    assert (none["status"], none["responses"]) == ("malformed_request", [])
    assert {**bundle[0], "file": "a.crl"} == crl


def test_lists_and_ocsp_answers_are_shown_as_text(tppkit, answers):
    shown = tppkit("cert", "show", *answers).stdout
    for reported in (
        "a.crl: crl (",
        "serial_hex: AB",
        "key_compromise",
        "good.ocsp: ocsp (",
        "malformed_request",
        "crl.undated",
        "good",
    ):
        assert reported in shown
    assert shown.count("signature not checked") == 5  # nothing here says who must have signed


def test_a_responder_that_is_only_named_is_shown(tppkit, tmp_path, pki):
    at, issued, ca = datetime(2026, 6, 1, tzinfo=UTC), pki.qwac, pki.qwac_ca
    answer = (
        ocsp.OCSPResponseBuilder()
        .add_response(
            issued.certificate.x509,
            ca.certificate.x509,
            hashes.SHA256(),
            ocsp.OCSPCertStatus.GOOD,
            at,
            None,
            None,
            None,
        )
        .responder_id(ocsp.OCSPResponderEncoding.NAME, ca.certificate.x509)
        .sign(ca.key, hashes.SHA256())
    )
    (tmp_path / "named.ocsp").write_bytes(answer.public_bytes(Encoding.DER))
    (entry,) = tppkit("cert", "show", "--json", "named.ocsp").json
    name = str(ca.certificate.subject)
    assert (entry["responder_name"], entry["responder_key_hash"], entry["certificates"]) == (name, None, [])


def test_entries_of_an_indirect_crl_are_shown_with_their_issuer(tppkit, tmp_path, pki):
    at, ca, other = datetime(2026, 6, 1, tzinfo=UTC), pki.qwac_ca, pki.qseal_ca.certificate
    nameless = [x509.DNSName("ca.example")]
    named = (None, [x509.DirectoryName(other.x509.subject)], None, nameless, None)
    entries = []
    for serial, names in enumerate(named, start=1):
        builder = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(at)
        if names:
            builder = builder.add_extension(x509.CertificateIssuer(names), critical=True)
        entries.append(builder.build())
    point = x509.IssuingDistributionPoint(None, None, False, False, None, True, False)
    extensions = [x509.Extension(point.oid, True, point)]
    draft = x509.CertificateRevocationListBuilder(
        ca.certificate.x509.subject, at, at + timedelta(days=1), extensions, entries
    )
    (tmp_path / "i.crl").write_bytes(draft.sign(ca.key, hashes.SHA256()).public_bytes(Encoding.DER))
    (entry,) = tppkit("cert", "show", "--json", "i.crl").json
    own, theirs = str(ca.certificate.subject), str(other.subject)
    assert [one["certificate_issuer"] for one in entry["revoked"]] == [own, theirs, theirs, None, None]


def test_a_long_issuer_of_many_entries_is_shown_shortened(tppkit, tmp_path, pki):
    at, named = datetime(2026, 6, 1, tzinfo=UTC), (Attribute(oids.COMMON_NAME, "A" * 30_000),)
    ca = SimpleNamespace(key=pki.root.key, key_identifier=b"", name=write_name(named))
    indirect = Extension("2.5.29.28", der.write_sequence(b"\x84\x01\xff"))
    entries = [Revocation(serial, at) for serial in range(500)]
    (tmp_path / "i.crl").write_bytes(
        write_crl(ca, entries, this_update=at, next_update=None, number=1, further=(indirect,))
    )
    result = tppkit("cert", "show", "--json", "i.crl")
    assert len(result.stdout) < 400_000
    (entry,) = result.json
    assert {one["certificate_issuer"] for one in entry["revoked"]} == {f"CN={'A' * 396}…"}
    assert "and 490 more" in tppkit("cert", "show", "i.crl").stdout


def test_long_names_in_another_script_are_shown_without_a_warning(tppkit, tmp_path, pki):
    at, ca, name = datetime(2026, 6, 1, tzinfo=UTC), pki.qwac_ca, "Ω" * 60
    subject = (Attribute(oids.COMMON_NAME, name),)
    directory = der.write_element(0xA4, write_name(subject))
    point = der.write_sequence(der.write_element(0xA0, der.write_element(0xA0, directory)))
    crl = write_crl(ca, (), this_update=at, next_update=None, number=1, further=(Extension("2.5.29.28", point),))
    (tmp_path / "greek.crl").write_bytes(crl)
    greek = x509.load_der_x509_certificate(replace(Draft.of(ca.certificate), subject=subject).sign(ca.key))
    draft = ocsp.OCSPResponseBuilder().add_response(
        pki.qwac.certificate.x509, ca.certificate.x509, hashes.SHA256(), ocsp.OCSPCertStatus.GOOD, at, None, None, None
    )
    answer = draft.responder_id(ocsp.OCSPResponderEncoding.NAME, greek).sign(ca.key, hashes.SHA256())
    (tmp_path / "greek.ocsp").write_bytes(answer.public_bytes(Encoding.DER))
    shown, answered = tppkit("cert", "show", "--json", "greek.crl", "greek.ocsp").json
    assert shown["distribution_point"]["names"] == [answered["responder_name"]] == [f"CN={name}"]


def test_an_entry_with_an_unreadable_date_is_shown(tppkit, tmp_path, pki):
    at, dated = datetime(2026, 6, 1, tzinfo=UTC), Revocation(0xAB, datetime(2050, 1, 1, tzinfo=UTC))
    crl = write_crl(pki.qwac_ca, [dated], this_update=at, next_update=None, number=1)
    (tmp_path / "a.crl").write_bytes(crl.replace(b"20500101000000Z", b"00000101000000Z"))
    (entry,) = tppkit("cert", "show", "--json", "a.crl").json
    assert [one["revoked_at"] for one in entry["revoked"]] == ["0001-01-01T00:00:00Z"]


def test_damaged_files_do_not_hide_others(tppkit, tmp_path, answers):
    (tmp_path / "cut.pem").write_bytes(answers["all.pem"][:-40])
    (tmp_path / "cut.ocsp").write_bytes(answers["good.ocsp"][:-4])
    result = tppkit("cert", "show", "--json", "cut.pem", "cut.ocsp", "a.crl")
    assert result.exit_code == 3
    assert [entry.get("kind") or entry["error"]["code"] for entry in result.json] == [
        "pem.malformed", "certificate.malformed", "crl",
    ]  # fmt: skip


@pytest.mark.shared
def test_every_real_certificate_is_shown_without_a_failure(tppkit, shared_data):
    files = sorted((shared_data / "certificates").glob("*/*.der"))
    assert len(files) > 150
    result = tppkit("cert", "show", "--json", *files)
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)) == len(files)
