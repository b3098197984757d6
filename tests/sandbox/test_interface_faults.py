"""Faults of the interfaces: what a client gets, and whether its request was carried out."""

from __future__ import annotations

import asyncio
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import UUID, uuid4

import httpx
import pytest
from legacy_provider import ONA_PHONE, new_id

from client.payments import PAYMENT
from tppkit.client import LegacyClient
from tppkit.errors import RequestRefused, TppkitError, TransportError
from tppkit.protocol.gateway import OrderRequest
from tppkit.sandbox.faults import EXPIRED, INTERFACE_FAULTS
from tppkit.testpki import certificate_pem

DONE, NOT_DONE = True, False
# What the answer to an initiation is: its status or the error, whether it has Retry-After, a code, and whether the payment was made.
OUTCOMES = {
    "status-429": (429, "1", "TOO_MANY_REQUESTS", NOT_DONE),
    "status-500-before": (500, None, "INTERNAL_SERVER_ERROR", NOT_DONE),
    "status-500-after": (500, None, "INTERNAL_SERVER_ERROR", DONE),
    "status-503-before": (503, "1", "SERVICE_UNAVAILABLE", NOT_DONE),
    "status-503-after": (503, "1", "", DONE),
    "reset-after": (httpx.ReadError, None, "", DONE),
    "late": (httpx.ReadTimeout, None, "", DONE),
    "slow-body": (httpx.ReadTimeout, None, "", DONE),
    "truncated": (httpx.RemoteProtocolError, None, "", DONE),
    "other-answer": (201, None, "", DONE),
    "no-body": (201, None, "", DONE),
    "html": (200, None, "", NOT_DONE),
    EXPIRED: (httpx.ConnectError, None, "", NOT_DONE),
}


@contextmanager
def faulty(server, name, interface="psd2", **further):
    """The faults of a served sandbox while a fault is requested."""
    with httpx.Client(base_url=server.addresses.control_url, trust_env=False) as control:
        asked = control.post("/faults", json={"name": name, "interface": interface, **further})
        assert asked.status_code == 200, asked.text
        yield control
        control.delete("/faults")


def test_there_is_an_outcome_for_each_fault():
    assert OUTCOMES.keys() == INTERFACE_FAULTS.keys()


@pytest.mark.parametrize("name", OUTCOMES)
def test_an_initiation_has_the_outcome_of_its_fault(name, tppkit_bank):
    status, retry_after, code, is_done = OUTCOMES[name]
    seen = []
    tppkit_bank._hosts.observers.append(seen.append)
    tppkit_bank.fault(name)
    client, id_ = tppkit_bank.client(roles=["PSP_PI"]), uuid4()
    call = client.calls.initiate_payment(PAYMENT, request_id=id_)
    message = client.calls.credentials.authorize(call.row, call.message)
    with httpx.Client(
        transport=tppkit_bank.transport(tppkit_bank.identity(roles=["PSP_PI"])), base_url=client.calls.origin, timeout=5
    ) as http:

        def send():
            return http.request(message.method, message.target, headers=list(message.headers), content=message.body)

        if isinstance(status, int):
            answer = send()
            read = tppkit_bank._hosts.hosts["psd2"].interface.refusals.read(answer.content)[0] or ""
            assert (answer.status_code, answer.headers.get("retry-after"), read) == (status, retry_after, code)
            echo = answer.headers.get("x-request-id")
            assert (echo == str(id_)) is (name not in ("status-503-after", "other-answer", "html"))
            assert (name == "other-answer") is (echo is not None and UUID(echo) != id_)
        else:
            with pytest.raises(status):
                send()
        assert len(tppkit_bank.evidence()) == is_done
        assert [one.fault for one in seen] == ([] if name == EXPIRED else [name])
        assert send().status_code == 201  # the fault is used up
    assert len({one.payment_ref for one in tppkit_bank.evidence()}) == 1


def test_a_fault_of_an_endpoint_waits_for_its_requests(tppkit_bank):
    tppkit_bank.fault("status-500-before", count=2, endpoint="payment_details")
    client = tppkit_bank.client(roles=["PSP_PI"])
    payment = client.initiate_payment(PAYMENT).payment_id
    for ask in (client.payment_details, client.payment_status, client.payment_details):
        if ask == client.payment_status:
            assert ask(payment).transaction_status == "RCVD"
        else:
            with pytest.raises(RequestRefused) as refused:
                ask(payment)
            assert refused.value.status == 500
    assert client.payment_details(payment).transaction_status == "RCVD"


def test_faults_end_when_they_are_deleted(tppkit_bank):
    tppkit_bank.fault("status-500-before", count=100_000)
    tppkit_bank.clear_faults()
    assert tppkit_bank.client(roles=["PSP_PI"]).initiate_payment(PAYMENT).transaction_status == "RCVD"


@pytest.mark.slow
def test_every_interface_has_faults(tppkit_bank):
    gateway, urls = tppkit_bank.gateway.client(), tppkit_bank.addresses
    http = httpx.Client(transport=tppkit_bank.transport())
    legacy = LegacyClient(urls.legacy_url, api_key=urls.legacy_api_key, http=http)
    live = LegacyClient(urls.legacy_live_url, api_key=urls.legacy_live_api_key, http=http)
    for interface, ask in (
        ("gateway", lambda: gateway.create_order(OrderRequest(currency="EUR", amount=1))),
        ("legacy", lambda: legacy.balance("0" * 32)), ("legacy", lambda: live.balance("0" * 32)),
    ):  # fmt: skip
        tppkit_bank.fault("status-429", interface=interface, count=3)  # a client repeats a read
        with pytest.raises(RequestRefused) as refused:
            ask()
        assert (refused.value.status, refused.value.peer_code) == (429, "TOO_MANY_REQUESTS")
        tppkit_bank.clear_faults()
    tppkit_bank.fault("status-429", interface="vault")
    assert [http.post(f"{urls.vault_url}/v1/cards/").status_code for _ in range(2)] == [429, 401]


@pytest.mark.parametrize(
    ("name", "rows"),
    [("slow-body", 1), ("other-answer", 1), ("late", 1), ("no-body", None), ("truncated", None), ("status-500-after", None)],
)  # fmt: skip
def test_a_streamed_report_can_have_a_fault(name, rows, tppkit_gateway):
    client, bank = tppkit_gateway.client(), tppkit_gateway.sandbox
    tppkit_gateway.pay(client.create_order(OrderRequest(currency="EUR", amount=1)).id, outcome="approved")
    # A report is asked for again if the connection is lost.
    waits = name in ("late", "slow-body")
    bank.fault(name, interface="gateway", endpoint="search_csv", count=3, **({"delay_s": 1} if waits else {}))
    if rows is None:
        with pytest.raises(TppkitError):
            list(client.report("*"))
    else:
        assert len(list(client.report("*"))) == rows
    bank.clear_faults()
    assert len(list(client.report("*"))) == 1


def test_a_served_request_shows_its_fault_in_the_log(open_bank, connect):
    lines = []
    with open_bank(log=lines.append, faults=("psd2 status-429 1 initiate_payment", "psd2 reset-after")) as server:
        tpp = connect(server)
        assert tpp.initiate().status_code == 429
        with pytest.raises(httpx.TransportError):
            tpp.initiate()
        assert tpp.initiate().status_code == 201
        shown = httpx.get(f"{server.addresses.control_url}/requests", trust_env=False).json()
    start = "POST /psd2/v1/payments/sepa-credit-transfers"
    ends = ["429 TOO_MANY_REQUESTS fault:status-429", "201 fault:reset-after", "201"]
    assert [line for line in lines if line.startswith("POST /psd2")] == [f"{start} {end}" for end in ends]
    assert [one["fault"] for one in shown] == [None, "reset-after", "status-429"]


async def test_a_reset_is_one_on_the_wire(bank, bank_pki):
    url = httpx.URL(bank.addresses.gateway_url)
    trusted = ssl.create_default_context(cadata=certificate_pem(bank_pki.root.certificate).decode())
    with faulty(bank, "reset-after", interface="gateway"):
        reader, writer = await asyncio.open_connection("localhost", url.port, ssl=trusted)
        writer.write(b"GET /v1/orders/1/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()


def test_an_answer_is_truncated_in_its_body_or_before_its_head(bank, tpp, legacy):
    with faulty(bank, "truncated"), pytest.raises(httpx.RemoteProtocolError, match="complete message body"):
        tpp.initiate()
    with faulty(bank, "truncated", interface="legacy"), pytest.raises(httpx.RemoteProtocolError, match="disconnected"):
        legacy.send("POST", f"/ais/{new_id()}", {"acc": ONA_PHONE})


@pytest.mark.slow
def test_a_late_answer_and_a_slow_body_take_real_time(bank, tpp):
    with faulty(bank, "late", delay_s=4):
        tpp.http.timeout, usual = httpx.Timeout(2), tpp.http.timeout
        with pytest.raises(httpx.ReadTimeout):
            tpp.initiate()
    for name, timeout_s in (("late", 20), ("slow-body", 2)):
        with faulty(bank, name, delay_s=4):
            tpp.http.timeout, began = httpx.Timeout(timeout_s), time.monotonic()
            assert tpp.initiate().status_code == 201
            assert time.monotonic() - began >= 3  # a body has pauses between its pieces only
    tpp.http.timeout = usual


@pytest.mark.slow
@pytest.mark.parametrize("name", ["late", "slow-body"])
def test_a_sandbox_that_stops_sends_what_it_holds_back(name, open_bank, connect):
    with ThreadPoolExecutor(1) as client:
        with open_bank(checked=False, faults=(f"psd2 {name}",)) as server:
            asked, began = client.submit(connect(server).initiate), time.monotonic()
            while not server.sandbox.faults.is_empty:
                time.sleep(0.02)
        assert time.monotonic() - began < 20
        assert asked.result(5).status_code == 201


def test_a_handshake_shows_an_expired_certificate(bank, connect):
    with faulty(bank, EXPIRED, count=2):
        for _ in range(2):
            with pytest.raises(httpx.ConnectError, match="certificate has expired"):
                connect(bank).initiate()
        assert connect(bank).initiate().status_code == 201


def test_a_client_that_waits_less_than_a_late_answer_gets_none_in_process(tppkit_bank):
    tppkit_bank.fault("late", delay_s=31, count=2)
    began = time.monotonic()
    with pytest.raises(TransportError) as late:
        tppkit_bank.client(roles=["PSP_PI"]).initiate_payment(PAYMENT)
    assert late.value.code == "transport.timeout"
    assert time.monotonic() - began < 10
