"""Real servers on loopback: uvicorn in a thread, and whole programs as processes."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest
import uvicorn

from tppkit.client import Identity
from tppkit.seals import Message
from tppkit.testpki import Issued, Pki

_START_S = 60.0


@contextmanager
def run_uvicorn(app: Any, **settings: Any) -> Iterator[int]:
    """The port of a running uvicorn."""
    options = {"proxy_headers": False, "lifespan": "off", "log_config": None, "ws": "none", **settings}
    server = uvicorn.Server(uvicorn.Config(app, **options))
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started, "uvicorn")
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()


@contextmanager
def process(command: Sequence[str], *, log: Path, **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose output is appended to a log; ends it with SIGTERM."""
    with log.open("ab") as output:
        started = subprocess.Popen(command, stdout=output, stderr=output, **settings)
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(10)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


@contextmanager
def run_program(
    command: Sequence[str], *, port: int, folder: Path, environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[None]:
    """A program that listens on a port of 127.0.0.1; runs in a folder, with settings added to the environment."""
    log = folder / "program.log"
    with process(command, log=log, cwd=folder, env={**os.environ, **environment}) as started:
        wait_until(lambda: listens(port) or started.poll() is not None, command[0])
        assert started.poll() is None, log.read_text("utf-8", "replace")
        yield


_NGINX = """
daemon off; pid {folder}/nginx.pid; error_log stderr warn;
{user}
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  {block}
}}
"""


@contextmanager
def run_nginx(block: str, *, port: int, folder: Path) -> Iterator[None]:
    """nginx with what stands within its `http`, for whoever may start it."""
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder, user=user, block=block))
    command = [program("nginx", "nginx-light"), "-c", str(folder / "nginx.conf"), "-p", str(folder)]
    with run_program(command, port=port, folder=folder):
        yield


def program(name: str, package: str) -> str:
    """A program of the machine, or a skip that names its Debian package."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip(f"needs {name}; install Debian's package {package}")
    return found


def free_port() -> int:
    """A port that stays reserved until this process ends, for a server that sets SO_REUSEADDR."""
    free = socket.socket()
    free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    free.bind(("127.0.0.1", 0))
    port: int = free.getsockname()[1]
    free.detach()  # bound and not listening: no connection gets this port, and none is accepted
    return port


def listens(port: int) -> bool:
    """Whether somebody listens."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(ready: Callable[[], bool], what: str) -> None:
    """Wait, and fail when it takes too long."""
    deadline = time.monotonic() + _START_S
    while not ready():
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not start within {_START_S:.0f} seconds")
        time.sleep(0.02)


def client_context(pki: Pki, qwac: Issued | None) -> ssl.SSLContext:
    """Trusts the PKI's server, and presents a certificate or none."""
    if qwac is not None:
        identity = Identity(qwac.certificate, qwac.key, chain=qwac.chain, server_anchors=[pki.root.certificate])
        return identity.tls_context
    context = ssl.create_default_context()
    context.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(pki.root.certificate.der))
    return context


def send(
    url: str, message: Message, *, verify: ssl.SSLContext | bool = True, local: str | None = None
) -> httpx.Response:
    """Send a message as it stands, from a local address if one is given."""
    headers = [(name.encode(), value.encode("latin-1")) for name, value in message.headers]
    transport = httpx.HTTPTransport(verify=verify, local_address=local, trust_env=False)
    with httpx.Client(transport=transport, timeout=20) as client:
        return client.request(message.method, url + message.target, headers=headers, content=message.body)
