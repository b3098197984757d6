"""The legacy interface as a cell of the sandbox: a test and a live host on one ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from typing import Any
from urllib.parse import quote

from tppkit.protocol.endpoint import Auth
from tppkit.protocol.legacy.endpoints import LEGACY, PAY
from tppkit.sandbox.bank.ledger import next_due
from tppkit.sandbox.cell import Cell, Decision, Handler, Services
from tppkit.sandbox.conformance import Conformance
from tppkit.sandbox.faults import Faults
from tppkit.sandbox.host import Host
from tppkit.sandbox.html import see_other
from tppkit.sandbox.legacy import access, accounts, payments, tables
from tppkit.sandbox.legacy.control import LegacyControl
from tppkit.sandbox.legacy.login_tables import LOGINS
from tppkit.sandbox.legacy.pages import LegacyPages, scan_path
from tppkit.sandbox.legacy.sections import legacy_sections
from tppkit.sandbox.legacy.sender import LegacySender, sender_name
from tppkit.sandbox.legacy.settings import LIVE, TEST, LegacyHost
from tppkit.sandbox.outgoing_http import OutgoingHttp, Receivers
from tppkit.sandbox.queries import LatestTime
from tppkit.sandbox.request_log import VISIBLE
from tppkit.sandbox.second_payment import SecondPayments
from tppkit.sandbox.stream import Send
from tppkit.web.keys import KeyAuthenticator, hash_key
from tppkit.web.sources import Receive

NAMES: Mapping[str, str] = {TEST: "legacy", LIVE: "legacy_live"}  # of the listeners
_HANDLERS: tuple[Handler[Any, Any], ...] = (*access.HANDLERS, *accounts.HANDLERS, *payments.HANDLERS)
_LATEST_TIME = LatestTime(
    tables.ACCESS.c.requested_at, tables.PAYMENTS.c.requested_at, tables.PAYMENTS.c.decided_at, LOGINS.c.scanned_at
)


class ScanHost(Host):
    """The host of the interface, which also redirects browsers from a scan link to its page."""

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        if scope["type"] == "http" and scope["path"] == "/scan" and scope["method"] in ("GET", "HEAD"):
            query = quote(scope["query_string"], safe=VISIBLE)
            address = f"{self.settings.pages_url}{scan_path(self.settings.name)}?{query}"
            await see_other(address)(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


_DECISIONS = tuple(
    Decision(
        kind, (host,), parameter, name, (f"/legacy/{path}/approve", {"host": of}), (f"/legacy/{path}/decline", {"host": of})
    )
    for host, of in (("legacy", TEST), ("legacy_live", LIVE))
    for kind, parameter, name, path in (
        ("payment", "uuid", "uuid", "payments/{uuid}"), ("access", "access_token", "token", "access/{token}"),
    )
)  # fmt: skip


def legacy_cell(
    hosts: Mapping[str, LegacyHost], *, http: Callable[[], OutgoingHttp], receivers: Receivers, faults: Faults,
    report: Conformance,
) -> Cell:  # fmt: skip
    """Make the cell: both hosts, the customers' pages, the senders, and the control routes.

    Args:
        hosts: the test and the live host, by their names.
        http: makes the HTTP client for callbacks and login GETs; called at the first request.
        receivers: the addresses that callbacks can reach.
        faults: the requested faults of deliveries.
        report: counts the rules that clients break.
    """
    report.add(
        SecondPayments(
            report, hosts=tuple(NAMES.values()), row=PAY, id_of=lambda exchange: (exchange.parameters or {})["uuid"]
        )
    )
    senders = {name: LegacySender(hosts, name, http, faults) for name in hosts}

    def served(services: Services) -> Mapping[str, Host]:
        return {NAMES[name]: _host(hosts[name], services) for name in hosts}

    return Cell(
        LEGACY,
        tables.TABLES,
        _LATEST_TIME,
        served,
        pages=lambda services: LegacyPages(services, hosts, senders).routes,
        sections=legacy_sections,
        control=lambda services: LegacyControl(services, senders, receivers).routes,
        next_event=partial(next_due, source=tables.SOURCE),
        run_due=payments.execute_payments,
        check=tables.check_payments,
        senders={sender_name(name): sender for name, sender in senders.items()},
        decisions=_DECISIONS,
    )


def _host(host: LegacyHost, services: Services) -> Host:
    keys = KeyAuthenticator({f"legacy-{host.name}": hash_key(host.api_key)}, auth=Auth.API_KEY)
    return ScanHost(
        interface=LEGACY, handlers=_HANDLERS, authenticators={Auth.API_KEY: keys}, services=services, settings=host
    )  # fmt: skip
