"""`tppkit callback listen` and `replay`: real processes, real sockets, no network."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from programs import TPPKIT
from tppkit.callbacks import ReceivedCallback, sign_callback
from tppkit.cli.callback_kept import KeptCallbacks, load_kept
from tppkit.cli.callback_sending import parse_place, send_message
from tppkit.errors import ConfigurationError, TransportError
from tppkit.seals import load_private_key
from tppkit.testpki import write_pki

BASE = "https://tpp.example/cb"
UUID = "a1" * 12
ACCESS = b'{"token":"abcdefghijklmnopqrstuvwxyz","exp":"2030-01-01 12:00:00"}'


@pytest.fixture(scope="module")
def certs(pki, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pki") / "certs"
    write_pki(pki, folder)
    return folder


class Listening:
    """A running listener."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port

    def line(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())


@contextmanager
def listening(folder: Path, *options: object) -> Iterator[Listening]:
    command = [str(TPPKIT), "callback", "listen", "--port", "0", "--json", *map(str, options)]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONWARNINGS": "error", "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stderr
    first = process.stderr.readline()
    found = re.search(r":(\d+);", first)
    assert found, first
    try:
        yield Listening(process, int(found[1]))
    finally:
        process.kill()
        process.communicate()


def exchange(port: int, message: bytes) -> tuple[int, bytes]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(message)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


def signed(
    certs: Path, target: str, body: bytes = ACCESS, *, key: str = "callback-live", request_id: str = "r-1"
) -> bytes:
    """As on the wire; a target beyond ASCII as raw UTF-8."""
    private = load_private_key((certs / f"{key}.key").read_bytes())
    url = "https://tpp.example" + target
    headers = sign_callback(private, request_id=request_id, method="POST", url=url, body=body)  # type: ignore[arg-type]
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode() + body


class Local:
    """A developer's own receiver; remembers the first lines, headers and bodies that came."""

    def __init__(self, status: int = 202) -> None:
        self.seen: list[tuple[str, dict[str, str], bytes]] = []
        seen = self.seen

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                seen.append((self.requestline, dict(self.headers.items()), body))
                self.send_response_only(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(b'{"ok":true}')

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Local:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def keys(certs: Path) -> tuple[object, ...]:
    return "--public-key", f"live={certs / 'callback-live.pub'}", "--base-url", BASE


def test_a_callback_is_verified_and_acknowledged(certs, tmp_path):
    with listening(tmp_path, *keys(certs)) as listener:
        assert exchange(listener.port, signed(certs, "/cb/")) == (200, b"")
        line = listener.line()
        assert (line["verdict"], line["key_name"], line["event"], line["answered"]) == (
            "holds",
            "live",
            "AccessGranted",
            200,
        )


def test_a_refused_callback_is_explained(certs, tmp_path):
    with listening(tmp_path, *keys(certs)) as listener:
        assert exchange(listener.port, signed(certs, "/cb").replace(b" /cb ", b" /cb/ ")) == (400, b"")
        line = listener.line()
        assert [finding["code"] for finding in line["findings"]] == ["callback.signature", "callback-cause.url-slash"]


@pytest.mark.parametrize("word", ["ž", "Å", "à", "日"])
def test_a_target_of_raw_utf8_is_taken_kept_explained_and_sent_again_as_it_came(tppkit, certs, tmp_path, word):
    address = ("--public-key", f"live={certs / 'callback-live.pub'}", "--address", f"access={BASE}/{word}/")
    message = signed(certs, f"/cb/{word}/")
    with listening(tmp_path, *address) as listener:
        assert exchange(listener.port, message)[0] == 200
        assert listener.line()["verdict"] == "holds"
        assert f"POST /cb/{word}/ HTTP/1.1".encode() in (tmp_path / "callbacks" / "1.http").read_bytes()
        assert tppkit("callback", "explain", "callbacks/1.http", *address).exit_code == 0
        assert tppkit("callback", "verify", "callbacks/1.http", *address).exit_code == 0
        assert tppkit("callback", "replay", "1", "--to", f"http://127.0.0.1:{listener.port}").exit_code == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b" /cb/ ", b" /cb/ x "), (b" /cb/ ", b" /cb/\t "), (b" /cb/ ", b"  /cb/ "), (b" /cb/ ", b" /cb/\x00 "), (b" /cb/ ", b" /cb/\x7f "),
        (b"Host: x", b"Content-Length: 1"),
        (b"Host: x", b"no colon"), (b"Host: x", b"X A: b"), (b"Host: x", b": b"), (b"Host: x", b"\xe9: b"), (b"Host: x", b" b: c"),
        (b"Host: x", b"From b"), (b"Host: x", b"Host: x\r\nFrom b"), (b"Host: x", b"Host : x"),
    ],
)  # fmt: skip
def test_what_could_be_read_in_two_ways_is_not_taken(certs, tmp_path, old, new):
    with listening(tmp_path, *keys(certs)) as listener:
        assert exchange(listener.port, signed(certs, "/cb/").replace(old, new, 1))[0] == 400
    assert list((tmp_path / "callbacks").iterdir()) == []


@pytest.mark.parametrize("kind", [b"multipart/form-data; boundary=x", b"message/rfc822"])
def test_a_content_type_of_mail_is_a_header_like_others(certs, tmp_path, kind):
    with listening(tmp_path, *keys(certs)) as listener:
        message = signed(certs, "/cb/").replace(b"Host: x", b"Content-Type: " + kind, 1)
        assert exchange(listener.port, message)[0] == 200


def test_another_address_is_not_found(certs, tmp_path):
    with listening(tmp_path, *keys(certs)) as listener:
        assert exchange(listener.port, signed(certs, "/other/"))[0] == 404
        assert listener.line()["code"] == "callback.address"


def test_a_further_address_is_taken(certs, tmp_path):
    with listening(tmp_path, *keys(certs), "--address", "https://tpp.example/other/") as listener:
        assert exchange(listener.port, signed(certs, "/other/"))[0] == 200


def test_without_a_key_everything_is_shown_and_nothing_verified(certs, tmp_path):
    with listening(tmp_path) as listener:
        assert exchange(listener.port, signed(certs, "/cb/"))[0] == 200
        line = listener.line()
        assert (line["verdict"], line["findings"], line["target"]) == (None, [], "/cb/")


def test_people_get_a_line_and_the_likely_cause(certs, tmp_path):
    command = [str(TPPKIT), "callback", "listen", "--port", "0", *map(str, keys(certs))]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )  # fmt: skip
    assert process.stderr
    port = int(re.search(r":(\d+);", process.stderr.readline())[1])  # type: ignore[index]
    exchange(port, signed(certs, "/cb/"))
    exchange(port, signed(certs, "/cb/", key="callback-test"))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    lines = out.splitlines()
    assert lines[0] == "1  POST /cb/  200  verified by live: AccessGranted"
    assert lines[1] == "2  POST /cb/  400  refused"
    assert lines[2].startswith("  error: ")
    assert lines[2].endswith("[callback.signature]")
    assert (process.returncode, err) == (0, "stopped\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_cleanly(certs, tmp_path, number):
    with listening(tmp_path) as listener:
        listener.process.send_signal(number)
        assert listener.process.communicate(timeout=20) == ("", "stopped\n")
        assert listener.process.returncode == 0


def test_the_exact_bytes_go_on_to_a_local_address(certs, tmp_path):
    message = signed(
        certs, f"/cb/{UUID}", b'{"id":"T-1","ver":1,"timeStamp":0,"tlc":"posted","acc":"1","amount":["EUR-1"]}  '
    )
    with Local() as local, listening(tmp_path, *keys(certs), "--forward", local.url) as listener:
        assert exchange(listener.port, message) == (202, b'{"ok":true}')
        line, headers, body = local.seen[0]
        assert line == f"POST /cb/{UUID} HTTP/1.1"
        assert body == message.partition(b"\r\n\r\n")[2]
        assert headers["requestid"] == "r-1"
        assert f"signature: {headers['signature']}\r\n".encode() in message
        assert listener.line()["forwarded"] == 202


def test_a_local_address_with_a_path_takes_all(certs, tmp_path):
    with Local() as local, listening(tmp_path, *keys(certs), "--forward", f"{local.url}/hook?a=b") as listener:
        exchange(listener.port, signed(certs, "/cb/"))
        assert local.seen[0][0] == "POST /hook?a=b HTTP/1.1"


@pytest.mark.parametrize(("options", "count"), [((), 0), (("--forward-all",), 1)])
def test_a_refused_callback_goes_on_only_when_asked(certs, tmp_path, options, count):
    with Local() as local, listening(tmp_path, *keys(certs), "--forward", local.url, *options) as listener:
        exchange(listener.port, signed(certs, "/cb/", key="callback-test"))
        assert len(local.seen) == count


def test_a_local_address_that_is_dead_is_told(certs, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with listening(tmp_path, *keys(certs), "--forward", url) as listener:
        assert exchange(listener.port, signed(certs, "/cb/"))[0] == 502


@contextmanager
def dripping(start: bytes, more: bytes) -> Iterator[str]:
    """A local address whose answer never ends, though something of it comes all the time."""
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
def test_an_answer_that_never_ends_is_none(start, more):
    with dripping(start, more) as url, pytest.raises(TransportError) as failed:
        send_message(b"GET / HTTP/1.1\r\n\r\n", place=parse_place(url), timeout_s=0.3)
    assert (failed.value.code, "more than 0.3 seconds" in failed.value.message) == ("transport.failed", True)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"Transfer-Encoding: chunked", 411),
        (b"Content-Length: 65537", 413),
        (b"Content-Length: 99999999999999999999", 413),
        (b"Content-Length: -1", 400),
        (b"Content-Length: 0\r\nX: a\r\n b", 400),
        (b"Content-Length: 5", 400),
        (b"Content-Length: 0\r\nContent-Length: 5", 400),
        (b"Content-Length: 5\r\nContent-Length: 0", 400),
    ],
)
def test_what_cannot_be_kept_is_not_read(tmp_path, head, status):
    with (
        listening(tmp_path) as listener,
        socket.create_connection(("127.0.0.1", listener.port), timeout=20) as connection,
    ):
        connection.sendall(b"POST / HTTP/1.1\r\n" + head + b"\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        assert int(connection.recv(100).split(b" ")[1]) == status
        assert not any((tmp_path / "callbacks").iterdir())


@pytest.mark.parametrize("target", [b"/cb/\x1b[31mred", b"/cb/\x0bred"])
def test_what_could_not_be_read_again_is_refused(tmp_path, target):
    with listening(tmp_path) as listener:
        assert exchange(listener.port, b"POST " + target + b" HTTP/1.1\r\nContent-Length: 0\r\n\r\n")[0] == 400
        assert not any((tmp_path / "callbacks").iterdir())


def test_a_body_that_is_announced_too_long_and_never_sent_is_answered_before_anything_else(tmp_path):
    with (
        listening(tmp_path) as listener,
        socket.create_connection(("127.0.0.1", listener.port), timeout=8) as slow,  # less than one read may take
    ):
        slow.sendall(b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n")  # and stays
        assert int(slow.recv(100).split(b" ")[1]) == 413
        assert exchange(listener.port, b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")[0] == 200


def test_every_attack_is_answered_rightly_but_the_one_that_only_a_memory_of_requestids_knows(tppkit, certs, tmp_path):
    with listening(tmp_path, *keys(certs)) as listener:
        url = f"http://127.0.0.1:{listener.port}/cb/"
        options = ("--key", certs / "callback-live.key", "--signed-url", f"{BASE}/", "--json")
        attacks = tppkit("callback", "attack", url, *options).json["attacks"]
    assert [row["name"] for row in attacks if not row["passed"]] == ["requestid-reused"]


def test_a_kept_callback_is_sent_again(tppkit, certs, tmp_path):
    message = signed(certs, "/cb/")
    with listening(tmp_path) as listener:
        exchange(listener.port, message)
    with Local(200) as local:
        result = tppkit("callback", "replay", "1", "--to", local.url)
        assert (result.exit_code, result.stdout) == (0, 'answered 200\n  body  {"ok":true}\n')
        assert local.seen[0][2] == ACCESS
        assert f"signature: {local.seen[0][1]['signature']}\r\n".encode() in message


def test_a_kept_callback_verifies_from_its_file(tppkit, certs, tmp_path):
    with listening(tmp_path) as listener:
        exchange(listener.port, signed(certs, "/cb/"))
    options = ("--public-key", certs / "callback-live.pub", "--address", f"access={BASE}/")
    assert tppkit("callback", "verify", "callbacks/1.http", *options).exit_code == 0


def test_a_refusal_of_the_replayed_callback_is_told(tppkit, certs, tmp_path):
    (tmp_path / "request").write_bytes(signed(certs, "/cb/"))
    with Local(400) as local:
        result = tppkit("callback", "replay", "request", "--to", f"{local.url}/hook", "--json")
        assert (result.exit_code, result.json["status"], result.json["body"]) == (1, 400, '{"ok":true}')


def test_other_machines_are_sent_to_only_when_asked(tppkit, certs, tmp_path):
    (tmp_path / "request").write_bytes(signed(certs, "/cb/"))
    result = tppkit("callback", "replay", "request", "--to", "http://192.0.2.1/", "--json")
    assert (result.exit_code, result.json["error"]["code"]) == (2, "callback.place")


def test_a_number_that_is_not_kept_is_told(tppkit):
    result = tppkit("callback", "replay", "7", "--to", "http://127.0.0.1:1", "--json")
    assert (result.exit_code, result.json["error"]["code"]) == (3, "file.unreadable")


def test_a_key_without_an_address_is_wrong_usage(tppkit, certs):
    assert tppkit("callback", "listen", "--public-key", certs / "callback-live.pub").exit_code == 2


def test_a_port_that_is_taken_is_told(tppkit):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = tppkit("callback", "listen", "--port", taken.getsockname()[1], "--json")
    assert (result.exit_code, result.json["error"]["code"]) == (2, "listen.port")


@pytest.mark.parametrize(
    "url",
    ["http://example.com/", "https://127.0.0.1/", "http://a@127.0.0.1/", "http://127.0.0.1/ x", "http://127.0.0.1:x/", "http:///", "",
     "http://127.0.0.1/\r\nx:y", "http://[::1", "http://127.0.0.1.example.com/", "http://127.0.0.1:0/"],
)  # fmt: skip
def test_only_this_machine_is_sent_to(url):
    with pytest.raises(ConfigurationError) as refused:
        parse_place(url)
    assert refused.value.code == "callback.place"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://localhost", ("127.0.0.1", 80, "", False)),
        ("http://127.0.0.1:8000/", ("127.0.0.1", 8000, "", False)),
        ("http://[::1]:8000/a?b", ("::1", 8000, "/a?b", False)),
    ],
)
def test_where_to_send(url, place):
    assert parse_place(url) == place


def test_elsewhere_when_asked():
    assert parse_place("https://staging.example/cb/", remote=True) == ("staging.example", 443, "/cb/", True)


def test_the_newest_are_kept_and_numbers_go_on(tmp_path):
    for start in (1, 6):
        kept = KeptCallbacks(tmp_path, most=3)
        numbers = [kept.add(ReceivedCallback("POST", f"/{start}", (), b"{}")) for _ in range(5)]
        assert numbers == [str(start + i) for i in range(5)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["10.http", "8.http", "9.http"]
    assert load_kept("9", folder=tmp_path) == ReceivedCallback("POST", "/6", (), b"{}")


def test_a_kept_callback_is_its_owners(tmp_path):
    KeptCallbacks(tmp_path / "new").add(ReceivedCallback("POST", "/", (), b"{}"))
    assert (tmp_path / "new" / "1.http").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_background_job_of_a_shell_stops_on_sigint_too(tmp_path):
    # Such a job starts with SIGINT ignored.
    script = f'"{TPPKIT}" callback listen --port 0 2> err & job=$!; until test -s err; do sleep 0.05; done; kill -INT $job; wait $job'
    assert subprocess.run(["sh", "-c", script], cwd=tmp_path, timeout=30, check=False).returncode == 0
    assert (tmp_path / "err").read_text("utf-8").endswith("stopped\n")


def test_two_listeners_share_a_folder(tmp_path):
    one, other = KeptCallbacks(tmp_path), KeptCallbacks(tmp_path)
    numbers = [kept.add(ReceivedCallback("POST", f"/{place}")) for place, kept in enumerate((one, other, other, one))]
    assert numbers == ["1", "2", "3", "4"]
    assert [load_kept(number, folder=tmp_path).target for number in numbers] == ["/0", "/1", "/2", "/3"]
