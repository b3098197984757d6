"""A running sandbox goes back to its start."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sqlite3
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import timedelta
from functools import partial
from uuid import uuid4

import httpx
import psycopg
import pytest
from raw_provider import advance, checked_sandbox, control
from serving import wait_until
from starlette.types import Message, Receive, Send
from test_in_process import CONSENT, ORDER, PAYMENT, VISA

from refusals import refused
from tppkit._clock import utc_now
from tppkit.errors import FormatError, RequestRefused, TransportError
from tppkit.evidence import EvidenceRecord, audit_archive
from tppkit.evidence.archive import read_lines
from tppkit.sandbox import Sandbox, SandboxSettings
from tppkit.sandbox.bank.ledger import check
from tppkit.sandbox.evidence import EARLIER, EARLIER_KEPT
from tppkit.sandbox.reset import Gate
from tppkit.sandbox.sandbox import ARCHIVE, SandboxHosts
from tppkit.testpki import certificate_pem
from tppkit.trust import PathVerifier, make_anchors
from tppkit.web.sources import read_body

WEBHOOKS = "https://93.184.216.34/hook"
OUTSIDE = {"clock", "sqlite_sequence"}  # the row of the clock is made when it is first moved


def counts(bank: Sandbox) -> dict[str, int]:
    """How many rows each table has."""
    with closing(sqlite3.connect(bank.directory / "sandbox.sqlite")) as db:
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")} - OUTSIDE
        return {name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}


def use(bank: Sandbox) -> list[str]:
    """Do something at each interface, and return the ids that were made."""
    client, gateway = bank.client(), bank.gateway
    payment = client.initiate_payment(PAYMENT)
    bank.approve(payment.payment_id)
    consent = client.create_consent(CONSENT)
    bank.approve_consent(consent.consent_id)
    client.accounts(consent.consent_id)
    order = gateway.client().create_order(ORDER)
    gateway.pay(order.id, card=VISA)
    bank.control("POST", "/instant", {"country": "DE", "reachable": False})
    bank.control("POST", "/legacy/provider", {"callback_url": "https://93.184.216.34/callback"})
    assert len(bank.control("POST", "/faults", {"name": "drop"})) == 1
    with httpx.Client(transport=bank.transport(bank.identity())) as http:
        http.get(bank.addresses.psd2_url + "/psd2/v1/accounts")  # without X-Request-ID
    assert bank.control("GET", "/report")["rules"]
    bank.advance(timedelta(days=2))
    bank.control("POST", "/clock/freeze")
    assert bank.control("GET", "/ledger/check") == {"ok": True, "differences": []}
    return [payment.payment_id, consent.consent_id, order.id]


@pytest.mark.earns("request-id-missing")
def test_everything_is_as_in_a_fresh_folder_and_keys_stay():
    with Sandbox(seed=11) as bank:
        fresh, key = counts(bank), (bank.directory / "legacy" / "test.key").read_bytes()
        first = use(bank)
        other = bank.gateway.project()
        for _ in range(2):
            bank.reset()
            assert counts(bank) == fresh
            assert utc_now() - timedelta(seconds=5) < bank.now() <= utc_now()
            assert not bank.control("GET", "/clock")["frozen"]
            assert (bank.control("GET", "/report")["rules"], bank.control("GET", "/requests")) == ([], [])
            assert bank.evidence() == []
            with refused(RequestRefused, "request.refused"):
                bank.client().payment_status(first[0])
            with refused(RequestRefused, "request.refused"):
                other.client().create_order(ORDER)
            assert use(bank) == first
        assert (bank.directory / "legacy" / "test.key").read_bytes() == key
    with Sandbox(seed=11, pki=bank.pki) as again:
        assert use(again) == first


def test_the_evidence_before_a_reset_is_set_aside_whole_and_an_empty_archive_stays():
    with Sandbox() as bank:
        stream = bank.control("POST", "/reset") and (bank.directory / "stream-id").read_text()
        made = [bank.client().initiate_payment(PAYMENT).payment_id for _ in range(3)]
        bank.reset()
        (kept,) = (bank.directory / EARLIER).iterdir()
        records = [EvidenceRecord.from_line(line) for _, line in read_lines(kept)]
        assert ([record.payment_ref for record in records], kept.name) == (made, stream)
        for number in range(EARLIER_KEPT):
            (bank.directory / EARLIER / str(number)).mkdir()
        bank.client().initiate_payment(PAYMENT)
        (record,) = bank.evidence()
        assert (record.seq, record.stream_id != stream) == (0, True)
        bank.reset()
        left = {one.name for one in (bank.directory / EARLIER).iterdir()}
        assert (len(left), stream in left, record.stream_id in left) == (EARLIER_KEPT, False, True)


def test_settings_of_the_start_hold_again(bank_pki_folder, tmp_path):
    settings = SandboxSettings(
        tmp_path, pki=bank_pki_folder, webhook_url=WEBHOOKS, callback_url="https://93.184.216.34/callback"
    )
    with SandboxHosts(settings) as hosts:

        async def main() -> None:
            async with hosts.running():
                transport = httpx.ASGITransport(hosts.control)
                async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as control:
                    await control.post("/legacy/provider", json={"callback_url": None})
                    for body, status in (b"{}", 400), (b"", 200):
                        sent = {"Content-Type": "application/json"}
                        assert (await control.post("/reset", content=body, headers=sent)).status_code == status
                assert hosts.projects[hosts.projects.first_id].webhook_url == WEBHOOKS

        asyncio.run(main())
    with closing(sqlite3.connect(tmp_path / "sandbox.sqlite")) as db:
        assert db.execute("SELECT callback_url FROM legacy_provider").fetchall() == [(settings.callback_url,)]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_reset_that_a_crash_interrupted_is_whole_or_did_not_happen(is_committed, tmp_path):
    with Sandbox() as used:
        made = used.client().initiate_payment(PAYMENT).payment_id
        assert len(used.evidence()) == 1
        shutil.copytree(used.directory, tmp_path / "bank")
    settings = SandboxSettings(tmp_path / "bank")
    with SandboxHosts(settings) as hosts:
        stream, ended = hosts.evidence.next_stream(), hosts.archive.stream_id
        if is_committed:
            hosts.database.run_at_start(hosts.database.clear)
            hosts.database.run_at_start(partial(hosts.evidence.bind, stream_id=stream))
    for _ in range(2):
        with SandboxHosts(settings) as hosts:
            assert hosts.archive.stream_id == (stream if is_committed else ended)
            found = [record.payment_ref for record in hosts.archive.newest(5)]
            assert found == ([] if is_committed else [made])
            assert hosts.database.run_at_start(check) == []
    assert (tmp_path / "bank" / EARLIER / ended).exists() is is_committed


@pytest.mark.slow
def test_resets_while_requests_are_answered_leave_no_half():
    codes, shopped = set[str | None](), list[int]()
    with Sandbox() as bank:
        over = threading.Event()

        def shop(number: int) -> None:
            client, gateway = bank.client(), bank.gateway.client()
            while not over.is_set():
                try:
                    payment = client.initiate_payment(PAYMENT).payment_id
                    bank.approve(payment)
                    client.payment_status(payment)
                    consent = client.create_consent(CONSENT).consent_id
                    bank.approve_consent(consent)
                    client.accounts(consent)
                    bank.gateway.pay(gateway.create_order(ORDER).id, card=VISA)
                    shopped.append(number)
                except RequestRefused as e:
                    codes.add(e.peer_code)

        def wait_for_rounds() -> None:
            """Until each thread has ended a round, and one of them a round that began after this call."""
            begin = len(shopped)
            wait_until(lambda: len({*shopped[begin:]}) == 3 < len(shopped) - begin, "a round of each")

        with ThreadPoolExecutor(5) as pool:
            shopping = [pool.submit(shop, number) for number in range(3)]
            for _ in range(4):
                wait_for_rounds()
                for done in [pool.submit(bank.reset) for _ in range(2)]:
                    done.result()
            wait_for_rounds()
            over.set()
            for one in shopping:
                one.result()
        assert bank.control("GET", "/ledger/check") == {"ok": True, "differences": []}
        paths = PathVerifier(make_anchors(bank.pki.authorities))
        archives = [bank.directory / ARCHIVE, *(bank.directory / EARLIER).iterdir()]
        assert len(archives) > 4
        for archive in archives:
            assert {row.verdict for row in audit_archive(archive, paths=paths)} == {"passed"}
    assert codes <= {"payment.unknown", "consent.unknown", "order.unknown", "RESOURCE_UNKNOWN", "CONSENT_UNKNOWN"}


async def test_the_gate_lets_nobody_in_while_it_is_closed_and_gives_up_in_time():
    gate, order = Gate(), []

    async def enter() -> None:
        async with gate:
            order.append("inside")

    async with gate:
        with refused(TransportError, "sandbox.busy"):
            async with gate.closed(wait_s=0.01):
                order.append("never")
        await asyncio.wait_for(enter(), 1)
    async with gate.closed(wait_s=1):
        waiting = [asyncio.create_task(enter()) for _ in range(3)]
        await asyncio.sleep(0.01)
        order.append("closed")
    await asyncio.gather(*waiting)
    assert order == ["inside", "closed", *["inside"] * 3]


@pytest.mark.parametrize("size", [50, 200_000])
async def test_a_client_that_sends_or_reads_slowly_is_not_inside(size):
    gate, is_reading, rest, sent = Gate(), asyncio.Event(), asyncio.Event(), list[object]()

    async def app(scope: object, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.body", "body": await read_body(receive, max_bytes=size)})

    async def receive() -> Message:
        if not is_reading.is_set():
            is_reading.set()
            return {"type": "http.request", "body": b"a", "more_body": True}
        await rest.wait()
        return {"type": "http.request", "body": b"b" * (size - 1)}

    async def send(event: Message) -> None:
        async with gate.closed(wait_s=0.01):
            sent.append(event["body"])

    answering = asyncio.create_task(gate.around(app)({"type": "http"}, receive, send))
    await is_reading.wait()
    async with gate.closed(wait_s=0.01):
        rest.set()
    await answering
    assert sent == [b"a" + b"b" * (size - 1)]


async def test_a_body_above_the_limit_reaches_the_application_that_refuses_it():
    gate, pieces = Gate(), iter(range(100))

    async def app(scope: object, receive: Receive, send: Send) -> None:
        with refused(FormatError, "message.too-large"):
            await read_body(receive, max_bytes=4096)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"a" * 1024, "more_body": next(pieces) < 99}

    await gate.around(app)({"type": "http"}, receive, app)
    assert next(pieces) < 70


@pytest.mark.slow
def test_a_form_that_does_not_arrive_delays_neither_a_reset_nor_payments(open_bank, connect):
    with open_bank() as server, ExitStack() as opened:
        places = [("approval", path) for path in ("/approve/x", "/gateway/orders/x", "/app", "/", "/nope")]
        for name, path in (*places, ("control", "/clock/advance"), ("control", "/inspector/actions")):
            slow = opened.enter_context(socket.create_connection(("127.0.0.1", server.ports[name])))
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n"
            slow.sendall(head.encode())
        time.sleep(0.2)
        began = time.monotonic()
        assert control(server, "/reset").status_code == 200
        connect(server).new_payment()
        assert time.monotonic() - began < 5


@pytest.mark.slow
def test_a_reset_waits_for_no_receiver_and_nothing_is_delivered_again(bank_pki, open_bank, receiver):
    trusted = ssl.create_default_context(cadata=certificate_pem(bank_pki.root.certificate).decode())
    receiver.delay_s = 3
    with open_bank(webhook_url=receiver.url) as server:
        place, key = server.addresses.gateway_url + "/v1/orders/", (server.addresses.api_key, "")
        with httpx.Client(auth=key, verify=trusted, trust_env=False) as shop:
            order = shop.post(place, json={"currency": "EUR", "amount": 1250}).json()["id"]
            assert control(server, f"/gateway/orders/{order}/pay", {"outcome": "approved"}).status_code == 200
            receiver.wait(1)
            began = time.monotonic()
            assert control(server, "/reset").status_code == 200
            assert time.monotonic() - began < receiver.delay_s
            assert shop.get(f"{place}{order}/").status_code == 404
        time.sleep(0.3)
        arrived = len(receiver.arrived)
        advance(server, 86_400)
        assert len(receiver.arrived) == arrived


@pytest.mark.slow
def test_a_bank_that_is_killed_in_a_reset_is_old_or_new(killed_bank):
    made: list[str] = []
    for kill_after_s in (0.03, 0.08):
        with killed_bank.running() as (process, provider), ThreadPoolExecutor(1) as pool:
            made.append(provider.new_payment()["paymentId"])
            resetting = pool.submit(killed_bank.control, "/reset")
            time.sleep(kill_after_s)
            process.kill()
            process.wait()
            resetting.exception()
            provider.http.close()
        with killed_bank.running() as (process, provider):
            killed_bank.stop(process)
            provider.http.close()
        found = killed_bank.rows("payments", "payment_id")
        assert sorted(found) in ([], sorted(made))
        made = found
        (bound,) = killed_bank.rows("evidence_archive", "stream_id")
        assert {record.stream_id for record in killed_bank.records()} <= {bound}


@pytest.mark.slow
def test_on_postgresql_too(postgresql_url, tmp_path, bank_pki_folder, connect):
    name = f"bank_{uuid4().hex}"
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    url = postgresql_url.replace("postgresql:", "postgresql+psycopg:").replace("/postgres?", f"/{name}?")
    with checked_sandbox(SandboxSettings(tmp_path, pki=bank_pki_folder, database=url, seed=3)) as server:
        caller = connect(server)
        first = caller.new_payment()["paymentId"]
        with ThreadPoolExecutor(4) as pool:
            paying, took = [pool.submit(caller.initiate) for _ in range(20)], list[float]()
            for _ in range(3):
                began = time.monotonic()
                assert control(server, "/reset").status_code == 200
                took.append(time.monotonic() - began)
            assert min(took) < 10  # 0.14 s on an idle machine
            assert {one.result().status_code for one in paying} == {201}
        assert control(server, "/reset").status_code == 200
        assert caller.new_payment()["paymentId"] == first
