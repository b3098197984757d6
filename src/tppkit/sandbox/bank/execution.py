"""Carry out the transfers that are due, for the interface that ordered them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from tppkit.sandbox.bank.ledger import Transfer, drop_transfer, due_transfers

_LOGGER = logging.getLogger("tppkit.sandbox.execution")


def carry_out(db: Connection, source: str, at: datetime, execute: Callable[[Connection, Transfer], None]) -> None:
    """Let an interface carry out its transfers that are due, in the order of their time.

    A transfer that cannot be carried out because of a defect is logged and ended, so that it does not hold up the others; the check of
    the interface names it.
    """
    for transfer in due_transfers(db, source, at):
        try:
            with db.begin_nested():
                execute(db, transfer)
        except Exception as e:  # a defect of this transfer must not hold up the others
            if isinstance(e, SQLAlchemyError) and not isinstance(e, DataError | IntegrityError):
                raise  # the database fails, not this transfer
            _LOGGER.exception("the transfer %s cannot be carried out", transfer.id)
            drop_transfer(db, transfer)
