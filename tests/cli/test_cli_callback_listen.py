"""`tppkit callback listen` and `replay` on real sockets; one process for the lines and the signal."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from receivers import receiving

from tppkit.callbacks import CallbackReceiver, load_callback_key, sign_callback
from tppkit.cli.callback_listen import MAX_KEPT, CallbackListener, base_addresses, resend
from tppkit.cli.output import Result
from tppkit.message import Message
from tppkit.sandbox.thread import in_thread
from tppkit.sandbox.uvicorn_server import QuietServer, listen, make_config, serve, stop
from tppkit.seals import load_private_key

pytestmark = pytest.mark.slow

BASE = "https://tpp.example/cb"
TOKEN = "a1" * 12
ACCESS = b'{"token":"abcdefghijklmnopqrstuvwxyz","exp":"2030-01-01 12:00:00"}'
PAYMENT = b'{"id":"T-1","ver":1,"timeStamp":0,"tlc":"posted","acc":"1","amount":["EUR-1"]}  '


def receiver_at(url: str, certs: Path) -> CallbackReceiver:
    return CallbackReceiver(base_addresses(url), keys=[load_callback_key(certs / "callback-live.pub", name="live")])


@contextmanager
def listening(
    certs: Path, folder: Path, *, forward: str = "", forward_all: bool = False
) -> Iterator[tuple[int, list[Result]]]:
    """A running listener: its port and results."""
    receiver = receiver_at(BASE, certs)
    results: list[Result] = []
    send_on = partial(resend, forward, "") if forward else None
    app = CallbackListener(receiver, folder / "callbacks", results.append, forward=send_on, forward_all=forward_all)
    servers = [(QuietServer(make_config(app)), listen("127.0.0.1", 0))]
    with in_thread(lambda ready: serve(servers, on_ready=ready), stop=lambda: stop(servers)):
        yield servers[0][1].getsockname()[1], results


def exchange(port: int, message: bytes) -> int:
    """The status of the answer to a message."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(message)
        return int(connection.recv(65536).split(b" ")[1])


def signed(certs: Path, target: str, body: bytes = ACCESS, *, key: str = "callback-live") -> bytes:
    """A callback as on the wire."""
    private: Any = load_private_key((certs / f"{key}.key").read_bytes())
    headers = sign_callback(private, request_id="r-1", method="POST", url="https://tpp.example" + target, body=body)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode() + body


@pytest.mark.parametrize(
    ("signed_for", "target", "status", "codes"),
    [
        ("/cb/", "/cb/", 200, []),
        ("/cb", "/cb/", 400, ["callback.signature", "callback-cause.url-slash"]),
        ("/other/", "/other/", 404, ["callback.address", "callback-cause.url-unconfigured"]),
    ],
)
def test_a_callback_is_judged_answered_and_explained(certs, tmp_path, signed_for, target, status, codes):
    message = signed(certs, signed_for).replace(f" {signed_for} ".encode(), f" {target} ".encode())
    with listening(certs, tmp_path) as (port, results):
        assert exchange(port, message) == status
    value = results[0].value
    assert (value["verdict"], value["answered"]) == ("fails" if codes else "holds", status)
    assert [finding["code"] for finding in value["findings"]] == codes


def test_a_kept_callback_is_private_and_replayed_unchanged(tppkit, certs, tmp_path):
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(ACCESS), ACCESS)
    message = (
        signed(certs, "/cb/").replace(ACCESS, chunks).replace(b"Content-Length: 66", b"Transfer-Encoding: chunked")
    )
    with listening(certs, tmp_path) as (port, results):
        assert exchange(port, message) == 200
        replayed = tppkit("callback", "replay", "1", "--to", f"http://127.0.0.1:{port}", "--json")
        assert (replayed.exit_code, replayed.json["status"]) == (0, 200)
        assert tppkit("callback", "replay", "callbacks/2.http", "--to", f"http://127.0.0.1:{port}/other").exit_code == 1
    assert [one.value["id"] + one.value["verdict"] for one in results] == ["1holds", "2holds", "3fails"]
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "callbacks", *(tmp_path / "callbacks").iterdir())]
    assert modes == [0o700, 0o600, 0o600, 0o600]


def test_a_verified_callback_is_forwarded_unchanged_and_the_local_answer_is_returned(certs, tmp_path):
    seen: list[Message] = []
    message = signed(certs, f"/cb/{TOKEN}", PAYMENT)
    with (
        receiving(receiver_at("https://tpp.example/other", certs), seen) as local,
        listening(certs, tmp_path, forward=f"http://127.0.0.1:{local}") as (port, results),
    ):
        assert exchange(port, message) == 400
    assert (seen[0].method, seen[0].target, seen[0].body) == ("POST", f"/cb/{TOKEN}", PAYMENT)
    assert f"signature: {dict(seen[0].headers)['signature']}\r\n".encode() in message
    assert (results[0].value["verdict"], results[0].value["forwarded"]) == ("holds", 400)


def test_refused_callbacks_are_forwarded_on_request_and_an_absent_receiver_gives_502(certs, tmp_path):
    refused = signed(certs, "/cb/", key="callback-test")
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with listening(certs, tmp_path, forward=url) as (port, _):
        assert (exchange(port, refused), exchange(port, signed(certs, "/cb/"))) == (400, 502)
    with listening(certs, tmp_path, forward=url, forward_all=True) as (port, _):
        assert exchange(port, refused) == 502


@pytest.mark.parametrize("head", ["Content-Length: 65537", "Transfer-Encoding: chunked"])
def test_an_oversized_request_is_refused_and_not_kept(certs, tmp_path, head):
    chunk = b"10001\r\n" + b"x" * 65537 + b"\r\n" if "chunked" in head else b""
    with listening(certs, tmp_path) as (port, results):
        assert exchange(port, f"POST /cb/ HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode() + chunk) == 413
    assert (results, [*(tmp_path / "callbacks").iterdir()]) == ([], [])


def test_every_attack_but_a_reused_requestid_is_answered_as_expected(tppkit, certs, tmp_path):
    with listening(certs, tmp_path) as (port, _):
        options = ("--key", certs / "callback-live.key", "--signed-url", f"{BASE}/", "--json")
        attacks = tppkit("callback", "attack", f"http://127.0.0.1:{port}/cb/", *options).json["attacks"]
    assert [row["name"] for row in attacks if not row["passed"]] == ["requestid-reused"]


def test_the_newest_callbacks_are_kept(certs, tmp_path):
    (tmp_path / "callbacks").mkdir()
    for number in range(1, MAX_KEPT + 2):
        (tmp_path / "callbacks" / f"{number}.http").touch()
    with listening(certs, tmp_path) as (port, results):
        exchange(port, signed(certs, "/cb/"))
    assert results[0].value["id"] == str(MAX_KEPT + 2)
    assert sorted(int(path.stem) for path in (tmp_path / "callbacks").iterdir()) == [*range(3, MAX_KEPT + 3)]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("replay", "request", "--to", "http://192.0.2.1/"), (2, "callback.place")),
        (("replay", "request", "--to", "https://192.0.2.1/"), (2, "callback.place")),
        (("replay", "7", "--to", "https://192.0.2.1/", "--remote"), (3, "file.unreadable")),
        (("listen", "--public-key", "{pub}", "--base-url", BASE, "--forward", "http://192.0.2.1/"), (2, "callback.place")),
        (("listen", "--public-key", "{pub}", "--base-url", BASE, "--forward-all"), (2, "usage.wrong")),
        (("listen", "--public-key", "{pub}"), (2, "usage.wrong")),
    ],
)  # fmt: skip
def test_wrong_arguments_have_a_code(tppkit, certs, arguments, code):
    result = tppkit("callback", *(one.format(pub=certs / "callback-live.pub") for one in arguments), "--json")
    assert (result.exit_code, result.json["error"]["code"]) == code


def test_a_line_for_each_callback_is_printed_escaped_until_ctrl_c(certs, tmp_path):
    command = [sys.executable, "-m", "tppkit", "callback", "listen", "--port", "0", "--base-url", BASE, "--public-key"]
    with subprocess.Popen(
        [*command, f"live={certs / 'callback-live.pub'}"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    ) as process:  # fmt: skip
        assert process.stderr
        port = int(re.search(r":(\d+);", process.stderr.readline())[1])  # type: ignore[index]  # it prints its port first
        exchange(port, signed(certs, "/cb/"))
        exchange(port, signed(certs, "/cb/", key="callback-test"))
        exchange(port, b"POST /cb/ HTTP/1.1\r\nHost: x\r\nrequestid: \x9b31m\r\nsignature: a\r\n\r\n")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    lines = out.splitlines()
    assert lines[:2] == ["1  POST /cb/  200  verified by live: AccessGranted", "2  POST /cb/  400  refused"]
    assert re.fullmatch(r"  error: .*\[callback\.signature\]", lines[2])
    assert '"\\x9b31m"' in out
    assert (process.returncode, err) == (0, "stopped\n")
