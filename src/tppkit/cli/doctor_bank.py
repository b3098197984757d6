"""What `tppkit doctor` asks a bank: a handshake with the QWAC, the head of one answer, and what the handshake of TLS 1.2 shows.

The bank may be hostile: it gets five seconds for everything, and at most 64 KiB of an answer are read. Nothing is sent before its
certificate is verified, and no redirect is followed.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from tppkit._clock import utc_now
from tppkit._text import shortened
from tppkit.certificates import EidasCertificate, der
from tppkit.certificates.names import read_name
from tppkit.cli.doctor_certificates import Own
from tppkit.cli.doctor_row import CRITICAL, OK, UNKNOWN, WARNING, Present, Row, Status
from tppkit.client.base_url import split_base_url
from tppkit.client.identity_material import order_chain
from tppkit.client.tls_context import make_context
from tppkit.client.tls_deadline import deadline
from tppkit.errors import FormatError
from tppkit.httpsig.http_date import parse_http_date

LIMIT_S = 5.0
_MAX_HEAD, _MAX_FLIGHT = 64 * 1024, 256 * 1024
_HANDSHAKE, _REQUEST, _DONE = 22, 13, 14
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?:[ \r]|\Z)")
_DATE = re.compile(rb"\r\ndate:[ \t]*([^\r\n]{0,100}?)[ \t]*(?:\r\n|\Z)", re.IGNORECASE)
_REFUSED = frozenset({400, 495, 496})
_LATE, _MUCH_TOO_LATE = timedelta(seconds=30), timedelta(minutes=5)
_SHOWN, _LONGEST = 3, 100


@dataclass(frozen=True, slots=True)
class Client:
    """What authenticates the client.

    Attributes:
        chain: the QWAC, and the authorities to send with it; empty for no certificate.
        key: its private key, or None.
        anchors: authorities of the bank's server, besides those of the system.
    """

    chain: tuple[EidasCertificate, ...] = ()
    key: PrivateKeyTypes | None = None
    anchors: tuple[EidasCertificate, ...] = ()


def client_of(own: Own, at: datetime, trusted: tuple[EidasCertificate, ...]) -> Client:
    """Return what authenticates at a bank: the QWAC whose key is in the files, and the authorities below its root."""
    qwacs = [one.certificate for one in own.of_kind("qwac")]
    for qwac in sorted(qwacs, key=lambda one: (one.is_valid_at(at), one.not_after), reverse=True):
        if (key := own.key_of(qwac)) is not None:
            return Client((qwac, *order_chain(qwac, own.authorities, at=at)), key, trusted)
    return Client(anchors=trusted)


@dataclass(frozen=True, slots=True)
class _Met:
    """What a connection showed."""

    version: str
    certificate: EidasCertificate
    status: int
    date: bytes | None
    sent_at: datetime
    received_at: datetime


def check_bank(url: str, client: Client, present: Present) -> Iterator[Row]:
    """Check the handshake with a bank, its certificate, what it asks the client for, and the clock.

    Args:
        url: `https://host[:port][/prefix]`.
        client: certificate, key and authorities.
        present: the time to judge the certificate at.

    Raises:
        ConfigurationError: `client.base-url`, `identity.tls`.
    """
    origin, prefix = split_base_url(url)
    met, end = None, time.monotonic() + LIMIT_S
    try:
        met = _meet(origin, prefix, client, end)
    except OSError as e:
        yield Row("bank.connection", CRITICAL, f"{origin}: {_failure(e, client)}")
    else:
        yield Row("bank.connection", OK, f"{origin} answers over {met.version} with status {met.status}")
        what, todo = f"the server certificate of {origin}", "ask the bank for its successor"
        yield present.row("bank.certificate", what, met.certificate.not_after, todo=todo)
        yield Row("clock", *_compared(met))
    yield from _client_row(_probe(origin, end), client, met.status if met else None)


def _host(origin: str) -> tuple[str, int]:
    parts = urlsplit(origin)
    return parts.hostname or "", parts.port or 443


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _meet(origin: str, prefix: str, client: Client, end: float) -> _Met:
    """Connect, ask for the head of one answer, and read it.

    Raises:
        OSError: no connection, or no head of an HTTP answer; also `ssl.SSLError` and `TimeoutError`.
    """
    context = make_context(client.chain, client.key, server_anchors=None)
    if client.anchors:
        context.load_verify_locations(cadata="".join(ssl.DER_cert_to_PEM_cert(one.der) for one in client.anchors))
    host, head = _host(origin), b""
    with socket.create_connection(host, timeout=_left(end)) as plain:
        plain.settimeout(_left(end))
        with context.wrap_socket(plain, server_hostname=host[0]) as connection, deadline(_left(end)):
            version, presented, sent_at = connection.version(), connection.getpeercert(binary_form=True), utc_now()
            name = urlsplit(origin).netloc
            connection.sendall(f"HEAD {prefix}/ HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode("ascii"))
            # In TLS 1.3 the bank may refuse the certificate only now.
            while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD and (more := connection.recv(_MAX_HEAD)):
                head += more
            received_at = utc_now()
    head, is_whole, _ = head.partition(b"\r\n\r\n")
    status, date = _STATUS.match(head), _DATE.search(head)
    if status is None or not is_whole:
        too_long = len(head) >= _MAX_HEAD
        reason = "more than 64 KiB of headers" if too_long else "no answer in HTTP/1.1, or only a part of it"
        raise ConnectionError(f"{version} works, but the bank sent {reason}")
    certificate = EidasCertificate.from_der(presented or b"")
    return _Met(version or "TLS", certificate, int(status[1]), date and date[1], sent_at, received_at)


def _failure(error: OSError, client: Client) -> str:
    """Return why a connection failed, and what to do."""
    if isinstance(error, TimeoutError):
        return f"no answer within {LIMIT_S:g} seconds: check address and firewall, or ask the bank"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is rejected: {error.verify_message}: ask the bank; if its authority is private, give that by --trust"
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "the connection ended").replace("_", " ").lower()
        if "alert" in reason or "ended" in reason:
            sent = "the QWAC" if client.key else "a connection without a client certificate"
            todo = "ask the bank whether it trusts its authorities" if client.key else "give the QWAC and its key"
            return f"it refuses {sent}: {reason}: {todo}"
        return f"TLS fails: {reason}: check that the address is of an HTTPS server"
    if error.strerror is None:  # of `_meet`
        return f"{error}: check that the address is of the bank's interface"
    return f"no connection: {error.strerror}: check address and firewall"


def _compared(met: _Met) -> tuple[Status, str]:
    """Compare this clock with the Date of the answer, which has whole seconds, and was made between request and answer."""
    if met.date is None:
        message = "the bank's answer has no Date, so this clock is not compared: check that it is synchronised"
        return UNKNOWN, message
    try:
        date = parse_http_date(met.date.decode("latin-1"))
    except FormatError as e:
        return UNKNOWN, f"the Date of the bank's answer cannot be read: {e.message}: report it to the bank"
    ahead, behind = met.sent_at - date - timedelta(seconds=1), date - met.received_at
    off = max(ahead, behind)
    if off <= _LATE:
        return OK, "this clock and the Date of the bank's answer agree within 30 seconds"
    where = f"{off.total_seconds():.0f} seconds {'ahead of' if off == ahead else 'behind'}"
    todo = "check that this clock is synchronised; if it is, report the Date to the bank"
    message = f"this clock is {where} the Date of the bank's answer: {todo}"
    return CRITICAL if off > _MUCH_TOO_LATE else WARNING, message


def _client_row(asked: _Asked | None, client: Client, answered: int | None) -> Iterator[Row]:
    """Yield what the bank asks the client for; nothing if neither that nor the status of its answer is known."""
    status, names = OK, asked.names if asked else ()
    if asked is None:
        if answered is None:
            return
        message = "what the bank asks for is not known, because it supports no TLS 1.2"
    elif asked.is_asked:
        message = f"the bank asks for a client certificate of {_listed(names) or 'any authority'}"
    else:
        message = "the bank asks for no client certificate"
    if not client.key:
        if asked is None:
            message += "; the handshake without a client certificate succeeds"
        elif asked.is_asked:
            message += "; none was sent: give the QWAC and its key to test it"
    elif asked is not None and not asked.is_asked:
        status = WARNING
        message += ": check that the address is of the interface that requires the QWAC"
    elif names and {one.issuer_der for one in client.chain}.isdisjoint(names):
        status = WARNING
        todo = "give the whole chain, or ask the bank to trust the authority"
        message += f"; none of these issued the QWAC or an authority that is sent with it: {todo}"
    elif answered is None:
        status = UNKNOWN
        message += "; whether it accepts the QWAC is not known: correct the connection first"
    else:  # proxies complete the handshake with any certificate, and refuse by the status
        message += "; the handshake with the QWAC succeeds"
        if answered in _REFUSED:
            status = WARNING
            todo = "ask the bank, if the request is not the reason"
            message += (
                f", but the status {answered} is also what nginx answers to a certificate that it refuses: {todo}"
            )
        elif answered in (401, 403):
            message += f"; the status {answered} may be about it, or about a request without a seal"
    yield Row("bank.client-certificate", status, message)


def _listed(names: Sequence[bytes]) -> str:
    texts = []
    for name in names[:_SHOWN]:
        with suppress(FormatError):
            texts.append(shortened(str(read_name(name, der.read_whole(name, tag=der.SEQUENCE))), _LONGEST))
    more = [f"{len(names) - len(texts)} more"] if len(names) > len(texts) else []
    return "; ".join([*texts, *more])


class _Asked(NamedTuple):
    """Whether the bank sent a CertificateRequest, and the authorities that it names, DER."""

    is_asked: bool = False
    names: tuple[bytes, ...] = ()


def _probe(origin: str, end: float) -> _Asked | None:
    """Begin a handshake of TLS 1.2, in which a CertificateRequest is not encrypted; None if the bank supports none.

    Neither a certificate nor a request is sent, so the server's certificate is not verified.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    host, to_send, flight = _host(origin), ssl.MemoryBIO(), b""
    with suppress(OSError, ValueError, IndexError), socket.create_connection(host, timeout=_left(end)) as plain:
        with suppress(ssl.SSLWantReadError):
            context.wrap_bio(ssl.MemoryBIO(), to_send, server_hostname=host[0]).do_handshake()
        plain.sendall(to_send.read())
        while len(flight) < _MAX_FLIGHT:
            plain.settimeout(_left(end))
            if not (more := plain.recv(16_384)):
                break
            flight += more
            if (asked := _read_flight(flight)) is not None:
                return asked
    return None


def _read_flight(flight: bytes) -> _Asked | None:
    """Read the first messages of a server; None if they are not complete yet.

    Raises:
        ValueError, IndexError: it is not a handshake of TLS 1.2.

    Source: RFC 5246 sections 6.2.1, 7.4 and 7.4.4.
    """
    records = list(_split(flight, 5, 2))
    if flight[0] != _HANDSHAKE or any(kind != _HANDSHAKE for kind, _ in records):
        raise ValueError("no handshake")
    asked = _Asked()
    for kind, body in _split(b"".join(body for _, body in records), 4, 3):
        if kind == _DONE:
            return asked
        if kind == _REQUEST:  # types, signature algorithms and names, each after its length
            rest = body[1 + body[0] :]
            names = rest[2 + int.from_bytes(rest[:2]) + 2 :]
            asked = _Asked(True, tuple(name for _, name in _split(names, 2, 2)))
    return None


def _split(data: bytes, head: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the first byte and the body of each whole part; the last `size` of its `head` bytes are the length of the body."""
    at = 0
    while (begin := at + head) <= len(data):
        end = begin + int.from_bytes(data[begin - size : begin])
        if end <= len(data):
            yield data[at], data[begin:end]
        at = end
