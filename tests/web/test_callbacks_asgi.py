"""The ASGI middleware: what is read, what is passed on, and when it stops waiting."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from test_callback_gate import (
    ACCESS,
    AT,
    KEYS,
    LOCAL,
    RECEIVER,
    SCAN,
    SCANNED,
    Refusals,
    callback,
)

from refusals import refused
from tppkit.callbacks import (
    AsyncInbox,
    CallbackReceiver,
    CallbackRejected,
    Inbox,
    Receipt,
    VerifiedCallback,
)
from tppkit.errors import ConfigurationError
from tppkit.inbox.store import InboxStore, MemoryStore
from tppkit.protocol.legacy import LoginRequest
from tppkit.web import (
    AsyncCallbackGate,
    CallbackGate,
    CallbackMiddleware,
)


class Application:
    """Remembers what reaches it."""

    def __init__(self) -> None:
        self.scopes: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope["type"] + scope.get("path", ""))


class Client:
    """Sends a body in pieces and remembers the answer; after the last piece it waits, or leaves."""

    def __init__(self, *pieces: bytes, leaves: bool = False, ends: bool = True) -> None:
        self.pieces, self.leaves, self.ends = list(pieces), leaves, ends
        self.asked = 0
        self.sent: list[Any] = []

    async def receive(self) -> dict[str, Any]:
        self.asked += 1
        if self.pieces:
            piece = self.pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self.pieces) or not self.ends}
        if not self.leaves:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(self, event: Any) -> None:
        self.sent.append(event)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])


def scope(path: str = "/cb/", **changed: Any) -> dict[str, Any]:
    headers = [(name.encode(), value.encode()) for name, value in callback().headers]
    fixed = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    return {**fixed, "headers": headers, "client": ("127.0.0.1", 4711), **changed}


def run(given: dict[str, Any], client: Client, **settings: Any) -> tuple[list[str], Refusals]:
    refusals, application = Refusals(), Application()
    timeout_s = settings.pop("timeout_s", 4.0)
    gate = CallbackGate(Inbox(RECEIVER, MemoryStore()), on_refusal=refusals.append, **settings)
    middleware = CallbackMiddleware(application, gate=gate, timeout_s=timeout_s)
    asyncio.run(middleware(given, client.receive, client.send))
    return application.scopes, refusals


def test_a_callback_in_pieces_is_accepted_without_blocking_the_event_loop():
    client = Client(ACCESS[:10], b"", ACCESS[10:])
    assert run(scope(), client) == ([], [])
    assert client.sent == [
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0"), (b"cache-control", b"no-store")]},
        {"type": "http.response.body", "body": b""},
    ]  # fmt: skip
    here = threading.get_ident()
    threads: list[int] = []
    run(scope(), Client(ACCESS), handler=lambda *_: threads.append(threading.get_ident()))
    assert threads != [here]


@pytest.mark.parametrize(
    "other",
    [
        scope("/other"),
        scope("/cb"),
        {"type": "lifespan"},
        {"type": "websocket", "path": "/cb/"},
        scope("/cb/", raw_path=b"*"),
    ],
)
def test_everything_else_is_the_applications(other):
    client = Client(ACCESS)
    seen, _ = run(other, client)
    assert (len(seen), client.asked, client.sent) == (1, 0, [])


LENGTHS = (b"-1", b"1_0", b"", "\u0661".encode(), b"9" * 5000)
SLOW = Client(ACCESS[:10], ends=False)
GONE = Client(ACCESS[:10], leaves=True, ends=False)


@pytest.mark.parametrize(
    ("length", "client", "status", "code", "asked"),
    [
        (b"65537", Client(b"x" * 100), 413, "message.too-large", 0),
        (None, Client(*[b"x" * 40_000] * 5), 413, "message.too-large", 2),
        *((length, Client(ACCESS), 400, "message.malformed", 0) for length in LENGTHS),
        (None, SLOW, 408, "transport.timeout", 2),
        (None, GONE, 400, "transport.disconnected", 2),
    ],
)
def test_a_body_that_does_not_arrive_within_its_limits_is_refused(length, client, status, code, asked):
    given = scope()
    if length is not None:
        given["headers"].append((b"content-length", length))
    _, refusals = run(given, client, timeout_s=0.05 if client is SLOW else 4.0)
    assert (client.status, refusals.code, client.asked, refusals[0].received) == (status, code, asked, None)


def test_a_handler_that_is_too_slow_is_called_again_later():
    go_on = threading.Event()
    client = Client(ACCESS)
    seen: list[int] = []

    async def send(event: Any) -> None:
        client.sent.append(event)
        go_on.set()  # only now the handler's thread can end

    gate = CallbackGate(
        Inbox(RECEIVER, MemoryStore()), handler=lambda *_: seen.append(go_on.wait(20)), on_refusal=Refusals().append
    )

    async def both() -> int:
        await CallbackMiddleware(Application(), gate=gate, timeout_s=0.1)(scope(), client.receive, send)
        while not seen:
            await asyncio.sleep(0.01)
        again = Client(ACCESS)
        await CallbackMiddleware(Application(), gate=gate)(scope(), again.receive, again.send)
        return again.status

    assert asyncio.run(both()) == 200
    assert (client.status, seen) == (503, [True])


async def posted(middleware: CallbackMiddleware, request_id: str) -> int:
    body = ACCESS.replace(b"abcdefghijklmnopqrstuvwxyz", f"{request_id:a<26}".encode())  # a grant of its own
    client = Client(body)
    headers = [(name.encode(), value.encode()) for name, value in callback(request_id, body=body).headers]
    await middleware({**scope(), "headers": headers}, client.receive, client.send)
    return client.status


def test_a_handler_that_hangs_blocks_neither_other_callbacks_nor_the_applications_threads(postgresql_url):
    go_on, begun = threading.Event(), list[str]()
    store = InboxStore(postgresql_url.replace("postgresql:", "postgresql+psycopg:"), prefix="asgi_hangs_")
    store.create_tables()

    def hangs(got: VerifiedCallback, connection: object) -> None:
        begun.append(got.request_id)
        if got.request_id == "hangs":
            go_on.wait(60)

    refusals = Refusals()
    gate = CallbackGate(Inbox(RECEIVER, store), handler=hangs, on_refusal=refusals.append)
    middleware = CallbackMiddleware(Application(), gate=gate, timeout_s=0.2, threads=8)

    async def all_of_them() -> tuple[list[int], int]:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        first = await posted(middleware, "hangs")
        again = [await posted(middleware, "hangs") for _ in range(3)]
        middleware._timeout_s = 30.0
        other = await posted(middleware, "well")
        await asyncio.wait_for(asyncio.to_thread(int), 30)
        go_on.set()
        return [first, *again], other

    statuses, other = asyncio.run(all_of_them())
    while store.engine.pool.checkedout():  # the calls that were given up end later
        time.sleep(0.01)
    store.close()
    assert (statuses, other) == ([503] * 4, 200)
    assert begun == ["hangs", "well"]
    assert {refused.error.code for refused in refusals} == {"transport.timeout"}


def test_more_callbacks_than_threads_are_answered_503_and_a_cancelled_one_frees_its_place_when_its_handler_ends():
    go_on, begun, refusals = threading.Event(), threading.Event(), Refusals()

    def handler(*_: object) -> None:
        begun.set()
        go_on.wait(60)

    application = Application()
    gate = CallbackGate(Inbox(RECEIVER, MemoryStore()), handler=handler, on_refusal=refusals.append)
    middleware = CallbackMiddleware(application, gate=gate, timeout_s=60.0, threads=1)

    async def all_of_them() -> list[int]:
        hanging = asyncio.create_task(posted(middleware, "hangs"))
        await asyncio.to_thread(begun.wait, 60)
        statuses = [await posted(middleware, "r1")]
        hanging.cancel()
        await asyncio.wait([hanging])
        statuses.append(await posted(middleware, "r2"))
        await middleware(scope("/other"), Client().receive, Client().send)
        go_on.set()
        async with asyncio.timeout(20):
            while await posted(middleware, "r3") != 200:
                await asyncio.sleep(0.01)
        return statuses

    assert asyncio.run(all_of_them()) == [503, 503]
    assert application.scopes == ["http/other"]
    assert {refused.error.code for refused in refusals} == {"transport.busy"}


def end_with_a_handler_that_hangs() -> None:
    gate = CallbackGate(Inbox(RECEIVER, MemoryStore()), handler=lambda *_: threading.Event().wait())
    status = asyncio.run(posted(CallbackMiddleware(Application(), gate=gate, timeout_s=0.2), "hangs"))
    print(status)


@pytest.mark.slow
def test_a_process_ends_although_a_handler_hangs_or_asks_for_its_end():
    command = [
        sys.executable,
        "-c",
        "import sys; sys.path.append('..'); import test_callbacks_asgi as tests; tests.end_with_a_handler_that_hangs()",
    ]
    ended = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=60, check=True
    )  # fmt: skip
    assert ended.stdout == "503\n"
    with pytest.raises(SystemExit):
        run(scope(), Client(ACCESS), handler=lambda *_: sys.exit(1))

    def handler(*_: object) -> None:
        raise asyncio.CancelledError

    client = Client(ACCESS)
    _, refusals = run(scope(), client, handler=handler)
    assert (client.status, refusals.code) == (503, "callback.function")


@pytest.mark.parametrize(
    ("name", "value"),
    [*(("timeout_s", value) for value in (0, -1.0, float("nan"), float("inf"))), ("threads", 0), ("threads", -1)],
)
def test_a_setting_by_which_nothing_can_be_received_is_refused(name, value):
    gate = CallbackGate(Inbox(RECEIVER, MemoryStore()))
    with refused(ConfigurationError, "web.setting"):
        CallbackMiddleware(Application(), gate=gate, **{name: value})


def test_an_awaited_handler_that_ends_as_cancelled_is_distinguished_from_a_request_that_is():
    async def all_of_them() -> tuple[list[int], Refusals, bool]:
        begun, refusals = asyncio.Event(), Refusals()

        async def handler(got: VerifiedCallback, _: object) -> None:
            begun.set()
            waiting = asyncio.ensure_future(asyncio.Event().wait())
            if got.request_id == "own":
                waiting.cancel()
            await waiting

        inbox = AsyncInbox(RECEIVER, MemoryStore())
        gate = AsyncCallbackGate(inbox, handler=handler, on_refusal=refusals.append)
        statuses = [
            await posted(CallbackMiddleware(Application(), gate=gate, timeout_s=timeout_s), request_id)
            for request_id, timeout_s in (("own", 20.0), ("late", 0.1))
        ]
        begun.clear()
        request = asyncio.create_task(posted(CallbackMiddleware(Application(), gate=gate), "gone"))
        await begun.wait()
        request.cancel()
        await asyncio.wait([request])
        return statuses, refusals, request.cancelled()

    statuses, refusals, cancelled = asyncio.run(all_of_them())
    assert (statuses, cancelled) == ([503, 503], True)
    assert [refused.error.code for refused in refusals] == ["callback.function", "transport.timeout"]


def test_the_awaited_gate_does_the_same():
    async def run() -> tuple[list[int], list[str], list[str], bytes]:
        seen: list[str] = []
        refusals = Refusals()

        async def granted(event: Any, verified: Any, _: object) -> None:
            seen.append(f"{verified.request_id} {event.token[:3]}")
            if len(seen) == 1:
                raise CallbackRejected("callback.body", "not about the request")

        async def handler(*_: object) -> None: ...

        async def keep(receipt: Receipt) -> None:
            seen.append(receipt.outcome.value)

        async def login(_: object) -> LoginRequest:
            return LoginRequest(name="Shop")

        receiver = CallbackReceiver([*RECEIVER.book.addresses, *SCANNED.book.addresses], keys=KEYS)
        one = AsyncCallbackGate(
            AsyncInbox(receiver, MemoryStore()), on_access=granted, handler=handler, keep=keep, login=login,
            on_refusal=refusals.append, count=lambda *given: seen.append(" ".join(given[:2])), now=lambda: AT,
        )  # fmt: skip
        calls = [callback("a"), callback("a"), callback("a"), callback("a")._replace(body=b"{}")]
        statuses = [(await one.receive(call, LOCAL)).status for call in calls]
        body = (await one.receive(SCAN, LOCAL)).body
        return statuses, seen, [refusals.code], body

    statuses, seen, codes, body = asyncio.run(run())
    assert statuses == [503, 200, 200, 400]
    assert seen == [
        "a abc", "failed callback.body", "a abc", "applied", "applied ", "repeated", "repeated ", "refused callback.signature",
        "login", "login ",
    ]  # fmt: skip
    assert (codes, body) == (["callback.signature"], b'{"name":"Shop","perm":[]}')


def test_awaited_effects_can_be_had_in_a_transaction_of_the_caller(postgresql_url):
    async def run() -> tuple[list[int], list[str]]:
        url = postgresql_url.replace("postgresql:", "postgresql+psycopg:")
        engine = create_async_engine(url)
        inbox = AsyncInbox(RECEIVER, store := InboxStore(url, prefix="gate_"))
        await inbox.run(store.create_tables)
        async with engine.begin() as connection:
            await connection.execute(text("CREATE TABLE gate_effects (what TEXT)"))
        fails = [True]

        async def handler(verified: Any, connection: AsyncConnection) -> None:
            await connection.execute(text("INSERT INTO gate_effects VALUES (:what)"), {"what": verified.request_id})
            if fails and fails.pop():
                raise ValueError

        settings = {"on_refusal": Refusals().append, "now": lambda: AT}
        one = AsyncCallbackGate(inbox, handler=handler, within=engine.begin, **settings)
        statuses = [(await one.receive(callback(), LOCAL)).status for _ in range(3)]
        async with engine.connect() as connection:
            effects = list((await connection.execute(text("SELECT what FROM gate_effects"))).scalars())
        await engine.dispose()
        await inbox.run(store.close)
        return statuses, effects

    assert asyncio.run(run()) == ([503, 200, 200], ["r-1"])
