"""Callbacks that are pending when the sandbox is killed are delivered after its restart, in their order."""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from bank_process import BankProcess
from legacy_provider import Legacy

from tppkit.sandbox.server import Addresses
from tppkit.testpki import Pki

pytestmark = pytest.mark.slow

KILLS = 3
CONNECTIONS = 4
EACH = 25  # what is acknowledged before each kill
DAY_S = 86_400


def connected(bank: BankProcess, pki: Pki) -> Legacy:
    addresses = Addresses(**json.loads((bank.folder / "ready.json").read_bytes()))
    return Legacy(SimpleNamespace(addresses=addresses), pki)  # type: ignore[arg-type]


def work(legacy: Legacy, token: str, then: Callable[[str], None]) -> None:
    """Approve access and payments until the process is dead; `then` gets the token or uuid of each callback that is owed."""
    with suppress(httpx.TransportError):
        while True:
            then(legacy.access())
            then(legacy.paid(token))


def test_callbacks_that_are_pending_at_kills_are_delivered_after_the_restart(killed_bank, bank_pki, receiver):
    owed: list[str] = []
    receiver.afterwards = 500
    for _ in range(KILLS):
        with killed_bank.running() as (process, tpp), ThreadPoolExecutor(CONNECTIONS) as threads, tpp.http:
            legacy = connected(killed_bank, bank_pki)
            with legacy.http:
                legacy.control("/legacy/provider", {"callback_url": receiver.url})
                token = legacy.access("pis")
                last = len(owed) + EACH

                def then(name: str, process: Any = process, last: int = last) -> None:
                    owed.append(name)
                    if len(owed) == last:
                        process.kill()

                runs = [threads.submit(work, legacy, token, then) for _ in range(CONNECTIONS)]
                for run in runs:
                    run.result(30)
                assert process.wait(10) == -signal.SIGKILL

    refused = len(receiver.arrived)
    receiver.afterwards = 200
    with killed_bank.running() as (process, tpp), tpp.http:
        killed_bank.control("/clock/advance", {"seconds": DAY_S})
        killed_bank.stop(process)
    assert set(killed_bank.rows("deliveries", "state")) == {"acknowledged"}
    reported = defaultdict[str, dict[str | None, None]](dict)
    for one in receiver.arrived[refused:]:
        reported[one.json.get("token") or one.path.rpartition("/")[2]].setdefault(one.json.get("tlc"))
    assert set(owed) <= reported.keys()
    assert {tuple(found) for found in reported.values()} == {(None,), ("posted", "executed")}
    assert refused > 0
