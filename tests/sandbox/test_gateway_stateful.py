"""Random orders, payments, captures, voids, refunds and chargebacks, with clock jumps and restarts, compared with a model."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cards import Cards
from gateway_model import DELAYED, HOLD, MANUAL, Paid
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, rule, run_state_machine_as_test
from test_psd2_stateful import STEP, Bank, InProcess, seeded

from tppkit._clock import parse_time
from tppkit.testpki import Pki

pytestmark = pytest.mark.slow

__all__ = ["seeded"]

APPROVED, DECLINED, ASKED, CVC = (
    "4111111111111111",
    "4000000000000002",
    "4000002760003184",
    "073",
)  # no part of a UUID has three digits
EXTERNAL = {"cavv": "kBM", "3ds_version": "2.2.0", "3ds_method_used": True, "ds_transaction_id": "d1"}
ATTEMPT, HOSTED, SETUP = timedelta(minutes=30), timedelta(days=1), timedelta(seconds=300)
PERIODS = {"PT1H": timedelta(hours=1), "P2D": timedelta(days=2), "PT10S": timedelta(seconds=10)}
AMOUNTS = st.sampled_from([None, 0, 1, 300, 400, 700, 1000, 1001])
MODES = st.sampled_from([None, MANUAL, MANUAL, DELAYED, DELAYED])
LAGS = (0, 2700)


class Gateway(Bank):
    """The hosts of the gateway and the vault, with a merchant of one project for each lag."""

    keys: tuple[str, ...] = ()

    def __init__(self, seeded: Path, pki: Pki, cards: Cards) -> None:
        self.cards, cards.secrets[:] = cards, [APPROVED, DECLINED, ASKED, CVC]
        super().__init__(seeded, pki)

    def remove(self) -> None:
        """Check that no part of the sandbox has a card, and close."""
        for key in self.keys:
            report = "https://gateway/v1/search/orders/?format=csv"
            assert self.cards.keep(self.http.post(report, auth=(key, ""), json={"query": "*"})).status_code == 200
        self.cards.firewall(self._folder)
        self.cards.forget()
        super().remove()

    def start(self) -> None:
        super().start()
        self.http = httpx.Client(transport=InProcess(self.runner, self.serve, ()))

    async def serve(self, scope: Any, receive: Any, send: Any) -> None:
        await self.apps[scope["server"][0]](scope, receive, send)

    def send(self, lag: timedelta, target: str, body: Any = None, host: str = "gateway") -> tuple[int, Any]:
        key = self.keys[LAGS.index(int(lag.total_seconds()))]
        content = {} if body is None else {"json": body}
        method = "POST" if body is not None or target.endswith(("captures/", "voids/")) else "GET"
        answer = self.cards.keep(self.http.request(method, f"https://{host}{target}", auth=(key, ""), **content))
        return answer.status_code, answer.json()


class GatewayMachine(RuleBasedStateMachine):
    """One gateway and its model."""

    orders: Bundle[Paid] = Bundle("orders")

    def __init__(self, seeded: Path, pki: Pki, cards: Cards) -> None:
        super().__init__()
        self.bank = Gateway(seeded, pki, cards)
        self.offset = timedelta()
        self.made: list[Paid] = []
        self.tokens: dict[str, str] = {}

    def teardown(self) -> None:
        try:
            self.advance(6 * 86_400)
            for order in self.made:
                self.look(order)
        finally:
            self.bank.remove()

    @property
    def now(self) -> datetime:
        return self.bank.base + self.offset

    def step(self) -> None:
        """Move the time by one step, and apply the due events to the model."""
        self.bank.base += STEP
        for order in self.made:
            order.settle(self.now)

    def order(self, body: Any, lag: timedelta) -> Any:
        code, answer = self.bank.send(lag, "/v1/orders/", {"currency": "EUR", "amount": 1000, **body})
        assert code == 201, answer
        return answer

    def act(self, order: Paid, path: str, body: Any, expected: tuple[int, str]) -> Any:
        target = f"/v1/orders/{order.id}/transactions/{order.attempt_id}/{path}"
        return self.require(self.bank.send(order.lag, target, body), expected)

    def require(self, answered: tuple[int, Any], expected: tuple[int, str]) -> Any:
        code, answer = answered
        assert (code, answer.get("error", {}).get("code", "")) == expected, answer
        return answer

    # What happens.

    @initialize(target=orders)
    def begin(self) -> Paid:
        self.bank.keys = tuple(
            self.bank.control("/gateway/projects", {"lag_seconds": seconds})[1]["api_key"] for seconds in LAGS
        )
        return self.own_checkout(DELAYED, None, 0, APPROVED, first=False)

    @rule(
        target=orders, mode=MODES, period=st.sampled_from([None, None, "PT1H"]), whole=st.sampled_from([None, None, "P2D", "PT10S"]),
        lag=st.sampled_from(LAGS), first=st.booleans(),
    )  # fmt: skip
    def create(self, mode: str | None, period: str | None, whole: str | None, lag: int, first: bool) -> Paid:
        self.step()
        details = {"payment_method_details": {"one_click_type": "first"}} if first else {}
        transaction = {"payment_method": "credit-card", **details}
        transaction |= {name: value for name, value in (("capture_mode", mode), ("expiration_period", period)) if value}
        made = self.order(
            {"transactions": [transaction]} | ({"expiration_period": whole} if whole else {}), timedelta(seconds=lag)
        )
        return self.keep(made, mode, period, whole, lag, first=first)

    def keep(
        self, made: Any, mode: str | None, period: str | None, whole: str | None, lag: int, *, first: bool
    ) -> Paid:
        (attempt,) = made["transactions"]
        attempt_ends_at = self.now + (PERIODS[period] if period and not mode else ATTEMPT)
        order = Paid(
            made["id"], self.now, self.now + PERIODS[whole] if whole else attempt_ends_at, own=True, lag=timedelta(seconds=lag),
            mode=mode, hold=PERIODS[period] if period else HOLD, first=first, attempt_id=attempt["id"], attempt="new",
            attempt_ends_at=attempt_ends_at, setup_token=attempt["payment_method_details"].get("setup_token", ""),
        )  # fmt: skip
        self.made.append(order)
        return order

    @rule(target=orders, whole=st.sampled_from([None, "PT1H"]))
    def create_hosted(self, whole: str | None) -> Paid:
        self.step()
        made = self.order({"expiration_period": whole} if whole else {}, timedelta())
        order = Paid(made["id"], self.now, self.now + (PERIODS[whole] if whole else HOSTED), own=False, lag=timedelta())
        self.made.append(order)
        return order

    @rule(target=orders, first=orders, by_token=st.booleans())
    def one_click(self, first: Paid, by_token: bool) -> Any:
        self.step()
        details = {"one_click_type": "one-click", "cvc": CVC}
        details |= (
            {"vault_token": first.token} if by_token and first.token else {"first_transaction_id": first.attempt_id}
        )
        if not first.attempt_id:
            return multiple()
        transaction = {"payment_method": "credit-card", "payment_method_details": details}
        body = {"currency": "EUR", "amount": 1000, "transactions": [transaction]}
        answered = self.bank.send(first.lag, "/v1/orders/", body)
        if first.attempt != "accepted" or not first.first:
            self.require(answered, (400, "ONE_CLICK_INVALID"))
            return multiple()
        order = self.keep(
            self.require(answered, (201, "")), None, None, None, int(first.lag.total_seconds()), first=False
        )
        order.token, order.status = first.token, "processing"
        self.ask(order)
        return order

    @rule(order=orders, pan=st.sampled_from([APPROVED, APPROVED, DECLINED, ASKED]))
    def store(self, order: Paid, pan: str) -> None:
        if not order.setup_token:
            return
        self.step()
        body = {"pan": pan, "expiry": "122039", "setup_token": order.setup_token}
        dead = order.stored or self.now > order.made_at + SETUP
        answer = self.require(
            self.bank.send(order.lag, "/v1/cards/", body, "vault"), (400, "SETUP_TOKEN_INVALID") if dead else (201, "")
        )
        if not dead:
            order.stored, order.token = True, answer["vault_token"]
            self.tokens[order.token] = pan

    @rule(order=orders, external=st.booleans())
    def authenticate(self, order: Paid, external: bool) -> None:
        if not order.token or not order.own:
            return
        self.step()
        body = {"vault_token": order.token, "cvc": CVC, **(EXTERNAL if external else {})}
        refused = order.attempt != "new" or order.is_final
        answer = self.act(order, "authenticate/", body, (409, "STATUS_INVALID") if refused else (200, ""))
        if not refused:
            order.status = "processing"
            self.ask(order, external=external)
            assert ("redirect_url" in answer) == (order.attempt == "new")

    @rule(
        target=orders, mode=MODES, period=st.sampled_from([None, None, None, "PT1H"]), lag=st.sampled_from(LAGS),
        pan=st.sampled_from([APPROVED, APPROVED, APPROVED, DECLINED, ASKED]), first=st.booleans(),
    )  # fmt: skip
    def own_checkout(self, mode: str | None, period: str | None, lag: int, pan: str, first: bool) -> Paid:
        order = self.create(mode, period, None, lag, first=first)
        self.store(order, pan)
        self.authenticate(order, external=False)
        return order

    def ask(self, order: Paid, *, external: bool = False) -> None:
        """The issuer decides, or asks the customer."""
        pan = self.tokens[order.token]
        order.asked = True
        if pan != ASKED or external:
            order.decide(accepted=pan != DECLINED, at=self.now)

    @rule(order=orders, choice=st.sampled_from(["approved", "declined", "declined", "cancelled"]))
    def pay(self, order: Paid, choice: str) -> None:
        self.step()
        decided = order.own and order.attempt != "new"
        code, answer = self.bank.control(f"/gateway/orders/{order.id}/pay", {"outcome": choice})
        if order.is_final or decided:
            assert (code, answer["error"]["code"]) == (400, "machine.no-such-move")
            return
        assert code == 200, answer
        if choice == "cancelled":
            order.status, order.attempt = "cancelled", "declined" if order.attempt == "new" else order.attempt
            return
        order.attempt_id, order.status = answer["transactions"][-1]["id"], "processing"
        if order.first and not order.asked and choice == "approved":
            order.token = ""  # the customer's own card, which only the answer of the completed order shows
            self.tokens[""] = APPROVED
        order.decide(accepted=choice == "approved", at=self.now)

    @rule(order=orders, amount=AMOUNTS)
    def capture(self, order: Paid, amount: int | None) -> None:
        self.change(order, "capture", amount)

    @rule(order=orders, amount=AMOUNTS)
    def void(self, order: Paid, amount: int | None) -> None:
        self.change(order, "void", amount)

    def change(self, order: Paid, kind: str, amount: int | None) -> None:
        if not order.attempt_id:
            return
        self.step()
        left = 1000 - order.voided
        released = left if amount is None else amount
        expected = (201, "")
        if order.state != "open" or (kind == "capture" and order.mode == DELAYED):
            expected = (409, "AUTHORISATION_CLOSED")
        elif not (kind == "void" and amount is not None) <= released <= left:
            expected = (400, "AMOUNT_INVALID")
        path, body = (
            (f"{kind}s/", None) if amount is None else (f"{kind}s/amount/", {"amount": amount, "description": "x"})
        )
        self.act(order, path, body, expected)
        if expected[0] != 201:
            return
        order.linked.append((kind, released, self.now))
        if kind == "capture":
            order.state, order.captured = "captured", released
        else:
            order.voided += released
            order.state = "voided" if released == left else "open"

    @rule(order=orders, amount=st.sampled_from([0, 1, 300, 300, 700, 1000, 1001]), by_control=st.booleans())
    def refund(self, order: Paid, amount: int, by_control: bool) -> None:
        self.step()
        possible = 1 <= amount <= order.captured - order.refunded - order.charged_back
        if by_control:
            code, answer = self.bank.control(f"/gateway/orders/{order.id}/refund", {"amount": amount})
            assert code == (200 if possible else 400), answer
        else:
            target = f"/sandbox/v1/orders/{order.id}/refunds/"
            expected = (201, "") if possible else (400, "AMOUNT_INVALID")
            self.require(self.bank.send(order.lag, target, {"amount": amount}), expected)
        if possible:
            order.refunded += amount
            order.linked.append(("refund", amount, self.now))

    @rule(order=orders)
    def charge_back(self, order: Paid) -> None:
        self.step()
        left = order.captured - order.refunded - order.charged_back
        code, answer = self.bank.control(f"/gateway/orders/{order.id}/chargeback")
        assert code == (200 if left > 0 else 400), answer
        if left > 0:
            order.charged_back += left
            order.linked.append(("chargeback", left, self.now))

    @rule(order=orders)
    def reverse(self, order: Paid) -> None:
        self.step()
        code, answer = self.bank.control(f"/gateway/orders/{order.id}/reverse")
        assert code == (200 if order.charged_back else 400), answer
        if order.charged_back:
            order.linked.append(("reversal", order.charged_back, self.now))
            order.charged_back = 0

    @rule(seconds=st.sampled_from([1, 10, 299, 300, 1800, 2700, 3600, 86_400, 5 * 86_400]))
    def advance(self, seconds: int) -> None:
        self.step()
        self.offset += timedelta(seconds=seconds)
        assert self.bank.control("/clock/advance", {"seconds": seconds})[0] == 200

    @rule()
    def advance_to_next(self) -> None:
        self.step()
        due = min((due[0] for order in self.made if (due := order.due())), default=self.now)
        self.offset += due - self.now
        code, answer = self.bank.control("/clock/next")
        assert (code, parse_time(answer["now"])) == (200, self.now)

    @rule(seconds=st.sampled_from([0, 20, 7200, 6 * 86_400]))
    def restart(self, seconds: int) -> None:
        self.bank.stop()
        self.bank.base += timedelta(seconds=seconds)
        self.bank.start()

    @rule(order=orders)
    def look(self, order: Paid) -> None:
        self.step()
        code, shown = self.bank.send(order.lag, f"/v1/orders/{order.id}/")
        assert (code, shown["status"]) == (200, order.status), shown
        if order.attempt:
            attempt = shown["transactions"][-1]
            assert (attempt["id"], attempt["status"]) == (order.attempt_id, order.attempt)
            assert attempt.get("is_capturable", False) == (order.state == "open" and order.mode == MANUAL)
        assert shown.get("refunded_amount", 0) == order.refunded
        assert ("completed" in shown) == (order.status == "completed")
        linked = []
        for id_ in shown.get("related_orders", ()):
            one = self.bank.send(order.lag, f"/v1/orders/{id_}/")[1]
            (kind,) = [name.removesuffix("_of_order_id") for name in one if name.endswith("_of_order_id")]
            linked.append((kind, one["amount"], datetime.fromisoformat(one["created"])))
            assert (one["related_order_id"], one["status"]) == (order.id, "completed")
        assert linked == order.linked
        self.check()

    def check(self) -> None:
        assert self.bank.differences() == {"ok": True, "differences": []}


def test_the_gateway_behaves_like_its_model(seeded, caplog):
    cards = Cards(caplog)  # the logs of whole runs at DEBUG take minutes; those of the next test are searched
    chosen = settings(max_examples=settings.default.max_examples // 3, stateful_step_count=40)
    run_state_machine_as_test(lambda: GatewayMachine(*seeded[:2], cards), settings=chosen)


def test_after_the_machines_clock_is_set_back_virtual_time_continues(seeded, cards):
    machine = GatewayMachine(*seeded[:2], cards)
    order = machine.begin()
    machine.restart(-7200)
    code, answer = machine.bank.control("/clock/advance", {"seconds": 0})
    assert (code, parse_time(answer["now"])) == (200, order.decided_at)
    machine.bank.remove()
