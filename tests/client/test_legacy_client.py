"""Both clients of the legacy interface against servers on loopback, friendly and hostile."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from pydantic import SecretStr
from rogue_bank import Answer, as_json, forwarder, http, rogue_bank, server_context, trickling
from scripted import KEY, Player
from scripted import LOST as FROM_ANY

from refusals import refused
from tppkit.client import AccessKind, AccountUnknown, AsyncLegacyClient, LegacyClient, Unauthorized
from tppkit.client.credentials import ApiKeyCredentials
from tppkit.errors import (  # fmt: skip
    ConfigurationError,
    FormatError,
    OutcomeUnknown,
    RemoteProtocolError,
    RequestRefused,
    TransportError,
)
from tppkit.protocol.legacy import PaymentOrder
from tppkit.protocol.legacy.endpoints import LEGACY

TOKEN, UUID, PHONE = "a" * 40, "0123456789abcdefghij", "+37060000000"
ORDER = PaymentOrder(acc=PHONE, amts={"EUR": Decimal("12.50")}, msg="Order 4711")
RECORD = json.loads(
    '{"id":"t1","ver":2,"timeStamp":0,"tlc":"executed","acc":"LT121000011101001000","amount":["EUR-12.50"]}'
)
Step = Callable[[Any], Any]


def pay(client: Any) -> Any:
    return client.pay(TOKEN, ORDER, uuid=UUID)


def request_access(client: Any) -> Any:
    return client.request_access(AccessKind.PAYMENTS, PHONE, token=TOKEN)


def balance(client: Any) -> Any:
    return client.balance(TOKEN)


CALLS: dict[str, Step] = {
    "request_account_access": lambda client: client.request_access(AccessKind.ACCOUNTS, PHONE),
    "balance": balance,
    "transactions": lambda client: client.transactions(TOKEN),
    "request_payment_access": request_access,
    "pay": pay,
}


@pytest.fixture(params=[LegacyClient, AsyncLegacyClient], ids=["sync", "async"])
def play(request, bank_pki, bank_pki_folder):
    return Player(request.param, bank_pki_folder, bank_pki)


def service_answer(request: bytes) -> bytes:
    """A service that knows everything."""
    head = request.split(b"\r\n", 1)[0]
    if b"/BALANCE" in head:
        return http(200, b'{"EUR":0.30000000000000004,"JPY":500}', content_type="application/json")(request)
    return (as_json(200, [RECORD]) if b"/LIST" in head else http(200))(request)


@pytest.mark.parametrize("name", CALLS)
def test_each_row_is_sent_with_the_bare_key(name, play):
    _, service = play.ask(service_answer, CALLS[name])
    message = service.message()
    route = LEGACY.find(message.method, message.target)
    assert route.row.name == name
    assert dict(message.headers)["Authorization"] == KEY
    bodies = {"pay": ORDER.to_wire(), "balance": b"", "transactions": b""}
    assert message.body == bodies.get(name, b'{"acc":"+37060000000"}')


def test_results_are_exact_and_name_what_was_used(play):
    assert play.ask(service_answer, balance)[0] == {"EUR": Decimal("0.30"), "JPY": Decimal(500)}
    ((record,), _) = play.ask(service_answer, CALLS["transactions"])
    assert str(record.amounts[0]) == "EUR-12.50"
    assert (play.ask(service_answer, pay)[0], play.ask(service_answer, request_access)[0]) == (UUID, TOKEN)
    made, service = play.ask(service_answer, lambda client: client.pay(TOKEN, ORDER))
    assert re.fullmatch("[0-9a-f]{32}", made)
    assert service.message().target == f"/pis/{TOKEN}/TX/{made}"
    assert b'"amts":{"EUR":12.50}' in service.message().body


def test_a_page_of_a_proxy_is_no_answer_to_a_payment(play):
    page = http(200, b"<p>Please wait</p>", content_type="text/html; charset=utf-8")
    for step, id_ in ((pay, UUID), (request_access, TOKEN)):
        result, _ = play.ask(page, step)
        assert (type(result), result.code, result.request_id) == (OutcomeUnknown, "answer.unreadable", id_)


NO_TOKENS = ("1" * 19, "1" * 41, "99391c7e-ad88-49ec-a2ad-99ddcb1f7721", "ž" * 20, "1" * 20 + "\n", "")


@pytest.mark.parametrize(
    ("text", "code", "steps"),
    [
        *((text, "token.malformed", (
            lambda client, text=text: client.request_access(AccessKind.ACCOUNTS, PHONE, token=text),
            lambda client, text=text: client.balance(text), lambda client, text=text: client.transactions(text),
            lambda client, text=text: client.pay(text, ORDER), lambda client, text=text: client.pay(TOKEN, ORDER, uuid=text),
        )) for text in NO_TOKENS),
        ("1234", "model.invalid", [lambda client: client.request_access(AccessKind.ACCOUNTS, "LT00 1234")]),
    ],
)  # fmt: skip
def test_what_is_not_a_token_uuid_or_account_is_not_sent(text, code, steps, play):
    for step in steps:
        error, service = play.ask(service_answer, step)
        assert (isinstance(error, FormatError), error.code, service.connections) == (True, code, 0)
        assert code != "token.malformed" or type(error) is FormatError
        assert not text or text not in str(error)


@pytest.mark.parametrize("amts", [{"EUR": Decimal(1), "USD": Decimal(1)}, {}, {"EUR": 12.5}, {"EUR": Decimal("0.001")},
                                  {"EUR": 12}, {"EUR": "1e2"}, {"EUR": "1_0"}, {"EUR": "-1"}, {"EUR": "0.001"}])  # fmt: skip
def test_an_order_has_one_exact_amount(amts):
    with pytest.raises(FormatError, match="PaymentOrder: amts:"):
        PaymentOrder(acc=PHONE, amts=amts)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, b"", Unauthorized),
        (401, b'{"error":{"code":"UNAUTHORIZED","message":"no"}}', Unauthorized),
        (400, b"account not found", AccountUnknown),
        (400, b'{"error":{"code":"ACCOUNT_NOT_FOUND"}}', AccountUnknown),
        (400, b'{"error":{"code":"CURRENCY_INVALID"}}', RequestRefused),
        (409, b'{"error":{"code":"UUID_REUSE"}}', RequestRefused),
        (503, b'{"error":{"code":"SERVICE_UNAVAILABLE"}}', RequestRefused),
    ],
)
def test_refusals_are_distinguished(status, body, kind, play):
    for step in (pay, balance):
        error, _ = play.ask(http(status, body), step)
        assert (type(error), error.status) == (kind, status)
    assert play.ask(http(status, body), pay)[0].request_id == UUID


LOST: dict[str, Answer] = {
    **FROM_ANY,
    "created": http(201),
    "endless": lambda _: (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + (b"10000\r\n" + b" " * 65536 + b"\r\n") * 70
    ),
}


@pytest.mark.parametrize("name", LOST)
def test_a_payment_without_an_outcome_is_sent_once_and_its_uuid_offered(name, play):
    error, service = play.ask(LOST[name], pay)
    assert isinstance(error, OutcomeUnknown | TransportError)
    assert (error.request_id, len(service.requests), TOKEN in str(error)) == (UUID, 1, False)
    assert f"send the same order again with uuid {UUID}, which cannot pay twice" in error.message


def test_a_made_uuid_is_offered_too_and_the_repetition_is_the_same_request(play, bank_pki_folder):
    answers = iter([b"", http(200)(b"")])
    with rogue_bank(server_context(bank_pki_folder), lambda _: next(answers), then_close=True) as service:
        with pytest.raises(TransportError) as lost:
            play.run(service.url, lambda client: client.pay(TOKEN, ORDER))
        uuid = pickle.loads(pickle.dumps(lost.value)).request_id
        assert play.run(service.url, lambda client: client.pay(TOKEN, ORDER, uuid=uuid)) == uuid
    assert service.requests[0] == service.requests[1]


def test_a_payment_without_an_answer_in_time_is_not_repeated(play, bank_pki_folder):
    with (
        trickling(server_context(bank_pki_folder), every_s=0.1) as port,
        forwarder(port) as counted,
        pytest.raises(TransportError) as late,
    ):
        play.run(f"https://localhost:{counted['port']}", pay, timeout_s=0.5)
    assert (late.value.code, late.value.request_id, counted["connections"]) == ("transport.timeout", UUID, 1)


def test_a_lost_request_for_access_offers_its_token_and_does_not_show_it(play):
    for answer in (LOST["connection"], LOST["proxy"]):
        error, service = play.ask(answer, request_access)
        assert (error.request_id, len(service.requests), TOKEN in str(error)) == (TOKEN, 1, False)


@pytest.mark.parametrize(
    ("step", "answer"),
    [
        *((balance, http(200, body)) for body in (
            b'{"EUR":NaN}', b'{"EUR":Infinity}', b'{"EUR":1e999}', b'{"EUR":' + b"9" * 5000 + b"}", b'{"EUR":1,"EUR":2}',
            b'{"eur":1}', b'{"EUR":"1.00"}', b'{"EUR":true}', b'{"EUR":null}', b"[]", b"", b"\xff", b"[" * 5000,
            b'{"EUR":1' + b" " * 65_536 + b"}",
        )),
        *((CALLS["transactions"], as_json(200, records)) for records in (
            {}, [{}], [RECORD, 1], [{**RECORD, "amount": [-12.5]}], [{**RECORD, "amount": ["EUR-1e9"]}],
        )),
    ],
)  # fmt: skip
def test_a_balance_or_a_list_is_exact_or_an_error(step, answer, play):
    assert isinstance(play.ask(answer, step)[0], FormatError)


@pytest.mark.parametrize("name", ["endless", "redirect"])
def test_reads_are_repeated_and_what_is_not_an_answer_is_an_error(name, play):
    assert type(play.ask(LOST[name], balance)[0]) is RemoteProtocolError
    answers = iter([b"", http(503)(b""), service_answer(b"GET /BALANCE\r\n")])
    result, service = play.ask(lambda _: next(answers), balance)
    assert (result["EUR"], len(service.requests)) == (Decimal("0.30"), 3)


@pytest.mark.parametrize(
    ("code", "settings"),
    [("client.base-url", {"url": "http://service.example"}), ("credentials.malformed", {"api_key": "of three words"})],
)
def test_only_https_is_called_and_only_with_a_key(code, settings, play):
    with refused(ConfigurationError, code):
        play.run(**{"url": "https://service.example", "step": pay, **settings})


def test_a_key_with_a_scheme_is_masked_with_and_without_it():
    credentials = ApiKeyCredentials("Bearer a:b-1")
    assert (credentials.masked("Bearer a:b-1, a:b-1"), repr(credentials).count("a:b")) == ("***, ***", 0)


def test_the_key_is_never_shown(play, caplog):
    caplog.set_level(logging.DEBUG)
    credentials = ApiKeyCredentials(SecretStr(KEY))
    shown = [repr(credentials), str(credentials), repr(vars(credentials)), json.dumps(credentials, default=vars)]
    for answer in (http(401, b'{"error":{"code":"UNAUTHORIZED","message":"no"}}'), *LOST.values()):
        error, _ = play.ask(answer, pay)
        shown += [str(error), repr(error), repr(vars(error)), repr(error.__cause__), repr(pickle.dumps(error))]
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            copied(credentials)
    assert KEY not in "".join([*shown, caplog.text])
