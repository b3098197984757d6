"""Clients of either library with an identity."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from http_drivers import HTTP_DRIVERS, HttpDriver
from rogue_bank import as_json, forwarder, http, rogue_bank, server_context, trickling

from tppkit.client import Identity, Psd2Client, make_client
from tppkit.errors import RequestRefused
from tppkit.sandbox import SandboxServer


@pytest.fixture(params=HTTP_DRIVERS)
def driver(request: pytest.FixtureRequest) -> HttpDriver:
    """Each of the four clients."""
    return HTTP_DRIVERS[request.param]


def test_a_client_shows_the_qwac_and_reads_the_answer(
    driver: HttpDriver, identity: Identity, bank_pki_folder: Path
) -> None:
    context = server_context(bank_pki_folder, client_anchors=bank_pki_folder / "root.pem")
    with rogue_bank(context, as_json(200, {"a": 1})) as bank:
        (answer,) = driver.run(identity, lambda client: client.get("/x"), base_url=bank.url)
    assert answer.json() == {"a": 1}


def test_a_poll_on_a_kept_alive_connection_adds_no_handshake(
    driver: HttpDriver, identity: Identity, bank: SandboxServer
) -> None:
    with forwarder(int(bank.addresses.psd2_url.rpartition(":")[2])) as counted:
        url = f"https://localhost:{counted['port']}/psd2/v1/payments/sepa-credit-transfers/1/status"
        answers = driver.run(identity, *[lambda client: client.get(url)] * 5)
        assert [answer.status_code for answer in answers] == [answers[0].status_code] * 5
        assert counted["connections"] == 1


def test_a_client_follows_no_redirect_keeps_no_cookie_and_uses_no_proxy_of_the_environment(
    driver: HttpDriver, identity: Identity, bank_pki_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    context = server_context(bank_pki_folder)
    with rogue_bank(context, http(200)) as other:
        with rogue_bank(context, http(302, location=other.url, set_cookie="a=b")) as bank:
            answers = driver.run(identity, *[lambda client: client.get(bank.url)] * 2)
        assert ([answer.status_code for answer in answers], other.connections) == ([302, 302], 0)
    assert not any(b"ookie" in request for request in bank.requests)


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"], ids=["head", "body"])
def test_an_answer_that_trickles_ends_with_the_call(
    first: bytes, driver: HttpDriver, identity: Identity, bank_pki_folder: Path
) -> None:
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
def test_the_psd2_client_takes_a_client_of_either_library(
    library: str, identity: Identity, bank: SandboxServer
) -> None:
    found: Any = HTTP_DRIVERS[f"{library} sync"].library
    with (
        make_client(identity, library=found) as http,
        Psd2Client(bank.addresses.psd2_url, identity=identity, http=http) as client,
        pytest.raises(RequestRefused) as caught,
    ):
        client.payment_status("1")
    assert caught.value.peer_code == "RESOURCE_UNKNOWN"
