from __future__ import annotations

import shutil

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from sealing import REQUEST, issue_for, seal_by_hand

from tppkit.cli.output import fact_lines
from tppkit.httpsig import load_private_key
from tppkit.testpki import certificate_pem

BODY = b'{"instructedAmount":{"currency":"EUR","amount":"12.50"}}'


@pytest.fixture(scope="module")
def sealed(tppkit_once):
    """A folder with a raw sealed request, as `seal sign` makes its headers, and its certificates in `certs`."""
    tppkit, folder = tppkit_once
    tppkit("pki", "create", "certs")
    (folder / "body.json").write_bytes(BODY)
    signed = tppkit(
        "seal", "sign", "--key", "certs/qseal.key", "--cert", "certs/qseal.pem", "--method", "post",
        "--url", "https://bank.example/psd2/v1/payments/sepa-credit-transfers?x=%2F", "--body", "body.json",
    )  # fmt: skip
    assert signed.exit_code == 0
    head = f"POST /psd2/v1/payments/sepa-credit-transfers?x=%2F HTTP/1.1\r\n{signed.stdout.replace(chr(10), chr(13) + chr(10))}\r\n"
    (folder / "request.http").write_bytes(head.encode() + BODY)
    return folder


@pytest.fixture
def request_file(sealed, tmp_path):
    """The request, in a folder of its own."""
    shutil.copytree(sealed, tmp_path, dirs_exist_ok=True)
    return tmp_path / "request.http"


def test_a_sealed_request_holds(tppkit, request_file):
    result = tppkit("seal", "verify", request_file, "--trust", "certs", "--qwac", "certs/qwac.pem", "--json")
    assert result.exit_code == 0
    assert result.json["verdict"] == "holds"
    assert result.json["organization_identifier"] == "PSDLT-BL-LB000000"
    assert result.json["covered_headers"].keys() == {"digest", "x-request-id"}


def test_a_long_list_or_mapping_has_one_line_an_item(tppkit, request_file):
    lines = tppkit("seal", "verify", request_file, "--trust", "certs", "--qwac", "certs/qwac.pem").stdout.splitlines()
    assert "  roles                      PSP_PI, PSP_AI" in lines
    first = next(place for place, line in enumerate(lines) if "covered_headers            digest: SHA-256=" in line)
    assert lines[first + 1].startswith("                             x-request-id: ")
    facts = [("serials", [f"{number},0" for number in range(12)]), ("absent", None), ("none", []), ("zero", 0)]
    printed = [*fact_lines(facts)]
    assert (printed[0], printed[10:]) == (
        "  serials  0,0",
        ["           and 2 more (--json shows all)", "  zero     0"],
    )


def test_what_does_not_hold_or_cannot_be_read_has_a_code(tppkit, request_file):
    raw = request_file.read_bytes()
    cases = (
        (raw.replace(b"12.50", b"99.50"), (), 1, "digest.mismatch"), (raw, ("--at", "2001-01-01"), 1, "certificate.not-yet-valid"),
        (b"hello", (), 3, "message.malformed"),
    )  # fmt: skip
    for data, options, exit_code, code in cases:
        result = tppkit("seal", "verify", "-", "--trust", "certs", *options, "--json", stdin=data)
        assert (result.exit_code, f"[{code}]" in result.stderr) == (exit_code, True), code
    assert "copy the request as cURL, or save a HAR file" in result.stderr


@pytest.mark.parametrize("command", [("verify", "--trust", "certs"), ("diagnose",)], ids=lambda command: command[0])
@pytest.mark.parametrize(("option", "value", "exit_code", "expected"), [
    ("--origin", "bank", 2, "--origin"), ("--qwac", "request.http", 3, "certificate.not-found"),
    ("--qwac", "certs/absent.pem", 3, "file.unreadable"), ("--qwac", "certs/qwac.der", 0, ""),
])  # fmt: skip
def test_origin_and_website_certificate_are_read_alike_by_both_commands(
    tppkit, tmp_path, request_file, command, option, value, exit_code, expected
):
    der = x509.load_pem_x509_certificate((tmp_path / "certs" / "qwac.pem").read_bytes()).public_bytes(Encoding.DER)
    (tmp_path / "certs" / "qwac.der").write_bytes(der)
    result = tppkit("seal", command[0], request_file, *command[1:], option, value)
    assert result.exit_code == exit_code
    assert expected in result.stderr


@pytest.mark.parametrize(("organization", "options", "code"), [
    ("VATLT-123456789", (), "organization-identifier.scheme"),
    ("VATLT-123456789", ("--org-scheme", "PSD", "--org-scheme", "VAT"), None),
    ("PSDGB-OB-0015800001", (), "organization-identifier.authority-mismatch"),
    ("PSDGB-OB-0015800001", ("--any-authority",), None),
])  # fmt: skip
def test_an_organization_is_judged_by_the_options(tppkit, tmp_path, pki, organization, options, code):
    nca_id = "GB-FCA" if "GB" in organization else "LT-BL"
    qwac, qseal = (issue_for(pki, kind, organization, nca_id) for kind in ("qwac", "qseal"))
    sealed = seal_by_hand(REQUEST, qseal)
    head = "".join(f"{name}: {value}\r\n" for name, value in sealed.headers)
    raw = f"{sealed.method} {sealed.target} HTTP/1.1\r\n{head}\r\n".encode() + sealed.body
    (tmp_path / "request.http").write_bytes(raw)
    (tmp_path / "qwac.pem").write_bytes(certificate_pem(qwac.certificate))
    (tmp_path / "anchors.pem").write_bytes(b"".join(map(certificate_pem, pki.authorities)))
    verify = [
        "seal",
        "verify",
        "request.http",
        "--trust",
        "anchors.pem",
        "--qwac",
        "qwac.pem",
        "--at",
        "2026-06-01T12:00Z",
    ]
    result = tppkit(*verify, *options, "--json")
    assert (result.exit_code, result.json["code"]) == (1 if code else 0, code), result.stdout + result.stderr


def test_a_scheme_that_does_not_exist_is_wrong_usage(tppkit):
    for command in (("seal", "verify", "-", "--trust", "."), ("audit", "verify", "archive"), ("sandbox", "up")):
        result = tppkit(*command, "--org-scheme", "psd")
        assert (result.exit_code, "organization-policy.scheme" in result.stderr) == (2, True)


def test_a_key_of_another_certificate_is_refused(tppkit, request_file):
    result = tppkit(
        "seal", "sign", "--key", "certs/qwac.key", "--cert", "certs/qseal.pem", "--method", "GET", "--url", "/"
    )
    assert result.exit_code == 2
    assert "seal.key-mismatch" in result.stderr


def test_an_encrypted_key_is_read_with_its_password(tppkit, tmp_path, request_file):
    key = load_private_key((tmp_path / "certs/qseal.key").read_bytes())
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    (tmp_path / "own.key").write_bytes(encrypted)
    (tmp_path / "password").write_bytes(b"secret\n")
    sign = ("seal", "sign", "--cert", "certs/qseal.pem", "--method", "GET", "--url", "/", "--key")
    assert tppkit(*sign, "own.key", "--password-file", "password").exit_code == 0
    assert tppkit(*sign, "certs/qseal.key", "--password-file", "password").exit_code == 0
    without = tppkit(*sign, "own.key")
    assert without.exit_code != 0
    assert "key.unreadable" in without.stderr


def test_a_key_may_be_pkcs12(tppkit, tmp_path, request_file):
    (tmp_path / "password").write_bytes(b"test\n")
    sign = ("seal", "sign", "--key", "certs/qseal.p12", "--method", "GET", "--url", "/", "--cert")
    for certificate in ("certs/qseal.pem", "certs/qseal.p12"):
        signed = tppkit(*sign, certificate, "--password-file", "password")
        assert signed.exit_code == 0, signed.stderr
        (tmp_path / "own.http").write_text(f"GET / HTTP/1.1\n{signed.stdout}\n")
        assert tppkit("seal", "verify", "own.http", "--trust", "certs").exit_code == 0
    without = tppkit(*sign, "certs/qseal.pem")
    assert (without.exit_code, "no password was given [pkcs12.unreadable]" in without.stderr) == (3, True)
    assert "damaged" not in without.stderr
    assert "--password-file" in without.stderr


def test_the_error_about_a_key_does_not_contain_the_key(tppkit, tmp_path, request_file):
    (tmp_path / "bad.key").write_text("-----BEGIN PRIVATE KEY-----\nc2VjcmV0c2VjcmV0\n-----END PRIVATE KEY-----\n")
    result = tppkit("seal", "sign", "--key", "bad.key", "--cert", "certs/qseal.pem", "--method", "GET", "--url", "/")
    assert result.exit_code == 3
    assert "key.unreadable" in result.stderr
    assert "c2VjcmV0" not in result.stderr


@pytest.mark.parametrize(
    ("profile", "options", "known"),
    [
        ("berlin-group", ("--header", "PSU-ID: max"), ()),
        ("cavage-12", (), ()),
        ("bng", (), ()),
        ("wso2", ("--header", "PSU-ID: max"), ()),
        ("stet", ("--key-id", "https://tpp.example/s.pem"), ("--known", "https://tpp.example/s.pem=certs/qseal.pem")),
        ("chebanca", ("--key-id", "client=1"), ()),
    ],
)
def test_a_request_is_sealed_and_verified_in_a_banks_dialect(tppkit, request_file, tmp_path, profile, options, known):
    signed = tppkit(
        "seal", "sign", "--key", "certs/qseal.key", "--cert", "certs/qseal.pem", "--method", "GET",
        "--url", "/v1/accounts?x=%2F", "--profile", profile, *options,
    )  # fmt: skip
    assert signed.exit_code == 0, signed.stderr
    raw = f"GET /v1/accounts?x=%2F HTTP/1.1\n{signed.stdout}\n"
    (tmp_path / "request.http").write_bytes(raw.encode())
    verified = tppkit("seal", "verify", "request.http", "--trust", "certs", "--profile", profile, *known, "--json")
    assert verified.exit_code == 0, verified.stdout + verified.stderr
    covers_target = profile not in ("berlin-group", "wso2")
    assert verified.json["target"] == ("/v1/accounts?x=%2F" if covers_target else None)
    assert verified.json["profile"] == profile


@pytest.mark.parametrize(
    ("profile", "message"),
    [("stet", "[seal.key-id-needed]"), ("rabobank", "seals with rsa keys; this one is P-256 [profile.key]")],
)
def test_what_a_dialect_requires_for_sealing_is_reported(tppkit, request_file, profile, message):
    signed = tppkit(*SIGN, "--method", "GET", "--url", "/", "--profile", profile)
    assert signed.exit_code in (2, 3)
    assert message in signed.stderr


SIGN = ("seal", "sign", "--key", "certs/qseal.key", "--cert", "certs/qseal.pem")
OWN = """
based_on = "berlin-group"
name = "our-bank"
covered = ["(request-target)", "digest", "x-request-id"]
covered_if_present = []
source = "letter from the bank, 2026-05-04"
"""


@pytest.mark.parametrize(
    "url",
    ["/a\nb", "/a b", "/a\x7f", "//evil\tb", "mailto:x", "psd2/v1", "", "/a#b", "https://b/a#b", "ftp://b/a", "https://u@b/a", "/ü"],
)  # fmt: skip
def test_an_address_that_would_change_before_signing_is_refused(tppkit, url):
    result = tppkit(*SIGN, "--method", "GET", "--url", url)
    assert (result.exit_code, "--url" in result.stderr) == (2, True)
    result = tppkit(*SIGN, "--method", "po st", "--url", "/")
    assert (result.exit_code, "--method" in result.stderr, "percent-encode" in result.stderr) == (2, True, False)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://b.example/psd2?", "/psd2?"), ("//evil/b", "//evil/b"), ("https://b.example", "/"),
        ("https://b.example:8443/a?x=%2F", "/a?x=%2F"),
    ],
)  # fmt: skip
def test_the_target_is_signed_unchanged(tppkit, request_file, tmp_path, url, target):
    signed = tppkit(*SIGN, "--method", "GET", "--url", url)
    (tmp_path / "request.http").write_bytes(f"GET {target} HTTP/1.1\n{signed.stdout}\n".encode())
    verified = tppkit("seal", "verify", "request.http", "--trust", "certs", "--json")
    assert (verified.json["verdict"], verified.json["target"]) == ("holds", target)


def test_a_dialect_is_read_from_a_file(tppkit, request_file, tmp_path):
    (tmp_path / "bank.toml").write_text(OWN)
    signed = tppkit(*SIGN, "--method", "GET", "--url", "/a", "--profile", "bank.toml")
    assert ',headers="(request-target) digest x-request-id",' in signed.stdout
    (tmp_path / "request.http").write_bytes(f"GET /a HTTP/1.1\n{signed.stdout}\n".encode())
    verified = tppkit("seal", "verify", "request.http", "--trust", "certs", "--profile", "bank.toml", "--json")
    assert (verified.json["verdict"], verified.json["profile"]) == ("holds", "our-bank")
    assert tppkit("seal", "diagnose", "request.http", "--profile", "bank.toml").exit_code == 0
    (tmp_path / "bank.toml").write_text(OWN + "digset = 1")
    result = tppkit(*SIGN, "--method", "GET", "--url", "/a", "--profile", "bank.toml")
    assert result.exit_code == 3
    assert "profile.file" in result.stderr
    assert tppkit(*SIGN, "--method", "GET", "--url", "/a", "--profile", "our-bank").exit_code == 2


def test_a_seal_is_proven_good_by_a_list_until_that_has_it(tppkit, request_file):
    verify = ("seal", "verify", request_file, "--trust", "certs", "--crl", "certs/issuing-ca-qseal.crl", "--json")
    good = tppkit(*verify)
    assert (good.exit_code, [status["state"] for status in good.json["revocation"]]) == (0, ["good", "unknown"])
    assert [(f["code"], f["severity"]) for f in good.json["findings"]] == [("revocation.unknown", "warning")]
    assert tppkit("pki", "revoke", "certs/qseal.pem").exit_code == 0
    revoked = tppkit(*verify)
    assert (revoked.exit_code, revoked.json["code"]) == (1, "revocation.revoked")


def test_a_dialect_that_covers_the_origin_is_sealed_and_verified_with_it(tppkit, request_file, tmp_path):
    own = (
        'based_on = "amazon"\nname = "by-uri"\ncovered = ["@method", "@target-uri", "x-amzn-content-digest"]\nsource = "x"\n'
        'certificate_header = "TPP-Signature-Certificate"\n[key_id]\nform = "certificate"\n'
    )
    (tmp_path / "bank.toml").write_text(own)
    signed = tppkit(*SIGN, "--method", "GET", "--url", "https://b.example/a", "--profile", "bank.toml")
    (tmp_path / "request.http").write_bytes(f"GET /a HTTP/1.1\n{signed.stdout}\n".encode())
    verify = ("seal", "verify", "request.http", "--trust", "certs", "--profile", "bank.toml", "--json", "--origin")
    assert tppkit(*verify, "https://b.example").json["verdict"] == "holds"
    assert tppkit(*verify, "https://c.example").json["code"] == "signature.invalid"
    assert tppkit(*verify, "b.example").exit_code == 2


def test_an_unsigned_target_is_printed_as_not_signed(tppkit, request_file, tmp_path):
    signed = tppkit(*SIGN, "--method", "GET", "--url", "/a", "--profile", "berlin-group")
    (tmp_path / "request.http").write_bytes(f"GET /a HTTP/1.1\n{signed.stdout}\n".encode())
    verified = tppkit("seal", "verify", "request.http", "--trust", "certs", "--profile", "berlin-group")
    assert verified.stdout.count("not signed") == 2
    assert "None" not in verified.stdout


def test_a_seal_is_verified_by_trusted_lists_alone_or_beside_authorities(tppkit, request_file):
    verify = ("seal", "verify", request_file, "--json", "--trusted-lists", "certs/trusted-lists")
    for trust in ((), ("--trust", "certs")):
        result = tppkit(*verify, *trust)
        assert (result.exit_code, result.json["trusted_list"]["qualified_for"]) == (0, ["eseal"])
    late = "--at", "2000-01-01"
    assert tppkit(*verify, *late).exit_code == 1
    without = tppkit("seal", "verify", request_file)
    assert (without.exit_code, "--trusted-lists" in without.stderr) == (2, True)


def test_a_seal_that_no_list_makes_qualified_fails(tppkit, request_file, tmp_path):
    assert tppkit("pki", "create", "other").exit_code == 0
    verify = ("seal", "verify", request_file, "--json", "--trust", "certs", "--trusted-lists")
    result = tppkit(*verify, "other/trusted-lists")
    assert (result.exit_code, result.json["code"]) == (1, "trusted-list.no-service")
