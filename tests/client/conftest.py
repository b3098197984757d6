"""A bank to call, an identity to call it with, and both drivers behind one shape."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dialects import Dialect, identity_of, make_dialects
from http_drivers import Ask, Step, caught, run_steps
from rogue_bank import Answer, RogueBank, http, rogue_bank, server_context

from earned import require_earned
from tppkit._clock import utc_now
from tppkit.client import AsyncPsd2Client, Identity, Psd2Client
from tppkit.httpsig import CallableSigner
from tppkit.sandbox import SandboxServer, SandboxSettings, run_sandbox
from tppkit.seals import KeySigner, Seal, SealPolicy, verify_request
from tppkit.testpki import Pki, make_pki
from tppkit.trust import PathVerifier, make_anchors


@dataclass(frozen=True)
class Psd2Driver:
    """Runs steps with one client of the PSD2 interface.

    Attributes:
        client: its class.
        is_async: whether steps are awaited.
    """

    client: Any
    is_async: bool

    def run(self, url: str, identity: Identity, *steps: Step, **options: Any) -> list[Any]:
        return run_steps(self.client(url, identity=identity, **options), *steps)

    def waiting(self, wait: Callable[[float], None]) -> Callable[[float], Any]:
        async def awaited(seconds: float) -> None:
            wait(seconds)

        return awaited if self.is_async else wait


@pytest.fixture(params=[Psd2Driver(Psd2Client, False), Psd2Driver(AsyncPsd2Client, True)], ids=["sync", "async"])
def driver(request: pytest.FixtureRequest) -> Any:
    """The one and the other client, with the same steps."""
    return request.param


@pytest.fixture
def ask(driver: Any, identity: Identity, bank_pki_folder: Path) -> Ask:
    """The results or errors of steps with either client, and the bank that answered them so."""

    def asked(answer: Answer, *steps: Step, by: Identity = identity, name: str = "localhost", then_close: bool = False,
              **options: Any) -> tuple[Any, ...]:  # fmt: skip
        with rogue_bank(server_context(bank_pki_folder), answer, name=name, then_close=then_close) as bank:
            return *driver.run(bank.url, by, *map(caught, steps), **options), bank

    return asked


@pytest.fixture(scope="session")
def identity(bank_pki: Pki) -> Identity:
    """The provider of the PKI, with its seal."""
    return identity_of(bank_pki, Seal(bank_pki.qseal.certificate, KeySigner(bank_pki.qseal.key)))


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
    return identity_of(bank_pki, asyncio.run(Seal.make_async(bank_pki.qseal.certificate, signer)))


@pytest.fixture(scope="module")
def bank(bank_pki_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    """A running sandbox for the tests of one file."""
    with run_sandbox(SandboxSettings(tmp_path_factory.mktemp("sandbox"), pki=bank_pki_folder)) as server:
        yield server


@pytest.fixture(autouse=True)
def clients_keep_the_rules(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test with `bank`, its report has exactly the rules of the marker `earns`."""
    used = request.getfixturevalue("bank") if "bank" in request.fixturenames else None
    yield
    if used is not None:
        conformance = used.sandbox.conformance
        report = conformance.report()
        conformance.clear()
        require_earned(request, [report])


@pytest.fixture
def server(bank_pki_folder: Path) -> Iterator[RogueBank]:
    with rogue_bank(server_context(bank_pki_folder), http(200)) as bank:
        yield bank


@pytest.fixture
def require_seal(bank_pki: Pki) -> Callable[[Any], None]:
    policy = SealPolicy(PathVerifier(make_anchors(bank_pki.authorities)))
    return lambda message: verify_request(message, qwac=bank_pki.qwac.certificate, at=utc_now(), policy=policy) and None
