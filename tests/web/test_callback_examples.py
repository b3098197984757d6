"""The examples for FastAPI, Flask and Django, each run by a real server: one effect a callback, whatever is sent."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from callback_servers import Response, Server, request, run_server, running
from cryptography.hazmat.primitives.asymmetric import ec

from programs import TPPKIT
from tppkit.callbacks import sign_callback
from tppkit.seals import load_private_key
from tppkit.testpki import write_pki

EXAMPLES = Path(__file__).parents[2] / "examples"
UUID = "4fZ0aB9" * 4
ACCESS = b'{"token":"abcdefghijklmnopqrstuvwxyz","exp":"2030-01-01 12:00:00"}'
_NUMBERS = count()

COMMANDS = {
    "fastapi": ("-m", "uvicorn", "callbacks_fastapi:app", "--port", "{port}", "--no-proxy-headers"),
    "flask": ("-m", "gunicorn", "callbacks_flask:app", "-b", "127.0.0.1:{port}", "--workers", "2"),
    "django": ("-m", "waitress", "--listen=127.0.0.1:{port}", "callbacks_django:application"),
}
WORKER = (
    "inbox", "work", "--database", "sqlite:///tpp.sqlite", "--handler", "callbacks_flask:work", "--forever", "--interval", "0.1",
)  # fmt: skip


class Running:
    """An example that runs: its port, the key whose callbacks it takes, its folder, and what all examples have said."""

    def __init__(self, port: int, key: Path, *, folder: Path, log: Path) -> None:
        self.port, self.key_path, self.folder, self.log = port, key, folder, log
        key_object = load_private_key(key.read_bytes())
        assert isinstance(key_object, ec.EllipticCurvePrivateKey)
        self.key = key_object

    def call(self, path: str, body: bytes = b"", *, method: str = "POST", request_id: str | None = None) -> Response:
        request_id = request_id or f"r-{next(_NUMBERS)}"
        headers = sign_callback(
            self.key, request_id=request_id, method=method, url=f"https://tpp.example{path}", body=body
        )
        return request(self.port, method, path, headers, body)

    def effects(self, *, at_least: int = 0) -> list[str]:
        """What callbacks have done, once there is so much: the worker of the Flask example comes a moment later."""
        deadline = time.monotonic() + 20
        while len(found := json.loads(request(self.port, "GET", "/effects").body)) < at_least:
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        return list(found)


@pytest.fixture(scope="module")
def examples(pki, tmp_path_factory) -> Iterator[dict[str, Running]]:
    folder = tmp_path_factory.mktemp("examples")
    write_pki(pki, folder / "certs")
    servers = {}
    for name, command in COMMANDS.items():
        (folder / name).mkdir()
        (folder / name / "service.pub").write_bytes((folder / "certs" / "callback-live.pub").read_bytes())
        servers[name] = Server(command, folder=folder / name, path=EXAMPLES)
    worker = Server((str(TPPKIT), *WORKER), folder=folder / "flask", path=EXAMPLES)
    with running(servers, environment={}, log=folder / "log") as ports, run_server(worker, 0, {}, folder / "log"):
        key, log = folder / "certs" / "callback-live.key", folder / "log"
        yield {name: Running(port, key, folder=folder / name, log=log) for name, port in ports.items()}


@pytest.fixture(params=COMMANDS)
def example(request, examples) -> Running:
    return examples[request.param]


def transaction(record: str, ver: int, tlc: str) -> bytes:
    return f'{{"id":"{record}","ver":{ver},"timeStamp":0,"tlc":"{tlc}","acc":"LT12","amount":["EUR-1"]}}'.encode()


def test_every_example_of_callbacks_is_tested():
    assert sorted(f"callbacks_{name}" for name in COMMANDS) == sorted(
        path.stem for path in EXAMPLES.glob("callbacks_*.py")
    )


def test_a_callback_has_its_effect_once_and_a_refused_one_gets_a_bare_status(example):
    before = example.effects()
    for _ in range(3):
        assert example.call("/cb/", ACCESS, request_id="once") == Response(200, b"")
    assert example.effects(at_least=len(before) + 1) == [*before, "access"]
    before.append("access")
    headers = sign_callback(example.key, request_id="bad", method="POST", url="https://tpp.example/cb/", body=ACCESS)
    assert request(example.port, "POST", "/cb/", headers, ACCESS + b" ") == Response(400, b"")
    assert example.effects() == before


def test_an_older_version_is_acknowledged_and_has_no_effect(example):
    before = example.effects()
    for done, ver, tlc in ((1, 2, "executed"), (1, 1, "posted"), (2, 3, "settled")):
        assert example.call(f"/cb/{UUID}", transaction("T-1", ver, tlc)).status == 200
        assert (
            example.effects(at_least=len(before) + done)
            == [*before, "T-1 2 executed", "T-1 3 settled"][: len(before) + done]
        )


def test_a_scan_is_answered_with_who_asks_and_is_not_a_login(example):
    before = example.effects()
    for _ in range(2):  # the service may not have got the first answer
        response = example.call(f"/login/{UUID}", method="GET", request_id="login")
        assert (response.status, json.loads(response.body)) == (200, {"name": "Bookshop", "perm": ["NAME", "EMAIL"]})
    assert example.call(f"/login/{UUID}", b'{"id":7}').status == 200
    assert example.effects(at_least=len(before) + 1) == [*before, "login"]


def test_a_worker_outlives_a_store_that_fails_for_a_while(examples):
    example = examples["flask"]
    said = len(example.log.read_text())
    with closing(sqlite3.connect(example.folder / "tpp.sqlite", timeout=20)) as connection:
        connection.execute("ALTER TABLE tppkit_inbox_entries RENAME TO away")
        deadline = time.monotonic() + 20
        while "[inbox.unavailable]" not in example.log.read_text()[said:]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        connection.execute("ALTER TABLE away RENAME TO tppkit_inbox_entries")
    assert example.call(f"/cb/{UUID}", transaction("T-2", 1, "posted")).status == 200
    deadline = time.monotonic() + 20
    while "T-2 1 posted" not in example.effects():  # what came before may only be handled now, too
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert example.effects().count("T-2 1 posted") == 1


def test_every_attack_is_answered_rightly(example):
    command = [
        TPPKIT, "callback", "attack", f"http://127.0.0.1:{example.port}/cb/", "--key", example.key_path,
        "--signed-url", "https://tpp.example/cb/", "--json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found = json.loads(done.stdout)
    assert [row for row in found["attacks"] if not row["passed"]] == []
    assert len(found["attacks"]) > 30
