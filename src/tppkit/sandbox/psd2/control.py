"""Control routes to decide payments and consents for the customer.

Approve accepts `{"customer": id, "iban": iban}`; without them, the first possible one approves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection

from tppkit.protocol.psd2.payment import reported_status
from tppkit.sandbox.cell import Services
from tppkit.sandbox.control import Control, text_fields
from tppkit.sandbox.psd2.consent_tables import StoredConsent
from tppkit.sandbox.psd2.consents import approve_consent, decline_consent, lock_any_consent, revoke_consent
from tppkit.sandbox.psd2.payments import (
    approve_payment,
    decline_payment,
    lock_any_payment,
    open_payment,
    require_open,
)
from tppkit.sandbox.psd2.settings import Psd2Settings
from tppkit.sandbox.psd2.tables import StoredPayment

Order = TypeVar("Order")
_Action = Callable[[Connection, str, datetime, Any], Order]


def payment_control(services: Services, settings: Psd2Settings) -> tuple[Control, ...]:
    """`POST /payments/{paymentId}/approve`, `.../open` and `.../decline`; each answers the payment's state."""
    rules = settings.rules

    def approve(db: Connection, payment_id: str, at: datetime, body: Any) -> StoredPayment:
        payment = lock_any_payment(db, payment_id, at=at, rules=rules)
        return approve_payment(db, payment, *_choice(body), at=at, rules=rules)

    def show(db: Connection, payment_id: str, at: datetime, body: Any) -> StoredPayment:
        payment = lock_any_payment(db, payment_id, at=at, rules=rules)
        require_open(payment)
        return open_payment(db, payment, at=at, rules=rules)

    def decline(db: Connection, payment_id: str, at: datetime, body: Any) -> StoredPayment:
        return decline_payment(db, lock_any_payment(db, payment_id, at=at, rules=rules), at=at)

    def answer(payment: StoredPayment) -> Any:
        status = reported_status(payment.progress.status)
        return {"paymentId": payment.payment_id, "transactionStatus": status.value}

    return _routes(services, "/payments", {"approve": approve, "open": show, "decline": decline}, answer)


def consent_control(services: Services, settings: Psd2Settings) -> tuple[Control, ...]:
    """`POST /consents/{consentId}/approve`, `.../decline` and `.../revoke`; each answers the consent's state."""
    rules = settings.rules

    def approve(db: Connection, consent_id: str, at: datetime, body: Any) -> StoredConsent:
        consent = lock_any_consent(db, consent_id, at=at, rules=rules)
        return approve_consent(db, consent, *_choice(body), at=at)

    def decline(db: Connection, consent_id: str, at: datetime, body: Any) -> StoredConsent:
        return decline_consent(db, lock_any_consent(db, consent_id, at=at, rules=rules), at=at)

    def revoke(db: Connection, consent_id: str, at: datetime, body: Any) -> StoredConsent:
        return revoke_consent(db, lock_any_consent(db, consent_id, at=at, rules=rules))

    def answer(consent: StoredConsent) -> Any:
        return {"consentId": consent.consent_id, "status": consent.progress.status.value}

    return _routes(services, "/consents", {"approve": approve, "decline": decline, "revoke": revoke}, answer)


def _routes(
    services: Services, path: str, actions: Mapping[str, _Action[Order]], show: Callable[[Order], Any]
) -> tuple[Control, ...]:
    def route(action: _Action[Order]) -> Callable[[Mapping[str, str], Any], Awaitable[Any]]:
        async def answer(parameters: Mapping[str, str], body: Any) -> Any:
            return show(
                await services.events.write(lambda db: action(db, parameters["of_order"], services.now(), body))
            )

        return answer

    return tuple(Control("POST", f"{path}/{{of_order}}/{name}", route(action)) for name, action in actions.items())


def _choice(body: Any) -> tuple[str | None, str | None]:
    fields = text_fields(body, "customer", "iban")
    return fields.get("customer"), fields.get("iban")
