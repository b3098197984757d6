from __future__ import annotations

import json
import shlex
import shutil

import pytest

BODY = b'{"amount":"12.50","name":"Caf\xc3\xa9"}\r\n'
PATH = "/psd2/v1/payments/sepa-credit-transfers?x=%2F"


@pytest.fixture(scope="module")
def sealed(tppkit_once):
    """A folder with a sealed request's body and its certificates in `certs`, and the headers."""
    tppkit, folder = tppkit_once
    tppkit("pki", "create", "certs", "--key", "rsa2048")
    (folder / "body.json").write_bytes(BODY)
    signed = tppkit(
        "seal", "sign", "--key", "certs/qseal.key", "--cert", "certs/qseal.pem", "--method", "post",
        "--url", f"https://bank.example{PATH}", "--body", "body.json", "--json",
    )  # fmt: skip
    return folder, [tuple(header) for header in signed.json["headers"]]


@pytest.fixture
def headers(sealed, tmp_path):
    """The headers of a sealed request, as `seal sign` makes them; the certificates stand in `certs`."""
    folder, made = sealed
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return made


def raw(headers, body=BODY, path=PATH):
    head = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def har(headers, body=BODY):
    request = {
        "method": "POST", "url": f"https://bank.example{PATH}", "postData": {"text": body.decode()},
        "headers": [{"name": name, "value": value} for name, value in headers],
    }  # fmt: skip
    return json.dumps({"log": {"entries": [{"request": request}]}}).encode()


def curl(headers, body=BODY):
    options = [word for name, value in headers for word in ("-H", f"{name}: {value}")]
    return shlex.join(["curl", f"https://bank.example{PATH}", *options, "--data-raw", body.decode()]).encode()


@pytest.mark.parametrize("form", [raw, har, curl])
def test_a_request_in_every_form_verifies(tppkit, headers, form):
    diagnosed = tppkit("seal", "diagnose", "-", stdin=form(headers))
    assert diagnosed.exit_code == 0
    assert diagnosed.stdout.startswith("verifies as psd2-v1")
    verified = tppkit("seal", "verify", "-", "--trust", "certs", "--json", stdin=form(headers))
    assert (verified.exit_code, verified.json["verdict"]) == (0, "holds")


@pytest.mark.parametrize("form", [raw, har, curl])
def test_a_body_with_other_line_ends_is_explained(tppkit, headers, form):
    result = tppkit("seal", "diagnose", "-", "--json", stdin=form(headers, BODY.replace(b"\r\n", b"\n")))
    assert result.exit_code == 0
    assert result.json["outcome"] == "explained"
    assert [cause["name"] for cause in result.json["causes"]] == ["body-lf-to-crlf"]
    assert result.json["made"] == "PKCS#1, SHA-256"
    assert len(result.json["recovered_hash"]) == 64


def test_a_cause_is_printed_with_its_evidence_and_advice(tppkit, headers):
    result = tppkit("seal", "diagnose", "-", stdin=raw(headers, path=f"/gateway{PATH}"))
    assert result.exit_code == 0
    assert "[target-base-path-stripped]" in result.stdout
    assert f"  - (request-target):·post·/gateway{PATH}" in result.stdout
    assert f"  + (request-target):·post·{PATH}" in result.stdout
    assert "do:   Sign the path from the root of the host" in result.stdout


def test_an_unexplained_failure_exits_1_and_prints_the_next_steps(tppkit, headers):
    result = tppkit("seal", "diagnose", "-", stdin=raw(headers, b'{"amount":"99.50"}'))
    assert result.exit_code == 1
    assert result.stdout.startswith("not explained")
    assert "Not the cause" in result.stdout
    assert "Next" in result.stdout


def test_another_dialect_is_judged_by_its_name(tppkit, headers):
    result = tppkit("seal", "diagnose", "-", "--profile", "berlin-group", "--json", stdin=raw(headers))
    assert [cause["name"] for cause in result.json["causes"]] == ["other-dialect"]


def test_a_file_that_curl_names_is_read_only_when_allowed(tppkit, headers):
    command = curl(headers).split(b" --data-raw")[0] + b" --data-binary @body.json"
    refused = tppkit("seal", "diagnose", "-", stdin=command)
    assert refused.exit_code == 3
    assert "curl.file" in refused.stderr
    assert tppkit("seal", "diagnose", "-", "--allow-files", stdin=command).exit_code == 0


def test_an_archive_is_read_by_its_line(tppkit, tmp_path):
    assert tppkit("demo", "--dir", "demo").exit_code == 0
    archive = tmp_path / "demo" / "archive"
    for request in (archive, archive / "records.jsonl"):
        result = tppkit("seal", "diagnose", request, "--entry", "1")
        assert (result.exit_code, result.stdout.split(" as ")[0]) == (0, "verifies")
    assert "record.entry" in tppkit("seal", "diagnose", archive, "--entry", "9999").stderr


def test_a_file_saved_by_an_editor_is_read_and_its_length_reported(tppkit, headers):
    reported = [*headers, ("Content-Length", str(len(BODY)))]
    saved = b"\xef\xbb\xbf" + raw(reported, BODY + b"\n").replace(b"HTTP/1.1", b"HTTP/2", 1)
    result = tppkit("seal", "diagnose", "-", stdin=saved)
    assert (result.exit_code, "[body-newline-dropped]" in result.stdout) == (0, True)
    assert f'Seen besides\n  - Content-Length is "{len(BODY)}", the body has {len(BODY) + 1} bytes' in result.stdout
    assert tppkit("seal", "verify", "-", "--trust", "certs", stdin=saved).exit_code == 3


def test_the_qwac_of_another_organisation_is_reported(tppkit, headers):
    result = tppkit("seal", "diagnose", "-", "--qwac", "certs/other-qwac.pem", "--json", stdin=raw(headers))
    assert [cause["name"] for cause in result.json["causes"]] == ["seal.other-organisation"]
    assert tppkit("seal", "diagnose", "-", "--qwac", "certs/qwac.pem", stdin=raw(headers)).stdout.startswith("verifies")


@pytest.mark.parametrize("text", [b"hello", b"curl 'x", b'{"log":1}', b'{"seal_cert":1}', b""])
def test_input_without_a_request_exits_3(tppkit, text):
    assert tppkit("seal", "diagnose", "-", stdin=text).exit_code == 3
