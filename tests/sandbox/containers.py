"""What a container engine does, from Debian packages: an image by the steps of a Containerfile, and services by a compose file.

Each service has a network namespace of its own, and a bridge joins them. Needs root, mmdebstrap and iproute2.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from programs import needed

_SUITES = {"debian:12-slim": "bookworm"}
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
_SLIM = ("--dpkgopt=force-unsafe-io", *(f"--dpkgopt=path-exclude={path}" for path in _LEFT_OUT))  # for RUN, too
_NETWORK = "10.213.0"
_SETTING = re.compile(r"--([a-z-]+)=(\w+)")
_NAMED = re.compile(r"\$\{(\w+):\?\}")


def do(*command: object) -> None:
    """Run a command that must succeed."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"


def need_namespaces() -> None:
    """Skip the test where nobody may make a network namespace: without root, or as root of a container without privileges."""
    needed("ip", "iproute2")
    if subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs root and its capabilities, to make network namespaces")


@dataclass
class Image:
    """A root directory, made by the steps of a Containerfile, and what the file says about processes."""

    root: Path
    said: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})

    def build(self, file: Path, *, start: bool = True, rest: bool = True, **folders: Path) -> None:
        """Take FROM, which is the start, and each step after it; `folders` replace folders beside the file."""
        for line in file.read_text().splitlines():
            word, _, said = line.partition(" ")
            if not (start if word == "FROM" else rest):
                continue
            match word:
                case "FROM":
                    do("mmdebstrap", "--mode=root", "--variant=minbase", *_SLIM, _SUITES[said], self.root)
                    shutil.copy("/etc/resolv.conf", self.root / "etc" / "resolv.conf")
                case "RUN":
                    do(*self.command("/bin/sh", "-c", said))
                case "COPY":
                    source, target = said.split()
                    found, place = folders.get(source, file.parent / source), self.root / target.lstrip("/")
                    if found.is_dir():
                        shutil.copytree(found, place)
                    else:
                        place.mkdir(parents=True, exist_ok=True)
                        shutil.copy(found, place)
                case "ENV":
                    name, _, value = said.partition("=")
                    self.env[name] = value
                case "HEALTHCHECK":
                    settings, _, check = said.partition(" CMD ")
                    self.said[word] = {"test": ["CMD", *json.loads(check)]} | {
                        name.replace("-", "_"): value for name, value in _SETTING.findall(settings)
                    }
                case "ENTRYPOINT" | "CMD":
                    self.said[word] = json.loads(said)
                case "USER" | "WORKDIR":
                    self.said[word] = said
                case "VOLUME" | "EXPOSE" | "#" | "":
                    pass
                case _:
                    raise NotImplementedError(line)

    def command(self, *words: str, env: Mapping[str, str] | None = None) -> list[str]:
        """The command that runs words in the image, as its user and in its folder, where the file has named them by now."""
        user, folder = self.said.get("USER", "root"), self.said.get("WORKDIR", "/")
        values = [f"{name}={value}" for name, value in {**self.env, **(env or {})}.items()]
        change = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', folder]
        return ["chroot", f"--userspec={user}:{user}", str(self.root), "/usr/bin/env", "-i", *values, *change, *words]


@dataclass
class Network:
    """Network namespaces that are joined by a bridge, and whose hosts know each other's names."""

    names: Sequence[str]

    def __post_init__(self) -> None:
        self._mark = f"tppkit-{os.getpid()}-"
        self.hosts = "127.0.0.1 localhost\n" + "".join(
            f"{_NETWORK}.{number} {name}\n" for number, name in enumerate(self.names, 2)
        )

    def command(self, name: str, *words: object) -> list[str]:
        """The command that runs words in a namespace."""
        return ["ip", "netns", "exec", self._mark + name, *map(str, words)]

    @contextmanager
    def up(self) -> Iterator[None]:
        """Make the namespaces, and remove them at the end."""
        need_namespaces()
        hub = self._mark + "hub"
        with ExitStack() as undo:
            for name in (hub, *(self._mark + name for name in self.names)):
                do("ip", "netns", "add", name)
                undo.callback(do, "ip", "netns", "delete", name)
                do("ip", "-n", name, "link", "set", "lo", "up")
            do("ip", "-n", hub, "link", "add", "bridge", "type", "bridge")
            do("ip", "-n", hub, "link", "set", "bridge", "up")
            for number, name in enumerate(self.names, 2):
                own, port = self._mark + name, f"port{number}"
                do("ip", "-n", own, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", hub)
                do("ip", "-n", hub, "link", "set", port, "master", "bridge", "up")
                do("ip", "-n", own, "address", "add", f"{_NETWORK}.{number}/24", "dev", "eth0")
                do("ip", "-n", own, "link", "set", "eth0", "up")
                folder = Path("/etc/netns") / own
                folder.mkdir(parents=True)
                undo.callback(shutil.rmtree, folder)
                (folder / "hosts").write_text(self.hosts)
            yield


class Services:
    """The services of a compose file that run the image.

    Args:
        file: the compose file, parsed.
        image: the image.
        network: with the names of the services.
        variables: what the file takes from the environment.
    """

    def __init__(self, file: Any, image: Image, network: Network, variables: Mapping[str, str]) -> None:
        text = _NAMED.sub(lambda found: variables[found[1]], json.dumps(file["services"]))
        self._services, self._image, self._network = json.loads(text), image, network

    def command(self, name: str, *words: str) -> list[str]:
        """The command of a service, or words in its place."""
        service, said = self._services[name], self._image.said
        start = service.get("entrypoint", said["ENTRYPOINT"]) + service.get("command", said["CMD"])
        return self._network.command(
            name, *self._image.command(*(words or start), env=service.get("environment", {}))
        )  # fmt: skip

    @contextmanager
    def running(self, name: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Run a service."""
        with log.open("wb") as file, subprocess.Popen(self.command(name), stdout=file, stderr=file) as process:
            try:
                yield process
            finally:
                process.terminate()
                assert process.wait(10) in (0, -signal.SIGTERM), log.read_text()  # an engine kills it then

    def wait_until_healthy(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        """Wait for the health check of the service, or of the image."""
        said = self._services[name].get("healthcheck", self._image.said["HEALTHCHECK"])
        deadline, check = time.monotonic() + 120, self.command(name, *said["test"][1:])
        while not _succeeds(check, timeout_s=int(said["timeout"].removesuffix("s"))):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)


def _succeeds(command: list[str], *, timeout_s: int) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=timeout_s, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False
