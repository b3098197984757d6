"""Of concurrent changes of one order, one succeeds, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from cards import Cards
from merchant import MakeMerchant, Merchant
from raw_provider import checked_sandbox, control

from tppkit.sandbox import SandboxServer, SandboxSettings

pytestmark = pytest.mark.slow

AT_ONCE = 8
ROUNDS = 5


@pytest.fixture(params=["sqlite", "postgresql"], scope="module")
def server(
    request: pytest.FixtureRequest, bank_pki_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SandboxServer]:
    url = None
    if request.param == "postgresql":
        server_url, name = request.getfixturevalue("postgresql_url"), f"gateway_{uuid4().hex}"
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        url = server_url.replace("postgresql:", "postgresql+psycopg:").replace("/postgres?", f"/{name}?")
    settings = SandboxSettings(tmp_path_factory.mktemp("races"), pki=bank_pki_folder, database=url)
    with checked_sandbox(settings) as server:
        yield server


@pytest.fixture
def shop(server: SandboxServer, make_merchant: MakeMerchant, cards: Cards) -> Iterator[Merchant]:
    yield make_merchant(server)
    url = server.settings.database
    if url is not None:
        with psycopg.connect(url.replace("+psycopg", "")) as connection:
            cards.keep(connection.execute("SELECT database_to_xml(true, true, '')").fetchall())


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield pool


def reserved(shop: Merchant, mode: str = "manual") -> Any:
    return shop.own_checkout(transaction={"capture_mode": mode})


def at_once(pool: ThreadPoolExecutor, *calls: Callable[[], httpx.Response]) -> list[int]:
    """The statuses of calls that are made at the same time, each by several."""
    runs = [pool.submit(calls[n % len(calls)]) for n in range(AT_ONCE)]
    return [run.result().status_code for run in runs]


def test_of_concurrent_captures_and_voids_one_succeeds(shop, pool):
    for _ in range(ROUNDS):
        order = reserved(shop)
        statuses = at_once(pool, lambda: shop.act(order, "captures/"), lambda: shop.act(order, "voids/"))  # noqa: B023
        assert sorted(statuses) == [201] + [409] * (AT_ONCE - 1)
        assert len(shop.read(order)["related_orders"]) == 1


def test_concurrent_partial_voids_release_no_more_than_is_reserved(shop, pool):
    order = reserved(shop)
    statuses = at_once(pool, lambda: shop.act(order, "voids/amount/", {"amount": 300}))
    assert statuses.count(201) == 3
    assert shop.act(order, "captures/amount/", {"amount": 101, "description": "rest"}).status_code == 400
    assert shop.act(order, "captures/amount/", {"amount": 100, "description": "rest"}).status_code == 201


def test_concurrent_refunds_return_no_more_than_was_captured(shop, pool):
    order = shop.own_checkout()
    target = f"/sandbox/v1/orders/{order['id']}/refunds/"
    statuses = at_once(
        pool, lambda: shop.send("POST", target, {"amount": 300}),
        lambda: control(shop.bank, f"/gateway/orders/{order['id']}/refund", {"amount": 300}),
    )  # fmt: skip
    assert sum(status < 300 for status in statuses) == 3
    assert shop.read(order)["refunded_amount"] == 900


def test_a_setup_token_stores_one_of_several_concurrent_cards(shop, pool):
    for _ in range(ROUNDS):
        order = shop.card_order()
        statuses = at_once(pool, lambda: shop.store(order))  # noqa: B023
        assert sorted(statuses) == [201] + [400] * (AT_ONCE - 1)


def test_an_order_with_concurrent_payments_is_paid_once(shop, pool):
    for _ in range(ROUNDS):
        order, hosted = shop.card_order(), shop.order()
        token = shop.card(order)
        statuses = at_once(pool, lambda: shop.authenticate(order, token))  # noqa: B023
        assert sorted(statuses) == [200] + [409] * (AT_ONCE - 1)
        path = f"/gateway/orders/{hosted['id']}/pay"
        paid = at_once(
            pool, lambda: control(shop.bank, path, {"outcome": "approved"}),  # noqa: B023
            lambda: control(shop.bank, path, {"outcome": "cancelled"}),  # noqa: B023
        )  # fmt: skip
        assert sorted(paid) == [200] + [400] * (AT_ONCE - 1)


def test_concurrent_one_click_payments_make_an_order_each(shop, pool):
    first = shop.own_checkout(transaction={"payment_method_details": {"one_click_type": "first"}})
    details = {
        "one_click_type": "one-click", "first_transaction_id": first["transactions"][0]["id"], "cvc": shop.cvc,
    }  # fmt: skip
    made = pool.map(lambda _: shop.card_order(transaction={"payment_method_details": details}), range(AT_ONCE))
    assert Counter(order["status"] for order in made) == {"completed": AT_ONCE}


def test_of_a_void_and_the_concurrent_end_of_a_delayed_authorisation_one_succeeds(shop, pool):
    for _ in range(ROUNDS):
        orders = [
            shop.own_checkout(transaction={"capture_mode": "delayed", "expiration_period": "PT1H"})
            for _ in range(AT_ONCE - 1)
        ]
        moving = pool.submit(shop.advance, 3600)
        voids = [pool.submit(shop.act, order, "voids/") for order in orders]
        moving.result()
        for order, void in zip(orders, voids, strict=True):
            (made,) = shop.read(order)["related_orders"]
            kind = "void_of_order_id" if void.result().status_code == 201 else "capture_of_order_id"
            assert shop.read({"id": made})[kind] == order["id"]
