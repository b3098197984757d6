"""The sandbox in process: until it is ready; sealed payments, from the verified request to the kept evidence and the committed payment."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from typing import Any
from uuid import uuid4

from harness import Curve, Line, Subject, against, by_size
from tppkit.sandbox import Sandbox, SandboxSettings
from tppkit.sandbox.sandbox import SandboxHosts
from tppkit.seals import KeySigner, Message, Seal, sign_request
from tppkit.testpki import Pki, certificate_pem, make_pki, write_pki
from web import scope_of

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
FEW, MANY = 1_000, 100_000
SIZES, TIMES, CALLS = (1_000, 10_000, 100_000), 30, 10  # of a curve; turns of so many calls at each size
BODY = (
    b'{"instructedAmount":{"currency":"EUR","amount":"12.50"},"creditorAccount":{"iban":"LT121000011101001000"},'
    b'"creditorName":"Bookshop","remittanceInformationUnstructured":"Order 4711"}'
)
# Ids and link tokens are random, as the bank's own are; the request ids are younger than an hour, so none is forgotten.
NUMBERS = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows)"
PAYMENTS = f"""INSERT INTO payments (payment_id, organization, product, body, link_token, status, active_at, opened)
    {NUMBERS} SELECT hex(randomblob(24)), :organization, 'sepa-credit-transfers', :body, hex(randomblob(24)), 'RCVD', :at, 0 FROM numbers"""  # noqa: S608  # our own text
REQUEST_IDS = f"""INSERT INTO request_ids_3600s {NUMBERS} SELECT randomblob(32), randomblob(32), :at, :at, :at, :body FROM numbers"""  # noqa: S608  # our own text


def opening() -> Iterator[Line]:
    """A bank for one test, ready with a client and closed again, against making a test PKI and writing its files."""
    number = count()
    with TemporaryDirectory() as folder:

        def write() -> None:
            write_pki(make_pki(at=AT), Path(folder) / str(next(number)))

        yield against(
            "a sandbox in process, ready and closed",
            in_process,
            write,
            what="of making and writing its PKI",
            at_most=5,
            clock=perf_counter_ns,
        )


def in_process() -> None:
    """Open a bank with a client, and close it."""
    with Sandbox() as bank:
        bank.client()


def paying() -> Iterator[Line]:
    """A payment with 100,000 payments and request ids in the database against one with 1,000."""
    pki = make_pki(at=AT, seed=1)
    with TemporaryDirectory() as folder, ExitStack() as opened:
        write_pki(pki, Path(folder) / "pki")
        few, many = (payer(opened, Path(folder), pki, rows) for rows in (FEW, MANY))
        yield against(
            f"a sealed payment at {MANY:,} rows", many, few, what=f"of {FEW:,} rows", at_most=1.1, clock=perf_counter_ns
        )


def paying_by_rows() -> Curve:
    """A payment by the number of payments, and of request ids, in the database."""
    pki = make_pki(at=AT, seed=1)
    with TemporaryDirectory() as folder, ExitStack() as opened:
        write_pki(pki, Path(folder) / "pki")
        sides = {rows: (payer(opened, Path(folder), pki, rows), CALLS) for rows in SIZES}
        return by_size("sealed payment", sides, unit="payments", turns=TIMES)


def payer(opened: ExitStack, folder: Path, pki: Pki, rows: int) -> Subject:
    """Send a new sealed payment to a sandbox of its own with this many rows."""
    settings = SandboxSettings(folder / str(rows), pki=folder / "pki")
    bank = opened.enter_context(SandboxHosts(settings, base_clock=lambda: AT))
    fill(settings.directory / "sandbox.sqlite", pki, rows)
    loop = opened.enter_context(closing(asyncio.new_event_loop()))
    running = bank.running()
    loop.run_until_complete(running.__aenter__())
    opened.callback(lambda: loop.run_until_complete(running.__aexit__(None, None, None)))
    requests = sealed(pki, MANY)

    async def send(event: Any) -> None:
        if event.get("status", 201) != 201:
            raise AssertionError(event)

    def pay() -> None:
        scope, body = next(requests)
        loop.run_until_complete(bank.hosts["psd2"](scope, receiving(body), send))

    return pay


def fill(path: Path, pki: Pki, rows: int) -> None:
    """Insert payments and request ids."""
    identifier = pki.qwac.certificate.organization_identifier
    values = {
        "rows": rows, "organization": identifier.text if identifier else "", "body": BODY, "at": int(AT.timestamp()) * 1_000_000,
    }  # fmt: skip
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in (PAYMENTS, REQUEST_IDS):
            connection.execute(statement, values)


def sealed(pki: Pki, count: int) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Scopes and bodies of requests with ids of their own."""
    seal, qwac_pem = (
        Seal(pki.qseal.certificate, KeySigner(pki.qseal.key)),
        certificate_pem(pki.qwac.certificate).decode(),
    )
    for _ in range(count):
        headers = (("Content-Type", "application/json"), ("X-Request-ID", str(uuid4())))
        message = sign_request(Message("POST", "/psd2/v1/payments/sepa-credit-transfers", headers, BODY), seal=seal)
        yield scope_of(message, qwac_pem)


def receiving(body: bytes) -> Callable[[], Any]:
    """An ASGI receive channel with this body."""

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
