"""A TLS server that answers as a test says, and a forwarder that counts connections: real sockets on loopback."""

from __future__ import annotations

import gzip
import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tppkit.seals import Message

_TUNNEL = re.compile(rb"CONNECT ([^ :]+):(\d+) HTTP/1.1\r\n")
_ID = re.compile(rb"(?i)\r\nx-request-id: ([^\r]*)")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: (\d+)")
_PATIENCE_S = 10.0

Answer = Callable[[bytes], bytes]


def http(status: int, body: bytes = b"", **headers: str) -> Answer:
    """Answers every request alike and echoes its id; `x_request_id=""` leaves it out, other text replaces it."""

    def answer(request: bytes) -> bytes:
        found = _ID.search(request)
        fields = {"x_request_id": found[1].decode() if found else "", "content_length": str(len(body)), **headers}
        lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items() if value]
        return f"HTTP/1.1 {status} X\r\n{''.join(lines)}\r\n".encode("latin-1") + body

    return answer


def as_json(status: int, value: object, **headers: str) -> Answer:
    return http(status, json.dumps(value).encode(), content_type="application/json", **headers)


def zipped(size: int) -> Answer:
    """A small answer that unpacks to `size` zeros."""
    return http(200, gzip.compress(bytes(size)), content_encoding="gzip")


class RogueBank:
    """What a rogue bank saw.

    Attributes:
        url: its address.
        requests: the requests as they came.
        connections: how many were accepted.
        shown: the certificate of each connection.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[bytes] = []
        self.connections = 0
        self.shown: list[bytes | None] = []

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def message(self, number: int = 0) -> Message:
        """A request as a message, the headers that HTTP itself needs included."""
        head, _, body = self.requests[number].partition(b"\r\n\r\n")
        start, *lines = head.split(b"\r\n")
        method, target, _ = start.decode().split(" ")
        return Message.from_wire(method, target.encode(), [tuple(line.split(b": ", 1)) for line in lines], body)  # type: ignore[misc]


def server_context(pki: Path, *, client_anchors: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "server-chain.pem", pki / "server.key")
    if client_anchors is not None:
        context.load_verify_locations(client_anchors)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def ask(context: ssl.SSLContext, port: int) -> bytes:
    """Send a request over a connection of its own; gives the first byte of the answer."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S)
    with context.wrap_socket(plain, server_hostname="localhost") as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        return connection.recv(1)


@contextmanager
def rogue_bank(
    context: ssl.SSLContext,
    answer: Answer,
    *,
    address: str = "127.0.0.1",
    name: str = "localhost",
    then_close: bool = False,
) -> Iterator[RogueBank]:
    """Serve `answer` to every connection until the body ends; `then_close` announces the end of each in its first answer."""
    with _listening(address) as listener:
        bank = RogueBank(f"https://{name}:{listener.getsockname()[1]}")

        def serve(plain: socket.socket) -> None:
            bank.connections += 1
            with suppress(OSError), context.wrap_socket(plain, server_side=True) as connection:
                bank.shown.append(connection.getpeercert(binary_form=True))
                while request := _read_request(connection):
                    bank.requests.append(request)
                    reply = answer(request)
                    if then_close:
                        # Unannounced, the end may reach the client only after it has sent the next request on this connection.
                        connection.sendall(reply.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
                        break
                    connection.sendall(reply)

        with _accepting(listener, serve):
            yield bank


@contextmanager
def trickling(context: ssl.SSLContext, *, every_s: float, first: bytes = b"") -> Iterator[int]:
    """Sends `first` and then a byte now and then, and reads nothing; gives its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    end = threading.Event()

    def serve() -> None:
        with suppress(OSError):
            plain, _ = listener.accept()
            plain.settimeout(60)
            with suppress(OSError), context.wrap_socket(plain, server_side=True) as connection:
                connection.sendall(first)
                while not end.wait(every_s):
                    connection.sendall(b".")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        end.set()
        listener.close()
        thread.join(20)


@contextmanager
def forwarder(port: int) -> Iterator[Mapping[str, int]]:
    """Passes every connection on to a port of this machine; gives `port`, where it listens, and `connections` so far."""
    with _listening("127.0.0.1") as listener:
        counted = {"port": listener.getsockname()[1], "connections": 0}

        def forward(near: socket.socket) -> None:
            counted["connections"] += 1
            with near, socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S) as far:
                _join(near, far)

        with _accepting(listener, forward):
            yield counted


@contextmanager
def egress_proxy() -> Iterator[tuple[str, list[bytes]]]:
    """An HTTP proxy that makes tunnels to this machine; gives its address, and the heads of the requests that it got."""
    with _listening("127.0.0.1") as listener:
        heads: list[bytes] = []

        def tunnel(near: socket.socket) -> None:
            with near:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += near.recv(1)
                heads.append(head)
                found = _TUNNEL.match(head)
                assert found is not None
                try:
                    far = socket.create_connection(("127.0.0.1", int(found[2])), timeout=_PATIENCE_S)
                except OSError:
                    near.sendall(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
                    return
                with far:
                    near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    _join(near, far)

        with _accepting(listener, tunnel):
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", heads


def _join(near: socket.socket, far: socket.socket) -> None:
    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    back = threading.Thread(target=pump, args=(far, near))
    back.start()
    pump(near, far)
    back.join()


@contextmanager
def _listening(address: str) -> Iterator[socket.socket]:
    with socket.create_server((address, 0)) as listener:
        yield listener


@contextmanager
def _accepting(listener: socket.socket, serve: Callable[[socket.socket], None]) -> Iterator[None]:
    serving: list[threading.Thread] = []

    def accept() -> None:
        with suppress(OSError):  # the listener is shut down at the end
            while True:
                connection, _ = listener.accept()
                connection.settimeout(_PATIENCE_S)
                serving.append(threading.Thread(target=serve, args=(connection,)))
                serving[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        for thread in (accepting, *serving):
            thread.join(2 * _PATIENCE_S)


def _read_request(connection: ssl.SSLSocket) -> bytes:
    request = b""
    while True:
        head, end, body = request.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if end and len(body) >= (int(length[1]) if length else 0):
            return request
        chunk = connection.recv(65_536)
        if not chunk:
            return b""
        request += chunk
