"""One outcome for each request, under ASGI and WSGI alike, and nothing that its sink does changes an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import asgi
import pytest
import wsgi
from asgi import AT, BODY, REQUEST_ID, request, scope_of, sealed

from tppkit.codes import CODES
from tppkit.errors import ConfigurationError, TppkitError, TransportError
from tppkit.protocol.refusals import Refusal
from tppkit.seals import Message, Seal, SealPolicy
from tppkit.testpki import Pki
from tppkit.trust import PathVerifier
from tppkit.web import (
    ProxyForm,
    QwacPolicy,
    Refused,
    ReplayGuard,
    RequestOutcome,
    RequestResult,
    Requirement,
    SealGate,
    SealMiddleware,
    TrustedProxy,
    WsgiSealMiddleware,
)
from tppkit.web.replay_stores.memory import MemoryReplayStore

Send = Callable[..., int]
STATUSES = {"created": 201, "broken": 503}


async def answer_asgi(scope: Any, receive: Any, send: Any) -> None:
    status = STATUSES[scope["raw_path"].decode().rpartition("/")[2]]
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def answer_wsgi(environ: Any, start_response: Any) -> list[bytes]:
    start_response(f"{STATUSES[environ['RAW_URI'].rpartition('/')[2]]} As asked", [])
    return [b""]


@pytest.fixture(params=["asgi", "wsgi"])
def send(request: pytest.FixtureRequest, paths: PathVerifier, policy: SealPolicy, pki: Pki) -> Send:
    """Sends messages to one gate, with a body other than the sealed one if it is given; says the status."""
    guard = ReplayGuard(MemoryReplayStore())
    proxy = TrustedProxy("127.0.0.1", form=ProxyForm.RFC9440)

    def sent(message: Message, body: bytes | None = None, **settings: Any) -> int:
        gate = SealGate(
            qwacs=QwacPolicy(paths), seals=policy, now=lambda: AT, trusted_proxies=[proxy], replay=guard, **settings
        )
        message = message._replace(body=message.body if body is None else body)
        if request.param == "asgi":
            scope = scope_of(message, pki.qwac)
            return asgi.call(SealMiddleware(answer_asgi, gate=gate), scope, [message.body]).status
        return wsgi.call(WsgiSealMiddleware(answer_wsgi, gate=gate), wsgi.environ_of(wsgi.forwarded(message, pki)))[0]

    return sent


def test_each_request_has_one_outcome(send: Send, seal: Seal) -> None:
    outcomes: list[RequestOutcome] = []

    def one(message: Message, body: bytes | None = None, **settings: Any) -> tuple[int, RequestOutcome]:
        outcomes.clear()
        status = send(message, body, on_outcome=outcomes.append, **settings)
        assert len(outcomes) == 1
        return status, outcomes[0]

    created, broken = sealed(seal, target="/created"), sealed(seal, target="/broken", request_id=None)
    assert one(created) == (201, RequestOutcome(RequestResult.ACCEPTED))
    assert one(created) == (201, RequestOutcome(RequestResult.REPLAYED, 201))
    assert one(broken) == (503, RequestOutcome(RequestResult.ACCEPTED))
    assert one(broken) == (503, RequestOutcome(RequestResult.REPEATED))
    other = sealed(seal, target="/broken", request_id=REQUEST_ID)
    assert one(other) == (409, RequestOutcome(RequestResult.REFUSED, 409, "request-id.reuse"))
    assert one(created, BODY + b" ") == (401, RequestOutcome(RequestResult.REFUSED, 401, "digest.mismatch"))
    assert one(request(target="/created")) == (401, RequestOutcome(RequestResult.REFUSED, 401, "signature.missing"))
    assert one(request(target="/created"), requirement=lambda *_: None) == (201, RequestOutcome(RequestResult.UNLOOKED))
    unsealed = {"requirement": lambda *_: Requirement(sealed=False)}
    assert one(request(target="/created"), **unsealed) == (201, RequestOutcome(RequestResult.ACCEPTED))


def test_what_fails_of_ours_is_an_outcome_too(send: Send, seal: Seal) -> None:
    outcomes: list[RequestOutcome] = []

    def full(admitted: Any) -> None:
        raise TransportError("transport.failed", "/var/archive is full")

    def wrong(method: str, path: str) -> Requirement:
        raise LookupError(path)

    message = sealed(seal, target="/created")
    settings: tuple[dict[str, Any], ...] = ({"keep": full}, {"requirement": wrong})
    assert [send(message, on_outcome=outcomes.append, **one) for one in settings] == [503, 500]
    assert outcomes == [
        RequestOutcome(RequestResult.REFUSED, 503, "evidence.not-kept"),
        RequestOutcome(RequestResult.REFUSED, 500, None),
    ]
    assert all(outcome.code in CODES for outcome in outcomes if outcome.code)


def test_where_the_words_for_the_peer_fail_it_is_told_of_a_failure(
    send: Send, seal: Seal, caplog: pytest.LogCaptureFixture
) -> None:
    def raising(error: TppkitError) -> Refusal:
        raise RuntimeError(f"no words for {error.code}")

    refused: list[Refused] = []
    assert send(sealed(seal, target="/created"), b"", tell=raising, on_refusal=refused.append) == 500
    assert "no words for digest.mismatch" in caplog.text
    assert getattr(refused[0].error, "code", None) == "digest.mismatch"


def coroutine(error: Exception) -> object:
    async def later() -> None: ...

    return later()


@pytest.mark.parametrize("tell", [lambda error: None, coroutine, lambda error: (401, "TOLD", "")])
def test_a_tell_that_gives_no_refusal_leaves_the_answer_to_the_middleware(
    send: Send, seal: Seal, caplog: pytest.LogCaptureFixture, tell: Any
) -> None:
    refused: list[Refused] = []
    assert send(sealed(seal, target="/created"), b"", tell=tell, on_refusal=refused.append) == 500
    assert (refused[0].refusal.status, "no Refusal [web.setting]" in caplog.text) == (500, True)


@pytest.mark.parametrize("setting", ["requirement", "tell", "on_refusal", "on_outcome"])
def test_a_function_that_nobody_would_await_is_refused(setting: str, send: Send, seal: Seal) -> None:
    async def awaited(*given: object) -> None: ...

    with pytest.raises(ConfigurationError) as caught:
        send(sealed(seal), **{setting: awaited})
    assert (caught.value.code, setting in caught.value.message) == ("web.setting", True)


def test_a_coroutine_of_a_sink_is_told_of(send: Send, seal: Seal, caplog: pytest.LogCaptureFixture) -> None:
    async def awaited(told: object) -> None: ...

    assert send(sealed(seal, target="/created"), on_outcome=lambda told: awaited(told)) == 201
    assert "a coroutine, which nobody awaits" in caplog.text


@pytest.mark.parametrize("setting", ["on_outcome", "on_refusal"])
def test_a_sink_that_raises_changes_nothing(
    setting: str, send: Send, seal: Seal, caplog: pytest.LogCaptureFixture
) -> None:
    def raising(told: object) -> None:
        raise RuntimeError("no metrics today")

    message = sealed(seal, target="/created")
    assert [send(message, **{setting: raising}), send(message, b"", **{setting: raising})] == [201, 401]
    assert "no metrics today" in caplog.text
