"""Payments: the browser chooses the id, so each step can be repeated and the bank pays once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, Field
from sqlalchemy import Row, select, update
from sqlalchemy.dialects.postgresql import insert

from backend.bank import ip_address, require_link
from backend.database import payments
from backend.sessions import CurrentCustomer
from tppkit.errors import RequestRefused
from tppkit.protocol.psd2 import AccountReference, InstructedAmount, PaymentInitiation
from tppkit.protocol.psd2.payment import PAYMENT

NEW = "new"  # until the bank has accepted the payment; then the bank's states
REFUSED = "refused"
REPEATABLE = timedelta(minutes=50)  # the bank remembers a request id for an hour

router = APIRouter()


class PaymentForm(BaseModel):
    """What the customer enters. The amount is a text, because a JSON number is a float."""

    creditor_name: str = Field(min_length=1, max_length=70)
    iban: str = Field(max_length=34)
    amount: Annotated[str, Field(pattern=r"^[0-9]{1,9}\.[0-9]{2}$")]


@router.put("/payments/{payment}")
def pay(payment: UUID, form: PaymentForm, request: Request, customer: CurrentCustomer) -> dict[str, Any]:
    """Make a payment, or repeat the call after a lost answer; the browser goes to `approve`."""
    state, now = request.app.state, datetime.now(UTC)
    amount = Decimal(form.amount)
    initiation = PaymentInitiation(  # raises FormatError, which is answered 422
        instructed_amount=InstructedAmount(currency="EUR", amount=amount),
        creditor_account=AccountReference(iban=form.iban),
        creditor_name=form.creditor_name,
    )
    asked = {"customer_id": customer.id, "creditor_name": form.creditor_name, "iban": form.iban, "amount": amount}
    row = {"id": payment, **asked, "created_at": now, "status": NEW}
    with state.engine.begin() as db:
        new = insert(payments).values(row).on_conflict_do_nothing().returning(payments.c.id)
        is_first = db.scalar(new) is not None
        stored = db.execute(select(payments).where(payments.c.id == payment)).one()
    if any(getattr(stored, name) != value for name, value in asked.items()):
        raise HTTPException(409, "this id was used for another payment")
    if stored.status != NEW:
        return _shown(stored)
    if now - stored.created_at > REPEATABLE:
        raise HTTPException(409, "the bank did not answer, and may have made the payment: look at the account first")
    try:
        initiated = state.bank.initiate_payment(
            initiation,
            request_id=payment,
            psu_ip_address=ip_address(request),
            redirect_uri=f"{state.settings.public_url}/payments/{payment}",
        )
    except RequestRefused as e:
        # A refused repetition proves nothing about an earlier attempt; STATUS_INVALID: this request is still in progress.
        if is_first and e.status not in (429, 503) and e.peer_code != "STATUS_INVALID":
            _store(request, payment, status=REFUSED)
        raise
    _store(request, payment, payment_id=initiated.payment_id, status=str(initiated.transaction_status))
    return _shown(_store(request, payment, approve=require_link(initiated.links)))


@router.get("/payments/{payment}")
def state_of(payment: UUID, request: Request, customer: CurrentCustomer) -> dict[str, Any]:
    """A payment of the customer, with the state that the bank has now."""
    mine = (payments.c.id == payment, payments.c.customer_id == customer.id)
    with request.app.state.engine.connect() as db:
        stored = db.execute(select(payments).where(*mine)).first()
    if stored is None:
        raise HTTPException(404, "you have no such payment")
    if stored.payment_id is not None and stored.status not in PAYMENT.final:
        status = str(request.app.state.bank.payment_status(stored.payment_id).transaction_status)
        stored = _store(request, payment, status=status)
    return _shown(stored)


def _store(request: Request, payment: UUID, **values: Any) -> Row[Any]:
    changed = update(payments).where(payments.c.id == payment).values(values).returning(*payments.c)
    with request.app.state.engine.begin() as db:
        row: Row[Any] = db.execute(changed).one()
    return row


def _shown(stored: Row[Any]) -> dict[str, Any]:
    return {
        "id": str(stored.id),
        "amount": str(stored.amount),
        "iban": stored.iban,
        "status": stored.status,
        "approve": stored.approve,
    }
