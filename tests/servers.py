"""Real database servers for tests: each test process starts its own on loopback and stops it at its end.

PostgreSQL listens on a Unix socket in a private folder.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

_START_S = 60.0


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """A libpq address (`postgresql:///…?host=…`) of an empty PostgreSQL database; a test names its tables itself."""
    with postgresql(fsync=False) as url:
        yield url


@contextmanager
def postgresql(*, fsync: bool, inside: Sequence[str] = (), network: str = "") -> Iterator[str]:
    """The address of a new server, whose commits wait for the disk or do not.

    Args:
        fsync: whether they wait.
        inside: the command that runs it elsewhere, for example in a network namespace; only as root.
        network: listen for TCP too, and trust this network.
    """
    with _folder("pg") as folder:
        initdb, postgres = _program("initdb", "postgresql"), _program("postgres", "postgresql")
        owner = _unprivileged(folder)
        data = folder / "data"
        subprocess.run(
            [initdb, "-D", str(data), "-U", "tppkit", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
            check=True, capture_output=True, user=owner,
        )  # fmt: skip
        if network:
            with (data / "pg_hba.conf").open("a") as file:
                file.write(f"host all all {network} trust\n")
        if inside:
            inside, owner = [*inside, "setpriv", f"--reuid={owner}", "--clear-groups"], None
        settings = (
            "-c",
            f"listen_addresses={'*' if network else ''}",
            "-c",
            f"unix_socket_directories={folder}",
            "-c",
            f"fsync={fsync}",
        )
        with _running([*inside, postgres, "-D", str(data), *settings], ready=folder / ".s.PGSQL.5432", owner=owner):
            url = f"postgresql:///postgres?host={folder}&user=tppkit"
            _wait(lambda: _accepts(url), "PostgreSQL")
            yield url


@contextmanager
def relay_to(postgresql_url: str) -> Iterator[tuple[str, threading.Event]]:
    """A relay before the server that acknowledges everything, and passes nothing on while the event is set."""
    socket_path = f"{parse_qs(urlsplit(postgresql_url).query)['host'][0]}/.s.PGSQL.5432"
    silent = threading.Event()

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not silent.is_set():
                    target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    def accept(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, far = listening.accept()[0], socket.socket(socket.AF_UNIX)
                ends.extend((near, far))
                far.connect(socket_path)
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    ends: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, args=(listening,), daemon=True).start()
        try:
            yield f"postgresql://tppkit@127.0.0.1:{listening.getsockname()[1]}/postgres", silent
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for end in ends:
                with suppress(
                    OSError
                ):  # the server waits for its clients at its end, and closing alone does not wake a reader
                    end.shutdown(socket.SHUT_RDWR)
                end.close()


@contextmanager
def pages() -> Iterator[tuple[str, dict[str, bytes]]]:
    """The address of a web server, and its pages by their paths without the first slash, to be filled."""
    found: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = found.get(self.path.lstrip("/"))
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Length", str(len(page or b"")))
            self.end_headers()
            self.wfile.write(page or b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _program(name: str, package: str) -> str:
    """The program, also where Debian keeps PostgreSQL's out of the path; the newest version of several."""
    found = [shutil.which(name), *map(str, sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True))]
    program = next((path for path in found if path), None)
    if program is None:
        pytest.skip(f"needs {name}; install Debian's package {package}")
    return program


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    # Not pytest's folder: the path of a Unix socket has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix=f"tppkit-{name}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged(folder: Path) -> int | None:
    """The account to run as: PostgreSQL does not run as root."""
    if os.geteuid() != 0:
        return None
    owner = pwd.getpwnam("nobody").pw_uid
    os.chown(folder, owner, -1)
    return owner


@contextmanager
def _running(command: Sequence[str], *, owner: int | None, ready: Path | None = None) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=owner)
    try:
        if ready is not None:
            _wait(lambda: ready.exists() or process.poll() is not None, command[0])
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _accepts(url: str) -> bool:
    psycopg = pytest.importorskip("psycopg")
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def _wait(ready: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _START_S
    while not ready():
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not start within {_START_S:.0f} seconds")
        time.sleep(0.02)
