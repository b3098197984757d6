"""Serve a sandbox: bind its ports, run every host in one event loop, stop cleanly."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from ipaddress import ip_address
from typing import Any, NamedTuple, Self

from starlette.types import ASGIApp

from tppkit._files import PRIVATE, FilePath, as_path, replace_file
from tppkit.errors import ConfigurationError
from tppkit.protocol.control import CONTROL_REFUSALS
from tppkit.sandbox.exchange import Observed, Observer
from tppkit.sandbox.faults import EXPIRED
from tppkit.sandbox.host import Host
from tppkit.sandbox.http1 import BoundedHttp
from tppkit.sandbox.interface_faults import Faulty
from tppkit.sandbox.public_address import (
    APPROVAL,
    CONTROL,
    GATEWAY,
    LEGACY,
    LEGACY_LIVE,
    PSD2,
    VAULT,
    PublicAddress,
    expired_certificate,
    local_address,
    parse_public_url,
)
from tppkit.sandbox.request_log import line_writer
from tppkit.sandbox.sandbox import SandboxHosts, SandboxSettings
from tppkit.sandbox.thread import in_thread
from tppkit.sandbox.tls import ServerTls, TlsMode, make_http_protocol
from tppkit.sandbox.uvicorn_server import QuietServer, listen, make_config, serve, stop

_LOGGER = logging.getLogger("tppkit.sandbox.tls")

_WITH_IPV6 = ("127.0.0.1", "0.0.0.0")  # noqa: S104  # localhost is named for these, so ::1 answers too
_ATTEMPTS = 20  # to find a port that is free at both addresses


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The addresses and keys of a running sandbox.

    Attributes:
        psd2_url: the PSD2 host (mutual TLS).
        approval_url: the approval pages.
        gateway_url: the payment gateway.
        vault_url: the card vault.
        legacy_url: the legacy interface.
        legacy_live_url: its live host, with its own keys and tokens.
        control_url: the control host.
        api_key: key of the gateway's project, also at the vault.
        legacy_api_key: key of the legacy interface.
        legacy_live_api_key: key of its live host.
        legacy_public_key: file of the public key of its callbacks, PEM; an absolute path.
        legacy_live_public_key: file of the public key of the live host's callbacks, PEM; an absolute path.
        project_id: the gateway's project.
        pki: folder of the test PKI; an absolute path.

    Example:
        with run_sandbox(settings) as server:
            server.addresses.write("ready.json")
    """

    psd2_url: str
    approval_url: str
    gateway_url: str
    vault_url: str
    legacy_url: str
    legacy_live_url: str
    control_url: str
    api_key: str = field(repr=False)
    legacy_api_key: str = field(repr=False)
    legacy_live_api_key: str = field(repr=False)
    legacy_public_key: str
    legacy_live_public_key: str
    project_id: str
    pki: str

    @classmethod
    def of(cls, sandbox: SandboxHosts, urls: Mapping[str, str]) -> Self:
        """Return the addresses and keys of a sandbox.

        Args:
            sandbox: the sandbox.
            urls: the addresses by the names of the listeners.
        """
        test, live = sandbox.legacy["test"], sandbox.legacy["live"]
        return cls(
            **{f"{name}_url": url for name, url in urls.items()}, legacy_api_key=test.api_key, legacy_live_api_key=live.api_key,
            legacy_public_key=str(test.public_key.absolute()), legacy_live_public_key=str(live.public_key.absolute()),
            pki=str(sandbox.pki.absolute()),
            api_key=sandbox.projects.api_key, project_id=sandbox.projects.first_id,
        )  # fmt: skip

    def write(self, path: FilePath) -> None:
        """Write the ready file atomically, readable by its owner only.

        Raises:
            ConfigurationError: `file.unwritable`.
        """
        replace_file(as_path(path), f"{json.dumps(asdict(self), indent=2)}\n".encode(), mode=PRIVATE)


class Listener(NamedTuple):
    """One port of the sandbox.

    Attributes:
        name: the name of its URL in `Addresses`.
        app: returns its application.
        offset: the offset of its port from the first port.
        tls: whether it has HTTPS, and whether it requests client certificates.
        is_control: it listens on loopback or on `SandboxSettings.control_host`, not on `SandboxSettings.host`.
    """

    name: str
    app: Callable[[SandboxHosts], ASGIApp]
    offset: int
    tls: Callable[[SandboxSettings], TlsMode | None] = lambda settings: None
    is_control: bool = False


def _client_tls(settings: SandboxSettings) -> TlsMode:
    return TlsMode.STRICT if settings.strict else TlsMode.SOFT


def _pages_tls(settings: SandboxSettings) -> TlsMode | None:
    return TlsMode.NO_CERTIFICATES if settings.pages_tls else None


def _server_tls(settings: SandboxSettings) -> TlsMode:
    return TlsMode.NO_CERTIFICATES


LISTENERS = (
    Listener("psd2", lambda sandbox: sandbox.hosts["psd2"], PSD2, tls=_client_tls),
    Listener("approval", lambda sandbox: sandbox.pages, APPROVAL, tls=_pages_tls),
    Listener("gateway", lambda sandbox: sandbox.hosts["gateway"], GATEWAY, tls=_server_tls),
    Listener("control", lambda sandbox: sandbox.control, CONTROL, is_control=True),
    Listener("vault", lambda sandbox: sandbox.hosts["vault"], VAULT, tls=_server_tls),
    Listener("legacy", lambda sandbox: sandbox.hosts["legacy"], LEGACY, tls=_server_tls),
    Listener("legacy_live", lambda sandbox: sandbox.hosts["legacy_live"], LEGACY_LIVE, tls=_server_tls),
)


def observed_app(row: Listener, sandbox: SandboxHosts, *, others: Sequence[Observer] = ()) -> ASGIApp:
    """Return the application of a port, whose requests are observed: those to interfaces by the observers of the sandbox.

    Args:
        row: the port.
        sandbox: the sandbox.
        others: the observers of requests to pages and the control host.
    """
    app, refusals, observers = row.app(sandbox), CONTROL_REFUSALS, others
    if isinstance(app, Host):
        refusals, observers = app.interface.refusals, sandbox.observers
        app = Faulty(app, faults=sandbox.faults)
    if not observers:
        return app
    return Observed(app, host=row.name, refusals=refusals, observers=observers, now=sandbox.clock.now)


class SandboxServer:
    """A sandbox with its listening sockets; `serve()` runs until `stop()` is called.

    Args:
        settings: the settings.
        log: called with a line for each request (see `line_writer`); None: no lines.

    Attributes:
        settings: the settings.
        ports: the ports on this machine, by the listener's name.
        addresses: its addresses and keys.

    Raises:
        ConfigurationError: `port.unavailable`, `sandbox.public-url`, and those of `SandboxHosts`.

    Example:
        server = SandboxServer(SandboxSettings(Path("sandbox"), port=8443))
        await server.serve(on_ready=lambda: print(server.addresses.psd2_url))
    """

    def __init__(self, settings: SandboxSettings, *, log: Callable[[str], object] | None = None) -> None:
        self.settings = settings
        self._expired_pem = b""
        with ExitStack() as opened:
            sockets = {row: [*map(opened.enter_context, _listen(settings, row))] for row in LISTENERS}
            self.ports = {row.name: bound[0].getsockname()[1] for row, bound in sockets.items()}
            # Some clients try only ::1 for localhost.
            has_ipv6 = all(len(bound) > 1 or bound[0].getsockname()[0] not in _WITH_IPV6 for bound in sockets.values())
            self._loopback = "localhost" if has_ipv6 else "127.0.0.1"
            self.local = local_address(settings.host, sockets[LISTENERS[0]][0].getsockname()[0], self._loopback)
            public = self.local if settings.public_url is None else parse_public_url(settings.public_url)
            addresses = {
                row: self._control_address(public, bound[0].getsockname()[0]) if row.is_control else public
                for row, bound in sockets.items()
            }
            urls = {row.name: self._url(row, address) for row, address in addresses.items()}
            self.sandbox = opened.enter_context(SandboxHosts(settings, urls=urls))
            self.addresses = Addresses.of(self.sandbox, urls)
            lines = [] if log is None else [line_writer(log)]
            self.sandbox.observers[:0] = lines
            self._servers = [(self._server(row, lines), one) for row, bound in sockets.items() for one in bound]
            self._opened = opened.pop_all()

    def _url(self, row: Listener, address: PublicAddress) -> str:
        scheme = "http" if row.tls(self.settings) is None else "https"
        return address.url(scheme, row.offset, port=self.ports[row.name])

    def _control_address(self, public: PublicAddress, bound: str) -> PublicAddress:
        host = self.settings.control_host
        if host is None:
            return PublicAddress(self._loopback)
        return public if ip_address(bound).is_unspecified else PublicAddress(host.lower())

    def _server(self, row: Listener, lines: Sequence[Observer]) -> QuietServer:
        mode = row.tls(self.settings)
        http: Any = BoundedHttp
        if mode is not None:
            tls, app = replace(self.sandbox.tls, mode=mode), row.app(self.sandbox)
            faulty = partial(self._expired_tls, tls, app.interface.name) if isinstance(app, Host) else None
            http = make_http_protocol(tls, instead=faulty)
        signs_date = row.name == "psd2" and self.settings.bank.answers == "cavage"
        observed = observed_app(row, self.sandbox, others=lines)
        return QuietServer(make_config(observed, http=http, date_header=not signs_date))

    def _expired_tls(self, tls: ServerTls, interface: str) -> ServerTls | None:
        """Return what a handshake with an expired certificate shows, if this fault is requested."""
        if not self.sandbox.faults.take_for_handshake(interface):
            return None
        try:
            expired = self._expired_pem = self._expired_pem or expired_certificate(
                self.sandbox.pki, tls.certificate_pem
            )
        except ConfigurationError as e:
            _LOGGER.warning("  no server certificate can be issued for fault:%s: %s", EXPIRED, e)
            return None
        _LOGGER.warning("  a handshake with the %s host has fault:%s", interface, EXPIRED)
        return replace(tls, certificate_pem=expired)

    async def serve(self, *, on_ready: Callable[[], None]) -> None:
        """Serve every host until `stop()` is called; `on_ready` is called once all of them answer."""
        try:
            async with self.sandbox.running():
                await serve(self._servers, on_ready=on_ready)
        finally:
            self.close()

    def stop(self) -> None:
        """Ask every host to finish; `serve()` then returns."""
        self.sandbox.inspector.stop()
        stop(self._servers)

    def close(self) -> None:
        """Release ports and folder; needed only if `serve()` was never called, which does this at its end."""
        self._opened.close()


@contextmanager
def run_sandbox(settings: SandboxSettings, *, log: Callable[[str], object] | None = None) -> Iterator[SandboxServer]:
    """Run a sandbox in a thread while the body of a `with` statement runs.

    Raises:
        ConfigurationError: see `SandboxServer`.

    Example:
        with run_sandbox(SandboxSettings(Path("sandbox"))) as server:
            client = Psd2Client(server.addresses.psd2_url, identity=identity)
    """
    server = SandboxServer(settings, log=log)
    with in_thread(lambda on_ready: server.serve(on_ready=on_ready), stop=server.stop):
        yield server


def _listen(settings: SandboxSettings, row: Listener) -> list[socket.socket]:
    """Return the listening socket of a port, and for IPv4 loopback that of ::1 too if it is free there."""
    host = settings.control_host or "127.0.0.1" if row.is_control else settings.host
    port = settings.port + row.offset if settings.port else 0
    for _ in range(1 if port else _ATTEMPTS):
        bound = listen(host, port)
        if bound.getsockname()[0] not in _WITH_IPV6:
            return [bound]
        with suppress(ConfigurationError):
            return [bound, listen("::1", bound.getsockname()[1])]
        bound.close()
    return [listen(host, port)]
