"""Many servers side by side, each in a process of its own, and requests to them over bare sockets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from serving import free_port, listens, process, wait_until

SERVICE = ec.derive_private_key(4711, ec.SECP256R1())
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


def server(name: str, app: str, *options: str, **more: Any) -> Server:
    """A server of an application: `module:name`, with `()` behind it if it is made by a function."""
    given, is_made = app.removesuffix("()"), app.endswith("()")
    factory = ("--factory",) if is_made else ()
    module, _, attribute = given.partition(":")
    name, _, kind = name.partition(" ")
    simple = f"from {module} import {attribute}; app = {attribute}{'()' if is_made else ''}; "
    module_name, *arguments = {
        "uvicorn": ("uvicorn", *factory, "--port", "{port}", "--no-proxy-headers", "--http", kind or "httptools", given),
        "hypercorn": ("hypercorn", "-b", "127.0.0.1:{port}", app),
        "granian": ("granian", *factory, "--interface", kind or "asgi", "--port", "{port}", "--no-log", given),
        "gunicorn": ("gunicorn", "--no-control-socket", "-k", kind or "sync", "-b", "127.0.0.1:{port}", app),
        "waitress": ("waitress", "--listen=127.0.0.1:{port}", *(("--call",) if is_made else ()), given),
        "werkzeug": ("", simple + "from werkzeug.serving import run_simple; run_simple('127.0.0.1', {port}, app)"),
        "wsgiref": (
            "", simple + "from wsgiref.simple_server import make_server; make_server('127.0.0.1', {port}, app).serve_forever()",
        ),
    }[name]  # fmt: skip
    if not module_name:
        return Server(("-c", *arguments), **more)
    return Server(("-m", module_name, *options, *arguments), **more)


def write_service_key(folder: Path) -> Path:
    """The public key of the service whose callbacks these tests sign."""
    path = folder / "service.pub"
    path.write_bytes(SERVICE.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return path


@contextmanager
def running(servers: Mapping[str, Server], *, environment: Mapping[str, str], log: Path) -> Iterator[dict[str, int]]:
    """Start servers side by side; gives the port of each once it listens."""
    with ExitStack() as stack:
        ports = {name: free_port() for name in servers}
        processes = {
            name: stack.enter_context(run_server(server, ports[name], environment, log))
            for name, server in servers.items()
        }
        for name, started in processes.items():
            port = ports[name]
            wait_until(lambda: listens(port) or started.poll() is not None, name)  # noqa: B023  # called here
            assert started.poll() is None, f"{name} did not start: {log.read_text()[-2000:]}"
        yield ports


def run_server(
    server: Server, port: int, environment: Mapping[str, str], log: Path
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Start a program of Python."""
    command = [sys.executable, *(part.format(port=port) for part in server.command)]
    path = os.pathsep.join([str(server.path), *filter(None, [os.environ.get("PYTHONPATH")])])
    given = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "default", **environment, **server.environment}
    return process(command, log=log, env=given, cwd=server.folder)


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
