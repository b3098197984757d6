"""The payment gateway and its vault as a cell of the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from tppkit.protocol.endpoint import Auth, Interface
from tppkit.protocol.gateway.endpoints import GATEWAY, VAULT
from tppkit.sandbox.cell import Cell, Decision, Handler, Services, StreamHandler
from tppkit.sandbox.conformance import Conformance
from tppkit.sandbox.gateway import captures, checkout, link_tables, links, orders, search, tables, wallet
from tppkit.sandbox.gateway.card_tables import require_vault_key
from tppkit.sandbox.gateway.check import check_gateway
from tppkit.sandbox.gateway.conformance import WebhookJudge
from tppkit.sandbox.gateway.control import GatewayControl
from tppkit.sandbox.gateway.pages import GatewayPages
from tppkit.sandbox.gateway.sections import gateway_sections
from tppkit.sandbox.gateway.settings import GatewaySettings, Job
from tppkit.sandbox.gateway.webhooks import SENDER, GatewaySender
from tppkit.sandbox.host import Host
from tppkit.sandbox.outgoing_http import OutgoingHttp
from tppkit.sandbox.queries import LatestTime
from tppkit.web.keys import KeyAuthenticator

_HANDLERS: tuple[Handler[Any, Any] | StreamHandler[Any, Any], ...] = (
    *checkout.HANDLERS, *orders.HANDLERS, *captures.HANDLERS, *links.HANDLERS, *search.HANDLERS, *wallet.HANDLERS,
)  # fmt: skip
_LATEST_TIME = LatestTime(tables.ORDERS.c.modified_at, link_tables.LINKS.c.modified_at)

_PAY = "/gateway/orders/{id}/pay"
_DECISIONS = (
    Decision(
        "order", ("gateway",), "order_id", "id", (_PAY, {"outcome": "approved"}), (_PAY, {"outcome": "declined"}), "create_order", "id"
    ),
)  # fmt: skip


def gateway_cell(settings: GatewaySettings, *, http: Callable[[], OutgoingHttp], report: Conformance) -> Cell:
    """Make the cell: hosts, pages, control routes, events, and the sender of webhooks.

    Args:
        settings: the settings of the gateway.
        http: makes the HTTP client for webhooks; called at the first webhook.
        report: counts the rules that receivers of webhooks break.
    """
    judge = WebhookJudge(report)
    report.add(judge)

    def served(services: Services) -> Mapping[str, Host]:
        services.database.run_at_start(lambda db: settings.projects.load(db, at=services.now()))
        services.database.run_at_start(lambda db: require_vault_key(db, settings.cipher))
        return {
            "gateway": _host(GATEWAY, _HANDLERS, settings, services),
            "vault": _host(VAULT, checkout.VAULT_HANDLERS, settings, services),
        }

    def run_due(db: Connection, at: datetime) -> None:
        job = Job(db, settings, at)
        captures.run_due(job)
        links.run_due(job)

    return Cell(
        GATEWAY,
        tables.TABLES,
        _LATEST_TIME,
        served,
        pages=lambda services: GatewayPages(services, settings).routes,
        control=lambda services: GatewayControl(services, settings).routes,
        next_event=lambda db: min(filter(None, (tables.next_due(db), link_tables.next_due(db))), default=None),
        run_due=run_due,
        check=check_gateway,
        sections=gateway_sections,
        decisions=_DECISIONS,
        senders={SENDER: GatewaySender(http, judge)},
    )


def _host(
    interface: Interface, handlers: tuple[Handler[Any, Any] | StreamHandler[Any, Any], ...], settings: GatewaySettings, services: Services
) -> Host:  # fmt: skip
    keys = KeyAuthenticator(settings.projects.keys, auth=Auth.BASIC)
    return Host(
        interface=interface, handlers=handlers, authenticators={Auth.BASIC: keys}, services=services, settings=settings
    )  # fmt: skip
