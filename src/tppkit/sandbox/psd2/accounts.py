"""Handlers of the account data endpoints.

Every request names a consent. A successful request without the customer's address counts against the consent's frequencyPerDay
(assumption unattended-reads).
"""

from __future__ import annotations

from datetime import date, datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection

from tppkit.errors import FormatError, LocalProtocolError
from tppkit.protocol.psd2 import (
    Access,
    AccountEntry,
    AccountList,
    AccountReference,
    Balance,
    BalanceReport,
    BookingStatus,
    Money,
    TransactionPage,
    TransactionReport,
)
from tppkit.protocol.psd2 import Account as ListedAccount
from tppkit.protocol.psd2 import endpoints as rows
from tppkit.protocol.psd2.accounts import SEVERAL_CURRENCIES, PageLinks
from tppkit.protocol.psd2.consent import require_valid
from tppkit.protocol.psd2.models import Href
from tppkit.protocol.psd2.rules import (
    TransactionQuery,
    is_attended,
    parse_consent_id,
    parse_psu_ip_address,
    parse_transaction_query,
    parse_with_balance,
)
from tppkit.sandbox.bank.customers import Account, find_account
from tppkit.sandbox.bank.ledger import Booked, available, booked, in_euro, pending, to_decimal
from tppkit.sandbox.bank.tables import EUR, Transfer
from tppkit.sandbox.bank.zone import bank_day, day_end
from tppkit.sandbox.cell import Answer, Handler, HostCall
from tppkit.sandbox.psd2.consent_tables import add_page, count_read, has_page
from tppkit.sandbox.psd2.consents import consent_of_caller
from tppkit.sandbox.psd2.tables import is_id

AVAILABLE = "interimAvailable"

A = TypeVar("A")


class _Grant(NamedTuple):
    """The data that a request may read.

    Attributes:
        consent_id: the consent.
        resource_id: the consent's id for the account.
        access: the access of the consent.
        frequency_per_day: how often a day the consent may be used while the customer is absent.
        attended: whether the customer is present.
        account: the account that the customer chose.
    """

    consent_id: str
    resource_id: str
    access: Access
    frequency_per_day: int
    attended: bool
    account: Account


def list_accounts(call: HostCall[None]) -> Answer[AccountList]:
    """GET /accounts: the one account of the consent; with balances only if they are granted."""
    grant = _grant(call)
    account, with_balance = grant.account, parse_with_balance(call.query) and grant.access.grants_balances
    listed = ListedAccount(
        resource_id=grant.resource_id,
        iban=account.iban,
        currency=account.currencies[0] if len(account.currencies) == 1 else SEVERAL_CURRENCIES,
        name=account.name,
        owner_name=account.owner_name,
        balances=_balances(call.db, account) if with_balance else None,
    )
    return _counted(call, grant, AccountList(accounts=(listed,)))


def show_balances(call: HostCall[None]) -> Answer[BalanceReport]:
    """GET /accounts/{resourceId}/balances: one for each currency."""
    grant = _grant(call)
    _require_access("balances", granted=grant.access.grants_balances)
    reference = AccountReference(iban=grant.account.iban)
    return _counted(call, grant, BalanceReport(account=reference, balances=_balances(call.db, grant.account)))


def list_transactions(call: HostCall[None]) -> Answer[TransactionReport]:
    """GET /accounts/{resourceId}/transactions: a page of booked entries, newest first; the first page also has all pending ones."""
    grant = _grant(call)
    _require_access("transactions", granted=grant.access.grants_transactions)
    query, page_size = parse_transaction_query(call.query, today=bank_day(call.at)), call.settings.rules.page_size
    if query.after is not None and not is_id(query.after):
        raise FormatError("query.after", "the account has no transaction where this page should begin")
    follows = query.after is not None and query.booking_status is not BookingStatus.PENDING
    entries: tuple[Booked, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    if query.booking_status is not BookingStatus.PENDING:
        window = query.first_day, query.last_day
        entries = booked(call.db, grant.account.id, *window, after=query.after, limit=page_size + 1)
    if query.booking_status is not BookingStatus.BOOKED and not follows:
        transfers = pending(call.db, grant.account.id)
    links = next_page = None
    if len(entries) > page_size:
        entries = entries[:page_size]
        after = {**call.query, "after": entries[-1].transaction_id}
        next_page = _page_key(query._replace(after=after["after"]))
        links = PageLinks(next=Href(href=call.target(rows.TRANSACTIONS, after, resource_id=grant.resource_id)))
    page = TransactionPage(
        booked=tuple([_entry(one, one.transaction_id, one.amount_minor, one.day) for one in entries]),
        pending=tuple([_entry(one, one.id, -one.amount_minor) for one in transfers]), links=links,
    )  # fmt: skip
    report = TransactionReport(account=AccountReference(iban=grant.account.iban), transactions=page)
    is_free = follows and has_page(call.db, grant.consent_id, bank_day(call.at), _page_key(query))
    return _counted(call, grant, report, is_free=is_free, next_page=next_page)


HANDLERS: tuple[Handler[Any, Any], ...] = (
    Handler(rows.ACCOUNTS, list_accounts, writes=False),
    Handler(rows.BALANCES, show_balances, writes=False),
    Handler(rows.TRANSACTIONS, list_transactions, writes=False),
)


def _grant(call: HostCall[None]) -> _Grant:
    """Return what the caller's consent allows now.

    Source: section 5 rule 6; assumptions consent-codes, account-unknown.
    """
    attended = is_attended(parse_psu_ip_address(call.message.single("psu-ip-address")))
    consent = consent_of_caller(call, parse_consent_id(call.message.single("consent-id")), call.settings.rules)
    require_valid(consent.progress.status)
    account = find_account(call.db, consent.iban or "")
    if account is None or call.parameters.get("resource_id", consent.resource_id) != consent.resource_id:
        raise LocalProtocolError("account.unknown", "the consent has no such account")
    request = consent.request
    frequency = call.settings.rules.granted_frequency(request.frequency_per_day)
    return _Grant(consent.consent_id, consent.resource_id, request.access, frequency, attended, account)


def _require_access(what: str, *, granted: bool) -> None:
    if not granted:
        raise LocalProtocolError("consent.access", f"the consent does not grant {what}")


def _page_key(query: TransactionQuery) -> str:
    return f"{query.first_day} {query.last_day} {query.booking_status} {query.after}"


def _counted(
    call: HostCall[None], grant: _Grant, value: A, *, is_free: bool = False, next_page: str | None = None
) -> Answer[A]:
    """Return the answer. If the customer is absent, count it unless it is free, and make the page to which it links free."""
    facts = {"accounts": call.target(rows.ACCOUNTS)}
    if grant.attended or (is_free and next_page is None):
        return Answer(value, facts=facts)
    return Answer(
        value, facts=facts, before=partial(_count, at=call.at, grant=grant, is_free=is_free, next_page=next_page)
    )


def _count(db: Connection, *, at: datetime, grant: _Grant, is_free: bool, next_page: str | None) -> None:
    day = bank_day(at)
    if not is_free and not count_read(db, grant.consent_id, day, most=grant.frequency_per_day):
        raise LocalProtocolError(
            "access.exceeded", f"the consent was used {grant.frequency_per_day} times on {day} without PSU-IP-Address",
            retry_after_s=int((day_end(day) - at).total_seconds()) + 1,
        )  # fmt: skip
    if next_page is not None:
        add_page(db, grant.consent_id, day, next_page)


def _balances(db: Connection, account: Account) -> tuple[Balance, ...]:
    held = available(db, account.id)
    return tuple(
        Balance(balance_type=AVAILABLE, balance_amount=_money(held.get(currency, 0), currency))
        for currency in account.currencies
    )


def _entry(one: Booked | Transfer, id_: str, amount_minor: int, day: date | None = None) -> AccountEntry:
    """Return a booked entry, or a pending one without a day (assumptions entry-currency, pending-entries)."""
    return AccountEntry(
        transaction_id=id_, booking_date=day, value_date=day,
        transaction_amount=_money(in_euro(amount_minor, one.currency)),
        creditor_name=one.creditor_name, remittance_information_unstructured=one.remittance,
    )  # fmt: skip


def _money(amount_minor: int, currency: str = EUR) -> Money:
    return Money(currency=currency, amount=to_decimal(amount_minor))
