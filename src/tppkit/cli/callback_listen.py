"""`tppkit callback listen` and `replay`: a receiver for developers, and the requests that it keeps."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import responses
from pathlib import Path
from socketserver import StreamRequestHandler, TCPServer
from typing import Any, NamedTuple

import click

from tppkit._clock import Clock, utc_now
from tppkit._files import PRIVATE, write_new
from tppkit._text import printable
from tppkit.callbacks import (
    CallbackAddress,
    CallbackKind,
    CallbackReceiver,
    ReceivedCallback,
    VerifiedCallback,
    explain_callback,
)
from tppkit.cli.callback_options import key_file, read_address, read_public_keys, read_request
from tppkit.cli.callback_send import Place, Reply, ended_after, parse_place, readdress, reply_result, send_message
from tppkit.cli.output import (
    HOLDS,
    Raw,
    Result,
    colored,
    echo,
    finding_line,
    finding_object,
    json_flag,
    json_option,
    require_one_stdin,
    say,
    say_error,
)
from tppkit.errors import ConfigurationError, Finding, FormatError, TppkitError, TransportError
from tppkit.httpsig.wire import parse_request
from tppkit.protocol.wire import MAX_BODY_BYTES

MAX_KEPT = 1000
_SUFFIX = ".http"
_REQUEST_S = 30.0  # for a whole request: requests are handled one at a time
_DISCARDING_S = 1.0
_DISCARDED_BYTES = 2 * 1024 * 1024
_MAX_HEAD_BYTES = 64 * 1024
_LENGTH = re.compile(rb"\ncontent-length[ \t]*:[ \t]*([^\r\n]*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_ENCODING = re.compile(rb"\ntransfer-encoding[ \t]*:", re.IGNORECASE)
_FOLDED = re.compile(rb"\n[ \t]")
_folder_option = click.option(
    "--folder", type=click.Path(path_type=Path), default=Path("callbacks"), show_default=True,
    help=f"Folder of the requests that `callback listen` keeps, the newest {MAX_KEPT}.",
)  # fmt: skip


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8765,
    show_default=True,
    help="Port on 127.0.0.1; 0 chooses a free port.",
)
@click.option("--public-key", "keys", multiple=True, metavar="[NAME=]FILE", help="A key of the service.")
@click.option(
    "--base-url", metavar="URL",
    help="Your callback address as the service has it: grants arrive at URL/, payments at URL/ followed by a uuid.",
)  # fmt: skip
@click.option(
    "--address", "addresses", multiple=True, metavar="[KIND=]URL", help="A further address, as for `callback verify`."
)
@click.option(
    "--forward", metavar="URL",
    help="Forward verified callbacks to http:// on this machine; without a path, to the callback's own path.",
)  # fmt: skip
@click.option("--forward-all", is_flag=True, help="Forward refused callbacks too.")
@_folder_option
@json_flag
def listen(
    port: int, keys: tuple[str, ...], base_url: str | None, addresses: tuple[str, ...], forward: str | None, forward_all: bool,
    folder: Path, as_json: bool,
) -> int:  # fmt: skip
    """Receive callbacks on this machine: print each one and the cause of a refusal, keep it and forward it.

    The answer is 200 to callbacks that hold, 400 or 404 to others, or the answer of the --forward address.
    """
    if forward_all and forward is None:
        raise click.UsageError("--forward-all needs --forward")
    require_one_stdin(*map(key_file, keys))
    own = [*(base_addresses(base_url) if base_url else ()), *map(read_address, addresses)]
    if bool(keys) != bool(own):
        raise click.UsageError("give --public-key and --base-url (or --address), or neither: then nothing is verified")

    def show(result: Handled) -> None:
        for line in [Raw(json.dumps(result.as_object()))] if as_json else result.as_lines():
            echo(line)

    for number in (signal.SIGINT, signal.SIGTERM):  # a background job of a shell ignores SIGINT otherwise
        signal.signal(number, _interrupt)
    receiver = CallbackReceiver(own, keys=read_public_keys(keys)) if keys else None
    kept, target = CallbackFolder(folder), parse_place(forward) if forward else None
    try:
        server = CallbackServer(
            receiver=receiver, folder=kept, forward=target, forward_all=forward_all, now=utc_now, port=port, show=show
        )
    except OSError as e:
        raise ConfigurationError(
            "listen.port", f"port {port} cannot be used: {e.strerror}; give another with --port"
        ) from e
    with server:
        try:
            say(f"listening on http://127.0.0.1:{server.server_address[1]}; stop it with Ctrl-C")
            server.serve_forever()
        except KeyboardInterrupt:
            say("stopped")
    return HOLDS


@click.command()
@click.argument("kept", metavar="ID|FILE")
@click.option("--to", "url", required=True, metavar="URL", help="Where to; without a path, to the callback's own path.")
@click.option("--remote", is_flag=True, help="Allow other machines, and https.")
@_folder_option
@json_option
def replay(kept: str, url: str, remote: bool, folder: Path) -> Result:
    """Send a kept callback again, byte for byte, and print the answer. Name it by its number, or by a file with a raw request."""
    place = parse_place(url, remote=remote)
    callback = read_request(str(_path(folder, int(kept)) if kept.isascii() and kept.isdecimal() else kept))
    return reply_result(send_message(readdress(callback, place=place).to_wire(), place=place))


def base_addresses(url: str) -> list[CallbackAddress]:
    """The addresses under a base address: grants arrive at the base, payments at the base followed by a uuid.

    Raises:
        ConfigurationError: `callback.address-unusable`.

    Source: PSD2 document, part B section 6.
    """
    base = url.removesuffix("/")
    return [CallbackAddress(base + "/", CallbackKind.ACCESS), CallbackAddress(base + "/{token}", CallbackKind.PAYMENT)]


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number}{_SUFFIX}"


class CallbackFolder:
    """The newest callbacks in a folder, each a raw HTTP/1.1 request in a numbered file.

    The files may contain personal data, so only their owner can read them.

    Args:
        folder: Created if absent.
        most: How many are kept.

    Raises:
        ConfigurationError: `file.unwritable`.

    Example:
        number = CallbackFolder(Path("callbacks")).add(received)
    """

    def __init__(self, folder: Path, *, most: int = MAX_KEPT) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as e:
            raise ConfigurationError("file.unwritable", f"{folder} cannot be made: {e.strerror}") from e
        self._folder, self._most = folder, most
        names = (path.stem for path in folder.glob(f"*{_SUFFIX}"))
        self._numbers = sorted(int(name) for name in names if name.isascii() and name.isdecimal())

    def add(self, received: ReceivedCallback) -> str:
        """Keep a request and return its number, for `callback replay`; delete the oldest beyond the limit.

        Raises:
            ConfigurationError: `file.unwritable`.
        """
        number = self._numbers[-1] + 1 if self._numbers else 1
        while True:
            try:
                write_new(_path(self._folder, number), received.to_wire(), mode=PRIVATE)
                break
            except ConfigurationError as e:
                if e.code != "file.exists":
                    raise
                number += 1  # another listener uses the same folder
        self._numbers.append(number)
        while len(self._numbers) > self._most:
            _path(self._folder, self._numbers.pop(0)).unlink(missing_ok=True)
        return str(number)


class Handled(NamedTuple):
    """The result of one request.

    Attributes:
        number: Its number in the folder.
        received: The request.
        verified: What was proven, or None.
        findings: The refusal and its likely cause; empty if the callback holds, or if nothing was verified.
        forwarded: The answer of the --forward address, None if it was not called.
        failure: Why the --forward address did not answer, or None.
    """

    number: str
    received: ReceivedCallback
    verified: VerifiedCallback | None
    findings: tuple[Finding, ...]
    forwarded: Reply | None
    failure: TransportError | None

    @property
    def answer(self) -> Reply:
        """The answer to the sender."""
        if self.forwarded is not None:
            return self.forwarded
        refusal = 404 if self.findings and self.findings[0].code == "callback.address" else 400
        return Reply(502 if self.failure else refusal if self.findings else 200, "", b"")

    @property
    def event(self) -> str | None:
        """The type of the event in a verified callback."""
        return type(self.verified.event).__name__ if self.verified and self.verified.event else None

    def as_object(self) -> dict[str, Any]:
        """The result as a JSON object."""
        return {
            "id": self.number,
            "method": self.received.method,
            "target": self.received.target,
            "verdict": "holds" if self.verified else "fails" if self.findings else None,
            "code": self.findings[0].code if self.findings else None,
            "findings": [finding_object(finding) for finding in self.findings],
            "key_name": self.verified.key_name if self.verified else None,
            "event": self.event,
            "forwarded": self.forwarded.status if self.forwarded else None,
            "answered": self.answer.status,
        }

    def as_lines(self) -> Iterator[str]:
        """The result on one line, then a line for each finding."""
        if self.verified is not None:
            state = f"{colored('verified', holds=True)} by {self.verified.key_name}: {self.event or 'no event'}"
        else:
            state = colored("refused", holds=False) if self.findings else "not verified: no --public-key"
        target = printable(self.received.target[:200])
        yield Raw(f"{self.number}  {self.received.method} {target}  {self.answer.status}  {state}")
        yield from (f"  {finding_line(finding)}" for finding in self.findings)
        if self.failure is not None:
            yield f"  {self.failure.message} [{self.failure.code}]"


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


class CallbackServer(TCPServer):
    """Receives requests on 127.0.0.1, one after another: verifies, keeps, forwards and answers each.

    Args:
        receiver: addresses and keys; None to verify nothing.
        folder: keeps the requests.
        forward: gets verified callbacks, or None.
        forward_all: forward refused callbacks too.
        now: the clock.
        port: TCP port; 0 for a free one.
        show: called with each result before it is answered.

    Raises:
        OSError: the port cannot be used.

    Example:
        folder = CallbackFolder(Path("callbacks"))
        with CallbackServer(receiver=None, folder=folder, forward=None, now=utc_now, port=8765, show=print) as server:
            server.serve_forever()
    """

    allow_reuse_address = True

    def __init__(
        self, *, receiver: CallbackReceiver | None, folder: CallbackFolder, forward: Place | None, forward_all: bool = False,
        now: Clock, port: int, show: Callable[[Handled], None],
    ) -> None:  # fmt: skip
        self._receiver, self._folder, self._now, self.show = receiver, folder, now, show
        self._forward, self._forward_all = forward, forward_all
        super().__init__(("127.0.0.1", port), _Handler)

    def receive(self, received: ReceivedCallback) -> Handled:
        """Verify, keep and forward a request.

        Raises:
            ConfigurationError: `file.unwritable`, the request cannot be kept.
        """
        number = self._folder.add(received)
        verified, forwarded, failure = None, None, None
        findings: tuple[Finding, ...] = ()
        if self._receiver is not None:
            found = explain_callback(received, at=self._now(), receiver=self._receiver)
            verified, findings = found.verified, found.findings
        if self._forward is not None and (verified is not None or self._forward_all):
            try:
                forwarded = send_message(readdress(received, place=self._forward).to_wire(), place=self._forward)
            except TransportError as e:
                failure = e
        return Handled(number, received, verified, findings, forwarded, failure)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report a request whose sender left or was too slow."""
        say("a request was not answered: its sender closed the connection or was too slow")


class _Handler(StreamRequestHandler):
    server: CallbackServer

    def handle(self) -> None:
        with ended_after(self.connection, _REQUEST_S):
            received = self._read()
            if isinstance(received, int):
                self._answer(Reply(received, "", b""))
                self._discard()
                return
            try:
                handled = self.server.receive(received)
            except TppkitError as e:
                say_error(e)
                self._answer(Reply(500, "", b""))
                return
            self.server.show(handled)
            self._answer(handled.answer)

    def _read(self) -> ReceivedCallback | int:
        """Read the request, or return the status of its refusal."""
        head = b""
        while not head.endswith((b"\r\n\r\n", b"\n\n")):
            line = self.rfile.readline(_MAX_HEAD_BYTES)
            head += line
            if not line or len(head) > _MAX_HEAD_BYTES:
                return self._refuse(400, head)
        length = (*_LENGTH.findall(head), b"0")[0]
        if _ENCODING.search(head):
            return self._refuse(411, head)
        if not length.isdigit() or _FOLDED.search(head):
            return self._refuse(400, head)
        if len(length) > 9 or int(length) > MAX_BODY_BYTES:
            return self._refuse(413, head)
        try:
            return ReceivedCallback(*parse_request(head + self.rfile.read(int(length)), obs_text=True))
        except FormatError:
            return self._refuse(400, head)

    def _refuse(self, status: int, head: bytes) -> int:
        first_line = head[:80].partition(b"\n")[0].decode("latin-1").rstrip()
        say(f"{first_line}: {status}, not a readable request")
        return status

    def _discard(self) -> None:
        """Read what the sender still sends: a connection closed with unread bytes is reset, which would lose the answer."""
        size = _DISCARDED_BYTES
        with suppress(OSError), ended_after(self.connection, _DISCARDING_S):
            self.connection.shutdown(socket.SHUT_WR)
            while size > 0 and (chunk := self.connection.recv(min(size, 65536))):
                size -= len(chunk)

    def _answer(self, reply: Reply) -> None:
        phrase = responses.get(reply.status, "")
        kind = f"Content-Type: {reply.content_type}\r\n" if reply.content_type else ""
        head = (
            f"HTTP/1.1 {reply.status} {phrase}\r\n{kind}Content-Length: {len(reply.body)}\r\nConnection: close\r\n\r\n"
        )
        self.wfile.write(head.encode("latin-1") + reply.body)
