"""The bank's routes of the control host: its customers, and the countries that instant payments reach."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from tppkit.errors import FormatError
from tppkit.sandbox.bank.customers import accounts_of, customers
from tppkit.sandbox.bank.instant import set_reachable
from tppkit.sandbox.clock import Events
from tppkit.sandbox.control import Control
from tppkit.sandbox.database import Database

_COUNTRY = re.compile("[A-Z]{2}")


def bank_control(database: Database, events: Events) -> tuple[Control, ...]:
    """`GET /customers`, and `POST /instant` with `{"country": "DE", "reachable": false}`."""

    async def show(parameters: Mapping[str, str], body: Any) -> Any:
        return await database.read(_customers)

    async def reach(parameters: Mapping[str, str], body: Any) -> Any:
        country, reachable = _country(body)
        await events.write(lambda db: set_reachable(db, country, reachable=reachable))
        return {"country": country, "reachable": reachable}

    return Control("GET", "/customers", show), Control("POST", "/instant", reach)


def _customers(db: Connection) -> list[Any]:
    return [
        {
            "id": customer.id,
            "name": customer.name,
            "phone": customer.phone,
            "accounts": [
                {"iban": account.iban, "currencies": account.currencies, "kind": account.kind}
                for account in accounts_of(db, customer.id)
            ],
        }
        for customer in customers(db)
    ]


def _country(body: Any) -> tuple[str, bool]:
    fields = body if isinstance(body, dict) else {}
    country, reachable = fields.get("country"), fields.get("reachable")
    if not isinstance(country, str) or not _COUNTRY.fullmatch(country) or not isinstance(reachable, bool):
        raise FormatError("model.invalid", 'the body is not {"country": two letters, "reachable": true or false}')
    return country, reachable
