"""HTTPS requests of the sandbox to addresses that attackers may have chosen, such as those of login codes.

Only public addresses are called, and those that the developer has allowed. The addresses of a host are checked after resolution, and
the connection uses a checked address, so that DNS rebinding has no effect.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple

import httptools

from tppkit._addresses import Address, is_public, parse_address
from tppkit._encoding import shown
from tppkit.errors import ConfigurationError, FormatError, TransportError

MAX_ANSWER_BYTES = 64 * 1024  # with the head
MAX_ADDRESSES = 4  # of a host, tried in turn
RESOLVING_AT_ONCE = 8
_MAX_URL = 2048
_READ_BYTES = 16 * 1024

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
Network = IPv4Network | IPv6Network
_LOGGER = logging.getLogger("tppkit.sandbox.outgoing")


class Received(NamedTuple):
    """An answer, which may be a redirect.

    Attributes:
        status: its HTTP status.
        content_type: its media type in lower case, without parameters; empty if it names none.
        body: the raw body.
    """

    status: int
    content_type: str
    body: bytes


def receivers_tls(*roots: bytes) -> ssl.SSLContext:
    """Make the TLS context to verify receivers with the system's authorities and these (PEM), with TLS 1.2 or later."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for root in roots:
        context.load_verify_locations(cadata=root.decode("ascii"))
    return context


def system_resolver() -> Resolve:
    """Make the system's resolver with its own threads, so that a slow name server does not block other work."""
    threads = ThreadPoolExecutor(RESOLVING_AT_ONCE, thread_name_prefix="resolver")

    async def look_up(host: str, port: int) -> Sequence[str]:
        call = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(threads, call)
        return [str(one[4][0]) for one in found]

    return look_up


@dataclass(frozen=True, slots=True)
class Receivers:
    """The addresses that the sandbox calls: public ones, and those that the developer has allowed.

    Attributes:
        allow: further networks that may be called.
        loopback: whether this machine may be called, for a sandbox that is itself reachable from this machine only.
    """

    allow: tuple[Network, ...] = ()
    loopback: bool = False

    def includes(self, address: str) -> bool:
        """Whether an IP address may be called."""
        try:
            found = _plain(ip_address(address))
        except ValueError:
            return False
        is_own = self.loopback and found.is_loopback
        return is_own or is_public(str(found)) or any(found in network for network in self.allow)

    def require(self, url: str | None, *, what: str, code: str) -> None:
        """Refuse a URL that the sandbox would never call: not https, or not an allowed host. Other names are resolved at each call.

        Raises:
            ConfigurationError: `code`.
        """
        if url is None:
            return
        try:
            host = parse_address(url, what=what).host.strip("[]")
        except FormatError as e:
            raise ConfigurationError(code, e.message) from e
        is_ip = ":" in host or host.rpartition(".")[2].isdigit()
        known = ("127.0.0.1", "::1") if f".{host}".endswith(".localhost") else (host,) if is_ip else ()
        if known and not any(map(self.includes, known)):
            message = f"{what} would never be called: {shown(host)} is neither on the public network nor allowed"
            raise ConfigurationError(code, f"{message} (--allow-address)")
        if len(url) > _MAX_URL:
            raise ConfigurationError(code, f"{what} has over {_MAX_URL} characters")


class OutgoingHttp:
    """Sends requests over HTTPS, each on a new connection; no proxies, no redirects, no cookies.

    Args:
        tls: the TLS context to verify receivers.
        receivers: the addresses that may be called.
        resolve: returns the addresses of a host and port; by default `system_resolver`.

    Example:
        http = OutgoingHttp(receivers_tls(root_pem), Receivers(loopback=True))
        received = await http.request("POST", "https://tpp.example/cb/", headers=signed, body=body, timeout_s=4)
    """

    def __init__(
        self, tls: ssl.SSLContext, receivers: Receivers = Receivers(), *, resolve: Resolve | None = None
    ) -> None:
        self._tls = tls
        self._receivers = receivers
        self._resolve = resolve or system_resolver()

    async def request(
        self, method: str, url: str, *, headers: Sequence[tuple[str, str]] = (), body: bytes = b"", timeout_s: float,
        answer_s: float | None = None, with_body: bool = True,
    ) -> Received:  # fmt: skip
        """Send a request, with the path and query as they are written, and read the answer.

        Args:
            method: the method of the request.
            url: absolute, https, without user name and fragment.
            headers: further headers in ASCII, without line breaks.
            body: its body.
            timeout_s: for resolution, connection, TLS and the whole answer, on the machine's clock.
            answer_s: a separate time limit for sending and the answer, which begins when the connection is made.
            with_body: if False, do not wait for the answer's body.

        Raises:
            FormatError: `qr.address-*`, `qr.character`: the address is not of this form.
            TransportError: `outgoing.refused`, `outgoing.certificate`, `outgoing.failed`, `outgoing.timeout`, `outgoing.too-large`.
        """
        address = parse_address(url, what="the address")
        awaited, limit_s = "connection", timeout_s
        try:
            async with asyncio.timeout(timeout_s) as limit:
                reader, writer = await self._connect(address, timeout_s)
                awaited = "whole answer"
                if answer_s is not None:
                    limit_s = answer_s
                    limit.reschedule(asyncio.get_running_loop().time() + answer_s)
                try:
                    writer.write(_head(method, address, headers, body) + body)
                    await writer.drain()
                    return await _read_answer(reader, with_body)
                finally:
                    writer.transport.abort()  # a normal close could wait for the receiver
        except TimeoutError as e:
            raise TransportError("outgoing.timeout", f"no {awaited} within {limit_s:g} s") from e
        except ssl.SSLCertVerificationError as e:
            raise TransportError("outgoing.certificate", f"its certificate does not verify: {e.verify_message}") from e
        except ssl.SSLError as e:
            raise TransportError("outgoing.failed", f"the TLS connection fails: {e.reason}") from e
        except OSError as e:
            _LOGGER.info("the connection to %s fails: %s", shown(address.host)[:200], e)
            reason = os.strerror(e.errno) if e.errno else type(e).__name__  # the text of asyncio contains the address
            raise TransportError("outgoing.failed", f"the connection fails: {reason}") from e
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as e:
            raise TransportError("outgoing.failed", "the answer is not HTTP/1.1") from e

    async def _connect(self, address: Address, timeout_s: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host = address.host.strip("[]")
        try:
            found = await self._resolve(host, address.port)
        except OSError as e:
            raise TransportError("outgoing.failed", f"the host {shown(host)} cannot be resolved") from e
        allowed = [one for one in dict.fromkeys(found) if self._receivers.includes(one)][:MAX_ADDRESSES]
        if not allowed:
            # Pages show the message to untrusted users, so the addresses, which may be internal, are only logged.
            _LOGGER.warning("%s is not called: its addresses are %s", shown(host), shown(", ".join(found)[:300]))
            message = f"{shown(host)[:200]} has no address that is on the public network or allowed"
            raise TransportError("outgoing.refused", message)
        for one in allowed[:-1]:
            with suppress(OSError):
                async with asyncio.timeout(timeout_s / len(allowed)):
                    return await self._open(one, address.port, host)
        return await self._open(allowed[-1], address.port, host)

    async def _open(self, address: str, port: int, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(address, port, ssl=self._tls, server_hostname=host, limit=_READ_BYTES)


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Convert an IPv4-mapped IPv6 address to IPv4."""
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _head(method: str, address: Address, headers: Sequence[tuple[str, str]], body: bytes) -> bytes:
    host = address.origin.removeprefix("https://")
    path = address.path if address.path.startswith("/") else f"/{address.path}"
    length = (("Content-Length", str(len(body))),) if body or method not in ("GET", "HEAD") else ()
    fields = ("Host", host), ("Connection", "close"), ("Accept-Encoding", "identity"), *length, *headers
    if any(not f"{name}{value}".isprintable() for name, value in fields):
        raise ValueError("a header has a line break")
    return "\r\n".join([f"{method} {path} HTTP/1.1", *(f"{n}: {v}" for n, v in fields), "", ""]).encode("ascii")


async def _read_answer(reader: asyncio.StreamReader, with_body: bool) -> Received:
    answer = _Answer()
    parser = answer.parser
    size = 0
    while not answer.is_whole and (with_body or not answer.status):
        data = await reader.read(_READ_BYTES)
        size += len(data)
        if size > MAX_ANSWER_BYTES:
            raise TransportError("outgoing.too-large", f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
        if data:
            parser.feed_data(data)
        elif answer.ends_with_connection:
            break
        else:
            raise TransportError("outgoing.failed", "the connection ended before the answer did")
    return Received(answer.status, answer.content_type, b"".join(answer.pieces))


class _Answer:
    """Collects what httptools parses, without interim answers (1xx)."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.status = 0
        self.content_type = ""
        self.pieces: list[bytes] = []
        self.is_whole = False
        self._has_length = False

    @property
    def ends_with_connection(self) -> bool:
        """Whether the body ends with the connection."""
        return self.status > 0 and not self._has_length

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._has_length = True
        elif name.lower() == b"content-type":
            self.content_type = value.decode("latin-1").partition(";")[0].strip().lower()

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if status >= 200 and not self.is_whole:
            self.status = status

    def on_body(self, body: bytes) -> None:
        if not self.is_whole:
            self.pieces.append(body)

    def on_message_complete(self) -> None:
        self.is_whole = self.status > 0
