"""Searches of orders at the sandbox's gateway host: a page over many orders against one over few, and memory over all pages."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from typing import Any

from harness import Line, against, counted
from inbox import resident
from sandbox import AT, FEW, MANY, receiving
from tppkit.sandbox import SandboxHosts, SandboxSettings
from tppkit.seals import Message
from tppkit.testpki import make_pki, write_pki
from web import scope_of

PATH = "/v1/search/orders/"
PAGE = 1_000
# Orders of the hosted page, the newest first, one in a hundred of them completed.
NUMBERS = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows)"
ORDERS = f"""INSERT INTO gateway_orders (id, project_id, status, terms, merchant_order_id, currency, amount, is_test, own_checkout,
        page_token, created_at, modified_at)
    {NUMBERS} SELECT printf('00000000-0000-4000-8000-%012d', n), project.id, iif(n % 100, 'new', 'completed'),
        CAST('{{"currency":"EUR","amount":1250,"merchant_order_id":"' || n || '"}}' AS BLOB), n, 'EUR', 1250, 0, 0, hex(randomblob(24)),
        :at - n, :at - n FROM numbers, gateway_projects project"""  # noqa: S608  # our own text
Search = Callable[..., Any]


def searching() -> Iterator[Line]:
    """The first page, and all pages of 1,000."""
    pki = make_pki(at=AT, seed=1)
    with TemporaryDirectory() as folder, ExitStack() as opened:
        write_pki(pki, Path(folder) / "pki")
        few, many = (searcher(opened, Path(folder), rows) for rows in (FEW, MANY))
        for query in ("*", "status:completed", f"merchant_order_id:{FEW}"):
            sides = (partial(side, {"query": query, "size": 10}) for side in (many, few))
            name = f"{query}, {MANY:,} orders"
            yield against(name, *sides, what=f"of {FEW:,} orders", at_most=1.2, clock=perf_counter_ns)
        growth = turn_all(many)
        yield counted(f"all pages of {MANY:,} orders", growth // 2**20, what="MiB more than the first ten", at_most=8)


def turn_all(search: Search) -> int:
    """Bytes that the process holds more after all pages than after the first ten."""
    cursor, first, found = "-1", 0, 0
    while cursor:
        page = search({"query": "*", "size": PAGE, "search_after": cursor})
        cursor, found = page.get("search_after"), found + len(page["orders"])
        first = resident() if found == 10 * PAGE else first
    if found != MANY:
        raise AssertionError(found)
    return resident() - first


def searcher(opened: ExitStack, folder: Path, rows: int) -> Search:
    """Search at a sandbox of its own with this many orders."""
    settings = SandboxSettings(folder / str(rows), pki=folder / "pki")
    bank = opened.enter_context(SandboxHosts(settings, approval_url="http://localhost", base_clock=lambda: AT))
    with closing(sqlite3.connect(settings.directory / "sandbox.sqlite")) as connection, connection:
        connection.execute(ORDERS, {"rows": rows, "at": int(AT.timestamp()) * 1_000_000})
    loop = opened.enter_context(closing(asyncio.new_event_loop()))
    running = bank.running()
    loop.run_until_complete(running.__aenter__())
    opened.callback(lambda: loop.run_until_complete(running.__aexit__(None, None, None)))
    key = base64.b64encode(f"{(settings.directory / 'gateway' / 'api-key').read_text()}:".encode()).decode()
    headers = (("Authorization", f"Basic {key}"), ("Content-Type", "application/json"))
    answer = b""

    async def send(event: Any) -> None:
        nonlocal answer
        if event.get("status", 200) != 200:
            raise AssertionError(event)
        answer = event.get("body", b"")

    def search(fields: Any) -> Any:
        scope, body = scope_of(Message("POST", PATH, headers, json.dumps(fields).encode()), "")
        loop.run_until_complete(bank.hosts["gateway"](scope, receiving(body), send))
        return json.loads(answer)

    return search
