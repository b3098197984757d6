"""The database: what is stored comes back, a failed transaction leaves nothing, and no failure shows what was stored."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import psycopg
import pytest

from tppkit.errors import ConfigurationError, TransportError
from tppkit.protocol.psd2 import PaymentProduct, TransactionStatus
from tppkit.protocol.psd2.payment import Progress
from tppkit.sandbox.store import Store, StoredPayment, Transaction, UsedRequestId

NOW = datetime(2026, 6, 1, 12, 0, 0, 123456, tzinfo=UTC)
PAYMENT = StoredPayment(
    "p-1",
    "PSDLT-BL-LB000000",
    PaymentProduct.SEPA,
    b'{"a":1}\xff',
    "SECRET-LINK",
    None,
    Progress(TransactionStatus.RCVD, NOW),
)
USED = UsedRequestId("ab" * 32, NOW, 201, b"{}", "p-1")
ID = "0b4d6a3e-6c58-4f0e-9a55-8a3a4f2f7c11"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.sqlite'}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store(url)
    yield opened
    opened.close()


@pytest.mark.parametrize("redirect_uri", [None, "https://tpp.example/back"])
def test_a_payment_comes_back_by_id_and_by_link(redirect_uri: str | None, store: Store) -> None:
    payment = replace(PAYMENT, redirect_uri=redirect_uri)
    with store.transaction() as tx:
        tx.add_payment(payment)
    with store.transaction() as tx:
        assert tx.payment("p-1") == tx.payment_by_link("SECRET-LINK") == payment


def test_what_was_never_stored_is_none(store: Store) -> None:
    with store.transaction() as tx:
        assert tx.payment("p-1") is None
        assert tx.payment_by_link("p-1") is None
        assert tx.used_request_id("PSDLT-BL-LB000000", ID) is None


@pytest.mark.parametrize("status", list(TransactionStatus))
def test_progress_comes_back(status: TransactionStatus, store: Store) -> None:
    progress = Progress(status, NOW + timedelta(microseconds=1), opened=True, approved_at=NOW + timedelta(days=1))
    with store.transaction() as tx:
        tx.add_payment(PAYMENT)
        tx.set_progress("p-1", progress)
        assert tx.payment("p-1") == replace(PAYMENT, progress=progress)


def test_the_progress_of_other_payments_stays(store: Store) -> None:
    with store.transaction() as tx:
        tx.add_payment(PAYMENT)
        tx.add_payment(replace(PAYMENT, payment_id="p-2", link_token="other"))
        tx.set_progress("p-2", Progress(TransactionStatus.RJCT, NOW))
        assert tx.payment("p-1") == PAYMENT


def test_a_transaction_that_fails_leaves_nothing(store: Store) -> None:
    with suppress(ZeroDivisionError), store.transaction() as tx:
        tx.add_payment(PAYMENT)
        _ = 1 / 0
    with store.transaction() as tx:
        assert tx.payment("p-1") is None


@pytest.mark.parametrize("again", [replace(PAYMENT, link_token="other"), replace(PAYMENT, payment_id="p-2")])
def test_ids_and_links_stand_once_and_a_failure_does_not_show_them(again: StoredPayment, store: Store) -> None:
    with store.transaction() as tx:
        tx.add_payment(PAYMENT)
    with pytest.raises(TransportError) as caught, store.transaction() as tx:
        tx.add_payment(again)
    assert "SECRET-LINK" not in str(caught.value)


def test_a_request_id_comes_back_in_any_case(store: Store) -> None:
    with store.transaction() as tx:
        tx.remember_request_id("A", ID.upper(), USED, forget_before=NOW - timedelta(hours=1))
        assert tx.used_request_id("A", ID) == tx.used_request_id("A", ID.upper()) == USED
        assert tx.used_request_id("B", ID) is None


def test_a_new_first_use_takes_the_place_of_the_old_one(store: Store) -> None:
    later = replace(USED, fingerprint="cd" * 32)
    with store.transaction() as tx:
        tx.remember_request_id("A", ID, USED, forget_before=NOW - timedelta(hours=1))
        tx.remember_request_id("A", ID, later, forget_before=NOW - timedelta(hours=1))
        assert tx.used_request_id("A", ID) == later


@pytest.mark.parametrize(("older_s", "remembered"), [(3600, False), (3599, True)])
def test_what_is_older_than_the_window_is_forgotten(older_s: int, remembered: bool, store: Store) -> None:
    with store.transaction() as tx:
        tx.remember_request_id("A", ID, USED, forget_before=NOW - timedelta(hours=1))
        now = NOW + timedelta(seconds=older_s)
        tx.remember_request_id("B", ID, replace(USED, first_at=now), forget_before=now - timedelta(hours=1))
        assert (tx.used_request_id("A", ID) is not None) == remembered


def test_each_answer_to_a_request_is_counted_for_itself(store: Store) -> None:
    first = ("A", ID, "ab" * 32, "p-1")
    others = [("B", *first[1:]), ("A", ID, "cd" * 32, "p-1"), (*first[:3], "FORMAT_ERROR")]
    counted = []
    for organization, request_id, fingerprint, answer in (first, first, *others, ("A", ID.upper(), *first[2:])):
        with store.transaction() as tx:
            counted.append(tx.count_answer(organization, request_id, fingerprint=fingerprint, answer=answer))
    assert counted == [1, 2, 1, 1, 1, 3]


def used_ids(url: str) -> int:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as other:
        return int(other.execute("SELECT count(*) FROM request_ids").fetchone()[0])


def test_many_old_ids_are_forgotten_a_few_at_a_time(url: str, store: Store) -> None:
    with store.transaction() as tx:
        for number in range(250):
            tx.remember_request_id("A", str(number), USED, forget_before=NOW - timedelta(hours=1))
    left = []
    for number in range(3):
        now = NOW + timedelta(hours=2)
        with store.transaction() as tx:
            tx.remember_request_id(
                "B", str(number), replace(USED, first_at=now), forget_before=now - timedelta(hours=1)
            )
        left.append(used_ids(url))
    assert left == [151, 52, 3]


@pytest.mark.parametrize("existing", [False, True], ids=["new", "of an older version"])
def test_old_ids_are_found_by_an_index(existing: bool, url: str) -> None:
    path = url.removeprefix("sqlite:///")
    Store(url).close()
    if existing:
        with closing(sqlite3.connect(path)) as older:
            older.execute("DROP INDEX ix_request_ids_first_at")
        Store(url).close()
    with closing(sqlite3.connect(path)) as other:
        plan = other.execute("EXPLAIN QUERY PLAN SELECT * FROM request_ids WHERE first_at <= 1").fetchall()
    assert "USING INDEX ix_request_ids_first_at" in str(plan)


@pytest.fixture(params=["sqlite", "postgresql"])
def locked(request: pytest.FixtureRequest, url: str) -> Iterator[Store]:
    """A store whose tables another program has locked."""
    if request.param == "postgresql":
        libpq: str = request.getfixturevalue("postgresql_url")
        opened = Store(libpq.replace("postgresql:", "postgresql+psycopg:", 1))
        with psycopg.connect(libpq) as other:
            other.execute("LOCK TABLE payments")
            yield opened
    else:
        opened = Store(url)
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as other:
            other.execute("BEGIN IMMEDIATE")
            yield opened
    opened.close()


def test_a_lock_of_another_program_is_waited_for_a_second(locked: Store) -> None:
    began = time.monotonic()
    with pytest.raises(TransportError) as caught, locked.transaction() as tx:
        tx.payment("p-1")
    assert caught.value.code == "database.unavailable"
    assert 0.9 < time.monotonic() - began < 3


def test_a_database_in_memory_can_be_used() -> None:
    store = Store("sqlite://")
    asyncio.run(store.run(lambda tx: tx.add_payment(PAYMENT)))
    assert asyncio.run(store.run(lambda tx: tx.payment("p-1"))) == PAYMENT
    store.close()


def test_a_job_that_waits_beyond_the_time_limit_never_runs(url: str) -> None:
    store, begun = Store(url, time_limit_s=0.2), Event()

    def slow(tx: Transaction) -> None:
        begun.set()
        time.sleep(0.5)

    async def both() -> list[BaseException | None]:
        jobs = (store.run(slow), store.run(lambda tx: tx.add_payment(PAYMENT)))
        return await asyncio.gather(*jobs, return_exceptions=True)

    failures = asyncio.run(both())
    assert begun.is_set()
    assert [getattr(failure, "code", None) for failure in failures] == ["database.unavailable"] * 2
    store.close()
    again = Store(url)
    with again.transaction() as tx:
        assert tx.payment("p-1") is None
    again.close()


def test_what_was_stored_is_there_when_it_is_opened_again(url: str, store: Store) -> None:
    with store.transaction() as tx:
        tx.add_payment(PAYMENT)
    store.close()
    again = Store(url)
    with again.transaction() as tx:
        assert tx.payment("p-1") == PAYMENT
    again.close()


@pytest.mark.parametrize(
    "address", ["nonsense", "nothing://x", "sqlite:////nowhere/at/all.sqlite", "postgresql+nothing://u:SECRET@h/d"]
)
def test_a_database_that_cannot_be_opened_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Store(address)
    assert caught.value.code == "database.unusable"
    assert "SECRET" not in str(caught.value)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(ConfigurationError) as caught:
        Store(f"sqlite:///{tmp_path / 'store.sqlite'}")
    assert caught.value.code == "database.unusable"
