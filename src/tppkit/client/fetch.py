"""Fetch trust material over HTTP: CRLs, OCSP responses, trusted lists.

The addresses come from certificates and lists, so an attacker may have chosen them. Only http and https are allowed, without
cookies, credentials and decompression, and with limits on bytes and time. Redirects and private addresses need an option.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from urllib.parse import urljoin

import httpcore

from tppkit._addresses import is_public
from tppkit.errors import TransportError
from tppkit.trust.fetching import Fetch, is_web_address

MAX_REDIRECTS = 3
MAX_ADDRESSES = 4
_READ_BYTES = 64 * 1024
_OK = 200
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

Resolve = Callable[[str, int], list[str]]
SocketOptions = Iterable[
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
]  # as `httpcore` has them


def make_fetch(
    *,
    allow_private: bool = False,
    follow_redirects: bool = False,
    resolve: Resolve | None = None,
    tls: ssl.SSLContext | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Fetch:
    """Return a thread-safe function that fetches trust material.

    For each connection, a host is resolved once and only the checked addresses are connected to, so a name cannot resolve to a
    private address after the check. Up to 4 addresses are tried in turn. The time limit includes resolving and connecting. Proxy
    settings of the environment are ignored.

    Args:
        allow_private: allow addresses that are not public (loopback, private networks).
        follow_redirects: follow up to 3 redirects to http or https addresses, each checked like the first.
        resolve: returns the addresses of a host and port; by default the system's resolver.
        tls: the TLS settings for https servers; by default the system's authorities.
        clock: monotonic seconds.

    Example:
        fetch = make_fetch()
        crl = fetch("http://ca.example/issuing.crl", max_bytes=1_000_000, timeout=5)
    """
    look_up = resolve or _look_up
    context = tls or ssl.create_default_context()

    def fetch(
        url: str, *, max_bytes: int, timeout: float, body: bytes | None = None, content_type: str | None = None
    ) -> bytes:
        network = _Network(look_up, allow_private, deadline=clock() + timeout, clock=clock)
        headers = [("accept-encoding", "identity"), ("connection", "close")]
        if content_type is not None:
            headers.append(("content-type", content_type))
        with httpcore.ConnectionPool(ssl_context=context, network_backend=network) as pool:
            for _ in range(1 + MAX_REDIRECTS * follow_redirects):
                if not is_web_address(url):
                    raise TransportError("fetch.refused", f"{url[:200]!r} is not an http or https address")
                answer = _exchange(pool, url, headers, body, max_bytes)
                if isinstance(answer, bytes):
                    return answer
                url = _follow(url, answer)
        raise TransportError("fetch.failed", f"a redirect to {url[:200]} is not followed")

    return fetch


def _follow(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError as e:
        raise TransportError(
            "fetch.failed", f"{url[:200]} redirects to {location[:200]!r}, which is not an address"
        ) from e


def _look_up(host: str, port: int) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _exchange(
    pool: httpcore.ConnectionPool, url: str, headers: list[tuple[str, str]], body: bytes | None, max_bytes: int
) -> bytes | str:
    """Return the body of an answer, or the Location of a redirect as text."""
    shown = url[:200]
    try:
        with pool.stream("GET" if body is None else "POST", url, headers=headers, content=body) as response:
            if response.status in _REDIRECTS:
                return _header(response, b"location")
            if response.status != _OK:
                raise TransportError("fetch.failed", f"{shown} answers with status {response.status}")
            if _header(response, b"content-encoding") not in ("", "identity"):
                raise TransportError("fetch.failed", f"{shown} sent a compressed answer, which was not requested")
            return b"".join(_limited(response, shown, max_bytes))
    except httpcore.TimeoutException as e:
        raise TransportError("fetch.timeout", f"{shown} did not answer in time") from e
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol, ValueError) as e:
        raise TransportError("fetch.failed", f"{shown} cannot be fetched: {type(e).__name__}") from e


def _header(response: httpcore.Response, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in response.headers if key.lower() == name), "").strip()


def _limited(response: httpcore.Response, shown: str, max_bytes: int) -> Iterator[bytes]:
    size = 0
    for chunk in response.iter_stream():
        size += len(chunk)
        if size > max_bytes:
            raise TransportError("fetch.too-large", f"{shown} answers with more than {max_bytes} bytes")
        yield chunk


class _Network(httpcore.NetworkBackend):
    """Connects to checked addresses only, and limits each step to the remaining time of the exchange."""

    def __init__(self, look_up: Resolve, allow_private: bool, *, deadline: float, clock: Callable[[], float]) -> None:
        self._look_up = look_up
        self._allow_private = allow_private
        self._deadline = deadline
        self._clock = clock
        self._sockets = httpcore.SyncBackend()

    def left(self) -> float:
        """Return the remaining seconds, above zero.

        Raises:
            httpcore.ReadTimeout: the time is over.
        """
        left = self._deadline - self._clock()
        if left <= 0:
            raise httpcore.ReadTimeout("the time for the whole exchange is over")
        return left

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: SocketOptions | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first allowed address of the host that answers."""
        addresses = self._find(host, port)
        allowed = [address for address in addresses if self._allow_private or is_public(address)][:MAX_ADDRESSES]
        if not allowed:
            raise TransportError("fetch.refused", f"the host {host[:100]} is not on the public network")
        refusal: httpcore.NetworkError | httpcore.TimeoutException
        for index, address in enumerate(allowed):
            share = self.left() / (len(allowed) - index)
            try:
                return _Stream(self._sockets.connect_tcp(address, port, share, local_address, socket_options), self)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as e:
                refusal = e
        raise refusal

    def _find(self, host: str, port: int) -> list[str]:
        # The system's resolver has no timeout, so it runs in a thread, which is abandoned when the time is over.
        found: SimpleQueue[list[str] | Exception] = SimpleQueue()

        def look_up() -> None:
            try:
                found.put(self._look_up(host, port))
            except Exception as e:  # noqa: BLE001  # passed to the waiting thread
                found.put(e)

        threading.Thread(target=look_up, daemon=True).start()
        try:
            answer = found.get(timeout=self.left())
        except Empty as e:
            raise httpcore.ConnectTimeout(f"the host {host[:100]} was not resolved in time") from e
        if isinstance(answer, Exception):
            raise TransportError("fetch.failed", f"the host {host[:100]} cannot be resolved") from answer
        return answer


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, network: _Network) -> None:
        self._stream = stream
        self._network = network

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(min(max_bytes, _READ_BYTES), self._network.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._network.left())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, self._network.left()), self._network)

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)
