"""The table of payments, with its statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from sqlalchemy import Connection, MetaData, String, bindparam, select

from tppkit.protocol.psd2 import PaymentInitiation, PaymentProduct
from tppkit.protocol.psd2.payment import Progress
from tppkit.sandbox.bank.tables import TRANSFERS
from tppkit.sandbox.queries import Newest, TransferCheck
from tppkit.sql.records import KEY, UNIQUE, Fields, Records
from tppkit.sql.statement import Statement

SOURCE = "psd2"  # source of this interface's transfers in the ledger
_ID = re.compile("[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class StoredPayment:
    """A payment.

    Attributes:
        payment_id: opaque id.
        organization: organizationIdentifier of the provider that initiated it.
        product: the payment product.
        body: the initiation's body as received.
        link_token: the secret part of the approval link.
        redirect_uri: where the payer's browser returns, or None.
        progress: its state.
        provider_name: name of the provider in its certificate, or None.
    """

    payment_id: Annotated[str, String(64), KEY]
    organization: Annotated[str, String(256)]
    product: Annotated[PaymentProduct, String(64)]
    body: bytes
    link_token: Annotated[str, String(64), UNIQUE]
    redirect_uri: Annotated[str | None, String(2048)]
    progress: Annotated[Progress, Fields(status=String(4), moved_by=String(16))]
    provider_name: Annotated[str | None, String(256)] = None

    @property
    def initiation(self) -> PaymentInitiation:
        """The payment as the provider has initiated it."""
        return PaymentInitiation.from_wire(self.body, unknown_fields=True)


TABLES = MetaData()
PAYMENTS = Records(StoredPayment, "payments", TABLES, changing=["progress"])
_BY_LINK = Statement(select(PAYMENTS.table).where(PAYMENTS.c.link_token == bindparam("of_link")).with_for_update())
_IDS = select(PAYMENTS.c.payment_id)
newest_payments = Newest(PAYMENTS, PAYMENTS.c.active_at)
# A payment that the customer has not approved has no transfer; one that fails at execution has a failed one.
check_payments = TransferCheck(
    SOURCE, key=PAYMENTS.c.payment_id, state=PAYMENTS.c.status,
    of_payment=(TRANSFERS.c.source == SOURCE) & (TRANSFERS.c.order_id == PAYMENTS.c.payment_id),
    allowed=["RCVD ", "ACTC ", "CANC ", "RJCT ", "RJCT failed", "ACSP pending", "ACSC booked"],
)  # fmt: skip


def is_id(text: str) -> bool:
    """Whether a text can be an id or a token of the bank, because PostgreSQL rejects some texts in queries."""
    return _ID.fullmatch(text) is not None


def lock_payment_by_link(db: Connection, link_token: str) -> StoredPayment | None:
    """Return the payment with this approval link, locked for a change, or None."""
    return PAYMENTS.first(db, _BY_LINK, {"of_link": link_token})


def payment_ids(db: Connection) -> Iterator[str]:
    """Return the ids of all payments."""
    return iter(db.execute(_IDS).scalars())
