"""A sandbox that dies or cannot write keeps every payment that it acknowledged, each with one record.

`make crash` kills it 30 times.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from raw_provider import RawProvider, make_seal, tls_context

from programs import TPPKIT
from tppkit.evidence import EvidenceRecord, read_lines
from tppkit.seals import Message
from tppkit.testpki import Pki

KILLS = int(os.environ.get("SANDBOX_KILLS", "3"))
SEED = 15
CONNECTIONS = 16


class Bank:
    """`tppkit sandbox up` on one folder, and a provider with 16 connections to it."""

    def __init__(self, folder: Path, pki: Path, trusted: Pki) -> None:
        self.folder = folder
        self._pki = pki
        self._context = tls_context(trusted.qwac, trusted)
        self._seal = make_seal(trusted.qseal)

    @contextmanager
    def running(self) -> Iterator[tuple[subprocess.Popen[bytes], RawProvider]]:
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
        with (self.folder / "log").open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                yield process, self._connect(process, ready)
            finally:
                process.kill()

    def _connect(self, process: subprocess.Popen[bytes], ready: Path) -> RawProvider:
        for _ in range(3000):
            if ready.exists():
                break
            assert process.poll() is None, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.01)
        url = httpx.Response(200, content=ready.read_bytes()).json()["psd2_url"]
        return RawProvider(httpx.Client(base_url=url, verify=self._context, trust_env=False, timeout=10), self._seal)

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert self.rows("evidence_outbox") == []

    def rows(self, table: str, column: str = "*") -> list[Any]:
        with closing(sqlite3.connect(self.folder / "sandbox.sqlite")) as database:
            return [row[0] for row in database.execute(f"SELECT {column} FROM {table}")]

    def records(self) -> list[EvidenceRecord]:
        return [EvidenceRecord.from_line(line) for _, line in read_lines(self.folder / "archive")]

    def require_whole(self) -> dict[str, str]:
        """Every payment has one record, every record its payment, and the chain is whole; the payment of each request id."""
        records = self.records()
        assert {(record.http_status, record.error_code) for record in records} == {(201, None)}
        assert Counter(record.payment_ref for record in records) == Counter(self.rows("payments", "payment_id"))
        kept = {record.x_request_id: str(record.payment_ref) for record in records}
        assert len(kept) == len(records)
        command = [TPPKIT, "audit", "verify", self.folder / "archive", "--trust", self._pki]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return kept


@pytest.fixture
def killed_bank(tmp_path: Path, bank_pki: Pki, bank_pki_folder: Path) -> Bank:
    return Bank(tmp_path, bank_pki_folder, bank_pki)


def test_every_acknowledged_payment_survives_kills_with_one_record(killed_bank: Bank) -> None:
    chance = random.Random(SEED)
    sent: dict[str, Message] = {}
    acknowledged: dict[str, str] = {}

    def pay(tpp: RawProvider, process: subprocess.Popen[bytes], last: int, pause_s: float) -> None:
        while process.returncode is None:
            request_id = str(uuid4())
            sent[request_id] = message = tpp.sealed(tpp.message(request_id=request_id))
            try:
                response = tpp.send(message)
            except httpx.TransportError:
                return
            assert response.status_code == 201, response.text
            acknowledged[request_id] = response.json()["paymentId"]
            if len(acknowledged) >= last:
                time.sleep(pause_s)
                process.kill()

    for number in range(KILLS):  # by turns at once after an answer, and somewhat later
        with killed_bank.running() as (process, tpp), tpp.http, ThreadPoolExecutor(CONNECTIONS) as threads:
            moment = (len(acknowledged) + chance.randint(1, 150), chance.uniform(0, 0.1) * (number % 2))
            for one in [threads.submit(pay, tpp, process, *moment) for _ in range(CONNECTIONS)]:
                one.result(30)
            assert process.wait(10) == -signal.SIGKILL

    with killed_bank.running() as (process, tpp), tpp.http:  # archives what the last kill left in the outbox
        killed_bank.stop(process)
    kept = killed_bank.require_whole()
    assert acknowledged.items() <= kept.items()
    print(f"{KILLS} kills: {len(sent)} payments sent, {len(acknowledged)} acknowledged, {len(kept)} kept")
    assert KILLS < len(acknowledged) < len(sent)

    with killed_bank.running() as (process, tpp), tpp.http, ThreadPoolExecutor(CONNECTIONS) as threads:
        answers = dict(zip(sent, threads.map(tpp.send, sent.values()), strict=True))
        killed_bank.stop(process)
    assert {response.status_code for response in answers.values()} == {201}
    again = {request_id: response.json()["paymentId"] for request_id, response in answers.items()}
    assert kept.items() <= again.items()
    assert killed_bank.require_whole() == again  # what no answer came to is one payment now


def test_a_commit_for_which_the_disk_is_full_is_answered_503_and_leaves_nothing(killed_bank: Bank) -> None:
    with killed_bank.running() as (process, tpp), tpp.http, ThreadPoolExecutor(CONNECTIONS) as threads:
        assert tpp.initiate().status_code == 201
        messages = [tpp.sealed(tpp.message()) for _ in range(3 * CONNECTIONS)]
        full = (killed_bank.folder / "sandbox.sqlite-wal").stat().st_size
        no_limit = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (full, no_limit[1]))
        refused = list(threads.map(tpp.send, messages))
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, no_limit)
        assert {response.status_code for response in refused} == {503}
        assert len(killed_bank.rows("payments")) == 1
        assert {response.status_code for response in threads.map(tpp.send, messages)} == {201}
        killed_bank.stop(process)
    assert len(killed_bank.require_whole()) == 1 + len(messages)
