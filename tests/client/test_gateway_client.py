"""Both clients of the payment gateway against servers on loopback that answer as scripted."""

from __future__ import annotations

import base64
import copy
import csv
import io
import json
import logging
import pickle
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from rogue_bank import Answer, as_json, http, server_context, trickling
from scripted import KEY, LOST, Player, Step, in_turn

from refusals import refused
from reported import reported
from tppkit.client import After, AsyncGatewayClient, GatewayClient, OrderOutcomeUnknown, Start
from tppkit.client.gateway_calls import GatewayCalls
from tppkit.errors import (  # fmt: skip
    ConfigurationError,
    OutcomeUnknown,
    RemoteProtocolError,
    RequestRefused,
    TppkitError,
    TransportError,
)
from tppkit.protocol.gateway import CardSecret, F, OrderRequest, PaymentMethodDetails, TransactionRequest
from tppkit.protocol.gateway.bodies import CSV_COLUMNS, AuthenticateRequest, PaymentLinkRequest
from tppkit.protocol.gateway.endpoints import GATEWAY
from tppkit.testing import assert_no_pan
from tppkit.testpki import Pki

ID, TRANSACTION, TOKEN = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "123")
NUMBER, CVC = "5500005555555559", "0737"
MINE = 'A-1 "\\'
ORDER = OrderRequest(currency="EUR", amount=1250, merchant_order_id=MINE)
MADE = {"id": ID, "status": "new", "currency": "EUR", "amount": 1250, "merchant_order_id": MINE}
LINK = {"id": ID, "status": "new", "currency": "EUR", "amount": 1250, "merchant_order_id": "A-1"}
ONE_CLICK = PaymentMethodDetails(one_click_type="one-click", vault_token=TOKEN)
CELLS = {
    "id": ID,
    "currency": "EUR",
    "amount": "1250",
    "status": "completed",
    "transaction.id": TRANSACTION,
    "transaction.status": "accepted",
}
ROW = ",".join([CELLS.get(column, "") for column in CSV_COLUMNS])
REPORT = ",".join(CSV_COLUMNS) + ",later\r\n" + f"{ROW},x\r\n" * 2
NO_OUTCOME = OutcomeUnknown, TransportError


def create(client: Any) -> Any:
    return client.create_order(ORDER)


def of_card(details: PaymentMethodDetails) -> OrderRequest:
    transaction = TransactionRequest(payment_method="credit-card", payment_method_details=details)
    return ORDER.model_copy(update={"transactions": (transaction,)})


CALLS: dict[str, Step] = {
    "create_order": create,
    "order": lambda client: client.order(ID),
    "capture": lambda client: client.capture(ID, TRANSACTION),
    "capture_amount": lambda client: client.capture_amount(ID, TRANSACTION, 400, description="Half"),
    "void": lambda client: client.void(ID, TRANSACTION),
    "void_amount": lambda client: client.void_amount(ID, TRANSACTION, 400),
    "initiate": lambda client: client.initiate(ID, TRANSACTION, vault_token=TOKEN),
    "authenticate": lambda client: client.authenticate(
        ID, TRANSACTION, AuthenticateRequest(vault_token=TOKEN, cvc=CardSecret(CVC))
    ),
    "refunds": lambda client: client.refunds(ID),
    "create_refund": lambda client: client.create_refund(ID, 600),
    "payment_link": lambda client: client.payment_link(ID),
    "create_payment_link": lambda client: client.create_payment_link(
        PaymentLinkRequest(merchant_order_id="A-1", amount=1250, currency="EUR")
    ),
    "search": lambda client: client.search("*"),
    "search_csv": lambda client: client.report("*"),
    "wallet_session": lambda client: client.wallet_session(
        project_id=ID, validation_url="https://wallet.example/", display_name="Shop", initiative_context="shop.example"
    ),
}  # fmt: skip
BODIES: dict[str, Any] = {
    "capture_amount": {"amount": 400, "description": "Half"}, "void_amount": {"amount": 400}, "initiate": {"vault_token": TOKEN},
    "authenticate": {"vault_token": TOKEN, "cvc": CVC}, "create_refund": {"amount": 600}, "search": {"query": "*"},
    "wallet_session": {
        "validationUrl": "https://wallet.example/", "merchantIdentifier": ID.replace("-", ""), "displayName": "Shop",
        "initiativeContext": "shop.example",
    },
}  # fmt: skip
ANSWERS: dict[str, Answer] = {
    "refunds": as_json(200, []), "search": as_json(200, {"orders": [MADE]}), "search_csv": http(200, REPORT.encode()),
    "payment_link": as_json(200, LINK), "create_payment_link": as_json(200, LINK),
    "wallet_session": as_json(200, {"sessionData": [1]}),
}  # fmt: skip


@pytest.fixture(params=[GatewayClient, AsyncGatewayClient], ids=["sync", "async"])
def play(request: pytest.FixtureRequest, bank_pki: Pki, bank_pki_folder: Path) -> Player:
    return Player(request.param, bank_pki_folder, bank_pki)


def found(*orders: Any, cursor: Any = None) -> Answer:
    return as_json(200, {"orders": orders, **({"search_after": cursor} if cursor else {})})


def with_status(answer: Answer, status: bytes) -> Answer:
    return lambda request: answer(request).replace(b" 200 ", b" " + status + b" ", 1)


@pytest.mark.parametrize("name", CALLS)
def test_each_row_is_sent_with_the_key_as_user_name_and_answered_by_any_2xx(name, play):
    answer = ANSWERS.get(name, as_json(200, MADE))
    for status in (b"200", b"201", b"299"):
        result, server = play.ask(with_status(answer, status), CALLS[name])
        assert not isinstance(result, TppkitError)
    message = server.message()
    assert GATEWAY.find(message.method, message.target).row.name == name
    assert message.values("authorization") == ("Basic " + base64.b64encode(f"{KEY}:".encode()).decode(),)
    if name in BODIES:
        assert json.loads(message.body) == BODIES[name]
    assert set(CALLS) == {row.name for row in GATEWAY.endpoints}


@pytest.mark.parametrize("name", LOST)
def test_an_order_whose_answer_is_lost_is_sent_once_and_looked_up_once(name, play):
    error, server = play.ask(in_turn(LOST[name], found(MADE)), create)
    assert (type(error), error.code, [order.id for order in error.found]) == (
        OrderOutcomeUnknown,
        "order-lost.found",
        [ID],
    )
    assert f'one order has its merchant_order_id: "{ID}, new, 1250 EUR, created None"' in error.message
    assert [server.message(number).target for number in (0, 1)] == ["/v1/orders/", "/v1/search/orders/"]
    assert json.loads(server.message(1).body) == {"query": r'merchant_order_id:"A-1 \"\\"'}
    assert len(server.requests) == 2


LOOKUPS: dict[str, tuple[Answer, str, str, int]] = {
    "nothing": (found(), "order-lost.not-found", "which proves nothing", 0),
    "others": (found({**MADE, "merchant_order_id": "A-1"}), "order-lost.not-found", "which proves nothing", 0),
    "a refund": (found({**MADE, "refund_of_order_id": TOKEN}), "order-lost.not-found", "which proves nothing", 0),
    "several": (found(MADE, {**MADE, "id": TOKEN}), "order-lost.found", "2 orders have", 2),
    "refused": (http(401), "order-lost.not-looked-up", "failed too", 0),
    "unreadable": (http(200, b"<html>"), "order-lost.not-looked-up", "failed too", 0),
    "without an id of ours": (http(500), "order-lost.not-looked-up", "no merchant_order_id", 0),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_the_error_says_what_the_look_up_found(name, play):
    answer, code, text, count = LOOKUPS[name]
    order = OrderRequest(currency="EUR", amount=1) if "without" in name else ORDER
    error, server = play.ask(in_turn(LOST["server"], answer), lambda client: client.create_order(order))
    assert (error.code, len(error.found), error.status, error.request_id) == (code, count, 500, "")
    assert text in error.message
    assert len(server.requests) == 2 - ("without" in name)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b'{"error":{"code":"FORMAT_ERROR"}}'),
        (401, b""),
        (413, b"<html>"),
        (429, b"{}"),
        (503, b'{"error":{"code":"SERVICE_UNAVAILABLE"}}'),
    ],
)
def test_a_refused_order_is_neither_repeated_nor_looked_up(status, body, play):
    error, server = play.ask(http(status, body), create)
    assert (type(error), error.status, len(server.requests)) == (RequestRefused, status, 1)


def test_an_order_that_was_never_sent_is_not_looked_up_and_one_that_gets_no_answer_stays_open(play):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with refused(TransportError, "transport.failed"):
        play.run(f"https://localhost:{port}", create)
    with trickling(server_context(play.folder), every_s=0.4) as port, pytest.raises(OrderOutcomeUnknown) as silent:
        play.run(f"https://localhost:{port}", create, timeout_s=1)
    assert (silent.value.code, silent.value.status) == ("order-lost.not-looked-up", None)


def test_an_error_is_pickled_without_card_data_and_a_client_is_not_pickled_or_copied(play):
    details = {"payment_method_details": {"card_expiry": "122030"}, "id": TRANSACTION, "status": "new"}
    error, _ = play.ask(in_turn(LOST["connection"], found({**MADE, "transactions": [details]})), create)
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.message, again.found, len(error.found)) == (error.code, error.message, (), 1)
    client = play.client("https://gateway.example", api_key=KEY)
    assert KEY not in repr(client) + repr(vars(client)) + repr(vars(client.calls))
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            copied(client.calls)
    with pytest.raises(ConfigurationError):
        play.client("https://gateway.example", api_key="a:b")


LOOK_AT = {
    "capture": "is_capturable", "capture_amount": "related_orders", "void": "is_capturable", "void_amount": "related_orders",
    "initiate": "status", "authenticate": "payment_url", "create_refund": "refunded_amount",
}  # fmt: skip


@pytest.mark.parametrize("name", LOOK_AT)
def test_what_moves_money_is_sent_once_and_its_error_says_what_to_look_at(name, play):
    for answer in (LOST["connection"], LOST["unavailable"], LOST["unreadable success"]):
        error, server = play.ask(answer, CALLS[name])
        assert isinstance(error, NO_OUTCOME)
        assert len(server.requests) == 1
        assert f"retrieve the order {ID} and look at" in error.message
        assert LOOK_AT[name] in error.message


def test_reads_and_searches_are_repeated(play):
    for name in ("order", "search", "search_csv"):
        answer = in_turn(LOST["connection"], http(503), ANSWERS.get(name, as_json(200, MADE)))
        result, server = play.ask(answer, CALLS[name])
        assert not isinstance(result, TppkitError)
        assert len(server.requests) == 3


NO_IDS = ("..", "../..", "", "1", ID + "/", ID + "\n", "{" + ID + "}")
UNSENT: list[tuple[str, Step]] = [
    *(("id.malformed", lambda client, text=text: client.order(text)) for text in NO_IDS),
    *(("id.malformed", lambda client, text=text: client.capture(ID, text)) for text in NO_IDS),
    *(("id.malformed", lambda client, text=text: client.payment_link(text)) for text in NO_IDS),
    ("one-click.cvc", lambda client: client.create_order(of_card(ONE_CLICK))),
    (
        "external-authentication.incomplete",
        lambda client: client.authenticate(
            ID, TRANSACTION, AuthenticateRequest(vault_token=TOKEN, cvc=CardSecret(CVC), cavv="c")
        ),
    ),
    ("model.invalid", lambda client: client.capture_amount(ID, TRANSACTION, -1, description="x")),
]


@pytest.mark.parametrize(("code", "step"), UNSENT)
def test_what_breaks_a_rule_is_not_sent(code, step, play):
    error, server = play.ask(as_json(200, MADE), step)
    assert (error.code, server.connections) == (code, 0)


@pytest.mark.parametrize(
    ("page", "sent"), [(None, {}), (Start(20), {"start": 20}), (After(), {"search_after": "-1"}), (After("c"), {"search_after": "c"})]
)  # fmt: skip
def test_a_page_is_a_position_or_a_cursor(page, sent, play):
    result, server = play.ask(found(MADE), lambda client: client.search("*", page=page, size=20, sort="amount desc"))
    assert json.loads(server.message().body) == {"query": "*", "size": 20, "sort": "amount desc", **sent}
    assert (result.orders[0].id, result.search_after) == (ID, None)


def search_of(count: int) -> Answer:
    """A gateway with so many orders, whose sort value is their amount."""

    def answer(request: bytes) -> bytes:
        asked = json.loads(request.partition(b"\r\n\r\n")[2])
        first = int(asked["search_after"]) + 1
        last = min(count, first + asked["size"])
        orders = [{"id": ID, "status": "new", "currency": "EUR", "amount": amount} for amount in range(first, last)]
        return found(*orders, cursor=str(last - 1) if last < count else None)(request)

    return answer


def test_orders_come_from_all_pages_by_the_cursor_of_each(play):
    orders, server = play.ask(search_of(250), lambda client: client.orders("*", size=100))
    assert [order.amount for order in orders] == list(range(250))
    bodies = [json.loads(server.message(number).body) for number in range(len(server.requests))]
    assert bodies == [
        {"query": "*", "size": 100, "sort": "created asc", "search_after": after} for after in ("-1", "99", "199")
    ]


def test_a_page_without_orders_ends_them_and_a_repeated_cursor_is_reported(play):
    orders, server = play.ask(in_turn(found(MADE, cursor="c"), found(cursor="d")), lambda client: client.orders("*"))
    assert (len(orders), len(server.requests)) == (1, 2)
    error, server = play.ask(found(MADE, cursor="c"), lambda client: client.orders("*"))
    assert (error.code, len(server.requests)) == ("answer.pages", 2)


def test_an_order_that_was_not_asked_for_is_refused(play):
    for step in (lambda client: client.order(ID), lambda client: client.delivery_state(ID)):
        error, _ = play.ask(as_json(200, {**MADE, "id": TOKEN}), step)
        assert (type(error), error.code) == (RemoteProtocolError, "answer.other-order")
    order, _ = play.ask(as_json(200, MADE), lambda client: client.order(ID.upper()))
    assert order.id == ID


def test_the_delivery_state_reads_each_related_order_once(play):
    capture = {**MADE, "id": TOKEN, "status": "completed", "capture_of_order_id": ID, "refund_orders": [TRANSACTION]}
    orders = {
        ID: {**MADE, "status": "completed", "related_orders": [TOKEN, TRANSACTION], "refund_orders": [TRANSACTION]},
        TOKEN: {**capture, "related_orders": [TRANSACTION.upper()]},
        TRANSACTION: {**MADE, "id": TRANSACTION, "status": "completed", "refund_of_order_id": ID},
    }
    orders = {id_.encode(): as_json(200, order) for id_, order in orders.items()}

    def answer(request: bytes) -> bytes:
        return orders[request.split(b"/")[3]](request)

    state, server = play.ask(answer, lambda client: client.delivery_state(ID))
    assert (state.delivery, state.reason) == ("do-not-deliver", "the whole amount was refunded")
    assert len(server.requests) == 3


@pytest.mark.parametrize(("cursor", "sent"), [(1700000000123, "1700000000123"), ([7, "a"], '[7, "a"]'), ("c", "c")])
def test_a_sort_value_of_any_type_is_sent_back_as_text(cursor, sent, play):
    result, _ = play.ask(found(MADE, cursor=cursor), lambda client: client.search("*"))
    assert result.search_after == sent
    _, server = play.ask(found(), lambda client: client.search("*", page=After(result.search_after)))
    assert json.loads(server.message().body)["search_after"] == sent


def test_a_report_is_rows(play):
    rows, server = play.ask(ANSWERS["search_csv"], lambda client: client.report(F("amount").between(1, None)))
    assert [(row.id, row.amount, row.transaction_status) for row in rows] == [(ID, 1250, "accepted")] * 2
    assert server.message().target == "/v1/search/orders/?format=csv"
    assert json.loads(server.message().body) == {"query": "amount:[1 TO *]", "search_after": "-1"}


FORMULAS = (
    "=cmd", "+1-2", "-x", "@sum", "\t=1", "\r1", " =1", "\u00a0\u200b=1", "\x00=1", "\ufeff=1", "\uff1dcmd", "\uff0b1", "\uff0dx",
    "\uff20sum", " \uff1d1", "--1",
)  # fmt: skip
DIVIDED = {
    "-1;=2": "'-1;'=2",
    "a;=cmd;-1": "a;'=cmd;-1",
    "a; @sum": "a;' @sum",
}  # as spreadsheets with semicolons see them
TEXTS = ("-12.50", "-7", "a=b", "1+1", "x@y.example", "'=1", "411111******1111", "", " a", "Å=")


@pytest.mark.parametrize("cell", [*FORMULAS, *DIVIDED, *TEXTS])
def test_a_written_report_has_no_formulas_and_a_read_one_the_raw_values(cell, play, tmp_path):
    row = {**CELLS, "merchant_order_id": cell}
    text = io.StringIO(newline="")
    csv.writer(text).writerows([[*CSV_COLUMNS, "later"], [*(row.get(column) for column in CSV_COLUMNS), cell]])
    answer = http(200, text.getvalue().encode())
    play.ask(answer, lambda client: client.write_report("*", tmp_path / "report.csv"))
    with (tmp_path / "report.csv").open(encoding="utf-8", newline="") as file:
        (written,) = csv.DictReader(file)
    expected = f"'{cell}" if cell in FORMULAS else DIVIDED.get(cell, cell)
    assert (written["merchant_order_id"], written["later"], written["amount"]) == (expected, expected, "1250")
    (read,) = play.ask(answer, lambda client: client.report("*"))[0]
    assert read.merchant_order_id == (cell or None)


def test_a_report_is_written_whole_for_its_owner_and_needs_a_folder(play, tmp_path):
    (tmp_path / "report.csv").write_text("before")
    play.ask(ANSWERS["search_csv"], lambda client: client.write_report("*", tmp_path / "report.csv"))
    assert (tmp_path / "report.csv").read_bytes() == REPORT.encode()
    assert stat.S_IMODE((tmp_path / "report.csv").stat().st_mode) == 0o600
    error, _ = play.ask(ANSWERS["search_csv"], lambda client: client.write_report("*", tmp_path / "absent" / "f"))
    assert (type(error), error.code) == (ConfigurationError, "file.unwritable")


BROKEN: dict[str, tuple[Answer, str]] = {
    "cut off": (http(200, REPORT[:-40].encode(), content_length=str(len(REPORT))), "transport.failed"),
    "cut off in a line": (http(200, REPORT[:-9].encode()), "csv.malformed"),
    "another page": (http(200, b"<html>\n"), "csv.malformed"),
    "no end": (http(200, REPORT.encode(), content_length=""), "answer.no-end"),
    "refused": (http(401), "request.refused"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_report_leaves_no_file(name, play, tmp_path):
    answer, code = BROKEN[name]
    error, _ = play.ask(answer, lambda client: client.write_report("*", str(tmp_path / "report.csv")))
    assert (error.code, list(tmp_path.iterdir())) == (code, [])


def test_key_and_card_data_are_never_shown(play, caplog):
    caplog.set_level(logging.DEBUG)
    details = ONE_CLICK.model_copy(update={"cvc": CardSecret(CVC), "receiver_account_number": CardSecret(NUMBER)})
    call = GatewayCalls("https://gateway.example", api_key=KEY).call(GATEWAY.endpoints[0], of_card(details))
    assert NUMBER.encode() in call.message.body
    shown = [repr(call), str(call)]
    echo = as_json(
        400, {"error": {"code": CVC, "message": f"{KEY}: {NUMBER} 5500-0055 5555 5559 with {CVC}, 1250 EUR"}}
    )
    cut_off, wrong_type = http(201, f'{{"number": "{NUMBER}"'.encode()), as_json(201, {**MADE, "status": [NUMBER, CVC]})
    for answer in (echo, cut_off, wrong_type, *LOST.values()):
        error, _ = play.ask(answer, lambda client: client._send(call))
        assert isinstance(error, TppkitError)
        shown += [*reported(error), repr(vars(error)), repr(pickle.dumps(error))]
    everything = "".join([*shown, caplog.text])
    assert "1250 EUR" in everything
    assert_no_pan(everything, cards=[NUMBER, CVC])
    for secret in (KEY, base64.b64encode(f"{KEY}:".encode()).decode()):
        assert secret not in everything
