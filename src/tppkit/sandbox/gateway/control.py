"""Control routes of the gateway: projects, and the actions of customers and issuers."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import Connection

from tppkit.errors import FormatError, LocalProtocolError
from tppkit.protocol.gateway.authorisations import OWN_CHECKOUT_LAG
from tppkit.protocol.gateway.bodies import PaymentLink, PaymentLinkRequest
from tppkit.protocol.gateway.card_data import CardSecret, Expiry, Pan
from tppkit.protocol.gateway.orders import Order
from tppkit.protocol.gateway.values import Address, Amount, GatewayModel, HolderName, MethodNames, Text, Uuid
from tppkit.protocol.gateway.webhooks import StatusChanged
from tppkit.sandbox.cell import Services
from tppkit.sandbox.control import Control
from tppkit.sandbox.delivery_tables import latest_deliveries
from tppkit.sandbox.gateway import captures
from tppkit.sandbox.gateway.cipher import StoredCard
from tppkit.sandbox.gateway.hosted import Choice, pay, pay_link
from tppkit.sandbox.gateway.link_tables import LINKS
from tppkit.sandbox.gateway.links import link_answer, new_link
from tppkit.sandbox.gateway.orders import order_answer
from tppkit.sandbox.gateway.projects import MAX_METHODS, METHODS, Project
from tppkit.sandbox.gateway.settings import GatewaySettings, Job
from tppkit.sandbox.gateway.tables import ORDERS, StoredOrder
from tppkit.sandbox.gateway.webhooks import SENDER
from tppkit.web.keys import hash_key

_SHOWN = 200  # deliveries
Change = Callable[[Job, StoredOrder, Any], StoredOrder]


class _ControlBody(GatewayModel):
    """The body of a control call."""

    is_request = True

    @classmethod
    def read(cls, body: Any) -> Any:
        """The body of a call; no body is an empty one.

        Raises:
            FormatError: `model.invalid`.
        """
        return cls.from_wire(json.dumps({} if body is None else body).encode())


class _ProjectBody(_ControlBody):
    webhook_url: Address | None = None
    payment_methods: Annotated[MethodNames, Field(max_length=MAX_METHODS)] = METHODS
    aft: bool = False
    test: bool = True
    lag_seconds: Annotated[int, Field(ge=0, le=int(OWN_CHECKOUT_LAG.total_seconds()))] = 0


class _PayBody(_ControlBody):
    card: Pan | None = None
    expiry: Expiry | None = None
    name: HolderName | None = None
    outcome: str | None = None


class _LinkBody(_ControlBody, PaymentLinkRequest):
    project_id: Uuid | None = None


class _AmountBody(_ControlBody):
    amount: Amount
    description: Text | None = None


class GatewayControl:
    """The routes of the control host.

    Args:
        services: of the sandbox.
        settings: of the gateway.

    Attributes:
        routes: of the control host.
    """

    def __init__(self, services: Services, settings: GatewaySettings) -> None:
        self._services, self._settings = services, settings
        changes: Mapping[str, tuple[type[_ControlBody], Change]] = {
            "pay": (_PayBody, lambda job, order, body: pay(job, order, **_choice(job, body))),
            "refund": (_AmountBody, lambda job, order, body: captures.refund_order(job, order, body.amount, body.description)),
            "chargeback": (_ControlBody, lambda job, order, body: captures.charge_back(job, order)),
            "reverse": (_ControlBody, lambda job, order, body: captures.reverse(job, order)),
        }  # fmt: skip
        self.routes = (
            Control("GET", "/gateway/deliveries", self._list_deliveries),
            Control("POST", "/gateway/paymentlinks", self._add_link),
            Control("POST", "/gateway/paymentlinks/{id}/pay", self._pay_link),
            Control("POST", "/gateway/projects", self._add_project),
            *(Control("POST", f"/gateway/orders/{{id}}/{name}", self._changed(*row)) for name, row in changes.items()),
        )

    async def _add_project(self, parameters: Mapping[str, str], body: Any) -> Any:
        fields, key, settings = _ProjectBody.read(body), secrets.token_hex(16), self._settings
        settings.require_webhook_url(fields.webhook_url)
        project = Project(
            id=settings.new_uuid(), key_hash=hash_key(key), created_at=self._services.now(), webhook_url=fields.webhook_url,
            payment_methods=tuple(fields.payment_methods), aft=fields.aft, is_test=fields.test, lag_seconds=fields.lag_seconds,
        )  # fmt: skip
        await self._services.events.write(lambda db: settings.projects.add(db, project))
        settings.projects.keep(project)
        return {"project_id": project.id, "api_key": key}

    async def _add_link(self, parameters: Mapping[str, str], body: Any) -> Any:
        fields, settings = _LinkBody.read(body), self._settings
        project_id = settings.projects.first_id if fields.project_id is None else fields.project_id.lower()
        if project_id not in settings.projects:
            raise LocalProtocolError("project.unknown", "there is no project with this id")
        return await self._write(lambda job: link_answer(job, new_link(job, fields, project_id)))

    async def _pay_link(self, parameters: Mapping[str, str], body: Any) -> Any:
        fields = _PayBody.read(body)
        del body  # a tool that reports errors shows local variables

        def change(job: Job) -> PaymentLink:
            link = LINKS.lock(job.db, parameters["id"].lower())
            if link is None:
                raise LocalProtocolError("payment-link.unknown", "there is no payment link with this id")
            pay_link(job, link, **_choice(job, fields))
            return link_answer(job, LINKS.find(job.db, link.id) or link)

        return await self._write(change)

    async def _list_deliveries(self, parameters: Mapping[str, str], body: Any) -> Any:
        found = await self._services.database.read(lambda db: latest_deliveries(db, [SENDER], _SHOWN))
        return [{"order_id": StatusChanged.from_wire(one.delivery.body).order_id} | one.as_object() for one in found]

    async def _write(self, change: Callable[[Job], GatewayModel]) -> Any:
        def job(db: Connection) -> bytes:
            return change(Job(db, self._settings, self._services.now())).to_wire()

        return json.loads(await self._services.events.write(job))

    def _changed(self, form: type[_ControlBody], change: Change) -> Callable[[Mapping[str, str], Any], Awaitable[Any]]:
        async def answer(parameters: Mapping[str, str], body: Any) -> Any:
            fields = form.read(body)
            del body

            def change_order(job: Job) -> Order:
                order = ORDERS.lock(job.db, parameters["id"].lower())
                if order is None:
                    raise LocalProtocolError("order.unknown", "there is no order with this id")
                return order_answer(job, change(job, order, fields))

            return await self._write(change_order)

        return answer


def _choice(job: Job, body: _PayBody) -> dict[str, Any]:
    """Return the customer's choice as arguments of `pay`."""
    if (body.card is None) == (body.outcome is None) or body.outcome not in (None, *Choice):
        raise FormatError("model.invalid", f"the body has either a card or an outcome: {', '.join(Choice)}")
    if body.card is None:
        return {"choice": Choice(body.outcome or "")}
    expiry = body.expiry or CardSecret(f"12{job.at.year + 3}")
    return {"card": StoredCard(body.card, expiry, body.name)}
