"""Verified requests of the test PKI, and archives of them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from tppkit.certificates import Use
from tppkit.evidence import EvidenceArchive, EvidenceRecord, Head, make_record
from tppkit.evidence.log import check_log
from tppkit.evidence.sealing import seal_archive
from tppkit.seals import Message, Seal, SealPolicy, VerifiedRequest, sign_request, verify_request
from tppkit.testpki import Pki
from tppkit.trust import PathVerifier, RevocationChecker, RevocationEvidence, make_anchors, parse_revocation

RECEIVED = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
NEXT_DAY = RECEIVED + timedelta(days=1)
STREAM = "5a" * 16
TOOLS = ("bash", "openssl", "cat", "cp", "date", "mktemp", "od", "rm", "tr")
TARGET = "/psd2/v1/payments/sepa-credit-transfers"


@pytest.fixture(scope="session")
def make_verified(pki: Pki, seal: Seal, paths: PathVerifier) -> Callable[..., VerifiedRequest]:
    """Makes the verified request number n, received n seconds after RECEIVED."""
    policy = SealPolicy(paths)

    def make(number: int, *, body: bytes | None = None) -> VerifiedRequest:
        content = b'{"payment":%d}' % number if body is None else body
        message = Message("POST", TARGET, (("X-Request-ID", str(UUID(int=number))),), content)
        at = RECEIVED + timedelta(seconds=number)
        return verify_request(sign_request(message, seal=seal), qwac=pki.qwac.certificate, at=at, policy=policy)

    return make


@pytest.fixture(scope="session")
def append(make_verified: Callable[..., VerifiedRequest]) -> Callable[..., None]:
    """Appends the requests of the given numbers to an archive, with their certificates."""

    def add(archive: EvidenceArchive, *numbers: int) -> None:
        for number in numbers:
            verified = make_verified(number)
            assert verified.qwac is not None
            archive.append(make_record(verified, http_status=201), *verified.chain, verified.qwac)

    return add


@pytest.fixture
def filled(tmp_path: Path, append: Callable[..., None]) -> Path:
    """An archive of three records."""
    folder = tmp_path / "archive"
    with EvidenceArchive(folder, stream_id=STREAM) as archive:
        append(archive, 0, 1, 2)
    return folder


@pytest.fixture(scope="session")
def sealed_once(tmp_path_factory: pytest.TempPathFactory, append: Callable[..., None]) -> tuple[Path, Head]:
    """An archive with two sealed parts (0 to 2, 3 to 5) and an open one (6), and its head."""
    folder = tmp_path_factory.mktemp("sealed") / "archive"
    with EvidenceArchive(folder, stream_id=STREAM) as archive:
        for numbers in ((0, 1, 2), (3, 4, 5)):
            append(archive, *numbers)
            archive.rotate(now=NEXT_DAY)
        append(archive, 6)
    head = check_log(folder, now=NEXT_DAY).head
    assert [one.records for one in seal_archive(folder)] == [3, 3]
    assert head is not None
    return folder, head


@pytest.fixture
def sealed(sealed_once: tuple[Path, Head], tmp_path: Path) -> tuple[Path, Head]:
    """A copy of it."""
    folder, head = sealed_once
    return shutil.copytree(folder, tmp_path / "archive"), head


@pytest.fixture(scope="session")
def checked(pki: Pki) -> PathVerifier:
    """Trust with a revocation list of every authority."""
    answers = sum(
        (parse_revocation(pki.crl(one, at=RECEIVED), name="crl") for one in pki.issuers), RevocationEvidence()
    )
    return PathVerifier(make_anchors(pki.authorities), revocation=RevocationChecker(evidence=answers))


@pytest.fixture(scope="session")
def received(pki: Pki, seal: Seal, checked: PathVerifier) -> Callable[..., EvidenceRecord]:
    """Makes the record of a number as a bank does that checks revocation."""
    policy = SealPolicy(checked)

    def receive(number: int, **columns: str) -> EvidenceRecord:
        path = checked.verify_use(pki.qwac.certificate, as_=Use.QWAC, at=RECEIVED)
        target = f"/psd2/v1/{'consents' if number % 2 else 'payments/sepa-credit-transfers'}"
        message = Message("POST", target, (("X-Request-ID", str(UUID(int=number))),), b'{"n":%d}' % number)
        sealed = sign_request(message, seal=seal)
        verified = verify_request(sealed, qwac=path.chain[0], at=RECEIVED, policy=policy)
        return make_record(verified, http_status=201, qwac_path=path, **columns)

    return receive


@pytest.fixture
def verify(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], tuple[int, str]]:
    """Runs `verify.sh` where there is nothing but bash, openssl and a few commands of coreutils."""
    tools = tmp_path_factory.mktemp("tools")
    for name in TOOLS:
        (tools / name).symlink_to(str(shutil.which(name)))

    def run(folder: Path) -> tuple[int, str]:
        command = ["env", "-i", f"PATH={tools}", "bash", str(folder / "verify.sh")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.stderr == ""
        return done.returncode, done.stdout

    return run
