"""The sections of the index page about the legacy interface."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from tppkit.sandbox.cell import Section
from tppkit.sandbox.delivery_tables import latest_deliveries
from tppkit.sandbox.html import grouped, shown_time
from tppkit.sandbox.legacy.login_tables import newest_logins
from tppkit.sandbox.legacy.sender import sender_name
from tppkit.sandbox.legacy.settings import HOSTS
from tppkit.sandbox.legacy.tables import AccessState, StoredAccess, newest_access, newest_payments

_SHOWN = 50


def legacy_sections(db: Connection, at: datetime) -> tuple[Section, ...]:
    """Return the latest access requests, payments, logins and callbacks."""
    deliveries = latest_deliveries(db, [sender_name(host) for host in HOSTS], _SHOWN)
    return (
        Section(
            "Legacy access", ("Token", "Host", "For", "State", "Asked for", "Account", "Ends"),
            [
                (one.token, one.host, one.kind, _state(one, at), one.acc, grouped(one.iban or ""), shown_time(one.expires_at))
                for one in newest_access(db, _SHOWN)
            ],
        ),
        Section(
            "Legacy payments", ("Payment", "Host", "State", "Amount", "From", "To", "Requested"),
            [
                (one.uuid, one.host, one.state.value, f"{one.order.amount.value} {one.order.amount.currency}", grouped(one.iban),
                 f"{one.creditor_name}, {grouped(one.creditor_iban)}", shown_time(one.requested_at))
                for one in newest_payments(db, _SHOWN)
            ],
        ),
        Section(
            "Logins", ("Address", "Host", "State", "Asked by", "Asked for", "Scanned", "Reason"),
            [
                (one.url, one.host, one.state.value, one.request.name if one.request else "",
                 ", ".join(one.request.perm) if one.request else "", shown_time(one.scanned_at), one.reason or "")
                for one in newest_logins(db, _SHOWN)
            ],
        ),
        Section(
            "Callbacks", ("Address", "State", "Version", "Attempts", "Latest answer", "Next attempt"),
            [
                (one.delivery.address, one.delivery.state, str(one.delivery.ver), str(one.delivery.attempts),
                 one.attempts[-1].text if one.attempts else "", shown_time(one.delivery.due_at))
                for one in deliveries
            ],
        ),
    )  # fmt: skip


def _state(access: StoredAccess, at: datetime) -> str:
    return "expired" if access.state is AccessState.GRANTED and not access.is_valid(at) else access.state.value
