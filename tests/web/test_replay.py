"""Repeated requests at the door: the same one is answered as before, another under its id is refused."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from asgi import AT, BODY, EVERY_PATH, REQUEST_ID, TARGET, Recorder, call, request, scope_of, sealed

from refusals import refused
from reported import reported
from tppkit.errors import ConfigurationError, SignatureRejected
from tppkit.httpsig.http_date import format_http_date
from tppkit.message import Answer
from tppkit.protocol.psd2 import PSD2
from tppkit.seals import PROFILES, KeySigner, Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.seals.profiles import PSD2_V1
from tppkit.testpki import Issued, Pki, make_provider
from tppkit.web import QwacPolicy, ReplayGuard, SealGate, SealMiddleware, caller_of
from tppkit.web.replay import LEASE, MAX_ANSWER_BYTES, ReplayStore
from tppkit.web.replay_stores.memory import MemoryReplayStore
from tppkit.web.replay_stores.table import TableReplayStore
from tppkit.web.sources import AsgiSource

HOUR = timedelta(hours=1)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.at = AT

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ReplayStore:
    return (
        MemoryReplayStore() if request.param == "memory" else TableReplayStore(f"sqlite:///{tmp_path / 'ids.sqlite'}")
    )


Ask = Callable[..., Any]


def body_of(message: Message) -> Any:
    async def receive() -> Any:
        return {"type": "http.request", "body": message.body}

    return receive


@pytest.fixture
def ask(make_gate: Callable[..., SealGate], clock: Clock, pki: Pki, app: Recorder, store: ReplayStore) -> Ask:
    """Sends a message to the door of `app` or of another application; given `send`, returns what must be awaited."""

    def asked(
        message: Message, *, before: Any = app, qwac: Issued = pki.qwac, extensions: Any = (), receive: Any = None,
        send: Any = None, **settings: Any,
    ) -> Any:  # fmt: skip
        scope = scope_of(message, qwac)
        scope["extensions"].update(extensions)
        door = SealMiddleware(before, gate=make_gate(now=clock, replay=ReplayGuard(store, **settings)))
        return door(scope, receive or body_of(message), send) if send else call(door, scope, [message.body])

    return asked


def test_the_same_request_is_answered_as_before_and_handled_once_but_not_another_organisations(
    ask, app, seal, pki, other_qseal
):
    assert sealed(seal) != sealed(seal)  # ECDSA signs again each time
    first, second = ask(sealed(seal)), ask(sealed(seal))
    assert first[:3] == second[:3] == (201, {"aspsp-number": "1"}, b"done")
    assert len(app.scopes) == 1
    other = pki.issue_qwac(make_provider(organization_identifier="PSDDE-BAFIN-999999"), label="other-qwac")
    theirs = sealed(Seal(other_qseal.certificate, KeySigner(other_qseal.key)), body=b"theirs")
    assert ask(theirs, qwac=other).status == 201
    assert len(app.scopes) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"body": BODY + b" "},
        {"target": TARGET + "&y"},
        {"method": "PUT"},
        {"request_id": REQUEST_ID.upper(), "body": b"x"},
    ],
)
def test_another_request_under_the_same_id_in_any_letters_is_refused(other, ask, app, seal):
    ask(sealed(seal))
    told = ask(sealed(seal, **other))
    assert (told.status, told.code, len(app.scopes)) == (409, "REQUEST_ID_REUSE", 1)


def test_after_the_window_an_id_is_new(ask, clock, seal):
    window = timedelta(minutes=5)
    ask(sealed(seal))
    clock.at = AT + window - timedelta(microseconds=1)
    assert ask(sealed(seal, body=b"other"), window=window).status == 409
    clock.at = AT + window
    assert ask(sealed(seal, body=b"other"), window=window).status == 201


def test_a_request_that_does_not_verify_or_is_not_sealed_uses_no_id(ask, app, seal, make_gate, pki):
    good = sealed(seal)
    assert ask(good._replace(body=b"forged")).status == 401
    assert ask(good).status == 201
    door = SealMiddleware(app, gate=make_gate(PSD2, replay=ReplayGuard(MemoryReplayStore())))
    poll = request(method="GET", target="/psd2/v1/payments/sepa-credit-transfers/1/status")
    for body in (b"1", b"2"):
        assert call(door, scope_of(poll, pki.qwac), [body]).status == 201


def dated(seal: Seal, at: datetime, **parts: Any) -> Message:
    """A request whose seal also covers its Date."""
    message = request(**parts).with_headers(("Date", format_http_date(at)))
    profile = replace(PSD2_V1, covered=(*PSD2_V1.covered, "date"))
    return sign_request(message, seal=Seal(seal.certificate, seal.signer, profile=profile))


def test_a_request_with_a_covered_date_is_answered_as_before_for_the_whole_window(ask, app, clock, seal, pki):
    message = dated(seal, AT)
    first = ask(message)
    clock.at = AT + HOUR - timedelta(seconds=1)
    assert ask(message)[:3] == first[:3]
    assert (first.status, len(app.scopes)) == (201, 1)
    for other in (
        dated(seal, AT, body=b"other"),
        dated(seal, AT, target=TARGET + "&y"),
        dated(seal, AT, request_id=None),
    ):
        assert ask(other).code == "SIGNATURE_INVALID"
    assert ask(message._replace(body=b"forged")).code == "SIGNATURE_INVALID"
    other = pki.issue_qwac(make_provider(organization_identifier="PSDDE-BAFIN-999999"), label="other-qwac")
    assert ask(message, qwac=other).code == "SIGNATURE_INVALID"
    clock.at = AT + HOUR
    assert ask(message).status == 401
    assert len(app.scopes) == 1


@pytest.mark.parametrize(("minutes", "status"), [(5, 201), (6, 401), (-5, 201), (-6, 401)])
def test_a_request_that_was_not_answered_needs_a_fresh_date_and_otherwise_uses_no_id(
    minutes, status, ask, app, clock, seal
):
    message, clock.at = dated(seal, AT), AT + timedelta(minutes=minutes)
    assert [ask(message).status, ask(message).status] == [status] * 2
    assert ask(sealed(seal, body=b"other")).status == (409 if status == 201 else 201)


def test_an_old_date_does_not_take_the_claim_of_a_slow_handler(ask, clock, seal, store, policy, pki):
    message = dated(seal, AT)
    verified = verify_request(message, qwac=pki.qwac.certificate, at=AT, policy=policy)
    replay = ReplayGuard(store).admit(verified, at=AT)
    clock.at = AT + timedelta(minutes=6)
    assert ask(message).status == 401
    replay.settle(Answer(201, (), b"slow"))
    assert ask(message).body == b"slow"


def test_a_gate_without_a_guard_rejects_an_old_date_before_the_body(make_gate, app, pki, seal):
    gate, message = make_gate(now=lambda: AT + HOUR), dated(seal, AT)
    told = call(SealMiddleware(app, gate=gate), scope_of(message, pki.qwac), [message.body])
    assert (told.status, told.reads, app.scopes) == (401, 0, [])


def test_a_guard_alone_lets_no_old_date_through_the_gate(make_gate, store, pki, seal):
    gate = make_gate(now=lambda: AT + HOUR, replay=ReplayGuard(store))
    source = AsgiSource(scope_of(dated(seal, AT), pki.qwac))
    with refused(SignatureRejected, "signature.expired"):
        gate.enter(source)
    _, pending = gate.enter(source, allow_old_date=True)
    pending.update(BODY)
    verified = pending.finish()[0].seal
    with refused(SignatureRejected, "signature.expired"):
        ReplayGuard(store).admit(verified, at=AT + HOUR)


async def crashing(scope: Any, receive: Any, send: Any) -> None:
    raise RuntimeError("the handler fell over")


def answering(status: int, body: bytes = b"") -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
        for start in range(0, len(body), 1000):
            await send({"type": "http.response.body", "body": body[start : start + 1000], "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


@pytest.mark.parametrize("status", [None, 408, 425, 429, 500, 503])
def test_a_handler_that_crashed_or_asks_for_the_same_request_again_is_called_again_as_repeated(status, ask, app, seal):
    if status is None:
        with pytest.raises(RuntimeError):
            ask(sealed(seal), before=crashing)
    else:
        assert ask(sealed(seal), before=answering(status)).status == status
    assert ask(sealed(seal)).status == 201
    assert caller_of(app.scopes[0]).repeated


@pytest.mark.parametrize(("status", "whole"), [(200, bytes(range(256)) * (MAX_ANSWER_BYTES // 256)), (400, b"no")])
def test_an_answer_is_kept_whole_also_one_that_refuses(status, whole, ask, app, seal):
    ask(sealed(seal), before=answering(status, whole))
    told = ask(sealed(seal))
    assert (told.status, told.headers, told.body, app.scopes) == (status, {"content-type": "text/plain"}, whole, [])


def test_a_request_whose_answer_was_too_long_to_keep_is_not_handled_again(ask, app, seal):
    ask(sealed(seal), before=answering(200, b"x" * (MAX_ANSWER_BYTES + 1)))
    told = ask(sealed(seal))
    assert (told.status, told.code, app.scopes) == (409, "STATUS_INVALID", [])
    assert "request-id.answered" in told.text


def test_a_cookie_is_not_sent_twice(ask, seal):
    async def app(scope: Any, receive: Any, send: Any) -> None:
        fields = [
            (b"set-cookie", b"s=1"),
            (b"Location", b"/1"),
            (b"ASPSP-SCA-Approach", b"REDIRECT"),
            (b"x-trace", b"7"),
        ]
        await send({"type": "http.response.start", "status": 201, "headers": fields})
        await send({"type": "http.response.body", "body": b""})

    assert "set-cookie" in ask(sealed(seal), before=app).headers
    assert ask(sealed(seal), before=app).headers == {"location": "/1", "aspsp-sca-approach": "REDIRECT"}


def test_what_could_not_be_kept_is_not_offered_to_the_application(ask, app, seal, pki):
    seen = []

    async def looking(scope: Any, receive: Any, send: Any) -> None:
        seen.append(set(scope["extensions"]))
        await app(scope, receive, send)

    message = sealed(seal)
    assert ask(message, before=looking, extensions={"http.response.pathsend": {}, "other": {}}).status == 201
    assert seen == [{"tls", "other"}]


def test_a_long_answer_is_settled_before_any_of_it_is_sent_and_then_streamed(ask, app, seal):
    whole = b"x" * (2 * MAX_ANSWER_BYTES)
    assert ask(sealed(seal), before=answering(200, whole)).body == whole

    async def failing(scope: Any, receive: Any, send: Any) -> None:
        await answering(200, whole)(scope, receive, send)
        raise RuntimeError("after the answer")

    message = sealed(seal, request_id=None)
    with pytest.raises(RuntimeError):
        ask(message, before=failing)
    assert (ask(message).status, app.scopes) == (409, [])


@pytest.mark.parametrize("failing", ["start", "body"])
def test_a_client_that_leaves_while_its_request_is_handled_changes_nothing(failing, ask, app, seal):
    async def send(event: Any) -> None:
        if event["type"].endswith(failing):
            raise ConnectionResetError("gone")

    asyncio.run(ask(message := sealed(seal), send=send))
    assert (ask(message).body, len(app.scopes)) == (b"done", 1)


def test_an_application_that_stops_because_the_client_left_keeps_its_claim_for_the_lease(ask, clock, seal):
    async def leaving(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    message = sealed(seal)
    events = [{"type": "http.disconnect"}, {"type": "http.request", "body": message.body}]

    async def receive(_: Any = None) -> Any:
        return events.pop()

    asyncio.run(ask(message, before=leaving, receive=receive, send=receive))
    assert ask(sealed(seal)).code == "STATUS_INVALID"
    clock.at = AT + LEASE
    assert ask(sealed(seal)).status == 201


def test_of_two_at_once_one_is_handled_and_has_the_whole_lease(ask, app, clock, seal):
    message = sealed(seal)

    async def busy(scope: Any, receive: Any, send: Any) -> None:
        assert (await asyncio.to_thread(ask, message)).code == "STATUS_INVALID"
        await answering(201)(scope, receive, send)

    async def receive() -> Any:
        clock.at = AT + LEASE
        return {"type": "http.request", "body": message.body}

    sent: list[Any] = []

    async def send(event: Any) -> None:
        sent.append(event)

    asyncio.run(ask(message, before=busy, receive=receive, send=send))
    assert (sent[0]["status"], app.scopes) == (201, [])


@pytest.mark.parametrize(
    "times",
    [
        {"window": timedelta(0)},
        {"lease": timedelta(0)},
        {"window": timedelta(seconds=30), "lease": timedelta(seconds=31)},
        {"window": timedelta.max},
    ],
)
def test_times_that_guard_nothing_are_refused(times):
    with refused(ConfigurationError, "web.setting"):
        ReplayGuard(MemoryReplayStore(), **times)


def test_a_handler_that_died_with_its_process_is_called_again_after_the_lease(
    ask, app, clock, seal, store, policy, pki
):
    message = sealed(seal)
    verified = verify_request(message, qwac=pki.qwac.certificate, at=AT, policy=policy)
    ReplayGuard(store).admit(verified, at=AT)  # and nothing after it
    assert ask(message).code == "STATUS_INVALID"
    clock.at = AT + LEASE
    assert ask(message).status == 201
    assert caller_of(app.scopes[0]).repeated


def test_a_store_that_fails_has_every_request_rejected(make_gate, app, pki, seal):
    full = ReplayGuard(MemoryReplayStore(max_bytes=0))
    told = call(SealMiddleware(app, gate=make_gate(replay=full)), scope_of(sealed(seal), pki.qwac), [BODY])
    assert (told.status, told.code, app.scopes) == (503, "SERVICE_UNAVAILABLE", [])


@pytest.mark.parametrize("name", [name for name, row in PROFILES.items() if row.request_id not in row.demanded])
def test_a_dialect_that_may_have_no_id_cannot_be_guarded(name, paths):
    seals = SealPolicy(paths, profile=PROFILES[name])
    with refused(ConfigurationError, "replay.no-request-id"):
        SealGate(EVERY_PATH, qwacs=QwacPolicy(paths), seals=seals, replay=ReplayGuard(MemoryReplayStore()))


@pytest.mark.parametrize(("name", "minutes"), [("open-finance", 16), ("cavage-12", 16), ("adorsys", 11)])
def test_a_window_is_longer_than_the_life_of_a_seal(name, minutes, paths):
    seals = SealPolicy(paths, profile=PROFILES[name])

    def made(seconds: int) -> SealGate:
        guard = ReplayGuard(MemoryReplayStore(), window=timedelta(minutes=minutes, seconds=seconds))
        return SealGate(EVERY_PATH, qwacs=QwacPolicy(paths), seals=seals, replay=guard)

    made(1)
    with refused(ConfigurationError, "web.setting"):
        made(0)


def test_a_guard_purges_by_its_window(seal, policy, store):
    guard = ReplayGuard(store)
    guard.admit(verify_request(sealed(seal), qwac=None, at=AT, policy=policy), at=AT)
    assert guard.purge(at=AT + HOUR - timedelta(seconds=1)) == 0
    assert guard.purge(at=AT + HOUR) == 1


def test_a_locked_store_reports_no_personal_data(tmp_path, make_gate, clock, pki, seal, app, caplog):
    store, name = TableReplayStore(f"sqlite:///{tmp_path / 'ids.sqlite'}", wait_s=0), "creditorName"
    other = sqlite3.connect(tmp_path / "ids.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    message = sealed(seal)
    door = SealMiddleware(app, gate=make_gate(now=clock, replay=ReplayGuard(store)))
    assert call(door, scope_of(message, pki.qwac), [message.body]).status == 503
    other.close()
    errors = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert len(errors) == 1
    assert not [line for line in reported(errors[0]) if name in line]


def test_a_failing_application_reports_no_personal_data(make_gate, clock, pki, seal, store):
    async def fails(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("it fails")

    message = sealed(seal)
    door = SealMiddleware(fails, gate=make_gate(now=clock, replay=ReplayGuard(store)))
    with pytest.raises(RuntimeError) as error:
        call(door, scope_of(message, pki.qwac), [message.body])
    assert not [line for line in reported(error.value) if "creditorName" in line]
