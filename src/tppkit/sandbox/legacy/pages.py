"""The bank's app as a web page: open decisions of customers, scanned codes, logins, and the public keys.

Customers are selected, not authenticated, so `/app`, which shows the open decisions, is for this machine only. Forms of other origins
are rejected, and so are requests for other names than the sandbox's (DNS rebinding).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tppkit.errors import FormatError, LocalProtocolError, TppkitError
from tppkit.protocol.legacy import PaymentOrder
from tppkit.protocol.legacy.rules import category, is_token
from tppkit.qr import Login, Payment, ScanLink, parse_code
from tppkit.sandbox.bank.customers import Account, Customer, accounts_of, customers, require_customer
from tppkit.sandbox.cell import Services
from tppkit.sandbox.control import is_loopback_name
from tppkit.sandbox.html import error_page, is_local, local_only_page, page, read_form, see_other, unframed
from tppkit.sandbox.legacy.access import access_choices, approve_access, decline_access, lock_any_access
from tppkit.sandbox.legacy.login_tables import LoginState
from tppkit.sandbox.legacy.logins import confirm_login, decline_login, find_any_login, require_open, scan_login
from tppkit.sandbox.legacy.page_texts import ACCESS, DONE, OTHER_ERROR, PERMISSIONS, error_text
from tppkit.sandbox.legacy.payments import approve_payment, decline_payment, lock_any_payment, pay_scanned
from tppkit.sandbox.legacy.sender import LegacySender
from tppkit.sandbox.legacy.settings import HOSTS, LIVE, LegacyHost, public_pem
from tppkit.sandbox.legacy.tables import AccessState, StoredAccess, access_to, waiting_payments

_MAX_FORM_BYTES = 16 * 1024  # a code has at most 2,330 bytes, each three characters in a form
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+))(?::[0-9]{1,5})?")  # as a Host header

Form = Mapping[str, Sequence[str]]


def scan_path(host: str) -> str:
    """Return the path of the page for scan links of a host."""
    return "/scan/live" if host == LIVE else "/scan"


class LegacyPages:
    """The pages of the legacy interface.

    Args:
        services: the services of the bank.
        hosts: the test and the live host, by their names.
        senders: their senders, by the same names.

    Attributes:
        routes: the routes of the pages.
    """

    def __init__(
        self, services: Services, hosts: Mapping[str, LegacyHost], senders: Mapping[str, LegacySender]
    ) -> None:
        self._services = services
        self._hosts = hosts
        self._senders = senders
        shown = {
            "/app": (self._show_app, self._decide),
            "/app/login/{login}": (self._show_login, self._decide_login),
            "/scan": (self._show_code, self._scan),
            "/scan/{host:str}": (self._show_code, self._scan),
        }
        self.routes = (
            Route("/legacy/keys/{name}.pem", self._show_key, methods=["GET"]),
            *(Route(path, self._guarded(path, show), methods=["GET"]) for path, (show, _) in shown.items()),
            *(Route(path, self._guarded(path, self._form(act)), methods=["POST"]) for path, (_, act) in shown.items()),
        )

    def _guarded(
        self, path: str, answer: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Wrap the handler of a route: reject requests for other names than the sandbox's, and show errors as pages."""

        async def checked(request: Request) -> Response:
            if path == "/app" and not is_local(request):
                return local_only_page()
            if not _is_own_name(request.headers.get("host", ""), self._pages_url):
                return _message(LocalProtocolError("form.elsewhere", ""))
            try:
                if request.method == "GET" and (code := request.query_params.get("refused")):
                    return _message(LocalProtocolError(code, ""))
                await self._services.events.catch_up()
                return await answer(request)
            except TppkitError as e:
                return _message(e)

        async def guarded(request: Request) -> Response:
            return unframed(await checked(request))

        return guarded

    def _form(self, act: Callable[[Request, Form], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            form = await read_form(request, self._pages_url, max_bytes=_MAX_FORM_BYTES)
            try:
                return await act(request, form)
            except LocalProtocolError as e:  # a choice was refused: by a redirect, so that the browser can go back
                return see_other(f"{request.scope['path']}?refused={e.code}")

        return answer

    @property
    def _pages_url(self) -> str:
        return next(iter(self._hosts.values())).pages_url

    async def _show_key(self, request: Request) -> Response:
        host = self._hosts.get(request.path_params["name"])
        if host is None:
            return page(
                "message.html", status=404, heading="There is no such key", text="There are test.pem and live.pem."
            )
        return Response(public_pem(host.signing_key), media_type="application/x-pem-file")

    async def _show_app(self, request: Request) -> Response:
        code = request.query_params.get("code")
        if code is not None:
            host = request.query_params.get("host", "")
            return see_other(f"{scan_path(host)}?{quote(_content(code), safe='')}")

        def read(db: Connection) -> dict[str, Any]:
            known = customers(db)
            customer = next((one for one in known if one.id == request.query_params.get("customer")), None)
            waiting = [] if customer is None else _waiting(db, customer)
            return {"customers": known, "customer": customer, "waiting": waiting}

        values = await self._services.database.read(read)
        return page(
            "app.html", heading="Your bank’s app", done=DONE.get(request.query_params.get("done", "")), **values
        )

    async def _decide(self, request: Request, form: Form) -> Response:
        """Decide an open request for access, or a requested payment."""
        kind, host, id_, customer = (_one(form, name) for name in ("kind", "host", "id", "customer"))
        approves = _approves(form)

        def write(db: Connection) -> str:
            at = self._services.now()
            if kind == "access":
                access = _lock_own_access(db, require_customer(db, customer), id_)
                if approves:
                    return f"access-{approve_access(db, access, customer, _one(form, 'iban'), at=at).state}"
                return f"access-{decline_access(db, access).state}"
            payment = lock_any_payment(db, host, id_)
            if payment.iban not in [account.iban for account in accounts_of(db, require_customer(db, customer).id)]:
                raise LocalProtocolError("account.unfit", "the customer may not use the account that pays")
            decide = approve_payment if approves else decline_payment
            return f"payment-{decide(db, payment, at=at).state}"

        done = await self._services.events.write(write)
        return see_other(f"/app?customer={quote(customer)}&done={done}")

    async def _show_code(self, request: Request) -> Response:
        """Show the code of a scan link; nothing happens until a customer is selected."""
        code = _parse(_content(f"https://bank.example/scan?{request.scope['query_string'].decode('latin-1')}"))
        return await self._show_scanned(request, code, None)

    async def _scan(self, request: Request, form: Form) -> Response:
        """Handle a scanned code: send the login GET to its receiver, or show and approve a payment."""
        code, id_ = _parse(_one(form, "code")), _one(form, "customer")
        customer = await self._services.database.read(lambda db: require_customer(db, id_))
        host = _host(request)
        if isinstance(code, Login):
            login = await scan_login(self._services, self._senders, host, code.text, customer)
            if login.state is LoginState.DEAD:
                return page(
                    "message.html", status=502, heading="You cannot log in with this code", text=f"Its receiver fails: {login.reason}."
                )  # fmt: skip
            return see_other(f"/app/login/{login.id}?customer={quote(customer.id)}")
        if "action" not in form:
            return await self._show_scanned(request, code, customer)
        if not _approves(form):
            return _done("payment-declined")
        uuid, iban = _one(form, "payment"), _one(form, "iban")
        if not is_token(uuid):
            raise FormatError("model.invalid", "the form has no id of the payment")
        order = _order(code)

        def write(db: Connection) -> str:
            payer = next((one for one in accounts_of(db, customer.id) if one.iban == iban), None)
            if payer is None:
                raise LocalProtocolError("account.unfit", "the customer has no such account")
            return pay_scanned(db, host, uuid, order, payer, at=self._services.now()).state

        return _done(f"payment-{await self._services.events.write(write)}")

    async def _show_scanned(self, request: Request, code: Login | Payment, customer: Customer | None) -> Response:
        def read(db: Connection) -> tuple[tuple[Customer, ...], list[Account]]:
            found = [] if customer is None else accounts_of(db, customer.id)
            return customers(db), [one for one in found if isinstance(code, Payment) and _can_pay(one, code)]

        known, accounts = await self._services.database.read(read)
        heading = "Log in with your bank?" if isinstance(code, Login) else "Make this payment?"
        return page(
            "scan.html", heading=heading, code=code.text, login=code if isinstance(code, Login) else None,
            payment=code if isinstance(code, Payment) else None, path=scan_path(_host(request)), customers=known,
            customer=customer, accounts=accounts, new_id=uuid4().hex,
        )  # fmt: skip

    async def _show_login(self, request: Request) -> Response:
        def read(db: Connection) -> Response:
            login = find_any_login(db, request.path_params["login"])
            if login.request is None or login.state is not LoginState.SCANNED:
                return _done(f"login-{login.state}")
            customer = require_customer(db, request.query_params.get("customer", ""))
            require_open(login, customer, at=self._services.now())
            asked = [(one.value, PERMISSIONS[one][0], PERMISSIONS[one][1](customer)) for one in login.request.perm]
            return page(
                "login.html", heading=f"Log in at {login.request.name}?", address=urlsplit(login.url).netloc, request=login.request,
                customer=customer, asked=asked,
            )  # fmt: skip

        return await self._services.database.read(read)

    async def _decide_login(self, request: Request, form: Form) -> Response:
        def write(db: Connection) -> str:
            login = find_any_login(db, request.path_params["login"], lock=True)
            customer, at = require_customer(db, _one(form, "customer")), self._services.now()
            if not _approves(form):
                return decline_login(db, login, customer, at=at).state
            return confirm_login(db, login, customer, form.get("permission", ()), at=at).state

        await self._services.events.write(write)
        return see_other(request.scope["path"])


def _waiting(db: Connection, customer: Customer) -> list[dict[str, Any]]:
    """Return the open decisions of a customer, the latest first."""
    found: list[dict[str, Any]] = []
    for access in (one for one in _own_access(db, customer) if one.state is AccessState.REQUESTED):
        accounts = [account for _, account in access_choices(db, access, customer.id, None)]
        title = ACCESS[access.kind]
        found.append(
            {"kind": "access", "host": access.host, "id": _form_id(access), "title": title, "accounts": accounts}
        )
    for payment in waiting_payments(db, [account.iban for account in accounts_of(db, customer.id)]):
        order = payment.order
        title = f"Pay {order.amount.value} {order.amount.currency} to {payment.creditor_name}?"
        shown = {"payment": payment, "category": category(order.tcc)}
        found.append({"kind": "payment", "host": payment.host, "id": payment.uuid, "title": title, **shown})
    return found


def _own_access(db: Connection, customer: Customer) -> tuple[StoredAccess, ...]:
    """Return the access requests that the customer can decide, or has decided."""
    ibans = [account.iban for account in accounts_of(db, customer.id)]
    return access_to(db, [customer.phone, customer.phone.removeprefix("+"), *ibans])


def _form_id(access: StoredAccess) -> str:
    """Return the id of an access request for forms, because its token is the provider's secret."""
    return hashlib.sha256(f"{access.host}:{access.token}".encode()).hexdigest()


def _lock_own_access(db: Connection, customer: Customer, form_id: str) -> StoredAccess:
    found = next((one for one in _own_access(db, customer) if _form_id(one) == form_id), None)
    if found is None:
        raise LocalProtocolError("token.unknown", "the customer has no such request")
    return lock_any_access(db, found.host, found.token)


def _parse(text: str) -> Login | Payment:
    code = parse_code(text)
    found = code.code if isinstance(code, ScanLink) else code
    if found is None:
        raise FormatError("qr.unknown", "the link has neither a login code nor a payment code")
    return found


def _content(text: str) -> str:
    """Return the text in a scan link; any other text unchanged."""
    return _parse(text).text


def _order(code: Login | Payment) -> PaymentOrder:
    if isinstance(code, Login):
        raise FormatError("qr.unknown", "a login code is not a payment")
    fields = {"name": code.name, "msg": code.message, "tcc": code.type}
    given = {name: value for name, value in fields.items() if value}
    return PaymentOrder.from_object({"acc": code.account, "amts": {code.currency: code.amount}, **given})


def _can_pay(account: Account, code: Payment) -> bool:
    return code.currency in account.currencies and account.iban != code.account


def _host(request: Request) -> str:
    name: str = request.path_params.get("host", HOSTS[0])
    if name not in HOSTS:
        raise FormatError("qr.unknown", "there is no such page")
    return name


def _one(form: Form, name: str) -> str:
    values = form.get(name, ())
    if len(values) != 1:
        raise FormatError("model.invalid", f"the form does not have exactly one {name}")
    return values[0]


def _approves(form: Form) -> bool:
    action = _one(form, "action")
    if action not in ("approve", "decline"):
        raise FormatError("model.invalid", "the form neither approves nor declines")
    return action == "approve"


def _is_own_name(host: str, pages_url: str) -> bool:
    """Whether a Host header is a name of the sandbox: loopback, an IP address, or its public name."""
    if is_loopback_name(host) or host == urlsplit(pages_url).netloc:
        return True
    found = _ADDRESS.fullmatch(host)
    try:
        ip_address(found[1] or found[2] if found else "")
    except ValueError:
        return False
    return True


def _done(name: str) -> Response:
    heading, text = DONE.get(name, OTHER_ERROR[1:])
    return page("message.html", heading=heading, text=text)


def _message(error: TppkitError) -> Response:
    return error_page(error, error_text(error))
