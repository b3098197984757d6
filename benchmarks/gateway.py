"""Orders that a merchant creates at the sandbox's gateway, against Starlette with one INSERT, and searches over many and few of them."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from typing import Any

from harness import Curve, Line, against, by_size, counted, rated
from inbox import resident
from rates import program, rates, sandbox
from sandbox import AT, CALLS, FEW, MANY, SIZES, TIMES, receiving
from tppkit._clock import utc_now
from tppkit.protocol.gateway import F
from tppkit.sandbox import SandboxSettings
from tppkit.sandbox.sandbox import SandboxHosts
from tppkit.seals import Message
from tppkit.testpki import certificate_pem, make_pki, write_pki
from web import scope_of

CONNECTIONS = 8
REQUESTS = 800  # in a turn
TURNS, TURNS_S = 15, 10
SEARCH, QUERY = "/v1/search/orders/", {"query": str(F("currency") == "EUR")}
LOOKUP = {"query": str(F("merchant_order_id") == "500")}
PAGE = 1000  # the largest
BODIES: Mapping[str, bytes] = {
    "orders for the hosted page": b'{"currency":"EUR","amount":1250,"merchant_order_id":"4711","description":"Books"}',
    "orders with a card transaction": (
        b'{"currency":"EUR","amount":1250,"merchant_order_id":"4711","transactions":[{"payment_method":"credit-card"}]}'
    ),
}
NUMBERS = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows)"
# What the copies of an order have of their own. Nothing of them is due.
_ID, _TIME = "printf('00000000-0000-4000-8000-%012d', n)", "created_at - n * 1000000"
_EACH = {
    "id": _ID,
    "merchant_order_id": "n",
    "page_token": "printf('bench-%09d', n)",
    "created_at": _TIME,
    "modified_at": _TIME,
    "due_at": "NULL",
}
COPIES: Mapping[str, Mapping[str, str]] = {
    "gateway_orders": _EACH,
    "gateway_transactions": {**_EACH, "order_id": _ID, "setup_token": "NULL"},
}


def ordering() -> Iterator[Line]:
    """Rates of durably created orders."""
    with TemporaryDirectory() as name, ExitStack() as running:
        folder = Path(name) / "pki"
        write_pki(make_pki(at=utc_now(), key="p256"), folder)
        addresses = running.enter_context(sandbox(Path(name), folder))
        bare = running.enter_context(program("bare_gateway.py", folder))
        ours = int(addresses["gateway_url"].rpartition(":")[2])
        context = ssl.create_default_context(cafile=folder / "root.pem")
        for what, body in BODIES.items():
            made = partial(list, [request(addresses["api_key"], body)] * REQUESTS)
            ratios = rates(ours, bare, context, CONNECTIONS, made, 201, TURNS, TURNS_S)
            goal = "of Starlette with one INSERT"
            yield rated(f"{what}, {CONNECTIONS} connections", ratios, what=goal, at_least=0.3)


def searching() -> Iterator[Line]:
    """The first page, and one order by its reference, of 100,000 orders against those of 1,000."""
    with ExitStack() as opened:
        few, many = (shop(opened, orders) for orders in (FEW, MANY))
        for name, query in (("first page", QUERY), ("lookup by reference", LOOKUP)):
            sides = (partial(ask, SEARCH, query) for ask in (many, few))
            what = f"of {FEW:,} orders"
            yield against(f"{name}, {MANY:,} orders", *sides, what=what, at_most=1.2, clock=perf_counter_ns)


def searching_by_orders() -> Iterator[Curve]:
    """The same two by the number of orders."""
    with ExitStack() as opened:
        asks = {orders: shop(opened, orders) for orders in SIZES}
        for name, query in (("first page of a search", QUERY), ("search by reference", LOOKUP)):
            sides = {orders: (partial(ask, SEARCH, query), CALLS) for orders, ask in asks.items()}
            yield by_size(name, sides, unit="orders", turns=TIMES)


def searching_through() -> Iterator[Line]:
    """Memory that `search_after` leaves behind 100,000 orders, above that behind its first 10,000."""
    with ExitStack() as opened:
        ask, body, pages, first = shop(opened, MANY), QUERY | {"size": PAGE, "search_after": "-1"}, 0, 0
        while body.get("search_after") is not None:
            body |= {"search_after": ask(SEARCH, body).get("search_after")}
            pages += 1
            if pages == 10:
                first = resident()
        growth = resident() - first
        what = f"MiB more than {10 * PAGE:,}"
        yield counted(f"search_after through {MANY:,} orders", max(growth, 0) // 2**20, what=what, at_most=8)


def shop(opened: ExitStack, orders: int) -> Callable[[str, Any], Any]:
    """Asks a gateway in this process, whose project has so many orders."""
    folder, pki = Path(opened.enter_context(TemporaryDirectory())), make_pki(at=AT, seed=1)
    write_pki(pki, folder / "pki")
    settings = SandboxSettings(folder / "sandbox", pki=folder / "pki")
    bank = opened.enter_context(SandboxHosts(settings, base_clock=lambda: AT))
    loop = opened.enter_context(closing(asyncio.new_event_loop()))
    running = bank.running()
    loop.run_until_complete(running.__aenter__())
    opened.callback(lambda: loop.run_until_complete(running.__aexit__(None, None, None)))
    qwac_pem = certificate_pem(pki.qwac.certificate).decode()
    headers = (("Authorization", f"Basic {basic(bank.projects.api_key)}"), ("Content-Type", "application/json"))
    answer = b""

    async def send(event: Any) -> None:
        nonlocal answer
        if event.get("status", 200) not in (200, 201):
            raise AssertionError(event)
        answer = event.get("body", b"")

    def ask(path: str, body: Any) -> Any:
        scope, sent = scope_of(Message("POST", path, headers, json.dumps(body).encode()), qwac_pem)
        loop.run_until_complete(bank.hosts["gateway"](scope, receiving(sent), send))
        return json.loads(answer)

    made = ask("/v1/orders/", json.loads(BODIES["orders with a card transaction"]))
    with closing(sqlite3.connect(settings.directory / "sandbox.sqlite")) as connection, connection:
        for table, changed in COPIES.items():
            names = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
            copied = ", ".join(changed.get(name, name) for name in names)
            key = "id" if table == "gateway_orders" else "order_id"
            copy = f"INSERT INTO {table} {NUMBERS} SELECT {copied} FROM {table}, numbers WHERE {key} = :of"  # noqa: S608  # our own text
            connection.execute(copy, {"rows": orders, "of": made["id"]})
    return ask


def request(api_key: str, body: bytes) -> bytes:
    """A request that creates an order."""
    head = (
        f"POST /v1/orders/ HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {basic(api_key)}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def basic(api_key: str) -> str:
    """The credentials of Basic."""
    return base64.b64encode(f"{api_key}:".encode()).decode()
