"""HTTP/2 and HTTP/1.1 side by side with one identity, against nginx: each client speaks its own protocol."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import aiohttp
import httpx
import httpx2
import pytest
from dialects import identity_of
from serving import free_port, run_nginx

from tppkit._clock import utc_now
from tppkit.client import Identity, make_client

# `listen ... http2` is what every version of nginx reads.
NGINX = """
  ssl_session_cache shared:sessions:1m;
  server {{
    listen 127.0.0.1:{port} ssl http2;
    ssl_certificate {pki}/server-chain.pem; ssl_certificate_key {pki}/server.key;
    ssl_verify_client optional_no_ca; ssl_verify_depth 4;
    location / {{ return 200 "$server_protocol $ssl_client_serial $ssl_session_reused"; }}
  }}
"""
H1, H2 = "HTTP/1.1", "HTTP/2.0"


@pytest.fixture(scope="module")
def port(bank_pki_folder, tmp_path_factory):
    """nginx, which speaks both protocols and answers which one a request used."""
    found = free_port()
    block = NGINX.format(pki=bank_pki_folder, port=found)
    with run_nginx(block, port=found, folder=tmp_path_factory.mktemp("nginx")):
        yield found


def with_httpx(identity: Identity, port: int, *, library: Any = httpx, http2: bool = False) -> str:
    with library.Client(verify=identity.tls_context, http2=http2, trust_env=False) as client:
        return str(client.get(f"https://localhost:{port}/").text)


def with_async_httpx(identity: Identity, port: int, *, http2: bool = False) -> str:
    async def main() -> str:
        async with httpx.AsyncClient(verify=identity.tls_context, http2=http2, trust_env=False) as client:
            return (await client.get(f"https://localhost:{port}/")).text

    return asyncio.run(main())


def with_make_client(identity: Identity, port: int) -> str:
    with make_client(identity) as client:
        return client.get(f"https://localhost:{port}/").text


def with_aiohttp(identity: Identity, port: int) -> str:
    async def main() -> str:
        connector = aiohttp.TCPConnector(ssl=identity.tls_context)
        async with aiohttp.ClientSession(connector=connector) as session:
            return await (await session.get(f"https://localhost:{port}/")).text()

    return asyncio.run(main())


def with_http_client(identity: Identity, port: int) -> str:
    with closing(http.client.HTTPSConnection("localhost", port, context=identity.tls_context)) as connection:
        connection.request("GET", "/")
        return connection.getresponse().read().decode()


Ask = Callable[[Identity, int], str]
ONE: tuple[Ask, ...] = (with_httpx, with_async_httpx, with_make_client, with_aiohttp, with_http_client)
TWO: tuple[Ask, ...] = (
    lambda identity, port: with_httpx(identity, port, http2=True),
    lambda identity, port: with_httpx(identity, port, library=httpx2, http2=True),
    lambda identity, port: with_async_httpx(identity, port, http2=True),
)


def test_each_client_of_an_identity_uses_its_own_protocol_also_beside_others(identity, port):
    for ask_two in TWO:
        assert ask_two(identity, port).startswith(H2)
        for ask in ONE:
            assert ask(identity, port).startswith(H1), ask
    url, options = f"https://localhost:{port}/", {"trust_env": False}
    two = httpx.Client(verify=identity.tls_context, http2=True, **options)
    one = httpx.Client(verify=identity.tls_context, headers={"Connection": "close"}, **options)
    with two, one:
        for _ in range(3):
            assert one.get(url).http_version == "HTTP/1.1"
            assert two.get(url).http_version == "HTTP/2"
        assert with_http_client(identity, port).startswith(H1)

    def ask(number: int) -> bool:
        asks, protocol = ((with_httpx,), H1) if number % 2 else (TWO[:1], H2)
        return asks[0](identity, port).startswith(protocol)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(ask, range(40)))


def test_no_session_is_resumed_so_each_connection_verifies_the_certificate(bank_pki, port):
    fresh = identity_of(bank_pki)
    for ask in (with_httpx, TWO[0]):
        assert [ask(fresh, port).rpartition(" ")[2] for _ in range(2)] == [".", "."]


def test_a_renewed_certificate_is_shown_in_the_protocol_that_was_set(bank_pki, port):
    qwac, renewed = bank_pki.qwac, bank_pki.issue_qwac(bank_pki.provider, label="renewed")
    identity, other = (
        Identity(issued.certificate, issued.key, server_anchors=[bank_pki.root.certificate])
        for issued in (qwac, renewed)
    )
    with (
        httpx.Client(verify=identity.tls_context, http2=True, trust_env=False) as before,
        httpx.Client(verify=identity.tls_context, http2=True, trust_env=False) as after,
    ):
        url = f"https://localhost:{port}/"
        protocol, serial, _ = before.get(url).text.split()
        assert (protocol, int(serial, 16)) == (H2, qwac.certificate.serial)
        identity.renew(other, at=utc_now())
        protocol, serial, _ = after.get(url).text.split()
        assert (protocol, int(serial, 16)) == (H2, renewed.certificate.serial)
