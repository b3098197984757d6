"""A receiver for developers: shows each callback, says why it is refused, keeps it and passes it on. Needs no network."""

from __future__ import annotations

import re
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from email.errors import (
    FirstHeaderLineIsContinuationDefect,
    InvalidHeaderDefect,
    MisplacedEnvelopeHeaderDefect,
    MissingHeaderBodySeparatorDefect,
)
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import TCPServer
from typing import Any

from tppkit._clock import Clock
from tppkit._text import printable
from tppkit.callbacks import (
    CallbackAddress,
    CallbackKind,
    CallbackReceiver,
    ReceivedCallback,
    VerifiedCallback,
    explain_callback,
)
from tppkit.cli.callback_heard import Heard
from tppkit.cli.callback_kept import KeptCallbacks
from tppkit.cli.callback_sending import Place, Reply, readdress, send_message
from tppkit.cli.output import say, say_error
from tppkit.errors import ConfigurationError, Finding, FormatError, TppkitError, TransportError
from tppkit.httpsig.wire import parse_request
from tppkit.protocol.wire import MAX_BODY_BYTES

_STEP_S = 10.0  # what one read or write may take
_REQUEST_S = 30.0  # what a whole request may take: one at a time is answered
_DISCARDING_S = 1.0  # what is read behind a refusal
_DISCARDED_BYTES = 2 * 1024 * 1024
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_LEFT_OUT = (
    FirstHeaderLineIsContinuationDefect,
    InvalidHeaderDefect,
    MisplacedEnvelopeHeaderDefect,
    MissingHeaderBodySeparatorDefect,
)
_UNKNOWN_ADDRESS = "callback.address"


class Listener:
    """Judges, keeps and passes on what comes.

    Args:
        receiver: addresses and keys; None: nothing is verified.
        kept: where callbacks are kept.
        forward: where verified callbacks go on to, or None.
        forward_all: refused ones go on as well.
        now: the clock.
    """

    def __init__(
        self, *, receiver: CallbackReceiver | None, kept: KeptCallbacks, forward: Place | None, forward_all: bool, now: Clock
    ) -> None:  # fmt: skip
        self._receiver, self._kept, self._now = receiver, kept, now
        self._forward, self._forward_all = forward, forward_all

    def hear(self, received: ReceivedCallback) -> Heard:
        """Take one request.

        Raises:
            ConfigurationError: `file.unwritable`, it could not be kept.
        """
        number = self._kept.add(received)
        verified, findings = self._judge(received)
        forwarded = failure = None
        if self._forward is not None and (verified is not None or self._forward_all):
            try:
                forwarded = send_message(readdress(received, place=self._forward).to_wire(), place=self._forward)
            except TransportError as e:
                failure = e
        answer = forwarded or Reply(_status(findings, failure), "", b"")
        return Heard(number, received, verified, findings, forwarded, failure, answer)

    def _judge(self, received: ReceivedCallback) -> tuple[VerifiedCallback | None, tuple[Finding, ...]]:
        if self._receiver is None:
            return None, ()
        found = explain_callback(received, at=self._now(), receiver=self._receiver)
        return found.verified, found.findings


def _status(findings: tuple[Finding, ...], failure: TransportError | None) -> int:
    if failure is not None:
        return 502
    if findings:
        return 404 if findings[0].code == _UNKNOWN_ADDRESS else 400
    return 200


def base_addresses(url: str) -> list[CallbackAddress]:
    """The addresses below a callback address as the service has it: grants come to it, payments to it with a uuid behind.

    Raises:
        ConfigurationError: `callback.address-unusable`.

    Source: PSD2 document, part B section 6.
    """
    base = url.removesuffix("/")
    return [CallbackAddress(base + "/", CallbackKind.ACCESS), CallbackAddress(base + "/{token}", CallbackKind.PAYMENT)]


def listen(listener: Listener, *, port: int, show: Callable[[Heard], None]) -> None:
    """Answer on 127.0.0.1, one request after another, until SIGINT or SIGTERM.

    Args:
        listener: what takes them.
        port: TCP port; 0 for a free one.
        show: gets what became of each.

    Raises:
        ConfigurationError: `listen.port`, the port is taken.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job would ignore SIGINT else
        signal.signal(number, _interrupt)
    try:
        server = _Server(listener, port, show)
    except OSError as e:
        raise ConfigurationError("listen.port", f"port {port} cannot be listened on: {e.strerror}") from e
    with server:
        try:
            say(f"listening on http://127.0.0.1:{server.server_port}; stop it with Ctrl-C")
            server.serve_forever()
        except KeyboardInterrupt:
            say("stopped")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


class _Server(HTTPServer):
    def __init__(self, listener: Listener, port: int, show: Callable[[Heard], None]) -> None:
        self.listener, self.show = listener, show
        super().__init__(("127.0.0.1", port), _Handler)

    def server_bind(self) -> None:
        # HTTPServer would look up the machine's name.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.socket.getsockname()[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        say("a request could not be answered: its sender left or was too slow")


class _Handler(BaseHTTPRequestHandler):
    timeout = _STEP_S
    server: _Server
    raw_requestline: bytes

    def setup(self) -> None:
        super().setup()
        self._deadline: threading.Timer | None = None
        self._set_deadline(_REQUEST_S)

    def finish(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().finish()

    def _set_deadline(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = threading.Timer(seconds, self._cut)
        self._deadline.daemon = True
        self._deadline.start()

    def _cut(self) -> None:
        with suppress(OSError):  # it has ended meanwhile
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        self._receive()

    def do_POST(self) -> None:
        self._receive()

    def parse_request(self) -> bool:
        # http.server takes some of the bytes beyond ASCII for spaces; where it asks for the path, it sees others there.
        self._first_line = self.raw_requestline.rstrip(b"\r\n")
        self.raw_requestline = _BEYOND_ASCII.sub(b"?", self.raw_requestline)
        return super().parse_request()

    def _receive(self) -> None:
        received = self._read()
        if isinstance(received, int):
            say(f"{printable(self.requestline[:80])}: {received}, not read")
            self._answer(Reply(received, "", b""))
            self._discard()
            return
        try:
            heard = self.server.listener.hear(received)
        except TppkitError as e:
            say_error(e)
            self._answer(Reply(500, "", b""))
            return
        self.server.show(heard)
        self._answer(heard.answer)

    def _read(self) -> ReceivedCallback | int:
        """The request, or the status that refuses it."""
        words = self._first_line.decode("latin-1").split(" ")
        length = self.headers.get("Content-Length", "0")
        headers = tuple((name, str(value)) for name, value in self.headers.items())
        if "Transfer-Encoding" in self.headers:
            return 411
        if len(words) != 3 or not (length.isascii() and length.isdecimal()):  # RFC 9112 section 3
            return 400
        if _is_incomplete(self.headers) or any("\n" in value or "\r" in value for _, value in headers):
            return 400
        if len(length) > 9 or int(length) > MAX_BODY_BYTES:
            return 413
        body = self.rfile.read(int(length))
        received = ReceivedCallback(self.command, words[1], headers, body)
        try:  # what is kept can be read again
            parse_request(received.to_wire(), obs_text=True)
        except FormatError:
            return 400
        return received

    def _discard(self) -> None:
        """Read on for a moment, behind the answer: to somebody who still sends it would be lost with the connection."""
        self._set_deadline(_DISCARDING_S)
        size = _DISCARDED_BYTES
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while size > 0 and (chunk := self.rfile.read1(min(size, 65536))):
                size -= len(chunk)

    def _answer(self, reply: Reply) -> None:
        self.send_response_only(reply.status)
        if reply.content_type:
            self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what came is shown in our own words."""


def _is_incomplete(headers: Message) -> bool:
    """Whether a line was left out that is no header field; the first without a name and colon takes all behind it along."""
    return headers.get_unixfrom() is not None or any(isinstance(defect, _LEFT_OUT) for defect in headers.defects)
