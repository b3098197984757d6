"""The life of a payment. Source: PSD2 document, part A section 3."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tppkit.errors import LocalProtocolError
from tppkit.protocol.machine import Machine


class TransactionStatus(StrEnum):
    """transactionStatus; section 3 gives the meanings."""

    RCVD = "RCVD"
    ACTC = "ACTC"
    ACSP = "ACSP"
    ACSC = "ACSC"
    RJCT = "RJCT"
    CANC = "CANC"


class Trigger(StrEnum):
    """The triggers of a payment's moves."""

    STARTED = "started"  # the customer begins the approval; only with a setting of the bank
    APPROVED = "approved"
    DECLINED = "declined"
    EXECUTED = "executed"
    FAILED = "failed"  # no funds, no account of the payee, or no instant rail for the instant product
    EXPIRED = "expired"
    CANCELLED = "cancelled"


# Section 3, table "From / Trigger / To". Not shown there: the moves into and out of ACTC (assumption payment-actc), declined
# (assumption payment-declined) and failed, which the meaning of RJCT names.
PAYMENT: Machine[TransactionStatus, Trigger] = Machine(
    initial=TransactionStatus.RCVD,
    moves={
        (TransactionStatus.RCVD, Trigger.APPROVED): TransactionStatus.ACSP,
        (TransactionStatus.RCVD, Trigger.DECLINED): TransactionStatus.RJCT,
        (TransactionStatus.RCVD, Trigger.EXPIRED): TransactionStatus.RJCT,
        (TransactionStatus.RCVD, Trigger.CANCELLED): TransactionStatus.CANC,
        (TransactionStatus.RCVD, Trigger.STARTED): TransactionStatus.ACTC,
        (TransactionStatus.ACTC, Trigger.APPROVED): TransactionStatus.ACSP,
        (TransactionStatus.ACTC, Trigger.DECLINED): TransactionStatus.RJCT,
        (TransactionStatus.ACTC, Trigger.EXPIRED): TransactionStatus.RJCT,
        (TransactionStatus.ACTC, Trigger.FAILED): TransactionStatus.RJCT,
        (TransactionStatus.ACSP, Trigger.EXECUTED): TransactionStatus.ACSC,
        (TransactionStatus.ACSP, Trigger.FAILED): TransactionStatus.RJCT,
    },
)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a payment.

    Attributes:
        status: its state.
        active_at: its initiation, or the customer's last use of the approval page; aware UTC.
        opened: whether the customer has opened it.
        approved_at: when it was approved, or None; aware UTC.
        moved_by: the latest move, or None.
    """

    status: TransactionStatus
    active_at: datetime
    opened: bool = False
    approved_at: datetime | None = None
    moved_by: Trigger | None = None


def due_trigger(progress: Progress, *, now: datetime, inactivity: timedelta) -> Trigger | None:
    """Return the trigger that is due by time alone at `now`, or None; execution is not, because the bank writes it.

    Args:
        progress: the progress of the payment.
        now: the present, aware UTC.
        inactivity: how long an unapproved payment waits (assumption inactivity).
    """
    unapproved = progress.status in (TransactionStatus.RCVD, TransactionStatus.ACTC)
    return Trigger.EXPIRED if unapproved and now >= progress.active_at + inactivity else None


def cancel(progress: Progress) -> TransactionStatus:
    """Return the state after the provider's DELETE.

    Raises:
        LocalProtocolError: `payment.not-cancellable`, the customer has opened it or it is final.
    """
    if progress.opened or (progress.status, Trigger.CANCELLED) not in PAYMENT.moves:
        raise LocalProtocolError(
            "payment.not-cancellable", "the customer has opened the payment, or it is final", clause="PSD2 document A.3"
        )
    return PAYMENT.move(progress.status, Trigger.CANCELLED)


def reported_status(status: TransactionStatus) -> TransactionStatus:
    """Return the status for a poll: CANC is only in the answer to DELETE, later polls report RJCT."""
    return TransactionStatus.RJCT if status is TransactionStatus.CANC else status
