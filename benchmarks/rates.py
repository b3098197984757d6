"""Sealed payments and reads over kept-alive mutual TLS, at the sandbox and at a bank written by hand, in turns of one run."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import date
from functools import partial
from pathlib import Path
from random import randrange
from tempfile import TemporaryDirectory
from urllib.request import Request, urlopen
from uuid import uuid4

from harness import Line, rated, rounds
from tppkit._clock import utc_now
from tppkit.client import Identity, Psd2Client
from tppkit.protocol.psd2 import ALL_ACCOUNTS, Access, ConsentRequest, PaymentInitiation
from tppkit.seals import KeySigner, Message, Seal, sign_request
from tppkit.testpki import Pki, make_pki, write_pki

TARGET = "/psd2/v1/payments/sepa-credit-transfers"
# Requests of a turn. It lasts about half a second: in a shorter one, the first requests count for too much.
REQUESTS = {1: 400, 8: 600, 32: 800}  # payments, by connections
READS = 3000  # over 8 connections
REFERENCE = 2  # times as many go to the reference, which is faster
TURNS_S = 20  # for each line
PAUSE_S = 0.5  # before the turn of the other bank: the sandbox archives evidence after it has answered
BODY = (
    b'{"instructedAmount":{"currency":"EUR","amount":"12.50"},"creditorAccount":{"iban":"LT121000011101001000"},'
    b'"creditorName":"Bookshop","remittanceInformationUnstructured":"Order 4711"}'
)


def serving(*, turns: int = 15, longer: int = 1) -> Iterator[Line]:
    """Rates of payments at 1, 8 and 32 connections, and of reads; `longer` multiplies requests and time."""
    pki = make_pki(at=utc_now(), key="p256")
    with TemporaryDirectory() as name, ExitStack() as running:
        folder = Path(name) / "pki"
        write_pki(pki, folder)
        addresses = running.enter_context(sandbox(Path(name), folder))
        by_hand, constant = (
            running.enter_context(program(name, folder)) for name in ("bare_bank.py", "bare_uvicorn.py")
        )
        ours = int(addresses["psd2_url"].rpartition(":")[2])
        context = client_context(folder)

        def line(
            what: str, theirs: int, connections: int, made: Callable[[], list[bytes]], *, status: int, goal: str, least: float
        ) -> Line:  # fmt: skip
            ratios = rates(ours, theirs, context, connections, made, status, turns, TURNS_S * longer)
            name = f"{what}, {connections} connection{'s' * (connections > 1)}"
            return rated(name, ratios, what=goal, at_least=least)

        for connections, count in REQUESTS.items():
            made = partial(requests, pki, count * longer)
            yield line(
                "sealed payments", by_hand, connections, made, status=201, goal="of a bank written by hand", least=0.25
            )
        for what, read in reads(pki, addresses).items():
            made = partial(list, [read] * (READS * longer))
            yield line(what, constant, 8, made, status=200, goal="of uvicorn behind the same TLS", least=0.12)


def rates(
    ours: int, theirs: int, context: ssl.SSLContext, connections: int, made: Callable[[], list[bytes]], status: int, turns: int,
    within_s: float,
) -> list[float]:  # fmt: skip
    """The rate at one port by that at another, in turns; the first, when both are cold, does not count."""
    ratios = []
    for _ in rounds(turns + 1, within_s=within_s):
        time.sleep(PAUSE_S)
        many = [one for _ in range(REFERENCE) for one in made()]
        reference = asyncio.run(ask(theirs, context, connections, many, status))
        ratios.append(asyncio.run(ask(ours, context, connections, made(), status)) / reference)
    return ratios[1:]


def reads(pki: Pki, addresses: Mapping[str, str]) -> dict[str, bytes]:
    """GET of a payment's status, and of the accounts of a valid consent while the customer is present."""
    seal, qwac = Seal(pki.qseal.certificate, KeySigner(pki.qseal.key)), pki.qwac
    identity = Identity(
        qwac.certificate, qwac.key, chain=qwac.chain, seal=seal, server_anchors=[pki.root.certificate]
    )  # fmt: skip
    with Psd2Client(addresses["psd2_url"], identity=identity) as client:
        payment_id = client.initiate_payment(PaymentInitiation.from_wire(BODY)).payment_id
        asked = ConsentRequest(
            access=Access(all_psd2=ALL_ACCOUNTS), valid_until=date(2099, 12, 31), frequency_per_day=1
        )
        consent_id = client.create_consent(asked).consent_id
    approve = Request(f"{addresses['control_url']}/consents/{consent_id}/approve", method="POST")  # noqa: S310  # our own
    urlopen(approve).close()  # noqa: S310
    headers = f"Host: localhost\r\nX-Request-ID: {uuid4()}\r\n"
    accounts = f"{headers}Consent-ID: {consent_id}\r\nPSU-IP-Address: 192.0.2.7\r\n"
    return {
        "GET payment status": f"GET {TARGET}/{payment_id}/status HTTP/1.1\r\n{headers}\r\n".encode(),
        "GET accounts": f"GET /psd2/v1/accounts HTTP/1.1\r\n{accounts}\r\n".encode(),
    }


def requests(pki: Pki, count: int) -> list[bytes]:
    """Sealed requests as bytes, each with an id of its own."""
    seal = Seal(pki.qseal.certificate, KeySigner(pki.qseal.key))
    made = []
    for _ in range(count):
        headers = (
            ("Host", "localhost"), ("Content-Type", "application/json"), ("Content-Length", str(len(BODY))),
            ("X-Request-ID", str(uuid4())),
        )  # fmt: skip
        message = sign_request(Message("POST", TARGET, headers, BODY), seal=seal)
        lines = [f"POST {TARGET} HTTP/1.1", *(f"{name}: {value}" for name, value in message.headers), "", ""]
        made.append("\r\n".join(lines).encode() + BODY)
    return made


async def ask(port: int, context: ssl.SSLContext | None, connections: int, messages: list[bytes], status: int) -> float:
    """Send the messages over so many connections, and return how many were answered in a second."""
    streams = [
        await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost" if context else None)
        for _ in range(connections)
    ]
    left, wanted = iter(messages), f"HTTP/1.1 {status}".encode()

    async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for message in left:
            writer.write(message)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(wanted):
                raise AssertionError(head)
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)

    begin = time.perf_counter()
    await asyncio.gather(*(work(*stream) for stream in streams))
    taken = time.perf_counter() - begin
    for _, writer in streams:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    return len(messages) / taken


def client_context(folder: Path) -> ssl.SSLContext:
    """TLS with the QWAC."""
    context = ssl.create_default_context(cafile=folder / "root.pem")
    context.load_cert_chain(folder / "qwac-chain.pem", folder / "qwac.key")
    return context


@contextmanager
def sandbox(directory: Path, folder: Path) -> Iterator[Mapping[str, str]]:
    """The addresses of a sandbox in a process of its own."""
    ready = directory / "ready.json"
    command = [
        sys.executable, "-m", "tppkit", "sandbox", "up", "--pki", str(folder), "--dir", str(directory / "bank"),
        "--port", str(free_port()), "--ready-file", str(ready),
    ]  # fmt: skip
    with process(command):
        while not ready.exists():
            time.sleep(0.02)
        yield json.loads(ready.read_text())


@contextmanager
def program(name: str, *arguments: str | Path) -> Iterator[int]:
    """The port of a program of this folder, which gets it behind the arguments."""
    port = free_port()
    with process([sys.executable, str(Path(__file__).with_name(name)), *map(str, arguments), str(port)]):
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.02)
        yield port


@contextmanager
def process(command: Sequence[str]) -> Iterator[None]:
    """A server that ends with the block."""
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603  # our own programs
    try:
        yield
    finally:
        running.terminate()
        running.wait(20)


def free_port() -> int:
    """A free port, below those of outgoing connections because the sandbox takes those beside it too."""
    while True:
        with suppress(OSError), socket.socket() as bound:
            bound.bind(("127.0.0.1", randrange(20_000, 32_000)))  # noqa: S311  # no secret
            return int(bound.getsockname()[1])
