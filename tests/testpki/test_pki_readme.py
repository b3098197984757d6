"""The README of a folder: every command in it works when it is pasted. tests/web runs its server block for nginx."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tppkit._clock import utc_now
from tppkit.testpki import make_pki, write_pki

pytestmark = pytest.mark.slow

COMMANDS = Path(sys.executable).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("guide") / "pki"
    write_pki(make_pki(at=utc_now(), seed=1), path, with_faults=True)
    return path


def section(folder: Path, name: str) -> str:
    """The indented lines of a section."""
    guide = (folder / "README.md").read_text()
    (text,) = re.findall(rf"^## {name}\n(.*?)(?=^## |\Z)", guide, re.DOTALL | re.MULTILINE)
    return "".join(line[4:] for line in text.splitlines(keepends=True) if line.startswith("    "))


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script = f"PATH={COMMANDS}:/usr/sbin:/usr/bin:/bin:$PATH; {command}"
    return subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_the_openssl_commands_work(folder):
    *commands, server = section(folder, "openssl").splitlines()
    for command in commands:
        done = run(command, folder)
        assert done.returncode == 0, (command, done.stderr)
    assert server.startswith("openssl s_server -accept 8443 ")
    assert not run(f"timeout 1 {server.replace('8443', '0')}", folder).stderr.count("unable to load")


def test_the_tppkit_commands_work(folder, tmp_path):
    copy = Path(shutil.copytree(folder, tmp_path / "pki"))
    commands = [line for line in section(copy, "tppkit").splitlines() if line.startswith("tppkit")]
    assert [command.split()[2] for command in commands[-4:]] == ["issue", "revoke", "renew", "serve"]
    for command in commands[:-1]:
        done = run(command, copy)
        assert done.returncode == 0, (command, done.stdout, done.stderr)


def test_the_commands_that_ask_the_services_work(folder, tmp_path):
    copy, ready = Path(shutil.copytree(folder, tmp_path / "pki")), tmp_path / "ready"
    _, _, commands = section(copy, "tppkit").partition("tppkit pki serve")
    process = subprocess.Popen(
        [COMMANDS / "tppkit", "pki", "serve", str(copy), "--port", "0", "--ready-file", str(ready)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for _ in range(500):
            if ready.exists():
                break
            time.sleep(0.02)
        port = re.search(rb"localhost:([0-9]+)", ready.read_bytes())[1].decode()
        printed = ""
        for command in commands.splitlines()[1:]:
            done = run(command.replace("8448", port), copy)
            assert done.returncode == 0, (command, done.stderr)
            printed += done.stdout + done.stderr
    finally:
        process.terminate()
        process.wait(timeout=20)
    assert "Verification: OK" in printed
    assert "qwac.pem: good" in printed


def test_the_commands_for_faults_find_them(folder):
    *checks, listing = section(folder, "Faults").splitlines()
    for command in checks:
        name = command.split("/")[1].split(".")[0]
        done = run(command, folder)
        assert (done.returncode, done.stdout.startswith("fails (")) == (1, True), (name, done.stdout, done.stderr)
    commands = run(listing, folder).stdout.splitlines()
    assert len(commands) >= 80
    assert set(checks) <= set(commands)
