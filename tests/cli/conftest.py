"""Commands run as a user runs them: a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from programs import TPPKIT
from tppkit.cli import main
from tppkit.testpki import Pki


@dataclass(frozen=True, slots=True)
class Result:
    """What a command did."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


Tppkit = Callable[..., Result]


def run_in(folder: Path, *arguments: object, stdin: bytes = b"") -> Result:
    """Run `tppkit` with these arguments in a folder."""
    done = subprocess.run(
        [str(TPPKIT), *map(str, arguments)],
        cwd=folder,
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def tppkit(tmp_path: Path) -> Tppkit:
    """Run `tppkit` with these arguments in a fresh folder."""
    return partial(run_in, tmp_path)


@pytest.fixture(scope="module")
def tppkit_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tppkit, Path]:
    """The same in a folder that the tests of a module share, and that folder: what takes long to make is copied from there."""
    folder = tmp_path_factory.mktemp("once")
    return partial(run_in, folder), folder


@pytest.fixture
def tppkit_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tppkit:
    """The same from the entry point on, in this process: for many quick cases of what a process has no part in."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["tppkit", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main.run()
        said = capsys.readouterr()
        return Result(int(ended.value.code or 0), said.out, said.err)

    return run


@pytest.fixture(scope="session")
def request_der(pki: Pki) -> bytes:
    """A certificate request of the provider."""
    request = x509.CertificateSigningRequestBuilder().subject_name(pki.qwac.certificate.x509.subject)
    return request.sign(pki.qwac.key, hashes.SHA256()).public_bytes(Encoding.DER)
