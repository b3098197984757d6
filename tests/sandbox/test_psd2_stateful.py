"""Walks through payments, consents, account data and the ledger together, with clock jumps and restarts, beside a model of them.

A run begins in the evening before the bank's day of 25 hours.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import httpx
import pytest
from account_reader import ACCOUNTS, ALL, ATTENDED, AVAILABLE, CONSENTS, DAILY, SHOP, SMALL
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, rule, run_state_machine_as_test
from raw_provider import INSTANT, PAYMENT, SEPA, RawProvider, altered, assert_refused, make_seal

from tppkit.sandbox import SandboxSettings
from tppkit.sandbox.sandbox import SandboxHosts
from tppkit.seals import Message
from tppkit.testpki import Pki, certificate_pem, make_pki, write_pki

pytestmark = pytest.mark.slow

AT = datetime(2026, 10, 24, 18, tzinfo=UTC)
VILNIUS = ZoneInfo("Europe/Vilnius")
ELSEWHERE = PAYMENT["creditorAccount"]["iban"]
STEP = timedelta(milliseconds=1)  # each step has a time of its own
LINK, INSTANT_TIME, NORMAL_TIME, WINDOW = (
    timedelta(minutes=5), timedelta(seconds=10), timedelta(hours=1), timedelta(hours=1),
)  # fmt: skip
CAP = Decimal("100000.00")
DAYS = st.sampled_from([0, 1, 3, 3])
PAYERS = st.sampled_from([DAILY, SMALL, SHOP])
SOON = st.sampled_from([DAILY, DAILY, SMALL, SHOP, None])  # who approves at once


@dataclass(eq=False)
class Payment:
    """A payment as the model has it."""

    name: str
    product: str
    amount: Decimal
    creditor: str
    debtor: str | None
    message: Message
    answer: bytes
    made_at: datetime
    active_at: datetime
    status: str = "RCVD"
    opened: bool = False
    payer: str = ""
    instant: bool = False
    started_at: datetime = AT
    due_at: datetime = AT

    @property
    def links(self) -> Any:
        return json.loads(self.answer)["_links"]

    @property
    def control(self) -> str:
        return f"/payments/{json.loads(self.answer)['paymentId']}"


@dataclass(eq=False)
class Consent:
    """A consent as the model has it."""

    id: str
    access: Any
    valid_until: date
    most: int
    active_at: datetime
    status: str = "received"
    iban: str = ""
    resource_id: str = ""
    reads: dict[date, int] = field(default_factory=dict)


class InProcess(httpx.BaseTransport):
    """Calls an ASGI application in an event loop that runs only during the call."""

    def __init__(self, runner: asyncio.Runner, app: Any, chain: tuple[str, ...]) -> None:
        async def with_tls(scope: Any, receive: Any, send: Any) -> None:
            extensions = {"tls": {"client_cert_chain": chain, "client_cert_error": None}}
            await app({**scope, "extensions": extensions}, receive, send)

        self._run, self._inner = runner.run, httpx.ASGITransport(with_tls)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        async def answered() -> httpx.Response:
            response = await self._inner.handle_async_request(
                httpx.Request(request.method, request.url, headers=request.headers, content=request.content)
            )
            return httpx.Response(response.status_code, headers=response.headers, content=await response.aread())

        return self._run(answered())


class Bank:
    """The hosts of a sandbox in this process, on a copy of a folder; the machine's clock does not move."""

    def __init__(self, seeded: Path, pki: Pki) -> None:
        self._opened = ExitStack()
        self._folder = Path(self._opened.enter_context(TemporaryDirectory(prefix="tppkit-machine-")))
        shutil.copytree(seeded, self._folder, dirs_exist_ok=True)
        self._pki = pki
        self._chain = tuple(certificate_pem(one.certificate).decode() for one in (pki.qwac, pki.qwac_ca))
        self.base = AT
        self.start()

    def start(self) -> None:
        self._running = self._opened.enter_context(ExitStack())
        self.runner = runner = self._running.enter_context(asyncio.Runner())
        bank = SandboxSettings(self._folder, pki=self._folder / "pki")
        hosts = SandboxHosts(bank, base_clock=lambda: self.base)
        self._running.enter_context(hosts)
        serving = hosts.running()
        runner.run(serving.__aenter__())
        self._running.callback(lambda: runner.run(serving.__aexit__(None, None, None)))
        self.apps = hosts.hosts
        psd2, control = (InProcess(runner, app, self._chain) for app in (hosts.hosts["psd2"], hosts.control))
        self._control = httpx.Client(base_url="http://localhost", transport=control)
        psd2_client = httpx.Client(base_url="https://localhost", transport=psd2)
        self.provider = RawProvider(psd2_client, make_seal(self._pki.qseal))

    def stop(self) -> None:
        self._running.close()

    def remove(self) -> None:
        """Check that everything agrees, and close."""
        assert self.differences() == {"ok": True, "differences": []}
        self._opened.close()

    def differences(self) -> Any:
        """Whether everything agrees."""
        return self._control.get("/ledger/check").json()

    def control(self, path: str, body: Any = None) -> tuple[int, Any]:
        response = self._control.post(path, json=body)
        return response.status_code, response.json()


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Pki, dict[str, Decimal]]:
    """The folder of a bank that was never used, its PKI, and what its accounts hold in EUR."""
    folder, pki = tmp_path_factory.mktemp("machine"), make_pki(at=AT, seed=1)
    write_pki(pki, folder / "pki")
    with SandboxHosts(SandboxSettings(folder, pki=folder / "pki"), base_clock=lambda: AT):
        pass
    query = "SELECT iban, amount FROM accounts JOIN balances ON account = id WHERE currency = 'EUR'"
    with closing(sqlite3.connect(folder / "sandbox.sqlite")) as database:
        return folder, pki, {iban: Decimal(amount).scaleb(-2) for iban, amount in database.execute(query)}


class BankMachine(RuleBasedStateMachine):
    """One bank and its model."""

    payments: Bundle[Payment] = Bundle("payments")
    consents: Bundle[Consent] = Bundle("consents")

    def __init__(self, seeded: Path, pki: Pki, held: Mapping[str, Decimal]) -> None:
        super().__init__()
        self.bank = Bank(seeded, pki)
        self.held = dict(held)
        self.offset = timedelta()
        self.numbers = count(1)
        self.reachable = True
        self.made: list[Payment] = []
        self.in_flight: list[Payment] = []
        self.booked: list[tuple[datetime, Payment]] = []

    def teardown(self) -> None:
        """Everything is compared at the end of a run, except the seed's entries."""
        try:
            self.advance(2 * 3600)
            for payment in self.made:
                self.poll(payment)
            for iban in (DAILY, SMALL, SHOP):
                consent = self.ask(ALL, 1, 0, iban)
                self.read(consent, attended=True, what="/balances", back=0, on=0)
                self.read(consent, attended=False, what="/transactions", back=40, on=40)
        finally:
            self.bank.remove()

    # The model.

    @property
    def now(self) -> datetime:
        return self.bank.base + self.offset

    @property
    def today(self) -> date:
        return self.now.astimezone(VILNIUS).date()

    def step(self) -> None:
        """Move the time by one step, and apply the due events to the model."""
        self.bank.base += STEP
        while self.in_flight and (payment := min(self.in_flight, key=lambda one: one.due_at)).due_at <= self.now:
            self.execute(payment)

    def rail(self, payment: Payment) -> bool:
        return payment.amount <= CAP and (self.reachable or payment.creditor != ELSEWHERE)

    def execute(self, payment: Payment) -> None:
        off_rail = payment.instant and not self.rail(payment)
        if off_rail and payment.product == SEPA:
            payment.instant, payment.due_at = False, payment.started_at + NORMAL_TIME
            return
        self.in_flight.remove(payment)
        payment.status = "RJCT" if off_rail else "ACSC"
        if payment.status == "ACSC":
            self.held[payment.payer] -= payment.amount
            if payment.creditor in self.held:
                self.held[payment.creditor] += payment.amount
            self.booked.append((payment.due_at, payment))

    def available(self, iban: str) -> Decimal:
        return self.held[iban] - sum(payment.amount for payment in self.in_flight if payment.payer == iban)

    def state(self, order: Payment | Consent) -> str:
        if order.status in ("RCVD", "received") and self.now >= order.active_at + LINK:
            order.status = "RJCT" if isinstance(order, Payment) else "expired"
        if isinstance(order, Consent) and order.status == "valid" and self.today > order.valid_until:
            order.status = "expired"
        return order.status

    def listed(self, iban: str, first: date, last: date) -> list[tuple[str, Decimal]]:
        """Name and amount of what was booked, newest first."""
        inside = [one for one in self.booked if first <= one[0].astimezone(VILNIUS).date() <= min(last, self.today)]
        newest = [payment for _, payment in sorted(inside, key=lambda one: one[0], reverse=True)]
        return [
            (payment.name, -payment.amount if payment.payer == iban else payment.amount)
            for payment in newest if iban in (payment.payer, payment.creditor)
        ]  # fmt: skip

    # What happens.

    @initialize(target=consents)
    def begin(self) -> Consent:
        return self.ask(ALL, 3, 400, DAILY)

    @rule(seconds=st.sampled_from([1, 10, 10, 10, 299, 300, 3600, 3600, 6 * 3600, 23 * 3600, 25 * 3600]))
    def advance(self, seconds: int) -> None:
        self.step()
        self.offset += timedelta(seconds=seconds)
        assert self.bank.control("/clock/advance", {"seconds": seconds})[0] == 200

    @rule(seconds=st.sampled_from([0, 20, 7200]))
    def restart(self, seconds: int) -> None:
        self.bank.stop()
        self.bank.base += timedelta(seconds=seconds)
        self.bank.start()

    @rule(reachable=st.booleans())
    def reach(self, reachable: bool) -> None:
        self.step()
        self.reachable = reachable
        assert self.bank.control("/instant", {"country": "DE", "reachable": reachable})[0] == 200

    @rule(
        target=payments, product=st.sampled_from([SEPA, INSTANT]), creditor=st.sampled_from([ELSEWHERE, SHOP]),
        amount=st.sampled_from(["4.20", "4.20", "100000.00", "100000.01"]), debtor=st.sampled_from([None, None, SMALL]),
        payer=SOON,
    )  # fmt: skip
    def initiate(self, product: str, creditor: str, amount: str, debtor: str | None, payer: str | None) -> Any:
        self.step()
        number = next(self.numbers)
        body = {
            **PAYMENT, "instructedAmount": {"currency": "EUR", "amount": amount}, "creditorAccount": {"iban": creditor},
            "remittanceInformationUnstructured": f"machine {number}",
        } | ({} if debtor is None else {"debtorAccount": {"iban": debtor}})  # fmt: skip
        provider = self.bank.provider
        message = provider.sealed(provider.message(body, product=product, request_id=str(UUID(int=number))))
        answer = provider.send(message)
        payment = Payment(
            f"machine {number}", product, Decimal(amount), creditor, debtor, message, answer.content, self.now, self.now
        )
        refused = product == INSTANT and not self.rail(payment)
        assert answer.status_code == (400 if refused else 201), answer.text
        if refused:
            return multiple()
        self.made.append(payment)
        if payer is not None:
            self.approve(payment, payer)
        return payment

    @rule(payment=payments)
    def repeat(self, payment: Payment) -> None:
        self.step()
        if self.now < payment.made_at + WINDOW:
            answer = self.bank.provider.send(payment.message)
            assert (answer.status_code, answer.content) == (201, payment.answer)

    @rule(payment=payments)
    def open(self, payment: Payment) -> None:
        self.step()
        code, answer = self.bank.control(payment.control + "/open")
        if self.state(payment) != "RCVD":
            assert (code, answer["error"]["code"]) == (400, "payment.decided")
            return
        assert (code, answer["transactionStatus"]) == (200, "RCVD")
        payment.active_at, payment.opened = self.now, True

    @rule(payment=payments, iban=PAYERS)
    def approve(self, payment: Payment, iban: str) -> None:
        self.step()
        code, answer = self.bank.control(payment.control + "/approve", {"iban": iban})
        if self.state(payment) != "RCVD":
            assert (code, answer["error"]["code"]) == (400, "payment.decided")
        elif iban == payment.creditor or payment.debtor not in (None, iban):
            assert (code, answer["error"]["code"]) == (400, "account.unfit")
        elif payment.amount > self.available(iban):
            assert (code, answer["error"]["code"]) == (400, "account.funds")
        else:
            assert (code, answer["transactionStatus"]) == (200, "ACSP")
            payment.status, payment.payer, payment.started_at = "ACSP", iban, self.now
            payment.instant = payment.product == INSTANT or self.rail(payment)
            payment.due_at = self.now + (INSTANT_TIME if payment.instant else NORMAL_TIME)
            self.in_flight.append(payment)

    @rule(payment=payments)
    def decline(self, payment: Payment) -> None:
        self.step()
        code, answer = self.bank.control(payment.control + "/decline")
        assert code == (200 if self.state(payment) == "RCVD" else 400), answer
        if code == 200:
            payment.status = "RJCT"

    @rule(payment=payments)
    def cancel(self, payment: Payment) -> None:
        self.step()
        answer = self.bank.provider.cancel({"_links": payment.links})
        fits = self.state(payment) == "RCVD" and not payment.opened
        assert answer.status_code == (200 if fits else 409), answer.text
        if fits:
            payment.status = "RJCT"  # CANC is in this answer only
            assert answer.json() == {"transactionStatus": "CANC"}

    @rule(payment=payments)
    def poll(self, payment: Payment) -> None:
        self.step()
        assert self.bank.provider.status({"_links": payment.links}) == self.state(payment)

    @rule(
        target=consents, access=st.sampled_from([ALL, AVAILABLE, {"balances": [{"iban": SMALL}]}]), most=st.integers(1, 3),
        days=st.sampled_from([0, 1, 180, 400]), iban=SOON,
    )  # fmt: skip
    def ask(self, access: Any, most: int, days: int, iban: str | None) -> Consent:
        self.step()
        wanted, provider = self.today + timedelta(days=days), self.bank.provider
        body = {"access": access, "validUntil": wanted.isoformat(), "frequencyPerDay": most}
        message = provider.message(json.dumps(body).encode(), request_id=str(UUID(int=next(self.numbers))))
        answer = provider.send(provider.sealed(altered(message, target=CONSENTS)))
        assert answer.status_code == 201, answer.text
        until = min(wanted, self.today + timedelta(days=180))
        consent = Consent(answer.json()["consentId"], access, until, most, self.now)
        if iban is not None:
            self.grant(consent, iban)
        return consent

    @rule(consent=consents, iban=PAYERS)
    def grant(self, consent: Consent, iban: str) -> None:
        self.step()
        code, answer = self.bank.control(f"/consents/{consent.id}/approve", {"iban": iban})
        if self.state(consent) != "received":
            assert (code, answer["error"]["code"]) == (400, "consent.decided")
        elif "balances" in consent.access and iban != SMALL:
            assert (code, answer["error"]["code"]) == (400, "account.unfit")
        else:
            assert (code, answer["status"]) == (200, "valid")
            consent.status, consent.iban = "valid", iban

    @rule(consent=consents, action=st.sampled_from(["decline", "revoke", "delete"]))
    def end(self, consent: Consent, action: str) -> None:
        self.step()
        before = self.state(consent)
        if action == "delete":
            code = self.bank.provider.request("DELETE", f"{CONSENTS}/{consent.id}").status_code
            assert code == 204
        else:
            code = self.bank.control(f"/consents/{consent.id}/{action}")[0]
            assert code == (400 if action == "decline" and before != "received" else 200)
        if code < 400 and before in ("received", "valid"):
            consent.status = "revoked"

    @rule(consent=consents)
    def show(self, consent: Consent) -> None:
        self.step()
        shown = self.bank.provider.request("GET", f"{CONSENTS}/{consent.id}").json()
        assert (shown["status"], shown["validUntil"]) == (self.state(consent), consent.valid_until.isoformat())

    @rule(
        consent=consents,
        attended=st.booleans(),
        what=st.sampled_from(["", "/balances", "/transactions", "/transactions"]),
        back=DAYS,
        on=DAYS,
    )
    def read(self, consent: Consent, attended: bool, what: str, back: int, on: int) -> None:
        if not consent.resource_id and self.state(consent) == "valid":
            (account,) = self.get(consent, ACCOUNTS, attended=True).json()["accounts"]
            consent.resource_id = account["resourceId"]
        self.step()
        first, last = self.today - timedelta(days=back), self.today + timedelta(days=on - back)
        query = f"?dateFrom={first}&dateTo={last}&bookingStatus=both" if what == "/transactions" else ""
        target = f"{ACCOUNTS}/{consent.resource_id or 'none'}{what}{query}" if what else f"{ACCOUNTS}?withBalance=true"
        answer = self.get(consent, target, attended=attended)
        status, used = self.state(consent), consent.reads.get(self.today, 0)
        granted = not what or consent.access == ALL or (what == "/balances" and "balances" in consent.access)
        if status != "valid" or not granted:
            code = "CONSENT_EXPIRED" if status == "expired" else "CONSENT_INVALID"
            assert_refused(answer, 401, code)
        elif not attended and used == consent.most:
            assert_refused(answer, 429, "ACCESS_EXCEEDED")
        else:
            consent.reads[self.today] = used + (not attended)
            assert answer.status_code == 200, answer.text
            self.compare(consent, answer.json(), first, last)

    def get(self, consent: Consent, target: str, *, attended: bool) -> httpx.Response:
        headers = (("X-Request-ID", str(UUID(int=next(self.numbers)))), ("Consent-ID", consent.id))
        return self.bank.provider.send(Message("GET", target, headers + ATTENDED * attended))

    def compare(self, consent: Consent, answer: Any, first: date, last: date) -> None:
        (account,) = answer.get("accounts", [answer])
        assert account.get("resourceId", consent.resource_id) == consent.resource_id
        balances = account.get("balances")
        if balances is not None:
            assert balances[0]["balanceAmount"] == {"currency": "EUR", "amount": str(self.available(consent.iban))}
            assert consent.access is not AVAILABLE
        if "transactions" in answer:
            page = answer["transactions"]
            assert own_entries(page["booked"]) == self.listed(consent.iban, first, last)
            waiting = sorted(self.in_flight, key=lambda one: one.started_at, reverse=True)
            assert own_entries(page["pending"]) == [
                (one.name, -one.amount) for one in waiting if one.payer == consent.iban
            ]


def own_entries(entries: list[dict[str, Any]]) -> list[tuple[str, Decimal]]:
    """Name and amount of the entries that are not the seed's."""
    named = [(entry.get("remittanceInformationUnstructured", ""), entry["transactionAmount"]) for entry in entries]
    assert {amount["currency"] for _, amount in named} <= {"EUR"}
    return [(name, Decimal(amount["amount"])) for name, amount in named if name.startswith("machine")]


def test_the_bank_behaves_like_its_model(seeded):
    chosen = settings(max_examples=settings.default.max_examples // 5, stateful_step_count=40)
    run_state_machine_as_test(lambda: BankMachine(*seeded), settings=chosen)


@pytest.mark.parametrize(
    ("midnight", "hours"), [(datetime(2026, 10, 24, 21, tzinfo=UTC), 25), (datetime(2027, 3, 27, 22, tzinfo=UTC), 23)]
)
def test_a_day_of_the_bank_has_23_or_25_hours(midnight, hours, seeded):
    machine = BankMachine(*seeded)
    machine.advance(int((midnight - AT).total_seconds()))
    ends, goes_on = machine.ask(ALL, 1, 0, DAILY), machine.ask(ALL, 1, 1, DAILY)
    for left_s, expected in ((hours * 3600, "valid"), (1, "valid"), (0, "expired")):
        machine.advance(int((midnight - machine.now).total_seconds()) + hours * 3600 - left_s)
        machine.show(ends)
        assert machine.state(ends) == expected
        for _ in range(2):  # one a day, and a refused one
            machine.read(goes_on, attended=False, what="", back=0, on=0)
    assert list(goes_on.reads.values()) == [1, 1]
    machine.bank.remove()


def test_a_decision_and_an_execution_at_exactly_their_time(seeded):
    bank = BankMachine(*seeded).bank
    late, payment = bank.provider.new_payment(), bank.provider.new_payment()
    bank.control("/clock/advance", {"seconds": 299.999999})
    assert bank.control(f"/payments/{payment['paymentId']}/approve")[0] == 200
    bank.control("/clock/advance", {"seconds": 0.000001})
    assert bank.control(f"/payments/{late['paymentId']}/approve")[1]["error"]["code"] == "payment.decided"
    bank.control("/clock/advance", {"seconds": 9.999998})
    assert bank.provider.status(payment) == "ACSP"
    bank.control("/clock/advance", {"seconds": 0.000001})
    assert bank.provider.status(payment) == "ACSC"
    bank.remove()
