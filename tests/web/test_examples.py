"""The examples, each as a real server: sealed requests are handled and changed ones are not, and a callback has one effect."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
from asgi import sealed
from callback_servers import Response, Server, request, run_server, running
from cryptography.hazmat.primitives.asymmetric import ec
from serving import free_port, run_program, send

from programs import TPPKIT
from tppkit.callbacks import sign_callback
from tppkit.certificates import EidasCertificate
from tppkit.protocol.psd2.models import PaymentInitiated
from tppkit.seals import Message, load_private_key, sign_request
from tppkit.testpki import certificate_pem, write_pki

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
UVICORN = ("-m", "uvicorn", "--no-proxy-headers", "--port", "{port}")
COMMANDS = {
    "fastapi_bank": (*UVICORN, "fastapi_bank:app"),
    "starlette_bank": (*UVICORN, "starlette_bank:app"),
    "flask_bank": ("-m", "waitress", "--listen=127.0.0.1:{port}", "--max-request-body-size=65536", "flask_bank:app"),
    "django_bank": (
        "-m",
        "gunicorn",
        "--no-control-socket",
        "--forwarder-headers",
        "",
        "--bind",
        "127.0.0.1:{port}",
        "django_bank:application",
    ),
}
TARGET = "/psd2/v1/payments/sepa-credit-transfers"
BODY = (
    b'{"instructedAmount":{"currency":"EUR","amount":"12.50"},'
    b'"creditorAccount":{"iban":"LT601010012345678901"}, "creditorName":"Bookshop"}'
)


@contextmanager
def serve(name: str, anchors: Path, scratch: Path) -> Iterator[str]:
    port = free_port()
    module = os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    environment = {"BANK_ANCHORS": str(anchors), "PYTHONPATH": module}
    command = [sys.executable, *(part.format(port=port) for part in COMMANDS[name])]
    with run_program(command, port=port, folder=scratch, environment=environment):
        yield f"http://127.0.0.1:{port}"


def forwarded(message: Message, certificate: EidasCertificate) -> Message:
    """The message as nginx sends it on."""
    return message.with_headers(("X-SSL-Client-Cert", quote(certificate_pem(certificate).decode(), safe="")))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_handles_what_was_sealed_and_nothing_else(name, bank_pki_folder, bank_pki, live_seal, tmp_path):
    qwac = bank_pki.qwac.certificate

    def fresh(body: bytes = BODY) -> Message:
        return forwarded(sealed(live_seal, target=TARGET, body=body, request_id=None), qwac)

    with serve(name, bank_pki_folder, tmp_path) as url:
        first = send(url, fresh())
        tampered = send(url, fresh()._replace(body=BODY.replace(b"12.50", b"99.99")))
        elsewhere = send(url, fresh()._replace(target=TARGET.replace("sepa", "instant-sepa")))
        spoofed = send(url, fresh(), local="127.0.0.2")
        huge = send(url, fresh(b"x" * 65_537))
        unknown = send(url, forwarded(sealed(live_seal, target=TARGET + "x", body=BODY, request_id=None), qwac))
        text = sign_request(
            Message("POST", TARGET, (("X-Request-ID", str(uuid4())), ("Content-Type", "text/plain")), BODY),
            seal=live_seal,
        )
        as_text = send(url, forwarded(text, qwac))
        poll = Message("GET", f"{TARGET}/1/status", (("X-Request-ID", str(uuid4())),))
        unhandled = send(url, forwarded(poll, qwac))
        unreadable = send(url, fresh(b"not json"))
        last = fresh()
        second = send(url, last)
        again = send(url, last)
    assert first.status_code == 201, first.text
    told = PaymentInitiated.from_wire(first.content)
    assert (told.payment_id, told.transaction_status, told.links.self_.href) == ("1", "RCVD", f"{TARGET}/1")
    assert (unreadable.status_code, unreadable.json()["tppMessages"][0]["code"]) == (400, "FORMAT_ERROR")
    assert first.headers["Content-Type"] == "application/json"
    assert UUID(first.headers["X-Request-ID"])
    for answer, status, code in (
        (unknown, 404, "PRODUCT_UNKNOWN"),
        (as_text, 400, "FORMAT_ERROR"),
        (unhandled, 404, "RESOURCE_UNKNOWN"),
    ):
        assert (answer.status_code, answer.json()["tppMessages"][0]["code"]) == (status, code), answer.text
    assert unhandled.headers["X-Request-ID"] == poll.values("X-Request-ID")[0]
    assert huge.status_code == 413
    assert (tampered.status_code, elsewhere.status_code, spoofed.status_code) == (401, 401, 401)
    codes = [json.loads(answer.content)["tppMessages"][0]["code"] for answer in (tampered, elsewhere, spoofed)]
    assert codes == ["SIGNATURE_INVALID", "SIGNATURE_INVALID", "CERTIFICATE_MISSING"]
    assert second.json()["paymentId"] == "2"  # no handler ran in between
    assert again.json() == second.json()  # the provider got no answer, and its payment is made once
    assert sorted(COMMANDS) == sorted(path.stem for path in EXAMPLES.glob("*_bank.py"))


TOKEN = "4fZ0aB9" * 4
ACCESS = b'{"token":"abcdefghijklmnopqrstuvwxyz","exp":"2030-01-01 12:00:00"}'
_NUMBERS = count()

CALLBACKS = {
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
    for name, command in CALLBACKS.items():
        (folder / name).mkdir()
        (folder / name / "service.pub").write_bytes((folder / "certs" / "callback-live.pub").read_bytes())
        servers[name] = Server(command, folder=folder / name, path=EXAMPLES)
    worker = Server((str(TPPKIT), *WORKER), folder=folder / "flask", path=EXAMPLES)
    with running(servers, environment={}, log=folder / "log") as ports, run_server(worker, 0, {}, folder / "log"):
        key, log = folder / "certs" / "callback-live.key", folder / "log"
        yield {name: Running(port, key, folder=folder / name, log=log) for name, port in ports.items()}


@pytest.fixture(params=CALLBACKS)
def example(request, examples) -> Running:
    return examples[request.param]


def transaction(record: str, ver: int, tlc: str) -> bytes:
    return f'{{"id":"{record}","ver":{ver},"timeStamp":0,"tlc":"{tlc}","acc":"LT12","amount":["EUR-1"]}}'.encode()


def test_every_example_of_callbacks_is_tested():
    assert sorted(f"callbacks_{name}" for name in CALLBACKS) == sorted(
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
        assert example.call(f"/cb/{TOKEN}", transaction("T-1", ver, tlc)).status == 200
        assert (
            example.effects(at_least=len(before) + done)
            == [*before, "T-1 2 executed", "T-1 3 settled"][: len(before) + done]
        )


def test_a_scan_is_answered_with_who_asks_and_is_not_a_login(example):
    before = example.effects()
    for _ in range(2):  # the service may not have got the first answer
        response = example.call(f"/login/{TOKEN}", method="GET", request_id="login")
        assert (response.status, json.loads(response.body)) == (200, {"name": "Bookshop", "perm": ["NAME", "EMAIL"]})
    assert example.call(f"/login/{TOKEN}", b'{"id":7}').status == 200
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
    assert example.call(f"/cb/{TOKEN}", transaction("T-2", 1, "posted")).status == 200
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
