"""Dataclasses as rows of tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Annotated

import pytest
from sqlalchemy import BigInteger, Column, Connection, MetaData, String, create_engine, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.schema import CreateTable

from tppkit.protocol.psd2 import AccountReference
from tppkit.sql.records import KEY, UNIQUE, Fields, Form, Named, Records
from tppkit.sql.statement import Statement

AT = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)


class State(StrEnum):
    NEW = "new"
    PAID = "paid"


@dataclass(frozen=True, slots=True)
class Hold:
    amount: int
    until: datetime
    voided: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sale:
    shop: Annotated[str, String(8), KEY]
    id: Annotated[str, String(8), KEY]
    token: Annotated[str, String(16), UNIQUE]
    state: Annotated[State, String(4)]
    body: bytes
    at: datetime
    day: date
    is_test: bool
    tags: Annotated[tuple[str, ...], Form(String(20), ",".join, lambda text: tuple(text.split(",")))]
    account: AccountReference
    amount_minor: Annotated[int, Named("amount")]
    note: Annotated[str | None, String(40)] = None
    hold: Annotated[Hold | None, Fields({"voided": 0}, amount=Named("held"))] = None


SALES = Records(
    Sale, "sales", MetaData(), changing=["state", "hold", "size"], derived={Column("size", BigInteger): lambda sale: len(sale.body)}
)  # fmt: skip
NEWEST = Statement(select(SALES.table).order_by(SALES.c.id.desc()))
SALE = Sale(
    shop="s", id="1", token="t", state=State.NEW, body=b"\0", at=AT, day=AT.date(), is_test=True, tags=("a", "b"),
    account=AccountReference(iban="LT121000011101001000"), amount_minor=1250,
)  # fmt: skip


@pytest.fixture
def db() -> Iterator[Connection]:
    with create_engine("sqlite://").begin() as connection:
        SALES.table.metadata.create_all(connection)
        yield connection


def test_a_record_is_read_as_it_was_stored(db):
    SALES.add(db, SALE)
    assert SALES.find(db, "s", "1") == SALE
    assert SALES.lock(db, "s", "1") == SALE
    assert SALES.find(db, "s", "2") is None


def test_each_field_has_its_column():
    assert [line.strip().rstrip(",") for line in str(CreateTable(SALES.table)).split("\n") if line.startswith("\t")] == [
        "shop VARCHAR(8) NOT NULL", "id VARCHAR(8) NOT NULL", "token VARCHAR(16) NOT NULL", "state VARCHAR(4) NOT NULL",
        "body BLOB NOT NULL", "at BIGINT NOT NULL", "day VARCHAR(10) NOT NULL", "is_test BOOLEAN NOT NULL", "tags VARCHAR(20) NOT NULL",
        "account BLOB NOT NULL", "amount BIGINT NOT NULL", "note VARCHAR(40)", "held BIGINT", "until BIGINT", "voided BIGINT NOT NULL",
        "size BIGINT", "PRIMARY KEY (shop, id)", "UNIQUE (token)",
    ]  # fmt: skip


def test_values_are_stored_in_their_column_form(db):
    SALES.add(db, SALE)
    row = db.execute(select(SALES.table)).one()
    assert (row.state, row.at % 1_000_000, row.day, row.tags, row.size) == ("new", 5, "2026-03-01", "a,b", 1)
    assert (row.held, row.until, row.voided) == (None, None, 0)


def test_only_changing_fields_are_stored_again(db):
    SALES.add(db, SALE, replace(SALE, id="2", token="u"))
    held = Hold(7, AT, 3)
    SALES.set(db, replace(SALE, state=State.PAID, body=b"long", hold=held, note="no"))
    assert SALES.find(db, "s", "1") == replace(SALE, state=State.PAID, hold=held)
    assert SALES.find(db, "s", "2") == replace(SALE, id="2", token="u")
    assert db.execute(select(SALES.c.size).order_by(SALES.c.id)).scalars().all() == [4, 1]


def test_records_of_a_query_are_in_its_order(db):
    one, two = SALE, replace(SALE, id="2", token="u")
    SALES.add(db, one, two)
    assert SALES.all(db, NEWEST, {}) == (two, one)
    assert SALES.all(db, select(SALES.table).order_by(SALES.c.id), {}) == (one, two)
    assert SALES.first(db, NEWEST, {}) == two


def test_a_used_value_is_not_stored_twice(db):
    assert SALES.add_new(db, SALE)
    assert not SALES.add_new(db, replace(SALE, id="2"))
    with pytest.raises(IntegrityError):
        SALES.add(db, SALE)
    assert SALES.find(db, "s", "2") is None
