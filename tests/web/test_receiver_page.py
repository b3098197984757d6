"""The quickstart for a receiver: its programs run on real servers, and get what its commands send."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from callback_servers import Server, running

from programs import TPPKIT

pytestmark = pytest.mark.slow

TEXT = (Path(__file__).parents[2] / "docs/how-to/receive-callbacks.md").read_text("utf-8")
PYTHON, SHELL = (re.findall(rf"^```{kind}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL) for kind in ("python", "sh"))
FASTAPI, FLASK, WORKER, METRICS, FASTAPI_ROUTE, FLASK_ROUTE = PYTHON
UVICORN = ("-m", "uvicorn", "receiver:app", "--port", "{port}", "--no-proxy-headers")
GUNICORN = ("-m", "gunicorn", "receiver:app", "-b", "127.0.0.1:{port}")


def shell(text: str, folder: Path) -> str:
    environment = {**os.environ, "PATH": f"{TPPKIT.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-ec", text], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", [FASTAPI, FLASK], ids=["fastapi", "flask"])
def test_a_program_has_at_most_20_lines(program):
    assert len([line for line in program.splitlines() if line]) <= 20


@pytest.mark.parametrize(
    ("program", "command", "sent"),
    [(FASTAPI, UVICORN, 2), (FLASK, GUNICORN, 2), (FASTAPI + FASTAPI_ROUTE, UVICORN, 1), (FLASK + FLASK_ROUTE, GUNICORN, 1)],
    ids=["fastapi", "flask", "fastapi-route", "flask-route"],
)  # fmt: skip
def test_a_program_receives_what_the_commands_send(program, command, sent, tmp_path):
    (tmp_path / "receiver.py").write_text(program)
    prepare, send = SHELL
    shell(prepare, tmp_path)
    sends = send if sent == 2 else send.splitlines()[0]
    servers = {"receiver": Server(command, folder=tmp_path, path=tmp_path)}
    with running(servers, environment={}, log=tmp_path / "log") as ports:
        assert shell(sends.replace("8000", str(ports["receiver"])), tmp_path).count("answered 200\n") == sent
    log = (tmp_path / "log").read_text()
    assert "access until " in log
    assert ("payment posted EUR-12.50" in log) == (sent == 2)


def test_the_programs_of_workers_and_of_metrics_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shell(SHELL[0], tmp_path)
    module: Any = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for program in (FLASK, WORKER, METRICS):
        exec(compile(program, "page", "exec", dont_inherit=True), vars(module))
    assert module.work.prepare
    assert module.work.count
