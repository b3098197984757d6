"""Sealed payments over kept-alive mutual TLS, at the sandbox and at a bank written by hand, in turns of one run."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from harness import Line, judged, rounds
from tppkit._clock import utc_now
from tppkit.seals import KeySigner, Message, Seal, sign_request
from tppkit.testpki import Pki, make_pki, write_pki

TARGET = "/psd2/v1/payments/sepa-credit-transfers"
REQUESTS = {1: 100, 8: 200, 32: 400}  # in a turn, by connections; that is less than a second
TURNS_S = 11  # for each number of connections
PAUSE_S = 0.5  # before the turn of the other bank: the sandbox archives evidence after it has answered
BODY = (
    b'{"instructedAmount":{"currency":"EUR","amount":"12.50"},"creditorAccount":{"iban":"LT121000011101001000"},'
    b'"creditorName":"Bookshop","remittanceInformationUnstructured":"Order 4711"}'
)


def serving(*, turns: int = 15, longer: int = 1) -> Iterator[Line]:
    """Rates at 1, 8 and 32 connections; a turn has so many times the usual requests and is given so many times as long."""
    pki = make_pki(at=utc_now(), key="p256")
    with TemporaryDirectory() as name, ExitStack() as running:
        folder = Path(name) / "pki"
        write_pki(pki, folder)
        ours = running.enter_context(sandbox(Path(name), folder))
        theirs = running.enter_context(bare(folder))
        context = client_context(folder)
        for connections, count in REQUESTS.items():
            ratios = []
            for _ in rounds(turns + 1, within_s=TURNS_S * longer):
                time.sleep(PAUSE_S)
                reference, rate = (
                    asyncio.run(pay(port, context, connections, requests(pki, count * longer)))
                    for port in (theirs, ours)
                )
                ratios.append(rate / reference)
            name = f"sealed payments, {connections} connection{'s' * (connections > 1)}"
            yield judged(name, ratios[1:], what="of a bank written by hand", limit=0.5, at_least=True)


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


async def pay(port: int, context: ssl.SSLContext | None, connections: int, messages: list[bytes]) -> float:
    """Send the messages over so many connections, and return how many were answered in a second."""
    streams = [
        await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost" if context else None)
        for _ in range(connections)
    ]
    left = iter(messages)

    async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for message in left:
            writer.write(message)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 20"):
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
def sandbox(directory: Path, folder: Path) -> Iterator[int]:
    """The port of a sandbox in a process of its own."""
    ready = directory / "ready.json"
    command = [
        sys.executable, "-m", "tppkit", "sandbox", "up", "--pki", str(folder), "--dir", str(directory / "bank"),
        "--port", str(free_port()), "--ready-file", str(ready),
    ]  # fmt: skip
    with process(command):
        while not ready.exists():
            time.sleep(0.02)
        yield int(json.loads(ready.read_text())["psd2_url"].rpartition(":")[2])


@contextmanager
def bare(folder: Path) -> Iterator[int]:
    """The port of the bank written by hand."""
    with program("bare_bank.py", folder) as port:
        yield port


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
    """A port that nothing listens on; the sandbox takes those beside it too."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])
