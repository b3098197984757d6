"""Clients of either library with an identity: what they do by themselves, through proxies and from many threads."""

from __future__ import annotations

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from http_drivers import HTTP_DRIVERS, HttpDriver
from rogue_bank import as_json, egress_proxy, forwarder, http, rogue_bank, server_context, trickling

from refusals import refused
from tppkit.client import Psd2Client, SealAuth, make_client
from tppkit.errors import RemoteProtocolError, RequestRefused
from tppkit.seals import Message

pytestmark = pytest.mark.slow


@pytest.fixture(params=HTTP_DRIVERS)
def driver(request: pytest.FixtureRequest) -> HttpDriver:
    """Each of the four clients."""
    return HTTP_DRIVERS[request.param]


def test_a_client_shows_the_qwac_and_reads_the_answer(driver, identity, bank_pki_folder):
    context = server_context(bank_pki_folder, client_anchors=bank_pki_folder / "root.pem")
    with rogue_bank(context, as_json(200, {"a": 1})) as bank:
        (answer,) = driver.run(identity, lambda client: client.get("/x"), base_url=bank.url)
    assert answer.json() == {"a": 1}


@pytest.mark.earns("request-id-missing")
def test_a_poll_on_a_kept_alive_connection_adds_no_handshake(driver, identity, bank):
    with forwarder(int(bank.addresses.psd2_url.rpartition(":")[2])) as counted:
        url = f"https://localhost:{counted['port']}/psd2/v1/payments/sepa-credit-transfers/1/status"
        answers = driver.run(identity, *[lambda client: client.get(url)] * 5)
        assert [answer.status_code for answer in answers] == [answers[0].status_code] * 5
        assert counted["connections"] == 1


def test_a_client_follows_no_redirect_keeps_no_cookie_and_uses_no_proxy_of_the_environment(
    driver, identity, bank_pki_folder, monkeypatch
):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    context = server_context(bank_pki_folder)
    with rogue_bank(context, http(200)) as other:
        with rogue_bank(context, http(302, location=other.url, set_cookie="a=b")) as bank:
            answers = driver.run(identity, *[lambda client: client.get(bank.url)] * 2)
        assert ([answer.status_code for answer in answers], other.connections) == ([302, 302], 0)
    assert not any(b"ookie" in request for request in bank.requests)


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"], ids=["head", "body"])
def test_an_answer_that_trickles_ends_with_the_call(first, driver, identity, bank_pki_folder):
    context = server_context(bank_pki_folder)
    # A machine may be too slow for a handshake within its share of the call; then the next call has more time.
    for timeout_s in (1.0, 4.0, 16.0, 64.0):
        with trickling(context, every_s=0.05, first=first) as port:
            begun = time.monotonic()
            with pytest.raises(driver.library.TimeoutException) as caught:
                driver.run(identity, lambda client: client.get(f"https://localhost:{port}/"), timeout_s=timeout_s)
            took_s = time.monotonic() - begun
        if isinstance(caught.value, driver.library.ReadTimeout):
            break
    assert isinstance(caught.value, driver.library.ReadTimeout)
    assert took_s < timeout_s + 10


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_the_psd2_client_takes_a_client_of_either_library(library, identity, bank):
    found: Any = HTTP_DRIVERS[f"{library} sync"].library
    with (
        make_client(identity, library=found) as http,
        Psd2Client(bank.addresses.psd2_url, identity=identity, http=http) as client,
        pytest.raises(RequestRefused) as caught,
    ):
        client.payment_status("1")
    assert caught.value.peer_code == "RESOURCE_UNKNOWN"


@pytest.mark.parametrize("sealed_by", ["the client", "the call"])
def test_a_seal_goes_through_an_egress_proxy(sealed_by, driver, identity, server, require_seal):
    auth = SealAuth(identity, origin=server.url)
    options = {"auth": auth} if sealed_by == "the call" else {}
    client_auth = auth if sealed_by == "the client" else None
    with egress_proxy() as (proxy, heads):
        steps = [lambda client: client.post(server.url, content=b"{}", **options)] * 2
        driver.run(identity, *steps, proxy=proxy, auth=client_auth)
    for number in (0, 1):
        require_seal(server.message(number))
    assert [head.split(b"\r\n")[0] for head in heads] == [
        f"CONNECT {server.url.removeprefix('https://')} HTTP/1.1".encode()
    ]
    assert not any(b"ignature" in head for head in heads)


def test_a_refusal_of_the_proxy_is_the_librarys_error(driver, identity):
    with egress_proxy() as (proxy, _):
        gone = "https://127.0.0.1:1"
        with pytest.raises(driver.library.TransportError):
            driver.run(identity, lambda client: client.get(gone, auth=SealAuth(identity, origin=gone)), proxy=proxy)


def test_one_request_may_be_sent_by_many_at_once(driver, identity, require_seal):
    library, sent = driver.library, []

    def handle(request: Any) -> Any:
        sent.append(request)
        return library.Response(200)

    auth = SealAuth(identity, origin="https://bank.example")

    async def in_tasks(request: Any) -> None:
        async with library.AsyncClient(transport=library.MockTransport(handle), auth=auth) as client:
            await asyncio.gather(*[client.send(request) for _ in range(6)])

    def in_threads(request: Any) -> None:
        with (
            library.Client(transport=library.MockTransport(handle), auth=auth) as client,
            ThreadPoolExecutor(6) as threads,
        ):
            list(threads.map(client.send, [request] * 6))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    # A client adds its timeout to a request without one; where two threads do it at once, httpx itself raises TypeError.
    timed: dict[str, Any] = {"timeout": {}}
    try:
        for _ in range(10):
            request = library.Request("POST", "https://bank.example/x", content=b"{}", extensions=timed)
            asyncio.run(in_tasks(request)) if driver.is_async else in_threads(request)
    finally:
        sys.setswitchinterval(interval)
    for request in sent:
        fields = tuple((name.decode(), value.decode()) for name, value in request.headers.raw)
        require_seal(Message(request.method, "/x", fields, request.content))
    assert len({request.headers["X-Request-ID"] for request in sent}) == 10


@pytest.mark.parametrize("library", [HTTP_DRIVERS[f"{name} sync"].library for name in ("httpx", "httpx2")])
def test_a_redirect_that_another_client_follows_is_an_error_afterwards(library, identity):
    def handle(request: Any) -> Any:
        return (
            library.Response(307, headers={"location": "/again"}) if request.url.path == "/" else library.Response(200)
        )

    auth = SealAuth(identity, origin="https://bank.example")
    with (
        library.Client(transport=library.MockTransport(handle), follow_redirects=True) as client,
        refused(RemoteProtocolError, "answer.redirect"),
    ):
        client.post("https://bank.example/", content=b"{}", auth=auth)
