"""A bank behind nginx under load, while an operator and the providers renew everything: each refusal must be justified.

The test lasts a minute; `make soak` sets SOAK_SECONDS.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from operator_files import OperatorFiles, halve
from serving import free_port, program, run_nginx, wait_until
from soaking import INVALID, REVOKED, Answer, Bank, Lost, Organisation, State, Timeline, run_bank, write_pair

from tppkit._clock import utc_now
from tppkit.testpki import write_pki
from tppkit.trust import Reloader

SECONDS = float(os.environ.get("SOAK_SECONDS", "60"))
ORGANISATIONS, CONNECTIONS = 4, 2  # of each organisation
DRAIN_S = 10.0  # in which nginx closes connections after a reload
GROWTH_KB = 30_000
NGINX = """
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {folder}/server.pem; ssl_certificate_key {folder}/server.key;
    ssl_verify_client optional_no_ca; ssl_verify_depth 4;
    location / {{
      proxy_pass http://127.0.0.1:{upstream};
      proxy_set_header X-SSL-Client-Cert $ssl_client_escaped_cert;
    }}
    location = /caller {{ return 200 $ssl_client_serial; }}
  }}
"""


class Operator:
    """Renews one thing at a time, and knows what was in force when."""

    def __init__(
        self, files: OperatorFiles, folder: Path, bank: Bank, organisations: list[Organisation], port: int
    ) -> None:
        self._files, self._folder, self._bank, self._organisations, self._port = (
            files,
            folder,
            bank,
            organisations,
            port,
        )
        self._random = random.Random(7)
        self._numbers = itertools.count(8)
        self.trust = Timeline(State())
        self.own = Timeline(int((folder / "own" / "serial").read_text()))
        self.server = Timeline(self._served())
        self.drains: list[float] = []

    def steps(self) -> list[Callable[[], None]]:
        """Everything that it does, in an order that differs each time."""
        every = [
            self.revoke_qwac, self.revoke_qseal, self.renew_client, self.renew_crls, self.withdraw, self.remove_anchor, self.renew_own,
            self.renew_server, self.break_server,
            *(
                partial(self.spoil, part, name, code)
                for part, name, code in (
                    ("lists", "PT.xml", "trusted-list.malformed"),
                    ("lists", "lotl.xml", "trusted-list.no-lotl"),
                    ("anchors", "0.pem", "trust.unreadable"),
                    ("anchors", "1.pem", "trust.unreadable"),
                    ("crls", f"{self._files.pki.qwac_ca.label}.crl", "revocation.unreadable"),
                    ("own", "qwac.pem", "pem.malformed"),
                    ("own", "qwac.key", "key.unreadable"),
                )
            ),
        ]  # fmt: skip
        self._random.shuffle(every)
        return every

    def revoke_qwac(self) -> None:
        one = self._random.choice(self._organisations)
        self._revoke(one, one.identity.qwac.serial)

    def revoke_qseal(self) -> None:
        one = self._random.choice(self._organisations)
        assert one.identity.seal is not None
        self._revoke(one, one.identity.seal.certificate.serial)

    def _revoke(self, one: Organisation, serial: int) -> None:
        revoked = self.trust.present.revoked | {serial}
        self._change(lambda: self._files.write_crls(utc_now(), *revoked), revoked=revoked)
        self._renew(one)

    def renew_client(self) -> None:
        self._renew(self._random.choice(self._organisations))

    def _renew(self, one: Organisation) -> None:
        one.renew()
        wait_until(lambda: not one.identity.has_changed, "the renewal")
        self._load()

    def renew_crls(self) -> None:
        self._change(lambda: self._files.write_crls(utc_now(), *self.trust.present.revoked))

    def withdraw(self) -> None:
        self._change(partial(self._switch_lists, granted=False), granted=False)
        self._change(self._switch_lists, granted=True)

    def _switch_lists(self, *, granted: bool = True) -> None:
        """Write lists into a new folder, and rename a link to it over the one in use, as `tppkit trust fetch` does."""
        number, files = next(self._numbers), self._files
        files.lists = shutil.copytree(files.lists, self._folder / f"lists.{number}")
        files.write_lists(number=number, granted=granted)
        (self._folder / "lists.new").symlink_to(files.lists.name)
        (self._folder / "lists.new").replace(self._folder / "lists")

    def remove_anchor(self) -> None:
        self._change(lambda: self._files.write_anchors(self._files.pki.qwac_ca.certificate), anchored=False)
        self._change(self._files.write_anchors, anchored=True)

    def renew_own(self) -> None:
        issued = self._files.pki.issue_qwac(self._files.pki.provider, label=f"own-{next(self._numbers)}")
        with self.own.changing(issued.certificate.serial):
            write_pair(self._folder / "own" / "qwac.pem", self._folder / "own" / "qwac.key", issued)
            self._bank.settle()
        self._load()

    def renew_server(self) -> None:
        issued = self._files.pki.issue_server("localhost", label=f"server-{next(self._numbers)}")
        with self.server.changing(issued.certificate.der):
            write_pair(self._folder / "server.pem", self._folder / "server.key", issued)
            assert self._reload_nginx() == 0
            wait_until(lambda: self._served() == issued.certificate.der, "the reload of nginx")
            time.sleep(1)  # an old worker of nginx accepts connections until it gets its signal
        self._load()

    def break_server(self) -> None:
        file = self._folder / "server.pem"
        content = file.read_bytes()
        halve(file)
        assert self._reload_nginx() != 0
        self._load()
        file.write_bytes(content)

    def spoil(self, part: str, name: str, code: str) -> None:
        """Write a part of a file, and the whole of it later."""
        path = self._folder / part / name
        content = path.read_bytes()
        halve(path)
        self._bank.require_refusal(code)
        self._load()
        path.write_bytes(content)
        self._bank.settle()

    def codes(self, answer: Answer) -> set[str]:
        """Every code that a state justifies which the request may have met."""
        states = self.trust.possible(answer.sent, answer.received)
        return {code for state in states for code in state.codes(*answer.serials)}

    def is_draining(self, lost: Lost) -> bool:
        """Whether nginx may have closed the connection because it was read again."""
        return any(lost.sent <= at + DRAIN_S and at <= lost.received for at in self.drains)

    def _change(self, write: Callable[[], None], **values: Any) -> None:
        with self.trust.changing(replace(self.trust.present, **values)):
            write()
            self._bank.settle()
        self._load()

    def _load(self) -> None:
        """Wait until every organisation was answered again."""
        now = time.monotonic()
        wait_until(lambda: all(one.answers and one.answers[-1].sent > now for one in self._organisations), "the load")

    def _reload_nginx(self) -> int:
        self.drains.append(time.monotonic())
        folder = str(self._folder)
        command = [program("nginx", "nginx-light"), "-s", "reload", "-c", f"{folder}/nginx.conf", "-p", folder]
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode

    def _served(self) -> bytes | None:
        context = ssl.create_default_context(cafile=self._folder / "pki" / "root.pem")
        with (
            socket.create_connection(("127.0.0.1", self._port), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as tls,
        ):
            return tls.getpeercert(binary_form=True)


def test_a_request_is_judged_by_the_states_that_it_may_have_met():
    timeline = Timeline("a")
    timeline.add(10, 20, "b")
    timeline.add(30, 40, "c")
    met = {(1, 2): "a", (1, 10): "ab", (12, 14): "ab", (20, 29): "ab", (21, 29): "b", (15, 35): "abc", (41, 42): "c"}
    assert {times: "".join(timeline.possible(*times)) for times in met} == met
    assert [*State(frozenset({1})).codes(1, 2)] == [REVOKED]
    assert [*State(granted=False).codes(1, 2)] == [INVALID]
    assert [*State(frozenset({1})).codes(2, 3)] == [""]


@pytest.mark.slow
def test_no_request_is_refused_that_the_state_of_its_time_admits(tmp_path, bank_pki, certify):
    now, port = utc_now(), free_port()
    dates = {"starts": now - timedelta(days=30), "ends": now + timedelta(days=300), "ca": False}
    operator, commission = (certify(name, **dates) for name in ("Scheme operator", "Commission"))
    frame = {"issued": now - timedelta(days=1), "next_update": now + timedelta(days=100)}
    files = OperatorFiles(tmp_path, bank_pki, operator, commission, at=now, **frame)
    files.lists = files.lists.rename(tmp_path / "lists.7")
    (tmp_path / "lists").symlink_to("lists.7")
    write_pki(bank_pki, tmp_path / "pki")
    (tmp_path / "own").mkdir()
    write_pair(tmp_path / "own" / "qwac.pem", tmp_path / "own" / "qwac.key", bank_pki.qwac)
    (tmp_path / "own" / "serial").write_text(str(bank_pki.qwac.certificate.serial))
    write_pair(tmp_path / "server.pem", tmp_path / "server.key", bank_pki.server)
    organisations = [
        Organisation(tmp_path / str(number), bank_pki, number, port=port) for number in range(ORGANISATIONS)
    ]
    stop, threads = threading.Event(), []
    with ExitStack() as opened:
        bank = opened.enter_context(run_bank(tmp_path))
        block = NGINX.format(folder=tmp_path, port=port, upstream=bank.port)
        opened.enter_context(run_nginx(block, port=port, folder=tmp_path))
        opened.enter_context(Reloader(*(one.identity for one in organisations), every=0.2))
        for target, *arguments in (
            (bank.keep_calling, f"https://localhost:{port}/caller", stop),
            *((one.work, stop) for one in organisations for _ in range(CONNECTIONS)),
        ):
            threads.append(threading.Thread(target=target, args=arguments))
            threads[-1].start()
        try:
            acting = Operator(files, tmp_path, bank, organisations, port)
            end, memory = time.monotonic() + SECONDS, []
            while time.monotonic() < end or len(memory) < 3:
                for step in acting.steps():
                    step()
                memory.append(bank.memory_kb())
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
    assert [error for one in organisations for error in one.errors] == []
    answers = [answer for one in organisations for answer in one.answers]
    lost = [one for organisation in organisations for one in organisation.lost]
    lost += [Lost(one["sent"], one["at"], one["lost"]) for one in bank.calls if "lost" in one]
    counted = dict(Counter(one.code or "admitted" for one in answers))
    print(f"\n{counted}, {len(lost)} connections closed, {memory[0]:,} to {memory[-1]:,} KB of memory")  # with -s
    assert [one for one in answers if one.code not in acting.codes(one)] == []
    assert {(one.status, one.code) for one in answers} == {(201, ""), (401, REVOKED), (401, INVALID)}
    shown = [server for one in organisations for server in one.servers]
    assert [one for one in shown if one[2] not in acting.server.possible(*one[:2])] == []
    calls = [one for one in bank.calls if "answer" in one]
    assert [one for one in calls if int(one["answer"], 16) not in acting.own.possible(one["sent"], one["at"])] == []
    assert [one for one in lost if not acting.is_draining(one)] == []
    assert memory[-1] - memory[0] < GROWTH_KB
    assert "Traceback" not in (tmp_path / "bank.log").read_text()
