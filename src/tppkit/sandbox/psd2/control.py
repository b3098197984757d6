"""What a developer does to payments from outside, as the customer would on the approval page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection

from tppkit.errors import FormatError
from tppkit.protocol.psd2.payment import reported_status
from tppkit.sandbox.cell import Services
from tppkit.sandbox.control import Control
from tppkit.sandbox.psd2.payments import (
    Psd2Settings,
    approve_payment,
    decline_payment,
    look_at_payment_by_id,
    open_payment,
    require_open,
)
from tppkit.sandbox.psd2.tables import StoredPayment


class PaymentControl:
    """`POST /payments/{paymentId}/approve`, `.../open` and `.../decline`; each answers the payment's state.

    Approve takes `{"customer": id, "iban": iban}`; without one of them, or without a body, the first that fits.

    Args:
        services: of the bank.
        settings: of the bank.

    Attributes:
        routes: of the control host.
    """

    def __init__(self, services: Services, settings: Psd2Settings) -> None:
        self._services = services
        self._rules = settings.rules
        actions = (("approve", self._approve), ("open", self._open), ("decline", self._decline))
        self.routes = tuple(
            Control("POST", f"/payments/{{payment_id}}/{name}", self._answer(use)) for name, use in actions
        )

    def _answer(self, use: Callable[[Connection, StoredPayment, Any], StoredPayment]) -> Callable[..., Any]:
        async def answer(parameters: Mapping[str, str], body: Any) -> Any:
            payment_id = parameters["payment_id"]

            def job(db: Connection) -> StoredPayment:
                at = self._services.now()
                return use(db, look_at_payment_by_id(db, payment_id, at=at, rules=self._rules), body)

            payment = await self._services.events.write(job)
            status = reported_status(payment.progress.status)
            return {"paymentId": payment.payment_id, "transactionStatus": status.value}

        return answer

    def _approve(self, db: Connection, payment: StoredPayment, body: Any) -> StoredPayment:
        customer, iban = _choice(body)
        return approve_payment(db, payment, customer, iban, at=self._services.now(), rules=self._rules)

    def _open(self, db: Connection, payment: StoredPayment, body: Any) -> StoredPayment:
        require_open(payment)
        return open_payment(db, payment, at=self._services.now(), rules=self._rules)

    def _decline(self, db: Connection, payment: StoredPayment, body: Any) -> StoredPayment:
        return decline_payment(db, payment, at=self._services.now())


def _choice(body: Any) -> tuple[str | None, str | None]:
    fields = {} if body is None else body
    if not isinstance(fields, dict) or not all(isinstance(fields.get(name, ""), str) for name in ("customer", "iban")):
        raise FormatError("model.invalid", 'the body is not {"customer": text, "iban": text}')
    return fields.get("customer"), fields.get("iban")
