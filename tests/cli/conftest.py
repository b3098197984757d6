"""Commands run from the entry point on, in this process; what needs a process of its own starts one."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from tppkit.cli import main
from tppkit.testpki import Pki, write_pki


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
    """Run `tppkit` with these arguments in a folder, from the entry point on, in this process."""
    streams = [TextIOWrapper(BytesIO(given), encoding="utf-8", write_through=True) for given in (stdin, b"", b"")]
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        sys.argv = ["tppkit", *map(str, arguments)]
        sys.stdin, sys.stdout, sys.stderr = streams
        with chdir(folder), pytest.raises(SystemExit) as ended:
            main.run()
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before
        for number, handler in handlers.items():
            signal.signal(number, handler)
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in streams[1:])
    assert "Traceback" not in stderr, stderr
    return Result(int(ended.value.code or 0), stdout, stderr)


@pytest.fixture
def tppkit(tmp_path: Path) -> Tppkit:
    """Run `tppkit` with these arguments in a fresh folder."""
    return partial(run_in, tmp_path)


@pytest.fixture(scope="module")
def tppkit_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tppkit, Path]:
    """The same in a folder that the tests of a module share, and that folder: what takes long to make is copied from there."""
    folder = tmp_path_factory.mktemp("once")
    return partial(run_in, folder), folder


@pytest.fixture(scope="session")
def request_der(pki: Pki) -> bytes:
    """A certificate request of the provider."""
    request = x509.CertificateSigningRequestBuilder().subject_name(pki.qwac.certificate.x509.subject)
    return request.sign(pki.qwac.key, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.fixture(scope="session")
def certs(pki: Pki, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the test PKI; tests do not change it."""
    folder = tmp_path_factory.mktemp("pki") / "certs"
    write_pki(pki, folder)
    return folder
