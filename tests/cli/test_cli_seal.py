from __future__ import annotations

import pytest

BODY = b'{"instructedAmount":{"currency":"EUR","amount":"12.50"}}'


@pytest.fixture
def request_file(tppkit, tmp_path):
    """A raw sealed request, as `seal sign` makes its headers."""
    tppkit("pki", "create", "certs")
    (tmp_path / "body.json").write_bytes(BODY)
    signed = tppkit(
        "seal", "sign", "--key", "certs/qseal.key", "--cert", "certs/qseal.pem", "--method", "post",
        "--url", "https://bank.example/psd2/v1/payments/sepa-credit-transfers?x=%2F", "--body", "body.json",
    )  # fmt: skip
    assert signed.exit_code == 0
    head = f"POST /psd2/v1/payments/sepa-credit-transfers?x=%2F HTTP/1.1\r\n{signed.stdout.replace(chr(10), chr(13) + chr(10))}\r\n"
    path = tmp_path / "request.http"
    path.write_bytes(head.encode() + BODY)
    return path


def test_a_sealed_request_holds(tppkit, request_file):
    result = tppkit("seal", "verify", request_file, "--trust", "certs", "--qwac", "certs/qwac.pem", "--json")
    assert result.exit_code == 0
    assert result.json["verdict"] == "holds"
    assert result.json["organization_identifier"] == "PSDLT-BL-LB000000"
    assert result.json["covered_headers"].keys() == {"digest", "x-request-id"}


def test_a_changed_body_fails_with_its_code(tppkit, request_file):
    request_file.write_bytes(request_file.read_bytes().replace(b"12.50", b"99.50"))
    result = tppkit("seal", "verify", request_file, "--trust", "certs", "--json")
    assert result.exit_code == 1
    assert (result.json["verdict"], result.json["code"]) == ("fails", "digest.mismatch")


def test_it_is_judged_at_the_given_time(tppkit, request_file):
    result = tppkit("seal", "verify", request_file, "--trust", "certs", "--at", "2001-01-01")
    assert result.exit_code == 1
    assert "certificate.not-yet-valid" in result.stderr


def test_what_is_no_request_cannot_be_read(tppkit, request_file):
    result = tppkit("seal", "verify", "-", "--trust", "certs", stdin=b"hello")
    assert result.exit_code == 3
    assert "message.malformed" in result.stderr


def test_a_key_of_another_certificate_is_refused(tppkit, request_file):
    result = tppkit(
        "seal", "sign", "--key", "certs/qwac.key", "--cert", "certs/qseal.pem", "--method", "GET", "--url", "/"
    )
    assert result.exit_code == 2
    assert "seal.key-mismatch" in result.stderr


def test_an_encrypted_or_damaged_key_says_nothing_of_its_content(tppkit, tmp_path, request_file):
    (tmp_path / "bad.key").write_text("-----BEGIN PRIVATE KEY-----\nc2VjcmV0c2VjcmV0\n-----END PRIVATE KEY-----\n")
    result = tppkit("seal", "sign", "--key", "bad.key", "--cert", "certs/qseal.pem", "--method", "GET", "--url", "/")
    assert result.exit_code == 2
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
def test_a_request_is_sealed_and_verified_in_a_banks_dialect(tppkit, tmp_path, profile, options, known):
    tppkit("pki", "create", "certs")
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


def test_a_dialect_that_needs_a_key_id_says_so(tppkit):
    tppkit("pki", "create", "certs")
    signed = tppkit(
        "seal", "sign", "--key", "certs/qseal.key", "--cert", "certs/qseal.pem", "--method", "GET", "--url", "/",
        "--profile", "stet",
    )  # fmt: skip
    assert signed.exit_code == 2
    assert "seal.key-id-needed" in signed.stderr


def test_a_key_that_a_dialect_has_no_algorithm_for_says_so(tppkit):
    tppkit("pki", "create", "certs")
    signed = tppkit(
        "seal", "sign", "--key", "certs/qseal.key", "--cert", "certs/qseal.pem", "--method", "GET", "--url", "/",
        "--profile", "rabobank",
    )  # fmt: skip
    assert signed.exit_code in (2, 3)
    assert "profile.key" in signed.stderr
    assert "seals with rsa keys; this one is P-256" in signed.stderr
