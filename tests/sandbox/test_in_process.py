"""The sandbox in one process with its clients."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import httpx
import pytest
from raw_provider import APPROVE, PAYMENTS

from tppkit._clock import utc_now
from tppkit.client import AccessKind, Identity, LegacyClient
from tppkit.client.vault import StoreResult
from tppkit.errors import ConfigurationError, RequestRefused
from tppkit.evidence import audit_archive
from tppkit.protocol.gateway import (
    AuthenticateRequest,
    CardRequest,
    CardSecret,
    Order,
    OrderRequest,
    TransactionRequest,
    is_paid,
)
from tppkit.protocol.legacy import PaymentOrder
from tppkit.protocol.psd2 import (
    BankRules,
    BookingStatus,
    ConsentRequest,
    PaymentInitiated,
    PaymentInitiation,
    PaymentProduct,
    TransactionStatus,
)
from tppkit.sandbox import Sandbox
from tppkit.testpki import certificate_pem, make_pki, make_provider
from tppkit.trust import PathVerifier, make_anchors

PAYMENT = PaymentInitiation.from_wire(
    b'{"instructedAmount":{"currency":"EUR","amount":"12.50"},"creditorAccount":{"iban":"LT121000011101001000"},'
    b'"creditorName":"Bookshop","remittanceInformationUnstructured":"Order 4711"}'
)
CONSENT = ConsentRequest.from_wire(
    b'{"access":{"allPsd2":"allAccounts"},"validUntil":"2099-12-31","frequencyPerDay":4}'
)
ORDER = OrderRequest(currency="EUR", amount=1250)
OWN_CHECKOUT = OrderRequest(
    currency="EUR", amount=1250, transactions=(TransactionRequest(payment_method="credit-card"),)
)
VISA, DECLINED = "4111111111111111", "4000000000000002"
OTHER = "PSDDE-BAFIN-123456"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """For tests that leave its clock alone."""
    with Sandbox() as opened:
        yield opened


def approve(bank: Sandbox, initiated: PaymentInitiated) -> None:
    """As the customer does, in a browser."""
    with httpx.Client(transport=bank.transport()) as browser:
        answer = browser.post(initiated.links.sca_redirect.href, data=APPROVE)
    assert answer.status_code == 303


def test_a_payment_is_approved_and_executed_and_its_seal_is_kept():
    with Sandbox() as bank:
        client = bank.client(roles=["PSP_PI"])
        initiated = client.initiate_payment(PAYMENT)
        assert client.payment_status(initiated.payment_id).transaction_status == TransactionStatus.RCVD
        assert client.payment_details(initiated.payment_id).instructed_amount.amount == "12.50"
        approve(bank, initiated)
        assert client.payment_status(initiated.payment_id).transaction_status == TransactionStatus.ACSP
        assert client.wait_for_payment(initiated.payment_id) == TransactionStatus.ACSC
        (kept,) = bank.evidence()
        assert (kept.http_status, kept.error_code, kept.payment_ref) == (201, None, initiated.payment_id)
        assert (kept.method, kept.target, kept.body) == ("POST", PAYMENTS, PAYMENT.to_wire())
        paths = PathVerifier(make_anchors(bank.pki.authorities))
        assert [row.verdict for row in audit_archive(bank.directory / "archive", paths=paths)] == ["passed"]


def test_what_customers_decide(sandbox):
    client = sandbox.client()
    payments = [client.initiate_payment(PAYMENT).payment_id for _ in range(2)]
    consents = [client.create_consent(CONSENT).consent_id for _ in range(3)]
    account = sandbox.control("GET", "/customers")[0]["accounts"][0]["iban"]
    sandbox.approve(payments[0], iban=account)
    sandbox.decline(payments[1])
    sandbox.approve_consent(consents[0], iban=account)
    sandbox.decline_consent(consents[1])
    sandbox.revoke_consent(consents[2])
    assert [client.payment_status(one).transaction_status for one in payments] == ["ACSP", "RJCT"]
    assert [client.consent_status(one).status for one in consents] == ["valid", "revoked", "revoked"]
    (listed,) = client.accounts(consents[0]).accounts
    (pending,) = client.iter_transactions(
        consents[0], listed.resource_id, date_from=sandbox.now().date(), booking_status=BookingStatus.PENDING
    )
    assert (listed.iban, pending.transaction_amount.amount) == (account, "-12.50")
    with pytest.raises(RequestRefused) as refused:
        sandbox.approve(payments[1], customer="customer-1")
    assert refused.value.peer_code == "payment.decided"


async def test_the_asynchronous_client_works_in_the_callers_loop(sandbox):
    async with sandbox.async_client(roles=["PSP_PI"]) as client:
        several = await asyncio.gather(*(client.initiate_payment(PAYMENT) for _ in range(8)))
        assert len({initiated.payment_id for initiated in several}) == 8
        cancelled = await client.cancel_payment(several[0].payment_id)
        assert cancelled.transaction_status == TransactionStatus.CANC
        assert await client.wait_for_payment(several[0].payment_id) == TransactionStatus.RJCT


def test_an_identity_is_issued_once(sandbox):
    assert sandbox.identity(roles=["PSP_AI"]) is sandbox.identity(roles=["PSP_AI"])
    assert sandbox.identity(organization=OTHER).qwac.organization_identifier.text == OTHER
    with ThreadPoolExecutor(8) as threads:
        assert len({*threads.map(lambda _: id(sandbox.identity(roles=["PSP_IC"])), range(8))}) == 1
    with pytest.raises(ConfigurationError, match="PSP_XX"):
        sandbox.identity(roles=["PSP_XX"])


@pytest.mark.earns("chain-incomplete")
def test_a_custom_client_is_verified_by_its_certificate(sandbox):
    statuses = []
    foreign = sandbox.pki.issue_qwac(make_provider(), label="foreign")
    for identity in (sandbox.identity(), Identity(foreign.certificate, foreign.key), None):
        with httpx.Client(base_url=sandbox.addresses.psd2_url, transport=sandbox.transport(identity)) as http:
            target, headers = "/psd2/v1/payments/sepa-credit-transfers/none/status", {"X-Request-ID": str(uuid4())}
            statuses.append(http.get(target, headers=headers).status_code)
    assert statuses == [403, 403, 401]


def test_an_identity_shows_its_own_chain(sandbox):
    pki = make_pki(at=utc_now())
    chain = [pki.qwac_ca.certificate]
    for sent in ((), chain):
        transport = sandbox.transport(Identity(pki.qwac.certificate, pki.qwac.key, chain=sent))
        shown = [certificate_pem(one).decode() for one in (pki.qwac.certificate, *sent)]
        assert transport._peer() == shown


def test_waiting_moves_the_banks_clock_and_takes_no_real_time():
    with Sandbox() as bank:
        client, begun, at = bank.client(), time.monotonic(), bank.now()
        initiated = client.initiate_payment(PAYMENT)
        assert client.wait_for_payment(initiated.payment_id) == TransactionStatus.RJCT
        assert timedelta(minutes=5) <= bank.now() - at < timedelta(minutes=6)
        assert time.monotonic() - begun < 60

        async def wait() -> TransactionStatus:
            client = bank.async_client()
            return await client.wait_for_payment((await client.initiate_payment(PAYMENT)).payment_id, interval_s=60)

        assert asyncio.run(wait()) == TransactionStatus.RJCT
        with pytest.raises(RequestRefused, match="seconds"):
            bank.advance(-timedelta(seconds=1))


def test_the_banks_rules_are_a_setting():
    rules = BankRules(
        inactivity=timedelta(seconds=60), instant_execution=timedelta(seconds=3), normal_execution=timedelta(seconds=90),
        instant_cap=Decimal("12.49"), technical_validation=True,
    )  # fmt: skip

    def states(seconds: float, *payments: str, product: PaymentProduct = PaymentProduct.SEPA) -> list[str]:
        bank.advance(timedelta(seconds=seconds))
        return [client.payment_status(one, product=product).transaction_status.value for one in payments]

    with Sandbox(rules=rules) as bank, bank.client() as client:
        with pytest.raises(RequestRefused, match="PRODUCT_INVALID"):
            client.initiate_payment(PAYMENT, product=PaymentProduct.INSTANT)
        opened, left = (client.initiate_payment(PAYMENT).payment_id for _ in range(2))
        bank.control("POST", f"/payments/{opened}/open")
        assert states(59, opened, left) == ["ACTC", "RCVD"]
        bank.approve(opened)
        assert states(89, opened, left) == ["ACSP", "RJCT"]
        assert states(1, opened) == ["ACSC"]
    with Sandbox(rules=replace(rules, instant_cap=Decimal("12.50"))) as bank, bank.client() as client:
        instant = client.initiate_payment(PAYMENT, product=PaymentProduct.INSTANT).payment_id
        bank.approve(instant)
        assert [states(step, instant, product=PaymentProduct.INSTANT) for step in (2, 1)] == [["ACSP"], ["ACSC"]]


@pytest.mark.earns("unknown-field")
def test_unknown_fields_of_all_interfaces_are_accepted_and_logged(sandbox, caplog):
    caplog.set_level("WARNING", "tppkit.sandbox.host")
    further = {"endToEndId": "4711"}
    sandbox.client().initiate_payment(PaymentInitiation.from_object(PAYMENT.to_object() | further, unknown_fields=True))
    sandbox.gateway.client().create_order(OrderRequest(currency="EUR", amount=1250, unknown_fields=further))
    http = httpx.Client(transport=sandbox.transport())
    with LegacyClient(sandbox.addresses.legacy_url, api_key=sandbox.addresses.legacy_api_key, http=http) as client:
        token = client.request_access(AccessKind.PAYMENTS, "+37060000001")
        sandbox.control("POST", f"/legacy/access/{token}/approve")
        client.pay(token, PaymentOrder(acc="+37060000002", amts={"EUR": "1.00"}, unknown_fields=further))
    assert caplog.messages.count("  unknown fields: endToEndId") == 3


def test_two_banks_share_nothing():
    with Sandbox(seed=1) as one, Sandbox(seed=1) as two:
        same = [bank.client().initiate_payment(PAYMENT).payment_id for bank in (one, two)]
        assert same[0] == same[1]  # of one seed
        alone = one.client().initiate_payment(PAYMENT)
        with pytest.raises(RequestRefused):
            two.client().payment_status(alone.payment_id)
        one.advance(timedelta(days=1))
        assert two.now() < one.now() - timedelta(hours=23)
        assert [len(bank.evidence()) for bank in (one, two)] == [2, 1]


def test_an_address_without_a_host_is_not_reached(sandbox):
    with httpx.Client(transport=sandbox.transport()) as http, pytest.raises(httpx.ConnectError, match="no host"):
        http.get("https://bank.example/")


@pytest.mark.slow
def test_no_network_socket_is_opened():
    program = f"""
import socket, sys
from datetime import timedelta
from tppkit.protocol.psd2 import PaymentInitiation
from tppkit.sandbox import Sandbox

opened = []
def watch(event, arguments):
    # The event loop wakes itself by a pair of Unix sockets.
    if event.startswith("socket.") and not (event == "socket.__new__" and arguments[1] == socket.AF_UNIX):
        opened.append(event)
sys.addaudithook(watch)
with Sandbox() as bank:
    bank.client().initiate_payment(PaymentInitiation.from_wire({PAYMENT.to_wire()!r}))
    bank.advance(timedelta(minutes=1))
print(opened)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_legacy_hosts_answer_too_and_callbacks_go_to_real_addresses(bank_pki, receiver):
    with Sandbox(pki=bank_pki) as bank:
        bank.control("POST", "/legacy/provider", {"callback_url": receiver.url})
        at = bank.addresses
        for url, key in ((at.legacy_url, at.legacy_api_key), (at.legacy_live_url, at.legacy_live_api_key)):
            client = LegacyClient(url, api_key=key, http=httpx.Client(transport=bank.transport()))
            token = client.request_access(AccessKind.ACCOUNTS, "+37060000001")
            bank.control("POST", f"/legacy/access/{token}/approve")
            bank.advance(timedelta())
            assert receiver.arrived[-1].json["token"] == token
            assert set(client.balance(token)) == {"EUR", "USD", "GBP"}


def test_customers_and_issuers_of_the_gateway_act_on_orders(sandbox):
    client, gateway = sandbox.gateway.client(), sandbox.gateway
    paid = client.create_order(ORDER).id
    assert gateway.pay(paid, card=DECLINED).status == "processing"
    assert gateway.pay(paid, card=VISA).status == "completed"
    refund, chargeback = gateway.refund(paid, 250, description="A book"), gateway.charge_back(paid)
    reversal = gateway.reverse(paid)
    made = [refund.refund_of_order_id, chargeback.chargeback_of_order_id, reversal.reversal_of_order_id]
    assert (made, refund.description) == ([paid] * 3, "A book")
    assert client.order(paid).refunded_amount == 250
    with pytest.raises(RequestRefused) as refused:
        sandbox.gateway.pay(paid, outcome="approved")
    assert refused.value.peer_code == "machine.no-such-move"


async def test_a_card_is_stored_and_paid_with_in_threads_and_in_asyncio(sandbox):
    def card(order: Order) -> CardRequest:
        token = order.transactions[0].payment_method_details.setup_token
        return CardRequest(pan=CardSecret(VISA), expiry=CardSecret("122039"), setup_token=token)

    def authentication(stored: StoreResult) -> AuthenticateRequest:
        return AuthenticateRequest(vault_token=stored.card.vault_token, cvc=CardSecret("123"))

    def in_threads() -> Order:
        client = sandbox.gateway.client()
        order = client.create_order(OWN_CHECKOUT)
        stored = sandbox.gateway.vault().store_card(card(order))
        return client.authenticate(order.id, order.transactions[0].id, authentication(stored))

    async with sandbox.gateway.async_client() as client, sandbox.gateway.async_vault() as vault:
        order = await client.create_order(OWN_CHECKOUT)
        stored = await vault.store_card(card(order))
        answers = [await client.authenticate(order.id, order.transactions[0].id, authentication(stored))]
        answers.append(await asyncio.to_thread(in_threads))
        assert [is_paid(await client.order(one.id), own_checkout=True) for one in answers] == [True, True]


def test_a_project_sees_its_own_orders_alone(sandbox):
    project = sandbox.gateway.project(payment_methods=["bank-transfer"])
    order = project.client().create_order(ORDER)
    assert order.project_id == project.project_id != sandbox.gateway.project_id
    assert project.sandbox is sandbox.bank is sandbox
    with pytest.raises(RequestRefused) as refused:
        sandbox.gateway.client().order(order.id)
    assert refused.value.status == 404
    with pytest.raises(RequestRefused, match="colour is not a field"):
        sandbox.gateway.project(colour="red")


def test_a_browser_reaches_the_hosted_page(sandbox):
    order = sandbox.gateway.client().create_order(ORDER)
    with httpx.Client(transport=sandbox.transport()) as browser:
        assert "12.50 EUR" in browser.get(order.order_url or "").text
