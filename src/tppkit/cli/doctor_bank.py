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
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from tppkit._clock import utc_now
from tppkit._text import shortened
from tppkit.certificates import EidasCertificate, der
from tppkit.certificates.names import read_name
from tppkit.cli.doctor_certificates import Own
from tppkit.cli.doctor_row import Present, Row, Status
from tppkit.client.base_url import split_base_url
from tppkit.client.identity_material import order_chain
from tppkit.client.tls_context import make_context
from tppkit.client.tls_deadline import deadline
from tppkit.errors import FormatError
from tppkit.httpsig.http_date import parse_http_date

LIMIT_S = 5.0
_MAX_HEAD, _MAX_FLIGHT = 64 * 1024, 256 * 1024
_HANDSHAKE, _REQUEST, _DONE = 22, 13, 14  # RFC 5246 sections 6.2.1 and 7.4
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")
_DATE = re.compile(rb"\r\ndate:[ \t]*([^\r\n]{0,100}?)[ \t]*\r\n", re.IGNORECASE)
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


def client_of(own: Own, at: datetime, trusted: Sequence[EidasCertificate]) -> Client:
    """Return what authenticates at a bank: the QWAC whose key is in the files, and the authorities below its root."""
    for qwac in sorted(own.of_kind("qwac"), key=lambda one: (one.is_valid_at(at), one.not_after), reverse=True):
        if (key := own.key_of(qwac)) is not None:
            return Client((qwac, *order_chain(qwac, own.authorities, at=at)), key, tuple(trusted))
    return Client(anchors=tuple(trusted))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a CertificateRequest states: whether the bank sent one, and the authorities that it names, DER."""

    is_asked: bool
    names: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class _Met:
    """What a connection showed."""

    version: str
    certificate: EidasCertificate
    status: int
    date: bytes | None
    sent_at: datetime
    received_at: datetime


class _Time:
    """The time that is left for all connections."""

    def __init__(self) -> None:
        self._end = time.monotonic() + LIMIT_S

    @property
    def left_s(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


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
    limit = _Time()
    try:
        met = _meet(origin, prefix, client, limit)
    except OSError as e:
        yield Row("bank.connection", Status.CRITICAL, f"{origin}: {_failure(e, client)}")
        yield from _client_row(_probe(origin, limit), client, None)
        return
    yield Row("bank.connection", Status.OK, f"{origin} answers over {met.version} with status {met.status}")
    yield present.row(
        "bank.certificate",
        f"the server certificate of {origin}",
        met.certificate.not_after,
        todo="ask the bank for its successor",
    )
    yield _clock(met)
    asked = _probe(origin, limit)
    yield from _client_row(asked, client, met)


def _meet(origin: str, prefix: str, client: Client, limit: _Time) -> _Met:
    """Connect, ask for the head of one answer, and read it.

    Raises:
        OSError: no connection, or no head of an HTTP answer; also `ssl.SSLError` and `TimeoutError`.
    """
    host, port = _address(origin)
    context = make_context(client.chain, client.key, server_anchors=None)
    if client.anchors:
        context.load_verify_locations(cadata="".join(ssl.DER_cert_to_PEM_cert(one.der) for one in client.anchors))
    with socket.create_connection((host, port), timeout=limit.left_s) as plain:
        plain.settimeout(limit.left_s)
        with context.wrap_socket(plain, server_hostname=host) as connection, deadline(limit.left_s):
            version, presented = connection.version() or "TLS", connection.getpeercert(binary_form=True) or b""
            name, sent_at = urlsplit(origin).netloc, utc_now()
            connection.sendall(f"HEAD {prefix}/ HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode("ascii"))
            # In TLS 1.3 the bank may refuse the certificate only now.
            head = b""
            while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD and (more := connection.recv(_MAX_HEAD)):
                head += more
            received_at = utc_now()
    status = _STATUS.match(head)
    if status is None or b"\r\n\r\n" not in head:
        reason = (
            "more than 64 KiB of headers" if len(head) >= _MAX_HEAD else "no answer in HTTP/1.1, or only a part of it"
        )
        raise ConnectionError(f"{version} works, but the bank sent {reason}")
    date = _DATE.search(head[: head.index(b"\r\n\r\n") + 4])
    certificate = EidasCertificate.from_der(presented)
    return _Met(version, certificate, int(status[1]), date and date[1], sent_at, received_at)


def _address(origin: str) -> tuple[str, int]:
    parts = urlsplit(origin)
    return parts.hostname or "", parts.port or 443


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
    return f"no connection: {error.strerror or error}: check address and firewall"


def _clock(met: _Met) -> Row:
    name = "clock"
    if met.date is None:
        return Row(
            name,
            Status.UNKNOWN,
            "the bank's answer has no Date, so this clock is not compared: check that it is synchronised",
        )
    try:
        date = parse_http_date(met.date.decode("latin-1"))
    except FormatError as e:
        return Row(
            name, Status.UNKNOWN, f"the Date of the bank's answer cannot be read: {e.message}: report it to the bank"
        )
    # The header has whole seconds, and was made between request and answer.
    ahead = max(met.sent_at - (date + timedelta(seconds=1)), timedelta(0))
    behind = max(date - met.received_at, timedelta(0))
    off = max(ahead, behind)
    if off <= _LATE:
        return Row(name, Status.OK, "this clock and the Date of the bank's answer agree within 30 seconds")
    message = f"this clock is {off.total_seconds():.0f} seconds {'ahead of' if ahead else 'behind'} the Date of the bank's answer"
    todo = "check that this clock is synchronised; if it is, report the Date to the bank"
    return Row(name, Status.CRITICAL if off > _MUCH_TOO_LATE else Status.WARNING, f"{message}: {todo}")


def _client_row(asked: _Asked | None, client: Client, met: _Met | None) -> Iterator[Row]:
    """Yield what the bank asks the client for."""
    name = "bank.client-certificate"
    if asked is None:
        message = "what the bank asks for is not known, because it supports no TLS 1.2"
        if met is not None and client.key:
            yield _accepted(message, met.status)
        elif met is not None:
            yield Row(name, Status.OK, f"{message}; the handshake without a client certificate succeeds")
        return
    if not asked.is_asked:
        status = Status.WARNING if client.key else Status.OK
        todo = ": check that the address is of the interface that requires the QWAC" if client.key else ""
        yield Row(name, status, f"the bank asks for no client certificate{todo}")
        return
    message = f"the bank asks for a client certificate of {_listed(asked.names) or 'any authority'}"
    issuers = {one.issuer_der for one in client.chain}
    if not client.key:
        yield Row(name, Status.OK, f"{message}; none was sent: give the QWAC and its key to test it")
    elif asked.names and issuers.isdisjoint(asked.names):
        todo = "give the whole chain, or ask the bank to trust the authority"
        text = f"{message}; none of these issued the QWAC or an authority that is sent with it: {todo}"
        yield Row(name, Status.WARNING, text)
    elif met is not None:
        yield _accepted(message, met.status)
    else:
        yield Row(
            name, Status.UNKNOWN, f"{message}; whether it accepts the QWAC is not known: correct the connection first"
        )


def _accepted(message: str, status: int) -> Row:
    """Return the row after a handshake with the QWAC. Proxies complete it with any certificate, and refuse by the status."""
    message += "; the handshake with the QWAC succeeds"
    if status in _REFUSED:
        todo = "ask the bank, if the request is not the reason"
        message += f", but the status {status} is also what nginx answers to a certificate that it refuses: {todo}"
        return Row("bank.client-certificate", Status.WARNING, message)
    if status in (401, 403):
        message += f"; the status {status} may be about it, or about a request without a seal"
    return Row("bank.client-certificate", Status.OK, message)


def _listed(names: Sequence[bytes]) -> str:
    texts = []
    for name in names[:_SHOWN]:
        with suppress(FormatError):
            texts.append(shortened(str(read_name(name, der.read_whole(name, tag=der.SEQUENCE))), _LONGEST))
    more = [f"{len(names) - len(texts)} more"] if len(names) > len(texts) else []
    return "; ".join([*texts, *more])


def _probe(origin: str, limit: _Time) -> _Asked | None:
    """Begin a handshake of TLS 1.2, in which a CertificateRequest is not encrypted; None if the bank supports none.

    Neither a certificate nor a request is sent, so the server's certificate is not verified.

    Source: RFC 5246 section 7.4.4.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    host, port = _address(origin)
    received, to_send, flight = ssl.MemoryBIO(), ssl.MemoryBIO(), b""
    try:
        with closing(socket.create_connection((host, port), timeout=limit.left_s)) as plain:
            session = context.wrap_bio(received, to_send, server_hostname=host)
            with suppress(ssl.SSLWantReadError):
                session.do_handshake()
            plain.sendall(to_send.read())
            while len(flight) < _MAX_FLIGHT:
                plain.settimeout(limit.left_s)
                if not (more := plain.recv(16_384)):
                    return None
                flight += more
                if (asked := _read_flight(flight)) is not None:
                    return asked
    except (OSError, ValueError, IndexError, FormatError):
        pass
    return None


def _read_flight(flight: bytes) -> _Asked | None:
    """Read the first messages of a server; None if they are not complete yet.

    Raises:
        ValueError: it is not a handshake of TLS 1.2.
    """
    messages, at = b"", 0
    while at + 5 <= len(flight):
        length = int.from_bytes(flight[at + 3 : at + 5])
        if flight[at] != _HANDSHAKE:
            raise ValueError("no handshake")
        messages += flight[at + 5 : at + 5 + length]
        at += 5 + length
    at = 0
    asked = _Asked(False)
    while at + 4 <= len(messages):
        kind, length = messages[at], int.from_bytes(messages[at + 1 : at + 4])
        body = messages[at + 4 : at + 4 + length]
        if len(body) == length and kind == _DONE:
            return asked
        if len(body) == length and kind == _REQUEST:
            asked = _Asked(True, tuple(_read_names(body)))
        at += 4 + length
    return None


def _read_names(body: bytes) -> Iterator[bytes]:
    """Yield the names of a CertificateRequest: types, signature algorithms, names, each after its length."""
    at = 1 + body[0]
    at += 2 + int.from_bytes(body[at : at + 2])
    at += 2
    while at + 2 <= len(body):
        length = int.from_bytes(body[at : at + 2])
        yield body[at + 2 : at + 2 + length]
        at += 2 + length
