"""A consent to read accounts, and what it gives access to."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from sqlalchemy import insert, select

from backend.bank import ip_address, require_link
from backend.database import consents
from backend.sessions import CurrentCustomer
from tppkit.protocol.psd2 import ALL_ACCOUNTS, Access, ConsentRequest, ConsentStatus

VALID = timedelta(days=90)
SHOWN = timedelta(days=30)

router = APIRouter()


@router.post("/consents", status_code=201)
def ask(request: Request, customer: CurrentCustomer) -> dict[str, str]:
    """Ask for access to all accounts; the browser goes to `approve`, and comes back to /accounts."""
    now, state = datetime.now(UTC), request.app.state
    consent = ConsentRequest(
        access=Access(all_psd2=ALL_ACCOUNTS), valid_until=now.date() + VALID, frequency_per_day=4, recurring_indicator=True
    )  # fmt: skip
    created = state.bank.create_consent(
        consent, psu_ip_address=ip_address(request), redirect_uri=f"{state.settings.public_url}/accounts"
    )
    with state.engine.begin() as db:
        db.execute(insert(consents), {"id": created.consent_id, "customer_id": customer.id, "created_at": now})
    return {"approve": require_link(created.links)}


@router.get("/accounts")
def accounts(request: Request, customer: CurrentCustomer) -> list[dict[str, Any]]:
    """The accounts of the customer's latest consent, with balances."""
    consent_id = _valid_consent(request, customer.id)
    found = request.app.state.bank.accounts(consent_id, with_balance=True, psu_ip_address=ip_address(request))
    return [
        {
            "id": account.resource_id,
            "iban": account.iban,
            "owner": account.owner_name,
            "balances": [
                {"currency": one.balance_amount.currency, "amount": str(one.balance_amount.amount)}
                for one in account.balances or ()
            ],
        }
        for account in found.accounts
    ]


@router.get("/accounts/{account_id}/transactions")
def transactions(account_id: str, request: Request, customer: CurrentCustomer) -> list[dict[str, Any]]:
    """The booked entries of the last 30 days."""
    consent_id = _valid_consent(request, customer.id)
    entries = request.app.state.bank.iter_transactions(
        consent_id, account_id, date_from=date.today() - SHOWN, psu_ip_address=ip_address(request)
    )
    return [
        {
            "day": str(entry.booking_date),
            "currency": entry.transaction_amount.currency,
            "amount": str(entry.transaction_amount.amount),
            "with": entry.creditor_name,
            "text": entry.remittance_information_unstructured,
        }
        for entry in entries
    ]


def _valid_consent(request: Request, customer_id: int) -> str:
    latest = select(consents.c.id).where(consents.c.customer_id == customer_id).order_by(consents.c.created_at.desc())
    with request.app.state.engine.connect() as db:
        consent_id = db.scalar(latest.limit(1))
    if consent_id is None or request.app.state.bank.consent_status(consent_id).status != ConsentStatus.VALID:
        raise HTTPException(409, "there is no valid consent: ask for one")
    return str(consent_id)
