"""A shop as a provider of the legacy interface: our client calls the bank, and our receiver gets its callbacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from raw_provider import done, write_identity

from tppkit.callbacks import CallbackAddress, CallbackKind, CallbackReceiver, Inbox, VerifiedCallback, load_callback_key
from tppkit.callbacks.login_codes import LoginCodes
from tppkit.client import AccessKind, LegacyClient
from tppkit.inbox.store import InboxStore
from tppkit.protocol.legacy import LoginConfirmed, LoginPermission, Transaction
from tppkit.sandbox import SandboxServer
from tppkit.sandbox.thread import in_thread
from tppkit.sandbox.uvicorn_server import QuietServer, listen, serve, stop
from tppkit.testpki import Issued, Pki
from tppkit.web import CallbackGate, CallbackMiddleware


@dataclass
class Shop:
    """Our client of one host, and the events that our receiver has handled.

    Attributes:
        bank: the sandbox.
        client: of the test or the live host.
        host: `test` or `live`.
        origin: of the receiver.
        codes: of the shop's login page.
        events: what the handlers were called with, in this order.
        counted: outcome and code of each request that the receiver has answered.
        failures: how many of the next callbacks a handler fails for.
    """

    bank: SandboxServer
    client: LegacyClient
    host: str
    origin: str
    codes: LoginCodes
    events: list[Any] = field(default_factory=list)
    counted: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: int = 0

    def handle(self, event: Any, callback: VerifiedCallback, connection: Any) -> None:
        """Handle an event of any kind."""
        if self.failures:
            self.failures -= 1
            raise OSError("the shop's own system fails")
        self.events.append(event)

    def log_in(self, event: LoginConfirmed, callback: VerifiedCallback, connection: Any) -> None:
        """Handle a confirmed login: the event, and the session that it belongs to."""
        self.events.append((event, self.codes.match(callback, connection)))

    def count(self, outcome: str, code: str, seconds: float) -> None:
        self.counted[outcome, code] += 1

    def control(self, path: str, body: Any = None) -> Any:
        """A control call that must succeed. `POST /clock/advance` also waits for the first attempt of each callback that is due."""
        return done(self.bank, path, body)

    def advance(self, seconds: float = 0) -> None:
        self.control("/clock/advance", {"seconds": seconds})

    def granted(self, kind: AccessKind, acc: str) -> str:
        """A token that the customer has granted and the callback has echoed."""
        token = self.client.request_access(kind, acc)
        self.control(f"/legacy/access/{token}/approve", {"host": self.host})
        self.advance()
        return token

    def approve(self, uuid: str) -> None:
        """The customer approves a payment, and an hour passes."""
        self.control(f"/legacy/payments/{uuid}/approve", {"host": self.host})
        self.advance()
        self.advance(3600)

    def outcomes(self) -> list[tuple[str, int]]:
        """The payments' states and versions that had an effect."""
        return [(one.tlc, one.ver) for one in self.events if isinstance(one, Transaction)]


@contextmanager
def open_shop(
    bank: SandboxServer, pki: Pki, folder: Path, *, live: bool = False, issued: Issued | None = None
) -> Iterator[Shop]:
    """A shop whose receiver answers, and to which the bank sends its callbacks.

    Args:
        bank: the sandbox.
        pki: of the bank, and of the receiver.
        folder: for the inbox and the receiver's certificate.
        live: at the live host, whose callbacks alone it takes.
        issued: the receiver's certificate; absent: the PKI's.
    """
    at, issued = bank.addresses, issued or pki.server
    url, key, public = (
        (at.legacy_live_url, at.legacy_live_api_key, at.legacy_live_public_key)
        if live
        else (at.legacy_url, at.legacy_api_key, at.legacy_public_key)
    )
    pem = write_identity(issued, folder)
    with (
        LegacyClient(url, api_key=key, server_anchors=[pki.root.certificate]) as client,
        closing(InboxStore(f"sqlite:///{pem.with_suffix('.sqlite')}")) as store,
        listen("127.0.0.1", 0) as bound,
    ):
        origin = f"https://localhost:{bound.getsockname()[1]}"
        addresses = {
            "cb/": CallbackKind.ACCESS,
            "cb/{token}": CallbackKind.PAYMENT,
            "login/{token}": CallbackKind.LOGIN,
        }
        receiver = CallbackReceiver(
            [CallbackAddress(f"{origin}/{path}", kind) for path, kind in addresses.items()],
            keys=[load_callback_key(Path(public), name="bank")],
        )
        store.create_tables()
        inbox = Inbox(receiver, store)
        codes = LoginCodes(inbox, name="Bookshop", perm=(LoginPermission.NAME, LoginPermission.EMAIL))
        codes.create_tables()
        shop = Shop(bank, client, "live" if live else "test", origin, codes)
        gate = CallbackGate(
            inbox, on_access=shop.handle, on_payment=shop.handle, on_login=shop.log_in,
            login=shop.codes.answer, count=shop.count,
        )  # fmt: skip
        config = uvicorn.Config(
            CallbackMiddleware(_nothing_else, gate=gate), lifespan="off", ws="none", log_config=None, proxy_headers=False,
            ssl_certfile=pem,
        )  # fmt: skip
        servers = [(QuietServer(config), bound)]
        with in_thread(lambda ready: serve(servers, on_ready=ready), stop=lambda: stop(servers)):
            shop.control("/legacy/provider", {"callback_url": f"{origin}/cb"})
            yield shop


async def _nothing_else(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})
