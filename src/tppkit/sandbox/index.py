"""The index page of the sandbox: the data of its interfaces, its customers, and the latest requests; on loopback only."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tppkit.errors import TransportError
from tppkit.sandbox.bank.customers import accounts_of, customers
from tppkit.sandbox.cell import Cell, Section, Services
from tppkit.sandbox.html import grouped, is_local, local_only_page, page
from tppkit.sandbox.latest_requests import LatestRequests

_MOST = 50  # requests that are shown


def index_page(
    services: Services, cells: Sequence[Cell], requests: LatestRequests, *, inspector_url: str | None
) -> Route:
    """Make the page `/` of the pages host. It shows the data of every provider, so other machines and names are answered 403.

    Args:
        services: the services of the bank.
        cells: the interfaces, whose sections are shown.
        requests: the latest requests.
        inspector_url: the address of the inspector, or None.
    """

    def sections(db: Connection) -> list[Section]:
        at = services.now()
        return [*(section for cell in cells for section in cell.sections(db, at)), _customers(db)]

    async def show(request: Request) -> Response:
        if not is_local(request):
            return local_only_page()
        try:
            await services.events.catch_up()
            found = await services.database.read(sections)
        except TransportError:
            text = "Please try again in a moment."
            return page("message.html", status=503, heading="The bank cannot answer now", text=text)
        return page(
            "index.html", heading="What this bank holds", now=services.now(), sections=[*found, _requests(requests)], width="76rem",
            inspector_url=inspector_url,
        )  # fmt: skip

    return Route("/", show, methods=["GET"])


def _customers(db: Connection) -> Section:
    rows = [
        (customer.name, customer.id, customer.phone, f"{account.name} of {account.owner_name}", grouped(account.iban),
         ", ".join(account.currencies))
        for customer in customers(db)
        for account in accounts_of(db, customer.id)
    ]  # fmt: skip
    return Section("Customers", ("Customer", "Id", "Phone", "Account", "IBAN", "Currencies"), rows)


def _requests(requests: LatestRequests) -> Section:
    rows = [
        (f"{kept.exchange.at:%H:%M:%S}", f"{kept.method} {kept.target}", str(kept.exchange.status), kept.verdict, kept.exchange.code,
         kept.exchange.text)
        for kept in list(requests)[:_MOST]
    ]  # fmt: skip
    return Section("Latest requests", ("Time", "Request", "Status", "Verdict", "Code", "Reason"), rows)
