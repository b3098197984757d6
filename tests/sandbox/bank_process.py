"""A sandbox in a separate process, which may be killed and started again in the same folder."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
from raw_provider import RawProvider, make_seal, tls_context

from programs import TPPKIT
from tppkit.evidence import EvidenceRecord
from tppkit.evidence.archive import read_lines
from tppkit.sandbox import Addresses, SandboxSettings
from tppkit.testpki import Pki


class BankProcess:
    """`tppkit sandbox up` on one folder, and a provider that is connected to it."""

    control_url = ""
    addresses: Addresses

    def __init__(self, folder: Path, pki: Path, trusted: Pki) -> None:
        self.folder = folder
        self.settings = SandboxSettings(folder, pki=pki)
        self._pki = pki
        self._context = tls_context(trusted.qwac, trusted)
        self._seal = make_seal(trusted.qseal)

    @contextmanager
    def running(self, *, files: int | None = None) -> Iterator[tuple[subprocess.Popen[bytes], RawProvider]]:
        """The process, which may open this number of files, and its provider."""
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        command = [
            TPPKIT,
            "sandbox",
            "up",
            "--port",
            "0",
            "--dir",
            self.folder,
            "--pki",
            self._pki,
            "--ready-file",
            ready,
        ]
        if files is not None:
            command = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command]
        with (self.folder / "log").open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                self._wait(process, ready)
                yield process, self.provider()
            finally:
                process.kill()

    def _wait(self, process: subprocess.Popen[bytes], ready: Path) -> None:
        for _ in range(3000):
            if ready.exists():
                break
            assert process.poll() is None, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.01)
        self.addresses = Addresses(**json.loads(ready.read_bytes()))
        self.control_url = self.addresses.control_url

    def provider(self) -> RawProvider:
        """A provider that is connected to the running process."""
        url = self.addresses.psd2_url
        return RawProvider(httpx.Client(base_url=url, verify=self._context, trust_env=False, timeout=20), self._seal)

    def control(self, path: str, body: Any = None) -> Any:
        """POST to the control host, which must do it."""
        response = httpx.post(self.control_url + path, json=body, trust_env=False, timeout=10)
        assert response.status_code == 200, response.text
        return response.json()

    def now(self) -> datetime:
        """The virtual clock."""
        now = httpx.get(self.control_url + "/clock", trust_env=False, timeout=10).json()["now"]
        return datetime.fromisoformat(now)

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Check the consistency, and stop the process."""
        checked = httpx.get(self.control_url + "/ledger/check", trust_env=False, timeout=60).json()
        assert checked == {"ok": True, "differences": []}
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert self.rows("evidence_outbox") == []

    def rows(self, table: str, column: str = "*") -> list[Any]:
        with closing(sqlite3.connect(self.folder / "sandbox.sqlite")) as database:
            return [row[0] for row in database.execute(f"SELECT {column} FROM {table}")]

    def records(self) -> list[EvidenceRecord]:
        return [EvidenceRecord.from_line(line) for _, line in read_lines(self.folder / "archive")]

    def require_whole(self) -> dict[str, str]:
        """Check that orders and records match one to one and the chain is complete; return the order's id for each request id."""
        records = self.records()
        assert {(record.http_status, record.error_code) for record in records} == {(201, None)}
        made = self.rows("payments", "payment_id") + self.rows("consents", "consent_id")
        assert Counter(record.payment_ref or record.consent_ref for record in records) == Counter(made)
        kept = {record.x_request_id: str(record.payment_ref or record.consent_ref) for record in records}
        assert len(kept) == len(records)
        command = [TPPKIT, "audit", "verify", self.folder / "archive", "--trust", self._pki]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return kept
