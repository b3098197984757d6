"""Access to account information and payments: the provider's requests, the customer's decisions, and the present access."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from tppkit.errors import LocalProtocolError
from tppkit.protocol.legacy import AccessGranted
from tppkit.protocol.legacy.endpoints import REQUEST_ACCOUNT_ACCESS, REQUEST_PAYMENT_ACCESS
from tppkit.protocol.legacy.models import AccessRequest
from tppkit.protocol.legacy.rules import ACCESS_LIFETIME, is_token, require_token
from tppkit.sandbox.bank.customers import Account, Customer, approving_accounts, find_account, find_customer
from tppkit.sandbox.cell import Answer, Handler, HostCall
from tppkit.sandbox.legacy.sender import callback
from tppkit.sandbox.legacy.tables import ACCESS, AIS, PIS, AccessState, StoredAccess


def request_account_access(call: HostCall[AccessRequest]) -> Answer[None]:
    """POST /ais/<access_token>."""
    return _request(call, AIS)


def request_payment_access(call: HostCall[AccessRequest]) -> Answer[None]:
    """POST /pis/<access_token>."""
    return _request(call, PIS)


HANDLERS: tuple[Handler[Any, Any], ...] = (
    Handler(REQUEST_ACCOUNT_ACCESS, request_account_access),
    Handler(REQUEST_PAYMENT_ACCESS, request_payment_access),
)


def account_of_caller(call: HostCall[Any], kind: str) -> Account:
    """Return the account to which the token of the path gives access now.

    Raises:
        FormatError: `token.malformed`.
        LocalProtocolError: `token.refused`, the same for every reason (assumption access-refused).
    """
    token = require_token(call.parameters["access_token"], "access token")
    access = ACCESS.find(call.db, call.settings.name, token)
    if access is not None and access.kind == kind and access.is_valid(call.at):
        account = find_account(call.db, access.iban or "")
        if account is not None:
            return account
    raise LocalProtocolError("token.refused", "the access token gives no such access")


def lock_any_access(db: Connection, host: str, token: str) -> StoredAccess:
    """Return the access with this token, locked for a decision.

    Raises:
        LocalProtocolError: `token.unknown`.
    """
    access = ACCESS.lock(db, host, token) if is_token(token) else None
    if access is None:
        raise LocalProtocolError("token.unknown", "no access was requested with this token")
    return access


def access_choices(
    db: Connection, access: StoredAccess, customer: str | None, iban: str | None
) -> Iterator[tuple[Customer, Account]]:
    """Yield each customer with each account that the customer may approve with; acc restricts both.

    Args:
        db: the transaction.
        access: the requested access.
        customer: id of the customer who approves; None: any.
        iban: IBAN of the account; None: any.
    """
    owner = find_customer(db, access.acc)
    for one in approving_accounts(db, iban, customer_id=customer):
        if one[1].iban == access.acc or (owner is not None and one[0] == owner):
            yield one


def approve_access(
    db: Connection, access: StoredAccess, customer: str | None = None, iban: str | None = None, *, at: datetime
) -> StoredAccess:
    """Approve as the customer with an account, and add the callback. Arguments are those of `access_choices`.

    Raises:
        LocalProtocolError: `token.decided`; `account.unfit`, the customer has no such account, or acc names another.
    """
    _require_undecided(access)
    chosen = next(access_choices(db, access, customer, iban), None)
    if chosen is None:
        raise LocalProtocolError("account.unfit", "no such account may be chosen for this access")
    expires_at = (at + ACCESS_LIFETIME).replace(microsecond=0)  # the second of exp, which has no fraction
    granted = replace(access, state=AccessState.GRANTED, iban=chosen[1].iban, expires_at=expires_at)
    ACCESS.set(db, granted)
    callback(db, access.host, "", AccessGranted.until(access.token, expires_at).to_wire(), at=at)
    return granted


def decline_access(db: Connection, access: StoredAccess) -> StoredAccess:
    """Decline as the customer; no callback is sent (assumption access-life).

    Raises:
        LocalProtocolError: `token.decided`.
    """
    _require_undecided(access)
    declined = replace(access, state=AccessState.DECLINED)
    ACCESS.set(db, declined)
    return declined


def revoke_access(db: Connection, access: StoredAccess) -> StoredAccess:
    """Revoke the access as the customer; no callback is sent.

    Raises:
        LocalProtocolError: `token.decided`, it is not granted.
    """
    if access.state is not AccessState.GRANTED:
        raise LocalProtocolError("token.decided", f"the access is {access.state}, so it cannot be revoked")
    revoked = replace(access, state=AccessState.REVOKED)
    ACCESS.set(db, revoked)
    return revoked


def _request(call: HostCall[AccessRequest], kind: str) -> Answer[None]:
    token, acc = require_token(call.parameters["access_token"], "access token"), call.body.acc
    named = _find_named(call.db, acc)
    if named is None:
        raise LocalProtocolError("account.unknown", "the bank has no customer with this account or phone number")
    if not ACCESS.add_new(call.db, StoredAccess(call.settings.name, token, kind, acc, AccessState.REQUESTED, call.at)):
        known = ACCESS.find(call.db, call.settings.name, token)
        if known is None or (known.kind, _find_named(call.db, known.acc)) != (kind, named):
            raise LocalProtocolError("token.reuse", "the access token was used for another request")
    return Answer(None)


def _find_named(db: Connection, acc: str) -> Account | Customer | None:
    """Return the account with this IBAN, or the customer with this phone number, or None."""
    return find_account(db, acc) or find_customer(db, acc)


def _require_undecided(access: StoredAccess) -> None:
    if access.state is not AccessState.REQUESTED:
        raise LocalProtocolError("token.decided", f"the access is {access.state}, so it can no longer be decided")
