"""The seal middleware at a server's door, against the verification that it is there for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from harness import Line, interleave
from tppkit.seals import KeySigner, Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import certificate_pem, make_pki
from tppkit.trust import PathVerifier, make_anchors
from tppkit.web import QwacPolicy, SealGate, SealMiddleware, psd2_requirement

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
LIMIT_US = 60.0
HEADERS = (
    ("Host", "psd2.bank.example"),
    ("Accept", "application/json"),
    ("X-Request-ID", "99391c7e-ad88-49ec-a2ad-99ddcb1f7721"),
    ("Content-Type", "application/json"),
    ("PSU-IP-Address", "192.0.2.7"),
)
BODY = b'{"instructedAmount":{"currency":"EUR","amount":"12.50"},"creditorName":"Bookshop"}'


async def handler(scope: Any, receive: Any, send: Any) -> None:
    """Does nothing."""


def admitting(*, rounds: int = 4000) -> Iterator[Line]:
    """What the middleware takes above `verify_request` of the same message: QWAC, endpoint, role, scope and body included."""
    pki = make_pki(at=AT, seed=1)
    message = Message("POST", "/psd2/v1/payments/sepa-credit-transfers", HEADERS, BODY)
    sealed = sign_request(message, seal=Seal(pki.qseal.certificate, KeySigner(pki.qseal.key)))
    paths = PathVerifier(make_anchors(pki.authorities))
    policy, qwac = SealPolicy(paths), pki.qwac.certificate
    gate = SealGate(qwacs=QwacPolicy(paths), seals=SealPolicy(paths), now=lambda: AT, requirement=psd2_requirement)
    door = SealMiddleware(handler, gate=gate)
    scope: dict[str, Any] = {
        "type": "http", "method": sealed.method, "path": sealed.target, "raw_path": sealed.target.encode(), "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in sealed.headers], "client": ("192.0.2.7", 40000),
        "extensions": {"tls": {"client_cert_chain": (certificate_pem(qwac).decode(),), "client_cert_error": None}},
    }  # fmt: skip
    event = {"type": "http.request", "body": sealed.body, "more_body": False}

    async def receive() -> Any:
        return event

    async def send(event: Any) -> None:
        raise AssertionError(event)

    def admit() -> None:
        # Nothing in it waits, so it runs without an event loop.
        try:
            door(scope, receive, send).send(None)
        except StopIteration:
            return
        raise AssertionError("the middleware waited")

    ours, theirs = interleave(admit, lambda: verify_request(sealed, qwac=qwac, at=AT, policy=policy), rounds=rounds)
    above = ours - theirs
    yield Line(
        "ASGI middleware above the verify",
        f"{above:.1f} us",
        ours / theirs,
        f"<= {LIMIT_US} us above",
        above <= LIMIT_US,
    )
