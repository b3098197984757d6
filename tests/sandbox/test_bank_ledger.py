"""The bank's ledger: bookings, pending transfers, and the findings of the check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine, text

from tppkit.errors import FormatError, LocalProtocolError
from tppkit.sandbox.bank import customers, ledger, tables
from tppkit.sandbox.bank.customers import Account
from tppkit.sandbox.bank.ledger import CLEARING, EXCHANGE, Booking, Move
from tppkit.sandbox.bank.tables import Transfer
from tppkit.sandbox.bank.zone import bank_day, day_end, day_start

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
ACCOUNTS = [
    Account(f"a{i}", iban, "Account", f"Owner {i}", "personal", ("EUR",))
    for i, iban in enumerate(["LT029999900000000001", "LT729999900000000002", "LT459999900000000003"])
]
FOREIGN = "DE89370400440532013000"


def open_books() -> Iterator[Connection]:
    with create_engine("sqlite://").begin() as db:
        for metadata in (customers.TABLES, tables.TABLES):
            metadata.create_all(db)
        for account in ACCOUNTS:
            customers.ACCOUNTS.add(db, account)
            pay_in(db, account.id, 100_00, at=NOW)
        yield db


def pay_in(db: Connection, account: str, amount: int, *, at: datetime) -> None:
    post(db, f"in-{account}-{at.isoformat()}", at, Move(CLEARING, account, amount))


def post(db: Connection, transaction_id: str, at: datetime, *moves: Move) -> None:
    ledger.post(db, [Booking(transaction_id, at, "Debtor", "Creditor", None, moves)])


def transfer(number: int, amount: int, *, debtor: int = 0, creditor: str = FOREIGN) -> Transfer:
    due_at = NOW + timedelta(seconds=number)
    return Transfer(
        "test", f"o-{number}", f"a{debtor}", amount, "Debtor", creditor, "Creditor", None, True, NOW, due_at
    )


@pytest.fixture
def db() -> Iterator[Connection]:
    yield from open_books()


ORDERS = st.lists(
    st.tuples(
        st.integers(1, 80_00),
        st.integers(0, 2),
        st.sampled_from([FOREIGN, *(account.iban for account in ACCOUNTS)]),
        st.sampled_from(["book", "drop", "leave"]),
    ).filter(lambda order: order[2] != ACCOUNTS[order[1]].iban),
    max_size=12,
)


@given(ORDERS)
def test_transfers_conserve_money_and_never_overdraw(orders):
    for db in open_books():
        spendable = dict.fromkeys([account.id for account in ACCOUNTS], 100_00)
        owner = {account.iban: account.id for account in ACCOUNTS}
        waiting = []
        for number, (amount, debtor, creditor, end) in enumerate(orders):
            one = transfer(number, amount, debtor=debtor, creditor=creditor)
            if amount > spendable[one.account]:
                with pytest.raises(LocalProtocolError) as caught:
                    ledger.start_transfer(db, one)
                assert caught.value.code == "account.funds"
                continue
            ledger.start_transfer(db, one)
            spendable[one.account] -= amount
            assert ledger.available(db, one.account) == {"EUR": spendable[one.account]}
            if end == "leave":
                waiting.append(one.id)
            elif end == "drop":
                ledger.drop_transfer(db, one)
                spendable[one.account] += amount
            else:
                assert ledger.book_transfer(db, one, at=one.due_at)
                if creditor in owner:
                    spendable[owner[creditor]] += amount
        assert {account: ledger.available(db, account)["EUR"] for account in spendable} == spendable
        assert {one.id for account in spendable for one in ledger.pending(db, account)} == set(waiting)
        assert ledger.check(db) == []


def test_a_transfer_whose_money_is_missing_at_execution_is_not_booked(db):
    one = transfer(1, 60_00)
    ledger.start_transfer(db, one)
    post(db, "taken", NOW, Move("a0", CLEARING, 50_00))
    assert not ledger.book_transfer(db, one, at=NOW)
    assert ledger.check(db) == []


@pytest.mark.parametrize(
    ("amount", "currency", "cents"), [(12_50, "USD", 11_57), (-12_50, "USD", -11_57), (-1, "CZK", -1), (7, "EUR", 7)]
)
def test_an_amount_has_a_value_in_euro(amount, currency, cents):
    assert ledger.in_euro(amount, currency) == cents


def test_a_payment_between_customers_is_one_booking_with_two_sides(db):
    one = transfer(1, 5_00, creditor=ACCOUNTS[1].iban)
    ledger.start_transfer(db, one)
    assert ledger.book_transfer(db, one, at=NOW + timedelta(hours=1))
    (paid, _), (received, _) = (
        ledger.booked(db, account, date(2026, 1, 1), date(2026, 12, 31), limit=2) for account in ("a0", "a1")
    )
    assert (paid.transaction_id, paid.amount_minor) == (one.id, -5_00)
    assert (received.transaction_id, received.amount_minor) == (one.id, 5_00)


def test_a_transfer_debits_only_its_own_currency(db):
    post(db, "in-gbp", NOW, Move(CLEARING, "a0", 20_00, "GBP"))
    one, more = (replace(transfer(number, 15_00), currency="GBP") for number in (1, 2))
    ledger.start_transfer(db, one)
    with pytest.raises(LocalProtocolError):
        ledger.start_transfer(db, more)
    assert ledger.book_transfer(db, one, at=NOW)
    assert ledger.available(db, "a0") == {"EUR": 100_00, "GBP": 5_00}
    listed = [
        (entry.amount_minor, entry.currency)
        for entry in ledger.booked(db, "a0", date.min, date.max, limit=9, both_sides=True)
    ]
    assert sorted(listed) == [(-15_00, "GBP"), (20_00, "GBP"), (100_00, "EUR")]
    assert ledger.check(db) == []


def test_transfers_fall_due_in_the_order_of_their_time(db):
    for number in (3, 1, 2):
        ledger.start_transfer(db, transfer(number, 1_00))
    assert ledger.next_due(db, "test") == NOW + timedelta(seconds=1)
    executed: list[str] = []
    ledger.execute_due(db, "test", NOW + timedelta(seconds=2), lambda db, one: executed.append(one.order_id))
    assert executed == ["o-1", "o-2"]
    assert ledger.next_due(db, "other") is None


def test_a_transfers_id_does_not_show_its_order():
    assert transfer(1, 1).id != transfer(2, 1).id
    assert "o-1" not in transfer(1, 1).id


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("UPDATE entries SET amount = amount + 1 WHERE account = 'a0'", "do not add up to zero"),
        ("UPDATE balances SET amount = amount + 1 WHERE account = 'a0'", "not the sum of its entries"),
        ("DELETE FROM balances WHERE account = 'a0'", "not the sum of its entries"),
        ("DELETE FROM bookings", "no booking of its time"),
        ("UPDATE bookings SET booked_at = booked_at + 1", "no booking of its time"),
        ("UPDATE balances SET amount = -1 WHERE account = 'a0'", "below zero"),
        ("UPDATE transfers SET state = 'pending'", "a transfer and its booking differ"),
        ("UPDATE transfers SET amount = amount + 1", "a transfer and its booking differ"),
    ],
)
def test_the_check_finds_differences(damage, found, db):
    ledger.start_transfer(db, transfer(1, 5_00))
    ledger.book_transfer(db, transfer(1, 5_00), at=NOW)
    assert ledger.check(db) == []
    db.execute(text(damage))
    assert any(found in difference for difference in ledger.check(db))


def pages(db: Connection, first: date, last: date, limit: int) -> Iterator[list[str]]:
    after = None
    while page := ledger.booked(db, "a0", first, last, after=after, limit=limit):
        after = page[-1].transaction_id
        yield [one.transaction_id for one in page]


def test_a_window_has_whole_days_of_the_bank_newest_first(db):
    day = date(2026, 10, 25)  # 25 hours: summer time ends
    assert day_end(day) - day_start(day) == timedelta(hours=25)
    tick = timedelta(microseconds=1)
    for name, at in {
        "before": day_start(day) - tick,
        "first": day_start(day),
        "last": day_end(day) - tick,
        "after": day_end(day),
    }.items():
        post(db, name, at, Move(CLEARING, "a0", 1))
    assert list(pages(db, day, day, 10)) == [["last", "first"]]
    assert [bank_day(at) for at in (day_start(day), day_end(day) - tick)] == [day, day]


@pytest.mark.parametrize(("first", "last"), [(date.min, date.max), (date.min, date.min), (date.max, date.max)])
def test_a_window_at_the_ends_of_the_calendar_is_read(first, last, db):
    assert len(list(pages(db, first, last, 10))) == (first != last)


def test_pages_list_every_entry_once_while_new_ones_arrive(db):
    for number in range(25):  # several at one time
        post(db, f"t-{number:02}", NOW + timedelta(days=number // 3), Move(CLEARING, "a0", 1))
    fresh, seen = count(), []
    for page in pages(db, date(2026, 6, 1), date(2026, 12, 31), 4):
        seen += page
        post(db, f"new-{next(fresh)}", NOW + timedelta(days=60), Move(CLEARING, "a0", 1))
    assert sorted(seen) == sorted({*seen})
    assert {f"t-{number:02}" for number in range(25)} <= set(seen)
    assert not [one for one in seen if one.startswith("new")]


def test_an_exchange_is_one_booking_with_two_entries(db):
    post(db, "exchange", NOW + timedelta(days=1), Move("a0", EXCHANGE, 10_00), Move(EXCHANGE, "a0", 10_80, "USD"))
    post(db, "dollars", NOW + timedelta(days=2), Move("a0", CLEARING, 1_08, "USD"))
    shown = [
        (one.transaction_id, one.amount_minor, one.currency)
        for one in ledger.booked(db, "a0", date.min, date.max, limit=3, both_sides=True)
    ]
    assert shown == [("dollars", -1_08, "USD"), ("exchange", 10_80, "USD"), ("exchange", -10_00, "EUR")]
    listed = ledger.booked(db, "a0", date.min, date.max, limit=9)
    assert [(one.transaction_id, one.currency) for one in listed[:2]] == [("dollars", "USD"), ("exchange", "EUR")]
    assert ledger.booked(db, "a0", date.min, date.max, after="exchange", limit=9) == listed[2:]


def test_a_page_begins_after_a_booking_of_the_account_only(db):
    post(db, "of another", NOW, Move(CLEARING, "a1", 1))
    for after in ("of another", "unknown"):
        with pytest.raises(FormatError) as caught:
            ledger.booked(db, "a0", date.min, date.max, after=after, limit=1)
        assert caught.value.code == "query.after"


def fill(db: Connection, entries: int) -> None:
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {entries})"
    start = 1_700_000_000_000_000
    row = f"SELECT printf('b%08d', i), {start} + i * 1000000, 'Debtor', 'Creditor', NULL FROM n"
    columns = "(transaction_id, booked_at, debtor_name, creditor_name, remittance)"
    db.execute(text(f"INSERT INTO bookings {columns} {numbers} {row}"))
    row = f"SELECT 'big', 'EUR', {start} + i * 1000000, printf('b%08d', i), 1 FROM n"
    db.execute(text(f"INSERT INTO entries (account, currency, booked_at, transaction_id, amount) {numbers} {row}"))


@pytest.mark.parametrize("entries", [1_000, 100_000])
def test_a_page_reads_only_the_rows_that_it_shows(entries, db):
    fill(db, entries)
    steps = 0

    def count_steps() -> int:
        nonlocal steps
        steps += 1
        return 0

    middle = f"b{entries // 2:08}"
    driver = db.connection.driver_connection
    assert driver is not None
    driver.set_progress_handler(count_steps, 100)  # instructions of SQLite's machine
    page = ledger.booked(db, "big", date(2020, 1, 1), date(2030, 1, 1), after=middle, limit=100)
    driver.set_progress_handler(None, 100)
    assert [page[0].transaction_id, page[-1].transaction_id] == [f"b{entries // 2 - 1:08}", f"b{entries // 2 - 100:08}"]
    assert 0 < steps < 50
