"""Consents and account data, requested as the document describes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from account_reader import ACCOUNTS, ALL, AVAILABLE, CONSENTS, DAILY, SMALL, Reader, request
from raw_provider import Connect, assert_refused, control

from tppkit._clock import utc_now
from tppkit.protocol.psd2.rules import PAGE_SIZE
from tppkit.sandbox import SandboxServer
from tppkit.sandbox.bank.zone import bank_day
from tppkit.testpki import make_provider

WIDE = "?dateFrom=2020-01-01"


@pytest.fixture
def reader(bank: SandboxServer, connect: Connect) -> Reader:
    return Reader(connect(bank), bank)


def named(*grants: str, iban: str = DAILY) -> dict[str, Any]:
    return {grant: [{"iban": iban}] for grant in grants}


def test_the_answer_to_a_creation_has_id_status_and_links(reader):
    created = reader.create(headers=(("TPP-Redirect-URI", "https://tpp.example/back?x=1"),))
    body = created.json()
    place = f"{CONSENTS}/{body['consentId']}"
    links = {name: link["href"] for name, link in body.pop("_links").items()}
    assert (created.status_code, body) == (201, {"status": "received", "consentId": body["consentId"]})
    assert links.pop("scaRedirect").startswith(reader.server.addresses.approval_url + "/")
    assert links == {"self": place, "status": place + "/status"}
    assert reader.get(links["status"]).json() == {"status": "received"}
    today = bank_day(utc_now())
    assert reader.get(links["self"]).json() == {
        **request(), "consentId": body["consentId"], "status": "received", "validUntil": (today + timedelta(days=180)).isoformat(),
        "_links": {name: {"href": href} for name, href in links.items()},
    }  # fmt: skip


def test_a_repeated_creation_is_answered_as_before_and_another_one_refused(reader):
    sealed = reader.provider.sealed(reader.message())
    first, again = reader.provider.send(sealed), reader.provider.send(sealed)
    assert (first.status_code, first.content) == (again.status_code, again.content)
    other = reader.create(request(AVAILABLE), request_id=dict(sealed.headers)["X-Request-ID"])
    assert_refused(other, 409, "REQUEST_ID_REUSE")


@pytest.mark.parametrize(
    ("access", "balances", "transactions"),
    [
        (ALL, 200, 200), (AVAILABLE, 401, 401), (named("accounts"), 401, 401), (named("balances"), 200, 401),
        (named("transactions"), 401, 200), (named("accounts", "balances", "transactions"), 200, 200),
    ],
)  # fmt: skip
def test_access_grants_what_it_names(reader, access, balances, transactions):
    consent = reader.approved(access)
    place = reader.place(consent)
    assert reader.get(f"{place}/balances", consent).status_code == balances
    assert reader.get(f"{place}/transactions{WIDE}", consent).status_code == transactions
    (account,) = reader.accounts(consent, "?withBalance=true")
    assert ("balances" in account) is (balances == 200)


def test_an_account_of_another_consent_is_unknown_and_refused_calls_do_not_count(reader):
    one, other = reader.approved(frequencyPerDay=1), reader.approved()
    for _ in range(3):
        for path in ("balances", "transactions" + WIDE):
            assert_refused(reader.get(f"{reader.place(other)}/{path}", one, headers=()), 403, "RESOURCE_UNKNOWN")
    assert [reader.get(ACCOUNTS, one, headers=()).status_code for _ in range(2)] == [200, 429]


def test_the_role_is_checked_before_the_consent_and_a_wrong_one_uses_up_nothing(reader, bank_pki, connect):
    payments_only = bank_pki.issue_qwac(make_provider(roles=("PSP_PI",)), label="pi-qwac")
    initiator = Reader(connect(reader.server, qwac=payments_only), reader.server)
    consent = reader.approved(frequencyPerDay=1)
    for consent_id in (consent, "another"):
        assert_refused(initiator.get(ACCOUNTS, consent_id, headers=()), 403, "ROLE_INVALID")
    assert reader.get(ACCOUNTS, consent, headers=()).status_code == 200


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "127.0.0.1", "::1"])
def test_an_address_that_no_customer_has_does_not_lift_the_limit(address, reader):
    consent = reader.approved(frequencyPerDay=1)
    sent = (("PSU-IP-Address", address),)
    assert [reader.get(ACCOUNTS, consent, headers=sent).status_code for _ in range(2)] == [200, 429]


def test_pending_transfers_come_whole_with_the_first_page_alone(reader):
    payment = reader.provider.new_payment()
    approved = control(reader.server, f"/payments/{payment['paymentId']}/approve", {"iban": DAILY})
    assert approved.json()["transactionStatus"] == "ACSP"
    consent = reader.approved()
    place = f"{reader.place(consent)}/transactions"

    def page(target: str) -> Any:
        return reader.get(target, consent).json()["transactions"]

    past = page(f"{place}?dateFrom=2019-01-01&dateTo=2019-01-02&bookingStatus=pending")
    (entry,) = past["pending"]
    assert entry["transactionAmount"] == {"currency": "EUR", "amount": "-12.50"}
    assert ("bookingDate" in entry, past["booked"], "_links" in past) == (False, [], False)
    first = page(f"{place}{WIDE}&bookingStatus=both")
    second = page(first["_links"]["next"]["href"])
    assert (first["pending"], len(first["booked"]), second["pending"]) == ([entry], PAGE_SIZE, [])
    assert page(place + WIDE)["pending"] == []
    after = first["booked"][-1]["transactionId"]
    assert page(f"{place}{WIDE}&bookingStatus=pending&after={after}") == past


def test_the_last_day_of_a_window_is_today_at_most(reader):
    consent = reader.approved()
    place = f"{reader.place(consent)}/transactions"
    today = bank_day(utc_now()).isoformat()
    texts = {reader.get(f"{place}{WIDE}{end}", consent).json()["transactions"]["booked"][0]["transactionId"]
             for end in ("", f"&dateTo={today}", "&dateTo=9999-12-31")}  # fmt: skip
    assert len(texts) == 1
    for day in ("9999-12-31", "2100-01-01"):
        assert reader.get(f"{place}?dateFrom={day}", consent).json()["transactions"] == {"booked": [], "pending": []}
    assert reader.get(f"{place}?dateFrom=0001-01-01", consent).status_code == 200


def test_an_account_with_one_currency_has_it_and_a_customer_may_choose_for_a_business(reader):
    consent = reader.created()
    chosen = {"customer": "customer-3", "iban": "LT459999900000000003"}
    assert reader.decide(consent, "approve", **chosen).json()["status"] == "valid"
    (account,) = reader.accounts(consent)
    assert (account["iban"], account["ownerName"]) == (chosen["iban"], "Knygynas UAB")
    (savings,) = reader.accounts(reader.approved(iban="LT729999900000000002"))
    assert savings["currency"] == "EUR"


@pytest.mark.parametrize("choice", [{"customer": "customer-2", "iban": DAILY}, {"customer": "nobody"}, {"iban": "LT"}])
def test_a_customer_chooses_own_accounts_only(reader, choice):
    consent = reader.created()
    refused = reader.decide(consent, "approve", **choice)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "account.unfit")
    assert reader.status(consent) == "received"


@pytest.mark.parametrize("action", ["approve", "decline", "revoke"])
def test_a_decision_about_a_consent_that_does_not_exist_is_refused(reader, action):
    for consent_id in ("unknown", "a" * 65, "%00"):
        refused = reader.decide(consent_id, action)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "consent.unknown")


def test_a_restart_keeps_consents_and_their_counts(open_bank, connect):
    with open_bank(seed=7) as server:
        reader = Reader(connect(server), server)
        consent = reader.approved(named("accounts", iban=SMALL), iban=SMALL, frequencyPerDay=1)
        listed = reader.accounts(consent)
        assert reader.get(ACCOUNTS, consent, headers=()).status_code == 200
    with open_bank(seed=7) as server:
        reader = Reader(connect(server), server)
        assert reader.accounts(consent) == listed
        assert_refused(reader.get(ACCOUNTS, consent, headers=()), 429, "ACCESS_EXCEEDED")
        assert reader.place(reader.approved()) not in {f"{ACCOUNTS}/{account['resourceId']}" for account in listed}
