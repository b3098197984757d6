"""What is sent: addresses, targets and headers; what could not be sent as it was sealed is not sent."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID

import httpx
import httpx2
import pytest
from http_drivers import caught
from payments import INITIATED, PAYMENT
from rogue_bank import as_json, http, rogue_bank, server_context

from refusals import refused
from tppkit._clock import utc_now
from tppkit.client import AsyncPsd2Client, Psd2Client, SealAuth
from tppkit.errors import ConfigurationError
from tppkit.protocol.psd2 import ALL_ACCOUNTS, Access, ConsentRequest
from tppkit.seals import verify_request

ID = UUID("0b4d6a3e-6c58-4f0e-9a55-8a3a4f2f7c11")


def pay(client: Any, **options: Any) -> Any:
    return client.initiate_payment(PAYMENT, **options)


def consent(client: Any) -> Any:
    access = Access(all_psd2=ALL_ACCOUNTS)
    return client.create_consent(ConsentRequest(access=access, valid_until=date(2026, 12, 1), frequency_per_day=4))


@pytest.mark.parametrize(
    "url",
    [
        "", "localhost", "http://bank.example", "ftp://bank.example", "https://", "https:///psd2", "https://bank.example?x=1",
        "https://bank.example#x", "https://user@bank.example", "https://user:password@bank.example", "https://:password@bank.example",
        "https://@bank.example", "https://[bank", "https://[::1", "https://bank.example:port", "https://bank.example:99999",
        "https://bank.example:-1", "https://bank example", "https://bank.example/a b", "https://bank.example/\xe9", "https://bank.example/a/../b",
        "https://bank.example/a\nb", "https://bank.example\\@evil.example", "https://bank.exa\x00mple",
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("client", [Psd2Client, AsyncPsd2Client])
def test_an_address_that_is_not_plain_https_is_refused(client, url, identity):
    with refused(ConfigurationError, "client.base-url", match="^((?!password).)*$"):
        client(url, identity=identity)


@pytest.mark.parametrize(
    ("suffix", "path_prefix"), [("", "/v1"), ("/gw", "/berlingroup/v1/"), ("", ""), ("/gw", "/psd2/v1")]
)
def test_the_paths_of_another_bank_are_sealed_and_followed(
    suffix, path_prefix, driver, identity, require_seal, bank_pki_folder
):
    start = path_prefix.rstrip("/")
    accounts = start + "/accounts/r-1/transactions"
    following = f"{accounts}?after=1"
    page = {"transactions": {"booked": [], "_links": {"next": {"href": following}}}}
    bodies = iter([as_json(201, INITIATED), as_json(200, page), as_json(200, {"transactions": {"booked": []}})])
    pages = lambda client: client.iter_transactions("c-1", "r-1", date_from=date(2026, 1, 1))  # noqa: E731
    with rogue_bank(server_context(bank_pki_folder), lambda request: next(bodies)(request), then_close=True) as bank:
        driver.run(bank.url + suffix, identity, pay, pages, path_prefix=path_prefix)
    targets = [bank.message(number).target for number in range(3)]
    assert targets[0] == f"{suffix}{start}/payments/sepa-credit-transfers"
    assert targets[1:] == [f"{suffix}{accounts}?dateFrom=2026-01-01&bookingStatus=booked", suffix + following]
    require_seal(bank.message(0))


@pytest.mark.parametrize(
    "path_prefix", ["v1", ".evil.example", "@evil.example", ":1", "/a b", "/a?x=1", "/{product}", "/../x"]
)
def test_another_path_prefix_is_refused(path_prefix, identity):
    for client in (Psd2Client, AsyncPsd2Client):
        with refused(ConfigurationError, "client.base-url"):
            client("https://bank.example", identity=identity, path_prefix=path_prefix)


NO_LINKS = {"transactionStatus": "RCVD", "paymentId": "p-1"}


@pytest.mark.parametrize(
    "links",
    [
        {}, {"_links": {}}, {"_links": None}, {"_links": []}, {"_links": {"scaRedirect": {}}},
        {"_links": {"scaRedirect": "https://bank.example/approve", "status": 1}},
        {"_links": {"scaOAuth": {"href": "https://bank.example/oauth"}}}, {"_links": {"scaRedirect": None}},
        {"_links": {"scaRedirect": {"href": "javascript:alert(1)"}}}, {"_links": {"scaRedirect": {"href": "/approve"}}},
    ],
    ids=repr,
)  # fmt: skip
def test_a_payment_is_returned_with_its_id_when_the_bank_sends_no_approval_link(links, ask):
    initiated, _ = ask(as_json(201, NO_LINKS | links), pay)
    assert (initiated.payment_id, initiated.links.sca_redirect) == ("p-1", None)
    created, _ = ask(as_json(201, {"consentStatus": "received", "consentId": "c-1"} | links), consent)
    assert (created.consent_id, created.links.sca_redirect) == ("c-1", None)


@pytest.mark.parametrize(
    ("host", "suffix", "prefix"),
    [
        ("localhost", "", ""), ("LOCALHOST", "/", ""), ("127.0.0.1", "/api", "/api"), ("localhost", "/api/", "/api"),
        ("localhost", "/a/b-c.d~e/%2F", "/a/b-c.d~e/%2F"),
    ],
)  # fmt: skip
def test_an_address_may_have_a_prefix_that_is_sealed_and_a_name_or_an_ip_address(
    host, suffix, prefix, driver, identity, require_seal, bank_pki_folder
):
    with rogue_bank(server_context(bank_pki_folder), as_json(201, INITIATED), name=host) as bank:
        driver.run(bank.url + suffix, identity, pay)
    assert bank.message().target == prefix + "/psd2/v1/payments/sepa-credit-transfers"
    require_seal(bank.message())


@pytest.mark.parametrize(
    ("prefix", "is_repeated"), [("/psd2/v1", True), ("/api/psd2", True), ("/api", False), ("/v1", False), ("", False)]
)
def test_a_path_that_is_not_found_shows_what_the_base_address_adds(
    prefix, is_repeated, driver, identity, bank_pki_folder
):
    with rogue_bank(server_context(bank_pki_folder), http(404)) as bank:
        (error,) = driver.run(bank.url + prefix, identity, caught(pay))
    assert ("must not repeat" in error.message) == is_repeated
    assert (f"sent to {prefix}/psd2/v1/payments/{{product}}" in error.message) == bool(prefix)


def test_the_headers_of_the_interface_are_sent_once(ask):
    further = {"request_id": ID, "psu_ip_address": "192.0.2.7", "redirect_uri": "https://tpp.example/back"}
    _, bank = ask(as_json(201, INITIATED), lambda client: pay(client, **further))
    sent = bank.message()
    expected = {
        "X-Request-ID": str(ID), "PSU-IP-Address": "192.0.2.7", "TPP-Redirect-URI": "https://tpp.example/back",
        "Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity",

    }  # fmt: skip
    assert {name: sent.values(name) for name in expected} == {name: (value,) for name, value in expected.items()}
    assert [len(sent.values(name)) for name in ("Digest", "Signature", "TPP-Signature-Certificate")] == [1, 1, 1]
    assert sent.body == PAYMENT.to_wire()


SEAL = ("X-Request-ID", "Date", "Digest", "Signature", "TPP-Signature-Certificate")


def test_a_payment_is_sealed_as_each_row_of_the_table_has_it(driver, dialects, bank_pki_folder):
    # All but Amazon's, whose requests carry a token of its own.
    rows = [dialect for name, dialect in dialects.items() if name != "amazon"]
    further = {"psu_ip_address": "192.0.2.7", "redirect_uri": "https://tpp.example/back", "request_id": ID}
    with rogue_bank(server_context(bank_pki_folder), as_json(201, INITIATED)) as bank:
        for number, dialect in enumerate(rows):
            driver.run(bank.url, dialect.identity, lambda client: pay(client, **further))
            sent, qwac = bank.message(number), dialect.identity.qwac
            verified = verify_request(sent, qwac=qwac, at=utc_now(), policy=dialect.policy)
            assert (verified.body, verified.profile.name) == (PAYMENT.to_wire(), dialect.profile.name)
            if dialect.profile.request_id:
                assert sent.values(dialect.profile.request_id) == (str(ID),)
    assert len(bank.requests) == len(rows)


@pytest.mark.parametrize("library", [httpx, httpx2])
@pytest.mark.parametrize(
    ("answer", "code"),
    [(as_json(201, INITIATED), None), (http(307, location="/elsewhere"), "answer.redirect")],
    ids=["success", "redirect"],
)
def test_what_a_client_that_is_passed_in_does_with_its_requests_changes_nothing(
    answer, code, library, driver, identity, bank_pki_folder
):
    async def read_async(response: Any) -> None:
        await response.aread()

    with rogue_bank(server_context(bank_pki_folder), answer) as bank:
        make = library.AsyncClient if driver.is_async else library.Client
        passed = make(
            verify=identity.tls_context,
            trust_env=False,
            follow_redirects=True,
            auth=SealAuth(identity, origin=bank.url),
            event_hooks={"response": [read_async if driver.is_async else lambda response: response.read()]},
        )
        close = lambda _: passed.aclose() if driver.is_async else passed.close()  # noqa: E731  # as short as its use
        result, _ = driver.run(bank.url, identity, caught(pay), close, http=passed)
    assert getattr(result, "code", None) == code
    assert [len(bank.message().values(name)) for name in SEAL if name != "Date"] == [1] * 4
    assert len(bank.requests) == 1


def test_what_is_not_sealed_has_no_seal_and_no_body(ask):
    steps = [lambda client: client.payment_status("p-1")] * 2
    *_, bank = ask(as_json(200, {"transactionStatus": "RCVD"}), *steps)
    names = ("Digest", "Signature", "TPP-Signature-Certificate", "Content-Type")
    for sent in (bank.message(0), bank.message(1)):
        assert ([name for name in names if sent.values(name)], sent.body) == ([], b"")
    assert bank.message(0).values("X-Request-ID") != bank.message(1).values("X-Request-ID")


@pytest.mark.parametrize("payment_id", ["a/b", "a?b#c", "%2F", "a b", "\u20ac", "a\r\nX: y"])
def test_an_id_of_any_kind_is_one_segment_of_the_path(payment_id, ask):
    _, bank = ask(as_json(200, {"transactionStatus": "RCVD"}), lambda client: client.payment_status(payment_id))
    assert bank.message().target.count("/") == 6
    assert bank.message().values("X") == ()


FORGED = ("https://x\r\nX-Forged: 1", "https://x\nX", "https://x\x00", "https://caf\xe9", "https://\u20ac")


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        *(("redirect_uri", value, "header.redirect-uri") for value in FORGED),
        *(("psu_ip_address", value, "header.psu-ip-address") for value in FORGED),
        *(("payment_id", value, "client.target") for value in ("..", ".")),
    ],
)
def test_a_value_that_would_change_the_request_is_not_sent(name, value, code, ask):
    def step(client: Any) -> Any:
        return client.payment_status(value) if name == "payment_id" else pay(client, **{name: value})

    error, bank = ask(as_json(201, INITIATED), step)
    assert (error.code, bank.requests) == (code, [])


def test_a_signer_that_is_only_awaited_seals_for_asyncio(driver, awaited, require_seal, ask):
    result, bank = ask(as_json(201, INITIATED), pay, by=awaited)
    if driver.is_async:
        require_seal(bank.message())
    else:
        assert (type(result), result.code, bank.requests) == (ConfigurationError, "signer.async-only", [])
