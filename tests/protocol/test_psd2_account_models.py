"""What travels in bodies of consents and account information."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from tppkit.errors import FormatError
from tppkit.protocol.psd2 import (
    Access,
    AccountEntry,
    AccountReference,
    ConsentRequest,
    ConsentState,
    ConsentStatus,
    Money,
)
from tppkit.protocol.psd2.accounts import AccountList, BalanceReport, Consent, TransactionReport

IBAN = "LT601010012345678901"
OTHER = "DE89370400440532013000"
NAMED = [{"iban": IBAN}]
CONSENT: dict[str, Any] = {"access": {"allPsd2": "allAccounts"}, "validUntil": "2026-12-01", "frequencyPerDay": 4}


def wire(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("access", "iban", "balances", "transactions"),
    [
        ({"allPsd2": "allAccounts"}, None, True, True),
        ({"availableAccounts": "allAccounts"}, None, False, False),
        ({"accounts": NAMED}, IBAN, False, False),
        ({"balances": NAMED}, IBAN, True, False),
        ({"accounts": NAMED, "balances": NAMED, "transactions": NAMED}, IBAN, True, True),
        ({"transactions": [{"iban": IBAN, "currency": "EUR"}], "x": 1}, IBAN, False, True),
    ],
)
def test_each_form_of_access_grants_what_it_says(access, iban, balances, transactions):
    consent = ConsentRequest.from_wire(wire(CONSENT | {"access": access}), unknown_fields=True)
    found = consent.access
    assert (found.iban, found.grants_balances, found.grants_transactions) == (iban, balances, transactions)
    assert json.loads(consent.to_wire()) == CONSENT | {"access": access}


@pytest.mark.parametrize(
    "access",
    [
        {}, None, [], "allAccounts", {"x": "allAccounts"}, {"allPsd2": "all"}, {"allPsd2": True}, {"allPsd2": None},
        {"allPsd2": "allAccounts", "availableAccounts": "allAccounts"}, {"allPsd2": "allAccounts", "accounts": NAMED},
        {"availableAccounts": "allAccountsWithOwnerName"}, {"accounts": []}, {"accounts": NAMED, "balances": []},
        {"accounts": NAMED, "balances": [{"iban": OTHER}]}, {"accounts": [*NAMED, {"iban": OTHER}]}, {"accounts": [{}]},
        {"accounts": [{"iban": "LT00"}]}, {"accounts": {"iban": IBAN}},
    ],
)  # fmt: skip
def test_access_in_no_form_or_in_two_is_refused(access):
    with pytest.raises(FormatError) as caught:
        ConsentRequest.from_wire(wire(CONSENT | {"access": access}))
    assert caught.value.code == "model.invalid"
    assert IBAN not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("validUntil", value) for value in ("2026-02-30", "2026-12-1", "20261201", "2026-12-01T00:00:00Z", "", 1764547200, None,
        "２026-12-01")],
        *[("frequencyPerDay", value) for value in (0, -1, 1.5, "4", True, None, 2**31)],
        ("recurringIndicator", "true"),
    ],
)  # fmt: skip
def test_a_consent_with_a_wrong_value_is_refused(name, value):
    with pytest.raises(FormatError) as caught:
        ConsentRequest.from_wire(wire(CONSENT | {name: value}))
    assert name in caught.value.message


@pytest.mark.parametrize("name", CONSENT)
def test_each_required_field_of_a_consent_is_required(name):
    with pytest.raises(FormatError, match=name):
        ConsentRequest.from_wire(wire({key: value for key, value in CONSENT.items() if key != name}))


def test_a_consent_is_written_with_the_names_of_the_document():
    consent = ConsentRequest(
        access=Access(accounts=(AccountReference(iban=IBAN),)), valid_until=date(2026, 12, 1), frequency_per_day=4,
        recurring_indicator=True,
    )  # fmt: skip
    assert json.loads(consent.to_wire()) == CONSENT | {"access": {"accounts": NAMED}, "recurringIndicator": True}


@pytest.mark.parametrize("name", ["status", "consentStatus"])
@pytest.mark.parametrize(
    ("written", "read"),
    [*[(status.value, status.value) for status in ConsentStatus], ("revokedByPsu", "revoked"), ("terminatedByTpp", "revoked"),
     ("rejected", "revoked"), ("partiallyAuthorised", "partiallyAuthorised"), ("", "")],
)  # fmt: skip
def test_a_status_is_read_in_the_words_of_the_document_and_of_the_guidelines(name, written, read):
    state = ConsentState.from_wire(wire({name: written}), tolerant=True)
    assert (state.status, json.loads(state.to_wire())) == (read, {"status": read})


def test_a_status_is_written_in_the_words_of_the_document():
    assert ConsentState(status=ConsentStatus.VALID).to_wire() == b'{"status":"valid"}'


def test_a_consent_of_another_bank_is_read_and_kept():
    other = CONSENT | {
        "access": {"availableAccounts": "allAccountsWithOwnerName", "accounts": []},
        "status": "valid",
        "x": {},
    }
    assert json.loads(Consent.from_wire(wire(other), tolerant=True).to_wire()) == other


def test_accounts_and_amounts_of_another_bank_are_read_and_kept():
    account = {"resourceId": "r", "iban": "no IBAN", "currency": "eur", "name": "n" * 500, "balances": [
        {"balanceType": "expected", "balanceAmount": {"currency": "BTC", "amount": "+1,5"}}]}  # fmt: skip
    assert json.loads(AccountList.from_wire(wire({"accounts": [account]}), tolerant=True).to_wire()) == {
        "accounts": [account]
    }


def test_what_another_bank_leaves_out_of_account_data_is_absent():
    (account,) = AccountList.from_wire(b'{"accounts":[{"resourceId":"r","currency":"EUR"}]}', tolerant=True).accounts
    page = TransactionReport.from_wire(b'{"transactions":{}}', tolerant=True)
    assert (account.iban, page.account, page.transactions.booked, page.transactions.pending) == (None, None, (), ())
    assert BalanceReport.from_wire(b'{"balances":[]}', tolerant=True).account is None


@pytest.mark.parametrize("amount", ["0.00", "-12.50", "1500", "0.125", "-999999999999999.9999"])
def test_an_amount_is_written_with_its_sign(amount):
    assert Money(currency="JPY", amount=amount).amount == amount


@pytest.mark.parametrize(
    ("currency", "amount"),
    [("EUR", "+1"), ("EUR", "01"), ("EUR", "1e2"), ("EUR", ""), ("EUR", "1\n"), ("eur", "1"), ("ABC", "1")],
)
def test_another_amount_is_not_written(currency, amount):
    with pytest.raises(FormatError):
        Money(currency=currency, amount=amount)


def test_a_pending_entry_has_no_days():
    entry = AccountEntry(
        transaction_id="t", transaction_amount=Money(currency="EUR", amount="-1.00"), creditor_name="Shop"
    )
    assert "Date" not in entry.to_wire().decode()
