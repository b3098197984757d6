"""The initial data of a bank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import Connection, create_engine

from tppkit._iban import is_iban
from tppkit.sandbox.bank import customers, ledger, tables
from tppkit.sandbox.bank.customers import accounts_of, approving_accounts, find_account
from tppkit.sandbox.bank.ledger import Booked
from tppkit.sandbox.bank.seed import seed_bank

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


@contextmanager
def bank(seed: int = 0) -> Iterator[Connection]:
    with create_engine("sqlite://").begin() as db:
        for metadata in (customers.TABLES, tables.TABLES):
            metadata.create_all(db)
        seed_bank(db, seed=seed, at=NOW)
        yield db


def bookings(db: Connection) -> dict[str, tuple[Booked, ...]]:
    accounts = {account.id for customer in customers.customers(db) for account in accounts_of(db, customer.id)}
    return {one: ledger.booked(db, one, date.min, date.max, limit=1000) for one in sorted(accounts)}


def test_the_same_seed_gives_the_same_data_and_another_seed_other_data():
    made = []
    for seed in (0, 0, 1):
        with bank(seed) as db:
            made.append(bookings(db))
    assert made[0] == made[1]
    assert made[0] != made[2]


def test_every_account_has_a_year_with_more_than_20_bookings_in_a_ledger_that_agrees():
    with bank() as db:
        assert ledger.check(db) == []
        for booked in bookings(db).values():
            assert len(booked) > 20
            assert NOW - timedelta(days=366) < booked[-1].booked_at
            assert [one.booked_at for one in booked] == sorted((one.booked_at for one in booked), reverse=True)
            assert booked[0].booked_at < NOW


def test_a_bank_that_has_customers_is_not_seeded_again():
    with bank() as db:
        before = bookings(db)
        seed_bank(db, seed=1, at=NOW)
        assert bookings(db) == before


def test_customers_have_personal_and_represented_accounts_of_several_currencies():
    with bank() as db:
        everyone = customers.customers(db)
        accounts = {one.id: accounts_of(db, one.id) for one in everyone}
        assert all(len(one.country) == 3 and one.phone.startswith("+") for one in everyone)
        every = [account for some in accounts.values() for account in some]
        assert all(is_iban(account.iban) and find_account(db, account.iban) == account for account in every)
        assert all(ledger.available(db, account.id).keys() == set(account.currencies) for account in every)
        assert {account.kind for account in every} == {"personal", "business"}
        assert len(every) > len(set(every))  # a business that two customers represent
        assert len({account.currencies for account in every}) > 2


def test_the_first_account_pays_any_trial_and_another_hardly_any():
    with bank() as db:
        _, first = next(approving_accounts(db, None))
        assert ledger.available(db, first.id)["EUR"] > 1_000_000_00
        held = {one: ledger.available(db, one)["EUR"] for one in bookings(db)}
        assert min(held.values()) < 10_00
        assert not list(approving_accounts(db, "DE89370400440532013000"))
