"""A sandbox process with few files, little memory and a locked database: the other ports keep answering."""

from __future__ import annotations

import os
import resource
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from select import select
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest
from bank_process import BankProcess
from raw_provider import RawProvider, approval_link, assert_refused, tls_context

from tppkit.testpki import Pki

pytestmark = pytest.mark.slow

FILES = 256


class Running(NamedTuple):
    """A sandbox, and its process, which may open few files."""

    bank: BankProcess
    process: subprocess.Popen[bytes]

    def connect(self, host: str) -> socket.socket:
        port = urlsplit(getattr(self.bank.addresses, f"{host}_url")).port
        return socket.create_connection(("127.0.0.1", port or 0), timeout=20)

    @property
    def resident_mib(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    @property
    def log_bytes(self) -> int:
        return (self.bank.folder / "log").stat().st_size

    def clock(self) -> int:
        return httpx.get(f"{self.bank.control_url}/clock", trust_env=False, timeout=20).status_code

    @contextmanager
    def provider(self) -> Iterator[RawProvider]:
        tpp = self.bank.provider()
        with tpp.http:
            yield tpp

    @contextmanager
    def locked_database(self) -> Iterator[None]:
        with closing(sqlite3.connect(self.bank.folder / "sandbox.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")


@contextmanager
def running_with(files: int, folder: Path, pki: Path, trusted: Pki) -> Iterator[Running]:
    """A sandbox that may open this many files."""
    bank = BankProcess(folder, pki, trusted)
    with bank.running(files=files) as (process, tpp), tpp.http:
        yield Running(bank, process)


@pytest.fixture(scope="module")
def running(bank_pki: Pki, bank_pki_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_with(FILES, tmp_path_factory.mktemp("exhausted"), bank_pki_folder, bank_pki) as process:
        yield process


@pytest.mark.parametrize("host", ["psd2", "approval", "control"])
def test_idle_connections_to_one_port_block_no_new_ones(host, running):
    written = running.log_bytes
    with ExitStack() as opened:
        for _ in range(FILES + 44):
            opened.enter_context(running.connect(host))
        began = time.monotonic()
        with running.provider() as tpp:
            payment = tpp.new_payment()
        assert httpx.get(approval_link(payment), trust_env=False, timeout=20).status_code == 200
        assert running.clock() == 200
        assert time.monotonic() - began < 25  # an idle connection is closed after 30 s
    assert running.log_bytes - written < 200 * FILES  # a line each


def test_connections_that_cannot_be_accepted_are_logged_in_a_line(bank_pki, bank_pki_folder, tmp_path):
    with running_with(32, tmp_path, bank_pki_folder, bank_pki) as running, ExitStack() as opened:
        for host in ("psd2", "approval", "control"):
            for _ in range(20):
                opened.enter_context(running.connect(host))
        while not running.log_bytes:
            time.sleep(0.05)
        time.sleep(2.5)  # asyncio tries again each second
        log = (tmp_path / "log").read_text()
        opened.close()
        assert log.count("connections cannot be accepted: Too many open files") == 1
        assert "Traceback" not in log
        assert running.clock() == 200


@contextmanager
def many_files() -> Iterator[None]:
    """Let this process open as many files as the system allows."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.slow
def test_payments_go_on_beside_idle_connections_to_six_ports(bank_pki, bank_pki_folder, tmp_path):
    with many_files(), running_with(1024, tmp_path, bank_pki_folder, bank_pki) as running, ExitStack() as opened:
        began = time.monotonic()
        with running.provider() as kept:
            payments = [kept.new_payment()]
            for host in ("approval", "gateway", "control", "vault", "legacy", "legacy_live"):
                for _ in range(240):
                    opened.enter_context(running.connect(host))
                payments.append(kept.new_payment())
                with running.provider() as tpp:
                    payments.append(tpp.new_payment())
                    running.bank.control(f"/payments/{payments[-1]['paymentId']}/approve")
                    assert tpp.status(payments[-1]) == "ACSP"
        assert time.monotonic() - began < 120
        log = (tmp_path / "log").read_text()
        assert not [word for word in ("cannot be accepted", "Traceback", "Too many open files") if word in log]
        assert log.count("ended: closed in favour") <= 20 * (time.monotonic() - began) / 30 + 20
        opened.close()
        checked = httpx.get(f"{running.bank.control_url}/ledger/check", trust_env=False, timeout=60).json()
        assert checked == {"ok": True, "differences": []}


def test_a_connection_in_use_outlives_idle_ones(running):
    target = b"GET /clock HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as opened:
        used = opened.enter_context(running.connect("control"))
        for _ in range(FILES):
            opened.enter_context(running.connect("control"))
            used.sendall(target)
            answer = b""
            while b"}" not in answer:
                answer += used.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("host", ["psd2", "approval"])
def test_pipelined_requests_that_are_never_read_take_no_memory(host, running, bank_pki):
    request = b"GET /approve/none HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200
    before = running.resident_mib
    with running.connect(host) as plain:
        connection = plain
        if host == "psd2":
            connection = tls_context(bank_pki.qwac, bank_pki).wrap_socket(plain, server_hostname="localhost")
        connection.settimeout(1)
        until = time.monotonic() + 3
        with suppress(OSError):
            while time.monotonic() < until:
                connection.sendall(request)
        assert running.resident_mib - before < 30
        connection.close()


def test_connections_with_many_requests_block_no_new_ones(running):
    request = b"GET /approve/none HTTP/1.1\r\nHost: localhost\r\n\r\n" * 30
    with ExitStack() as opened:
        connections = [opened.enter_context(running.connect("approval")) for _ in range(45)]
        for connection in connections:
            connection.sendall(request)
        for _ in range(5):
            opened.enter_context(running.connect("approval")).sendall(request)
        link = f"{running.bank.addresses.approval_url}/approve/none"
        assert httpx.get(link, trust_env=False, timeout=20).status_code in (404, 503)


def test_a_locked_database_stops_only_what_needs_it(running):
    with running.provider() as tpp, running.provider() as other:
        payment = tpp.new_payment()
        message = tpp.sealed(tpp.message())
        with running.locked_database():
            refused = tpp.send(message)
            assert_refused(refused, 503, "SERVICE_UNAVAILABLE")
            assert refused.headers["retry-after"].isdigit()
            assert "database.unavailable" in refused.text
            details = other.request("GET", payment["_links"]["self"]["href"])
            assert details.status_code == 200  # a snapshot needs no lock
            page = httpx.get(approval_link(payment), trust_env=False, timeout=20)
            form = {"kind": "payment", "host": "test", "id": "none", "customer": "customer-1", "action": "decline"}
            app = f"{running.bank.addresses.approval_url}/app"
            shown = httpx.post(app, data=form, trust_env=False, timeout=20)
            for one in (page, shown):
                assert (one.status_code, one.headers["retry-after"].isdigit()) == (503, True)
        assert tpp.send(message).status_code == 201
        assert httpx.get(approval_link(payment), trust_env=False).status_code == 200


def test_while_a_request_waits_for_the_database_others_are_answered(running):
    with running.locked_database(), running.connect("approval") as waiting:
        waiting.sendall(b"GET /approve/none HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with running.provider() as tpp:
            assert tpp.request("GET", "/").status_code == 404
        assert running.clock() == 200
        assert not select([waiting], [], [], 0)[0]
        assert waiting.recv(100).startswith(b"HTTP/1.1 503")
