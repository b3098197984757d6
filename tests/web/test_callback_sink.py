"""The sink of refused callbacks, told aside: what it may hold up, and what becomes of refusals for which there is no room."""

from __future__ import annotations

import logging
import multiprocessing
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from callback_servers import Server, request, running
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit.web import RefusedCallback
from tppkit.web.callback_sink import RefusalSink

REFUSED = RefusedCallback(ValueError("x"), 503, datetime(2026, 6, 1, tzinfo=UTC), None)


def test_what_a_slow_sink_is_not_told_of_is_logged_at_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    go_on, told = threading.Event(), list[RefusedCallback]()

    def slow(refused: RefusedCallback) -> None:
        go_on.wait(60)
        told.append(refused)

    sink = RefusalSink(slow)
    for _ in range(1 + 256 + 3):
        sink.tell_aside(REFUSED)
    deadline = time.monotonic() + 20
    while not caplog.messages and time.monotonic() < deadline:
        time.sleep(0.001)
    assert caplog.messages == ["refused callbacks are not told: 256 wait for the sink"]
    go_on.set()
    assert (sink.wait(20), len(told)) == (0, 257)
    assert caplog.messages[1:] == ["3 refused callbacks were not told: the sink takes too long"]
    sink.tell_aside(REFUSED)
    assert (sink.wait(20), len(told)) == (0, 258)


def test_a_log_that_fails_keeps_no_later_refusal_from_the_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[RefusedCallback]()

    def fails(refused: RefusedCallback) -> None:
        told.append(refused)
        raise ValueError

    def refuse(record: logging.LogRecord) -> bool:
        raise RuntimeError

    log = logging.getLogger("tppkit.web")
    monkeypatch.setattr(log, "filters", [refuse])
    sink = RefusalSink(fails)
    for _ in range(3):
        sink.tell_aside(REFUSED)
    assert (sink.wait(20), len(told)) == (0, 3)


@pytest.mark.parametrize("raised", [ValueError, SystemExit])
def test_a_sink_that_raises_is_told_of_the_next_refusal(
    raised: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    told, go_on = list[RefusedCallback](), threading.Event()

    def fails(refused: RefusedCallback) -> None:
        go_on.wait(60)
        told.append(refused)
        raise raised

    sink = RefusalSink(fails)
    sink.tell_aside(REFUSED)
    sink.tell_aside(REFUSED)
    go_on.set()
    assert (sink.wait(20), len(told)) == (0, 2)
    assert caplog.messages == ["the sink of refused callbacks failed"] * 2


def test_what_is_told_by_many_threads_is_told_once_each() -> None:
    told = list[RefusedCallback]()
    sink = RefusalSink(told.append)
    threads = [threading.Thread(target=lambda: [sink.tell_aside(REFUSED) for _ in range(30)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (sink.wait(20), len(told)) == (0, 240)


def test_a_sink_that_is_forked_in_use_goes_on_in_both_processes() -> None:
    inside, go_on, told = threading.Event(), threading.Event(), list[RefusedCallback]()

    def slow(refused: RefusedCallback) -> None:
        inside.set()
        go_on.wait(60)
        told.append(refused)

    sink = RefusalSink(slow)
    sink.tell_aside(REFUSED)
    assert inside.wait(30)
    forked = multiprocessing.get_context("fork")
    results = forked.Queue()

    def work() -> None:
        go_on.set()
        sink.tell_aside(REFUSED)
        results.put((sink.wait(20), len(told)))

    process = forked.Process(target=work)
    process.start()
    assert results.get(timeout=30) == (0, 1)
    process.join(30)
    assert process.exitcode == 0
    go_on.set()
    assert (sink.wait(20), len(told)) == (0, 1)


def test_an_end_gives_up_what_hangs_and_tells_it_once(caplog: pytest.LogCaptureFixture) -> None:
    go_on, told = threading.Event(), list[RefusedCallback]()

    def hangs(refused: RefusedCallback) -> None:
        go_on.wait(60)
        told.append(refused)

    sink = RefusalSink(hangs)
    for _ in range(3):
        sink.tell_aside(REFUSED)
    sink.end(0)
    sink.end(60)  # nobody waits for it again
    assert caplog.messages == ["3 refused callbacks were not told: the server ends"]
    sink.tell_aside(REFUSED)
    sink.end(0)
    assert caplog.messages[1:] == ["1 refused callbacks were not told: the server ends"]
    go_on.set()
    sink.tell_aside(REFUSED)
    assert (sink.wait(20), len(told)) == (0, 2)


def test_an_end_counts_what_there_was_no_room_for(caplog: pytest.LogCaptureFixture) -> None:
    steps, go_on = threading.Semaphore(0), threading.Event()

    def slow(refused: RefusedCallback) -> None:
        steps.acquire(timeout=60)
        go_on.set()

    sink = RefusalSink(slow)
    for _ in range(1 + 256 + 40):
        sink.tell_aside(REFUSED)
    steps.release()
    assert go_on.wait(20)
    deadline = time.monotonic() + 20
    while len(sink._waiting) > 256 and time.monotonic() < deadline:
        time.sleep(0.001)
    sink.tell_aside(REFUSED)  # there is room for one, which will tell of the 40
    sink.end(0)
    assert caplog.messages[-1] == "297 refused callbacks were not told: the server ends"
    steps.release()
    assert sink.wait(20) == 0


def test_what_there_was_no_room_for_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    steps, told = threading.Semaphore(0), list[RefusedCallback]()

    def slow(refused: RefusedCallback) -> None:
        steps.acquire(timeout=60)
        told.append(refused)

    sink = RefusalSink(slow)
    for _ in range(1 + 256 + 13):
        sink.tell_aside(REFUSED)
    steps.release()
    deadline = time.monotonic() + 20
    while len(sink._waiting) > 256 and time.monotonic() < deadline:
        time.sleep(0.001)
    sink.tell_aside(REFUSED)
    steps.release(256)
    while (
        "13 refused callbacks were not told: the sink takes too long" not in caplog.messages
        and time.monotonic() < deadline
    ):
        time.sleep(0.001)
    sink.end(0)  # the last is being told
    assert caplog.messages[-1] == "1 refused callbacks were not told: the server ends"
    steps.release()
    while len(told) < 258 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert len(told) == 258


def test_an_end_waits_for_no_log_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, began = threading.Event(), threading.Event()

    class Hanging(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            began.set()
            go_on.wait(60)

    log = logging.getLogger("tppkit.web")
    monkeypatch.setattr(log, "handlers", [Hanging()])
    sink = RefusalSink(lambda refused: log.error("refused"))
    sink.tell_aside(REFUSED)
    assert began.wait(20)
    ending = threading.Thread(target=sink.end, args=(0,), daemon=True)
    ending.start()
    ending.join(20)
    ended = not ending.is_alive()
    go_on.set()
    assert ended
    assert sink.wait(20) == 0


PROGRAM = """
import sys, threading, time
from datetime import UTC, datetime
from tppkit.web import RefusedCallback
from tppkit.web.callback_sink import RefusalSink

def sink(refused):
    if "hangs" in sys.argv:
        threading.Event().wait()
    time.sleep(0.01)
    print("told", flush=True)

sink = RefusalSink(sink)
for _ in range(3):
    sink.tell_aside(RefusedCallback(ValueError("x"), 503, datetime.now(UTC), None))
"""


@pytest.mark.parametrize(
    ("how", "printed", "logged"),
    [
        ("well", "told\n" * 3, ""),
        ("hangs", "", "3 refused callbacks were not told: the server ends\n"),
    ],
)
def test_a_process_ends_when_its_sink_is_told_or_soon(how: str, printed: str, logged: str) -> None:
    command = [sys.executable, "-c", PROGRAM, how]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert (ended.stdout, ended.stderr) == (printed, logged)


SERVERS = {
    "uvicorn": ("-m", "uvicorn", "--factory", "callback_apps:telling", "--port", "{port}"),
    "granian": ("-m", "granian", "--factory", "--interface", "asgi", "--port", "{port}", "callback_apps:telling"),
    "hypercorn": ("-m", "hypercorn", "callback_apps:telling()", "-b", "127.0.0.1:{port}"),
}


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_that_is_ended_by_a_signal_tells_what_waits(server: str, tmp_path: Path) -> None:
    key, told = tmp_path / "live.pub", tmp_path / "told"
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    key.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    environment = {"CALLBACK_KEY": str(key), "CALLBACK_TOLD": str(told)}
    with running({server: Server(SERVERS[server])}, environment=environment, log=tmp_path / "log") as ports:
        for _ in range(6):
            assert request(ports[server], "POST", "/cb/", body=b"{}").status == 400
    assert told.read_text() == "400\n" * 6
