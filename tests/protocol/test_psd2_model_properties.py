"""What is read from a PSD2 body and written to one, for every model and whatever the fields."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.errors import FormatError
from tppkit.protocol.psd2 import (
    AccountList,
    BalanceReport,
    Consent,
    ConsentCreated,
    ConsentRequest,
    ConsentState,
    PaymentDetails,
    PaymentInitiated,
    PaymentInitiation,
    PaymentStatus,
    TransactionReport,
)
from tppkit.protocol.psd2.models import AccountReference, InstructedAmount
from tppkit.protocol.wire import WireModel

pytestmark = pytest.mark.slow

PAYMENT: dict[str, Any] = {
    "instructedAmount": {"currency": "EUR", "amount": "12.50"},
    "creditorAccount": {"iban": "LT601010012345678901"},
    "creditorName": "Example Merchant",
}
LINKS = {name: {"href": f"https://bank.example/{name}"} for name in ("scaRedirect", "status", "self")}
INITIATED = {"transactionStatus": "RCVD", "paymentId": "p-1", "_links": LINKS}
CONSENT = {"access": {"allPsd2": "allAccounts"}, "validUntil": "2026-12-01", "frequencyPerDay": 4}
ACCOUNT = {"iban": "LT601010012345678901"}
BALANCES = [{"balanceType": "interimAvailable", "balanceAmount": {"currency": "EUR", "amount": "-0.50"}}]
ENTRY = {
    "transactionId": "t-1",
    "bookingDate": "2026-06-01",
    "transactionAmount": {"currency": "EUR", "amount": "-1.00"},
}
GOOD: dict[type[WireModel], dict[str, Any]] = {
    PaymentInitiation: PAYMENT,
    PaymentInitiated: INITIATED,
    PaymentStatus: {"transactionStatus": "ACSC"},
    PaymentDetails: PAYMENT | {"paymentId": "p-1", "transactionStatus": "RJCT"},
    ConsentRequest: CONSENT,
    ConsentCreated: {"status": "received", "consentId": "c-1", "_links": LINKS},
    ConsentState: {"status": "valid"},
    Consent: CONSENT | {"status": "expired", "consentId": "c-1"},
    AccountList: {"accounts": [ACCOUNT | {"resourceId": "r-1", "currency": "XXX", "balances": BALANCES}]},
    BalanceReport: {"account": ACCOUNT, "balances": BALANCES},
    TransactionReport: {
        "account": ACCOUNT,
        "transactions": {"booked": [ENTRY], "pending": [], "_links": {"next": {"href": "/psd2/v1/x"}}},
    },
}
MODELS = list(GOOD)


def wire(value: object) -> bytes:
    return json.dumps(value).encode()


def declared(model: type[WireModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
UNKNOWN = st.dictionaries(
    st.text() | st.sampled_from(["x", "self_", "creditor_name", "model_config", "to_wire"]), VALUES, max_size=3
)


@pytest.mark.parametrize("model", MODELS)
@given(unknown=UNKNOWN)
def test_unknown_fields_are_kept_as_they_came(model, unknown):
    extra = {name: value for name, value in unknown.items() if name not in declared(model)}
    read = model.from_wire(wire(GOOD[model] | extra), unknown_fields=True)
    assert json.loads(read.to_wire()) == GOOD[model] | extra


def ibans() -> st.SearchStrategy[str]:
    def complete(country: str, account: str) -> str:
        digits = "".join(str(int(character, 36)) for character in account + country + "00")
        return f"{country}{98 - int(digits) % 97:02}{account}"

    characters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return st.one_of(
        st.builds(complete, st.just(country), st.text(alphabet=characters, min_size=length, max_size=length))
        for country, length in (("LT", 16), ("DE", 18), ("XK", 16), ("NO", 11))
    )


PRINTABLE = st.characters(exclude_categories=["C", "Z"]) | st.just(" ")


def a_payment(cents: int, creditor: str, name: str, remittance: str | None, debtor: str | None) -> PaymentInitiation:
    return PaymentInitiation(
        instructed_amount=InstructedAmount(currency="EUR", amount=f"{cents // 100}.{cents % 100:02}"),
        creditor_account=AccountReference(iban=creditor),
        creditor_name=name,
        remittance_information_unstructured=remittance,
        debtor_account=AccountReference(iban=debtor) if debtor else None,
    )


PAYMENTS = st.builds(
    a_payment,
    st.integers(1, 99_999_999_999),
    ibans(),
    st.text(PRINTABLE, min_size=1, max_size=70).filter(str.strip),
    st.none() | st.text(PRINTABLE, max_size=140),
    st.none() | ibans(),
)


@given(PAYMENTS)
def test_a_payment_that_is_written_reads_back(payment):
    assert PaymentInitiation.from_wire(payment.to_wire()) == payment


@pytest.mark.parametrize("model", MODELS)
@given(
    raw=st.binary()
    | VALUES.map(wire)
    | st.dictionaries(st.sampled_from(sorted({name for good in GOOD.values() for name in good})), VALUES).map(wire),
    tolerant=st.booleans(),
)
def test_only_format_error_escapes_the_readers(model, raw, tolerant):
    with suppress(FormatError):
        model.from_wire(raw, tolerant=tolerant)
