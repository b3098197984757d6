"""A bank behind nginx under load, while an operator and the providers renew everything: each refusal must be justified.

The test lasts a minute; `make soak` sets SOAK_SECONDS.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import pytest
from asgi import sealed
from operator_files import OperatorFiles, halve
from serving import free_port, program, run_nginx, wait_until

from tppkit._clock import utc_now
from tppkit._files import replace_file
from tppkit.client import Identity
from tppkit.testpki import Issued, Pki, certificate_pem, make_provider, write_pki
from tppkit.testpki.pem import key_pem
from tppkit.trust import Reloader

SECONDS = float(os.environ.get("SOAK_SECONDS", "60"))
ORGANISATIONS, CONNECTIONS = 4, 2  # of each organisation
PAUSE_S, REQUESTS = 0.1, 20  # after a request, on a connection
DRAIN_S = 10.0  # in which nginx closes connections after a reload
GROWTH_KB = 30_000
TARGET = "/psd2/v1/payments/sepa-credit-transfers"
REVOKED, INVALID = "CERTIFICATE_REVOKED", "CERTIFICATE_INVALID"
LOST = (http.client.HTTPException, ConnectionError, ssl.SSLError)
NGINX = """
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {folder}/server.pem; ssl_certificate_key {folder}/server.key;
    ssl_verify_client optional_no_ca; ssl_verify_depth 4;
    location / {{
      proxy_pass http://127.0.0.1:{upstream};
      proxy_set_header X-SSL-Client-Cert $ssl_client_escaped_cert;
    }}
    location = /caller {{ return 200 $ssl_client_serial; }}
  }}
"""
T = TypeVar("T")


class Timeline(Generic[T]):
    """What was in force when.

    A state may decide from the moment at which somebody began to write it, until the next one is known to be in force.
    """

    def __init__(self, first: T) -> None:
        self._states = [(0.0, 0.0, first)]

    @property
    def present(self) -> T:
        return self._states[-1][2]

    @contextmanager
    def changing(self, value: T) -> Iterator[None]:
        """Writes a state, and waits until it is in force."""
        begun = time.monotonic()
        yield
        self.add(begun, time.monotonic(), value)

    def add(self, begun: float, settled: float, value: T) -> None:
        self._states.append((begun, settled, value))

    def possible(self, sent: float, received: float) -> list[T]:
        """The states that may have decided about a request."""
        ends = [*(settled for _, settled, _ in self._states[1:]), float("inf")]
        return [
            value
            for (begun, _, value), end in zip(self._states, ends, strict=True)
            if begun <= received and sent <= end
        ]


@dataclass(frozen=True)
class State:
    """What the bank should know: revoked serial numbers, and whether the lists grant and the anchors have the QWACs' authority."""

    revoked: frozenset[int] = frozenset()
    granted: bool = True
    anchored: bool = True

    def codes(self, *serials: int) -> Iterator[str]:
        """The codes with which it refuses a request of these certificates, or that of a request that it must admit."""
        if not self.revoked.isdisjoint(serials):
            yield REVOKED
        if not (self.granted and self.anchored):
            yield INVALID
        if self == replace(self, granted=True, anchored=True) and self.revoked.isdisjoint(serials):
            yield ""


class Answer(NamedTuple):
    """A request: when it was sent and answered, its certificates, and the answer."""

    sent: float
    received: float
    serials: tuple[int, int]
    status: int
    code: str


class Lost(NamedTuple):
    """A connection without an answer."""

    sent: float
    received: float
    why: str


class Organisation:
    """A provider: its files, its identity, and clients that send sealed requests."""

    def __init__(self, folder: Path, pki: Pki, number: int, *, port: int) -> None:
        self._folder, self._pki, self._port = folder, pki, port
        folder.mkdir()
        self._provider = make_provider(
            organization_identifier=f"PSDDE-BAFIN-{100000 + number}", name=f"Provider {number} TEST"
        )
        self._labels = (f"{number}-{count}" for count in itertools.count())
        self.renew()
        self.identity = Identity.from_files(
            **{name: folder / f"{name}.pem" for name in ("qwac", "qwac_key", "qseal", "qseal_key")},
            server_anchors=folder.parent / "pki" / "root.pem",
        )
        self.answers: list[Answer] = []
        self.lost: list[Lost] = []
        self.servers: list[tuple[float, float, bytes | None]] = []
        self.errors: list[Exception] = []

    def renew(self) -> None:
        """Write new certificates: of the four files, no two belong together until all are written."""
        label = next(self._labels)
        for name, issue in (("qwac", self._pki.issue_qwac), ("qseal", self._pki.issue_qseal)):
            write_pair(
                self._folder / f"{name}.pem",
                self._folder / f"{name}_key.pem",
                issue(self._provider, label=f"{name}-{label}"),
            )

    def work(self, stop: threading.Event) -> None:
        while not stop.is_set():
            sent = time.monotonic()
            try:
                self._connect(stop)
            except LOST as e:
                self.lost.append(Lost(sent, time.monotonic(), repr(e)))
            except Exception as e:  # noqa: BLE001  # raised at the end
                self.errors.append(e)
                return

    def _connect(self, stop: threading.Event) -> None:
        """A few requests over one connection."""
        qwac, sent = self.identity.qwac, time.monotonic()
        connection = http.client.HTTPSConnection("localhost", self._port, timeout=60, context=self.identity.tls_context)
        try:
            connection.connect()
            self.servers.append((sent, time.monotonic(), connection.sock.getpeercert(binary_form=True)))
            if self.identity.qwac is not qwac:  # renewed meanwhile: either may have been sent
                return
            for _ in range(REQUESTS):
                self._ask(connection, qwac.serial)
                if stop.wait(PAUSE_S):
                    return
        finally:
            connection.close()

    def _ask(self, connection: http.client.HTTPSConnection, qwac: int) -> None:
        seal = self.identity.seal
        assert seal is not None
        message, sent = sealed(seal, target=TARGET, request_id=None), time.monotonic()
        connection.request(message.method, message.target, message.body, dict(message.headers))
        answer = connection.getresponse()
        body, received = answer.read(), time.monotonic()
        code = "" if answer.status == 201 else json.loads(body)["tppMessages"][0]["code"]
        self.answers.append(Answer(sent, received, (qwac, seal.certificate.serial), answer.status, code))


def write_pair(certificates: Path, key: Path, issued: Issued) -> None:
    replace_file(certificates, b"".join(map(certificate_pem, (issued.certificate, *issued.chain))))
    replace_file(key, key_pem(issued.key))


class Bank:
    """The bank's process, and what it reports."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._orders, self._lines = process, process.stdin, process.stdout
        self.port: int = json.loads(self._lines.readline())["port"]
        self.reloads: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._lines:
            found = json.loads(line)
            (self.calls if "sent" in found else self.reloads).append(found)

    def keep_calling(self, address: str, stop: threading.Event) -> None:
        """Let it call an address five times a second."""
        for number in itertools.count(1):
            self._orders.write(f"{address}\n")
            self._orders.flush()
            wait_until(lambda number=number: len(self.calls) >= number, "the bank's call")
            if stop.wait(PAUSE_S):
                return

    def settle(self) -> None:
        """Wait until it uses what the files contain."""
        now = time.monotonic()
        wait_until(lambda: self.calls[-1]["sent"] > now and not self.calls[-1]["is_behind"], "the reload")

    def refusal(self) -> str:
        """Wait until it refuses files, and return the code."""
        seen = len(self.reloads)
        wait_until(lambda: any(one["outcome"] == "refused" for one in self.reloads[seen:]), "the refusal")
        return next(one["code"] for one in self.reloads[seen:] if one["outcome"] == "refused")

    def memory_kb(self) -> int:
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


@contextmanager
def run_bank(folder: Path) -> Iterator[Bank]:
    command = [sys.executable, str(Path(__file__).with_name("soaked_bank.py")), str(folder)]
    with (
        (folder / "bank.log").open("w") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            yield Bank(process)
            assert process.poll() is None
        finally:
            process.kill()


class Operator:
    """Renews one thing at a time, and knows what was in force when."""

    def __init__(
        self, files: OperatorFiles, folder: Path, bank: Bank, organisations: list[Organisation], port: int
    ) -> None:
        self._files, self._folder, self._bank, self._organisations, self._port = (
            files,
            folder,
            bank,
            organisations,
            port,
        )
        self._random = random.Random(7)
        self._numbers = itertools.count(8)
        self.trust = Timeline(State())
        self.own = Timeline(int((folder / "own" / "serial").read_text()))
        self.server = Timeline(self._served())
        self.drains: list[float] = []

    def steps(self) -> list[Callable[[], None]]:
        """Everything that it does, in an order that differs each time."""
        files, own = self._files, self._folder / "own"
        every = [
            self.revoke_qwac, self.revoke_qseal, self.renew_client, self.renew_crls, self.withdraw, self.remove_anchor, self.renew_own,
            self.renew_server, self.break_server,
            *(
                partial(self.spoil, path, code)
                for path, code in (
                    (files.lists / "PT.xml", "trusted-list.malformed"),
                    (files.lists / "lotl.xml", "trusted-list.no-lotl"),
                    (files.anchors / "0.pem", "trust.unreadable"),
                    (files.anchors / "1.pem", "trust.unreadable"),
                    (files.crls / f"{files.pki.qwac_ca.label}.crl", "revocation.unreadable"),
                    (own / "qwac.pem", "pem.malformed"),
                    (own / "qwac.key", "key.unreadable"),
                )
            ),
        ]  # fmt: skip
        self._random.shuffle(every)
        return every

    def revoke_qwac(self) -> None:
        one = self._random.choice(self._organisations)
        self._revoke(one, one.identity.qwac.serial)

    def revoke_qseal(self) -> None:
        one = self._random.choice(self._organisations)
        assert one.identity.seal is not None
        self._revoke(one, one.identity.seal.certificate.serial)

    def _revoke(self, one: Organisation, serial: int) -> None:
        revoked = self.trust.present.revoked | {serial}
        self._change(lambda: self._files.write_crls(utc_now(), *revoked), revoked=revoked)
        self._renew(one)

    def renew_client(self) -> None:
        self._renew(self._random.choice(self._organisations))

    def _renew(self, one: Organisation) -> None:
        one.renew()
        wait_until(lambda: not one.identity.has_changed, "the renewal")
        self._load()

    def renew_crls(self) -> None:
        self._change(lambda: self._files.write_crls(utc_now(), *self.trust.present.revoked))

    def withdraw(self) -> None:
        write = partial(self._files.write_lists, number=next(self._numbers), granted=False)
        self._change(write, granted=False)
        self._change(partial(self._files.write_lists, number=next(self._numbers)), granted=True)

    def remove_anchor(self) -> None:
        self._change(lambda: self._files.write_anchors(self._files.pki.qwac_ca.certificate), anchored=False)
        self._change(self._files.write_anchors, anchored=True)

    def renew_own(self) -> None:
        issued = self._files.pki.issue_qwac(self._files.pki.provider, label=f"own-{next(self._numbers)}")
        with self.own.changing(issued.certificate.serial):
            write_pair(self._folder / "own" / "qwac.pem", self._folder / "own" / "qwac.key", issued)
            self._bank.settle()
        self._load()

    def renew_server(self) -> None:
        issued = self._files.pki.issue_server("localhost", label=f"server-{next(self._numbers)}")
        with self.server.changing(issued.certificate.der):
            write_pair(self._folder / "server.pem", self._folder / "server.key", issued)
            assert self._reload_nginx() == 0
            wait_until(lambda: self._served() == issued.certificate.der, "the reload of nginx")
        self._load()

    def break_server(self) -> None:
        file = self._folder / "server.pem"
        content = file.read_bytes()
        halve(file)
        assert self._reload_nginx() != 0
        self._load()
        file.write_bytes(content)

    def spoil(self, path: Path, code: str) -> None:
        """Write a part of a file, and the whole of it later."""
        content = path.read_bytes()
        halve(path)
        assert self._bank.refusal() == code
        self._load()
        path.write_bytes(content)
        self._bank.settle()

    def codes(self, answer: Answer) -> set[str]:
        """Every code that a state justifies which the request may have met."""
        states = self.trust.possible(answer.sent, answer.received)
        return {code for state in states for code in state.codes(*answer.serials)}

    def is_draining(self, lost: Lost) -> bool:
        """Whether nginx may have closed the connection because it was read again."""
        return any(lost.sent <= at + DRAIN_S and at <= lost.received for at in self.drains)

    def _change(self, write: Callable[[], None], **values: Any) -> None:
        with self.trust.changing(replace(self.trust.present, **values)):
            write()
            self._bank.settle()
        self._load()

    def _load(self) -> None:
        """Wait until every organisation was answered again."""
        now = time.monotonic()
        wait_until(lambda: all(one.answers and one.answers[-1].sent > now for one in self._organisations), "the load")

    def _reload_nginx(self) -> int:
        self.drains.append(time.monotonic())
        command = [
            program("nginx", "nginx-light"),
            "-s",
            "reload",
            "-c",
            str(self._folder / "nginx.conf"),
            "-p",
            str(self._folder),
        ]
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode

    def _served(self) -> bytes | None:
        context = ssl.create_default_context(cafile=self._folder / "pki" / "root.pem")
        with (
            socket.create_connection(("127.0.0.1", self._port)) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as tls,
        ):
            return tls.getpeercert(binary_form=True)


def test_a_request_is_judged_by_the_states_that_it_may_have_met():
    timeline = Timeline("a")
    timeline.add(10, 20, "b")
    timeline.add(30, 40, "c")
    met = {(1, 2): "a", (1, 10): "ab", (12, 14): "ab", (20, 29): "ab", (21, 29): "b", (15, 35): "abc", (41, 42): "c"}
    assert {times: "".join(timeline.possible(*times)) for times in met} == met
    assert [*State(frozenset({1})).codes(1, 2)] == [REVOKED]
    assert [*State(granted=False).codes(1, 2)] == [INVALID]
    assert [*State(frozenset({1})).codes(2, 3)] == [""]


@pytest.mark.slow
def test_no_request_is_refused_that_the_state_of_its_time_admits(tmp_path, bank_pki, certify):
    now, port = utc_now(), free_port()
    dates = {"starts": now - timedelta(days=30), "ends": now + timedelta(days=300), "ca": False}
    operator, commission = (certify(name, **dates) for name in ("Scheme operator", "Commission"))
    frame = {"issued": now - timedelta(days=1), "next_update": now + timedelta(days=100)}
    files = OperatorFiles(tmp_path, bank_pki, operator, commission, at=now, **frame)
    write_pki(bank_pki, tmp_path / "pki")
    (tmp_path / "own").mkdir()
    write_pair(tmp_path / "own" / "qwac.pem", tmp_path / "own" / "qwac.key", bank_pki.qwac)
    (tmp_path / "own" / "serial").write_text(str(bank_pki.qwac.certificate.serial))
    write_pair(tmp_path / "server.pem", tmp_path / "server.key", bank_pki.server)
    organisations = [
        Organisation(tmp_path / str(number), bank_pki, number, port=port) for number in range(ORGANISATIONS)
    ]
    stop, threads = threading.Event(), []
    with ExitStack() as opened:
        bank = opened.enter_context(run_bank(tmp_path))
        block = NGINX.format(folder=tmp_path, port=port, upstream=bank.port)
        opened.enter_context(run_nginx(block, port=port, folder=tmp_path))
        opened.enter_context(Reloader(*(one.identity for one in organisations), every=0.2))
        for target, *arguments in (
            (bank.keep_calling, f"https://localhost:{port}/caller", stop),
            *((one.work, stop) for one in organisations for _ in range(CONNECTIONS)),
        ):
            threads.append(threading.Thread(target=target, args=arguments))
            threads[-1].start()
        try:
            acting = Operator(files, tmp_path, bank, organisations, port)
            end, memory = time.monotonic() + SECONDS, []
            while time.monotonic() < end:
                for step in acting.steps():
                    step()
                memory.append(bank.memory_kb())
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
    assert [error for one in organisations for error in one.errors] == []
    answers = [answer for one in organisations for answer in one.answers]
    print(len(answers), Counter((one.status, one.code) for one in answers), memory)  # with -s: what `make soak` shows
    assert [one for one in answers if one.code not in acting.codes(one)] == []
    assert {(one.status, one.code) for one in answers} == {(201, ""), (401, REVOKED), (401, INVALID)}
    shown = [server for one in organisations for server in one.servers]
    assert [one for one in shown if one[2] not in acting.server.possible(*one[:2])] == []
    calls = [one for one in bank.calls if "answer" in one]
    assert [one for one in calls if int(one["answer"], 16) not in acting.own.possible(one["sent"], one["at"])] == []
    lost = [one for organisation in organisations for one in organisation.lost]
    lost += [Lost(one["sent"], one["at"], one["lost"]) for one in bank.calls if "lost" in one]
    assert [one for one in lost if not acting.is_draining(one)] == []
    assert memory[-1] - memory[0] < GROWTH_KB
    assert "Traceback" not in (tmp_path / "bank.log").read_text()
