"""Who takes part in a soak: providers whose clients send sealed requests, the bank, and what was in force when."""

from __future__ import annotations

import http.client
import itertools
import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from asgi import sealed
from serving import wait_until

from tppkit._files import replace_file
from tppkit.client import Identity
from tppkit.testpki import Issued, Pki, certificate_pem, make_provider
from tppkit.testpki.pem import key_pem

PAUSE_S, REQUESTS = 0.1, 20  # after a request, on a connection
TARGET = "/psd2/v1/payments/sepa-credit-transfers"
REVOKED, INVALID = "CERTIFICATE_REVOKED", "CERTIFICATE_INVALID"
LOST = (http.client.HTTPException, ConnectionError, ssl.SSLError)
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
                # After an answer with Connection: close, http.client would connect again, perhaps with another certificate.
                if connection.sock is None or stop.wait(PAUSE_S):
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
        wait_until(lambda: any(call["sent"] > now and not call["is_behind"] for call in self.calls[-1:]), "the reload")

    def require_refusal(self, code: str) -> None:
        """Wait until it refuses files for a reason. A look while they are written may find another one first."""
        seen = len(self.reloads)
        wait_until(
            lambda: any((one["outcome"], one["code"]) == ("refused", code) for one in self.reloads[seen:]),
            f"the refusal {code}",
        )

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
