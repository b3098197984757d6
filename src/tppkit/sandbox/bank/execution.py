"""Execute the due transfers of an interface."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from sqlalchemy import Connection

from tppkit.sandbox.bank.ledger import drop_transfer, due_transfers
from tppkit.sandbox.bank.tables import Transfer
from tppkit.sandbox.clock import run_contained


def execute_due(db: Connection, source: str, at: datetime, execute: Callable[[Connection, Transfer], None]) -> None:
    """Execute the due transfers of an interface, in the order of their time.

    After an internal error the transfer is dropped, and the consistency check of the interface reports it.
    """
    for transfer in due_transfers(db, source, at):
        if not run_contained(db, f"the transfer {transfer.id}", partial(execute, db, transfer)):
            drop_transfer(db, transfer)
