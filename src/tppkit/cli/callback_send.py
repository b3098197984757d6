"""`tppkit callback send` and `attack`: signed samples, and invalid callbacks that a receiver must refuse.

Messages are sent as raw HTTP/1.1, because HTTP client libraries would change some of their bytes.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from io import BytesIO
from ipaddress import ip_address
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

import click
from cryptography.hazmat.primitives.asymmetric import ec

from tppkit._clock import utc_now
from tppkit._encoding import shown
from tppkit.callbacks import CallbackAddress, CallbackKind, ReceivedCallback, RequestIds, sign_callback
from tppkit.callbacks.attacks import ATTACKS, Attack, Target
from tppkit.certificates import load_certificates
from tppkit.cli.callback_options import request_id_option, signing_options
from tppkit.cli.output import (
    DOES_NOT_HOLD,
    HOLDS,
    Raw,
    Result,
    colored,
    echo,
    fact_lines,
    json_flag,
    json_option,
    print_json,
    say,
    verdict_object,
)
from tppkit.errors import CallbackRejected, ConfigurationError, TransportError
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, Transaction
from tppkit.protocol.legacy.models import LegacyModel
from tppkit.protocol.legacy.money import Amount
from tppkit.protocol.legacy.rules import ACCESS_LIFETIME, write_time_stamp

TIMEOUT_S = 10.0
_MAX_ANSWER_BYTES = 128 * 1024  # with the head
_MAX_BODY_BYTES = 64 * 1024
_SHOWN = 4096
_SAMPLES: Mapping[str, Callable[[datetime], LegacyModel]] = MappingProxyType(
    {
        "access": lambda at: AccessGranted.until(uuid4().hex, at + ACCESS_LIFETIME),
        "payment": lambda at: Transaction(
            id=uuid4().hex, ver=1, time_stamp=write_time_stamp(at), tlc="posted", acc="LT121000011101001000",
            amounts=(Amount.parse("EUR-12.50"),), name="Bookshop", msg="Order 4711",
        ),
        "login": lambda at: LoginConfirmed(id=7, name="Jonas Jonaitis"),
    }
)  # fmt: skip
_signed_url_option = click.option(
    "--signed-url", help="The address as the receiver has it configured; URL with https by default."
)


@click.command()
@click.option("--url", required=True, help="Where the receiver listens: https://, or http:// on this machine.")
@signing_options("A body instead of the sample")
@click.option("--kind", required=True, type=click.Choice(tuple(_SAMPLES)), help="The event of the sample.")
@click.option("--scan", is_flag=True, help="With --kind login: send the GET for a scanned code.")
@request_id_option
@_signed_url_option
@click.option("--ca", metavar="FILE", help="Authorities in PEM to trust for https instead of the system's.")
@json_option
def send(
    url: str, private_key: ec.EllipticCurvePrivateKey, kind: str, scan: bool, body: bytes | None, request_id: str | None,
    signed_url: str | None, ca: str | None,
) -> Result:  # fmt: skip
    """Sign a sample callback, send it to a receiver, and print the answer.

    The receiver's certificate is verified. Redirects are not followed. Give the exact URL: for a payment it ends with / and a uuid,
    for access with /.
    """
    if scan and (kind != "login" or body is not None):
        raise click.UsageError("--scan needs --kind login, and no --body")
    try:
        RequestIds().require(request_id := request_id or str(uuid4()))
    except CallbackRejected as e:
        raise click.UsageError(e.message) from e
    place = parse_place(url, "http", "https")
    address = CallbackAddress(signed_url or _https_url(url, place), CallbackKind(kind))
    if address.has_token:
        raise click.UsageError("replace {token} by a token")
    content = b"" if scan else _SAMPLES[kind](utc_now()).to_wire() if body is None else body
    method = "GET" if scan else "POST"
    headers = sign_callback(private_key, request_id=request_id, method=method, url=address.url, body=content)
    received = ReceivedCallback(method, address.path, (*headers, ("Content-Type", "application/json")), content)
    context = _trusting(ca) if ca else None
    reply = send_message(to_wire(received, place=place), place=place, context=context)
    text = reply.body.decode("utf-8", "replace")
    value = {"status": reply.status, "content_type": reply.content_type, "body": text}
    lines = (f"answered {reply.status}", *fact_lines([("body", text[:_SHOWN])]))
    return Result(value, lines, HOLDS if 200 <= reply.status < 300 else DOES_NOT_HOLD)


@click.command()
@click.argument("url")
@signing_options("A body that the address accepts; that of a granted access by default")
@_signed_url_option
@json_flag
def attack(
    url: str, private_key: ec.EllipticCurvePrivateKey, signed_url: str | None, body: bytes | None, as_json: bool
) -> int:
    """Send invalid callbacks to your own receiver and print pass or fail for each.

    URL is where the receiver listens, http:// on this machine. The callbacks go to its path, or to the path of --signed-url if URL
    has none; two go to other paths. If the valid callback is refused, the others are not sent and the exit code is 1.
    """
    place = parse_place(url, "http")
    target = Target(
        key=private_key,
        stranger=ec.generate_private_key(ec.SECP256R1()),
        address=CallbackAddress(_https_url(url, place) if signed_url is None else signed_url, CallbackKind.OTHER),
        body=_SAMPLES["access"](utc_now()).to_wire() if body is None else body,
        name=uuid4().hex[:12],
        path=place.target,
    )
    try:
        socket.create_connection((place.host, place.port), timeout=TIMEOUT_S).close()
    except OSError as e:
        raise TransportError("attack.unreachable", f"nothing listens on {place.authority}: {e.strerror}") from e
    rows = []
    for one, status, passed in _run_attacks(target, place._replace(target="")):  # each attack has its own path
        state = "----" if passed is None else colored("pass" if passed else "FAIL", holds=passed)
        answer = "not judged" if passed is None else status or "no answer"
        if not as_json:
            echo(Raw(f"{state}  {one.name:<22} {answer:<10} {one.tests}"))
        rows.append(
            {"name": one.name, "tests": one.tests, "expected": one.answer.value, "status": status, "passed": passed}
        )
    states = [row["passed"] for row in rows]
    code = "attack.not-judged" if None in states else "attack.failed" if False in states else None
    if as_json:
        print_json(verdict_object(code, (), attacks=rows))
    else:
        echo(f"{states.count(True)} of {len(rows)} passed")
        if None in states:
            say("the valid callback was refused, so refusals show nothing: check --key, --signed-url and --body")
    return DOES_NOT_HOLD if code else HOLDS


def _run_attacks(target: Target, place: Place) -> Iterator[tuple[Attack, int | None, bool | None]]:
    """Send each attack and yield its answer's status and whether it passed; no attack is sent after a refused valid callback."""
    valid_is_taken = True
    for number, one in enumerate(ATTACKS):
        if not valid_is_taken:
            yield one, None, None
            continue
        status = [_send(call, place) for call in one.make(target)][-1]
        passed = status is not None and one.answer.fits(status)
        yield one, status, passed
        valid_is_taken = passed or number > 0


def _send(call: ReceivedCallback, place: Place) -> int | None:
    host = next((value for name, value in call.headers if name == "Host"), None)
    try:
        return send_message(to_wire(call, place=place, host=host), place=place).status
    except TransportError:
        return None


def _https_url(url: str, place: Place) -> str:
    return f"https://{urlsplit(url).netloc.lower()}{place.target or '/'}"


def _trusting(ca: str) -> ssl.SSLContext:
    anchors = load_certificates(ca)
    return ssl.create_default_context(cadata="".join(ssl.DER_cert_to_PEM_cert(anchor.der) for anchor in anchors))


class Place(NamedTuple):
    """A destination of requests.

    Attributes:
        host: name or address.
        port: TCP port.
        target: path and query; empty to keep the path of each message.
        tls: whether to use https.

    Example:
        place = parse_place("http://127.0.0.1:8000", "http")
        reply = send_message(to_wire(callback, place=place), place=place)
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


def parse_place(url: str, *schemes: str) -> Place:
    """Parse a destination; one with http must be on this machine.

    Args:
        url: `http://127.0.0.1:8000`, with a path if every message goes to that path.
        schemes: the accepted ones, http or https.

    Raises:
        ConfigurationError: `callback.place`.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    if (
        parts.scheme not in schemes or not host or port == 0 or parts.username is not None or parts.fragment
        or not (url.isascii() and url.isprintable()) or " " in url or not (parts.scheme == "https" or _is_here(host))
    ):  # fmt: skip
        where = " or ".join({"http": "http:// on this machine"}.get(scheme, f"{scheme}://") for scheme in schemes)
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


def to_wire(callback: ReceivedCallback, *, place: Place, host: str | None = None) -> bytes:
    """Return a callback as HTTP/1.1 bytes for a destination; method, body and the callback's own headers stay unchanged.

    Args:
        callback: without Content-Length and Connection.
        place: the destination.
        host: the value of the Host header; the destination's by default.
    """
    own = [header for header in callback.headers if header[0] != "Host"]
    length = str(len(callback.body))
    fixed = (("Host", host or place.authority), ("Content-Length", length), ("Connection", "close"))
    return callback._replace(target=place.target or callback.target, headers=(*fixed, *own)).to_wire()


def send_message(
    message: bytes, *, place: Place, timeout_s: float = TIMEOUT_S, context: ssl.SSLContext | None = None
) -> Reply:
    """Send a message that ends the connection, and read the answer.

    Args:
        message: the whole HTTP/1.1 message.
        place: the destination.
        timeout_s: limits connecting, and then the whole answer.
        context: for https; trusts the system's authorities by default.

    Raises:
        TransportError: `transport.failed`, the connection is refused, the answer is not HTTP or takes too long.
    """
    try:
        with socket.create_connection((place.host, place.port), timeout=timeout_s) as plain:
            if not place.tls:
                return _exchange(plain, message, timeout_s)
            with (context or ssl.create_default_context()).wrap_socket(plain, server_hostname=place.host) as protected:
                return _exchange(protected, message, timeout_s)
    except (OSError, http.client.HTTPException) as e:
        reason = getattr(e, "strerror", None) or str(e) or type(e).__name__
        raise TransportError("transport.failed", f"{place.authority} did not answer: {reason}") from e


class _Answer(NamedTuple):
    """What `http.client` reads instead of a socket, whose timeout would restart with each byte."""

    raw: bytes

    def makefile(self, mode: str) -> BytesIO:
        return BytesIO(self.raw)


def _exchange(connection: socket.socket, message: bytes, timeout_s: float) -> Reply:
    end = time.monotonic() + timeout_s
    answer = b""
    with suppress(BrokenPipeError, ConnectionResetError):  # the answer may come before the whole message is read
        connection.sendall(message)
    with suppress(ConnectionResetError):
        while len(answer) < _MAX_ANSWER_BYTES:
            if (left := end - time.monotonic()) <= 0:
                raise TimeoutError("timed out")
            connection.settimeout(left)
            if not (chunk := connection.recv(_MAX_ANSWER_BYTES)):
                break
            answer += chunk
    response = http.client.HTTPResponse(_Answer(answer))  # type: ignore[arg-type]  # it only calls makefile
    response.begin()
    return Reply(response.status, response.getheader("Content-Type", ""), response.read(_MAX_BODY_BYTES))
