"""A sandbox that dies or cannot write keeps everything that it acknowledged, each order with one record.

`make crash` kills it 50 times.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import httpx
import pytest
from account_reader import CONSENTS, request
from bank_process import BankProcess
from raw_provider import INSTANT, RawProvider, altered

from tppkit.seals import Message

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("SANDBOX_KILLS", "3"))
SEED = 15
CONNECTIONS = 16


class Load:
    """Payments, consents, decisions and executions, as far as the bank has acknowledged them.

    Attributes:
        sent: every sealed request, by its id.
        answers: the body of each 201, by the request's id.
        promised: the states that may follow what was acknowledged, by the path of the status.
    """

    def __init__(self, bank: BankProcess) -> None:
        self.bank = bank
        self.sent: dict[str, Message] = {}
        self.answers: dict[str, bytes] = {}
        self.promised: dict[str, set[str]] = {}

    def run(
        self, tpp: RawProvider, process: subprocess.Popen[bytes], *, moves_clock: bool, then: Callable[[], None]
    ) -> None:
        """Work until the process is dead; `then` is called after each acknowledged creation."""
        approved = None
        for number in count():
            try:
                if number % 3 == 2:
                    self._consent(tpp, then, delete=number % 2 == 0)
                elif approved := self._pay(tpp, then, approve=number % 3 == 1) or approved:
                    self._poll(tpp, approved)
                if moves_clock:  # in all less than the hour in which an answer is repeated
                    self.bank.control("/clock/advance", {"seconds": 3})
            except httpx.TransportError:
                return
            if process.returncode is not None:
                return

    def _create(self, tpp: RawProvider, message: Message, then: Callable[[], None]) -> Any:
        (request_id,) = message.values("x-request-id")
        self.sent[request_id] = message = tpp.sealed(message)
        response = tpp.send(message)
        assert response.status_code == 201, response.text
        self.answers[request_id] = response.content
        then()
        return response.json()

    def _pay(self, tpp: RawProvider, then: Callable[[], None], *, approve: bool) -> str | None:
        """The status of an approved payment."""
        made = self._create(tpp, tpp.message(product=INSTANT), then)
        if not approve:
            return None
        assert self.bank.control(f"/payments/{made['paymentId']}/approve")["transactionStatus"] == "ACSP"
        status = str(made["_links"]["status"]["href"])
        self.promised[status] = {"ACSP", "ACSC"}
        return status

    def _poll(self, tpp: RawProvider, status: str) -> None:
        if state(tpp, status) == "ACSC":
            self.promised[status] = {"ACSC"}

    def _consent(self, tpp: RawProvider, then: Callable[[], None], *, delete: bool) -> None:
        message = altered(tpp.message(json.dumps(request()).encode()), target=CONSENTS)
        made = self._create(tpp, message, then)
        status, path = made["_links"]["status"]["href"], made["_links"]["self"]["href"]
        assert self.bank.control(f"/consents/{made['consentId']}/approve")["status"] == "valid"
        self.promised[status] = {"valid", "revoked"} if delete else {"valid"}
        if delete:
            assert tpp.request("DELETE", path).status_code == 204
            self.promised[status] = {"revoked"}


def state(tpp: RawProvider, status: str) -> str:
    """The state that a poll reports."""
    ((_, reported),) = tpp.request("GET", status).json().items()
    return str(reported)


# CPython leaves a socket to the collector whose peer resets it between connect and handshake.
@pytest.mark.filterwarnings("ignore:.*_Socket:pytest.PytestUnraisableExceptionWarning")
def test_everything_acknowledged_survives_kills_with_one_record(killed_bank):
    chance, load = random.Random(SEED), Load(killed_bank)
    for number in range(KILLS):  # by turns at once after an answer, and somewhat later
        with killed_bank.running() as (process, tpp), tpp.http, ThreadPoolExecutor(CONNECTIONS) as threads:
            last, pause_s = len(load.answers) + chance.randint(1, 150), chance.uniform(0, 0.1) * (number % 2)

            def kill(process: Any = process, last: int = last, pause_s: float = pause_s) -> None:
                if len(load.answers) >= last:
                    time.sleep(pause_s)
                    process.kill()

            runs = [threads.submit(load.run, tpp, process, moves_clock=not n, then=kill) for n in range(CONNECTIONS)]
            for run in runs:
                run.result(30)
            assert process.wait(10) == -signal.SIGKILL

    with killed_bank.running() as (process, tpp), tpp.http, ThreadPoolExecutor(CONNECTIONS) as threads:
        states = dict(zip(load.promised, threads.map(lambda path: state(tpp, path), load.promised), strict=True))
        killed_bank.stop(process)  # archives what the last kill left in the outbox
    broken = {path: found for path, found in states.items() if found not in load.promised[path]}
    assert broken == {}
    kept = killed_bank.require_whole()
    assert load.answers.keys() <= kept.keys()
    counts = f"{len(load.sent)} sent, {len(load.answers)} acknowledged, {len(kept)} kept"
    print(f"{KILLS} kills: {counts}, then {dict(Counter(states.values()))}")
    assert KILLS < len(load.answers) < len(load.sent)

    with killed_bank.running() as (process, tpp), tpp.http, ThreadPoolExecutor(CONNECTIONS) as threads:
        again = dict(zip(load.sent, threads.map(tpp.send, load.sent.values()), strict=True))
        killed_bank.stop(process)
    assert {response.status_code for response in again.values()} == {201}
    assert load.answers.items() <= {request_id: response.content for request_id, response in again.items()}.items()
    made = {request_id: order_id(response.json()) for request_id, response in again.items()}
    assert kept.items() <= made.items()
    assert killed_bank.require_whole() == made  # what no answer came to is one order now


def order_id(answer: dict[str, str]) -> str:
    """The id of a payment or a consent."""
    return answer.get("paymentId") or answer["consentId"]


def test_a_commit_for_which_the_disk_is_full_is_answered_503_and_leaves_nothing(killed_bank):
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
