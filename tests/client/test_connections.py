"""Clients of either library with an identity."""

from __future__ import annotations

import ssl
import time
from pathlib import Path
from typing import Any

import pytest
from http_drivers import HTTP_DRIVERS, HttpDriver
from rogue_bank import as_json, forwarder, http, rogue_bank, server_context, trickling

from tppkit._clock import utc_now
from tppkit.client import Identity, Psd2Client, make_client
from tppkit.errors import RequestRefused
from tppkit.sandbox import SandboxServer
from tppkit.testpki import Pki


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


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_second_fresh_connection_is_resumed(
    version: ssl.TLSVersion, driver: HttpDriver, bank_pki: Pki, bank_pki_folder: Path
) -> None:
    qwac = bank_pki.qwac
    identity = Identity(qwac.certificate, qwac.key, chain=qwac.chain, server_anchors=[bank_pki.root.certificate])
    context = server_context(bank_pki_folder, client_anchors=bank_pki_folder / "root.pem")
    context.maximum_version = version
    with rogue_bank(context, http(200), then_close=True) as bank:
        driver.run(identity, *[lambda client: client.get(bank.url)] * 3)
        assert bank.resumed == [False, True, True]
        assert bank.shown == [qwac.certificate.der] * 3


def test_a_redirect_is_not_followed(driver: HttpDriver, identity: Identity, bank_pki_folder: Path) -> None:
    context = server_context(bank_pki_folder)
    with rogue_bank(context, http(200)) as other, rogue_bank(context, http(302, location=other.url)) as bank:
        (answer,) = driver.run(identity, lambda client: client.get(bank.url))
        assert (answer.status_code, other.connections) == (302, 0)


def test_proxies_of_the_environment_are_not_used(
    driver: HttpDriver, identity: Identity, bank_pki_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with rogue_bank(server_context(bank_pki_folder), http(200)) as bank:
        (answer,) = driver.run(identity, lambda client: client.get(bank.url))
    assert answer.status_code == 200


def test_no_cookie_is_kept(driver: HttpDriver, identity: Identity, bank_pki_folder: Path) -> None:
    with rogue_bank(server_context(bank_pki_folder), http(200, set_cookie="a=b")) as bank:
        driver.run(identity, *[lambda client: client.get(bank.url)] * 2)
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


def test_a_renewed_identity_is_shown_on_the_next_connection_of_an_old_client(
    driver: HttpDriver, bank_pki: Pki, bank_pki_folder: Path
) -> None:
    identity = Identity(
        bank_pki.qwac.certificate, bank_pki.qwac.key, chain=bank_pki.qwac.chain,
        server_anchors=[bank_pki.root.certificate],
    )  # fmt: skip
    new = bank_pki.issue_qwac(bank_pki.provider, label="new")
    renewed = Identity(new.certificate, new.key, chain=new.chain, server_anchors=[bank_pki.root.certificate])
    context = server_context(bank_pki_folder, client_anchors=bank_pki_folder / "root.pem")
    with rogue_bank(context, http(200), then_close=True) as bank:
        driver.run(
            identity,
            lambda client: client.get(bank.url),
            lambda client: identity.renew(renewed, at=utc_now()),
            lambda client: client.get(bank.url),
        )
        assert bank.shown == [bank_pki.qwac.certificate.der, new.certificate.der]
        assert bank.resumed == [False, False]


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
