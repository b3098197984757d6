"""Bad input to the legacy interface: the documented code and form of the answer, and no stored change."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from legacy_provider import FOREIGN, ONA_PHONE, ORDER, SMALL, Legacy, new_id
from raw_provider import is_refused

from tppkit.protocol.legacy.endpoints import LEGACY
from tppkit.protocol.wire import MAX_BODY_BYTES
from tppkit.sandbox import SandboxServer
from tppkit.testpki import Pki

pytestmark = pytest.mark.slow

FORMAT, KEY = (400, "FORMAT_ERROR"), (401, "UNAUTHORIZED")
UNKNOWN, METHOD = (404, "NOT_FOUND"), (405, "METHOD_NOT_ALLOWED")
JSON = {"Content-Type": "application/json"}
ACCESS, TX = json.dumps({"acc": ONA_PHONE}).encode(), json.dumps(ORDER).encode()
# `{a}` and `{p}` are granted access to account information and payments, `{n}` is a new token or uuid.
ROWS: Mapping[str, tuple[str, str, bytes]] = {
    "request_account_access": ("POST", "/ais/{n}", ACCESS),
    "balance": ("GET", "/ais/{a}/BALANCE", b""),
    "transactions": ("GET", "/ais/{a}/LIST", b""),
    "request_payment_access": ("POST", "/pis/{n}", ACCESS),
    "pay": ("POST", "/pis/{p}/TX/{n}", TX),
}
POSTS = [name for name, (method, _, _) in ROWS.items() if method == "POST"]
TABLES = "legacy_access", "legacy_payments", "legacy_logins", "deliveries", "kept_answers", "transfers"


class Case:
    """A bank with granted access, and what it stores."""

    def __init__(self, legacy: Legacy) -> None:
        self.legacy = legacy
        self.tokens = {"a": legacy.access(), "p": legacy.access("pis")}

    def stored(self) -> list[Any]:
        with sqlite3.connect(self.legacy.bank.settings.directory / "sandbox.sqlite") as db:
            return [sorted(map(repr, db.execute(f"SELECT * FROM {table}"))) for table in TABLES]

    def send(
        self, name: str, *, path: str = "", method: str = "", body: bytes | None = None, headers: Any = None
    ) -> httpx.Response:
        """A request of a row with something about it changed."""
        of_row = ROWS[name]
        target = (path or of_row[1]).format(**self.tokens, n=new_id())
        content = of_row[2] if body is None else body
        given = {"Authorization": self.legacy.key, **(JSON if of_row[2] else {})} if headers is None else headers
        return self.legacy.http.request(method or of_row[0], target, content=content or None, headers=given)


@pytest.fixture(scope="module")
def opened(bank: SandboxServer, bank_pki: Pki) -> Iterator[Case]:
    legacy = Legacy(bank, bank_pki)
    with legacy.http:
        yield Case(legacy)


@pytest.fixture
def case(opened: Case) -> Iterator[Case]:
    before = opened.stored()
    yield opened
    assert opened.stored() == before


def test_every_row_is_listed_here():
    assert ROWS.keys() == {row.name for row in LEGACY.endpoints}


@pytest.mark.parametrize("key", [None, "", "0" * 32, "Bearer {}", "{}x", "{}, {}", "\xff", "x" * 5000], ids=str)
def test_a_request_without_the_key_is_rejected(case, key):
    for name in ROWS:
        headers = {} if key is None else {"Authorization": key.replace("{}", case.legacy.key).encode("latin-1")}
        assert is_refused(case.send(name, headers={**JSON, **headers}), *KEY)


def test_a_request_with_two_keys_is_rejected(case):
    for name in ROWS:
        headers = [("Authorization", case.legacy.key)] * 2
        assert is_refused(case.send(name, headers=headers), *FORMAT)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "X"])
def test_another_method_is_refused(case, method):
    for name in ROWS:
        if method != ROWS[name][0]:
            answer = case.send(name, method=method, body=b"")
            assert is_refused(answer, *METHOD)
            assert answer.headers["allow"] == ROWS[name][0]


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path + "/", lambda path: path + "%2F", lambda path: path + "/x", lambda path: "/" + path, lambda path: path.upper(),
        lambda path: path.replace("is/", "is//"), lambda path: "/v1" + path, lambda path: path + ";x",
    ],
    ids=["slash", "encoded-slash", "more", "two-slashes", "upper", "empty-part", "before", "parameter"],
)  # fmt: skip
def test_another_path_is_unknown(case, change):
    for name in ROWS:
        filled = ROWS[name][1].format(**case.tokens, n=new_id())
        answer = case.send(name, path=change(filled))
        # A token at the end may have got other characters.
        assert is_refused(answer, *UNKNOWN) or (name in POSTS and is_refused(answer, *FORMAT))


@pytest.mark.parametrize("name", ["balance", "transactions"])
@pytest.mark.parametrize("body", [b"{}", b" ", b"\xff", b"x" * (MAX_BODY_BYTES + 1)], ids=len)
def test_an_unexpected_body_is_rejected(case, name, body):
    assert is_refused(case.send(name, body=body), 413 if len(body) > MAX_BODY_BYTES else 400, "FORMAT_ERROR")


@pytest.mark.parametrize(
    "body",
    [
        b"[]", b"null", b'"x"', b"{", b"{}x", b"\xff", b'{"acc":null}', b'{"acc":"\\ud800"}', b'\xef\xbb\xbf{"acc":"x"}', b" ",
        b'{"acc":"a","acc":"b"}', b'{"acc":["+37060000001"]}', b'{"acc":"+3706000000' + "１".encode() + b'"}', b"[" * 5000,
        ACCESS.decode().encode("utf-16"), b'{"acc":"+37060000001\\u0000"}',
    ],
    ids=lambda body: str(body)[:30],
)  # fmt: skip
def test_a_body_of_another_form_is_refused(case, body):
    for name in POSTS:
        assert is_refused(case.send(name, body=body), *FORMAT)


def test_a_body_that_is_too_long_or_of_another_type_is_refused(case):
    for name in POSTS:
        body, key = ROWS[name][2], {"Authorization": case.legacy.key}
        assert is_refused(case.send(name, body=body.ljust(MAX_BODY_BYTES + 1)), 413, "FORMAT_ERROR")
        for media_type in ("text/plain", "", "application/x-www-form-urlencoded"):
            assert is_refused(case.send(name, headers={**key, "Content-Type": media_type}), *FORMAT)
        assert is_refused(case.send(name, headers={**key, **JSON, "Content-Encoding": "gzip"}), *FORMAT)


@pytest.mark.parametrize("token", ["a" * 19, "a" * 41, "a" * 32 + "-", "%C4%85" * 20, "%00" * 20, "a" * 4000])
def test_a_token_or_uuid_of_another_form_is_refused(case, token):
    for name in ROWS:
        for place in ("{a}", "{p}", "{n}"):
            if place in ROWS[name][1]:
                answer = case.send(name, path=ROWS[name][1].replace(place, token))
                assert is_refused(answer, *(UNKNOWN if "%" in token else FORMAT))  # no path of a row is percent-encoded


def test_an_order_with_a_bad_field_is_refused(case):
    for name in ("acc", "amts", "name", "street", "city", "country", "msg", "time", "tcc"):
        body = json.dumps({**ORDER, name: [7.5]}).encode()  # the other values are in the tests of the models
        assert is_refused(case.send("pay", body=body), *FORMAT), name


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e400", "1" * 50, "0x1", "01", "1.", "+1", "1_0"])
def test_an_amount_must_be_a_number_of_json(case, number):
    body = b'{"acc":"%b","amts":{"EUR":%b}}' % (SMALL.encode(), number.encode())
    assert is_refused(case.send("pay", body=body), *FORMAT)


def test_accounts_that_are_unknown_are_refused(case):
    for name in POSTS:
        answer = case.send(name, body=json.dumps({**(ORDER if name == "pay" else {}), "acc": "+37069999999"}).encode())
        assert is_refused(answer, 400, "ACCOUNT_NOT_FOUND")
    assert is_refused(
        case.send("request_account_access", body=json.dumps({"acc": FOREIGN}).encode()), 400, "ACCOUNT_NOT_FOUND"
    )
