"""`tppkit pki` interrupted while it writes: no partial file stays, and no private key."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tppkit.testpki import make_pki, write_pki
from tppkit.testpki.folder import open_pki

pytestmark = pytest.mark.slow

ENDED = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
# The command, which sends itself a signal when it opens the file whose name begins so.
PROGRAM = """
import os, signal, sys
def hook(event, arguments):
    if event == "open" and os.path.basename(str(arguments[0])).startswith(name):
        os.kill(os.getpid(), number)
number, name = int(sys.argv.pop(1)), sys.argv.pop(1)
signal.signal(signal.SIGINT, signal.default_int_handler)
from tppkit.cli.main import run
import tppkit.cli.pki
sys.addaudithook(hook)
run()
"""


def end_at(number: int, name: str, *arguments: object) -> int:
    program = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n{PROGRAM}"  # the process that runs the tests may ignore it
    command = [sys.executable, "-c", program, str(int(number)), name, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode


def everything(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("number", ENDED)
@pytest.mark.parametrize("name", ["qwac-2.p12", ".manifest.json-"])
def test_issue_leaves_the_folder_as_it_was(tmp_path, number, name):
    write_pki(make_pki(at=datetime.now(UTC)), tmp_path / "pki")
    before = everything(tmp_path)
    assert end_at(number, name, "pki", "issue", "qwac", tmp_path / "pki") == ENDED[number]
    assert everything(tmp_path) == before


@pytest.mark.parametrize("number", ENDED)
def test_create_leaves_no_folder(tmp_path, number):
    assert end_at(number, "server.p12", "pki", "create", tmp_path / "pki") == ENDED[number]
    assert list(tmp_path.iterdir()) == []


def test_csr_leaves_no_request_without_its_key(tmp_path):
    assert end_at(signal.SIGTERM, "new.key", "pki", "csr", tmp_path / "new.csr") == 143
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_the_caller_ignores_stays_ignored(tmp_path):
    program = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{PROGRAM}"
    arguments = [str(int(signal.SIGHUP)), "new.key", "pki", "csr", str(tmp_path / "new.csr")]
    command = [sys.executable, "-c", program, *arguments]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["new.csr", "new.key"]


def test_a_temporary_manifest_of_a_killed_process_is_removed(tmp_path):
    write_pki(make_pki(at=datetime.now(UTC)), tmp_path / "pki")
    (tmp_path / "pki" / ".manifest.json-abcdefgh").write_bytes(b"{")
    folder = open_pki(tmp_path / "pki")
    folder.issue("qseal", folder.pki.provider, at=folder.pki.not_before)
    assert list((tmp_path / "pki").glob(".*")) == []
