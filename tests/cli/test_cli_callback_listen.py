"""`tppkit callback listen` and `replay` on real sockets; three real processes for signals, pipes and options."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from receivers import receiving

from programs import TPPKIT
from tppkit._clock import utc_now
from tppkit.callbacks import (
    CallbackAddress,
    CallbackKind,
    CallbackReceiver,
    ReceivedCallback,
    load_callback_key,
    sign_callback,
)
from tppkit.cli.callback_listen import CallbackFolder, CallbackServer, Handled, base_addresses
from tppkit.cli.callback_options import read_request
from tppkit.cli.callback_send import parse_place, send_message
from tppkit.errors import ConfigurationError, TransportError
from tppkit.seals import load_private_key

BASE = "https://tpp.example/cb"
UUID = "a1" * 12
ACCESS = b'{"token":"abcdefghijklmnopqrstuvwxyz","exp":"2030-01-01 12:00:00"}'
PAYMENT = b'{"id":"T-1","ver":1,"timeStamp":0,"tlc":"posted","acc":"1","amount":["EUR-1"]}  '


@pytest.fixture
def receiver(certs) -> CallbackReceiver:
    return receiver_of(certs, *base_addresses(BASE))


def receiver_of(certs: Path, *addresses: CallbackAddress) -> CallbackReceiver:
    return CallbackReceiver(addresses, keys=[load_callback_key(certs / "callback-live.pub", name="live")])


@contextmanager
def listening(
    folder: Path, receiver: CallbackReceiver | None = None, *, forward: str | None = None, forward_all: bool = False
) -> Iterator[tuple[int, list[Handled]]]:
    """A running listener: its port and results."""
    results: list[Handled] = []
    with CallbackServer(
        receiver=receiver, folder=CallbackFolder(folder / "callbacks"), forward=parse_place(forward) if forward else None,
        forward_all=forward_all, now=utc_now, port=0, show=results.append,
    ) as server:  # fmt: skip
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server.server_address[1], results
        finally:
            server.shutdown()
            thread.join(20)


def exchange(port: int, message: bytes) -> tuple[int, bytes]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(message)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


def signed(certs: Path, target: str, body: bytes = ACCESS, *, key: str = "callback-live") -> bytes:
    """A callback as on the wire; a target beyond ASCII as raw UTF-8."""
    private: Any = load_private_key((certs / f"{key}.key").read_bytes())
    headers = sign_callback(private, request_id="r-1", method="POST", url="https://tpp.example" + target, body=body)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode() + body


def test_a_callback_is_verified_and_acknowledged(certs, tmp_path, receiver):
    with listening(tmp_path, receiver) as (port, results):
        assert exchange(port, signed(certs, "/cb/")) == (200, b"")
    result = results[0].as_object()
    assert (result["verdict"], result["key_name"], result["event"], result["answered"]) == (
        "holds", "live", "AccessGranted", 200,
    )  # fmt: skip


def test_a_refused_callback_is_explained(certs, tmp_path, receiver):
    with listening(tmp_path, receiver) as (port, results):
        assert exchange(port, signed(certs, "/cb").replace(b" /cb ", b" /cb/ ")) == (400, b"")
    codes = [finding["code"] for finding in results[0].as_object()["findings"]]
    assert codes == ["callback.signature", "callback-cause.url-slash"]


@pytest.mark.parametrize("word", ["ž", "Å", "à", "日"])
def test_a_target_of_raw_utf8_is_kept_verified_and_replayed_unchanged(tppkit, certs, tmp_path, word):
    options = ("--public-key", f"live={certs / 'callback-live.pub'}", "--address", f"access={BASE}/{word}/")
    receiver = receiver_of(certs, CallbackAddress(f"{BASE}/{word}/", CallbackKind.ACCESS))
    with listening(tmp_path, receiver) as (port, results):
        assert exchange(port, signed(certs, f"/cb/{word}/"))[0] == 200
        assert results[0].verified
        assert f"POST /cb/{word}/ HTTP/1.1".encode() in (tmp_path / "callbacks" / "1.http").read_bytes()
        assert tppkit("callback", "explain", "callbacks/1.http", *options).exit_code == 0
        assert tppkit("callback", "verify", "callbacks/1.http", *options).exit_code == 0
        assert tppkit("callback", "replay", "1", "--to", f"http://127.0.0.1:{port}").exit_code == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b" /cb/ ", b" /cb/ x "), (b" /cb/ ", b" /cb/\t "), (b" /cb/ ", b"  /cb/ "), (b" /cb/ ", b" /cb/\x00 "), (b" /cb/ ", b" /cb/\x7f "),
        (b" /cb/ ", b" /cb/\x1b[31mred "), (b" /cb/ ", b" /cb/\x0bred "),
        (b"Host: x", b"Content-Length: 1"),
        (b"Host: x", b"no colon"), (b"Host: x", b"X A: b"), (b"Host: x", b": b"), (b"Host: x", b"\xe9: b"), (b"Host: x", b" b: c"),
        (b"Host: x", b"From b"), (b"Host: x", b"Host: x\r\nFrom b"), (b"Host: x", b"Host : x"), (b"Host: x", b"Host: x\r\n b"),
        (b"Host: x\r\n", b"Host: x\n"),
    ],
)  # fmt: skip
def test_an_ambiguous_request_is_refused_and_not_kept(certs, tmp_path, receiver, old, new):
    with listening(tmp_path, receiver) as (port, _):
        assert exchange(port, signed(certs, "/cb/").replace(old, new, 1))[0] == 400
    assert list((tmp_path / "callbacks").iterdir()) == []


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"Transfer-Encoding: chunked", 411),
        (b"Content-Length: 65537", 413),
        (b"Content-Length: 99999999999999999999", 413),
        (b"Content-Length: -1", 400),
        (b"Content-Length: 5", 400),
        (b"Content-Length: 0\r\nContent-Length: 5", 400),
        (b"Content-Length: 5\r\nContent-Length: 0", 400),
        (b"X: " + b"a" * 70_000, 400),
    ],
)
def test_a_request_without_a_usable_length_is_refused_and_not_kept(tmp_path, head, status):
    with listening(tmp_path) as (port, _), socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\n" + head + b"\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        assert int(connection.recv(100).split(b" ")[1]) == status
        assert not any((tmp_path / "callbacks").iterdir())


def test_an_announced_long_body_is_refused_before_it_arrives(tmp_path):
    with listening(tmp_path) as (port, _), socket.create_connection(("127.0.0.1", port), timeout=8) as slow:
        slow.sendall(b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n")
        assert int(slow.recv(100).split(b" ")[1]) == 413
        assert exchange(port, b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")[0] == 200


def test_an_unknown_address_is_answered_404(certs, tmp_path, receiver):
    with listening(tmp_path, receiver) as (port, results):
        assert exchange(port, signed(certs, "/other/"))[0] == 404
    assert results[0].as_object()["code"] == "callback.address"


def test_without_a_key_nothing_is_verified(certs, tmp_path):
    with listening(tmp_path) as (port, results):
        assert exchange(port, signed(certs, "/cb/"))[0] == 200
    result = results[0].as_object()
    assert (result["verdict"], result["findings"], result["target"]) == (None, [], "/cb/")


@pytest.mark.parametrize(("path", "target"), [("", f"/cb/{UUID}"), ("/hook?a=b", "/hook?a=b")])
def test_the_exact_bytes_are_forwarded(certs, tmp_path, receiver, path, target):
    message, seen = signed(certs, f"/cb/{UUID}", PAYMENT), []
    with (
        receiving(None, seen) as local,
        listening(tmp_path, receiver, forward=f"http://127.0.0.1:{local}{path}") as (port, results),
    ):
        assert exchange(port, message)[0] == 200
    (forwarded,) = seen
    assert (forwarded.method, forwarded.target, forwarded.body) == ("POST", target, PAYMENT)
    signature = dict(forwarded.headers)["signature"]
    assert f"signature: {signature}\r\n".encode() in message
    assert results[0].as_object()["forwarded"] == 200


@pytest.mark.parametrize(("forward_all", "count"), [(False, 0), (True, 1)])
def test_a_refused_callback_is_forwarded_only_on_request(certs, tmp_path, receiver, forward_all, count):
    seen: list[ReceivedCallback] = []
    with (
        receiving(None, seen) as local,
        listening(tmp_path, receiver, forward=f"http://127.0.0.1:{local}", forward_all=forward_all) as (port, _),
    ):
        exchange(port, signed(certs, "/cb/", key="callback-test"))
    assert len(seen) == count


def test_a_forward_address_that_does_not_answer_gives_502(certs, tmp_path, receiver):
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with listening(tmp_path, receiver, forward=url) as (port, _):
        assert exchange(port, signed(certs, "/cb/"))[0] == 502


def test_every_attack_but_a_reused_requestid_is_answered_as_expected(tppkit, certs, tmp_path, receiver):
    with listening(tmp_path, receiver) as (port, _):
        options = ("--key", certs / "callback-live.key", "--signed-url", f"{BASE}/", "--json")
        attacks = tppkit("callback", "attack", f"http://127.0.0.1:{port}/cb/", *options).json["attacks"]
    assert [row["name"] for row in attacks if not row["passed"]] == ["requestid-reused"]


@contextmanager
def command(folder: Path, *options: object) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A listener as a process, and its port."""
    arguments = [str(TPPKIT), "callback", "listen", "--port", "0", *map(str, options)]
    process = subprocess.Popen(
        arguments, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )  # fmt: skip
    assert process.stderr
    try:
        yield process, int(re.search(r":(\d+);", process.stderr.readline())[1])  # type: ignore[index]  # it prints its port first
    finally:
        process.kill()
        process.communicate()


def test_a_line_for_each_callback_and_its_likely_cause_are_printed(certs, tmp_path):
    options = ("--public-key", f"live={certs / 'callback-live.pub'}", "--base-url", BASE)
    with command(tmp_path, *options, "--address", "https://tpp.example/other/") as (process, port):
        exchange(port, signed(certs, "/cb/"))
        exchange(port, signed(certs, "/cb/", key="callback-test"))
        assert exchange(port, signed(certs, "/other/"))[0] == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    lines = out.splitlines()
    assert lines[:2] == ["1  POST /cb/  200  verified by live: AccessGranted", "2  POST /cb/  400  refused"]
    assert re.fullmatch(r"  error: .*\[callback\.signature\]", lines[2])
    assert (process.returncode, err) == (0, "stopped\n")


def test_sigterm_ends_it_with_exit_0(tmp_path):
    with command(tmp_path) as (process, _):
        process.terminate()
        assert process.communicate(timeout=20) == ("", "stopped\n")
        assert process.returncode == 0


def test_sigint_ends_a_background_job_of_a_shell(tmp_path):
    # Such a job starts with SIGINT ignored.
    script = f'"{TPPKIT}" callback listen --port 0 2> err & job=$!; until test -s err; do sleep 0.05; done; kill -INT $job; wait $job'
    assert subprocess.run(["sh", "-c", script], cwd=tmp_path, timeout=30, check=False).returncode == 0
    assert (tmp_path / "err").read_text("utf-8").endswith("stopped\n")


@contextmanager
def dripping(start: bytes, more: bytes) -> Iterator[str]:
    """A server that sends its answer for ever, a few bytes at a time."""
    over = threading.Event()

    def answer() -> None:
        with suppress(OSError), server.accept()[0] as connection:
            connection.recv(65536)
            connection.sendall(start)
            while not over.wait(0.02):
                connection.sendall(more)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            thread.join(20)


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
def test_an_answer_that_never_ends_is_cut_off(start, more):
    with dripping(start, more) as url, pytest.raises(TransportError) as failed:
        send_message(b"GET / HTTP/1.1\r\n\r\n", place=parse_place(url), timeout_s=0.3)
    assert (failed.value.code, "more than 0.3 seconds" in failed.value.message) == ("transport.failed", True)


@pytest.mark.parametrize("verdict", [True, False])
def test_a_replayed_callback_is_unchanged_and_its_answer_printed(tppkit, certs, tmp_path, receiver, verdict):
    message, seen = signed(certs, "/cb/"), []
    (tmp_path / "callbacks").mkdir()
    (tmp_path / "callbacks" / "1.http").write_bytes(message)
    refusing = receiver_of(certs, CallbackAddress("https://tpp.example/other/", CallbackKind.ACCESS))
    with receiving(receiver if verdict else refusing, seen) as port:
        result = tppkit("callback", "replay", "1", "--to", f"http://127.0.0.1:{port}", "--json")
    assert (result.exit_code, result.json["status"]) == ((0, 200) if verdict else (1, 400))
    signature = dict(seen[0].headers)["signature"]
    assert (seen[0].body, f"signature: {signature}\r\n".encode() in message) == (ACCESS, True)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("replay", "request", "--to", "http://192.0.2.1/"), (2, "callback.place")),
        (("replay", "7", "--to", "http://127.0.0.1:1"), (3, "file.unreadable")),
        (("listen", "--public-key", "live.pub"), (2, "usage.wrong")),
    ],
)
def test_wrong_arguments_have_a_code(tppkit, arguments, code):
    result = tppkit("callback", *arguments, "--json")
    assert (result.exit_code, result.json["error"]["code"]) == code


def test_a_taken_port_has_a_code(tppkit):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = tppkit("callback", "listen", "--port", taken.getsockname()[1], "--json")
    assert (result.exit_code, result.json["error"]["code"]) == (2, "listen.port")


@pytest.mark.parametrize(
    "url",
    ["http://example.com/", "https://127.0.0.1/", "http://a@127.0.0.1/", "http://127.0.0.1/ x", "http://127.0.0.1:x/", "http:///", "",
     "http://127.0.0.1/\r\nx:y", "http://[::1", "http://127.0.0.1.example.com/", "http://127.0.0.1:0/"],
)  # fmt: skip
def test_other_machines_are_refused(url):
    with pytest.raises(ConfigurationError) as refused:
        parse_place(url)
    assert refused.value.code == "callback.place"


@pytest.mark.parametrize(
    ("url", "remote", "place"),
    [
        ("http://localhost", False, ("127.0.0.1", 80, "", False)),
        ("http://127.0.0.1:8000/", False, ("127.0.0.1", 8000, "", False)),
        ("http://[::1]:8000/a?b", False, ("::1", 8000, "/a?b", False)),
        ("https://staging.example/cb/", True, ("staging.example", 443, "/cb/", True)),
    ],
)
def test_a_destination_is_parsed(url, remote, place):
    assert parse_place(url, remote=remote) == place


def test_the_newest_are_kept_and_numbers_continue(tmp_path):
    for start in (1, 6):
        folder = CallbackFolder(tmp_path, most=3)
        numbers = [folder.add(ReceivedCallback("POST", f"/{start}", (), b"{}")) for _ in range(5)]
        assert numbers == [str(start + i) for i in range(5)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["10.http", "8.http", "9.http"]
    assert read_request(str(tmp_path / "9.http")) == ReceivedCallback("POST", "/6", (), b"{}")


def test_only_the_owner_can_read_a_kept_callback(tmp_path):
    CallbackFolder(tmp_path / "new").add(ReceivedCallback("POST", "/", (), b"{}"))
    assert (tmp_path / "new" / "1.http").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_two_listeners_share_a_folder(tmp_path):
    one, other = CallbackFolder(tmp_path), CallbackFolder(tmp_path)
    numbers = [folder.add(ReceivedCallback("POST", f"/{n}")) for n, folder in enumerate((one, other, other, one))]
    assert numbers == ["1", "2", "3", "4"]
    assert [read_request(str(tmp_path / f"{number}.http")).target for number in numbers] == ["/0", "/1", "/2", "/3"]
