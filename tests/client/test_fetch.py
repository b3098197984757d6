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
    "script",
    [
        [b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + bytes(1001)],
        [b"HTTP/1.1 200 OK\r\n\r\n", *[bytes(500)] * 50],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"1f4\r\n" + bytes(500) + b"\r\n"] * 50],
    ],
    ids=["announced", "endless", "chunked"],
)
def test_more_bytes_than_allowed_are_refused(serve, script):
    assert refusal(local, serve(script)).code == "fetch.too-large"


@pytest.mark.parametrize(
    "script",
    [
        [5.0],
        [b"HTTP/1.1 200 OK\r\n", *[b"X: y\r\n", 0.1] * 50],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", *[b"x", 0.1] * 50],
    ],
    ids=["silent", "slow headers", "slow body"],
)
def test_the_time_for_the_whole_is_kept(serve, script):
    assert refusal(local, serve(script), timeout=0.5).code == "fetch.timeout"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
        b"no HTTP at all\r\n\r\n",
        b"",
    ],
    ids=["status", "compressed", "cut off", "not HTTP", "nothing"],
)
def test_an_answer_that_is_invalid_is_a_failure(serve, answer):
    assert refusal(local, serve([answer])).code == "fetch.failed"


def redirect(to: str) -> list[bytes | float]:
    return [f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()]


def test_a_redirect_is_not_followed_unless_configured(serve):
    target = serve([OK])
    assert refusal(local, serve(redirect(target))).code == "fetch.failed"
    following = make_fetch(allow_private=True, follow_redirects=True)
    assert following(serve(redirect(target)), max_bytes=5, timeout=20) == b"hello"


def test_redirects_have_an_end(serve):
    url = serve(*[redirect("/again")] * 10)
    assert refusal(make_fetch(allow_private=True, follow_redirects=True), url, timeout=5).code == "fetch.failed"


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://127.0.0.1/", "http://user@127.0.0.1/", "gopher://x"])
def test_a_redirect_to_another_kind_of_address_is_refused(serve, to):
    following = make_fetch(allow_private=True, follow_redirects=True)
    assert refusal(following, serve(redirect(to))).code == "fetch.refused"


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


def test_if_an_address_does_not_answer_the_next_is_fetched(serve):
    port = int(serve([OK]).split(":")[2].split("/")[0])
    fetch = make_fetch(allow_private=True, resolve=lambda host, port: ["127.0.0.2", "127.0.0.3", "127.0.0.1"])
    assert fetch(f"http://crl.example.com:{port}/", max_bytes=5, timeout=20) == b"hello"


def test_of_many_addresses_only_some_are_fetched(serve):
    port = int(serve([OK]).split(":")[2].split("/")[0])
    addresses = [*(f"127.0.0.{n}" for n in range(2, 6)), "127.0.0.1"]
    fetch = make_fetch(allow_private=True, resolve=lambda host, port: addresses)
    assert refusal(fetch, f"http://crl.example.com:{port}/").code == "fetch.failed"


def test_a_private_server_is_not_contacted_unless_allowed(serve):
    assert refusal(make_fetch(), serve([OK])).code == "fetch.refused"


def test_the_address_that_was_judged_is_the_one_connected_to(serve):
    port = int(serve([OK]).split(":")[2].split("/")[0])
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    fetch = make_fetch(allow_private=True, resolve=resolve)
    assert fetch(f"http://crl.example.com:{port}/", max_bytes=5, timeout=20) == b"hello"
    assert asked == ["crl.example.com"]


@pytest.mark.parametrize("error", [socket.gaierror("not known"), RuntimeError("broken")])
def test_whatever_a_resolver_raises_is_reported_at_once(error):
    def resolve(host: str, port: int) -> list[str]:
        raise error

    assert refusal(make_fetch(resolve=resolve), "http://crl.example.com/").code == "fetch.failed"


@pytest.mark.parametrize("to", ["http://[", "//[::", "http://[::1"])
def test_a_redirect_to_what_is_not_an_address_is_a_failure(serve, to):
    following = make_fetch(allow_private=True, follow_redirects=True)
    assert refusal(following, serve(redirect(to))).code in ("fetch.failed", "fetch.refused")


def test_an_address_without_a_listener_is_a_failure():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert refusal(local, f"http://127.0.0.1:{port}/").code == "fetch.failed"
