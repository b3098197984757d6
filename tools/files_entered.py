"""List the source files of tppkit that a sealed payment and a callback enter.

    python tools/files_entered.py [--names]

A payment is followed at the client until httpx is entered, and at the sandbox until the evidence is archived; a callback from the
middleware to its committed effect. Each is the second of its kind, when everything is made ready.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import httpx

import tppkit
from tppkit._clock import utc_now
from tppkit.client import Identity, Psd2Client
from tppkit.protocol.psd2 import PaymentInitiation
from tppkit.sandbox import SandboxSettings, run_sandbox
from tppkit.sandbox.sandbox import SandboxHosts
from tppkit.testpki import Pki, make_pki, write_pki

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from inbox import delivery
from receiver import make_app
from sandbox import BODY, receiving, sealed

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


def main() -> None:
    """Print the count of files of each way, with `--names` also their names."""
    pki = make_pki(at=utc_now(), key="p256")
    for name, enter in (("payment, client", client), ("payment, sandbox", bank), ("callback, receiver", receiver)):
        with TemporaryDirectory() as folder:
            entered = Entered()
            enter(Path(folder), entered, pki)
        print(f"{name}: {len(entered.files)} files")
        for file in entered.files if "--names" in sys.argv else ():
            print(f"  {file}")


def client(folder: Path, entered: Entered, pki: Pki) -> None:
    """Pay from the method of `Psd2Client` on."""
    settings = with_pki(folder, pki)
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


def bank(folder: Path, entered: Entered, pki: Pki) -> None:
    """Pay from the host's ASGI application on until the evidence is archived."""

    async def pay() -> None:
        async with sandbox.running():
            for scope, body in sealed(pki, 2):
                entered.on, entered.files = True, {}
                await sandbox.hosts["psd2"](scope, receiving(body), answered)
                await sandbox.evidence.flush()
                entered.on = False

    with SandboxHosts(with_pki(folder, pki)) as sandbox, every_thread(entered):
        asyncio.run(pay())


def receiver(folder: Path, entered: Entered, _: Pki) -> None:
    """Receive from the application's middleware on until the effect is committed."""
    app = make_app(f"sqlite:///{folder / 'inbox.sqlite'}")

    async def receive() -> None:
        for number in range(2):
            callback = delivery(number)
            headers = [(name.encode().lower(), value.encode()) for name, value in callback.headers]
            scope = {
                "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "https", "method": callback.method,
                "path": callback.target, "raw_path": callback.target.encode(), "query_string": b"", "client": ("127.0.0.1", 1),
                "headers": [(b"host", b"tpp.example"), (b"content-length", b"%d" % len(callback.body)), *headers],
            }  # fmt: skip
            entered.on, entered.files = True, {}
            await app(scope, receiving(callback.body), answered)
            entered.on = False

    with every_thread(entered):
        asyncio.run(receive())


def with_pki(folder: Path, pki: Pki) -> SandboxSettings:
    write_pki(pki, folder / "pki")
    return SandboxSettings(folder / "bank", pki=folder / "pki")


async def answered(event: Any) -> None:
    """Take an answer, which must be a success."""
    if event.get("status", 200) >= 300:
        raise AssertionError(event)


@contextmanager
def every_thread(entered: Entered) -> Iterator[None]:
    threading.setprofile(entered)
    sys.setprofile(entered)
    yield
    threading.setprofile(None)
    sys.setprofile(None)


if __name__ == "__main__":
    main()
