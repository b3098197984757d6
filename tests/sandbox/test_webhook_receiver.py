"""A receiver of webhooks, its worker and its reconciler with the real gateway: each state takes effect once."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from itertools import count, pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from merchant import Merchant
from sqlalchemy import Column, Integer, MetaData, String, Table, insert, select
from sqlalchemy.ext.asyncio import create_async_engine

from programs import TPPKIT
from refusals import refused
from tppkit._clock import utc_now
from tppkit.client import AsyncGatewayClient, GatewayClient, is_paid
from tppkit.inbox import InboxError, Outcome
from tppkit.inbox.store import InboxStore
from tppkit.protocol.gateway import Order
from tppkit.protocol.gateway.webhooks import StatusChanged
from tppkit.testpki import Pki, certificate_pem
from tppkit.web import AsyncWebhookInbox, WebhookInbox, WebhookSettings

pytestmark = pytest.mark.slow

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
EFFECTS = Table(
    "webhook_effects", MetaData(), Column("id", Integer, primary_key=True), Column("order_id", String), Column("status", String)
)  # fmt: skip
_NUMBERS = count()


def apply(order: Order, connection: Any) -> None:
    connection.execute(insert(EFFECTS), {"order_id": order.id, "status": str(order.status)})


def body(order_id: str, project_id: str) -> bytes:
    return StatusChanged(event="status_changed", order_id=order_id, project_id=project_id).to_wire()


class Shop:
    """A merchant whose webhooks are posted by the test, and its inbox in a database."""

    def __init__(self, merchant: Merchant, client: GatewayClient, store: InboxStore, **settings: Any) -> None:
        self.merchant, self.client, self.store, self.at = merchant, client, store, utc_now()
        self.inbox = WebhookInbox(store, client.order, settings=WebhookSettings(**settings))

    def notify(self, order: Any) -> Outcome:
        return self.inbox.accept(body(order["id"], self.merchant.project_id), at=self.at)

    def watch(self, order: Any) -> None:
        with self.store.engine.begin() as own:
            self.inbox.watch(order["id"], at=self.at, within=own)

    def work(self, handler: Callable[[Order, Any], object] = apply, *, later: timedelta = timedelta()) -> list[str]:
        self.at += later
        return [one.outcome.value for one in self.inbox.work(handler, at=self.at)]

    def effects(self, order: Any) -> list[str]:
        with self.store.engine.connect() as db:
            rows = db.execute(select(EFFECTS.c.status).where(EFFECTS.c.order_id == order["id"]).order_by(EFFECTS.c.id))
            return list(rows.scalars())

    def entries(self) -> int:
        with self.store.engine.connect() as db:
            return len(db.execute(select(self.store._sql.entries)).all())


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[InboxStore]:
    url = f"sqlite:///{tmp_path}/shop.sqlite"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_url").replace("postgresql:", "postgresql+psycopg:")
    with closing(InboxStore(url, prefix=f"webhooks{next(_NUMBERS)}_")) as made:
        made.create_tables()
        EFFECTS.metadata.create_all(made.engine)
        yield made


@pytest.fixture
def client(merchant: Merchant, bank_pki: Pki) -> Iterator[GatewayClient]:
    url = merchant.bank.addresses.gateway_url
    with GatewayClient(url, api_key=merchant.api_key, server_anchors=[bank_pki.root.certificate]) as made:
        yield made


@pytest.fixture
def shop(merchant: Merchant, client: GatewayClient, store: InboxStore) -> Shop:
    return Shop(merchant, client, store)


def test_notifications_of_an_order_that_wait_are_one_and_a_later_one_has_no_second_effect(shop):
    order = shop.merchant.own_checkout()
    assert [shop.notify(order) for _ in range(3)] == [Outcome.STORED, Outcome.REPEATED, Outcome.REPEATED]
    assert shop.work() == ["applied"]
    for _ in range(2):
        assert shop.notify(order) is Outcome.STORED
        assert shop.work(later=SECOND) == ["stale"]
    assert shop.effects(order) == ["completed"]


def test_each_state_of_an_order_takes_effect_once_in_its_order_and_one_fetched_before_is_stale(shop):
    order = shop.merchant.order()
    old = shop.client.order(order["id"])
    for outcome in (None, "declined", "approved"):
        if outcome is not None:
            shop.merchant.pay(order, outcome=outcome)
        shop.notify(order)
        assert shop.work() == ["applied"]
    shop.inbox = WebhookInbox(shop.store, lambda _: old)
    shop.notify(order)
    assert shop.work() == ["stale"]
    assert shop.effects(order) == ["new", "processing", "completed"]


@pytest.mark.parametrize("listed", ["related_orders", "refund_orders", "chargeback_orders", "reversal_orders"])
def test_another_linked_order_is_a_newer_state_in_any_order_of_the_list(listed, shop):
    order, first, second = shop.merchant.own_checkout(), str(uuid4()), str(uuid4())
    fetched = shop.client.order(order["id"])
    new = [(), (first,), (first, second)]
    for ids, outcome in (*((ids, "applied") for ids in new), ((second, first), "stale")):
        shop.inbox = WebhookInbox(shop.store, lambda _, ids=ids: fetched.model_copy(update={listed: ids}))  # type: ignore[misc]
        shop.notify(order)
        assert shop.work() == [outcome]


def test_a_notification_during_the_fetch_has_the_order_fetched_again(shop):
    order = shop.merchant.order()

    def fetch(order_id: str) -> Order:
        found = shop.client.order(order_id)
        if not shop.effects(order):
            shop.merchant.pay(order, outcome="approved")
            assert shop.notify(order) is Outcome.STORED
        return found

    late = WebhookInbox(shop.store, fetch)
    late.accept(body(order["id"], shop.merchant.project_id), at=shop.at)
    assert [one.outcome for one in late.work(apply, at=shop.at)] == ["applied", "applied"]
    assert shop.effects(order) == ["new", "completed"]


def test_forged_orders_and_orders_of_other_projects_are_dropped(shop, make_merchant, cards):
    foreign = make_merchant(shop.merchant.bank).own_checkout()
    forged = [{"id": str(uuid4())} for _ in range(20)]
    for order in (foreign, *forged):
        shop.notify(order)
    assert shop.work() == ["failed"] * 21
    assert shop.work(later=10 * MINUTE) == ["dropped"] * 21
    real = shop.merchant.own_checkout()
    for _ in range(3):
        shop.at += SECOND
        shop.notify(real)
    assert shop.work() == ["applied"]
    assert shop.effects(foreign) == []
    assert shop.entries() <= 2


def test_an_order_that_the_gateway_does_not_have_yet_is_not_dropped(shop):
    order, unknown = shop.merchant.own_checkout(), iter([str(uuid4())])
    shop.inbox = WebhookInbox(shop.store, lambda order_id: shop.client.order(next(unknown, order_id)))
    shop.notify(order)
    assert [shop.work(), shop.work(later=10 * SECOND)] == [["failed"], ["applied"]]


def test_another_order_than_the_one_that_was_requested_has_no_effect(shop):
    order, other = shop.merchant.own_checkout(), shop.merchant.own_checkout()
    shop.notify(order)
    (worked,) = WebhookInbox(shop.store, lambda _: shop.client.order(other["id"])).work(apply, at=shop.at)
    assert (worked.outcome, worked.code, shop.effects(other)) == (Outcome.FAILED, "model.invalid", [])
    assert shop.work(later=10 * SECOND) == ["applied"]


def test_an_order_that_does_not_end_is_given_up_as_failed_until_its_next_webhook(shop):
    order, source = shop.merchant.order(), shop.inbox.source
    shop.notify(order)
    assert shop.work() == ["applied"]
    shop.merchant.pay(order, outcome="declined")
    shop.at += timedelta(days=30)
    (last,) = shop.inbox.work(apply, at=shop.at)
    assert (last.outcome, last.code) == (Outcome.FAILED, "order.not-final")
    assert shop.effects(order) == ["new", "processing"]
    (failure,) = shop.store.failed(source)
    assert (failure.reason, failure.attempts, failure.due_at) == ("TransportError [order.not-final]", 1, None)
    assert shop.work(later=1000 * HOUR) == []
    shop.notify(order)
    assert [shop.work(), shop.work(later=HOUR), shop.store.failed(source)] == [["stale"], ["stale"], []]


def test_an_order_has_its_webhook_during_the_last_fetch_and_is_not_given_up(shop):
    order = shop.merchant.order()

    def fetch(order_id: str) -> Order:
        shop.notify(order)
        return shop.client.order(order_id)

    shop.notify(order)
    shop.at += timedelta(days=30)
    (worked,) = WebhookInbox(shop.store, fetch).work(apply, at=shop.at, limit=1)
    assert (worked.outcome, worked.code) == (Outcome.APPLIED, "")
    assert (shop.store.failed(shop.inbox.source), shop.work()) == ([], ["stale"])


def test_the_number_of_waiting_orders_is_limited_except_for_known_ones(merchant, client, store):
    shop = Shop(merchant, client, store, max_waiting=2)
    known = merchant.order()
    shop.watch(known)
    unknown = [{"id": str(uuid4())} for _ in range(3)]
    for order in unknown[:2]:
        shop.notify(order)
    with refused(InboxError, "inbox.full"):
        shop.notify(unknown[2])
    assert [shop.notify(known), shop.notify(unknown[0])] == [Outcome.STORED, Outcome.REPEATED]
    shop.work(later=10 * MINUTE)
    assert shop.notify(unknown[2]) is Outcome.STORED


def test_an_order_waits_while_the_gateway_is_down(shop, bank_pki):
    order = shop.merchant.own_checkout()
    options: Any = {"api_key": shop.merchant.api_key, "server_anchors": [bank_pki.root.certificate]}
    with GatewayClient("https://127.0.0.1:9", **options, sleep=lambda _: None) as down:
        shop.notify(order)
        (worked,) = WebhookInbox(shop.store, down.order).work(apply, at=shop.at)
    assert (worked.outcome, worked.code.partition(".")[0]) == (Outcome.FAILED, "transport")
    assert shop.work() == []
    assert shop.work(later=10 * SECOND) == ["applied"]


def test_a_handler_that_raises_is_rolled_back_and_the_state_takes_effect_later(shop):
    order = shop.merchant.own_checkout()

    def failing(found: Order, connection: Any) -> None:
        apply(found, connection)
        raise LookupError

    shop.notify(order)
    assert shop.work(failing) == ["failed"]
    assert shop.effects(order) == []
    assert shop.work(later=10 * SECOND) == ["applied"]


@pytest.mark.parametrize("by_webhook", [False, True])
def test_an_order_that_is_watched_or_that_a_webhook_named_is_read_until_it_is_final(by_webhook, shop):
    order = shop.merchant.order()
    if by_webhook:
        shop.notify(order)
        assert shop.work() == ["applied"]
    else:
        shop.watch(order)
        assert [shop.work(), shop.work(later=MINUTE)] == [[], ["applied"]]
    shop.merchant.pay(order, outcome="approved")
    assert [shop.work(), shop.work(later=MINUTE)] == [[], ["applied"]]
    assert shop.effects(order) == ["new", "completed"]
    assert shop.work(later=1000 * HOUR) == []


def test_an_order_whose_creation_was_rolled_back_is_not_watched(shop):
    with shop.store.engine.connect() as own:
        shop.inbox.watch(str(uuid4()), at=shop.at, within=own)
        own.rollback()
    assert shop.work(later=HOUR) == []


def test_the_pauses_between_reads_grow_to_the_longest(shop):
    order, began, read = shop.merchant.order(), shop.at, list[datetime]()
    shop.watch(order)
    while shop.at < began + 6 * HOUR:
        if shop.work(later=30 * SECOND):
            read.append(shop.at)
    pauses = [later - sooner for sooner, later in pairwise(read)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (MINUTE, HOUR)
    assert shop.effects(order) == ["new"]


@pytest.mark.parametrize("notified", [False, True])  # then it is due as early as the webhook was
def test_a_watched_order_that_the_gateway_does_not_find_is_kept(notified, shop):
    order = {"id": str(uuid4())}
    if notified:
        assert shop.notify(order) is Outcome.STORED
    shop.watch(order)
    assert shop.work(later=timedelta() if notified else 10 * MINUTE) == ["failed"]
    assert shop.work(later=10 * MINUTE) == ["failed"]


def test_an_own_checkout_is_paid_by_its_transaction_and_read_until_its_order_is_final(
    fresh_bank, make_merchant, bank_pki, store
):
    merchant, paid = make_merchant(fresh_bank, lag_seconds=2700), list[tuple[str, bool]]()
    url = merchant.bank.addresses.gateway_url
    with GatewayClient(url, api_key=merchant.api_key, server_anchors=[bank_pki.root.certificate]) as client:
        shop = Shop(merchant, client, store)
        order = merchant.own_checkout()
        shop.watch(order)

        def handle(found: Order, connection: Any) -> None:
            paid.append((str(found.status), is_paid(found, own_checkout=True)))

        assert shop.work(handle, later=MINUTE) == ["applied"]
        merchant.advance(2700)
        assert shop.work(handle, later=HOUR) == ["applied"]
    assert paid == [("processing", True), ("completed", True)]


async def test_tasks_receive_watch_and_work_as_threads_do(shop, bank_pki):
    merchant, store, order, at = shop.merchant, shop.store, shop.merchant.order(), shop.at
    engine = create_async_engine(store.engine.url) if store.engine.dialect.name == "postgresql" else None

    async def handle(found: Order, connection: Any) -> None:
        await connection.run_sync(lambda db: apply(found, db)) if engine else apply(found, connection)

    async def work(at: datetime) -> list[str]:
        return [one.outcome.value for one in await inbox.work(handle, at=at)]

    url, anchors = merchant.bank.addresses.gateway_url, [bank_pki.root.certificate]
    async with AsyncGatewayClient(url, api_key=merchant.api_key, server_anchors=anchors) as client:
        inbox = AsyncWebhookInbox(store, client.order)
        for outcome in (None, "approved"):
            if outcome is not None:
                await asyncio.to_thread(merchant.pay, order, outcome=outcome)
            await inbox.accept(body(order["id"], merchant.project_id), at=at)
            assert await work(at) == ["applied"]
        if engine:
            async with engine.begin() as own:
                await inbox.watch(order["id"], at=at, within=own)
            assert await work(at + MINUTE) == ["stale"]
            await engine.dispose()
    assert shop.effects(order) == ["new", "completed"]


# Dies once between the fetch and the commit: its effect is written, and not committed.
KILLED = """
import os, signal
from datetime import timedelta
from pathlib import Path
from sqlalchemy import text
from tppkit.client import GatewayClient
from tppkit.inbox.store import InboxStore
from tppkit.web import WebhookInbox, WebhookSettings

client = GatewayClient(os.environ["GATEWAY_URL"], api_key=os.environ["API_KEY"])
store = InboxStore(os.environ["DATABASE"], prefix="killed_")
inbox = WebhookInbox(store, client.order, settings=WebhookSettings(lease=timedelta(milliseconds=10)))

def changed(order, connection):
    insert = text("INSERT INTO webhook_effects (order_id, status) VALUES (:id, :status)")
    connection.execute(insert, {"id": order.id, "status": str(order.status)})
    if not Path("died").exists():
        Path("died").touch()
        os.kill(os.getpid(), signal.SIGKILL)

work = inbox.worker(changed)
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_worker_that_is_killed_between_fetch_and_commit_loses_nothing_and_does_nothing_twice(
    kind, merchant, client, bank_pki, tmp_path, request
):
    url = f"sqlite:///{tmp_path}/killed.sqlite"
    if kind == "postgresql":
        url = request.getfixturevalue("postgresql_url").replace("postgresql:", "postgresql+psycopg:")
    (tmp_path / "shop.py").write_text(KILLED)
    (tmp_path / "root.pem").write_bytes(certificate_pem(bank_pki.root.certificate))
    gateway = {"GATEWAY_URL": merchant.bank.addresses.gateway_url, "API_KEY": merchant.api_key}
    environment = {**os.environ, **gateway, "DATABASE": url, "SSL_CERT_FILE": str(tmp_path / "root.pem")}
    command = [TPPKIT, "inbox", "work", "--database", url, "--prefix", "killed_", "--handler", "shop:work"]
    with closing(InboxStore(url, prefix="killed_")) as store:
        store.create_tables()
        EFFECTS.metadata.create_all(store.engine)
        shop, order = Shop(merchant, client, store), merchant.own_checkout()
        shop.notify(order)
        codes, output = list[int](), ""
        for _ in range(3):
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False)
            codes.append(done.returncode)
            output += (done.stdout + done.stderr).decode()
        assert codes == [-9, 0, 0]
        assert shop.effects(order) == ["completed"]
    assert "applied" in output
    assert merchant.api_key not in output
