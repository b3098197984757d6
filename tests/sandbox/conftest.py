"""A running sandbox over loopback, its PKI, providers that call it, and a browser."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack
from inspect import iscoroutinefunction, signature
from pathlib import Path
from threading import Thread
from typing import Any
from weakref import WeakSet

import httpx
import pytest
from bank_process import BankProcess
from browser import DESKTOP, Provider
from cards import Cards, logged_at_debug
from gateway_shop import Open, Shop
from legacy_provider import ConnectLegacy, Legacy, Receiver, receiving
from merchant import MakeMerchant, Merchant
from raw_provider import Connect, OpenBank, RawProvider, checked_sandbox, make_seal, require_books, tls_context

from earned import require_earned
from programs import needed
from tppkit.sandbox import Sandbox, SandboxServer, SandboxSettings, run_sandbox
from tppkit.sandbox.conformance import Report
from tppkit.testpki import Issued, Pki, make_provider


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop of its own, which also closes what `at_end` has."""
    test, given = pyfuncitem.obj, pyfuncitem.funcargs
    if not iscoroutinefunction(test):
        return None

    async def run() -> None:
        async with given.get("at_end", AsyncExitStack()):
            await test(**{name: given[name] for name in signature(test).parameters})

    asyncio.run(run())
    return True


@pytest.fixture
def at_end() -> AsyncExitStack:
    """What a test that is a coroutine closes in its event loop."""
    return AsyncExitStack()


@pytest.fixture(scope="session")
def second_provider(bank_pki: Pki) -> tuple[Issued, Issued]:
    """QWAC and QSealC of another provider."""
    other = make_provider(organization_identifier="PSDDE-BAFIN-999999", name="Another Provider TEST")
    return bank_pki.issue_qwac(other, label="second-qwac"), bank_pki.issue_qseal(other, label="second-qseal")


@pytest.fixture(scope="module")
def bank(bank_pki_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    """A sandbox for the tests of one file, which do not move its clock."""
    settings = SandboxSettings(tmp_path_factory.mktemp("sandbox"), pki=bank_pki_folder)
    with checked_sandbox(settings) as server:
        yield server


@pytest.fixture(autouse=True)
def books_agree(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check consistency after each test that used `bank`; other sandboxes are checked before they stop."""
    used = request.getfixturevalue("bank") if "bank" in request.fixturenames else None
    yield
    if used is not None:
        require_books(used)


@pytest.fixture(scope="session")
def inside_sandboxes() -> Iterator[tuple[WeakSet[Sandbox], list[Report]]]:
    """The sandboxes in this process that are open, and the reports of those that were closed."""
    opened, closed = WeakSet[Sandbox](), list[Report]()
    begin, end = Sandbox.__init__, Sandbox.close

    def opening(bank: Sandbox, **settings: Any) -> None:
        begin(bank, **settings)
        opened.add(bank)

    def closing(bank: Sandbox) -> None:
        if bank in opened:
            opened.discard(bank)
            closed.append(bank._hosts.conformance.report())
        end(bank)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sandbox, "__init__", opening)
        patch.setattr(Sandbox, "close", closing)
        yield opened, closed


@pytest.fixture(autouse=True)
def clients_keep_the_rules(
    request: pytest.FixtureRequest, inside_sandboxes: tuple[WeakSet[Sandbox], list[Report]]
) -> Iterator[None]:
    """After each test, the report on the clients of sandboxes in this process has exactly the rules of the marker `earns`."""
    opened, closed = inside_sandboxes
    closed.clear()  # of tests elsewhere, which ran in this process before
    for bank in opened:
        bank._hosts.conformance.clear()
    yield
    reports = [*closed, *(bank._hosts.conformance.report() for bank in opened)]
    closed.clear()
    for bank in opened:
        bank._hosts.conformance.clear()
    require_earned(request, reports)


@pytest.fixture
def open_bank(bank_pki_folder: Path, tmp_path: Path) -> OpenBank:
    """Opens sandboxes with further settings. Two in the folder of one name are a restart; `checked=False` leaves the books alone."""

    def opened(
        name: str = "sandbox", *, checked: bool = True, log: Any = None, **settings: Any
    ) -> AbstractContextManager[SandboxServer]:
        opening = checked_sandbox if checked else run_sandbox
        return opening(SandboxSettings(tmp_path / name, **{"pki": bank_pki_folder, **settings}), log=log)

    return opened


@pytest.fixture
def fresh_bank(open_bank: OpenBank) -> Iterator[SandboxServer]:
    """A sandbox for one test."""
    with open_bank() as server:
        yield server


@pytest.fixture
def killed_bank(tmp_path: Path, bank_pki: Pki, bank_pki_folder: Path) -> BankProcess:
    """A sandbox in a process of its own, which is not started yet."""
    return BankProcess(tmp_path, bank_pki_folder, bank_pki)


@pytest.fixture(scope="module")
def connect(bank_pki: Pki) -> Iterator[Connect]:
    """Opens connections to a sandbox; all are closed at the end of the file."""
    with ExitStack() as opened:

        def connected(
            server: SandboxServer, *, qwac: Issued = bank_pki.qwac, qseal: Issued = bank_pki.qseal
        ) -> RawProvider:
            context = tls_context(qwac, bank_pki)
            http = httpx.Client(base_url=server.addresses.psd2_url, verify=context, trust_env=False, timeout=10)
            return RawProvider(opened.enter_context(http), make_seal(qseal))

        yield connected


@pytest.fixture(scope="module")
def tpp(bank: SandboxServer, connect: Connect) -> RawProvider:
    """The PKI's own provider, connected to `bank`."""
    return connect(bank)


@pytest.fixture
def caller(fresh_bank: SandboxServer, connect: Connect) -> RawProvider:
    """The PKI's own provider, connected to a sandbox whose clock may be moved."""
    return connect(fresh_bank)


@pytest.fixture
def connect_legacy(bank_pki: Pki) -> Iterator[ConnectLegacy]:
    """Makes providers of the legacy interface at a sandbox, at its live host with `live=True`."""
    with ExitStack() as opened:

        def connected(server: SandboxServer, *, live: bool = False) -> Legacy:
            made = Legacy(server, bank_pki, live=live)
            opened.enter_context(made.http)
            return made

        yield connected


@pytest.fixture
def legacy(bank: SandboxServer, connect_legacy: ConnectLegacy) -> Legacy:
    """The provider at the test host of `bank`."""
    return connect_legacy(bank)


@pytest.fixture
def receiver(bank_pki: Pki, tmp_path: Path) -> Iterator[Receiver]:
    """A receiver of callbacks with a certificate of the PKI."""
    with receiving(bank_pki.server, tmp_path) as found:
        yield found


@pytest.fixture
def notified(fresh_bank: SandboxServer, connect_legacy: ConnectLegacy, receiver: Receiver) -> Legacy:
    """A provider of the legacy interface with a receiver, at a bank whose clock may be moved."""
    made = connect_legacy(fresh_bank)
    made.control("/legacy/provider", {"callback_url": receiver.url})
    return made


@pytest.fixture
def cards(caplog: pytest.LogCaptureFixture) -> Iterator[Cards]:
    """Makes the cards of one test, and checks afterwards that logs, kept answers and watched folders have none of them."""
    with logged_at_debug():
        made = Cards(caplog)
        yield made
        made.firewall()


@pytest.fixture
def make_merchant(bank_pki: Pki, cards: Cards) -> Iterator[MakeMerchant]:
    """Makes merchants at a sandbox, each with a project of its own with these settings; `cards` searches what they can read."""
    with ExitStack() as opened:

        def made(server: SandboxServer, **settings: Any) -> Merchant:
            merchant = Merchant(server, bank_pki, cards, **settings)
            opened.enter_context(merchant.http)
            opened.callback(merchant.show_everything)
            return merchant

        yield made


@pytest.fixture
def merchant(bank: SandboxServer, make_merchant: MakeMerchant) -> Merchant:
    """A merchant at `bank`."""
    return make_merchant(bank)


@pytest.fixture
def timed_merchant(fresh_bank: SandboxServer, make_merchant: MakeMerchant) -> Merchant:
    """A merchant at a sandbox of its own, whose clock it may move."""
    return make_merchant(fresh_bank)


@pytest.fixture
def open_shop(bank_pki: Pki) -> Iterator[Open]:
    with ExitStack() as opened:
        yield lambda merchant: Shop(merchant, bank_pki, opened)


@pytest.fixture
def shop(merchant: Merchant, open_shop: Open) -> Shop:
    """A shop at `bank`, whose clock does not move."""
    return open_shop(merchant)


@pytest.fixture
def timed(timed_merchant: Merchant, open_shop: Open) -> Shop:
    """A shop at a sandbox of its own."""
    return open_shop(timed_merchant)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Debian's Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright; install the extra dev")
    program = needed("chromium")
    with playwright.sync_playwright() as driver:
        sandboxed = os.geteuid() != 0  # Chromium's own sandbox does not run as root
        browser = driver.chromium.launch(executable_path=program, chromium_sandbox=sandboxed)
        yield browser
        browser.close()


@pytest.fixture
def browse(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens tabs, each in a browser of its own unless another tab is named."""
    contexts: list[Any] = []

    def opened(url: str, form: dict[str, Any] = DESKTOP, *, beside: Any = None, **options: Any) -> Any:
        context = beside.context if beside is not None else chromium.new_context(**form, **options)
        contexts.append(context)
        page = context.new_page()
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    """The folder for pictures of the pages; TPPKIT_SCREENSHOTS names one that is kept."""
    folder = Path(os.environ.get("TPPKIT_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider's or merchant's own site."""
    with Provider() as site:
        Thread(target=site.serve_forever, daemon=True).start()
        yield site
        site.shutdown()
