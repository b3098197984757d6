"""A gate under load whose lists, authorities and CRLs are replaced, with files in between that cannot be used."""

from __future__ import annotations

import http.client
import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple

import pytest
from asgi import EVERY_PATH, Recorder, sealed
from operator_files import AT, LATER, OperatorFiles, halve
from serving import run_uvicorn, wait_until
from wsgi import forwarded

from tppkit.seals import KeySigner, Message, Seal, SealPolicy
from tppkit.trust import Reloader
from tppkit.web import ProxyForm, QwacPolicy, SealGate, SealMiddleware, TrustedProxy

pytestmark = pytest.mark.slow
CONNECTIONS = 16


class Answer(NamedTuple):
    """When a request was sent, and how it was answered."""

    sent: float
    status: int
    code: str


class Load:
    """Clients that send one sealed request again and again, each over its own connection."""

    def __init__(self, port: int, message: Message) -> None:
        self._port, self._message = port, message
        self._stop = threading.Event()
        self.answers: list[Answer] = []
        self.errors: list[Exception] = []

    def work(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            while not self._stop.is_set():
                sent = time.monotonic()
                message = self._message
                connection.request(message.method, message.target, message.body, dict(message.headers))
                answer = connection.getresponse()
                body = answer.read()
                code = "" if answer.status == 201 else json.loads(body)["tppMessages"][0]["code"]
                self.answers.append(Answer(sent, answer.status, code))
        except Exception as e:  # noqa: BLE001  # raised in `running`
            self.errors.append(e)
        finally:
            connection.close()

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=self.work) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(60)
        assert self.errors == []

    def codes(self, since: float) -> set[str]:
        """The codes of requests that were sent after a time, when as many as there are connections were sent after now."""
        now = time.monotonic()
        wait_until(lambda: sum(one.sent > now for one in self.answers) >= CONNECTIONS, "the load")
        return {one.code for one in self.answers if one.sent > since}


def test_each_swap_counts_from_the_next_request_and_a_broken_file_never(tmp_path, pki, operator, commission, caplog):
    files = OperatorFiles(tmp_path, pki, operator, commission)
    root = files.anchors / "0.pem"
    serial = pki.qwac.certificate.serial
    minutes = iter(range(1, 60))

    def crls(*revoked: int) -> None:
        files.write_crls(AT + timedelta(minutes=next(minutes)), *revoked)

    steps = [  # what an operator does, the code of requests after it; a refusal is a reload that is refused
        (lambda: crls(serial), "CERTIFICATE_REVOKED", None),
        (crls, "", None),
        (lambda: halve(files.lists / "PT.xml"), "", "trusted-list.malformed"),
        (lambda: files.write_lists(number=8, granted=False), "CERTIFICATE_INVALID", None),
        (lambda: files.write_lists(number=9), "", None),
        (lambda: halve(root), "", "trust.unreadable"),
        (lambda: root.write_bytes(b""), "", "trust.unreadable"),
        (lambda: [one.unlink() for one in files.anchors.iterdir()], "", "trust.no-anchors"),
        (files.write_anchors, "", None),
        (lambda: files.write_anchors(pki.qwac_ca.certificate), "CERTIFICATE_INVALID", None),
        (files.write_anchors, "", None),
        (lambda: halve(files.crls / f"{pki.qwac_ca.label}.crl"), "", "revocation.unreadable"),
        (lambda: crls(serial), "CERTIFICATE_REVOKED", None),
    ]
    material = files.load()
    gate = SealGate(
        EVERY_PATH, qwacs=QwacPolicy(material), seals=SealPolicy(material), now=lambda: LATER,
        trusted_proxies=[TrustedProxy("127.0.0.1", form=ProxyForm.RFC9440)],
    )  # fmt: skip
    counted: list[tuple[str, str]] = []
    reloader = Reloader(
        material, every=0.02, count=lambda outcome, code, _: counted.append((outcome, code)), now=lambda: LATER
    )
    message = forwarded(sealed(Seal(pki.qseal.certificate, KeySigner(pki.qseal.key))), pki)
    caplog.set_level(logging.ERROR, "tppkit.trust")
    with run_uvicorn(SealMiddleware(Recorder(), gate=gate)) as port, reloader:
        load = Load(port, message)
        with load.running():
            expected, steady = "", time.monotonic()
            for number, (change, code, refusal) in enumerate(steps):
                assert load.codes(steady) == {expected}, number
                seen = len(counted)
                change()
                if refusal is None:
                    wait_until(lambda: not material.has_changed, "the reload")
                    expected, steady = code, time.monotonic()
                else:
                    wait_until(lambda seen=seen, refusal=refusal: ("refused", refusal) in counted[seen:], "the refusal")
            assert load.codes(steady) == {expected}
    assert {one.status for one in load.answers} == {201, 401}
    logged = [record.getMessage() for record in caplog.records if record.name == "tppkit.trust"]
    assert all(one != other for one, other in pairwise(logged))
    assert len([one for one in counted if one[0] == "refused"]) > len(logged)
