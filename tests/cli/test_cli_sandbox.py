"""`tppkit sandbox up` as a process: what it prints at start, and its line for each request."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from programs import TPPKIT
from tppkit.cli.main import main
from tppkit.testpki import write_pki

pytestmark = pytest.mark.slow

_START_S = 60.0


@contextmanager
def running(folder: Path, *options: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A sandbox in `folder`; gives the file with its standard output, and its ready file."""
    ready, output = folder / "ready.json", folder / "output"
    command = [str(TPPKIT), "sandbox", "up", "--port", "0", "--dir", "bank", "--ready-file", str(ready), *options]
    with output.open("wb") as stdout, (folder / "errors").open("wb") as stderr:
        process = subprocess.Popen(command, cwd=folder, stdout=stdout, stderr=stderr)
        try:
            deadline = time.monotonic() + _START_S
            while not ready.exists():
                assert process.poll() is None, (folder / "errors").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield output, json.loads(ready.read_bytes())
        finally:
            process.terminate()
            process.wait(20)


def paste(line: str, folder: Path) -> Any:
    """Run a line in a POSIX shell, in another folder, and read the JSON that it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(["sh", "-c", line], cwd=folder, env=environment, capture_output=True, timeout=60, check=True)
    return json.loads(done.stdout)


# The default; a Date, RSA keys and a keyId that the sandbox gave out; covered headers that curl adds; one that nothing adds.
@pytest.mark.parametrize(
    ("options", "path", "times"),
    [
        ((), "/psd2/v1", 2), *[(("--profile", name), "/psd2/v1", 1) for name in ("ing", "stet", "amazon")],
        (("--persona", "berlin-group"), "/v1", 1),
    ],
)  # fmt: skip
def test_the_curl_line_makes_a_payment_each_time_it_is_pasted(options, path, times, tmp_path):
    (tmp_path / "else where").mkdir()
    with running(tmp_path, *options) as (output, _):
        (line,) = [line for line in output.read_text().splitlines() if line.startswith("curl ")]
        payments = [paste(line, tmp_path / "else where") for _ in range(times)]
        assert len({payment["paymentId"] for payment in payments}) == times
        requests = output.read_text().splitlines()[-times:]
        assert requests == [f"POST {path}/payments/sepa-credit-transfers 201"] * times


def test_the_start_names_the_dialect_and_each_request_has_a_line_at_once(tmp_path):
    with running(tmp_path, "--host", "0.0.0.0") as (output, ready):
        assert "psd2-v1" in output.read_text()
        assert f"{ready['control_url']}/inspector" in output.read_text()
        assert "0.0.0.0" not in output.read_text() + json.dumps(ready)
        httpx.get(ready["control_url"] + "/clock", trust_env=False)
        assert output.read_text().splitlines()[-1] == "GET /clock 200"


@pytest.mark.parametrize(
    ("fault", "names"),
    [("psd2 explode", "status-429"), ("bank late", "vault"), ("psd2 late 1 pay", "initiate_payment")],
)
def test_a_wrong_fault_is_wrong_usage_and_leaves_nothing(fault, names, tmp_path):
    done = CliRunner().invoke(main, ["sandbox", "up", "--dir", str(tmp_path / "bank"), "--fault", fault])
    assert (done.exit_code, names in done.stderr, (tmp_path / "bank").exists()) == (2, True, False)


def test_a_variable_has_several_faults_with_semicolons(tmp_path):
    environment = {"TPPKIT_SANDBOX_UP_FAULT": "psd2 status-500-after 2; psd2 explode"}
    done = CliRunner().invoke(main, ["sandbox", "up", "--dir", str(tmp_path / "bank")], env=environment)
    assert (done.exit_code, "status-429" in done.stderr, (tmp_path / "bank").exists()) == (2, True, False)


@pytest.mark.parametrize("command", [("up", "--control-host", "127.0.0.1"), ("clock", "show"), ("reset",)])
def test_a_short_token_is_refused_before_anything_is_made_or_sent(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["sandbox", *command], env={"TPPKIT_CONTROL_TOKEN": "short"})
    assert (getattr(done.exception, "code", None), [*tmp_path.iterdir()]) == ("control.token", [])


def test_a_reader_that_does_not_read_stops_neither_the_sandbox_nor_its_end(tmp_path):
    ready = tmp_path / "ready.json"
    command = [str(TPPKIT), "sandbox", "up", "--port", "0", "--dir", "bank", "--ready-file", str(ready)]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        while not ready.exists():
            assert process.poll() is None
            time.sleep(0.02)
        with httpx.Client(base_url=json.loads(ready.read_bytes())["control_url"], trust_env=False) as control:
            for _ in range(200):  # a pipe holds 64 lines of this length
                assert control.get("/clock?" + "x" * 1000, timeout=5).status_code == 200
        process.terminate()
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.communicate()


def test_with_json_standard_output_is_one_object(tmp_path):
    with running(tmp_path, "--json") as (output, ready):
        httpx.get(ready["control_url"] + "/clock", trust_env=False)
        assert json.loads(output.read_text()) == ready
        assert (tmp_path / "errors").read_text().splitlines()[-1] == "GET /clock 200"


def test_an_unknown_dialect_is_refused_with_the_known_ones(tmp_path):
    result = CliRunner().invoke(main, ["sandbox", "up", "--dir", str(tmp_path / "bank"), "--profile", "berlingroup"])
    assert result.exit_code == 2
    assert "berlin-group" in result.output
    assert not (tmp_path / "bank").exists()


def test_a_file_that_is_not_a_database_is_refused(tppkit, tmp_path):
    (tmp_path / "notes.txt").write_text("no database" * 1000)
    result = tppkit("sandbox", "up", "--port", "0", "--database", "sqlite:///notes.txt")
    assert (result.exit_code, "database.unusable" in result.stderr) == (2, True)


def test_the_help_of_strict_names_what_still_gets_401():
    text = " ".join(CliRunner().invoke(main, ["sandbox", "up", "--help"]).output.split())
    assert "A revoked one, or one whose profile or organisation is not accepted, still gets HTTP 401." in text


def test_answers_cannot_be_signed_without_the_seal_of_a_bank(tppkit, tmp_path, pki):
    write_pki(pki, tmp_path / "pki")
    for file in (tmp_path / "pki").glob("bank-seal*"):
        file.unlink()
    result = tppkit("sandbox", "up", "--port", "0", "--pki", "pki", "--sign-answers")
    assert (result.exit_code, "tppkit pki issue qseal pki --label bank-seal" in result.stderr) == (2, True)
