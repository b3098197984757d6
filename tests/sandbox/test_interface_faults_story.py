"""An application of a provider, with our client inside and over real sockets, ends with one payment under every fault.

Each fault of an interface comes once when a payment is initiated, and once when its status is read; the bank is that of the document.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import product
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi import FastAPI, HTTPException
from raw_provider import make_seal

from client.payments import PAYMENT
from tppkit.client import AsyncPsd2Client, Identity
from tppkit.errors import TppkitError
from tppkit.evidence import EvidenceRecord
from tppkit.evidence.archive import read_lines
from tppkit.sandbox import SandboxServer
from tppkit.sandbox.faults import EXPIRED, INTERFACE_FAULTS
from tppkit.sandbox.sandbox import ARCHIVE
from tppkit.sandbox.thread import in_thread
from tppkit.sandbox.uvicorn_server import QuietServer, listen, make_config, serve, stop
from tppkit.testpki import Pki

pytestmark = pytest.mark.slow

TIMEOUT_S = 4.0
WAIT_S = 8.0  # of a late answer and a slow body
PAUSE_S = 0.05  # before the client repeats a request, in place of the Retry-After of the bank


def shop(bank: SandboxServer, pki: Pki) -> FastAPI:
    """A checkout: an order keeps its X-Request-ID before anything is sent, so its payment can be initiated again and again."""
    identity = Identity(
        pki.qwac.certificate, pki.qwac.key, chain=pki.qwac.chain, seal=make_seal(pki.qseal), server_anchors=[pki.root.certificate]
    )  # fmt: skip
    orders: dict[str, UUID] = {}

    @asynccontextmanager
    async def connected(app: FastAPI) -> Any:
        client = AsyncPsd2Client(
            bank.addresses.psd2_url, identity=identity, timeout_s=TIMEOUT_S, sleep=lambda _: asyncio.sleep(PAUSE_S)
        )
        async with client as app.state.client:
            yield

    app = FastAPI(lifespan=connected)

    @app.post("/orders/{order}/payment")
    async def pay(order: str) -> Any:
        try:
            initiated = await app.state.client.initiate_payment(
                PAYMENT, request_id=orders.setdefault(order, uuid4()), psu_ip_address="192.0.2.7"
            )
        except TppkitError as e:
            raise HTTPException(503, e.code) from e  # the browser asks again
        return {"payment_id": initiated.payment_id}

    @app.get("/payments/{payment_id}")
    async def show(payment_id: str) -> Any:
        try:
            return {"status": (await app.state.client.payment_status(payment_id)).transaction_status}
        except TppkitError as e:
            raise HTTPException(503, e.code) from e

    return app


@contextmanager
def running(app: FastAPI) -> Iterator[httpx.Client]:
    """A browser at the application."""
    config, bound = make_config(app), listen("127.0.0.1", 0)
    config.lifespan = "on"
    servers = [(QuietServer(config), bound)]
    with in_thread(lambda on_ready: serve(servers, on_ready=on_ready), stop=lambda: stop(servers)):
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with httpx.Client(base_url=url, trust_env=False, timeout=30) as browser:
            yield browser


def asked_until_it_works(browser: httpx.Client, method: str, path: str) -> tuple[Any, list[str]]:
    """The answer of the application, and the codes of the failures before it."""
    failures: list[str] = []
    while (answer := browser.request(method, path)).status_code == 503:
        failures.append(answer.json()["detail"])
        assert len(failures) < 5
    return answer.json(), failures


# What the application sees: of the others the client repeats the request itself.
SEEN = {
    "initiate_payment": {
        "status-500-before": "answer.no-outcome", "status-500-after": "answer.no-outcome", "status-503-after": "answer.request-id",
        "late": "transport.timeout", "slow-body": "transport.timeout", "other-answer": "answer.request-id",
        "no-body": "answer.unreadable", "html": "answer.request-id", EXPIRED: "transport.failed",
    },
    "payment_status": {
        "status-500-before": "request.refused", "status-500-after": "request.refused", "late": "transport.timeout",
        "slow-body": "transport.timeout", "other-answer": "answer.request-id", "no-body": "json.malformed", "html": "answer.request-id",
        EXPIRED: "transport.failed",
    },
}  # fmt: skip


def test_an_application_pays_once_under_every_fault(open_bank, bank_pki):
    lines: list[str] = []
    made = set()
    with (
        open_bank(log=lines.append) as bank, running(shop(bank, bank_pki)) as browser,
        httpx.Client(base_url=bank.addresses.control_url, trust_env=False) as control,
    ):  # fmt: skip
        for number, (endpoint, name) in enumerate(product(SEEN, INTERFACE_FAULTS)):
            if name == EXPIRED:  # the next handshake is that after a lost connection
                control.post("/faults", json={"name": name, "interface": "psd2"})
            fault = {"name": "reset-after" if name == EXPIRED else name, "interface": "psd2", "endpoint": endpoint}
            delay = {"delay_s": WAIT_S} if name in ("late", "slow-body") else {}
            waiting = control.post("/faults", json=fault | delay).json()
            assert len(waiting) == 1 + (name == EXPIRED), (endpoint, name)  # none of an earlier round
            paid, failures = asked_until_it_works(browser, "POST", f"/orders/{number}/payment")
            assert control.post(f"/payments/{paid['payment_id']}/approve").status_code == 200
            control.post("/clock/advance", json={"seconds": 3600})
            shown, later = asked_until_it_works(browser, "GET", f"/payments/{paid['payment_id']}")
            assert shown == {"status": "ACSC"}
            made.add(paid["payment_id"])
            expected = [SEEN[endpoint][name]] if name in SEEN[endpoint] else []
            assert (failures if endpoint == "initiate_payment" else later) == expected, (endpoint, name)
        assert control.get("/ledger/check").json() == {"ok": True, "differences": []}
        kept = read_lines(bank.settings.directory / ARCHIVE)
        assert {EvidenceRecord.from_line(line).payment_ref for _, line in kept} == made
    assert len(made) == 2 * len(INTERFACE_FAULTS)
    changed = {(line.split()[0], line.split("fault:")[1]) for line in lines if "fault:" in line}
    assert changed == set(product(("POST", "GET"), INTERFACE_FAULTS.keys() - {EXPIRED}))
