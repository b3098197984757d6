"""BALANCE and LIST, from the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tppkit.protocol.legacy import Transaction
from tppkit.protocol.legacy.endpoints import BALANCE, TRANSACTION_LIST
from tppkit.sandbox.bank.ledger import available, to_decimal
from tppkit.sandbox.cell import Answer, Handler, HostCall
from tppkit.sandbox.legacy.access import account_of_caller
from tppkit.sandbox.legacy.records import account_records
from tppkit.sandbox.legacy.tables import AIS


def show_balance(call: HostCall[None]) -> Answer[Mapping[str, Decimal]]:
    """GET /ais/<access_token>/BALANCE: an amount for each currency of the account."""
    account = account_of_caller(call, AIS)
    held = available(call.db, account.id)
    return Answer({currency: Decimal(to_decimal(held.get(currency, 0))) for currency in account.currencies})


def list_transactions(call: HostCall[None]) -> Answer[tuple[Transaction, ...]]:
    """GET /ais/<access_token>/LIST."""
    return Answer(account_records(call.db, account_of_caller(call, AIS)))


HANDLERS: tuple[Handler[Any, Any], ...] = (
    Handler(BALANCE, show_balance, writes=False),
    Handler(TRANSACTION_LIST, list_transactions, writes=False),
)
