"""What callbacks carry: read strictly where it decides, kept as it came elsewhere."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.errors import ConfigurationError, FormatError
from tppkit.protocol.legacy import (
    AccessGranted,
    Amount,
    LoginConfirmed,
    LoginPermission,
    LoginRequest,
    PaymentOrder,
    Transaction,
)
from tppkit.protocol.legacy.models import AccessRequest

pytestmark = pytest.mark.slow

MODELS = (AccessGranted, Transaction, LoginConfirmed)
TOKEN = "abcdefghijABCDEFGHIJ0123"
ACCESS = {"token": TOKEN, "exp": "2026-12-01 12:00:00"}
TRANSACTION = {
    "id": "T-1", "ver": 3, "timeStamp": 833_000_000, "tlc": "posted", "acc": "LT121000011101001000", "name": "Bookshop",
    "street": "Gedimino 1", "city": "Vilnius", "country": "LTU", "msg": "two\nlines", "time": "2026-06-01 12:00:00",
    "tcc": "NEW1", "amount": ["EUR-12.50", "USD +1"], "fee": ["EUR-0.10"],
}  # fmt: skip
LOGIN = {"id": 7, "token": TOKEN, "name": "Jonas", "country": "LTU", "code": "39001010000"}


def wire(fields: dict) -> bytes:
    return json.dumps(fields).encode()


def refusal(model, fields: dict) -> FormatError:
    with pytest.raises(FormatError) as refused:
        model.from_wire(wire(fields))
    return refused.value


def test_an_access_has_a_token_and_an_end_in_utc():
    access = AccessGranted.from_wire(wire(ACCESS))
    assert (access.token, access.exp) == (TOKEN, "2026-12-01 12:00:00")
    assert access.expires_at() == datetime(2026, 12, 1, 12, tzinfo=UTC)
    assert access.expires_at(ZoneInfo("Europe/Vilnius")) == datetime(2026, 12, 1, 10, tzinfo=UTC)
    assert AccessGranted.until(TOKEN, access.expires_at()) == access


def test_a_transaction_has_its_fields_by_their_names():
    transaction = Transaction.from_wire(wire(TRANSACTION))
    assert (transaction.id, transaction.ver, transaction.tlc, transaction.acc) == (
        "T-1",
        3,
        "posted",
        "LT121000011101001000",
    )
    assert (transaction.name, transaction.street, transaction.city) == ("Bookshop", "Gedimino 1", "Vilnius")
    assert (transaction.country, transaction.msg, transaction.tcc) == ("LTU", "two\nlines", "NEW1")
    assert transaction.time == "2026-06-01 12:00:00"
    assert transaction.amounts == (Amount("EUR", Decimal("-12.50")), Amount("USD", Decimal(1)))
    assert transaction.fees == (Amount("EUR", Decimal("-0.10")),)


def test_a_login_has_its_fields_by_their_names():
    login = LoginConfirmed.from_wire(
        wire(
            {
                "id": 1,
                **{name: name for name in ("token", "name", "phone", "email", "address", "city", "country", "code")},
            }
        )
    )
    assert login.id == 1
    assert all(
        getattr(login, name) == name
        for name in ("token", "name", "phone", "email", "address", "city", "country", "code")
    )
    assert LoginConfirmed.from_wire(b'{"id":0}') == LoginConfirmed(id=0)


def test_time_stamps_count_from_the_year_2000():
    assert Transaction.from_wire(wire({**TRANSACTION, "timeStamp": 0})).operated_at == datetime(2000, 1, 1, tzinfo=UTC)
    far = Transaction.from_wire(wire({**TRANSACTION, "timeStamp": 2**63 - 1}))
    assert far.operated_at == datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("model", "fields"), [(AccessGranted, ACCESS), (Transaction, TRANSACTION), (LoginConfirmed, LOGIN)]
)
def test_unknown_fields_are_kept_and_written_again(model, fields):
    value = model.from_wire(wire({**fields, "new": {"a": [1]}, "void": None}))
    assert value.unknown == {"new": {"a": [1]}, "void": None}
    assert model.from_wire(value.to_wire()) == value
    with pytest.raises(TypeError):
        value.unknown["more"] = 1


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (AccessGranted, ACCESS),
        (Transaction, {k: TRANSACTION[k] for k in ("id", "ver", "timeStamp", "tlc", "acc", "amount")}),
    ],
)
def test_every_required_field_is_missed_by_its_name(model, fields):
    for name in fields:
        error = refusal(model, {key: value for key, value in fields.items() if key != name})
        assert error.code == "model.invalid"
        assert f"{name}:" in error.message


@pytest.mark.parametrize(
    ("model", "base", "changed"),
    [
        *((AccessGranted, ACCESS, {"token": token}) for token in ("a" * 19, "a" * 41, "a" * 19 + "-", "a" * 19 + "é", 7, None)),
        *((AccessGranted, ACCESS, {"exp": exp}) for exp in (
            "2026-12-01T12:00:00", "2026-12-01 12:00", "2026-13-01 12:00:00", "2026-12-01 12:00:00Z", "20261201 12:00:0000", 1, "",
        )),
        *((Transaction, TRANSACTION, {"ver": ver}) for ver in (-1, 1.0, True, "1", 2**63, None)),
        *((Transaction, TRANSACTION, {"id": id_}) for id_ in ("", 7, "a\nb", None)),
        *((Transaction, TRANSACTION, {"amount": amount}) for amount in (
            [], "EUR-1", [1], ["eur-1"], ["EUR"], ["EUR-"], ["EUR1,5"], ["EUR 1e5"], ["EUR--1"], ["EUR\u0661"], ["EUR-1\n"],
            ["EUR" + "1" * 16], {"EUR": 1}, ["EURO-1"],
        )),
        (Transaction, TRANSACTION, {"fee": ["x"]}), (Transaction, TRANSACTION, {"name": 5}), (Transaction, TRANSACTION, {"tlc": ""}),
        (Transaction, TRANSACTION, {"timeStamp": "1"}), (Transaction, TRANSACTION, {"acc": []}),
        *((LoginConfirmed, LOGIN, {"id": id_}) for id_ in ("7", -1, 1.5, True, None)),
        (LoginConfirmed, LOGIN, {"name": 1}), (LoginConfirmed, LOGIN, {"code": {}}),
    ],
)  # fmt: skip
def test_what_decides_is_read_strictly(model, base, changed):
    error = refusal(model, {**base, **changed})
    assert error.code == "model.invalid"
    assert next(iter(changed)) in error.message


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["time_stamp", "amounts", "unknown", "model_extra", "é", "-"]), JSON))
def test_unknown_fields_have_the_values_of_a_plain_json_reader(fields):
    # The inbox compares records by them, also with those that it stored earlier.
    raw = wire({**TRANSACTION, **fields})
    event = Transaction.from_wire(raw)
    assert repr(dict(event.unknown)) == repr({name: value for name, value in json.loads(raw).items() if name in fields})
    assert event.ver == TRANSACTION["ver"]
    assert not fields or repr(event) == repr(Transaction.from_wire(wire(TRANSACTION)))


def test_a_record_has_the_text_of_its_category():
    def named(tcc):
        return Transaction.from_wire(wire({**TRANSACTION, "tcc": tcc}))

    assert [named(tcc).category for tcc in ("SHOP", "ZZZZ", None)] == [
        "shopping",
        "general transfer",
        "general transfer",
    ]
    assert named("ZZZZ").tcc == "ZZZZ"


ORDER = {
    "acc": "DE89370400440532013000", "amts": {"EUR": 12.5}, "name": "Ada", "street": "Gedimino 1", "city": "Vilnius", "country": "LTU",
    "msg": "Order 4711", "time": "2026-06-01 12:00:00", "tcc": "ZZZZ", "new": 1,
}  # fmt: skip


def test_an_order_has_its_amount_and_its_receiver():
    order = PaymentOrder.from_wire(wire(ORDER), unknown_fields=["new"])
    assert (order.amount, order.has_receiver) == (Amount("EUR", Decimal("12.50")), True)
    assert json.loads(order.to_wire()) == ORDER
    assert not any(secret in repr(order) for secret in ("DE89", "Ada", "Gedimino", "Vilnius", "4711"))
    assert not PaymentOrder(acc="+37060000000", amts={"JPY": Decimal(1500)}).has_receiver


@pytest.mark.parametrize(
    "changed",
    [
        *({"acc": acc} for acc in (
            "", "DE88370400440532013000", "de89370400440532013000", "123456", "37060000001x", "+" + "1" * 16, "+1 2345678", 7, None,
        )),
        *({"amts": amts} for amts in (
            {}, {"EUR": 1, "USD": 1}, {"EUR": 0}, {"EUR": -1}, {"EUR": 0.001}, {"JPY": 1.5}, {"BHD": 0.0001}, {"XAU": 1}, {"ABC": 1},
            {"EUR": "1"}, {"EUR": True}, {"EUR": None}, {"EUR": [1]}, {"EUR": 1e15}, {"EUR": 1e300}, {"eur": 1}, {"EURO": 1}, {"XXX": 1},
            "EUR1", [], None, 1,
        )),
        *({name: text} for name in ("name", "street", "city", "msg", "tcc") for text in ("", " ", "a" * 200, "a\nb", 7)),
        {"name": "a" * 71}, {"msg": "a" * 141}, *({"country": text} for text in ("LT", "ltu", "LTUX", 440)),
        *({"time": text} for text in (
            "2026-01-01", "2026-06-01T12:00:00", "2026-02-30 10:00:00", "2026-01-01 24:00:00", 7,
        )),
    ],
)  # fmt: skip
def test_an_order_is_strict(changed):
    error = refusal(PaymentOrder, {**ORDER, **changed})
    assert (error.code, next(iter(changed)) in error.message) == ("model.invalid", True)


@pytest.mark.parametrize("acc", ["+37060000000", "LT121000011101001000"])
def test_access_is_requested_for_a_phone_number_or_an_iban(acc):
    assert AccessRequest.from_wire(AccessRequest(acc=acc).to_wire()).acc == acc
    assert acc not in repr(AccessRequest(acc=acc))
    assert refusal(AccessRequest, {"acc": f"{acc} "}).code == "model.invalid"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("raw", [b"[]", b"1", b"null", b'"{}"'])
def test_a_body_is_an_object(model, raw):
    with pytest.raises(FormatError) as refused:
        model.from_wire(raw)
    assert refused.value.code == "model.invalid"


def test_a_body_is_bounded():
    with pytest.raises(FormatError) as refused:
        LoginConfirmed.from_wire(b'{"id":1,"name":"' + b"a" * 65_536 + b'"}')
    assert refused.value.code == "json.too-large"


def test_tokens_and_personal_data_are_not_in_representations():
    shown = repr(
        [model.from_wire(wire(fields)) for model, fields in zip(MODELS, (ACCESS, TRANSACTION, LOGIN), strict=True)]
    )
    assert not any(secret in shown for secret in (TOKEN, "Jonas", "39001010000", "Bookshop", "LT121000011101001000"))


def test_a_refusal_names_the_field_and_not_its_value():
    error = refusal(Transaction, {**TRANSACTION, "amount": ["secret"], "id": "secret"})
    assert "amount" in error.message
    assert "secret" not in error.message


AMOUNTS = st.tuples(
    st.from_regex(r"[A-Z]{3}", fullmatch=True),
    st.decimals(-(10**14), 10**14, places=2) | st.integers(-(10**14), 10**14).map(Decimal),
).map(Amount._make)
TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
IDENTIFIERS = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20)
INTEGERS = st.integers(0, 2**63 - 1)
TRANSACTIONS = st.builds(
    Transaction, id=IDENTIFIERS, ver=INTEGERS, timeStamp=INTEGERS, tlc=IDENTIFIERS, acc=IDENTIFIERS,
    amount=st.lists(AMOUNTS, min_size=1, max_size=3).map(tuple), fee=st.lists(AMOUNTS, max_size=2).map(tuple),
    **dict.fromkeys(("name", "street", "city", "country", "msg", "time", "tcc"), TEXTS),
)  # fmt: skip
LOGINS = st.builds(
    LoginConfirmed, id=INTEGERS,
    **dict.fromkeys(("token", "name", "phone", "email", "address", "city", "country", "code"), TEXTS),
)  # fmt: skip
ACCESSES = st.builds(
    AccessGranted.until,
    st.from_regex(r"[0-9A-Za-z]{20,40}", fullmatch=True),
    st.datetimes(datetime(1000, 1, 1), timezones=st.just(UTC)),
)


@given(TRANSACTIONS | LOGINS | ACCESSES)
def test_round_trip(event):
    assert type(event).from_wire(event.to_wire()) == event


@pytest.mark.parametrize("model", [*MODELS, AccessRequest, PaymentOrder, LoginRequest])
@given(
    st.binary()
    | st.dictionaries(
        st.sampled_from([*TRANSACTION, *ACCESS, *LOGIN, *ORDER, "perm"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text() | st.integers()),
    ).map(wire)
)
def test_only_format_error_escapes(model, raw):
    with suppress(FormatError):
        model.from_wire(raw)


def test_a_login_says_who_asks_and_for_what():
    asked = LoginRequest(name="Knygynas „Ž“", perm=(LoginPermission.NAME, LoginPermission.ID), code="4711")
    assert asked.to_wire() == '{"name":"Knygynas „Ž“","perm":["NAME","ID"],"code":"4711"}'.encode()
    assert LoginRequest(name="Shop").to_wire() == b'{"name":"Shop","perm":[]}'


@pytest.mark.parametrize(
    "answer",
    [
        {"name": ""},
        {"perm": []},
        {"name": "Shop"},
        {"name": "Shop", "perm": ["SHOE"]},
        {"name": "Shop", "perm": "NAME"},
        {"name": "a\nb"},
        {"name": "\u3164"},
        {"name": 60_000 * "a"},
        [],
    ],
)
def test_an_answer_that_asks_wrongly_is_refused(answer):
    assert refusal(LoginRequest, answer).code == "model.invalid"


@pytest.mark.parametrize(
    "asked",
    [
        {"name": ""},
        {"name": "a\nb"},
        {"name": "\u202eShop"},
        *({"name": name} for name in (" ", "\u3164", "Sh\u115fop", "\u2800", 71 * "a")),
        {"name": "Shop", "code": ""},
        {"name": "Shop", "code": 36 * "1"},
        {"name": "Shop", "code": "\x1b[2J"},
        {"name": "Shop", "perm": (LoginPermission.NAME, LoginPermission.NAME)},
    ],
)
def test_a_login_that_a_customer_could_not_read_is_refused(asked):
    with pytest.raises(ConfigurationError) as refused:
        LoginRequest(**asked)
    assert refused.value.code == "login.setting"
