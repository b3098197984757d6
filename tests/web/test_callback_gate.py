"""What the gate decides and answers, with real stores: who may send, which status the service gets, what the log gets."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import Connection

from refusals import refused
from tppkit.callbacks import (
    NO_TIME,
    AsyncInbox,
    CallbackAddress,
    CallbackKey,
    CallbackKind,
    CallbackReceiver,
    CallbackRejected,
    Inbox,
    InboxSettings,
    NoTime,
    Receipt,
    TimeWindow,
    Unhandled,
    explain_callback,
    parse_networks,
    sign_callback,
)
from tppkit.errors import ConfigurationError, FormatError, TppkitError, TransportError, VerificationError
from tppkit.inbox import Outcome
from tppkit.inbox.store import InboxStore, MemoryStore
from tppkit.message import Message
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
KEYS = [CallbackKey("live", SERVICE.public_key())]
RECEIVER = CallbackReceiver(
    [
        CallbackAddress("https://tpp.example/cb/", CallbackKind.ACCESS),
        CallbackAddress("https://tpp.example/cb/{token}", CallbackKind.PAYMENT),
    ],
    keys=KEYS,
)
SCANNED = CallbackReceiver([CallbackAddress("https://tpp.example/login/{token}", CallbackKind.LOGIN)], keys=KEYS)
OTHER = CallbackReceiver([CallbackAddress("https://tpp.example/other", CallbackKind.OTHER)], keys=KEYS)
LOCAL = AsgiSource(
    {
        "type": "http", "method": "POST", "path": "/cb/", "raw_path": b"/cb/", "headers": [], "client": ("127.0.0.1", 4711),
    }
)  # fmt: skip


def callback(request_id: str = "r-1", *, path: str = "/cb/", body: bytes = ACCESS, method: str = "POST") -> Message:
    headers = sign_callback(SERVICE, request_id=request_id, method=method, url=f"https://tpp.example{path}", body=body)
    return Message(method, path, headers, body)


SCAN = callback("l", path=f"/login/{UUID}", method="GET", body=b"")


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


def test_without_a_handler_it_waits_for_a_worker_and_with_one_it_gets_the_event_and_the_stores_connection(tmp_path):
    inbox = Inbox(RECEIVER, MemoryStore())
    CallbackGate(inbox, now=lambda: AT).receive(callback(), LOCAL)
    assert [worked.outcome for worked in inbox.work(lambda *_: None, at=AT)] == [Outcome.APPLIED]
    seen = []
    store = InboxStore(f"sqlite:///{tmp_path}/inbox.sqlite")
    store.create_tables()
    granted = gate(store, handler=print, on_access=lambda event, _, connection: seen.append((event, type(connection))))[
        0
    ]
    granted.receive(callback(), LOCAL)
    store.close()
    ((event, kind),) = seen
    assert (event.token, kind) == ("abcdefghijklmnopqrstuvwxyz", Connection)


@pytest.mark.parametrize("given", [{"on_access": print}, {"on_access": print, "on_login": print}])
def test_a_gate_with_handlers_by_kind_has_one_for_each_address(given):
    with refused(ConfigurationError, "callback.no-handler", match=r"cb/\{token\}"):
        gate(**given)


def test_outcomes_and_codes_are_counted_once_a_request_without_anything_of_the_request():
    counted = []

    def handler(verified: Any, connection: Any) -> None:
        if verified.request_id == "r-2":
            raise LookupError("a phone number")

    one, _ = gate(handler=handler, count=lambda *given: counted.append(given[:2]))
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


def test_a_refusal_can_be_explained_later_and_shows_no_body_when_it_is_printed():
    one, refusals = gate(peers=CallbackPeers(parse_networks(["203.0.113.0/28"])))
    one.receive(callback()._replace(body=ACCESS + b"\n"), LOCAL)
    assert refusals[0].received is not None
    found = explain_callback(refusals[0].received, at=refusals[0].at, receiver=RECEIVER)
    assert [finding.code for finding in found.findings] == ["callback.signature", "callback-cause.body-changed"]
    assert "abcdefghij" not in repr(refusals[0])
    with pytest.raises(VerificationError) as peer:  # a refused peer's callback is not read
        one.require_head(LOCAL)
    assert (one.refuse(peer.value, LOCAL, begin=0.0).status, refusals[1].received) == (403, None)


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
    def dies(*_: object) -> None:
        raise KeyboardInterrupt  # as the process of a worker ends

    store, kept = MemoryStore(), list[Receipt]()
    Inbox(RECEIVER, store).accept(callback(), at=AT)
    with pytest.raises(KeyboardInterrupt):
        Inbox(RECEIVER, store).work(dies, at=AT)
    one, refusals = gate(store, handler=lambda *_: None, keep=kept.append)
    assert (one.receive(callback(), LOCAL).status, refusals, kept) == (503, [], [])


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
    for _ in range(2):
        answer = one.receive(SCAN, LOCAL)
        assert (answer.status, answer.body) == (200, '{"name":"Shop ž","perm":["ID"],"code":"0123"}'.encode())
        assert ("content-type", "application/json") in answer.headers
    assert Inbox(SCANNED, store).work(lambda *given: seen.append(given), at=AT) == []
    assert (seen, [receipt.outcome for receipt in kept]) == ([], [Unhandled.LOGIN] * 2)


def refuse_code(_: object) -> LoginRequest:
    raise CallbackRejected("callback.login-code", "the code has expired")


async def refuse_code_async(_: object) -> LoginRequest:
    return refuse_code(_)


def test_only_a_get_to_a_login_address_is_answered_and_a_code_that_does_not_count_is_not_requested_again():
    one, refusals = gate(receiver=SCANNED, login=refuse_code)
    other = AsyncCallbackGate(
        AsyncInbox(SCANNED, MemoryStore()), login=refuse_code_async, on_refusal=refusals.append, now=lambda: AT
    )
    assert [one.receive(SCAN, LOCAL).status, asyncio.run(other.receive(SCAN, LOCAL)).status] == [400, 400]
    assert [refusal.error.code for refusal in refusals] == ["callback.login-code"] * 2
    for make in (lambda: gate(receiver=SCANNED), lambda: AsyncCallbackGate(AsyncInbox(SCANNED, MemoryStore()))):
        with refused(ConfigurationError, "callback.no-login"):
            make()
    one, refusals = gate(receiver=OTHER)
    assert one.receive(callback(path="/other", method="GET", body=b""), LOCAL).status == 400
    assert refusals.code == "callback.method"
    own = gate(login=lambda _: LoginRequest(name="Shop"))[0]
    assert own.receive(callback(), LOCAL).body == b""


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


def test_an_on_refusal_or_a_counter_that_raises_changes_no_answer_and_is_logged(caplog):
    def fails(_: object) -> None:
        raise ValueError("the disk is full")

    one, _ = gate(on_refusal=fails, peers=CallbackPeers(()))
    assert one.receive(callback()._replace(body=b"{}"), LOCAL).status == 400
    assert one.refuse(CallbackRejected("callback.peer", "x"), LOCAL, begin=0.0).status == 403
    assert caplog.messages[0].startswith("on_refusal failed for a callback that was answered 400: the signature ")
    assert [message.startswith("on_refusal failed") for message in caplog.messages] == [True, True]
    assert "ValueError: the disk is full" in caplog.text
    assert gate(count=lambda *_: 1 / 0)[0].receive(callback(), LOCAL).status == 200
    assert "count failed for stored" in caplog.text


def test_the_log_distinguishes_refusals_from_failures(caplog, tmp_path):
    def handler(*_: object) -> None:
        raise ValueError("no account")

    without_tables = InboxStore(f"sqlite:///{tmp_path}/without-tables.sqlite")
    for store, received, status in (
        (MemoryStore(), callback()._replace(body=b"{}"), 400),
        (without_tables, callback(), 503),
        (MemoryStore(), callback(), 503),
    ):
        assert CallbackGate(Inbox(RECEIVER, store), handler=handler).receive(received, LOCAL).status == status
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR", "ERROR"]
    assert caplog.messages[0].startswith("callback from 127.0.0.1: 400: the signature ")
    assert ("[callback.signature]" in caplog.messages[0], "[inbox.unavailable]" in caplog.messages[1]) == (True, True)
    assert caplog.messages[2] == "callback from 127.0.0.1: 503: no account [ValueError]"


@contextmanager
def own_transaction(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection, connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


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
    faults = [lambda: 1 / 0, coroutine]

    def handler(verified: Any, connection: sqlite3.Connection) -> object:
        connection.execute("INSERT INTO effects VALUES (?)", (verified.request_id,))
        return faults.pop()() if faults else None

    one, refusals = gate(store, handler=handler, within=within)
    assert [one.receive(callback(), LOCAL).status for _ in range(4)] == [503, 503, 200, 200]
    assert [refusals[0].error.code, type(refusals[1].error)] == ["callback.function", ZeroDivisionError]
    with within() as connection:
        assert connection.execute("SELECT what FROM effects").fetchall() == [("r-1",)]


def test_a_callback_with_a_transaction_of_the_caller_is_verified_once_and_before_it_is_opened(own):
    verified: list[datetime] = []

    def seen(callback: Any) -> NoTime:
        verified.append(callback.received_at)
        return NO_TIME

    store, within = own
    window = TimeWindow(seen, past=timedelta(1))  # its function is called once for each verification
    inbox = Inbox(RECEIVER, store, settings=InboxSettings(window=window))
    opened: list[object] = []
    one = CallbackGate(inbox, handler=lambda *_: None, within=lambda: opened.append(0) or within(), now=lambda: AT)
    assert one.receive(callback()._replace(body=b"{}"), LOCAL).status == 400
    assert opened == []
    assert [one.receive(callback(), LOCAL).status for _ in range(2)] == [200, 200]
    assert verified == [AT, AT]


def test_a_transaction_of_the_caller_that_cannot_be_opened_is_not_the_senders_fault(own):
    def within() -> Any:
        raise TransportError("transport.timeout", "the service of passwords is away")

    store, _ = own
    inbox = Inbox(RECEIVER, store)
    one = CallbackGate(inbox, handler=lambda *_: None, within=within, now=lambda: AT)
    waiting = AsyncCallbackGate(AsyncInbox(RECEIVER, store), handler=coroutine, within=within, now=lambda: AT)
    assert one.receive(callback(), LOCAL).status == asyncio.run(waiting.receive(callback(), LOCAL)).status == 503


def test_a_within_that_opens_no_transaction_is_named(own, caplog):
    inbox = Inbox(RECEIVER, own[0])
    one = CallbackGate(inbox, handler=lambda *_: None, within=object, now=lambda: AT)
    waiting = AsyncCallbackGate(AsyncInbox(RECEIVER, own[0]), handler=coroutine, within=object, now=lambda: AT)
    assert one.receive(callback(), LOCAL).status == asyncio.run(waiting.receive(callback(), LOCAL)).status == 503
    assert [record.message.count("[inbox.no-transaction]") for record in caplog.records] == [1, 1]


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
    ("awaited", "name", "function"),
    [
        *((False, "handler", one) for one in (coroutine, partial(coroutine, 1), generator, async_generator, AwaitedObject())),
        *((False, name, coroutine) for name in ("login", "keep", "on_refusal")),
        *((True, name, generator) for name in ("handler", "keep", "login", "on_payment")),
        (True, "handler", async_generator), (True, "on_refusal", coroutine), (True, "count", coroutine),
    ],
)  # fmt: skip
def test_a_function_that_the_gate_would_not_run_is_rejected_as_a_setting(awaited, name, function):
    make = partial(AsyncCallbackGate, AsyncInbox(RECEIVER, MemoryStore())) if awaited else gate
    with refused(ConfigurationError, "callback.function"):
        make(**{name: function})


@pytest.mark.parametrize("name", ["handler", "keep"])
@pytest.mark.parametrize("function", [coroutine, generator, async_generator])
def test_a_result_that_is_not_awaited_is_not_acknowledged(name, function):
    one, refusals = gate(**{name: lambda *given: function(*given)})
    assert (one.receive(callback(), LOCAL).status, refusals.code) == (503, "callback.function")
