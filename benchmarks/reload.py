"""Latency of requests at a gate while trusted lists are read again."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO
from urllib.parse import quote

from harness import Line, judged, rounds
from rates import requests
from tppkit._clock import utc_now
from tppkit.testpki import Pki, certificate_pem, make_pki, write_pki
from trust import LISTS

# Each connection pauses after an answer: the gate is busy, but not saturated, else its queue would be measured.
CONNECTIONS, PAUSE_S = 16, 0.1
WINDOW_S, TURNS, TURNS_S = 2.0, 12, 20.0
MESSAGES = 3000  # more than are sent in a turn


def reloading() -> Iterator[Line]:
    """The 99th percentile during a reload, less that of the time before it, where the shared data are present."""
    if LISTS.is_dir():
        pki = make_pki(at=utc_now(), key="p256")
        with TemporaryDirectory() as folder, bank(pki, Path(folder) / "pki") as (port, orders, answers):
            measured = [asyncio.run(turn(port, pki, orders, answers)) for _ in rounds(TURNS, within_s=TURNS_S)]
        more = [during - before for before, during in measured[1:]]
        yield judged("p99 of requests during a reload", more, what="ms more than without", limit=20)


@contextmanager
def bank(pki: Pki, folder: Path) -> Iterator[tuple[int, IO[str], IO[str]]]:
    """The bank's port, and the ends of its standard input and output."""
    write_pki(pki, folder)
    lists = shutil.copytree(LISTS, folder / "lists-of-2023")
    command = [sys.executable, str(Path(__file__).with_name("reloading_bank.py")), str(folder), str(lists)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as bank:  # noqa: S603  # our own
        if bank.stdin is None or bank.stdout is None:
            raise AssertionError(command)
        try:
            yield int(bank.stdout.readline()), bank.stdin, bank.stdout
        finally:
            bank.stdin.close()


async def turn(port: int, pki: Pki, orders: IO[str], answers: IO[str]) -> tuple[float, float]:
    """The 99th percentiles in milliseconds without and during a reload."""
    qwac = quote(certificate_pem(pki.qwac.certificate).decode(), safe="")
    made = iter([with_header(one, f"X-SSL-Client-Cert: {qwac}") for one in requests(pki, MESSAGES)])
    before = await latencies(port, made, asyncio.create_task(asyncio.sleep(WINDOW_S)))
    orders.write("\n")
    orders.flush()
    during = await latencies(port, made, asyncio.create_task(asyncio.to_thread(answers.readline)))
    return percentile(before), percentile(during)


def with_header(message: bytes, header: str) -> bytes:
    line, rest = message.split(b"\r\n", 1)
    return b"\r\n".join((line, header.encode(), rest))


async def latencies(port: int, messages: Iterator[bytes], end: asyncio.Task[object]) -> list[float]:
    """Send messages over all connections until a task ends, and return how long each answer took."""
    taken: list[float] = []

    async def work() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while not end.done():
            begin = time.perf_counter()
            writer.write(next(messages))
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 201"):
                raise AssertionError(head)
            if b"chunked" in head:
                await reader.readuntil(b"0\r\n\r\n")
            taken.append((time.perf_counter() - begin) * 1000)
            await asyncio.sleep(PAUSE_S)
        writer.close()

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    return taken


def percentile(taken: list[float]) -> float:
    return statistics.quantiles(taken, n=100, method="inclusive")[98]
