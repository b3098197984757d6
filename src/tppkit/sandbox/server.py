"""Serve a sandbox: bind its ports, run every host in one event loop, stop cleanly."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from tppkit._files import PRIVATE, FilePath, as_path, write_new
from tppkit.errors import ConfigurationError
from tppkit.sandbox.app import Sandbox, SandboxSettings
from tppkit.sandbox.http1 import BoundedHttp
from tppkit.sandbox.listening import QuietServer, listen, make_config
from tppkit.sandbox.public_address import APPROVAL, CONTROL, PSD2, local_address, parse_public_url
from tppkit.sandbox.request_log import RequestLog
from tppkit.sandbox.tls import make_http_protocol

_STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a running sandbox answers; interfaces that it does not have yet are None.

    Attributes:
        psd2_url: the PSD2 host (mutual TLS).
        approval_url: the approval pages.
        gateway_url: the payment gateway.
        vault_url: the card vault.
        legacy_url: the legacy interface.
        control_url: the control host.
        api_key: key of the gateway and the legacy interface.
        pki: folder of the test PKI.
    """

    psd2_url: str
    approval_url: str
    gateway_url: str | None
    vault_url: str | None
    legacy_url: str | None
    control_url: str
    api_key: str | None
    pki: str

    def write(self, path: FilePath) -> None:
        """Write the ready file: appears complete or not at all, readable by its owner.

        Raises:
            ConfigurationError: `file.unwritable`.
        """
        path = as_path(path)
        if not path.name:
            raise ConfigurationError("file.unwritable", f"{path} is a folder, not a file")
        partial = path.with_name(f".{path.name}.part")
        try:
            partial.unlink(missing_ok=True)
            write_new(partial, f"{json.dumps(asdict(self), indent=2)}\n".encode(), mode=PRIVATE)
            partial.replace(path)
        except OSError as e:
            raise ConfigurationError("file.unwritable", f"{path} cannot be written: {e.strerror}") from e


class SandboxServer:
    """A sandbox with its listening sockets; `serve()` serves until `stop()`.

    Args:
        settings: how it is set up.
        log: takes a line for each request (see `RequestLog`).

    Attributes:
        ports: of the PSD2, approval and control hosts on this machine.

    Raises:
        ConfigurationError: `port.unavailable`, `sandbox.public-url`, and those of `Sandbox`.
    """

    def __init__(self, settings: SandboxSettings, *, log: Callable[[str], object] | None = None) -> None:
        with ExitStack() as opened:
            self._sockets = {
                offset: opened.enter_context(_listen(settings, offset)) for offset in (PSD2, APPROVAL, CONTROL)
            }
            self.ports = tuple([bound.getsockname()[1] for bound in self._sockets.values()])
            self.local = local_address(settings.host, self._sockets[PSD2].getsockname()[0])
            address = self.local if settings.public_url is None else parse_public_url(settings.public_url)
            psd2_url = address.url("https", PSD2, port=self.ports[0])
            approval_url = address.url("http", APPROVAL, port=self.ports[1])
            self.sandbox = opened.enter_context(Sandbox(settings, approval_url=approval_url, psd2_url=psd2_url))
            self.addresses = Addresses(
                psd2_url=psd2_url, approval_url=approval_url, gateway_url=None, vault_url=None, legacy_url=None,
                control_url=f"http://localhost:{self.ports[2]}", api_key=None, pki=str(self.sandbox.pki),
            )  # fmt: skip
            apps: dict[int, ASGIApp] = {
                PSD2: self.sandbox.psd2,
                APPROVAL: self.sandbox.approval,
                CONTROL: self.sandbox.control,
            }
            self._servers = {
                offset: QuietServer(self._config(app if log is None else RequestLog(app, log), offset))
                for offset, app in apps.items()
            }
            self._opened = opened.pop_all()

    def _config(self, app: Any, offset: int) -> uvicorn.Config:
        http = make_http_protocol(self.sandbox.tls) if offset == PSD2 else BoundedHttp
        return make_config(app, http=http)

    async def serve(self, *, on_ready: Callable[[], None]) -> None:
        """Serve every host until `stop()` is called; `on_ready` is called once all of them answer."""
        try:
            async with self.sandbox.running():
                await self._serve_all(on_ready)
        finally:
            self.close()

    async def _serve_all(self, on_ready: Callable[[], None]) -> None:
        running = asyncio.gather(*(self._serve(offset) for offset in self._servers))
        while not running.done() and not all(server.started for server in self._servers.values()):
            await asyncio.sleep(0.01)
        try:
            if not running.done():
                on_ready()
        except BaseException:
            self.stop()
            await running
            raise
        await running

    async def _serve(self, offset: int) -> None:
        await self._servers[offset].serve([self._sockets[offset]])

    def stop(self) -> None:
        """Ask every host to finish; `serve()` then returns."""
        for server in self._servers.values():
            server.should_exit = True

    def close(self) -> None:
        """Release ports and folder; `serve()` does it at its end, so only a server that never served needs it."""
        self._opened.close()


@contextmanager
def run_sandbox(settings: SandboxSettings, *, log: Callable[[str], object] | None = None) -> Iterator[SandboxServer]:
    """A sandbox in a thread of its own, answering when the body starts, stopped when it ends.

    Raises:
        ConfigurationError: as `SandboxServer`.
    """
    server = SandboxServer(settings, log=log)
    ready: Future[None] = Future()

    def main() -> None:
        try:
            asyncio.run(server.serve(on_ready=lambda: ready.set_result(None)))
        except BaseException as e:
            if ready.done():
                raise
            ready.set_exception(e)

    thread = threading.Thread(target=main, name="tppkit-sandbox", daemon=True)
    thread.start()
    ready.result()
    try:
        yield server
    finally:
        server.stop()
        thread.join(_STOP_TIMEOUT_S)


def _listen(settings: SandboxSettings, offset: int) -> socket.socket:
    host = "127.0.0.1" if offset == CONTROL else settings.host  # control moves the clock: never for others
    return listen(host, settings.port + offset if settings.port else 0)
