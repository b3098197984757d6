"""Payment codes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import FrozenInstanceError, replace
from decimal import Decimal

import pytest
from drawing import IBAN, PAYMENT
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import FormatError
from tppkit.qr import Payment, parse_payment
from tppkit.qr.payment import parse_amount

# Letters, digits, marks and symbols of all scripts, without the colon; what is drawn as nothing has vectors of its own.
TEXTS = st.text(
    st.characters(categories=("L", "N", "P", "S"), exclude_characters=":\u115f\u1160\u2800\u3164\uffa0") | st.just(" "),
    max_size=30,
).filter(lambda text: not text or bool(text.strip()))
ACCOUNTS = st.one_of(
    st.sampled_from([IBAN, "DE89370400440532013000", "NO9386011117947", "MT84MALT011000012345MTLCAST001S"]),
    st.from_regex(r"\A\+?[0-9]{7,15}\Z"),
)
AMOUNTS = st.decimals("0.01", "999999999.99", places=2) | st.integers(1, 999_999_999).map(Decimal)
PAYMENTS = st.builds(
    Payment, account=ACCOUNTS, name=TEXTS, currency=st.sampled_from(["EUR", "GBP", "BHD", "XAU"]), amount=AMOUNTS, type=TEXTS,
    message=TEXTS,
)  # fmt: skip


@given(PAYMENTS)
def test_round_trip(payment):
    again = parse_payment(payment.text)
    assert again == payment
    assert again.text == payment.text


@given(st.one_of(st.text(), st.lists(TEXTS | ACCOUNTS, max_size=8).map(lambda fields: "TX:" + ":".join(fields))))
def test_only_format_error_escapes(text):
    with suppress(FormatError):
        assert parse_payment(text).text == text


@given(PAYMENTS, st.sampled_from(["name", "type", "message"]), st.data())
def test_no_field_can_reach_into_the_next(payment, field, data):
    value = getattr(payment, field)
    place = data.draw(st.integers(0, len(value)))
    with refused(FormatError, "qr.colon"):
        replace(payment, **{field: value[:place] + ":" + value[place:]})


def test_the_decimals_of_the_amount_are_kept():
    assert [str(parse_amount(text)) for text in ("12", "12.5", "12.50", "0.05")] == ["12", "12.5", "12.50", "0.05"]


def test_a_payment_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        PAYMENT.amount = Decimal(1)


def text_with(**fields: str) -> str:
    written = {"acc": IBAN, "name": "Bookshop", "ccc": "EUR", "amt": "12.50", "type": "", "msg": "Order 4711"} | fields
    return "TX:" + ":".join(written.values())


def assert_refused(text: str, code: str) -> FormatError:
    with pytest.raises(FormatError) as refused:
        parse_payment(text)
    assert refused.value.code == code
    return refused.value


@pytest.mark.parametrize("field", ["name", "type", "msg"])
@pytest.mark.parametrize("text", [" ", "   ", "\u0301Bookshop", "\u0903", "\u20dd1"])
def test_a_field_that_looks_empty_or_changes_the_colon_is_refused(field, text):
    assert_refused(text_with(**{field: text}), "qr.character")


def test_a_mark_behind_a_letter_is_a_letter():
    assert parse_payment(text_with(name="Cafe\u0301 1")).name == "Cafe\u0301 1"


@pytest.mark.parametrize("text", ["", "tx:a:b:c:d:e:f", "TX", "LOGIN:shop.example", f" {PAYMENT.text}"])
def test_another_prefix_is_refused(text):
    assert_refused(text, "qr.unknown")


@pytest.mark.parametrize(
    "text", ["TX:", f"TX:{IBAN}:n:EUR:1:", f"{PAYMENT.text}:", text_with(msg="a:b"), text_with(name=":")]
)
def test_other_than_six_fields_are_refused(text):
    assert_refused(text, "qr.fields")


@pytest.mark.parametrize(
    "account",
    [
        "LT131000011101001000", "LT12 1000 0111 0100 1000", "lt121000011101001000", "Lt121000011101001000", "LT12", "ŽŽ12",
        "", "+", "123456", "1234567890123456", "++37060000000", "+370 600 00000", "+370-60000000", "٣٧٠٦٠٠٠٠٠٠٠", "1LT37060000",
    ],
)  # fmt: skip
def test_a_wrong_account_is_refused_without_showing_it(account):
    error = assert_refused(text_with(acc=account), "qr.account")
    assert not account or account not in error.message


@pytest.mark.parametrize("currency", ["", "eur", "EU", "EURO", "XXX", "ABC", "978", "ЕUR"])
def test_a_wrong_currency_is_refused(currency):
    assert_refused(text_with(ccc=currency), "qr.currency")


@pytest.mark.parametrize(
    "amount",
    [
        "", "0", "0.0", "0.00", "-1", "+1", "1.", ".5", "01", "00.50", "1.234", "1,50", "1e3", "1E3", "1_000", " 1", "1 ", "NaN",
        "Infinity", "1000000000", "٣", "１", "0x1", "12.50EUR",
    ],
)  # fmt: skip
def test_a_wrong_amount_is_refused(amount):
    assert_refused(text_with(amt=amount), "qr.amount")


@pytest.mark.parametrize("amount", ["1E+2", "NaN", "Infinity", "-1", "0", "0.001", "1E-7", "1000000000"])
def test_an_amount_that_cannot_be_written_makes_no_payment(amount):
    with refused(FormatError, "qr.amount"):
        replace(PAYMENT, amount=Decimal(amount))


@pytest.mark.parametrize(
    ("currency", "most", "more"), [("EUR", "1.23", "1.234"), ("JPY", "1", "1.0"), ("BHD", "1.234", "1.2345")]
)
def test_an_amount_has_at_most_the_decimals_of_its_currency(currency, most, more):
    assert str(parse_payment(text_with(ccc=currency, amt=most)).amount) == most
    assert_refused(text_with(ccc=currency, amt=more), "qr.amount")


@pytest.mark.parametrize("amount", [12.5, 12, "12.50", None])
def test_an_amount_that_is_not_a_decimal_makes_no_payment(amount):
    with refused(FormatError, "qr.amount"):
        replace(PAYMENT, amount=amount)


HIDDEN = {
    "null": "\0", "newline": "\n", "escape": "\x1b", "delete": "\x7f", "next line": "\x85", "no-break space": "\xa0",
    "soft hyphen": "\xad", "grapheme joiner": "\u034f", "arabic letter mark": "\u061c", "hangul filler": "\u115f",
    "mongolian selector": "\u180b", "zero width space": "\u200b", "non-joiner": "\u200c", "joiner": "\u200d",
    "left-to-right mark": "\u200e", "line separator": "\u2028", "right-to-left override": "\u202e", "word joiner": "\u2060",
    "isolate": "\u2066", "blank braille": "\u2800", "ideographic space": "\u3000", "hangul blank": "\u3164",
    "surrogate": "\ud800", "private use": "\ue000", "variation selector": "\ufe0f", "byte order mark": "\ufeff",
    "halfwidth filler": "\uffa0", "noncharacter": "\uffff", "tag": "\U000e0041", "late selector": "\U000e0100",
}  # fmt: skip


@pytest.mark.parametrize("character", HIDDEN.values(), ids=HIDDEN.keys())
def test_a_character_that_is_invisible_is_refused(character):
    for field in ("acc", "name", "ccc", "amt", "type", "msg"):
        error = assert_refused(text_with(**{field: f"a{character}b"}), "qr.character")
        assert f"U+{ord(character):04X}" in error.message


def test_a_text_has_as_many_bytes_as_the_code_allows():
    room = 2330 - len(PAYMENT.text)
    longest = replace(PAYMENT, message=PAYMENT.message + "m" * room)
    assert len(parse_payment(longest.text).text.encode()) == 2330
    assert_refused(longest.text + "m", "qr.too-long")
    assert_refused(text_with(msg=PAYMENT.message + "ž" * (room // 2 + 1)), "qr.too-long")
    assert_refused("\0" * 10_000_000, "qr.too-long")  # its characters are not looked at
