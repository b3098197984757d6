"""A bank to call, an identity to call it with, and both drivers behind one shape."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from dialects import Dialect, make_dialects

from tppkit._clock import utc_now
from tppkit.client import AsyncPsd2Client, Identity, Psd2Client
from tppkit.httpsig import CallableSigner
from tppkit.sandbox import SandboxServer, SandboxSettings, run_sandbox
from tppkit.seals import KeySigner, Seal
from tppkit.testpki import Pki, make_pki, write_pki

Step = Callable[[Any], Any]


class SyncDriver:
    """Runs steps with one `Psd2Client`."""

    def run(self, url: str, identity: Identity, *steps: Step, **options: Any) -> list[Any]:
        with Psd2Client(url, identity=identity, **options) as client:
            return [step(client) for step in steps]

    def waiting(self, wait: Callable[[float], None]) -> Callable[[float], Any]:
        return wait


class AsyncDriver:
    """Runs steps with one `AsyncPsd2Client`, awaiting what has to be."""

    def run(self, url: str, identity: Identity, *steps: Step, **options: Any) -> list[Any]:
        async def main() -> list[Any]:
            async with AsyncPsd2Client(url, identity=identity, **options) as client:
                results: list[Any] = []
                for step in steps:
                    result = step(client)
                    results.append(await result if inspect.isawaitable(result) else result)
                return results

        return asyncio.run(main())

    def waiting(self, wait: Callable[[float], None]) -> Callable[[float], Any]:
        async def awaited(seconds: float) -> None:
            wait(seconds)

        return awaited


@pytest.fixture(params=[SyncDriver, AsyncDriver], ids=["sync", "async"])
def driver(request: pytest.FixtureRequest) -> Any:
    """The one and the other client, with the same steps."""
    return request.param()


@pytest.fixture(scope="session")
def bank_pki() -> Pki:
    """A test PKI that is valid today: TLS asks the machine's clock."""
    return make_pki(at=utc_now(), seed=21)


@pytest.fixture(scope="session")
def bank_pki_folder(bank_pki: Pki, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bank") / "pki"
    write_pki(bank_pki, folder)
    return folder


@pytest.fixture(scope="session")
def identity(bank_pki: Pki) -> Identity:
    """The provider of the PKI, with its seal."""
    seal = Seal(bank_pki.qseal.certificate, KeySigner(bank_pki.qseal.key))
    qwac = bank_pki.qwac
    return Identity(qwac.certificate, qwac.key, chain=qwac.chain, seal=seal, server_anchors=[bank_pki.root.certificate])


@pytest.fixture(scope="session")
def dialects(bank_pki: Pki) -> Mapping[str, Dialect]:
    """Every row of the table."""
    return make_dialects(bank_pki, make_pki(at=utc_now(), key="rsa2048"))


@pytest.fixture
def awaited(bank_pki: Pki) -> Identity:
    """An identity whose seal signs only with await."""

    async def sign(data: bytes) -> bytes:
        await asyncio.sleep(0.01)
        return KeySigner(bank_pki.qseal.key).sign(data)

    signer = CallableSigner(bank_pki.qseal.certificate.public_key, sign_async=sign)
    seal = asyncio.run(Seal.make_async(bank_pki.qseal.certificate, signer))
    qwac = bank_pki.qwac
    return Identity(qwac.certificate, qwac.key, seal=seal, server_anchors=[bank_pki.root.certificate])


@pytest.fixture(scope="module")
def bank(bank_pki_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    """A running sandbox for the tests of one file."""
    with run_sandbox(SandboxSettings(tmp_path_factory.mktemp("sandbox"), pki=bank_pki_folder)) as server:
        yield server
