"""The persona `berlin-group`: client and sandbox fit the published OpenAPI file, and a client that knows only the file works."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from berlin_group import IndependentClient, Judged, Published
from raw_provider import checked_sandbox, decide, tls_context

from tppkit.client import Psd2Client
from tppkit.client.connections import client_options
from tppkit.errors import FormatError, LocalProtocolError, RequestRefused
from tppkit.protocol.psd2 import (
    ALL_ACCOUNTS,
    Access,
    AccountReference,
    ConsentRequest,
    ConsentStatus,
    InstructedAmount,
    PaymentInitiation,
    PaymentProduct,
    TransactionStatus,
    parse_persona,
)
from tppkit.protocol.psd2.rules import PAGE_SIZE
from tppkit.sandbox import Sandbox, SandboxSettings
from tppkit.sandbox.bank.zone import bank_day
from tppkit.seals import PROFILES, Seal

pytestmark = pytest.mark.shared
PSU = "203.0.113.9"
DEBTOR = "LT029999900000000001"


@pytest.fixture(scope="module")
def published(shared_data) -> Published:
    return Published(shared_data)


@pytest.fixture(scope="module")
def bank(bank_pki) -> Iterator[Sandbox]:
    with Sandbox(pki=bank_pki, persona="berlin-group") as opened:
        yield opened


@pytest.fixture
def books_agree():
    """Replaces the check of the served `bank`."""


@pytest.fixture
def judged(bank, published) -> Judged:
    return Judged(bank.transport(bank.identity()), published)


@pytest.fixture
def client(bank, judged) -> Psd2Client:
    identity = bank.identity()
    http = httpx.Client(transport=judged, **client_options(identity, timeout_s=10))
    url, wait = bank.addresses.psd2_url, lambda seconds: bank.advance(timedelta(seconds=seconds))
    return Psd2Client(url, identity=identity, http=http, persona="berlin-group", sleep=wait)


def payment(**fields: Any) -> PaymentInitiation:
    return PaymentInitiation(
        instructed_amount=InstructedAmount(currency="EUR", amount="12.50"), creditor_name="Bookshop",
        creditor_account=AccountReference(iban="LT121000011101001000"), debtor_account=AccountReference(iban=DEBTOR), **fields,
    )  # fmt: skip


def consent(bank: Sandbox, **access: Any) -> ConsentRequest:
    return ConsentRequest(
        access=Access(**access or {"all_psd2": ALL_ACCOUNTS}), frequency_per_day=4,
        valid_until=bank_day(bank.now()) + timedelta(days=30),
    )  # fmt: skip


def test_payments_fit_the_published_file(bank, client, judged):
    made = client.initiate_payment(payment(), psu_ip_address=PSU, redirect_uri="https://shop.example/done")
    assert made.transaction_status == TransactionStatus.RCVD
    assert client.payment_details(made.payment_id).debtor_account == AccountReference(iban=DEBTOR)
    bank.approve(made.payment_id)
    assert client.wait_for_payment(made.payment_id) == TransactionStatus.ACSC
    instant = client.initiate_payment(payment(), product=PaymentProduct.INSTANT, psu_ip_address=PSU)
    cancelled = client.cancel_payment(instant.payment_id, product=PaymentProduct.INSTANT)
    assert cancelled.transaction_status == TransactionStatus.CANC
    later = client.wait_for_payment(instant.payment_id, product=PaymentProduct.INSTANT)
    assert later == TransactionStatus.CANC
    path = "/v1/{payment-service}/{payment-product}"
    one = path + "/{paymentId}"
    assert set(judged.seen) == {
        (f"POST {path}", 201), (f"GET {one}", 200), (f"GET {one}/status", 200), (f"DELETE {one}", 204),
    }  # fmt: skip


def test_account_information_fits_the_published_file(bank, client, judged):
    made = client.create_consent(consent(bank), psu_ip_address=PSU)
    bank.approve_consent(made.consent_id, iban=DEBTOR)
    assert client.wait_for_consent(made.consent_id) == ConsentStatus.VALID
    kept = client.consent(made.consent_id)
    assert (kept.recurring_indicator, kept.unknown["lastActionDate"]) == (True, bank_day(bank.now()).isoformat())
    (account,) = client.accounts(made.consent_id, with_balance=True, psu_ip_address=PSU).accounts
    assert client.balances(made.consent_id, account.resource_id, psu_ip_address=PSU).balances == account.balances
    begin = bank_day(bank.now()) - timedelta(days=400)
    entries = list(client.iter_transactions(made.consent_id, account.resource_id, date_from=begin, psu_ip_address=PSU))
    assert len(entries) > PAGE_SIZE
    client.delete_consent(made.consent_id)
    assert client.consent_status(made.consent_id).status == ConsentStatus.REVOKED
    assert len({name for name, _ in judged.seen}) == 7
    assert bank.report().rules == ()


@pytest.mark.parametrize(
    ("end", "name"), [("decline", "rejected"), ("revoke", "revokedByPsu"), ("delete", "terminatedByTpp")]
)
def test_the_end_of_a_consent_has_the_name_of_what_ended_it(end, name, bank, client, judged):
    made = client.create_consent(consent(bank), psu_ip_address=PSU)
    if end == "decline":
        bank.decline_consent(made.consent_id)
    else:
        bank.approve_consent(made.consent_id)
        bank.revoke_consent(made.consent_id) if end == "revoke" else client.delete_consent(made.consent_id)
    raw = httpx.Client(transport=judged, base_url=bank.addresses.psd2_url)
    answer = raw.get(
        f"/v1/consents/{made.consent_id}/status", headers={"X-Request-ID": "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}
    )
    assert answer.json() == {"consentStatus": name}
    assert client.consent(made.consent_id).status == ConsentStatus.REVOKED


def test_an_authorisation_that_is_started_explicitly_fits_the_published_file(bank_pki, published):
    explicit = parse_persona(
        b'based_on = "berlin-group"\nname = "x"\nsource = "y"\napproval_link = "startAuthorisation"'
    )
    with Sandbox(pki=bank_pki, persona=explicit) as bank:
        judged = Judged(bank.transport(bank.identity()), published)
        http = httpx.Client(transport=judged, **client_options(bank.identity(), timeout_s=10))
        client = Psd2Client(bank.addresses.psd2_url, identity=bank.identity(), http=http, persona=explicit)
        made, agreed = (
            client.initiate_payment(payment(), psu_ip_address=PSU),
            client.create_consent(consent(bank), psu_ip_address=PSU),
        )
        assert made.links.sca_redirect is agreed.links.sca_redirect is None
        links = [
            client.start_payment_authorisation(made.payment_id).links.sca_redirect,
            client.start_consent_authorisation(agreed.consent_id).links.sca_redirect,
        ]
        browser = httpx.Client(transport=bank.transport())
        assert [browser.get(link.href).status_code for link in links if link] == [200, 200]
        bank.approve(made.payment_id)
        with pytest.raises(RequestRefused) as caught:
            client.start_payment_authorisation(made.payment_id)
        assert (caught.value.status, caught.value.peer_code) == (409, "STATUS_INVALID")
        with pytest.raises(LocalProtocolError):
            Psd2Client(bank.addresses.psd2_url, identity=bank.identity()).start_payment_authorisation(made.payment_id)
        assert bank.report().rules == ()


def test_refusals_fit_the_published_file(bank, client):
    def refused(call, *arguments, **options):
        with pytest.raises(RequestRefused) as caught:
            call(*arguments, **options)
        return caught.value.status, caught.value.peer_code

    opened = client.initiate_payment(payment(), psu_ip_address=PSU).payment_id
    bank.control("POST", f"/payments/{opened}/open")
    assert refused(client.cancel_payment, opened) == (405, "CANCELLATION_INVALID")
    assert refused(client.payment_status, "no-such-payment") == (404, "RESOURCE_UNKNOWN")
    assert refused(client.consent, "no-such-consent") == (403, "CONSENT_UNKNOWN")
    undecided = client.create_consent(consent(bank), psu_ip_address=PSU).consent_id
    assert refused(client.accounts, undecided, psu_ip_address=PSU) == (401, "CONSENT_INVALID")
    bank.approve_consent(undecided)
    assert refused(client.balances, undecided, "no-such-account", psu_ip_address=PSU) == (404, "RESOURCE_UNKNOWN")
    for _ in range(4):
        client.accounts(undecided)
    assert refused(client.accounts, undecided) == (429, "ACCESS_EXCEEDED")
    with bank.client(roles=["PSP_AI"]) as reader:
        assert refused(reader.payment_status, opened) == (401, "ROLE_INVALID")


def test_a_request_without_what_the_bank_requires_is_not_sent(bank, client, judged):
    with pytest.raises(FormatError, match="PSU-IP-Address") as caught:
        client.initiate_payment(payment())
    assert caught.value.code == "header.required"
    without = payment().model_copy(update={"debtor_account": None})
    with pytest.raises(FormatError, match="debtorAccount"):
        client.initiate_payment(without, psu_ip_address=PSU)
    assert judged.seen == []


@pytest.fixture
def served(bank_pki, bank_pki_folder, published, tmp_path) -> Iterator[tuple[IndependentClient, Any]]:
    """The independent client at a served sandbox, and its control host."""
    settings = SandboxSettings(tmp_path, pki=bank_pki_folder, persona="berlin-group")
    with checked_sandbox(settings) as server:
        today = bank_day(server.sandbox.clock.now())
        values = {
            "psu-ip-address": PSU, "bookingstatus": "booked", "datefrom": str(today - timedelta(days=90)),
            "instructedamount": {"currency": "EUR", "amount": "12.50"}, "debtoraccount": {"iban": DEBTOR},
            "creditoraccount": {"iban": "DE89370400440532013000", "currency": "EUR"}, "creditorname": "Bookshop",
            "access": {"allPsd2": "allAccounts"}, "recurringindicator": True, "combinedserviceindicator": False,
            "validuntil": str(today + timedelta(days=30)), "frequencyperday": 4,
        }  # fmt: skip
        seal = Seal.for_key(bank_pki.qseal.certificate, bank_pki.qseal.key, profile=PROFILES["berlin-group"])
        context = tls_context(bank_pki.qwac, bank_pki)
        with httpx.Client(base_url=server.addresses.psd2_url, verify=context, trust_env=False) as http:
            yield IndependentClient(http, published, seal, values), server.addresses.control_url


def test_a_client_that_knows_only_the_file_pays_and_reads_accounts(served):
    client, control = served
    made = client.send("POST", "/v1/payments/sepa-credit-transfers")
    links, headers = made.json()["_links"], made.headers
    assert (headers["location"], headers["aspsp-sca-approach"]) == (links["self"]["href"], "REDIRECT")
    assert decide(made.json(), "approve").status_code == 200
    assert client.send("GET", links["status"]["href"]).json() == {"transactionStatus": "ACSP"}
    assert client.send("GET", headers["location"]).json()["debtorAccount"] == {"iban": DEBTOR}
    other = client.send("POST", "/v1/payments/sepa-credit-transfers").headers["location"]
    assert client.send("DELETE", other).status_code == 204

    agreed = client.send("POST", "/v1/consents")
    assert decide(agreed.json(), "approve").status_code == 200
    consent_id, place = agreed.json()["consentId"], agreed.headers["location"]
    assert client.send("GET", f"{place}/status").json() == {"consentStatus": "valid"}
    assert client.send("GET", place).json()["lastActionDate"]
    client.values["consent-id"] = consent_id
    (account,) = client.send("GET", "/v1/accounts").json()["accounts"]
    assert account["iban"] == DEBTOR
    assert client.send("GET", f"/v1/accounts/{account['resourceId']}/balances").json()["balances"]
    report = client.send("GET", f"/v1/accounts/{account['resourceId']}/transactions").json()["transactions"]
    assert report["booked"]
    assert client.send("GET", report["_links"]["account"]["href"]).json()["accounts"] == [account]
    assert client.send("DELETE", place).status_code == 204
    assert httpx.get(f"{control}/report", trust_env=False).json() == {"rules": []}


def test_whatever_the_file_requires_the_sandbox_demands(served):
    client, _ = served
    agreed = client.send("POST", "/v1/consents")
    assert decide(agreed.json(), "approve").status_code == 200
    client.values["consent-id"] = agreed.json()["consentId"]
    account = client.send("GET", "/v1/accounts").json()["accounts"][0]["resourceId"]
    operations = [
        ("POST", "/v1/payments/sepa-credit-transfers"), ("POST", "/v1/consents"), ("GET", "/v1/accounts"),
        ("GET", f"/v1/accounts/{account}/balances"), ("GET", f"/v1/accounts/{account}/transactions"),
    ]  # fmt: skip
    left_out = [(*one, name) for one in operations for name in client.required(*one)]
    assert len(left_out) == 20
    for method, path, name in left_out:
        refused = client.send(method, path, without=name)
        assert refused.status_code == 400, (method, path, name)
        assert refused.json()["tppMessages"][0]["code"] == "FORMAT_ERROR", (method, path, name)
