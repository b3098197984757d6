"""Amounts as JSON numbers: read from their text, written without exponent or tail, bounded whatever comes."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from decimal import Decimal
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit._currency import MINOR_UNITS
from tppkit.errors import FormatError
from tppkit.protocol.legacy import Amount, PaymentOrder
from tppkit.protocol.legacy.money import BalanceBody

BODY = BalanceBody()
PLAIN = re.compile(rb'\{(?:"[A-Z]{3}":-?[0-9]+(?:\.[0-9]+)?(?:,(?!\}))?)*\}')


def read(text: str) -> dict[str, Decimal]:
    return dict(BODY.read(text.encode(), tolerant=True))


@st.composite
def balances(draw: st.DrawFn) -> dict[str, Decimal]:
    codes = draw(st.lists(st.sampled_from(sorted(MINOR_UNITS)), unique=True, max_size=5))
    return {code: Decimal(draw(st.integers(1 - 10**15, 10**15 - 1))).scaleb(-MINOR_UNITS[code]) for code in codes}


@given(balances())
def test_balances_make_the_round_trip_digit_by_digit(value):
    raw = BODY.write(value)
    assert PLAIN.fullmatch(raw)
    assert {code: str(amount) for code, amount in read(raw.decode()).items()} == {
        code: f"{amount:f}" for code, amount in value.items()
    }


@given(balances())
def test_balances_survive_a_bank_that_computes_in_doubles(value):
    doubles = {code: float(amount) / 3 * 3 for code, amount in value.items() if abs(amount) < 10**6}
    assert read(json.dumps(doubles)) == {code: value[code] for code in doubles}


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ('{"EUR":0.30000000000000004}', "0.30"), ('{"EUR":1e2}', "100.00"), ('{"EUR":-0.0}', "-0.00"), ('{"JPY":1500.0}', "1500"),
        ('{"BHD":0.1}', "0.100"), ('{"EUR":5E-2}', "0.05"), ('{"EUR":0.305}', "0.305"), ('{"XAU":0.30000000000000004}',
        "0.30000000000000004"), ('{"BTC":0.00000001}', "1E-8"), ('{"EUR":123456789012345.67}', "123456789012345.67"),
    ],
)  # fmt: skip
def test_doubles_are_read_from_their_text_and_rounded_to_the_minor_unit(text, amount):
    (value,) = read(text).values()
    assert str(value) == amount


HOSTILE = (
    "1e999999999", "-1e999999999", "1e-999999999", "0e999999999", "1e99999999999999999999", "1e15", "1e400", "NaN", "Infinity", "9" * 40,
    "9" * 60_000, "0." + "0" * 60_000 + "1", '"1"', '""', "true", "null", "[]", "{}", "[1]", '{"EUR":1}', "+1", ".5", "0x1", "1_0",
)  # fmt: skip


@pytest.mark.parametrize("number", HOSTILE, ids=lambda text: text[:24])
def test_hostile_numbers_are_refused_with_bounded_work(number):
    began = process_time()
    with pytest.raises(FormatError) as refused:
        read(f'{{"EUR":{number}}}')
    with pytest.raises(FormatError):
        PaymentOrder.from_wire(f'{{"acc":"+37060000000","amts":{{"EUR":{number}}}}}'.encode())
    assert process_time() - began < 5
    assert refused.value.code in {"json.malformed", "model.invalid"}
    assert len(refused.value.message) < 200


@pytest.mark.parametrize("key", ["", "eur", "EURO", "E" * 60_000, "EU\\u0000", "\u0415UR", "../"])
def test_names_that_are_not_currency_codes_are_refused(key):
    with pytest.raises(FormatError) as refused:
        read(f'{{"{key}":1}}')
    assert (refused.value.code, len(refused.value.message) < 200) == ("model.invalid", True)


@pytest.mark.parametrize("text", ["[]", "1", "null", '"{}"'])
def test_a_balance_is_an_object(text):
    with pytest.raises(FormatError) as refused:
        read(text)
    assert refused.value.code == "model.invalid"


@given(
    st.binary()
    | st.dictionaries(st.text(max_size=4), st.floats() | st.integers() | st.none()).map(json.dumps).map(str.encode)
)
def test_only_format_error_escapes(raw):
    with suppress(FormatError):
        BODY.write(BODY.read(raw, tolerant=True))


@pytest.mark.parametrize("value", [1, 1.5, "1", None, Decimal("NaN"), Decimal("1e16"), Decimal("1e-50")])
def test_only_decimals_of_a_reasonable_size_are_written(value):
    with pytest.raises(ValueError, match="amount"):
        BODY.write({"EUR": value})


@given(st.sampled_from(sorted(MINOR_UNITS)), st.integers(1, 10**14))
def test_an_order_makes_the_round_trip_digit_by_digit(code, minor):
    amount = Decimal(minor).scaleb(-MINOR_UNITS[code])
    order = PaymentOrder(acc="+37060000000", amts={code: amount})
    raw = order.to_wire()
    assert f'"amts":{{"{code}":{amount:f}}}'.encode() in raw
    assert PaymentOrder.from_wire(raw) == order
    assert order.amount == Amount(code, amount)
