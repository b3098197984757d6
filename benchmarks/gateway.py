"""Orders that a merchant creates at the sandbox's gateway, and at Starlette with one INSERT, in turns of one run."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import Line, judged
from rates import program, rates, sandbox
from tppkit._clock import utc_now
from tppkit.testpki import make_pki, write_pki

CONNECTIONS = 8
REQUESTS = 400  # in a turn
TURNS, TURNS_S = 15, 11
BODIES: Mapping[str, bytes] = {
    "orders for the hosted page": b'{"currency":"EUR","amount":1250,"merchant_order_id":"4711","description":"Books"}',
    "orders with a card transaction": (
        b'{"currency":"EUR","amount":1250,"merchant_order_id":"4711","transactions":[{"payment_method":"credit-card"}]}'
    ),
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
            yield judged(f"{what}, {CONNECTIONS} connections", ratios, what=goal, limit=0.3, at_least=True)


def request(api_key: str, body: bytes) -> bytes:
    """A request that creates an order."""
    key = base64.b64encode(f"{api_key}:".encode()).decode()
    head = (
        f"POST /v1/orders/ HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
