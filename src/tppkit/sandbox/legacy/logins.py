"""Login codes: the receiver's request, the customer's decision, and the posted data."""

from __future__ import annotations

import logging
import secrets
import zlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from tppkit.errors import LocalProtocolError, TppkitError
from tppkit.protocol.legacy import LoginConfirmed, LoginPermission
from tppkit.qr import parse_login
from tppkit.sandbox.bank.customers import Customer
from tppkit.sandbox.cell import Services
from tppkit.sandbox.delivery_tables import add_delivery
from tppkit.sandbox.legacy.login_tables import LOGINS, LoginState, StoredLogin
from tppkit.sandbox.legacy.sender import LegacySender, sender_name

CONFIRMABLE = timedelta(minutes=5)  # after the scan; assumption login-confirmation
_MAX_REASON = 300
_LOGGER = logging.getLogger("tppkit.sandbox.legacy")

# The customer data of each permission, by the field of the body (section 6; assumption login-fields).
_FIELDS: Mapping[LoginPermission, Mapping[str, str]] = {
    LoginPermission.NAME: {"name": "name"},
    LoginPermission.PHONE: {"phone": "phone"},
    LoginPermission.EMAIL: {"email": "email"},
    LoginPermission.ADDRESS: {"address": "address", "city": "city", "country": "country"},
    LoginPermission.ID: {"code": "person_code"},
}


async def scan_login(
    services: Services, senders: Mapping[str, LegacySender], host: str, text: str, customer: Customer
) -> StoredLogin:
    """Send the login GET of a code, and store the receiver's answer. Without a valid answer, the code is dead.

    Args:
        services: the services of the bank.
        senders: the senders by the hosts' names.
        host: `test` or `live`, whose key signs.
        text: the text of the code.
        customer: the customer who scans; no other can decide.

    Raises:
        FormatError: `qr.*`, the text is not a login code.
        TransportError: `database.unavailable`.
    """
    url = parse_login(text).url
    login = StoredLogin(secrets.token_hex(24), host, url, LoginState.SCANNED, services.now(), customer.id)
    try:
        login = replace(login, request=await senders[host].ask(url))
    except TppkitError as e:
        reason = f"{e.message} ({e.code})"[:_MAX_REASON]
        _LOGGER.warning("  a login code is dead: %s", reason)
        login = replace(login, state=LoginState.DEAD, reason=reason)
    await services.events.write(lambda db: LOGINS.add(db, login))
    return login


def find_any_login(db: Connection, login_id: str, *, lock: bool = False) -> StoredLogin:
    """Return the login with this id; `lock` locks it for a decision.

    Raises:
        LocalProtocolError: `login.unknown`.
    """
    login = (
        (LOGINS.lock if lock else LOGINS.find)(db, login_id) if login_id.isascii() and login_id.isprintable() else None
    )
    if login is None:
        raise LocalProtocolError("login.unknown", "no code was scanned for this login")
    return login


def confirm_login(
    db: Connection, login: StoredLogin, customer: Customer, granted: Collection[str] | None = None, *, at: datetime
) -> StoredLogin:
    """Confirm as the customer, and post the granted data.

    Args:
        db: the transaction.
        login: the scanned login.
        customer: the customer who confirms.
        granted: the granted permissions; None: all requested ones. Data that is not requested is not posted.
        at: the time, aware UTC.

    Raises:
        LocalProtocolError: see `require_open`.
    """
    require_open(login, customer, at=at)
    asked = () if login.request is None else login.request.perm
    allowed = [permission for permission in asked if granted is None or permission.value in granted]
    fields = {name: getattr(customer, of) for one in allowed for name, of in _FIELDS[one].items()}
    body = LoginConfirmed(id=zlib.crc32(customer.id.encode()), **fields).to_wire()
    add_delivery(db, sender=sender_name(login.host), address=login.url, body=body, at=at, stream=None, ver=0)
    return _store(db, replace(login, state=LoginState.CONFIRMED))


def decline_login(db: Connection, login: StoredLogin, customer: Customer, *, at: datetime) -> StoredLogin:
    """Decline as the customer; nothing is posted. Errors are those of `require_open`."""
    require_open(login, customer, at=at)
    return _store(db, replace(login, state=LoginState.DECLINED))


def require_open(login: StoredLogin, customer: Customer, *, at: datetime) -> None:
    """Check that a customer can decide about a login now.

    Raises:
        LocalProtocolError: `login.unknown`, another customer scanned it; `login.decided`, also if the code is dead; `login.expired`.
    """
    if login.customer != customer.id:
        raise LocalProtocolError("login.unknown", "another customer scanned the code of this login")
    if login.state is not LoginState.SCANNED:
        raise LocalProtocolError("login.decided", f"the login is {login.state}, so it can no longer be decided")
    if at >= login.scanned_at + CONFIRMABLE:
        raise LocalProtocolError("login.expired", "the code was scanned over five minutes ago")


def _store(db: Connection, login: StoredLogin) -> StoredLogin:
    LOGINS.set(db, login)
    return login
