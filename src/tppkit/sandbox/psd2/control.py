"""Control routes to decide payments and consents for the customer.

Approve accepts `{"customer": id, "iban": iban}`; without them, the first possible one approves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection

from tppkit.protocol.psd2.consent import ConsentTrigger
from tppkit.protocol.psd2.payment import reported_status
from tppkit.sandbox.cell import Services
from tppkit.sandbox.control import Control, text_fields
from tppkit.sandbox.psd2.consent_tables import StoredConsent
from tppkit.sandbox.psd2.consents import approve_consent, decline_consent, lock_any_consent, revoke_consent
from tppkit.sandbox.psd2.payments import approve_payment, decline_payment, lock_any_payment, open_payment, require_open
from tppkit.sandbox.psd2.settings import Psd2Settings
from tppkit.sandbox.psd2.tables import StoredPayment

Order = TypeVar("Order", StoredPayment, StoredConsent)
_Act = Callable[[Connection, Order, datetime, Any], Order]  # with the time and the body of the call


def psd2_control(services: Services, settings: Psd2Settings) -> tuple[Control, ...]:
    """`POST /payments/{id}/approve`, `open`, `decline`; `POST /consents/{id}/approve`, `decline`, `revoke`. Each answers the state."""
    rules = settings.rules

    def show(db: Connection, payment: StoredPayment, at: datetime, body: Any) -> StoredPayment:
        require_open(payment)
        return open_payment(db, payment, at=at, rules=rules)

    payments: Mapping[str, _Act[StoredPayment]] = {
        "approve": lambda db, one, at, body: approve_payment(db, one, *_choice(body), at=at, rules=rules),
        "open": show,
        "decline": lambda db, one, at, body: decline_payment(db, one, at=at),
    }
    consents: Mapping[str, _Act[StoredConsent]] = {
        "approve": lambda db, one, at, body: approve_consent(db, one, *_choice(body), at=at),
        "decline": lambda db, one, at, body: decline_consent(db, one, at=at),
        "revoke": lambda db, one, at, body: revoke_consent(db, one, ConsentTrigger.REVOKED, at=at),
    }
    lock_payment, lock_consent = partial(lock_any_payment, rules=rules), partial(lock_any_consent, rules=rules)
    return (
        *(_route(services, f"/payments/{{id}}/{name}", lock_payment, act, _payment) for name, act in payments.items()),
        *(_route(services, f"/consents/{{id}}/{name}", lock_consent, act, _consent) for name, act in consents.items()),
    )


def _route(
    services: Services, path: str, lock: Callable[..., Order], act: _Act[Order], show: Callable[[Order], Any]
) -> Control:
    async def answer(parameters: Mapping[str, str], body: Any) -> Any:
        def job(db: Connection) -> Order:
            at = services.now()
            return act(db, lock(db, parameters["id"], at=at), at, body)

        return show(await services.events.write(job))

    return Control("POST", path, answer)


def _payment(payment: StoredPayment) -> Any:
    return {"paymentId": payment.payment_id, "transactionStatus": reported_status(payment.progress.status).value}


def _consent(consent: StoredConsent) -> Any:
    return {"consentId": consent.consent_id, "status": consent.progress.status.value}


def _choice(body: Any) -> tuple[str | None, str | None]:
    fields = text_fields(body, "customer", "iban")
    return fields.get("customer"), fields.get("iban")
