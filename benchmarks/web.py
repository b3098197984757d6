"""The seal middleware, against the verification that it contains plus an empty middleware."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import cycle
from typing import Any
from uuid import uuid4

from harness import Line, interleave
from tppkit.protocol.psd2 import PSD2
from tppkit.seals import KeySigner, Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import certificate_pem, make_pki
from tppkit.trust import PathVerifier, make_anchors
from tppkit.web import QwacPolicy, ReplayGuard, SealGate, SealMiddleware
from tppkit.web.replay_stores.memory import MemoryReplayStore

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
LIMIT = 1.6
HEADERS = (
    ("Host", "psd2.bank.example"),
    ("Accept", "application/json"),
    ("Content-Type", "application/json"),
    ("PSU-IP-Address", "192.0.2.7"),
)
BODY = b'{"instructedAmount":{"currency":"EUR","amount":"12.50"},"creditorName":"Bookshop"}'


async def handler(scope: Any, receive: Any, send: Any) -> None:
    """Answers, and does nothing else."""
    await send({"type": "http.response.start", "status": 201, "headers": []})
    await send({"type": "http.response.body", "body": b""})


class EmptyMiddleware:
    """Reads the body and calls the handler with it."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        event = await receive()

        async def replayed() -> Any:
            return event

        await handler(scope, replayed, send)


async def send(event: Any) -> None:
    """Takes the handler's answer, and no refusal."""
    if event.get("status", 201) != 201:
        raise AssertionError(event)


def admitting(*, rounds: int = 4000) -> Iterator[Line]:
    """The middleware, with QWAC, endpoint, role and body, against `verify_request` of the same message and an empty middleware."""
    pki = make_pki(at=AT, seed=1)
    seal = Seal(pki.qseal.certificate, KeySigner(pki.qseal.key))
    paths = PathVerifier(make_anchors(pki.authorities))
    policy, qwac = SealPolicy(paths), pki.qwac.certificate
    qwac_pem = certificate_pem(qwac).decode()

    def sealed() -> Message:
        headers = (*HEADERS, ("X-Request-ID", str(uuid4())))
        return sign_request(Message("POST", "/psd2/v1/payments/sepa-credit-transfers", headers, BODY), seal=seal)

    def compare(messages: Sequence[Message], **settings: Any) -> tuple[float, float]:
        gate = SealGate(PSD2, qwacs=QwacPolicy(paths), seals=SealPolicy(paths), now=lambda: AT, **settings)
        middleware = SealMiddleware(handler, gate=gate)
        scopes = [scope_of(one, qwac_pem) for one in messages]
        admitted, verified = cycle(scopes), cycle(zip(messages, scopes, strict=True))

        def least() -> None:
            message, scope = next(verified)
            verify_request(message, qwac=qwac, at=AT, policy=policy)
            admit(EmptyMiddleware(), *scope)

        return interleave(lambda: admit(middleware, *next(admitted)), least, rounds=rounds)

    ours, theirs = compare([sealed()])
    ratio = ours / theirs
    yield Line("ASGI middleware above the least", f"{ours - theirs:.1f} us", ratio, f"<= {LIMIT}x", ratio <= LIMIT)
    # A request's id is claimed once, so each round has a request of its own; the warm-up is a tenth of the rounds.
    fresh = [sealed() for _ in range(rounds + max(rounds // 10, 1))]
    ours, theirs = compare(fresh, replay=ReplayGuard(MemoryReplayStore()))
    yield Line("  with replay guard", f"{ours - theirs:.1f} us", ours / theirs, "told only", ok=True)


def scope_of(message: Message, qwac_pem: str) -> tuple[dict[str, Any], bytes]:
    """The scope that a server makes of a message, and the body."""
    tls = {"client_cert_chain": (qwac_pem,), "client_cert_error": None}
    scope: dict[str, Any] = {
        "type": "http", "method": message.method, "path": message.target, "raw_path": message.target.encode(), "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in message.headers], "client": ("192.0.2.7", 40000),
        "extensions": {"tls": tls},
    }  # fmt: skip
    return scope, message.body


def admit(middleware: SealMiddleware | EmptyMiddleware, scope: dict[str, Any], body: bytes) -> None:
    """Send a request through the middleware; nothing in it waits, so it runs without an event loop."""

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    try:
        middleware(scope, receive, send).send(None)
    except StopIteration:
        return
    raise AssertionError("the middleware waited")
