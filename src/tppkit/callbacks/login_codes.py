"""Login codes: each is made for one browser session, and the first confirmed login with the code belongs to that session.

1. `make` stores a token, a digest of the session id and the expiry of the code.
2. `answer` builds the answer to the signed GET of a scan, and records the scan.
3. `match` returns the session of a confirmed login, if its code was scanned, not yet expired and not used before.

    codes = LoginCodes(inbox, name="Bookshop", perm=(LoginPermission.NAME,))
    gate = CallbackGate(inbox, handler=handle, login=codes.answer)

Source: PSD2 document, part B section 4, customer login; assumption callback-login-address.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from tppkit._clock import as_utc, from_microseconds, shift, to_microseconds
from tppkit._extras import needs_extra
from tppkit.callbacks.addresses import TOKEN, CallbackAddress, CallbackKind
from tppkit.callbacks.inbox import Inbox
from tppkit.callbacks.signature import CallbackRejected
from tppkit.callbacks.verify import VerifiedCallback
from tppkit.errors import ConfigurationError
from tppkit.protocol.legacy import LoginPermission, LoginRequest
from tppkit.qr import Login

with needs_extra("sqlalchemy"):
    from sqlalchemy import (  # fmt: skip
        BigInteger,
        Column,
        Index,
        MetaData,
        String,
        Table,
        bindparam,
        delete,
        func,
        insert,
        select,
        update,
    )

    from tppkit.sql.statement import Statement

LIFETIME = timedelta(minutes=5)
KEPT = timedelta(days=7)  # after its expiry: a login that arrived in time may still wait for a worker
MIN_SESSION_ID = 16

_DIGITS = 4
_FORGOTTEN_AT_ONCE = 10  # more than one, so that the table shrinks to the codes of KEPT


@dataclass(frozen=True, slots=True)
class LoginCode:
    """A code to show in the browser of its session.

    Attributes:
        text: `LOGIN:…`, for a QR code (`qr.make_picture`) or a link.
        code: digits to show next to it; the customer compares them with those in the service's app. None: no digits.
        expires_at: when it expires, aware UTC.
    """

    text: str = field(repr=False)
    code: str | None
    expires_at: datetime


def digest_session_id(session_id: str) -> str:
    """Return the digest that is stored in place of a session id and that `match` returns: 64 hexadecimal digits.

    Raises:
        ConfigurationError: `login.session`, the id has fewer than 16 characters, so its digest would not hide it.

    Example:
        is_logged_in = digest_session_id(request.cookies["session"]) in sessions
    """
    if len(session_id) < MIN_SESSION_ID:
        raise ConfigurationError("login.session", f"a session id has at least {MIN_SESSION_ID} random characters")
    return sha256(b"tppkit login\0" + session_id.encode("utf-8", "surrogatepass")).hexdigest()


class LoginCodes:
    """Login codes in the inbox's database, for threads; with `AsyncInbox.run` for asyncio.

    Take the session id from the cookie of the browser that shows the code, never from a parameter. Otherwise an attacker
    could make a customer scan a code of the attacker's session, and would then be logged in as the customer.
    Replace the session id after the login.

    Args:
        inbox: receives the logins; for an `AsyncInbox`, pass its `inbox`.
        name: name of the requesting party, shown to the customer.
        perm: the requested permissions.
        lifetime: for how long a code is valid.
        shows_code: whether each code has digits for the customer to compare.
        address: an address of kind `login` that ends with `{token}`; by default the receiver's only one.
        prefix: prefix of the table name.

    Raises:
        ConfigurationError: `login.setting`, `login.address`, `extra.missing`.

    Example:
        shown = codes.make(session_id, at=utc_now())
        svg = make_picture(parse_login(shown.text)).svg()

        def handle(callback, connection):
            session = codes.match(callback, connection)
            if session is not None:
                connection.execute(INSERT, {"session": session, "customer": callback.event.id})
    """

    def __init__(
        self, inbox: Inbox, *, name: str, perm: Iterable[LoginPermission] = (), lifetime: timedelta = LIFETIME, shows_code: bool = True,
        address: CallbackAddress | None = None, prefix: str = "tppkit_login_",
    ) -> None:  # fmt: skip
        self._address = _address_of(inbox, address)
        self._request = LoginRequest(name=name, perm=tuple(perm))
        if lifetime <= timedelta(0):
            raise ConfigurationError("login.setting", "the lifetime of a login code must be above zero")
        self._lifetime, self._shows_code, self._database = lifetime, shows_code, inbox.store.database
        self._metadata = MetaData()
        table = Table(
            f"{prefix}codes", self._metadata,
            Column("token", String, primary_key=True), Column("session", String, nullable=False), Column("code", String),
            Column("expires_at", BigInteger, nullable=False), Column("scanned_at", BigInteger), Column("matched_at", BigInteger),
        )  # fmt: skip
        row = table.c
        Index(f"{prefix}codes_expiry", row.expires_at)
        at = bindparam("at", type_=BigInteger)
        is_valid = (row.token == bindparam("of_token"), row.expires_at > at, row.matched_at.is_(None))
        values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in ("token", "session", "code", "expires_at")}
        self._insert = Statement(insert(table).values(values).inline())
        self._scan = Statement(
            update(table).where(*is_valid).values(scanned_at=func.coalesce(row.scanned_at, at)).returning(row.code)
        )
        # A single statement decides, so only one of two concurrent logins gets the session.
        self._match = Statement(
            update(table).where(*is_valid, row.scanned_at.is_not(None)).values(matched_at=at).returning(row.session)
        )
        old = select(row.token).where(row.expires_at <= at).order_by(row.expires_at).limit(_FORGOTTEN_AT_ONCE)
        self._forget = Statement(delete(table).where(row.token.in_(old.with_for_update(skip_locked=True))))

    def create_tables(self) -> None:
        """Create the table if it is absent.

        Raises:
            ConfigurationError: `inbox.schema`, a table with this name is not of login codes.
            InboxError: `inbox.unavailable`.
        """
        self._database.create_tables(self._metadata)

    def make(self, session_id: str, *, at: datetime) -> LoginCode:
        """Make a code for a browser session, and delete some codes that expired at least seven days ago.

        Args:
            session_id: session id of the browser that shows the code; only its digest is stored.
            at: now, aware.

        Raises:
            ConfigurationError: `login.session`, `time.naive`.
            InboxError: `inbox.unavailable`.
        """
        token, code = secrets.token_hex(16), None
        if self._shows_code:
            code = f"{secrets.randbelow(10**_DIGITS):0{_DIGITS}}"
        text = Login(self._address.origin + self._address.path + token).text
        expires_at = to_microseconds(shift(as_utc(at), self._lifetime))
        values = {"token": token, "session": digest_session_id(session_id), "code": code, "expires_at": expires_at}
        old = to_microseconds(shift(as_utc(at), -KEPT))
        with self._database.transaction() as db:
            self._forget.run_one(db, {"at": old})
            self._insert.run_one(db, {f"new_{name}": value for name, value in values.items()})
        return LoginCode(text, code, from_microseconds(expires_at))

    def answer(self, callback: VerifiedCallback) -> LoginRequest:
        """Return the answer to a login GET, for `login=` of a gate; a repeated GET gets the same answer.

        Raises:
            CallbackRejected: `callback.login-code`, the code is unknown, has expired, or was used.
            InboxError: `inbox.unavailable`.
        """
        found = None
        if self._is_mine(callback):
            with self._database.transaction() as db:
                found = self._scan.first(db, _values(callback))
        if found is None:
            raise CallbackRejected("callback.login-code", "the login code is unknown, has expired, or was used")
        return self._request.model_copy(update={"code": found[0]})

    def match(self, callback: VerifiedCallback, connection: Any) -> str | None:
        """Return the session of a confirmed login, in the transaction of a handler.

        The match is committed with the handler's writes. If they are rolled back, the login can be matched again.

        Args:
            callback: the POST.
            connection: the handler's connection: a connection or session of SQLAlchemy, or a connection of `sqlite3` or `psycopg`.
                Coroutine functions use `match_async`.

        Returns:
            `digest_session_id` of the session. None if the code is unknown, was never scanned, had expired when the login was
            received, or was used before. Then do not log anyone in.

        Raises:
            ConfigurationError: `inbox.no-transaction`.
            InboxError: `inbox.unavailable`.
        """
        if callback.method != "POST" or not self._is_mine(callback):
            return None
        with self._database.of_caller(connection) as db:
            found = self._match.first(db, _values(callback))
        return None if found is None else str(found[0])

    async def match_async(self, callback: VerifiedCallback, connection: Any) -> str | None:
        """See `match`; for a handler of an `AsyncInbox`, with its connection."""
        run_sync = getattr(connection, "run_sync", None)
        if run_sync is None:  # SQLite without an engine for asyncio
            return self.match(callback, connection)
        session: str | None = await run_sync(lambda db: self.match(callback, db))
        return session

    def _is_mine(self, callback: VerifiedCallback) -> bool:
        return callback.address == self._address


def _values(callback: VerifiedCallback) -> dict[str, Any]:
    # The time of receipt: a login that arrived in time may have waited for a worker.
    return {"of_token": callback.token, "at": to_microseconds(callback.received_at)}


def _address_of(inbox: Inbox, address: CallbackAddress | None) -> CallbackAddress:
    known = [one for one in inbox.receiver.book.addresses if one.kind is CallbackKind.LOGIN and one.has_token]
    found = [one for one in known if address in (None, one)]
    if len(found) != 1:
        raise ConfigurationError(
            "login.address",
            f"the receiver has {len(found)} addresses of kind login that end with {TOKEN}, expected one",
        )
    return found[0]
