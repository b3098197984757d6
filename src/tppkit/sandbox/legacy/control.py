"""Control routes of the legacy interface, for the actions of customers in the bank's app."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection

from tppkit._clock import format_time
from tppkit.errors import FormatError, LocalProtocolError
from tppkit.protocol.legacy import Amount, LoginPermission
from tppkit.sandbox.bank.charges import Charge, Charges
from tppkit.sandbox.bank.customers import require_customer
from tppkit.sandbox.cell import Services
from tppkit.sandbox.control import Control, text_fields
from tppkit.sandbox.delivery_tables import latest_deliveries
from tppkit.sandbox.legacy.access import approve_access, decline_access, lock_any_access, revoke_access
from tppkit.sandbox.legacy.login_tables import LoginState, StoredLogin
from tppkit.sandbox.legacy.logins import confirm_login, decline_login, find_any_login, scan_login
from tppkit.sandbox.legacy.payments import approve_payment, decline_payment, lock_any_payment
from tppkit.sandbox.legacy.sender import LegacySender, parse_callback_url, sender_name
from tppkit.sandbox.legacy.settings import HOSTS, TEST
from tppkit.sandbox.legacy.tables import AccessState, PaymentState, StoredAccess, StoredPayment, set_callback_url
from tppkit.sandbox.outgoing_http import Receivers

_SHOWN = 200
_MAX_CHARGE_MINOR = 1_000_000_00

Found = TypeVar("Found", StoredAccess, StoredPayment)
Lock = Callable[[Connection, str, str], Found]  # with a host, and a token or uuid


class LegacyControl:
    """The control routes. Approving access accepts `{"customer": id, "iban": iban}`; without them, the first possible one approves.

    If both hosts have the token or uuid, the undecided request is used, test first; `{"host": "live"}` selects the live host.

    Args:
        services: the services of the bank.
        senders: the senders by the hosts' names.
        receivers: the addresses that callbacks can reach.

    Attributes:
        routes: the routes of the control host.
    """

    def __init__(self, services: Services, senders: Mapping[str, LegacySender], receivers: Receivers) -> None:
        self._services = services
        self._receivers = receivers
        self._senders = senders
        self.routes = (
            Control("POST", "/legacy/provider", self._set_provider),
            Control("POST", "/legacy/login", self._log_in),
            Control("GET", "/legacy/deliveries", self._list_deliveries),
            self._action("access/{token}/approve", lock_any_access, AccessState.REQUESTED, _approve_access, "customer", "iban"),
            self._action("access/{token}/decline", lock_any_access, AccessState.REQUESTED,
                         lambda db, access, at, fields: _access(decline_access(db, access))),
            self._action("access/{token}/revoke", lock_any_access, AccessState.GRANTED,
                         lambda db, access, at, fields: _access(revoke_access(db, access))),
            self._action("payments/{uuid}/approve", lock_any_payment, PaymentState.REQUESTED,
                         _approve_payment, "fee", "second_amount"),
            self._action("payments/{uuid}/decline", lock_any_payment, PaymentState.REQUESTED,
                         lambda db, payment, at, fields: _payment(decline_payment(db, payment, at=at))),
        )  # fmt: skip

    def _action(
        self, path: str, lock: Lock[Found], state: str, act: Callable[[Connection, Found, datetime, Mapping[str, str]], Any],
        *names: str,
    ) -> Control:  # fmt: skip
        """The route of an action about an access or a payment that may be in this state; its body can have `names` and `host`."""

        async def answer(parameters: Mapping[str, str], body: Any) -> Any:
            fields = _fields(body, *names, "host")
            (id_,) = parameters.values()
            return await self._services.events.write(
                lambda db: act(db, _find(lock, db, fields, id_, state), self._services.now(), fields)
            )

        return Control("POST", f"/legacy/{path}", answer)

    async def _set_provider(self, parameters: Mapping[str, str], body: Any) -> Any:
        unset = body == {"callback_url": None}
        given = {} if unset else _fields(body, "callback_url")
        if not (given or unset):
            raise FormatError("model.invalid", "the body has no callback_url")
        url = None if unset else parse_callback_url(given["callback_url"], self._receivers)
        await self._services.events.write(lambda db: set_callback_url(db, url))
        return {"callback_url": url}

    async def _log_in(self, parameters: Mapping[str, str], body: Any) -> Any:
        """Scan a code as a customer, and confirm it unless `confirm` is false."""
        given = dict(body) if isinstance(body, dict) else {}
        granted, confirm = given.pop("permissions", None), given.pop("confirm", True)
        fields, services = _fields(given, "code", "customer", "host"), self._services
        is_list = isinstance(granted, list) and all(one in tuple(LoginPermission) for one in granted)
        if not isinstance(confirm, bool) or not (granted is None or is_list):
            raise FormatError(
                "model.invalid", f"permissions is no list of {', '.join(LoginPermission)}, or confirm not true or false"
            )
        customer = await services.database.read(lambda db: require_customer(db, fields.get("customer")))
        login = await scan_login(services, self._senders, _host(fields) or TEST, fields.get("code", ""), customer)
        if login.state is LoginState.DEAD:
            raise LocalProtocolError("login.dead", str(login.reason))

        def decide(db: Connection) -> StoredLogin:
            found, at = find_any_login(db, login.id, lock=True), services.now()
            if not confirm:
                return decline_login(db, found, customer, at=at)
            return confirm_login(db, found, customer, granted, at=at)

        decided = await services.events.write(decide)
        asked = {} if login.request is None else login.request.to_object()
        return {"state": decided.state.value, "host": login.host, "asked": asked}

    async def _list_deliveries(self, parameters: Mapping[str, str], body: Any) -> Any:
        senders = [sender_name(host) for host in HOSTS]
        found = await self._services.database.read(lambda db: latest_deliveries(db, senders, _SHOWN))
        return [one.as_object() for one in found]


def _approve_access(db: Connection, access: StoredAccess, at: datetime, fields: Mapping[str, str]) -> Any:
    return _access(approve_access(db, access, fields.get("customer"), fields.get("iban"), at=at))


def _approve_payment(db: Connection, payment: StoredPayment, at: datetime, fields: Mapping[str, str]) -> Any:
    charges = Charges(_charge(fields, "fee"), _charge(fields, "second_amount"))
    if charges.fee is not None and charges.fee.amount_minor > 0:
        raise FormatError("model.invalid", "fee is not below zero, such as EUR-0.30")
    return _payment(approve_payment(db, payment, at=at, charges=charges))


def _charge(fields: Mapping[str, str], name: str) -> Charge | None:
    if name not in fields:
        return None
    currency, value = Amount.parse(fields[name])
    minor = value.scaleb(2)
    if minor == 0 or minor != minor.to_integral_value() or abs(minor) > _MAX_CHARGE_MINOR:
        raise FormatError("model.invalid", f"{name} is not an amount such as EUR-0.30, with at most two decimals")
    return Charge(currency, int(minor))


def _find(lock: Lock[Found], db: Connection, fields: Mapping[str, Any], id_: str, state: str) -> Found:
    """Find a token or uuid on the named host; without a name, prefer the host where it is in this state."""
    host, found, error = _host(fields), [], None
    for name in HOSTS if host is None else (host,):
        try:
            found.append(lock(db, name, id_))
        except LocalProtocolError as e:
            error = error or e
    if error is not None and not found:
        raise error
    return next((one for one in found if one.state == state), found[0])


def _access(access: StoredAccess) -> Any:
    ends = None if access.expires_at is None else format_time(access.expires_at)
    return {
        "token": access.token,
        "host": access.host,
        "state": access.state.value,
        "iban": access.iban,
        "expires_at": ends,
    }


def _payment(payment: StoredPayment) -> Any:
    return {"uuid": payment.uuid, "host": payment.host, "state": payment.state.value}


def _fields(body: Any, *names: str) -> Mapping[str, str]:
    """Return the fields of a body as texts. Reject unknown fields, because a misspelt one would be ignored."""
    unknown = [name for name in body if name not in names] if isinstance(body, dict) else []
    if unknown:
        raise FormatError("model.invalid", f"the body has fields other than {', '.join(names)}")
    return text_fields(body, *names)


def _host(fields: Mapping[str, Any]) -> str | None:
    host: str | None = fields.get("host")
    if host not in (None, *HOSTS):
        raise FormatError("model.invalid", "host is neither test nor live")
    return host
