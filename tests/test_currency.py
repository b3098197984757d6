"""The table of currencies, compared with a package that carries it (it comes with the linter)."""

from __future__ import annotations

from decimal import Decimal

import pytest
from iso4217 import Currency

from refusals import refused
from tppkit._currency import FORMER, MINOR_UNITS, is_currency
from tppkit.errors import FormatError
from tppkit.qr import Payment

ENDED = {"ANG", "BGN", "CUC", "EEK", "HRK", "LTL", "LVL", "SLL", "VEF", "ZWL"}
CURRENT = {currency.code: currency.exponent for currency in Currency if currency.code not in {"XTS", "XXX"}}


def test_currencies_are_those_of_iso_4217():
    assert all(map(is_currency, CURRENT))
    assert MINOR_UNITS.keys() <= CURRENT.keys()
    assert FORMER <= ENDED
    assert not any(map(is_currency, ("XXX", "eur", "EURO", "")))


def test_amounts_have_the_decimals_of_iso_4217():
    assert {code: MINOR_UNITS.get(code) for code in CURRENT} == CURRENT
    assert [MINOR_UNITS.get(code) for code in ("EUR", "JPY", "BHD", "XAU", "ABC")] == [2, 0, 3, None, None]


@pytest.mark.parametrize("code", sorted(FORMER))
def test_a_former_currency_is_not_accepted_in_a_payment(code):
    with refused(FormatError, "qr.currency"):
        Payment(account="+37060000000", name="Shop", currency=code, amount=Decimal(1))
