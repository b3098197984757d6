"""States of orders, transactions, payment links, setup tokens and authorisations. Source: gateway document, section 3.

The document shows states without transitions; for every move, see assumptions order-moves, transaction-moves, link-moves,
setup-token, authorisation-moves.
"""

from __future__ import annotations

from enum import StrEnum

from tppkit.protocol.machine import Machine


class OrderStatus(StrEnum):
    """The status of an order (3.1)."""

    NEW = "new"
    PROCESSING = "processing"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    ERROR = "error"
    SEE_TRANSACTIONS = "see-transactions"


class OrderTrigger(StrEnum):
    """What moves an order."""

    STARTED = "started"  # an attempt is under way
    PAID = "paid"  # an attempt was accepted, and no other is open
    MIXED = "mixed"  # an attempt was accepted while another is open
    CANCELLED = "cancelled"  # by the customer
    EXPIRED = "expired"
    FAILED = "failed"  # the only attempt that the order allows was declined


ORDER: Machine[OrderStatus, OrderTrigger] = Machine(
    initial=OrderStatus.NEW,
    moves={
        (OrderStatus.NEW, OrderTrigger.STARTED): OrderStatus.PROCESSING,
        (OrderStatus.NEW, OrderTrigger.CANCELLED): OrderStatus.CANCELLED,
        (OrderStatus.NEW, OrderTrigger.EXPIRED): OrderStatus.EXPIRED,
        (OrderStatus.NEW, OrderTrigger.FAILED): OrderStatus.ERROR,
        (OrderStatus.PROCESSING, OrderTrigger.PAID): OrderStatus.COMPLETED,
        (OrderStatus.PROCESSING, OrderTrigger.MIXED): OrderStatus.SEE_TRANSACTIONS,
        (OrderStatus.PROCESSING, OrderTrigger.CANCELLED): OrderStatus.CANCELLED,
        (OrderStatus.PROCESSING, OrderTrigger.EXPIRED): OrderStatus.EXPIRED,
        (OrderStatus.PROCESSING, OrderTrigger.FAILED): OrderStatus.ERROR,
    },
)


class TransactionStatus(StrEnum):
    """The status of a transaction; the values that the document shows (3.2)."""

    NEW = "new"
    ACCEPTED = "accepted"
    DECLINED = "declined"


class TransactionTrigger(StrEnum):
    """What moves a transaction."""

    ACCEPTED = "accepted"
    DECLINED = "declined"
    EXPIRED = "expired"


TRANSACTION: Machine[TransactionStatus, TransactionTrigger] = Machine(
    initial=TransactionStatus.NEW,
    moves={
        (TransactionStatus.NEW, TransactionTrigger.ACCEPTED): TransactionStatus.ACCEPTED,
        (TransactionStatus.NEW, TransactionTrigger.DECLINED): TransactionStatus.DECLINED,
        (TransactionStatus.NEW, TransactionTrigger.EXPIRED): TransactionStatus.DECLINED,
    },
)


class LinkStatus(StrEnum):
    """The status of a payment link (3.3)."""

    NEW = "new"
    PROCESSING = "processing"
    ALL_UNSUCCESSFUL = "all_unsuccessful"
    COMPLETED = "completed"
    EXPIRED = "expired"


class LinkTrigger(StrEnum):
    """What moves a payment link."""

    STARTED = "started"
    PAID = "paid"
    FAILED = "failed"  # every attempt so far
    EXPIRED = "expired"  # waits for an attempt under way


PAYMENT_LINK: Machine[LinkStatus, LinkTrigger] = Machine(
    initial=LinkStatus.NEW,
    moves={
        (LinkStatus.NEW, LinkTrigger.STARTED): LinkStatus.PROCESSING,
        (LinkStatus.NEW, LinkTrigger.EXPIRED): LinkStatus.EXPIRED,
        (LinkStatus.PROCESSING, LinkTrigger.PAID): LinkStatus.COMPLETED,
        (LinkStatus.PROCESSING, LinkTrigger.FAILED): LinkStatus.ALL_UNSUCCESSFUL,
        (LinkStatus.ALL_UNSUCCESSFUL, LinkTrigger.STARTED): LinkStatus.PROCESSING,
        (LinkStatus.ALL_UNSUCCESSFUL, LinkTrigger.EXPIRED): LinkStatus.EXPIRED,
    },
)


class SetupTokenState(StrEnum):
    """Whether a setup token has stored a card (4.2); its 300 seconds are no state."""

    UNUSED = "unused"
    USED = "used"


class SetupTokenTrigger(StrEnum):
    """What moves a setup token; a refused card does not."""

    STORED = "stored"


SETUP_TOKEN: Machine[SetupTokenState, SetupTokenTrigger] = Machine(
    initial=SetupTokenState.UNUSED, moves={(SetupTokenState.UNUSED, SetupTokenTrigger.STORED): SetupTokenState.USED}
)


class AuthorisationState(StrEnum):
    """Whether a reserved amount can still be captured (3.4)."""

    OPEN = "open"
    CAPTURED = "captured"
    VOIDED = "voided"
    LAPSED = "lapsed"


class AuthorisationTrigger(StrEnum):
    """What moves an authorisation."""

    CAPTURED = "captured"  # in full or in part, by a request or at the end of a delayed capture
    REDUCED = "reduced"  # voided in part
    VOIDED = "voided"
    LAPSED = "lapsed"


AUTHORISATION: Machine[AuthorisationState, AuthorisationTrigger] = Machine(
    initial=AuthorisationState.OPEN,
    moves={
        (AuthorisationState.OPEN, AuthorisationTrigger.CAPTURED): AuthorisationState.CAPTURED,
        (AuthorisationState.OPEN, AuthorisationTrigger.REDUCED): AuthorisationState.OPEN,
        (AuthorisationState.OPEN, AuthorisationTrigger.VOIDED): AuthorisationState.VOIDED,
        (AuthorisationState.OPEN, AuthorisationTrigger.LAPSED): AuthorisationState.LAPSED,
    },
)
