"""Callbacks of the legacy interface: a confirmed login is received once, however often the service sends it."""

from __future__ import annotations

from sqlalchemy import Connection, Engine
from sqlalchemy.dialects.postgresql import insert

from backend.database import customers, logins, metadata
from backend.evidence import Evidence
from backend.settings import Settings
from tppkit.callbacks import (
    CallbackAddress,
    CallbackKind,
    CallbackReceiver,
    Inbox,
    VerifiedCallback,
    load_callback_key,
)
from tppkit.callbacks.login_codes import LoginCodes
from tppkit.inbox.store import InboxStore
from tppkit.protocol.legacy import LoginConfirmed, LoginPermission
from tppkit.web import CallbackGate


class Callbacks:
    """The receiver, its inbox in the application's database, and the login codes.

    Attributes:
        codes: makes login codes.
        evidence: keeps what was received.
        gate: for `CallbackMiddleware`.
    """

    def __init__(self, settings: Settings, engine: Engine) -> None:
        receiver = CallbackReceiver(
            [CallbackAddress(f"{settings.public_url}/callbacks/login/{{token}}", CallbackKind.LOGIN)],
            keys=[load_callback_key(settings.service_key, name="service")],
        )
        self._store = InboxStore(engine)
        inbox = Inbox(receiver, self._store)
        self.codes = LoginCodes(inbox, name="Example Payments", perm=(LoginPermission.NAME,))
        self.evidence = Evidence(settings.archive, metadata, engine=engine, receiver=receiver)
        self.gate = CallbackGate(inbox, on_login=self._logged_in, login=self.codes.answer)

    def create_tables(self) -> None:
        """Create the tables of the inbox and of the login codes."""
        self._store.create_tables()
        self.codes.create_tables()

    def _logged_in(self, event: LoginConfirmed, callback: VerifiedCallback, connection: Connection) -> None:
        """Store the login for the session of its code; all of this is committed with the done flag of the callback."""
        self.evidence.received(callback, connection)
        session = self.codes.match(callback, connection)
        if session is None:  # the code was never scanned, had expired, or was used
            return
        customer = insert(customers).values(id=event.id, name=event.name or "")
        renamed = customer.on_conflict_do_update(index_elements=["id"], set_={"name": customer.excluded.name})
        connection.execute(renamed)
        row = {"session": session, "customer_id": event.id, "received_at": callback.received_at}
        connection.execute(insert(logins).values(row))
