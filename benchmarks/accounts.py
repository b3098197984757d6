"""Account data at the sandbox's PSD2 host: a page of a long account against one of a short one, and memory over many requests."""

from __future__ import annotations

import asyncio
import gc
import json
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from typing import Any
from uuid import uuid4

import httpx

from harness import Curve, Line, Subject, against, by_size, counted
from sandbox import AT, CALLS, FEW, MANY, SIZES, TIMES, receiving
from tppkit.sandbox import SandboxSettings
from tppkit.sandbox.sandbox import SandboxHosts
from tppkit.seals import KeySigner, Message, Seal, sign_request
from tppkit.testpki import Pki, certificate_pem, make_pki, write_pki
from web import scope_of

REQUESTS = 30_000
SPACING_S = 60  # between entries, so that a page and what is before it are in one window
IBAN = "LT729999900000000002"
NUMBERS = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows)"
BOOKINGS = f"""INSERT INTO bookings {NUMBERS} SELECT printf('bench-%09d', n), :at - n * :step, 'Payer', 'Payee', NULL FROM numbers"""  # noqa: S608  # our own text
ENTRIES = (
    f"""INSERT INTO entries {NUMBERS} SELECT 'a2', :at - n * :step, printf('bench-%09d', n), 'EUR', 1 FROM numbers"""  # noqa: S608  # our own text
)


def paging() -> Iterator[Line]:
    """The third page of an account with 100,000 entries against that of one with 1,000."""
    pki = make_pki(at=AT, seed=1)
    with TemporaryDirectory() as folder, ExitStack() as opened:
        write_pki(pki, Path(folder) / "pki")
        few, many = (reader(opened, Path(folder), pki, rows) for rows in (FEW, MANY))
        what = f"of {FEW:,} entries"
        yield against(f"a page of {MANY:,} entries", many, few, what=what, at_most=1.2, clock=perf_counter_ns)


def paging_by_entries() -> Curve:
    """The same page by the number of entries."""
    pki = make_pki(at=AT, seed=1)
    with TemporaryDirectory() as folder, ExitStack() as opened:
        write_pki(pki, Path(folder) / "pki")
        sides = {rows: (reader(opened, Path(folder), pki, rows), CALLS) for rows in SIZES}
        return by_size("page of an account", sides, unit="entries", turns=TIMES)


def staying() -> Iterator[Line]:
    """Memory that Python holds after so many reads, above that after a tenth of them."""
    pki = make_pki(at=AT, seed=1)
    with TemporaryDirectory() as folder, ExitStack() as opened:
        write_pki(pki, Path(folder) / "pki")
        read = reader(opened, Path(folder), pki, 200)
        tracemalloc.start()
        opened.callback(tracemalloc.stop)
        held = []
        for count in (REQUESTS // 10, REQUESTS - REQUESTS // 10):
            for _ in range(count):
                read()
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
        yield counted(
            f"memory over {REQUESTS:,} requests", max(held[1] - held[0], 0) // 1024, what="KiB more", at_most=512
        )


def reader(opened: ExitStack, folder: Path, pki: Pki, rows: int) -> Subject:
    """Read a page of an account with this many entries more, at a sandbox of its own, while the customer is present."""
    settings = SandboxSettings(folder / str(rows), pki=folder / "pki")
    bank = opened.enter_context(SandboxHosts(settings, base_clock=lambda: AT))
    with closing(sqlite3.connect(settings.directory / "sandbox.sqlite")) as connection, connection:
        values = {"rows": rows, "at": int(AT.timestamp()) * 1_000_000, "step": SPACING_S * 1_000_000}
        for statement in (BOOKINGS, ENTRIES):
            connection.execute(statement, values)
    loop = opened.enter_context(closing(asyncio.new_event_loop()))
    running = bank.running()
    loop.run_until_complete(running.__aenter__())
    opened.callback(lambda: loop.run_until_complete(running.__aexit__(None, None, None)))
    qwac_pem = certificate_pem(pki.qwac.certificate).decode()
    answer = b""

    async def send(event: Any) -> None:
        nonlocal answer
        if event.get("status", 200) not in (200, 201):
            raise AssertionError(event)
        answer = event.get("body", b"")

    def ask(message: Message) -> Any:
        scope, body = scope_of(message, qwac_pem)
        path, _, query = message.target.partition("?")
        scope |= {"path": path, "raw_path": path.encode(), "query_string": query.encode()}
        loop.run_until_complete(bank.hosts["psd2"](scope, receiving(body), send))
        return json.loads(answer)

    def get(target: str) -> Message:
        ids = ("X-Request-ID", str(uuid4())), ("Consent-ID", consent_id), ("PSU-IP-Address", "192.0.2.7")
        return Message("GET", target, ids)

    consent_id = consent(ask, pki)
    approve(loop, bank, consent_id)
    (account,) = ask(get("/psd2/v1/accounts"))["accounts"]
    target = f"/psd2/v1/accounts/{account['resourceId']}/transactions?dateFrom=2025-01-01"
    for _ in range(2):
        target = ask(get(target))["transactions"]["_links"]["next"]["href"]
    return lambda: ask(get(target))


def consent(ask: Any, pki: Pki) -> str:
    """The id of a new consent."""
    body = b'{"access":{"allPsd2":"allAccounts"},"validUntil":"2099-12-31","frequencyPerDay":1}'
    headers = (("Content-Type", "application/json"), ("X-Request-ID", str(uuid4())))
    seal = Seal(pki.qseal.certificate, KeySigner(pki.qseal.key))
    return str(ask(sign_request(Message("POST", "/psd2/v1/consents", headers, body), seal=seal))["consentId"])


def approve(loop: asyncio.AbstractEventLoop, bank: SandboxHosts, consent_id: str) -> None:
    """Choose the long account."""

    async def post() -> None:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(bank.control), base_url="http://localhost"
        ) as client:
            (await client.post(f"/consents/{consent_id}/approve", json={"iban": IBAN})).raise_for_status()

    loop.run_until_complete(post())
