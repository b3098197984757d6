"""How many source files of tppkit one sealed payment enters: at the client until httpx is entered, and at the sandbox."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import httpx

import tppkit
from harness import Line, counted
from sandbox import BODY, receiving, sealed
from tppkit._clock import utc_now
from tppkit.client import Identity, Psd2Client
from tppkit.protocol.psd2 import PaymentInitiation
from tppkit.sandbox import SandboxHosts, SandboxSettings, run_sandbox
from tppkit.testpki import make_pki, write_pki

ROOT, HTTPX = (f"{Path(package.__file__).parent}/" for package in (tppkit, httpx))


class Entered:
    """The files of tppkit in which a function was called while `on`, in order; httpx ends it."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.on = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Take an event of `sys.setprofile`."""
        path = frame.f_code.co_filename
        self.on = self.on and not path.startswith(HTTPX)
        if self.on and event == "call" and path.startswith(ROOT):
            self.files[path.removeprefix(ROOT)] = None


def entering() -> Iterator[Line]:
    """Both sides of a second payment, when everything is made ready."""
    pki = make_pki(at=utc_now(), key="p256")
    for side, measure, limit in (("client", client, 12), ("sandbox", bank, 24)):
        with TemporaryDirectory() as name:
            folder, entered = Path(name), Entered()
            write_pki(pki, folder / "pki")
            measure(SandboxSettings(folder / "bank", pki=folder / "pki"), entered, sealed(pki, 2))
        yield counted(f"files of a sealed payment, {side}", len(entered.files), what="files", at_most=limit)


def client(settings: SandboxSettings, entered: Entered, _: object) -> None:
    """Pay from the method of `Psd2Client` on."""
    files = {"qwac": "qwac-chain.pem", "qwac_key": "qwac.key", "qseal": "qseal.pem", "qseal_key": "qseal.key"}
    identity = Identity.from_files(
        server_anchors=settings.pki / "root.pem", **{field: settings.pki / name for field, name in files.items()}
    )
    payment = PaymentInitiation.from_wire(BODY)
    with run_sandbox(settings) as server, Psd2Client(server.addresses.psd2_url, identity=identity) as psd2:
        psd2.initiate_payment(payment)
        sys.setprofile(entered)
        entered.on = True
        psd2.initiate_payment(payment)
        sys.setprofile(None)


def bank(settings: SandboxSettings, entered: Entered, requests: Iterator[tuple[dict[str, Any], bytes]]) -> None:
    """Pay from the host's ASGI application on until the evidence is archived, in every thread."""

    async def send(event: Any) -> None:
        if event.get("status", 201) != 201:
            raise AssertionError(event)

    async def pay() -> None:
        async with sandbox.running():
            for scope, body in requests:
                entered.on, entered.files = True, {}
                await sandbox.hosts["psd2"](scope, receiving(body), send)
                await sandbox.evidence.flush()
                entered.on = False

    threading.setprofile(entered)
    sys.setprofile(entered)
    with SandboxHosts(settings, approval_url="http://localhost") as sandbox:
        asyncio.run(pay())
    threading.setprofile(None)
    sys.setprofile(None)
