"""An example in a folder of its own: its files, the commands of its README, and its servers."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
from serving import process, wait_until

from programs import TPPKIT
from tppkit.sandbox import Addresses

EXAMPLES = Path(__file__).parents[2] / "examples"
_BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example:
    """A copy of an example, whose commands use this project's environment.

    Attributes:
        folder: the copy.
        log: what its servers wrote.
        environment: for its commands and servers.
        control_url: of its sandbox, once this runs.
    """

    def __init__(self, name: str, scratch: Path) -> None:
        self.folder, self.log = scratch / name, scratch / "servers.log"
        shutil.copytree(EXAMPLES / name, self.folder)
        programs = os.pathsep.join([str(TPPKIT.parent), os.environ["PATH"], "/usr/sbin"])
        self.environment = {**os.environ, "PATH": programs, "TPPKIT_CONTROL_TOKEN": ""}
        self.control_url = ""
        self._blocks = _BLOCK.findall((self.folder / "README.md").read_text())

    def run(self, command: str, *, code: int = 0) -> str:
        """Run a command; it must exit with this code. Returns both outputs."""
        done = subprocess.run(
            ["bash", "-ec", command], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=240, check=False
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def prepare(self) -> None:
        """Run the first `sh` block of the README."""
        self.run(next(text for kind, text in self._blocks if kind == "sh"))

    def run_block(self, begin: str, ports: Mapping[str, str]) -> str:
        """Run the `sh` block of the README that begins so, with other ports."""
        (text,) = (text for kind, text in self._blocks if kind == "sh" and text.startswith(begin))
        return self.run(re.sub("|".join(ports) or "$^", lambda found: ports[found[0]], text))

    def command(self, program: str) -> list[str]:
        """The command of the README that begins so, as its user types it."""
        lines = re.findall(r"^(?:\$ )?(.*)$", "".join(text for _, text in self._blocks), re.MULTILINE)
        return shlex.split(next(line for line in lines if line.startswith(program)), comments=True)

    def settings(self) -> dict[str, str]:
        """What `settings.env` sets."""
        names = re.findall(r"^(\w+)=", (self.folder / "settings.env").read_text(), re.MULTILINE)
        lines = "".join(f'printf "%s\\n" "${name}"; ' for name in names)
        return dict(zip(names, self.run(f"set -a; . ./settings.env; {lines}").splitlines(), strict=True))

    @contextmanager
    def running(self, program: str, *, ports: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
        """Run a server of the README on other ports, and end it."""
        words = [ports.get(word, word) for word in self.command(program)]
        found = shutil.which(words[0], path=self.environment["PATH"])
        assert found is not None
        command = [sys.executable, "-u", *words[1:]] if words[0] == "python" else [found, *words[1:]]
        with process(command, log=self.log, cwd=self.folder, env=self.environment) as started:
            yield
            assert started.poll() is None, self.log.read_text()

    def wait_for(self, page: httpx.Client) -> None:
        """Wait until a server answers, whatever it answers."""

        def answers() -> bool:
            try:
                page.get("/")
            except httpx.TransportError:
                return False
            return True

        wait_until(answers, "the example")

    @contextmanager
    def sandbox(self, *options: str) -> Iterator[Addresses]:
        """`tppkit sandbox up` on free ports, with the certificates of the example."""
        ready = self.folder / "ready.json"
        command = [TPPKIT, "sandbox", "up", "--port", "0", "--pki", "certs", "--dir", "sandbox", "--ready-file", ready]
        log = self.folder.parent / "sandbox.log"
        with process([*map(str, command), *options], log=log, cwd=self.folder, env=self.environment) as started:
            wait_until(lambda: ready.exists() or started.poll() is not None, "the sandbox")
            assert started.poll() is None, log.read_text()
            addresses = Addresses(**json.loads(ready.read_bytes()))
            self.control_url = addresses.control_url
            yield addresses

    def control(self, path: str, body: Any = None) -> None:
        """Call the control host of the sandbox."""
        httpx.post(self.control_url + path, json=body, trust_env=False, timeout=20).raise_for_status()

    def browser(self, url: str) -> httpx.Client:
        """A browser that shows the example's own pages."""
        context = ssl.create_default_context(cafile=self.folder / "certs" / "root.pem")
        return httpx.Client(base_url=url, verify=context, trust_env=False, headers={"Origin": url}, timeout=20)
