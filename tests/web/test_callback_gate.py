"""What the gate decides and answers, with real stores: who may send, which status the service gets, what the log gets."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from tppkit.callbacks import (
    NO_TIME,
    AsyncInbox,
    CallbackAddress,
    CallbackKey,
    CallbackKind,
    CallbackReceiver,
    Inbox,
    InboxSettings,
    NoTime,
    Outcome,
    Receipt,
    ReceivedCallback,
    TimeWindow,
    Unhandled,
    explain_callback,
    parse_networks,
    sign_callback,
)
from tppkit.errors import CallbackRejected, ConfigurationError, FormatError, TppkitError
from tppkit.inbox.store import InboxStore, MemoryStore
from tppkit.protocol.legacy import LoginPermission, LoginRequest
from tppkit.web import (
    AsgiSource,
    AsyncCallbackGate,
    CallbackGate,
    CallbackPeers,
    RefusedCallback,
)

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
SERVICE = ec.derive_private_key(4711, ec.SECP256R1())
UUID = "0123456789abcdefghij"
ACCESS = b'{"token":"abcdefghijklmnopqrstuvwxyz","exp":"2026-12-01 12:00:00"}'
RECEIVER = CallbackReceiver(
    [
        CallbackAddress("https://tpp.example/cb/", CallbackKind.ACCESS),
        CallbackAddress("https://tpp.example/cb/{token}", CallbackKind.PAYMENT),
    ],
    keys=[CallbackKey("live", SERVICE.public_key())],
)
SCANNED = CallbackReceiver(
    [CallbackAddress("https://tpp.example/login/{token}", CallbackKind.LOGIN)],
    keys=[CallbackKey("live", SERVICE.public_key())],
)
LOCAL = AsgiSource({"type": "http", "headers": [], "client": ("127.0.0.1", 4711)})


def callback(
    request_id: str = "r-1", *, path: str = "/cb/", body: bytes = ACCESS, method: str = "POST"
) -> ReceivedCallback:
    headers = sign_callback(SERVICE, request_id=request_id, method=method, url=f"https://tpp.example{path}", body=body)
    return ReceivedCallback(method, path, headers, body)


class Refusals(list[RefusedCallback]):
    """Collects refusals."""

    @property
    def code(self) -> str:
        error = self[-1].error
        return error.code if isinstance(error, TppkitError) else type(error).__name__


def gate(store: Any = None, *, receiver: CallbackReceiver = RECEIVER, **settings: Any) -> tuple[CallbackGate, Refusals]:
    refusals = Refusals()
    given = {"on_refusal": refusals.append, "now": lambda: AT, **settings}
    return CallbackGate(Inbox(receiver, store or MemoryStore()), **given), refusals


def test_without_a_handler_it_waits_for_a_worker():
    inbox = Inbox(RECEIVER, MemoryStore())
    CallbackGate(inbox, now=lambda: AT).receive(callback(), LOCAL)
    assert [worked.outcome for worked in inbox.work(lambda *_: None, at=AT)] == [Outcome.APPLIED]


def test_the_handler_gets_the_event_and_the_stores_connection(tmp_path):
    seen = []
    store = InboxStore(f"sqlite:///{tmp_path}/inbox.sqlite")
    store.create_tables()
    gate(store, handler=lambda verified, connection: seen.append((verified.event.token, type(connection))))[0].receive(
        callback(), LOCAL
    )
    store.close()
    assert seen == [("abcdefghijklmnopqrstuvwxyz", Connection)]


@pytest.mark.parametrize("given", [{"on_access": print}, {"on_access": print, "on_login": print}])
def test_a_gate_with_handlers_by_kind_has_one_for_each_address(given):
    with pytest.raises(ConfigurationError, match=r"cb/\{token\}") as refused:
        gate(**given)
    assert refused.value.code == "callback.no-handler"


def test_handlers_by_kind_are_called_by_the_gate():
    seen = []
    one, _ = gate(on_access=lambda event, callback, db: seen.append(event.token), handler=lambda callback, db: None)
    assert one.receive(callback(), LOCAL).status == 200
    assert seen == ["abcdefghijklmnopqrstuvwxyz"]


def test_outcomes_and_codes_are_counted_once_a_request_without_anything_of_the_request():
    counted = []

    def handler(verified: Any, connection: Any) -> None:
        if verified.request_id == "r-2":
            raise LookupError("a phone number")

    one, _ = gate(handler=handler, count=lambda *given: counted.append(given))
    for received in (
        callback(),
        callback(),
        callback("r-2", body=ACCESS.replace(b"2026", b"2027")),
        callback(body=b"{}"),
    ):
        one.receive(received, LOCAL)
    one.receive(callback("r-3", path="/cb/" + UUID, body=b"{}"), LOCAL)
    one.receive(callback()._replace(headers=()), LOCAL)
    assert counted == [
        ("applied", ""), ("repeated", ""), ("failed", "LookupError"), ("refused", "callback.request-id-reused"),
        ("unreadable", "callback.unreadable"), ("refused", "callback.header-missing"),
    ]  # fmt: skip


def test_a_counter_that_fails_changes_no_answer(caplog):
    assert gate(count=lambda *_: 1 / 0)[0].receive(callback(), LOCAL).status == 200
    assert "count failed for stored" in caplog.text


@pytest.mark.parametrize(
    ("received", "status", "code"),
    [
        (callback()._replace(body=ACCESS + b" "), 400, "callback.signature"),
        (callback()._replace(headers=()), 400, "callback.header-missing"),
        (callback()._replace(method="PUT"), 400, "callback.method"),
        (callback(body=b'{"a":"' + b"x" * 70_000 + b'"}'), 413, "callback.too-large"),
    ],
)
def test_what_is_refused_gets_a_bare_status_and_the_log_the_reason(received, status, code):
    one, refusals = gate()
    answer = one.receive(received, LOCAL)
    assert (answer.status, answer.body) == (status, b"")
    assert (refusals.code, refusals[0].status, refusals[0].peer, refusals[0].at) == (code, status, "127.0.0.1", AT)


def test_a_refusal_can_be_explained_later():
    one, refusals = gate()
    one.receive(callback()._replace(body=ACCESS + b"\n"), LOCAL)
    assert refusals[0].received is not None
    found = explain_callback(refusals[0].received, at=refusals[0].at, receiver=RECEIVER)
    assert [finding.code for finding in found.findings] == ["callback.signature", "callback-cause.body-changed"]


def test_a_refusal_shows_no_body_when_it_is_printed():
    one, refusals = gate()
    one.receive(callback()._replace(body=ACCESS + b" "), LOCAL)
    assert "abcdefghij" not in repr(refusals[0])


def test_a_record_whose_version_came_with_other_content_is_acknowledged_kept_and_warned_of(caplog):
    kept: list[Receipt] = []
    one, refusals = gate(keep=kept.append, handler=lambda *_: None)
    record = '{"id":"t1","ver":1,"timeStamp":1,"tlc":"%s","acc":"x","amount":["EUR-1"]}'
    for request_id, tlc in (("r-1", "posted"), ("r-2", "executed")):
        path = "/cb/" + "a" * 20
        assert one.receive(callback(request_id, path=path, body=(record % tlc).encode()), LOCAL).status == 200
    assert [receipt.outcome for receipt in kept] == [Outcome.APPLIED, Outcome.VERSION_CONFLICT]
    assert refusals == []
    (logged,) = caplog.records
    assert (logged.levelname, logged.name) == ("WARNING", "tppkit.web")
    assert "callback r-2: " in logged.message
    assert "[callback.version-conflict]" in logged.message


@pytest.mark.parametrize(
    "error", [ValueError("x"), CallbackRejected("callback.body", "x"), FormatError("message.malformed", "x")]
)
def test_a_handler_that_fails_is_called_again_whatever_it_raises(error):
    errors = [error]

    def handler(*_: object) -> None:
        if errors:
            raise errors.pop()

    one, refusals = gate(handler=handler)
    assert one.receive(callback(), LOCAL).status == 503
    assert refusals[0].error is error
    assert one.receive(callback(), LOCAL).status == 200


def test_a_callback_that_another_process_handles_is_requested_again_and_not_kept():
    class Killed(BaseException):
        """The process of a worker ends."""

    def dies(*_: object) -> None:
        raise Killed

    store, kept = MemoryStore(), list[Receipt]()
    Inbox(RECEIVER, store).accept(callback(), at=AT)
    with pytest.raises(Killed):
        Inbox(RECEIVER, store).work(dies, at=AT)
    one, refusals = gate(store, handler=lambda *_: None, keep=kept.append)
    assert (one.receive(callback(), LOCAL).status, refusals, kept) == (503, [], [])


def test_a_store_that_fails_acknowledges_nothing(tmp_path):
    one, refusals = gate(InboxStore(f"sqlite:///{tmp_path}/without-tables.sqlite"))
    assert (one.receive(callback(), LOCAL).status, refusals.code) == (503, "inbox.unavailable")


def test_evidence_is_kept_before_the_acknowledgement_and_again_for_repetitions_but_not_for_refusals():
    kept: list[Receipt] = []

    def keep(receipt: Receipt) -> None:
        kept.append(receipt)
        if len(kept) == 1:
            raise OSError("the disk is full")

    one, refusals = gate(keep=keep)
    assert [one.receive(callback(), LOCAL).status for _ in range(2)] == [503, 200]
    assert refusals.code == "OSError"
    assert one.receive(callback()._replace(body=b"{}"), LOCAL).status == 400
    assert [receipt.outcome for receipt in kept] == [Outcome.STORED, Outcome.REPEATED]
    assert kept[1].callback.body == ACCESS


@pytest.mark.parametrize("handled", [True, False])
def test_a_login_get_is_answered_also_when_it_is_repeated_and_reaches_no_handler(handled):
    seen: list[object] = []
    store, kept = MemoryStore(), list[Receipt]()
    one, _ = gate(
        store, receiver=SCANNED, handler=(lambda *given: seen.append(given)) if handled else None, keep=kept.append,
        login=lambda verified: LoginRequest(name="Shop ž", perm=(LoginPermission.ID,), code=verified.token[:4]),
    )  # fmt: skip
    scanned = callback(path=f"/login/{UUID}", method="GET", body=b"")
    for _ in range(2):
        answer = one.receive(scanned, LOCAL)
        assert (answer.status, answer.body) == (200, '{"name":"Shop ž","perm":["ID"],"code":"0123"}'.encode())
        assert ("content-type", "application/json") in answer.headers
    assert Inbox(SCANNED, store).work(lambda *given: seen.append(given), at=AT) == []
    assert (seen, [receipt.outcome for receipt in kept]) == ([], [Unhandled.LOGIN] * 2)


def refuse_code(_: object) -> LoginRequest:
    raise CallbackRejected("callback.login-code", "the code has expired")


async def refuse_code_async(_: object) -> LoginRequest:
    return refuse_code(_)


def test_a_scan_of_a_code_that_does_not_count_is_not_requested_again():
    scanned = callback(path=f"/login/{UUID}", method="GET", body=b"")
    one, refusals = gate(receiver=SCANNED, login=refuse_code)
    other = AsyncCallbackGate(
        AsyncInbox(SCANNED, MemoryStore()), login=refuse_code_async, on_refusal=refusals.append, now=lambda: AT
    )
    assert [one.receive(scanned, LOCAL).status, asyncio.run(other.receive(scanned, LOCAL)).status] == [400, 400]
    assert [refusal.error.code for refusal in refusals] == ["callback.login-code"] * 2


def test_a_login_address_without_an_answer_for_it_is_rejected_as_a_setting():
    for make in (lambda: gate(receiver=SCANNED), lambda: AsyncCallbackGate(AsyncInbox(SCANNED, MemoryStore()))):
        with pytest.raises(ConfigurationError) as refused:
            make()
        assert refused.value.code == "callback.no-login"


def test_a_login_get_to_another_address_is_refused_where_nothing_answers_it():
    other = CallbackAddress("https://tpp.example/other", CallbackKind.OTHER)
    receiver = CallbackReceiver([other], keys=[CallbackKey("live", SERVICE.public_key())])
    one, refusals = gate(receiver=receiver)
    assert one.receive(callback(path="/other", method="GET", body=b""), LOCAL).status == 400
    assert refusals.code == "callback.method"


def test_an_unreadable_callback_is_acknowledged_kept_and_logged(caplog):
    kept, store = list[Receipt](), MemoryStore()
    one, refusals = gate(store, handler=lambda *_: pytest.fail("handled"), keep=kept.append)
    answer = one.receive(callback(path=f"/cb/{UUID}", body=b'{"amount":["EUR:-12.50"]}'), LOCAL)
    assert (answer.status, answer.body, refusals) == (200, b"", [])
    assert [receipt.outcome for receipt in kept] == [Unhandled.UNREADABLE]
    (failure,) = Inbox(RECEIVER, store).failed()
    assert (failure.entry.name, failure.due_at) == ("r-1", None)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "[model.invalid]" in record.getMessage()
    assert "[callback.unreadable]" in record.getMessage()


def test_a_post_is_never_answered_as_a_login():
    own = gate(login=lambda _: LoginRequest(name="Shop"))[0]
    assert own.receive(callback(), LOCAL).body == b""


def test_an_on_refusal_that_raises_changes_no_answer_and_is_logged(caplog):
    def fails(_: object) -> None:
        raise ValueError("the disk is full")

    one, _ = gate(on_refusal=fails, peers=CallbackPeers(()))
    assert one.receive(callback()._replace(body=b"{}"), LOCAL).status == 400
    assert one.refuse(CallbackRejected("callback.peer", "x"), LOCAL).status == 403
    assert caplog.messages[0].startswith("on_refusal failed for a callback that was answered 400: the signature ")
    assert [message.startswith("on_refusal failed") for message in caplog.messages] == [True, True]
    assert "ValueError: the disk is full" in caplog.text


def test_the_log_distinguishes_refusals_from_failures(caplog, tmp_path):
    with caplog.at_level(logging.INFO, "tppkit.web"):
        CallbackGate(Inbox(RECEIVER, MemoryStore())).receive(callback()._replace(body=b"{}"), LOCAL)
        CallbackGate(Inbox(RECEIVER, InboxStore(f"sqlite:///{tmp_path}/without-tables.sqlite"))).receive(
            callback(), LOCAL
        )
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert caplog.messages[0].startswith("callback from 127.0.0.1: 400: the signature ")
    codes = ("[callback.signature]", "[inbox.unavailable]")
    assert [message.count(code) for message, code in zip(caplog.messages, codes, strict=True)] == [1, 1]


def test_the_log_names_the_kind_of_what_a_handler_raised(caplog):
    def handler(*_: object) -> None:
        raise ValueError("no account")

    CallbackGate(Inbox(RECEIVER, MemoryStore()), handler=handler).receive(callback(), LOCAL)
    assert caplog.messages == ["callback from 127.0.0.1: 503: no account [ValueError]"]


@contextmanager
def own_transaction(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


@pytest.fixture
def own(tmp_path):
    """A store in a database, and transactions on that database."""
    path = tmp_path / "own.sqlite"
    store = InboxStore(f"sqlite:///{path}")
    store.create_tables()
    yield store, lambda: own_transaction(path)
    store.close()


def test_effects_can_be_had_in_a_transaction_of_the_caller(own):
    store, within = own
    with within() as connection:
        connection.execute("CREATE TABLE effects (what TEXT)")
    fails = [True]

    def handler(verified: Any, connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO effects VALUES (?)", (verified.request_id,))
        if fails and fails.pop():
            raise ValueError

    one, _ = gate(store, handler=handler, within=within)
    assert [one.receive(callback(), LOCAL).status for _ in range(3)] == [503, 200, 200]
    with within() as connection:
        assert connection.execute("SELECT what FROM effects").fetchall() == [("r-1",)]


def test_rejected_requests_open_no_transaction():
    def within() -> Any:
        pytest.fail("a transaction was opened")

    one, refusals = gate(handler=lambda *_: None, within=within)
    assert one.receive(callback()._replace(body=b"{}"), LOCAL).status == 400
    assert refusals.code == "callback.signature"


def test_a_callback_with_a_transaction_of_the_caller_is_verified_once(own):
    verified: list[datetime] = []

    def seen(callback: Any) -> NoTime:
        verified.append(callback.received_at)
        return NO_TIME

    store, within = own
    window = TimeWindow(seen, past=timedelta(1))  # its function is called once for each verification
    inbox = Inbox(RECEIVER, store, settings=InboxSettings(window=window))
    one = CallbackGate(inbox, handler=lambda *_: None, within=within, now=lambda: AT)
    assert [one.receive(callback(), LOCAL).status for _ in range(2)] == [200, 200]
    assert verified == [AT, AT]


async def coroutine(*_: object) -> None:
    """A handler that must be awaited."""


def generator(*_: object) -> Iterator[None]:
    yield None


async def async_generator(*_: object) -> AsyncIterator[None]:
    yield None


class AwaitedObject:
    """An object whose call must be awaited."""

    async def __call__(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("name", "function"),
    [
        *(("handler", one) for one in (coroutine, partial(coroutine, 1), generator, async_generator, AwaitedObject())),
        *((name, coroutine) for name in ("login", "keep", "on_refusal")),
    ],
)
def test_a_function_that_a_blocking_gate_would_not_run_is_rejected_as_a_setting(name, function):
    with pytest.raises(ConfigurationError) as refused:
        gate(**{name: function})
    assert refused.value.code == "callback.function"


@pytest.mark.parametrize("name", ["handler", "keep"])
@pytest.mark.parametrize("function", [coroutine, generator, async_generator])
def test_a_result_that_is_not_awaited_is_not_acknowledged(name, function):
    one, refusals = gate(**{name: lambda *given: function(*given)})
    assert (one.receive(callback(), LOCAL).status, refusals.code) == (503, "callback.function")


def test_a_result_that_is_not_awaited_rolls_back_the_callers_transaction(own):
    store, within = own
    wrong, refusals = gate(store, handler=lambda *given: coroutine(*given), within=within)
    assert (wrong.receive(callback(), LOCAL).status, refusals.code) == (503, "callback.function")
    seen: list[object] = []
    right, _ = gate(store, handler=lambda *given: seen.append(given), within=within)
    assert right.receive(callback(), LOCAL).status == 200
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("handler", generator), ("handler", async_generator), ("keep", generator), ("login", generator), ("on_refusal", coroutine),
        ("count", coroutine), ("on_payment", generator),
    ],
)  # fmt: skip
def test_a_function_that_an_awaiting_gate_would_not_run_is_rejected_as_a_setting(name, function):
    inbox = AsyncInbox(RECEIVER, MemoryStore())
    with pytest.raises(ConfigurationError) as refused:
        AsyncCallbackGate(inbox, **{name: function})
    assert refused.value.code == "callback.function"


def test_an_awaiting_gate_has_handlers_by_kind_and_counts_too():
    counted, seen = [], []

    async def granted(event: Any, verified: Any, connection: Any) -> None:
        seen.append(event.token)

    async def other(verified: Any, connection: Any) -> None:
        raise LookupError

    async def run() -> list[int]:
        one = AsyncCallbackGate(
            AsyncInbox(RECEIVER, MemoryStore()), on_access=granted, handler=other, count=lambda *given: counted.append(given),
            on_refusal=Refusals().append, now=lambda: AT,
        )  # fmt: skip
        record = b'{"id":"t1","ver":1,"timeStamp":1,"tlc":"posted","acc":"x","amount":["EUR-1"]}'
        calls = (callback(), callback(), callback("r-2", path="/cb/" + UUID, body=record))
        return [(await one.receive(received, LOCAL)).status for received in calls]

    assert asyncio.run(run()) == [200, 200, 503]
    assert seen == ["abcdefghijklmnopqrstuvwxyz"]
    assert counted == [("applied", ""), ("repeated", ""), ("failed", "LookupError")]


@pytest.mark.parametrize("handler", [lambda *_: None, lambda *given: async_generator(*given)])
def test_a_handler_that_cannot_be_awaited_is_not_acknowledged(handler):
    async def run() -> tuple[int, str]:
        refusals = Refusals()
        inbox = AsyncInbox(RECEIVER, MemoryStore())
        one = AsyncCallbackGate(inbox, handler=handler, on_refusal=refusals.append, now=lambda: AT)
        status = (await one.receive(callback(), LOCAL)).status
        return status, refusals.code

    assert asyncio.run(run()) == (503, "callback.function")


def test_a_refused_peer_gets_403():
    one, refusals = gate(peers=CallbackPeers(parse_networks(["203.0.113.0/28"])))
    with pytest.raises(CallbackRejected) as refused:
        one.require_head(LOCAL)
    assert (one.refuse(refused.value, LOCAL).status, refusals[0].received) == (403, None)


def test_awaited_effects_can_be_had_in_a_transaction_of_the_caller(postgresql_url):
    async def run() -> tuple[list[int], list[str]]:
        engine = create_async_engine(postgresql_url.replace("postgresql:", "postgresql+psycopg:"))
        inbox = AsyncInbox(RECEIVER, store := InboxStore(engine, prefix="gate_"))
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
        return statuses, effects

    assert asyncio.run(run()) == ([503, 200, 200], ["r-1"])


def test_the_awaited_gate_does_the_same():
    async def run() -> tuple[list[int], list[str], list[str], bytes]:
        seen: list[str] = []
        refusals = Refusals()

        async def handler(verified: Any, _: object) -> None:
            seen.append(verified.request_id)
            if len(seen) == 1:
                raise CallbackRejected("callback.body", "not about the request")

        async def keep(receipt: Receipt) -> None:
            seen.append(receipt.outcome.value)

        async def login(_: object) -> LoginRequest:
            return LoginRequest(name="Shop")

        receiver = CallbackReceiver(
            [*RECEIVER.book.addresses, *SCANNED.book.addresses],
            keys=[CallbackKey("live", SERVICE.public_key())],
        )
        inbox = AsyncInbox(receiver, MemoryStore())
        one = AsyncCallbackGate(
            inbox, handler=handler, keep=keep, login=login, on_refusal=refusals.append, now=lambda: AT
        )
        calls = [callback("a"), callback("a"), callback("a"), callback("a")._replace(body=b"{}")]
        statuses = [(await one.receive(call, LOCAL)).status for call in calls]
        scanned = callback("l", path=f"/login/{UUID}", method="GET", body=b"")
        body = (await one.receive(scanned, LOCAL)).body
        return statuses, seen, [refusals.code], body

    statuses, seen, codes, body = asyncio.run(run())
    assert statuses == [503, 200, 200, 400]
    assert seen == ["a", "a", "applied", "repeated", "login"]
    assert (codes, body) == (["callback.signature"], b'{"name":"Shop","perm":[]}')
