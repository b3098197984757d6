"""The table of currencies, compared with a package that carries it (it comes with the linter)."""

from __future__ import annotations

from iso4217 import Currency

from tppkit._currency import MINOR_UNITS, is_currency

ENDED = {"ANG", "BGN", "CUC", "EEK", "HRK", "LTL", "LVL", "SLL", "VEF", "ZWL"}
CURRENT = {currency.code: currency.exponent for currency in Currency if currency.code not in {"XTS", "XXX"}}


def test_currencies_are_those_of_iso_4217_and_some_that_have_ended():
    assert all(map(is_currency, CURRENT))
    assert MINOR_UNITS.keys() - CURRENT <= ENDED
    assert not any(map(is_currency, ("XXX", "eur", "EURO", "")))


def test_amounts_have_the_decimals_of_iso_4217():
    assert {code: MINOR_UNITS.get(code) for code in CURRENT} == CURRENT
    assert [MINOR_UNITS.get(code) for code in ("EUR", "JPY", "BHD", "XAU", "ABC")] == [2, 0, 3, None, None]
