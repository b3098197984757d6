"""A report that a host streams to both clients: its rows, errors, slow readers, memory and places; and rows that a host refuses."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, bindparam, insert, select

from refusals import refused
from tppkit._clock import utc_now
from tppkit.client.calls import Call, Calls, Credentials, StreamCall
from tppkit.client.credentials import ApiKeyCredentials, BasicCredentials
from tppkit.client.driver import AsyncClient, Method, StreamMethod, SyncClient
from tppkit.client.tls_context import NoCertificate
from tppkit.errors import ConfigurationError, LocalProtocolError, RequestRefused, TransportError
from tppkit.evidence import EvidenceArchive
from tppkit.protocol.endpoint import Auth, Endpoint, Interface, Once, Query
from tppkit.protocol.refusals import Refusal, RefusalRow, Refusals
from tppkit.protocol.reports import CsvRows
from tppkit.protocol.wire import Json, Nothing, WireModel
from tppkit.sandbox.cell import Answer, Handler, HostCall, Services, StreamHandler
from tppkit.sandbox.clock import Events
from tppkit.sandbox.database import MAX_STREAMS, Database
from tppkit.sandbox.evidence import Evidence
from tppkit.sandbox.host import Host
from tppkit.sandbox.tls import ServerTls, make_http_protocol
from tppkit.sandbox.uvicorn_server import QuietServer, listen, make_config
from tppkit.testpki import Pki
from tppkit.web.keys import KeyAuthenticator, hash_key
from tppkit.web.replay_stores.table import RequestTable

pytestmark = pytest.mark.slow

KEY, OTHER_KEY = "sk_test_3f9a7c5e1b2d4f60", "sk_test_000000000000000000"
TABLES = MetaData()
ORDERS = Table(
    "orders", TABLES, Column("id", Integer, primary_key=True), Column("owner", String(64)), Column("status", String(16)),
    Column("note", String(64)),
)  # fmt: skip
ADD = insert(ORDERS)


class Order(WireModel):
    id: int
    status: str
    note: str | None = None


class Account(WireModel):
    account_id: str
    owner: str


ACCOUNT = Endpoint(
    name="account", method="GET", path="/v1/accounts/{account_id}", source="", auth=Auth.API_KEY, request=Nothing(),
    answer=Json(Account), safe=True,
)  # fmt: skip
BY_STATUS = (
    select(ORDERS.c.id, ORDERS.c.status, ORDERS.c.note)
    .where(ORDERS.c.owner == bindparam("of_owner"), ORDERS.c.status == bindparam("of_status"))
    .order_by(ORDERS.c.id)
)


def account(call: HostCall[None]) -> Answer[Account]:
    return Answer(Account(account_id=call.parameters["account_id"], owner=call.caller))


class Search(WireModel):
    status: str
    fail_after: int | None = None


SEARCH_CSV = Endpoint(
    name="search-csv", method="POST", path="/v1/search/orders/", source="", auth=Auth.BASIC, request=Json(Search),
    answer=CsvRows(("id", "status", "note"), Order), query=(Query("format", only="csv"),), safe=True,
)  # fmt: skip


def search_csv(call: HostCall[Search]) -> Iterator[Order]:
    if call.body.status == "none":
        raise LocalProtocolError("product.unknown", "there is no such status")
    found = call.db.execute(BY_STATUS, {"of_owner": call.caller, "of_status": call.body.status})
    for number, row in enumerate(found):
        if number == call.body.fail_after:
            raise TransportError("database.unavailable", "gone")
        yield Order(id=row.id, status=row.status, note=row.note)


# The interface, and its client: one builder and one line for each endpoint.


def write_refusal(refusal: Refusal) -> bytes:
    return json.dumps({"code": refusal.code, "text": refusal.text}).encode()


ERRORS = (
    ("credentials.", 401, "UNAUTHORIZED"), ("query.", 400, "BAD"), ("product.", 404, "UNKNOWN"), ("database.", 503, "LATER"),
)  # fmt: skip
SHOP = Interface(
    name="shop", endpoints=(ACCOUNT, SEARCH_CSV), default_auth=Auth.BASIC,
    refusals=Refusals(
        tuple(RefusalRow(*row) for row in ERRORS), write_refusal, lambda body: (body["code"], body["text"]),
    ),
)  # fmt: skip
HANDLERS = (
    Handler(ACCOUNT, account),
    StreamHandler(SEARCH_CSV, search_csv),
)


class ShopCalls(Calls):
    def account(self, account_id: str) -> Call[Account]:
        return self.call(ACCOUNT, None, account_id=account_id)

    def search_csv(self, search: Search) -> StreamCall[Order]:
        return self.stream(SEARCH_CSV, search)


class _Methods:
    account = Method(ShopCalls.account)
    search_csv = StreamMethod(ShopCalls.search_csv)


class ShopClient(_Methods, SyncClient[ShopCalls]): ...


class AsyncShopClient(_Methods, AsyncClient[ShopCalls]): ...


# The bank's side, over TLS, and both clients behind one shape.


def add_orders(database: Database) -> None:
    rows = [("shop", "paid", f'order {n}, "gift"\nwrapped') for n in range(3)]
    rows += [("shop", "many", "x" * 60)] * 100_000 + [("other", "paid", "not ours")]
    values = [{"owner": owner, "status": status, "note": note} for owner, status, note in rows]
    database.run_at_start(lambda db: db.execute(ADD, values))


@contextmanager
def running(folder: Path, pki: Path, handlers: Sequence[Any] = HANDLERS) -> Iterator[str]:
    (folder / "archive").mkdir()
    shared, ids = MetaData(), count()
    hashes = {"other": hash_key(OTHER_KEY), "shop": hash_key(KEY)}
    keys = {auth: KeyAuthenticator(hashes, auth=auth) for auth in (Auth.API_KEY, Auth.BASIC)}
    certificate, key, root = [(pki / name).read_bytes() for name in ("server-chain.pem", "server.key", "root.pem")]
    with EvidenceArchive(folder / "archive", stream_id="0" * 32) as archive, listen("127.0.0.1", 0) as bound:
        requests, evidence = {None: RequestTable(shared, name="request_ids")}, Evidence(archive, shared)
        database = Database(f"sqlite:///{folder / 'db'}", shared, TABLES)
        add_orders(database)
        events = Events(database, utc_now, ())
        services = Services(database, requests, evidence, utc_now, lambda: str(next(ids)), events)
        host = Host(interface=SHOP, handlers=handlers, authenticators=keys, services=services)
        server = QuietServer(make_config(host, http=make_http_protocol(ServerTls(certificate, key, root))))

        async def main() -> None:
            await server.serve([bound])
            await database.close()

        thread = threading.Thread(target=asyncio.run, args=[main()])
        thread.start()
        try:
            yield f"https://localhost:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)


@pytest.fixture(scope="module")
def shop_url(tmp_path_factory: pytest.TempPathFactory, bank_pki_folder: Path) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("shop"), bank_pki_folder) as url:
        yield url


@pytest.fixture
def tls(bank_pki: Pki) -> NoCertificate:
    return NoCertificate(server_anchors=[bank_pki.root.certificate])


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest, shop_url: str, tls: NoCertificate) -> Callable[..., None]:
    """Asks for a report with one and the other client; `each` sees every row."""

    async def ask_async(step: Callable[[Any], Any], calls: ShopCalls, each: Callable[[Any], Any]) -> None:
        async with AsyncShopClient(calls, tls) as client:
            async for row in step(client):
                each(row)

    def asked(step: Callable[[Any], Any], credentials: Credentials, each: Callable[[Any], Any] = print) -> None:
        calls = ShopCalls(SHOP, shop_url, credentials=credentials)
        if request.param == "async":
            return asyncio.run(ask_async(step, calls, each))
        with ShopClient(calls, tls) as client:
            for row in step(client):
                each(row)
        return None

    return asked


BASIC = BasicCredentials(KEY)


@pytest.mark.parametrize(
    ("key", "search", "status", "code"),
    [("wrong" + KEY, "paid", 401, "credentials.unknown"), (KEY, "none", 404, "product.unknown")],
)
def test_a_refused_report_is_an_error_that_shows_no_key(key, search, status, code, ask, caplog):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(RequestRefused, match=code) as refused:
        ask(lambda client: client.search_csv(Search(status=search)), BasicCredentials(key))
    assert refused.value.status == status
    assert KEY not in f"{caplog.text} {refused.value}"


def test_a_report_has_the_rows_of_its_caller_and_an_error_after_them_if_it_fails_later(ask):
    rows: list[Order] = []
    ask(lambda client: client.search_csv(Search(status="paid")), BASIC, rows.append)
    assert [(row.id, row.note) for row in rows] == [(n + 1, f'order {n}, "gift"\nwrapped') for n in range(3)]
    rows: list[Order] = []
    with pytest.raises(TransportError) as failed:
        ask(lambda client: client.search_csv(Search(status="many", fail_after=1200)), BASIC, rows.append)
    assert (failed.value.code, len(rows)) == ("transport.failed", 1000)


@pytest.mark.slow
def test_a_report_of_100_000_rows_needs_no_memory(shop_url, tls):
    tracemalloc.start()
    try:
        with ShopClient(ShopCalls(SHOP, shop_url, credentials=BASIC), tls) as client:
            numbered = enumerate(client.search_csv(Search(status="many")), 4)
            assert sum(row.id == number for number, row in numbered) == 100_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * 2**20  # of client and host


def test_a_slow_reader_is_cut_off(bank_pki_folder, tmp_path, tls, caplog):
    handlers = (HANDLERS[0], StreamHandler(SEARCH_CSV, search_csv, deadline_s=3.0))
    with running(tmp_path, bank_pki_folder, handlers) as url:
        with ShopClient(ShopCalls(SHOP, url, credentials=BASIC), tls) as client:
            rows = client.search_csv(Search(status="many"))
            next(rows)
            time.sleep(4)
            with pytest.raises(TransportError) as failed:
                list(rows)
        assert failed.value.code == "transport.failed"
    assert "did not read it in time" in caplog.text


def test_a_handler_that_writes_cannot_leave_a_write_for_later(bank_pki_folder, tmp_path, tls, caplog):
    late = Handler(ACCOUNT, lambda call: replace(account(call), before=add_orders))
    with (
        running(tmp_path, bank_pki_folder, (late, HANDLERS[1])) as url,
        ShopClient(ShopCalls(SHOP, url, credentials=ApiKeyCredentials(KEY)), tls, sleep=lambda _: None) as client,
        pytest.raises(RequestRefused) as refused,
    ):
        client.account("a-1")
    assert refused.value.status == 500
    assert "host.handlers" in caplog.text


def test_readers_that_disconnect_free_their_places(shop_url, tls):
    with ShopClient(ShopCalls(SHOP, shop_url, credentials=BASIC), tls, sleep=lambda _: None) as client:
        opened = [client.search_csv(Search(status="many")) for _ in range(MAX_STREAMS)]
        assert [next(rows).id for rows in opened] == [4] * MAX_STREAMS
        with pytest.raises(RequestRefused) as refused:
            next(client.search_csv(Search(status="many")))
        assert refused.value.status == 503
        for rows in opened:
            rows.close()
        end = time.monotonic() + 30
        while time.monotonic() < end:
            with suppress(RequestRefused), closing(client.search_csv(Search(status="many"))) as rows:
                assert next(rows).id == 4
                break
        else:
            pytest.fail("no report could be opened")


@pytest.mark.parametrize(
    ("handler", "row", "code"),
    [
        (Handler(SEARCH_CSV, account), SEARCH_CSV, "endpoint.streamed"),
        (StreamHandler(ACCOUNT, search_csv), ACCOUNT, "endpoint.streamed"),
        (StreamHandler(SEARCH_CSV, search_csv), replace(SEARCH_CSV, once=Once(header="x-request-id")), "endpoint.streamed"),
        (StreamHandler(SEARCH_CSV, search_csv), replace(SEARCH_CSV, auth=Auth.SEAL), "endpoint.streamed"),
        (Handler(ACCOUNT, account), replace(ACCOUNT, once=Once(header="idempotency-key")), "host.handlers"),
        (
            Handler(ACCOUNT, account), replace(ACCOUNT, once=Once(header="x-request-id", window=timedelta(hours=1))),
            "host.handlers",
        ),
    ],
)  # fmt: skip
def test_a_host_refuses_a_handler_that_cannot_answer_its_row_and_a_row_whose_ids_it_cannot_keep(handler, row, code):
    shop, keys = replace(SHOP, endpoints=(row,)), KeyAuthenticator({}, auth=Auth.BASIC)
    requests = {None: RequestTable(MetaData(), name="request_ids")}
    services = replace(Services(*[cast("Any", None)] * 6), requests=requests)
    with refused(ConfigurationError, code):
        Host(
            interface=shop, handlers=[replace(handler, row=row)], authenticators=dict.fromkeys(Auth, keys), services=services
        )  # fmt: skip
