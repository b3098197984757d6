"""`audit verify` with several processes: progress on a terminal, and what remains after a signal."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from programs import TPPKIT
from tppkit.cli.audit_progress import shown_progress
from tppkit.evidence import EvidenceArchive, make_record
from tppkit.evidence.sealing import seal_archive
from tppkit.seals import Message, SealPolicy, sign_request, verify_request
from tppkit.testpki import certificate_pem

RECEIVED = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
PARTS, RECORDS = 6, 1500


def fill(folder, pki, seal, paths, *, parts=PARTS, records=RECORDS):
    """An archive `archive` of many sealed records, and the authorities `trust.pem`."""
    (folder / "trust.pem").write_bytes(b"".join(certificate_pem(each) for each in pki.authorities))
    message = Message("POST", "/psd2/v1/payments/x", (("X-Request-ID", str(UUID(int=1))),), b"{}")
    verified = verify_request(
        sign_request(message, seal=seal), qwac=pki.qwac.certificate, at=RECEIVED, policy=SealPolicy(paths)
    )
    with EvidenceArchive(folder / "archive", stream_id="5a" * 16) as archive:
        record = archive.append(make_record(verified), *verified.chain, pki.qwac.certificate)
        for _ in range(parts):
            archive.append_many([record] * records)
            archive.rotate(now=datetime.now(UTC))
    assert len(list(seal_archive(folder / "archive"))) == parts


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_rate_and_remaining_time_are_shown_on_a_terminal(tmp_path, pki, seal, paths, monkeypatch):
    fill(tmp_path, pki, seal, paths, parts=2, records=30)
    times = iter(range(100))
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with shown_progress([tmp_path / "archive", tmp_path / "absent"], clock=lambda: next(times)) as show:
        show(20)
    shown, cleared = terminal.getvalue().split("\x1b[K")[:2]
    assert re.fullmatch(r"\r20 of about 61 records, [0-9]+ a second, about 0:00:[0-9]{2} left", shown)
    assert cleared == "\r"
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with shown_progress([tmp_path / "archive"]) as show:
        assert show is None


def running(folder: Path) -> list[str]:
    """The processes that have this folder as their working directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve() == folder:
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_audit_leaves_no_process_and_can_be_resumed(number, tmp_path, pki, seal, paths):
    fill(tmp_path, pki, seal, paths)
    command = [TPPKIT, "audit", "verify", "archive", "--trust", "trust.pem", "--workers", "2"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    whole = subprocess.run(
        [*command, "--json"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (whole.returncode, list(tmp_path.glob("tppkit-audit-*"))) == (0, [])
    reset = ["env", "--default-signal=INT"]  # a test run in the background ignores SIGINT, and so would its children
    with subprocess.Popen(
        [*reset, *command],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as audit:
        while not any(tmp_path.glob("tppkit-audit-*/*.json")):
            assert audit.poll() is None
            time.sleep(0.001)
        os.killpg(audit.pid, number) if number == signal.SIGINT else audit.send_signal(number)
        stdout, stderr = audit.communicate(timeout=60)
    (work,) = tmp_path.glob("tppkit-audit-*")
    assert (audit.returncode, f"interrupted; go on with --work {work} --resume" in stdout + stderr) == (6, True)
    assert ("Traceback" in stderr, running(tmp_path)) == (False, [])
    resumed = subprocess.run(
        [*command, "--work", work, "--resume", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    hashes = [re.search(r'"report_hash": *"([0-9a-f]{64})"', one.stdout) for one in (whole, resumed)]
    assert (resumed.returncode, hashes[0][1]) == (0, hashes[1][1])
