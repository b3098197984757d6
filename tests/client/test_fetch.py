"""Fetching from servers on loopback that are slow, endless, oversized, compressed or lead elsewhere."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tppkit.client import make_fetch
from tppkit.errors import TransportError

Serve = Callable[..., str]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves each connection with the next script: bytes to send, or seconds to wait; gives the address."""
    listeners: list[socket.socket] = []
    stop = threading.Event()

    def run(listener: socket.socket, scripts: list[list[bytes | float]], received: list[bytes]) -> None:
        for script in scripts:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                request = connection.recv(65536)
                if request.endswith(b"\r\n\r\n") and request.startswith(b"POST"):
                    request += connection.recv(65536)
                received.append(request)
                for step in script:
                    if stop.is_set():
                        return
                    try:
                        connection.sendall(step) if isinstance(step, bytes) else stop.wait(step)
                    except OSError:
                        break

    def serve(*scripts: list[bytes | float], received: list[bytes] | None = None) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(
            target=run, args=(listener, list(scripts), [] if received is None else received), daemon=True
        ).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/crl"

    yield serve
    stop.set()
    for listener in listeners:
        listener.close()


local = make_fetch(allow_private=True)


def refusal(fetch, url: str, *, max_bytes: int = 1000, timeout: float = 20) -> TransportError:
    with pytest.raises(TransportError) as refused:
        fetch(url, max_bytes=max_bytes, timeout=timeout)
    return refused.value


def test_a_body_is_posted_with_its_media_type(serve):
    received: list[bytes] = []
    url = serve([OK], received=received)
    local(url, max_bytes=5, timeout=5, body=b"question", content_type="application/ocsp-request")
    request = received[0].lower()
    assert request.startswith(b"post /crl http/1.1\r\n")
    assert b"content-type: application/ocsp-request\r\n" in request
    assert request.endswith(b"\r\n\r\nquestion")
    assert b"cookie" not in request
    assert b"authorization" not in request


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + bytes(1001)], "fetch.too-large"),
        ([b"HTTP/1.1 200 OK\r\n\r\n", *[bytes(500)] * 50], "fetch.too-large"),
        (
            [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"1f4\r\n" + bytes(500) + b"\r\n"] * 50],
            "fetch.too-large",
        ),
        ([5.0], "fetch.timeout"),
        ([b"HTTP/1.1 200 OK\r\n", *[b"X: y\r\n", 0.1] * 50], "fetch.timeout"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", *[b"x", 0.1] * 50], "fetch.timeout"),
        ([b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"], "fetch.failed"),
        ([b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello"], "fetch.failed"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello"], "fetch.failed"),
        ([b"no HTTP at all\r\n\r\n"], "fetch.failed"),
        ([b""], "fetch.failed"),
    ],
    ids=[
        "announced", "endless", "chunked", "silent", "slow headers", "slow body", "status", "compressed", "cut off",
        "not HTTP", "nothing",
    ],
)  # fmt: skip
def test_an_answer_that_is_too_large_too_slow_or_invalid_is_an_error(serve, script, code):
    timeout = 0.5 if code == "fetch.timeout" else 20
    assert refusal(local, serve(script), timeout=timeout).code == code


def redirect(to: str) -> list[bytes | float]:
    return [f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()]


following = make_fetch(allow_private=True, follow_redirects=True)


def test_a_redirect_is_not_followed_unless_configured_and_then_not_for_ever(serve):
    target = serve([OK])
    assert refusal(local, serve(redirect(target))).code == "fetch.failed"
    assert following(serve(redirect(target)), max_bytes=5, timeout=20) == b"hello"
    assert refusal(following, serve(*[redirect("/again")] * 10), timeout=5).code == "fetch.failed"


@pytest.mark.parametrize(
    ("to", "codes"),
    [
        *((to, {"fetch.refused"}) for to in ("file:///etc/passwd", "ftp://127.0.0.1/", "http://user@127.0.0.1/", "gopher://x")),
        *((to, {"fetch.failed", "fetch.refused"}) for to in ("http://[", "//[::", "http://[::1")),
    ],
)  # fmt: skip
def test_a_redirect_to_what_is_no_web_address_is_not_followed(serve, to, codes):
    assert refusal(following, serve(redirect(to))).code in codes


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ldap://example.com/", "http://", "http://a b/", "http://user:pw@example.com/", "x" * 50],
)
def test_only_web_addresses_are_fetched(url):
    assert refusal(local, url).code == "fetch.refused"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "192.168.0.1",
        "::1",
        "fe80::1%eth0",
        "::ffff:127.0.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::808:808",
        "::808:808",
        "::ffff:0:808:808",
        "fec0::1",
        "2002:7f00:1::1",
        "2001:db8::1",
    ],
)
def test_an_address_inside_the_own_network_is_not_fetched(address):
    fetch = make_fetch(resolve=lambda host, port: [address])
    assert refusal(fetch, "http://crl.example.com/list").code == "fetch.refused"


def test_a_resolver_that_takes_too_long_is_not_waited_for():
    found, waited = threading.Event(), []

    def resolve(host: str, port: int) -> list[str]:
        waited.append(found.wait(20))
        return ["127.0.0.1"]

    fetch = make_fetch(allow_private=True, resolve=resolve)
    assert refusal(fetch, "http://crl.example.com/list", timeout=0.5).code == "fetch.timeout"
    assert not waited
    found.set()


@pytest.mark.parametrize(
    ("addresses", "found"),
    [
        (["127.0.0.1"], True),
        (["127.0.0.2", "127.0.0.3", "127.0.0.1"], True),
        ([*(f"127.0.0.{n}" for n in range(2, 6)), "127.0.0.1"], False),
    ],
)
def test_of_the_addresses_that_were_judged_the_first_few_are_connected_to_in_turn(serve, addresses, found):
    asked: list[str] = []
    fetch = make_fetch(allow_private=True, resolve=lambda host, port: asked.append(host) or addresses)
    url = serve([OK]).replace("127.0.0.1", "crl.example.com")
    if found:
        assert fetch(url, max_bytes=5, timeout=20) == b"hello"
    else:
        assert refusal(fetch, url).code == "fetch.failed"
    assert asked == ["crl.example.com"]


def test_a_private_server_or_one_without_a_listener_is_not_reached(serve):
    assert refusal(make_fetch(), serve([OK])).code == "fetch.refused"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert refusal(local, f"http://127.0.0.1:{port}/").code == "fetch.failed"


@pytest.mark.parametrize("error", [socket.gaierror("not known"), RuntimeError("broken")])
def test_whatever_a_resolver_raises_is_reported_at_once(error):
    def resolve(host: str, port: int) -> list[str]:
        raise error

    assert refusal(make_fetch(resolve=resolve), "http://crl.example.com/").code == "fetch.failed"
