"""Verified requests of the test PKI, and archives of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from tppkit.evidence import EvidenceArchive, make_record
from tppkit.seals import Message, Seal, SealPolicy, VerifiedRequest, sign_request, verify_request
from tppkit.testpki import Pki
from tppkit.trust import PathVerifier

RECEIVED = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
STREAM = "5a" * 16
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
