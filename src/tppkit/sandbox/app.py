"""The whole sandbox: settings, its folder, its hosts."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tppkit._clock import Clock, utc_now
from tppkit._files import read_bounded
from tppkit.certificates import OrganizationPolicy
from tppkit.errors import ConfigurationError, FormatError
from tppkit.evidence import EvidenceArchive
from tppkit.sandbox.approval import ApprovalHost
from tppkit.sandbox.clock import SandboxClock
from tppkit.sandbox.control import ControlHost
from tppkit.sandbox.psd2.app import Psd2Host
from tppkit.sandbox.psd2.payments import PaymentRules, Payments
from tppkit.sandbox.revocations import FolderRevocations
from tppkit.sandbox.store import Store
from tppkit.sandbox.tls import ServerTls, TlsMode
from tppkit.testpki import certificate_pem, make_pki, write_pki
from tppkit.trust import Anchors, PathVerifier, load_anchors

ARCHIVE = "archive"
DATABASE = "sandbox.sqlite"
_MAX_PEM_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """How a sandbox is set up.

    Attributes:
        directory: where it keeps its archive and database; made when absent.
        pki: folder of a test PKI (`tppkit pki create`); absent: `directory/pki`, made when it is not there.
        host: address to listen on.
        port: of the PSD2 host; the approval host is on the next, control on the third after; 0 takes free ports.
        strict: refuse bad client certificates in the TLS handshake; else the application answers 401 with the reason.
        database: a SQLAlchemy address; absent: a SQLite file in `directory`.
        seed: the same ids again; absent: the machine's randomness.
        rules: what this bank has decided.
        organizations: the organizationIdentifiers that this bank accepts.
    """

    directory: Path
    pki: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    strict: bool = False
    database: str | None = None
    seed: int | None = None
    rules: PaymentRules = field(default_factory=PaymentRules)
    organizations: OrganizationPolicy = field(default_factory=OrganizationPolicy)


class Sandbox:
    """A sandbox, ready to be served: three ASGI applications around one clock, database and archive.

    Args:
        settings: how it is set up.
        approval_url: address of the approval host, once it is known.
        base_clock: the clock below the sandbox's own.

    Raises:
        ConfigurationError: `pki.unusable`, `database.unusable`, `trust.*`, `file.*`.
        ArchiveError: `archive.*`.
    """

    def __init__(self, settings: SandboxSettings, *, approval_url: str, base_clock: Clock = utc_now) -> None:
        self.settings = settings
        self.clock = SandboxClock(base_clock)
        self.pki = settings.pki or settings.directory / "pki"
        if settings.pki is None and not self.pki.exists():
            write_pki(make_pki(at=self.clock.now()), self.pki)
        anchors = load_anchors(self.pki)
        revocations = FolderRevocations(self.pki)
        paths = PathVerifier(anchors, revocation=revocations.checker)
        self.tls = _server_tls(self.pki, anchors, strict=settings.strict)
        new_token = _token_source(settings.seed)
        payments = Payments(settings.rules, approval_url=approval_url, new_token=new_token)
        with ExitStack() as opened:
            self.archive = opened.enter_context(
                EvidenceArchive(settings.directory / ARCHIVE, stream_id=secrets.token_hex(16))
            )
            store = Store(settings.database or f"sqlite:///{settings.directory / DATABASE}")
            opened.callback(store.close)
            self._opened = opened.pop_all()
        self.psd2 = Psd2Host(
            payments, store=store, archive=self.archive, paths=paths, revocations=revocations, now=self.clock.now,
            organizations=settings.organizations,
        )  # fmt: skip
        self.approval = ApprovalHost(payments, store=store, now=self.clock.now).app
        self.control = ControlHost(self.clock).app

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()


def _server_tls(pki: Path, anchors: Anchors, *, strict: bool) -> ServerTls:
    try:
        certificate = read_bounded(pki / "server-chain.pem", max_bytes=_MAX_PEM_BYTES)
        key = read_bounded(pki / "server.key", max_bytes=_MAX_PEM_BYTES)
    except FormatError as e:
        raise ConfigurationError("pki.unusable", f"{pki} is no test PKI with a server certificate: {e.message}") from e
    client_anchors = b"".join(certificate_pem(authority) for authority in (*anchors.roots, *anchors.intermediates))
    return ServerTls(certificate, key, client_anchors, mode=TlsMode.STRICT if strict else TlsMode.SOFT)


def _token_source(seed: int | None) -> Callable[[], str]:
    if seed is None:
        return lambda: secrets.token_urlsafe(24)
    chance = random.Random(seed)  # noqa: S311  # asked for: the same ids again, for tests
    return lambda: f"{chance.getrandbits(192):048x}"
