"""Many servers side by side, each in a process of its own, and requests to them over bare sockets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import NamedTuple

import pytest
from serving import free_port, listens

_START_S = 60.0
_HERE = Path(__file__).parent


class Server(NamedTuple):
    """How a server is started, and what it does to paths.

    Attributes:
        command: with `{port}`.
        on_wire: what the wire has in front of a path below the prefix.
        environment: further variables.
        folder: where it is started, if that matters.
        path: where its application is.
    """

    command: Sequence[str]
    on_wire: str = ""
    environment: Mapping[str, str] = {}
    folder: Path | None = None
    path: Path = _HERE


@contextmanager
def running(servers: Mapping[str, Server], *, environment: Mapping[str, str], log: Path) -> Iterator[dict[str, int]]:
    """Start servers side by side; gives the port of each once it listens."""
    with ExitStack() as stack:
        ports = {name: free_port() for name in servers}
        processes = {
            name: stack.enter_context(process(server, ports[name], environment, log))
            for name, server in servers.items()
        }
        deadline = time.monotonic() + _START_S
        for name, started in processes.items():
            while not listens(ports[name]):
                if started.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"{name} did not start: {log.read_text()[-2000:]}")
                time.sleep(0.05)
        yield ports


@contextmanager
def process(server: Server, port: int, environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program of Python; ends it with SIGTERM."""
    command = [sys.executable, *(part.format(port=port) for part in server.command)]
    path = os.pathsep.join([str(server.path), *filter(None, [os.environ.get("PYTHONPATH")])])
    given = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "default", **environment, **server.environment}
    with log.open("ab") as output:
        started = subprocess.Popen(command, env=given, cwd=server.folder, stdout=output, stderr=output)
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(10)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


class Response(NamedTuple):
    """What a server answered."""

    status: int
    body: bytes


def request(
    port: int, method: str, target: str, headers: Iterable[tuple[str, str]] = (), body: bytes = b"", *, chunked: bool = False
) -> Response:  # fmt: skip
    """One request, its target on the wire exactly as given."""
    length = ("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(len(body)))
    fixed = (("Host", f"127.0.0.1:{port}"), ("Connection", "close"), length)
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in (*fixed, *headers))]
    if chunked:
        half = len(body) // 2
        body = (
            b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:half], body[half:]) if part) + b"0\r\n\r\n"
        )
    return send(port, "\r\n".join([*lines, "", ""]).encode("latin-1") + body)


def send(port: int, message: bytes) -> Response:
    """One whole message; the answer's body without the marks of its transfer."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(message)
        with closing(HTTPResponse(connection)) as response:
            response.begin()
            return Response(response.status, response.read())
