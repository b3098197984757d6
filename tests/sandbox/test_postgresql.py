"""The sandbox on PostgreSQL, whose transactions run concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from account_reader import ACCOUNTS, CONSENTS, Reader
from raw_provider import APPROVE, PAYMENT, PAYMENTS, advance, approval_link, checked_sandbox, control
from sqlalchemy import Connection, text
from test_deliveries import Outbox, Receivers

from servers import relay_to
from tppkit._clock import parse_time, utc_now
from tppkit.sandbox import SandboxServer, SandboxSettings
from tppkit.sandbox.database import Database

pytestmark = pytest.mark.slow


@pytest.fixture
def database(postgresql_url: str) -> str:
    """The name of a new database."""
    name = f"bank_{uuid4().hex}"
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return name


@pytest.fixture
def settings(postgresql_url: str, database: str, bank_pki_folder: Path, tmp_path: Path) -> SandboxSettings:
    url = postgresql_url.replace("postgresql:", "postgresql+psycopg:").replace("/postgres?", f"/{database}?")
    return SandboxSettings(tmp_path / "bank", pki=bank_pki_folder, database=url)


@pytest.fixture
def server(settings: SandboxSettings) -> Iterator[SandboxServer]:
    with checked_sandbox(settings) as server:
        yield server


def test_concurrent_equal_requests_make_one_payment(server, connect):
    caller = connect(server)
    sealed = caller.sealed(caller.message(PAYMENT))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: connect(server).send(sealed), range(8)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["paymentId"] for answer in answers}) == 1


def test_a_payment_is_cancelled_or_approved_and_never_both(server, connect):
    caller = connect(server)
    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            payment = caller.new_payment()
            deciding = pool.submit(httpx.post, approval_link(payment), data=APPROVE, trust_env=False)
            cancelled = caller.cancel(payment).status_code == 200
            deciding.result()
            assert caller.status(payment) == ("RJCT" if cancelled else "ACSP")


def test_a_deleted_consent_stays_revoked_despite_a_concurrent_decision(server, connect):
    reader = Reader(connect(server), server)
    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            consent = reader.created()
            deciding = pool.submit(reader.decide, consent, "approve")
            assert reader.get(f"{CONSENTS}/{consent}", method="DELETE").status_code == 204
            assert deciding.result().status_code in (200, 400)
            assert reader.status(consent) == "revoked"


def test_concurrent_unattended_reads_are_all_counted(server, connect):
    reader = Reader(connect(server), server)
    consent = reader.approved(frequencyPerDay=5)
    place = reader.place(consent)
    targets = [ACCOUNTS, f"{place}/balances", f"{place}/transactions?dateFrom=2020-01-01"] * 4
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda target: Reader(connect(server), server).get(target, consent, headers=()), targets)
        )
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [429] * 7
    assert [reader.get(target, consent).status_code for target in targets[:3]] == [200] * 3


def test_concurrent_requests_with_one_uuid_pay_once_and_are_reported_in_order(server, connect_legacy, receiver):
    legacy, uuid = connect_legacy(server), "U" * 40
    legacy.control("/legacy/provider", {"callback_url": receiver.url})
    token = legacy.access("pis")
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(legacy.order, token, uuid=uuid) for _ in range(8)]
    assert {answer.result()[1].status_code for answer in answers} == {200}
    with ThreadPoolExecutor(4) as pool:
        paths = [f"/legacy/payments/{uuid}/{action}" for action in ("approve", "decline") * 2]
        decided = list(pool.map(lambda path: control(server, path).status_code, paths))
    assert sorted(decided) == [200, 400, 400, 400]
    advance(server, 3600)
    stages = [one.json["tlc"] for one in receiver.arrived if one.path.endswith(uuid)]
    assert stages in (["posted", "executed"], ["declined"])
    for path in ("/legacy/access/%00/approve", "/legacy/payments/%00/approve"):
        assert control(server, path).status_code == 400
    code = {"code": f"LOGIN:{receiver.url.removeprefix('https://')}", "customer": "\0"}
    assert control(server, "/legacy/login", code).status_code == 400


def test_concurrent_steps_of_the_clock_add_up(server):
    before = utc_now()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: advance(server, 3600), range(16)))
    shown = httpx.get(server.addresses.control_url + "/clock", trust_env=False).json()["now"]
    assert before <= parse_time(shown) - timedelta(hours=16) <= utc_now()


def test_a_text_that_postgresql_cannot_store_is_an_unknown_id(server, connect):
    url = f"{server.addresses.approval_url}/approve/%00"
    for response in (httpx.get(url, trust_env=False), httpx.post(url, data=APPROVE, trust_env=False)):
        assert (response.status_code, "This link leads to no payment" in response.text) == (404, True)
    reader = Reader(connect(server), server)
    consent = reader.approved()
    refused = reader.get(f"{reader.place(consent)}/transactions?dateFrom=2026-01-01&after=%00", consent)
    assert (refused.status_code, reader.decide("%00", "approve").status_code) == (400, 400)
    for path in (f"{PAYMENTS}/a%00", f"{PAYMENTS}/%00/status", "/psd2/v1/payments/%00/a"):
        assert connect(server).request("GET", path).status_code == 404


def test_statements_of_one_read_see_the_same_moment(settings, database, postgresql_url):
    url = postgresql_url.replace("/postgres?", f"/{database}?")

    async def main(writer: psycopg.Connection[Any]) -> None:
        writer.execute("CREATE TABLE numbers (number int)")

        def counts(db: Connection) -> Iterator[int]:
            for _ in range(2):
                yield db.execute(text("SELECT count(*) FROM numbers")).scalar_one()
                writer.execute("INSERT INTO numbers VALUES (1)")

        opened = Database(settings.database or "")
        assert await opened.read(lambda db: list(counts(db))) == [0, 0]
        assert [count async for count in opened.stream(counts)] == [2, 2]
        await opened.close()

    with psycopg.connect(url, autocommit=True) as writer:
        asyncio.run(main(writer))


def test_one_that_is_added_while_another_of_its_stream_ends_is_delivered(settings):
    async def main(outbox: Outbox) -> None:
        for number in range(50):
            await outbox.add(1, stream=str(number))
            await asyncio.gather(outbox.run(), outbox.add(2, stream=str(number)))
            await outbox.run()
            assert [ver for _, ver in outbox.receivers.sent[2 * number :]] == [1, 2]
        assert len(await outbox.log()) == 50
        await outbox.database.close()

    asyncio.run(main(Outbox(settings.database or "", Receivers())))


def test_a_server_that_stops_answering_fails_requests_in_time(postgresql_url, database, settings, connect, monkeypatch):
    monkeypatch.setattr("tppkit.sandbox.database.WAIT_S", 0.5)
    with relay_to(postgresql_url) as (url, silent):
        url = url.replace("postgresql:", "postgresql+psycopg:").replace("/postgres", f"/{database}")
        with checked_sandbox(replace(settings, database=url)) as server:
            caller = connect(server)
            payment = caller.new_payment()
            silent.set()
            for answer in (
                caller.initiate(),
                caller.cancel(payment),
                httpx.get(approval_link(payment), trust_env=False),
            ):
                assert answer.status_code == 503
            silent.clear()
            assert caller.cancel(payment).status_code == 200
