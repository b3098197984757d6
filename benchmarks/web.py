"""The seal middleware, against the verification that it contains plus an empty middleware."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from harness import Line, against
from tppkit.protocol.psd2 import PSD2
from tppkit.seals import KeySigner, Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import certificate_pem, make_pki
from tppkit.trust import PathVerifier, make_anchors
from tppkit.web import QwacPolicy, SealGate, SealMiddleware
from tppkit.web.prometheus import make_count

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
HEADERS = (
    ("Host", "psd2.bank.example"),
    ("Accept", "application/json"),
    ("Content-Type", "application/json"),
    ("PSU-IP-Address", "192.0.2.7"),
    ("X-Request-ID", "99391c7e-ad88-49ec-a2ad-99ddcb1f7721"),
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


def admitting() -> Iterator[Line]:
    """The middleware, with QWAC, endpoint, role and body, against `verify_request` of the same message and an empty middleware."""
    pki = make_pki(at=AT, seed=1)
    seal = Seal(pki.qseal.certificate, KeySigner(pki.qseal.key))
    message = sign_request(Message("POST", "/psd2/v1/payments/sepa-credit-transfers", HEADERS, BODY), seal=seal)
    paths = PathVerifier(make_anchors(pki.authorities))
    policy, qwac = SealPolicy(paths), pki.qwac.certificate
    gate = SealGate(PSD2, qwacs=QwacPolicy(paths), seals=policy, now=lambda: AT)
    middleware, empty = SealMiddleware(handler, gate=gate), EmptyMiddleware()
    scope, body = scope_of(message, certificate_pem(qwac).decode())

    def least() -> None:
        verify_request(message, qwac=qwac, at=AT, policy=policy)
        admit(empty, scope, body)

    what = "of verifying, empty middleware"
    yield against("ASGI middleware", lambda: admit(middleware, scope, body), least, what=what, at_most=1.6)

    verdicts: Counter[tuple[str, str]] = Counter()

    def count(outcome: str, code: str, seconds: float) -> None:
        verdicts[outcome, code] += 1

    counts = {"counted": (count, 1.03), "Prometheus": (make_count("gate", registry=CollectorRegistry()), 1.1)}
    for name, (one, at_most) in counts.items():
        counted = SealMiddleware(
            handler, gate=SealGate(PSD2, qwacs=QwacPolicy(paths), seals=policy, now=lambda: AT, count=one)
        )
        yield against(
            f"ASGI middleware, {name}", partial(admit, counted, scope, body), partial(admit, middleware, scope, body),
            what="of the same without metrics", at_most=at_most,
        )  # fmt: skip


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
