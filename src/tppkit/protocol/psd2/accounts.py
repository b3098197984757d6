"""Account information: access, consents, accounts, balances, transactions. Source: PSD2 document, part A sections 2 and 4.

The classes follow the rules of `models`. Berlin Group names of a consent's status are mapped to the document's (assumption
consent-names).
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any, Self

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, ValidationInfo, model_validator

from tppkit._currency import is_currency
from tppkit.protocol.psd2.consent import ConsentStatus
from tppkit.protocol.psd2.models import AccountReference, ApprovalLinks, Href, Psd2Model
from tppkit.protocol.wire import NullAsEmpty, form, rule

#: The value of a consent's access that asks for every account.
ALL_ACCOUNTS = "allAccounts"
SEVERAL_CURRENCIES = "XXX"  # assumption account-currency

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_AMOUNT = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,4})?")
_BERLIN_GROUP = {
    "revokedByPsu": ConsentStatus.REVOKED,
    "terminatedByTpp": ConsentStatus.REVOKED,
    "rejected": ConsentStatus.REVOKED,  # assumption consent-declined
}


def parse_date(text: str) -> date:
    """Parse a calendar date such as `2026-06-01`.

    Raises:
        ValueError: the text is not such a date.
    """
    if not _DATE.fullmatch(text):
        raise ValueError("not a date as yyyy-mm-dd")
    return date.fromisoformat(text)


def _read_date(value: Any) -> Any:
    return parse_date(value) if isinstance(value, str) else value


def _read_status(value: str) -> str:
    try:
        return ConsentStatus(value)
    except ValueError:
        return _BERLIN_GROUP.get(value, value)


Day = Annotated[date, BeforeValidator(_read_date)]
AllAccounts = Annotated[  # assumption consent-form
    str, rule(lambda text: text == ALL_ACCOUNTS, f"not {ALL_ACCOUNTS}"), form(enum=[ALL_ACCOUNTS])
]
Currency = Annotated[
    str,
    rule(lambda code: is_currency(code) or code == SEVERAL_CURRENCIES, "not a currency of ISO 4217"),
    form(pattern="^[A-Z]{3}$"),
]
SignedAmount = Annotated[
    str, rule(_AMOUNT.fullmatch, "not a decimal, negative for a debit"), form(pattern=f"^{_AMOUNT.pattern}$")
]
ConsentId = Annotated[str, Field(min_length=1)]
# A member of ConsentStatus, or the text of an unknown status.
Status = Annotated[
    str,
    AfterValidator(_read_status),
    form(enum=[*ConsentStatus]),
    Field(validation_alias=AliasChoices("status", "consentStatus"), serialization_alias="status"),
]


References = Annotated[tuple[AccountReference, ...], Field(strict=False)]  # lists of callers


class Access(Psd2Model):
    """The access of a consent, in exactly one of three forms (assumption consent-form).

    Attributes:
        all_psd2: `allAccounts`; the customer chooses the account, and all its data can be read.
        available_accounts: `allAccounts`; the customer chooses the account, which is only listed.
        accounts: the named account is listed.
        balances: the balances of the named account can be read.
        transactions: the transactions of the named account can be read.
    """

    is_open = True  # section 4: the request body of the consent endpoints is not shown
    all_psd2: AllAccounts | None = None
    available_accounts: AllAccounts | None = None
    accounts: References | None = None
    balances: References | None = None
    transactions: References | None = None

    @model_validator(mode="after")
    def _check_form(self, info: ValidationInfo) -> Self:
        if info.context and info.context.get("tolerant"):
            return self
        lists = [named for named in (self.accounts, self.balances, self.transactions) if named is not None]
        if (self.all_psd2 is not None) + (self.available_accounts is not None) + bool(lists) != 1:
            raise ValueError("not exactly one of allPsd2, availableAccounts, and accounts, balances, transactions")
        if not all(lists) or len({account.iban for named in lists for account in named}) > 1:
            raise ValueError("the lists do not name one account")
        return self

    @property
    def iban(self) -> str | None:
        """The account that the customer must choose; None for a free choice."""
        named = [*(self.accounts or ()), *(self.balances or ()), *(self.transactions or ())]
        return named[0].iban if named else None

    @property
    def grants_balances(self) -> bool:
        """Whether balances can be read."""
        return self.all_psd2 is not None or bool(self.balances)

    @property
    def grants_transactions(self) -> bool:
        """Whether transactions can be read."""
        return self.all_psd2 is not None or bool(self.transactions)


class ConsentRequest(Psd2Model):
    """The body of a consent's creation.

    Attributes:
        access: the requested access.
        valid_until: its last day; the bank limits it to 180 days.
        frequency_per_day: how often account data can be read in a day while the customer is absent.
        recurring_indicator: a field of the Berlin Group without effect here (assumption consent-fields).

    Example:
        ConsentRequest(access=Access(all_psd2=ALL_ACCOUNTS), valid_until=date(2026, 12, 31), frequency_per_day=4)
    """

    is_request = True
    is_open = True  # section 4: the request body of the consent endpoints is not shown
    access: Access
    valid_until: Day
    frequency_per_day: Annotated[int, Field(ge=1, le=2**31 - 1)]  # assumption frequency-per-day
    recurring_indicator: bool | None = None


class ConsentCreated(Psd2Model):
    """The answer to a consent's creation."""

    status: Status
    consent_id: ConsentId
    links: Annotated[ApprovalLinks, Field(alias="_links", default_factory=dict, validate_default=True)]


class ConsentState(Psd2Model):
    """The answer to a request for a consent's status."""

    status: Status


class ConsentLinks(Psd2Model):
    """Links of a consent."""

    self_: Annotated[Href | None, Field(alias="self")] = None
    status: Href | None = None


class Consent(Psd2Model):
    """A consent as the bank keeps it. Other banks leave out its id and links."""

    consent_id: ConsentId | None = None
    status: Status
    access: Access
    valid_until: Day
    frequency_per_day: int
    recurring_indicator: bool | None = None
    links: Annotated[ConsentLinks | None, Field(alias="_links")] = None


class Money(Psd2Model):
    """A currency and a decimal string; a debit is negative."""

    currency: Currency
    amount: SignedAmount


class Balance(Psd2Model):
    """A balance in one currency: `balance_type` is `interimAvailable`, what can be spent now."""

    balance_type: str
    balance_amount: Money


class Account(Psd2Model):
    """An account of a consent.

    Attributes:
        resource_id: its id in later calls; stable within the consent.
        iban: its IBAN; other banks may identify the account in another way.
        currency: its currency, or XXX if it has several.
        name: the name of the account.
        owner_name: the name of its owner.
        balances: present if they were requested and granted.
    """

    resource_id: Annotated[str, Field(min_length=1)]
    iban: str | None = None
    currency: Currency
    name: str | None = None
    owner_name: str | None = None
    balances: tuple[Balance, ...] | None = None


class AccountList(Psd2Model):
    """The accounts of a consent."""

    accounts: tuple[Account, ...]


class BalanceReport(Psd2Model):
    """The balances of an account, one for each currency."""

    account: AccountReference | None = None
    balances: tuple[Balance, ...]


class AccountEntry(Psd2Model):
    """An entry of an account. A pending one has no days yet; other banks may leave out the id and the names."""

    transaction_id: str | None = None
    booking_date: Day | None = None
    value_date: Day | None = None
    transaction_amount: Money
    creditor_name: str | None = None
    remittance_information_unstructured: str | None = None


class PageLinks(Psd2Model):
    """Links of a page; without `next` it is the last."""

    next: Href | None = None


Transactions = Annotated[tuple[AccountEntry, ...], NullAsEmpty]


class TransactionPage(Psd2Model):
    """One page of entries; a list that the answer leaves out, or sends as null, is empty."""

    booked: Transactions = ()
    pending: Transactions = ()
    links: Annotated[PageLinks | None, Field(alias="_links")] = None


class TransactionReport(Psd2Model):
    """The entries of an account."""

    account: AccountReference | None = None
    transactions: TransactionPage
