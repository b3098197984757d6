"""Send raw HTTP/1.1 messages: HTTP client libraries would change some of their bytes."""

from __future__ import annotations

import errno
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

import click

from tppkit._encoding import shown
from tppkit.callbacks import ReceivedCallback
from tppkit.cli.output import DOES_NOT_HOLD, HOLDS, print_facts, print_json
from tppkit.errors import ConfigurationError, TransportError

TIMEOUT_S = 10.0
_MAX_ANSWER_BYTES = 64 * 1024
_SHOWN = 4096
# Headers of the connection (RFC 9110 section 7.6.1), and those that `readdress` writes.
_NOT_FORWARDED = frozenset(
    {
        "connection", "content-length", "host", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te",
        "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip


class Place(NamedTuple):
    """A destination of requests.

    Attributes:
        host: name or address.
        port: TCP port.
        target: path and query; empty to keep the path of each message.
        tls: whether to use https.

    Example:
        place = parse_place("http://127.0.0.1:8000")
        reply = send_message(readdress(callback, place=place).to_wire(), place=place)
    """

    host: str
    port: int
    target: str
    tls: bool

    @property
    def authority(self) -> str:
        """The value of a Host header."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Reply(NamedTuple):
    """An answer.

    Attributes:
        status: HTTP status.
        content_type: of the body, or empty.
        body: its first bytes, at most 65,536.
    """

    status: int
    content_type: str
    body: bytes


def parse_place(url: str, *, remote: bool = False) -> Place:
    """Parse a destination on this machine.

    Args:
        url: `http://127.0.0.1:8000`, with a path if every message goes to that path.
        remote: allow other machines, and https.

    Raises:
        ConfigurationError: `callback.place`.
    """
    schemes = ("http", "https") if remote else ("http",)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    if (
        parts.scheme not in schemes or not host or port == 0 or parts.username is not None or parts.fragment
        or not (url.isascii() and url.isprintable()) or " " in url or not (remote or _is_here(host))
    ):  # fmt: skip
        where = " or ".join(f"{scheme}://" for scheme in schemes) + ("" if remote else " on this machine")
        raise ConfigurationError("callback.place", f"{shown(url)} is not {where}")
    query = f"?{parts.query}" if parts.query else ""
    target = "" if parts.path in ("", "/") and not query else (parts.path or "/") + query
    tls = parts.scheme == "https"
    return Place("127.0.0.1" if host == "localhost" else host, port or (443 if tls else 80), target, tls)


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def readdress(callback: ReceivedCallback, *, place: Place, host: str | None = None) -> ReceivedCallback:
    """Return a callback for another destination; method, body and the callback's own headers stay unchanged.

    Args:
        callback: as received.
        place: the destination.
        host: the value of the Host header; the destination's by default.
    """
    kept = [(name, value) for name, value in callback.headers if name.lower() not in _NOT_FORWARDED]
    length = str(len(callback.body))
    fixed = (("Host", host or place.authority), ("Content-Length", length), ("Connection", "close"))
    return callback._replace(target=place.target or callback.target, headers=(*fixed, *kept))


def send_message(
    message: bytes, *, place: Place, timeout_s: float = TIMEOUT_S, context: ssl.SSLContext | None = None
) -> Reply:
    """Send a message and read the answer.

    Args:
        message: the whole HTTP/1.1 message.
        place: the destination.
        timeout_s: limits connecting, and then the whole exchange.
        context: for https; trusts the system's authorities by default.

    Raises:
        TransportError: `transport.failed`, the connection is refused, the answer is not HTTP or takes too long.
    """
    try:
        with (
            socket.create_connection((place.host, place.port), timeout=timeout_s) as plain,
            ended_after(plain, timeout_s),
        ):
            if not place.tls:
                return _exchange(plain, message)
            with (context or ssl.create_default_context()).wrap_socket(plain, server_hostname=place.host) as protected:
                return _exchange(protected, message)
    except (OSError, http.client.HTTPException) as e:
        reason = getattr(e, "strerror", None) or type(e).__name__
        raise TransportError("transport.failed", f"{place.authority} did not answer: {reason}") from e


@contextmanager
def ended_after(connection: socket.socket, seconds: float) -> Iterator[None]:
    """Shut a connection down after a time; a timeout of the socket would restart with each byte.

    Raises:
        TimeoutError: the connection was shut down.
    """
    over = threading.Event()

    def end() -> None:
        over.set()
        with suppress(OSError):  # already closed
            same.shutdown(socket.SHUT_RDWR)

    with connection.dup() as same:  # TLS detaches the descriptor of the connection
        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (OSError, http.client.HTTPException):
            if not over.is_set():
                raise
        finally:
            timer.cancel()
            timer.join()  # it uses the duplicate until then
    if over.is_set():
        raise TimeoutError(errno.ETIMEDOUT, f"it took more than {seconds:g} seconds")


def _exchange(connection: socket.socket, message: bytes) -> Reply:
    with suppress(BrokenPipeError, ConnectionResetError):  # the answer may come before the whole message is read
        connection.sendall(message)
    response = http.client.HTTPResponse(connection)
    try:
        response.begin()
        return Reply(response.status, response.getheader("Content-Type", ""), response.read(_MAX_ANSWER_BYTES))
    finally:
        response.close()


def print_reply(reply: Reply, *, as_json: bool) -> int:
    """Print an answer; return the exit code."""
    text = reply.body.decode("utf-8", "replace")
    if as_json:
        print_json({"status": reply.status, "content_type": reply.content_type, "body": text})
    else:
        click.echo(f"answered {reply.status}")
        print_facts([("body", text[:_SHOWN])])
    return HOLDS if 200 <= reply.status < 300 else DOES_NOT_HOLD
