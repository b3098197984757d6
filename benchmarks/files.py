"""How many source files of tppkit one sealed payment enters: at the client down to the wire, and at the sandbox."""

from __future__ import annotations

import asyncio
import ssl
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import tppkit
from harness import Line, counted
from sandbox import AT, BODY, receiving, sealed
from tppkit._clock import utc_now
from tppkit.client import Identity, Psd2Client
from tppkit.protocol.psd2 import PaymentInitiation
from tppkit.sandbox import Sandbox, SandboxSettings, run_sandbox
from tppkit.seals import KeySigner, Seal
from tppkit.testpki import make_pki, write_pki

ROOT = f"{Path(tppkit.__file__).parent}/"
CLIENT, SANDBOX = 12, 24


class Entered:
    """The files of tppkit in which a function was called while `on`, in order."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.on = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Take an event of `sys.setprofile`."""
        if self.on and event == "call":
            if frame.f_code is ssl.SSLSocket.send.__code__:
                self.on = False
            if frame.f_code.co_filename.startswith(ROOT):
                self.files[frame.f_code.co_filename.removeprefix(ROOT)] = None


def entering() -> Iterator[Line]:
    """Both sides of the second payment, when everything is made ready."""
    for side, measure, limit in (("client", client, CLIENT), ("sandbox", bank, SANDBOX)):
        with TemporaryDirectory() as folder:
            files = measure(Path(folder)).files
        yield counted(f"files of a sealed payment, {side}", len(files), what="files", at_most=limit)


def client(folder: Path) -> Entered:
    """From the method of `Psd2Client` to the first bytes on the TLS connection."""
    pki, entered = make_pki(at=utc_now(), key="p256"), Entered()
    write_pki(pki, folder / "pki")
    qwac, seal = pki.qwac, Seal(pki.qseal.certificate, KeySigner(pki.qseal.key))
    identity = Identity(qwac.certificate, qwac.key, chain=qwac.chain, seal=seal, server_anchors=[pki.root.certificate])
    payment = PaymentInitiation.from_wire(BODY)
    with (
        run_sandbox(SandboxSettings(folder / "bank", pki=folder / "pki")) as server,
        Psd2Client(server.addresses.psd2_url, identity=identity) as psd2,
    ):
        psd2.initiate_payment(payment)
        sys.setprofile(entered)
        entered.on = True
        psd2.initiate_payment(payment)
        sys.setprofile(None)
    return entered


def bank(folder: Path) -> Entered:
    """From the host's ASGI application until the evidence is archived, in every thread."""
    pki, entered = make_pki(at=AT, seed=1), Entered()
    write_pki(pki, folder / "pki")
    settings = SandboxSettings(folder / "bank", pki=folder / "pki")

    async def send(event: Any) -> None:
        if event.get("status", 201) != 201:
            raise AssertionError(event)

    async def pay() -> None:
        async with sandbox.running():
            for scope, body in sealed(pki, 2):
                await asyncio.sleep(0.3)  # what was before is archived
                entered.on, entered.files = True, {}
                await sandbox.hosts["psd2"](scope, receiving(body), send)
                await sandbox.evidence.settle()
                entered.on = False

    threading.setprofile(entered)
    sys.setprofile(entered)
    try:
        with Sandbox(settings, approval_url="http://localhost", base_clock=lambda: AT) as sandbox:
            asyncio.run(pay())
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]  # typeshed does not know it
        sys.setprofile(None)
    return entered
