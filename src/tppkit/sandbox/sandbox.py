"""The whole sandbox: settings, its folder, the services that its hosts share, and the cells of its interfaces."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import urlsplit

from sqlalchemy import Connection, MetaData
from starlette.applications import Starlette

from tppkit._clock import Clock, format_time, utc_now
from tppkit._files import FilePath, as_path
from tppkit._networks import is_loopback, parse_networks
from tppkit.certificates import EidasCertificate, OrganizationPolicy
from tppkit.errors import ConfigurationError, FormatError
from tppkit.evidence import EvidenceArchive
from tppkit.httpsig.components import parse_origin
from tppkit.protocol.control import parse_control_token
from tppkit.protocol.gateway.endpoints import GATEWAY, VAULT
from tppkit.protocol.legacy.endpoints import LEGACY
from tppkit.protocol.psd2 import PSD2, BankRules, Persona, load_persona
from tppkit.sandbox.bank import customers, instant, tables
from tppkit.sandbox.bank.control import bank_control
from tppkit.sandbox.bank.seed import seed_bank
from tppkit.sandbox.cell import Services
from tppkit.sandbox.clock import TABLES as CLOCK_TABLES
from tppkit.sandbox.clock import Events, SandboxClock
from tppkit.sandbox.conformance import Conformance
from tppkit.sandbox.consistency import ledger_control
from tppkit.sandbox.control import Control, control_host
from tppkit.sandbox.database import Database
from tppkit.sandbox.deliveries import Deliveries
from tppkit.sandbox.delivery_tables import TABLES as DELIVERY_TABLES
from tppkit.sandbox.delivery_tables import next_due
from tppkit.sandbox.dialect import known_seals, seal_key_kind
from tppkit.sandbox.evidence import Evidence, read_stream_id
from tppkit.sandbox.exchange import Observer
from tppkit.sandbox.faults import FAULTS, INTERFACE_FAULTS, Faults, parse_fault
from tppkit.sandbox.gateway.cell import gateway_cell
from tppkit.sandbox.gateway.cipher import CardCipher
from tppkit.sandbox.gateway.projects import Project, Projects
from tppkit.sandbox.gateway.settings import GatewaySettings
from tppkit.sandbox.html import protected
from tppkit.sandbox.ids import Ids
from tppkit.sandbox.index import index_page
from tppkit.sandbox.inspector import PATH as INSPECTOR
from tppkit.sandbox.inspector import Inspector
from tppkit.sandbox.latest_requests import LatestRequests
from tppkit.sandbox.legacy.cell import legacy_cell
from tppkit.sandbox.legacy.sender import parse_callback_url
from tppkit.sandbox.legacy.settings import open_hosts
from tppkit.sandbox.legacy.tables import set_callback_url
from tppkit.sandbox.openapi import openapi_control, openapi_documents
from tppkit.sandbox.outgoing_http import OutgoingHttp, Receivers, receivers_tls
from tppkit.sandbox.psd2.cell import psd2_cell
from tppkit.sandbox.psd2.settings import Psd2Settings
from tppkit.sandbox.public_address import parse_server_name, server_identity
from tppkit.sandbox.queries import latest_time
from tppkit.sandbox.request_view import SealDiagnoses
from tppkit.sandbox.reset import Gate
from tppkit.sandbox.revocations import CurrentQwacs, FolderRevocations
from tppkit.sandbox.signed_answers import answer_signer
from tppkit.sandbox.tls import ServerTls
from tppkit.seals import PROFILES, SealPolicy, SealProfile
from tppkit.seals.profiles import find_profile
from tppkit.testpki import certificate_pem, make_pki, write_pki
from tppkit.trust import Anchors, PathVerifier, load_anchors
from tppkit.web.replay_stores.table import RequestTable

INTERFACES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {one.name: tuple(row.name for row in one.endpoints) for one in (PSD2, LEGACY, GATEWAY, VAULT)}
)
ARCHIVE = "archive"
DATABASE = "sandbox.sqlite"
_BUSY_S = 10.0  # how long a reset waits for requests that are being answered
_FLUSH_S = 5.0  # how long a stop waits for the archive; the rest is archived at the next start


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """The settings of a sandbox.

    Attributes:
        directory: the folder of its archive and database, as a path or text; created if absent.
        pki: folder of a test PKI (`tppkit pki create`); by default `directory/pki`, created if absent.
        host: address to listen on.
        port: port of the PSD2 host; the approval host is on the next, control on the third after; 0: free ports.
        strict: reject absent, expired and untrusted client certificates in the TLS handshake. All others that are refused get 401
            from the application, with the reason.
        database: a SQLAlchemy address; by default a SQLite file in `directory`.
        seed: makes ids and transactions reproducible; by default ids are random.
        persona: how the bank differs from the document: a `Persona`, the name of a shipped one, or the file of one.
        rules: the settings of this bank; None: those of the persona.
        profile: the dialect of seals or its name in `PROFILES`; None: that of the persona.
        prefix: what the paths begin with, for example `/v1`; None: what the persona has.
        sign_answers: the PSD2 host signs its answers: as the persona has it, else in the form `rfc9421`.
        public_url: the address of the PSD2 host (https) or the approval pages (http) for clients; the other is on the adjacent port.
        dns: further names in the server certificate.
        roots_only: trust roots only, so that a client must send its intermediates.
        organizations: the organizationIdentifiers that this bank accepts.
        pages_tls: serve the pages over HTTPS, with the same server certificate.
        callback_url: the address for callbacks of the legacy interface; None: the one in the database.
        webhook_url: the address for webhooks of the gateway's first project; None: the one in the database.
        allow_addresses: networks that may be called in addition to public addresses, for example `10.0.0.0/8`.
        control_host: address that the control host listens on, with `control_token`; None: loopback.
        control_token: each control call must have it as `Authorization: Bearer`; at least 16 characters.
        faults: faults of interfaces from the start, each as `INTERFACE NAME [COUNT [ENDPOINT]]`.
        bank: the persona with `rules`, `profile`, `prefix` and `sign_answers`.
        dialect: the dialect of seals, of `profile` or the persona.

    Raises:
        ConfigurationError: `persona.unknown`, `persona.invalid`, `persona.prefix`, `profile.unknown`; `control.token`, it is missing or too
            short; `pki.dns-name`, `legacy.callback-url`, `gateway.webhook-url`.
        FormatError: `file.unreadable`, `file.too-large`.

    Example:
        with run_sandbox(SandboxSettings(Path("sandbox"), seed=1)) as server:
            client = Psd2Client(server.addresses.psd2_url, identity=identity)
    """

    directory: Path
    pki: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    strict: bool = False
    database: str | None = None
    seed: int | None = None
    persona: Persona | FilePath = "document"
    rules: BankRules | None = None
    profile: SealProfile | str | None = None
    prefix: str | None = None
    sign_answers: bool = False
    public_url: str | None = None
    dns: tuple[str, ...] = ()
    roots_only: bool = False
    organizations: OrganizationPolicy = field(default_factory=OrganizationPolicy)
    pages_tls: bool = False
    callback_url: str | None = field(default=None, repr=False)
    webhook_url: str | None = field(default=None, repr=False)  # its path is a secret
    allow_addresses: tuple[str, ...] = ()
    control_host: str | None = None
    control_token: str | None = field(default=None, repr=False)
    faults: tuple[str, ...] = ()
    bank: Persona = field(init=False, repr=False)
    dialect: SealProfile = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.control_token is not None or self.control_host is not None:
            parse_control_token(self.control_token or "")
        object.__setattr__(self, "directory", as_path(self.directory))
        object.__setattr__(self, "pki", None if self.pki is None else as_path(self.pki))
        persona = load_persona(self.persona, dialects=PROFILES)
        dialect = find_profile(self.profile or persona.profile)
        bank = replace(persona, profile=dialect.name).changed(rules=self.rules, prefix=self.prefix)
        if self.sign_answers and not bank.signs_answers:
            bank = replace(bank, answers="rfc9421")
        object.__setattr__(self, "bank", bank)
        object.__setattr__(self, "dialect", dialect)
        object.__setattr__(self, "dns", tuple(map(parse_server_name, self.dns)))
        if self.callback_url is not None:
            object.__setattr__(self, "callback_url", parse_callback_url(self.callback_url, self.receivers))
        for text in self.faults:
            parse_fault(text, INTERFACES)
        self.receivers.require(self.webhook_url, what="the webhook address", code="gateway.webhook-url")

    @property
    def has_inspector(self) -> bool:
        """Whether the control host has the inspector: on loopback only, because a browser sends no token."""
        return self.control_host is None

    @property
    def receivers(self) -> Receivers:
        """The addresses that callbacks and webhooks can reach.

        Behind a proxy, untrusted users reach the sandbox; their login codes must not make it call this machine.
        """
        is_local = is_loopback(self.host) and self.public_url is None
        return Receivers(parse_networks(self.allow_addresses), loopback=is_local)


class SandboxHosts:
    """The hosts of a sandbox as ASGI applications that share one clock, database and archive, without sockets.

    Args:
        settings: the settings.
        urls: addresses of the listeners by their names, as clients see them; the server certificate has the name of `psd2`.
            Without theirs, `psd2` and `approval` are at `localhost`, and links to the inspector have no host.
        base_clock: the real time, at which certificates and seals are verified; the virtual clock adds its offset.
        seals_by_id: the certificates of seals by their keyIds, for a dialect that does not send them; None: those of the PKI.
        environment: variables by name; `TPPKIT_VAULT_KEY` encrypts stored cards.

    Attributes:
        hosts: one for each interface, by its name.
        pages: the pages for browsers.
        control: the control host for developers.
        requests: the latest requests to the interfaces.
        inspector: the pages of the control host that show them.
        faults: the requested faults of deliveries and interfaces.
        observers: called with each request to an interface and its answer.
        conformance: the report on the client under test.
        at_reset: called when the sandbox was put back to its start; each drops what its part keeps in memory.
        legacy: the test and the live host of the legacy interface, by their names.
        projects: the projects of the payment gateway.
        known_seals: `seals_by_id`, to which certificates may be added.

    Raises:
        ConfigurationError: `pki.unusable`, `database.unusable`, `callback.networks`, `vault.key`, `gateway.key`, `trust.*`, `file.*`;
            `sandbox.bank-seal`, `seal.*`, with `sign_answers`.
        FormatError: `file.unreadable`, `file.too-large`.
        ArchiveError: `archive.*`.
    """

    def __init__(
        self,
        settings: SandboxSettings,
        *,
        urls: Mapping[str, str] = MappingProxyType({}),
        base_clock: Clock = utc_now,
        seals_by_id: dict[str, EidasCertificate] | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        receivers, bank = settings.receivers, settings.bank
        approval_url, psd2_url = urls.get("approval", "http://localhost"), urls.get("psd2", "https://localhost")
        self.settings = settings
        self.pki = settings.pki or settings.directory / "pki"
        if settings.pki is None and not self.pki.exists():
            write_pki(make_pki(at=base_clock(), seal_key=seal_key_kind(settings.dialect)), self.pki)
        if not (self.pki / "root.pem").exists():
            message = f"there is no test PKI in {self.pki}: make one with tppkit pki create {self.pki}"
            raise ConfigurationError("pki.unusable", message)
        anchors = load_anchors(self.pki)
        revocations = FolderRevocations(self.pki)
        trusted = Anchors(anchors.roots) if settings.roots_only else anchors
        names = (urlsplit(psd2_url).hostname or "", *settings.dns)
        self.tls = ServerTls(
            *server_identity(self.pki, names, at=base_clock()),
            b"".join(certificate_pem(authority) for authority in (*trusted.roots, *trusted.intermediates)),
        )
        self.known_seals = known_seals(settings.dialect, self.pki) if seals_by_id is None else seals_by_id
        seals = SealPolicy(
            PathVerifier(anchors, revocation=revocations.checker),  # a seal cannot contain intermediates
            profile=settings.dialect,
            certificates=self.known_seals,
            origin=parse_origin(psd2_url),
            organizations=settings.organizations,
        )
        qwac_paths = PathVerifier(trusted, revocation=revocations.checker)
        qwacs = CurrentQwacs(qwac_paths, revocations, settings.organizations)
        self.faults = Faults(INTERFACES)
        for text in settings.faults:
            self.faults.add(parse_fault(text, INTERFACES))
        self.legacy = open_hosts(settings.directory / "legacy", approval_url)
        self.projects = Projects(settings.directory / "gateway")
        new_id = Ids(settings.directory, settings.seed)
        cipher = CardCipher.open(settings.directory, environment)
        gateway = GatewaySettings(self.projects, cipher, new_id, approval_url, receivers)
        roots = [certificate_pem(root) for root in anchors.roots]
        # Created on demand, because reading the system's authorities takes as long as the rest of the setup.
        http = cache(lambda: OutgoingHttp(receivers_tls(*roots), receivers))
        self.conformance = report = Conformance(now=lambda: self.clock.now())
        sign = answer_signer(self.pki, bank.answers if bank.signs_answers else None, now=base_clock)
        cells = (
            psd2_cell(
                Psd2Settings(bank.rules, approval_url, bank.interface), qwacs=qwacs, seals=seals, now=base_clock,
                report=report, authorities=anchors.intermediates, sign=sign,
            ),
            legacy_cell(self.legacy, http=http, receivers=receivers, faults=self.faults, report=report),
            gateway_cell(gateway, http=http, report=report),
        )  # fmt: skip
        shared = MetaData()
        windows = {row.once.window for cell in cells for row in cell.interface.endpoints if row.once}
        requests = {window: RequestTable(shared, window=window, name=_table_of(window)) for window in windows}
        with ExitStack() as opened:
            archive = EvidenceArchive(settings.directory / ARCHIVE, stream_id=read_stream_id(settings.directory))
            opened.callback(lambda: self.archive.close())
            self.evidence = Evidence(archive, shared)
            url = settings.database or f"sqlite:///{settings.directory / DATABASE}"
            accounts = customers.TABLES, tables.TABLES, instant.TABLES
            self.database = Database(
                url, shared, CLOCK_TABLES, DELIVERY_TABLES, *accounts, *(cell.tables for cell in cells)
            )
            self.database.run_at_start(self.evidence.require_own)
            times = [cell.latest_time for cell in cells]
            latest = self.database.run_at_start(partial(latest_time, interfaces=times))
            self.clock = SandboxClock(self.database, latest=latest, base=base_clock)
            self.database.run_at_start(partial(seed_bank, seed=settings.seed or 0, at=self.clock.now()))
            if settings.callback_url is not None:
                self.database.run_at_start(partial(set_callback_url, url=settings.callback_url))
            senders = {name: sender for cell in cells for name, sender in cell.senders.items()}
            self.deliveries = Deliveries(self.database, self.clock.now, senders, self.faults)
            self.gate = Gate()
            self.events = Events(self.database, self.clock.now, cells, then=self.deliveries.wake, gate=self.gate)
            services = Services(self.database, requests, self.evidence, self.clock.now, new_id, self.events, self.gate)
            self.hosts = {name: host for cell in cells for name, host in cell.hosts(services).items()}
            if settings.webhook_url is not None:
                self.database.run_at_start(partial(self.projects.set_webhook_url, url=settings.webhook_url))
            self.requests = LatestRequests(base_clock)
            self.observers: list[Observer] = [report.observe, self.requests.keep]
            pages = [route for cell in cells for route in cell.pages(services)]
            inspector_url = f"{urls.get('control', '')}{INSPECTOR}" if settings.has_inspector else None
            found = Starlette(routes=[index_page(services, cells, self.requests, inspector_url=inspector_url), *pages])
            found.router.redirect_slashes = False  # a redirect would lead to the name in the Host header
            self.pages = self.gate.around(protected(found))
            shared_routes = (
                *self.clock.control(self._catch_up),
                *self.faults.control({name: sender.faults for name, sender in senders.items()}),
                *bank_control(self.database, self.events),
                ledger_control(services, cells, settings.directory / ARCHIVE),
            )
            routes = [row for cell in cells for row in cell.control(services)]
            rows = (*shared_routes, *self.requests.control, *report.control, *routes)
            controls = [self.gate.hold(row) for row in rows]
            controls.append(Control("POST", "/reset", self._reset))
            controls += openapi_control(openapi_documents(bank, settings.dialect, urls))
            self.inspector = Inspector(
                self.requests, controls, interfaces=tuple(self.hosts), plain=("psd2",), faulty=INTERFACES,
                faults={"Requests to an interface": INTERFACE_FAULTS, "Callbacks and webhooks": FAULTS},
                decisions=[one for cell in cells for one in cell.decisions],
                diagnoses=SealDiagnoses(settings.dialect, seals.certificates, seals.origin), now=self.clock.now,
                token=secrets.token_urlsafe(),
            )  # fmt: skip
            self._base_clock, self._new_id = base_clock, new_id
            self._resets = set[asyncio.Task[None]]()
            self.at_reset: list[Callable[[], object]] = [
                self.clock.start_over, self.events.start_over, self.faults.clear, self.requests.clear, report.clear
            ]  # fmt: skip
            self.control = control_host(
                controls,
                pages=self.inspector.routes if settings.has_inspector else (),
                names=() if settings.control_host is None else {*names, settings.control_host.lower()},
                token=settings.control_token,
            )
            self._opened = opened.pop_all()

    @property
    def archive(self) -> EvidenceArchive:
        """The archive of the evidence; a reset begins a new one."""
        return self.evidence.archive

    async def reset(self) -> None:
        """Put the bank back to its start; PKI, keys and settings stay, and its clock shows real time again.

        Requests that are being answered are finished first, and later ones are answered afterwards.

        Raises:
            TransportError: `sandbox.busy`, `database.unavailable`; nothing was reset.
            ArchiveError: `archive.unusable`; nothing was reset, or sealed requests are refused until a restart.
        """
        task = asyncio.create_task(self._run_reset())  # it ends also if the caller is cancelled
        self._resets.add(task)
        task.add_done_callback(self._resets.discard)
        await asyncio.shield(task)

    async def _run_reset(self) -> None:
        async with self.gate.closed(wait_s=_BUSY_S), self.deliveries.stopped():
            await self.database.settle()
            await self.evidence.require_archived(wait_s=_FLUSH_S)
            stream_id = await asyncio.to_thread(self.evidence.next_stream)
            await self.database.write(partial(self._start_over, stream_id=stream_id), then=self._forget)
            self._new_id.start_over()
            await asyncio.to_thread(self.evidence.begin_stream, stream_id)

    def _start_over(self, db: Connection, *, stream_id: str) -> Project:
        """Make the database that of a new sandbox, in one transaction; return the gateway's first project."""
        settings, at = self.settings, self._base_clock()
        self.database.clear(db)
        self.evidence.bind(db, stream_id)
        seed_bank(db, seed=settings.seed or 0, at=at)
        if settings.callback_url is not None:
            set_callback_url(db, settings.callback_url)
        project = self.projects.first(webhook_url=settings.webhook_url, at=at)
        self.projects.add(db, project)
        return project

    def _forget(self, project: Project) -> None:
        """Forget what is kept in memory, after the commit of a reset."""
        self.gate.resets += 1
        self.projects.keep_only(project)
        for forget in self.at_reset:
            forget()

    async def _reset(self, parameters: Mapping[str, str], body: Any) -> Any:
        if body is not None:
            raise FormatError("model.invalid", "a reset has no body")
        await self.reset()
        return {"now": format_time(self.clock.now())}

    async def _catch_up(self) -> datetime | None:
        """Run all due events and attempt their deliveries once; return the next due time, or None."""
        await self.events.catch_up()
        await self.deliveries.run_due()
        times = await self.database.read_soon(lambda db: (self.events.next_time(db), next_due(db)))
        return min(filter(None, times), default=None)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Archive evidence, run events and make deliveries while the hosts serve; archive the rest when they stop."""
        draining = asyncio.create_task(self.evidence.drain(self.database))
        watching = [asyncio.create_task(each.watch()) for each in (self.events, self.deliveries)]
        try:
            yield
        finally:
            for task in watching:
                task.cancel()
            with suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_S):
                    await self.evidence.flush()
            draining.cancel()
            await asyncio.gather(draining, *watching, return_exceptions=True)
            await self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()


def _table_of(window: timedelta | None) -> str:
    return "request_ids" if window is None else f"request_ids_{window // timedelta(seconds=1)}s"
