"""Bad input to the gateway and its vault: the documented code and form of the answer, and no stored change."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import httpx
import pytest
from merchant import BILLING, EXPIRY, LINK, MakeMerchant, Merchant
from raw_provider import is_refused

from tppkit.protocol.gateway.endpoints import GATEWAY, VAULT
from tppkit.protocol.wire import MAX_BODY_BYTES
from tppkit.sandbox import SandboxServer

pytestmark = pytest.mark.slow

FORMAT, KEY = (400, "FORMAT_ERROR"), (401, "UNAUTHORIZED")
UNKNOWN, METHOD = (404, "NOT_FOUND"), (405, "METHOD_NOT_ALLOWED")
CLOSED, STATUS = (409, "AUTHORISATION_CLOSED"), (409, "STATUS_INVALID")
AMOUNT = (400, "AMOUNT_INVALID")
JSON = {"Content-Type": "application/json"}
NO_ID = "00000000-0000-4000-8000-000000000000"
DETAILS = ("transactions", 0, "payment_method_details")


class Row(NamedTuple):
    """A request of an endpoint that would succeed; texts in braces are the merchant's own."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None


ORDER = {
    "currency": "EUR", "amount": 1000, "customer": dict(BILLING), "payment_methods": ["credit-card"],
    "transactions": [{"payment_method": "credit-card", "capture_mode": "manual", "payment_method_details": {"one_click_type": "first"}}],
}  # fmt: skip
_T = "/v1/orders/{o}/transactions/{t}/"
ROWS: Mapping[str, Row] = {
    "create_order": Row("POST", "/v1/orders/", ORDER),
    "order": Row("GET", "/v1/orders/{o}/"),
    "capture": Row("POST", _T + "captures/"),
    "capture_amount": Row("POST", _T + "captures/amount/", {"amount": 1, "description": "x"}),
    "void": Row("POST", _T + "voids/"),
    "void_amount": Row("POST", _T + "voids/amount/", {"amount": 1}),
    "initiate": Row("POST", _T + "initiate/", {"vault_token": "{v}"}),
    "authenticate": Row("POST", _T + "authenticate/", {"vault_token": "{v}", "cvc": "{cvc}"}),
    "refunds": Row("GET", "/v1/orders/{o}/refunds/"),
    "payment_link": Row("GET", "/v1/paymentlinks/{l}/"),
    "search": Row("POST", "/v1/search/orders/", {"query": "*"}),
    "search_csv": Row("POST", "/v1/search/orders/?format=csv", {"query": "*"}),
    "wallet_session": Row(
        "POST", "/v1/wallet-pay/sessions/",
        {"validationUrl": "https://wallet.example/", "merchantIdentifier": "{p}", "displayName": "Shop", "initiativeContext": "x.example"},
    ),
    "create_refund": Row("POST", "/sandbox/v1/orders/{o}/refunds/", {"amount": 1}),
    "create_payment_link": Row("POST", "/sandbox/v1/paymentlinks/", LINK),
    "store_card": Row("POST", "{vault}/v1/cards/", {"pan": "{pan}", "expiry": EXPIRY, "setup_token": "{s}"}),
}  # fmt: skip
ENDPOINTS = {row.name: row for row in (*GATEWAY.endpoints, *VAULT.endpoints)}
POSTS = [name for name, row in ROWS.items() if row.body is not None]


class Case:
    """A merchant with an authorised order, an unpaid one, and what the sandbox stores."""

    def __init__(self, merchant: Merchant) -> None:
        self.merchant, self.cards = merchant, merchant.cards
        self.other_key = merchant.control("/gateway/projects", {"aft": True})["api_key"]
        self.unpaid = merchant.card_order()
        self.held = merchant.own_checkout(transaction={"capture_mode": "manual"})
        self.ids = {
            "o": self.held["id"], "t": self.held["transactions"][0]["id"], "v": merchant.card(merchant.card_order()),
            "s": self.unpaid["transactions"][0]["payment_method_details"]["setup_token"], "l": merchant.link()["id"],
            "pan": merchant.pan, "cvc": merchant.cvc, "p": merchant.project_id.replace("-", ""), "vault": merchant.bank.addresses.vault_url,
        }  # fmt: skip

    def stored(self) -> list[Any]:
        with sqlite3.connect(self.merchant.bank.settings.directory / "sandbox.sqlite") as db:
            names = db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'gateway%'"
            ).fetchall()
            return [sorted(map(repr, db.execute(f"SELECT * FROM {name}"))) for (name,) in sorted(names)]

    def filled(self, text: str) -> str:
        for name, value in self.ids.items():
            text = text.replace("{" + name + "}", value)
        return text

    def body(self, name: str, changed: Mapping[str, Any] | None = None) -> bytes:
        return self.filled(json.dumps({**(ROWS[name].body or {}), **(changed or {})})).encode()

    def send(
        self, name: str, *, path: str = "", method: str = "", body: bytes | None = None, headers: Any = None, **options: Any
    ) -> httpx.Response:  # fmt: skip
        """A request of a row with something about it changed."""
        row = ROWS[name]
        content = (self.body(name) if row.body is not None else b"") if body is None else body
        given = (JSON if row.body is not None else {}) if headers is None else headers
        target = self.filled(path or row.path)
        return self.merchant.http.request(
            method or row.method, target, content=content or None, headers=given, **options
        )


@pytest.fixture
def case(bank: SandboxServer, make_merchant: MakeMerchant) -> Iterator[Case]:
    found = Case(make_merchant(bank, aft=True))
    before, answers = found.stored(), len(found.cards.answers)
    yield found
    assert found.stored() == before
    sent = [one for one in found.cards.answers[answers:] if isinstance(one, httpx.Response)]
    assert not [one for one in sent if one.status_code >= 500 or one.is_redirect]


def test_every_row_is_listed_here():
    assert ROWS.keys() == ENDPOINTS.keys()


def basic(user: str, scheme: str = "Basic") -> str:
    return f"{scheme} {base64.b64encode(user.encode()).decode()}"


def test_a_request_without_the_key_is_rejected(case):
    key = case.merchant.api_key
    for value in (
        None, "", key, f"Bearer {key}", basic(f"{key}:x"), basic(key), basic(f":{key}"), basic(":"), basic(f"{key[:-1]}:"),
        basic(f"{key}x:"), f"Basic {key}:", basic("0" * 32 + ":"), "Basic", basic(f"{key}:") + "!", "Basic \xff", basic("x" * 4000 + ":"),
    ):  # fmt: skip
        given = {} if value is None else {"Authorization": value.encode("latin-1")}
        for name, row in ROWS.items():
            headers = {**(JSON if row.body else {}), **given}
            answer = case.send(name, headers=headers, auth=lambda request: request)
            assert is_refused(answer, *KEY), (name, value)
            assert answer.headers["www-authenticate"].startswith('Basic realm="')
            assert key not in answer.text


def test_the_key_of_another_project_opens_nothing_of_this_one(case):
    for name, row in ROWS.items():
        if any(place in f"{row.path} {row.body}" for place in ("{o}", "{l}", "{s}")):
            assert is_refused(case.send(name, auth=(case.other_key, "")), *UNKNOWN), name


def test_another_method_is_refused(case):
    for name, row in ROWS.items():
        for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "X"} - {row.method}:
            answer = case.send(name, method=method, body=b"")
            assert is_refused(answer, *METHOD), (name, method)
            assert answer.headers["allow"] == row.method


PATHS: tuple[Callable[[str], str], ...] = (
    lambda path: path.rstrip("/"), lambda path: path.rstrip("/") + "%2F", lambda path: path + "x/x/", lambda path: "/" + path,
    lambda path: path.upper(), lambda path: path.replace("/v1/", "//v1/"), lambda path: "/x" + path, lambda path: path + ";x",
    lambda path: path.replace("/v1/", "/v2/"), lambda path: path + "/",
    lambda path: path.replace("1", "%31", 1), lambda path: path.rstrip("/") + "%00/",
)  # fmt: skip


def test_another_path_is_unknown_and_never_redirected(case):
    for name, row in ROWS.items():
        path, _, query = row.path.removeprefix("{vault}").partition("?")
        host = case.ids["vault"] if row.path.startswith("{vault}") else case.merchant.bank.addresses.gateway_url
        for change in PATHS:
            changed = change(case.filled(path))
            assert is_refused(case.send(name, path=host + changed + ("?" + query if query else "")), *UNKNOWN), changed


def test_another_id_is_unknown(case):
    for id_ in (NO_ID, "x", "0" * 4000, "%00", "%C4%85", "' OR 1=1", "*", "NULL", "-1"):
        for name, row in ROWS.items():
            for place in ("{o}", "{t}", "{l}"):
                if place in row.path:
                    answer = case.send(name, path=row.path.replace(place, id_))
                    assert is_refused(answer, *UNKNOWN), (name, id_[:40])


def test_another_token_is_unknown(case):
    order, transaction = case.unpaid["id"], case.unpaid["transactions"][0]["id"]
    for name in ("authenticate", "store_card"):
        body = json.dumps(ROWS[name].body).replace("{v}", NO_ID).replace("{s}", NO_ID)
        path = ROWS[name].path.replace("{o}", order).replace("{t}", transaction)
        assert is_refused(case.send(name, path=path, body=case.filled(body).encode()), *UNKNOWN), name


def test_a_malformed_query_is_rejected_if_the_endpoint_reads_one(case):
    for query in ("format=csv&format=csv", "format=%FF", "format", "&".join(f"x{i}=1" for i in range(200))):
        assert is_refused(case.send("search", path=f"/v1/search/orders/?{query}"), *FORMAT), query[:40]


def test_an_unexpected_body_is_rejected(case):
    for body in (b"{}", b" ", b"\xff", b"x" * (MAX_BODY_BYTES + 1)):
        status = 413 if len(body) > MAX_BODY_BYTES else 400
        for name in ROWS.keys() - set(POSTS):
            assert is_refused(case.send(name, body=body), status, "FORMAT_ERROR"), (name, body[:5])


@pytest.mark.parametrize("name", POSTS)
def test_a_body_of_another_form_is_refused(case, name):
    whole = case.body(name)
    repeated = whole[:-1] + b"," + whole[1:]
    for body in (
        b"[]", b"null", b'"x"', b"7", b"{", b"{}x", b"{}", b"\xff", b" ", b"\xef\xbb\xbf" + whole, b"[" * 5000, whole[:-1], whole + whole,
        b"[" + whole + b"]", whole.decode().encode("utf-16"), repeated, whole.replace(b'"', b"'"), b'{"a":' * 500 + b"1" + b"}" * 500,
        whole[:-1] + b',"x":"\\ud800"}', whole[:-1] + b',"x":NaN}', whole[:-1] + b',"x":1e999}', whole[:-1] + b',"x":' + b"9" * 5000 + b"}",
    ):  # fmt: skip
        assert is_refused(case.send(name, body=body), *FORMAT), body[:60]
    assert is_refused(case.send(name, body=whole.ljust(MAX_BODY_BYTES + 1)), 413, "FORMAT_ERROR")
    for headers in (
        {}, {"Content-Type": "text/plain"}, {"Content-Type": ""}, {"Content-Type": "application/x-www-form-urlencoded"},
        {**JSON, "Content-Encoding": "gzip"},
    ):  # fmt: skip
        assert is_refused(case.send(name, headers=headers), *FORMAT), headers


@pytest.mark.parametrize("name", sorted({*POSTS} - {"search_csv"}))
def test_a_bad_field_is_refused(case, name):
    form: Any = ENDPOINTS[name].request
    for field_name, field in form.model.model_fields.items():
        body = case.body(name, {field.alias or field_name: [7.5]})  # the other values are in the tests of the models
        assert is_refused(case.send(name, body=body), *FORMAT), field_name


def test_a_transaction_against_a_rule_is_refused(case):
    cases: tuple[tuple[Any, int, str], ...] = (
        ({"one_click_type": "one-click", "cvc": "{cvc}"}, 400, "ONE_CLICK_INVALID"),
        ({"one_click_type": "one-click", "vault_token": "{v}"}, 400, "ONE_CLICK_INVALID"),
        ({"one_click_type": "one-click", "vault_token": "{v}", "cvc": "{cvc}"}, 400, "ONE_CLICK_INVALID"),
        ({"one_click_type": "one-click", "vault_token": NO_ID, "cvc": "{cvc}"}, *UNKNOWN),
        ({"one_click_type": "one-click", "first_transaction_id": "{t}", "cvc": "{cvc}"}, 400, "ONE_CLICK_INVALID"),
        ({"one_click_type": "one-click", "vault_token": "{v}", "first_transaction_id": "{t}", "cvc": "{cvc}"}, 400, "ONE_CLICK_INVALID"),
        ({"one_click_type": "first", "recurring_type": "recurring", "first_network_transaction_id": "x"}, 400, "ONE_CLICK_INVALID"),
        ({"first_network_transaction_id": "x"}, 400, "RECURRING_INVALID"),
        ({"recurring_type": "weekly", "first_network_transaction_id": "x"}, 400, "RECURRING_INVALID"),
        ({"receiver_account_number": "{pan}"}, 400, "AFT_INVALID"), ({"receiver_account_number_type": "card-account"}, 400, "AFT_INVALID"),
        ({"receiver_account_number": "{pan}", "receiver_account_number_type": "iban"}, 400, "AFT_INVALID"),
        ({"receiver_account_number": "LT1", "receiver_account_number_type": "card-account"}, 400, "AFT_INVALID"),
    )  # fmt: skip
    for details, status, code in cases:
        transaction = {"payment_method": "credit-card", "payment_method_details": details}
        body = case.body("create_order", {"transactions": [transaction]})
        assert is_refused(case.send("create_order", body=body), status, code), details


def test_a_request_against_a_rule_is_refused(case):
    cases: tuple[tuple[str, Any, int, str], ...] = (
        ("capture_amount", {"amount": 1001}, *AMOUNT), ("void_amount", {"amount": 1001}, *AMOUNT), ("void_amount", {"amount": 0}, *AMOUNT),
        ("create_refund", {"amount": 1}, *AMOUNT), ("create_refund", {"amount": 0}, *AMOUNT), ("authenticate", {}, *STATUS),
        ("authenticate", {"cavv": "x", "3ds_version": "2.2.0"}, 400, "AUTHENTICATION_INVALID"), ("initiate", {}, 400, "RECURRING_INVALID"),
        ("store_card", {"expiry": "012020"}, 400, "CARD_INVALID"),
        ("wallet_session", {"merchantIdentifier": NO_ID.replace("-", "")}, *FORMAT),
    )  # fmt: skip
    for name, changed, status, code in cases:
        assert is_refused(case.send(name, body=case.body(name, changed)), status, code), (name, changed)


@pytest.mark.parametrize("name", ["capture", "capture_amount", "void", "void_amount"])
def test_a_transaction_without_authorisation_is_neither_captured_nor_voided(merchant, name):
    path, body = ROWS[name].path.removeprefix(_T), ROWS[name].body
    voided = merchant.own_checkout(transaction={"capture_mode": "manual"})
    assert merchant.act(voided, "voids/").status_code == 201
    for order in (
        merchant.own_checkout(), merchant.own_checkout(pan="4000000000000002"), merchant.card_order(transaction={"capture_mode": "manual"}),
        voided, {"id": voided["id"], "transactions": merchant.own_checkout()["transactions"]},
    ):  # fmt: skip
        before = merchant.read(order)
        answer = merchant.act(order, path, body)
        assert (answer.status_code, answer.json()["error"]["code"]) in (CLOSED, UNKNOWN)
        assert merchant.read(order) == before


def test_a_hosted_order_is_not_authenticated(merchant):
    order, token = merchant.order(), merchant.card(merchant.card_order())
    tried = merchant.pay(order, outcome="declined")
    external = {"cavv": "x", "3ds_version": "2.2.0", "3ds_method_used": True, "ds_transaction_id": "y"}
    assert is_refused(merchant.authenticate(tried, token), *FORMAT)
    assert is_refused(merchant.authenticate(tried, token, **external), 400, "AUTHENTICATION_INVALID")


HOSTILE = (
    "'; DROP TABLE x; --", '" OR "1"="1', "=cmd|' /C calc'!A0", "<script>alert(1)</script>", "{{7*7}}", "${jndi:ldap://x}", "%00%n%s",
    "../../etc/passwd", "\u202egnp.exe", "Zalg\u0301o", "\U0001f9fe" * 500, "\\", '"', "*", "NULL", "\ta\nb", "Łódź 東京 עברית", "x" * 1000,
)  # fmt: skip


def test_hostile_texts_come_back_as_they_went(merchant):
    for text in HOSTILE:
        texts = dict.fromkeys(("description", "merchant_name"), text) | {
            "extra": {text: [text, {"": None}]},
            "client": {"name": text},
        }
        order = merchant.card_order(customer={"first_name": text, "address": text}, **texts)
        assert texts.items() <= merchant.read(order).items()
        paid = merchant.authenticate(order, merchant.card(order, name=text[:120])).json()
        assert paid["transactions"][0]["payment_method_details"]["cardholder_name"] == text[:120]


def test_json_of_any_form_within_extra_comes_back_or_is_refused(merchant):
    for text in (
        "1e308", "-0.0", "1e400", "9" * 400, str(2**63), "-1", '"\\u0000"', '"\\ud83d\\ude00"', '"\\ud800"', "[" * 30 + "]" * 30,
        "[" * 300 + "]" * 300, '{"a":1,"a":2}', '{"__proto__":{}}', "true", "NaN",
    ):  # fmt: skip
        body = b'{"currency":"EUR","amount":1,"extra":{"x":%b}}' % text.encode()
        answer = merchant.http.post("/v1/orders/", content=body, headers=JSON)
        if answer.is_success:
            assert merchant.read(answer.json())["extra"] == {"x": json.loads(text)}, text
        else:
            assert is_refused(answer, *FORMAT), text
