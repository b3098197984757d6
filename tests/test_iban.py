"""IBANs: form and check digits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit._iban import is_iban

# Examples of the IBAN registry (ISO 13616).
EXAMPLES = ["LT121000011101001000", "DE89370400440532013000", "NO9386011117947", "MT84MALT011000012345MTLCAST001S"]


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_of_the_registry_is_an_iban(text):
    assert is_iban(text)


@given(st.sampled_from(EXAMPLES), st.data())
def test_a_changed_digit_makes_it_none(text, data):
    place = data.draw(st.sampled_from([i for i, c in enumerate(text) if c.isdigit()]))
    digit = data.draw(st.sampled_from([d for d in "0123456789" if d != text[place]]))
    assert not is_iban(text[:place] + digit + text[place + 1 :])


@pytest.mark.parametrize(("digits", "other"), [("97", "00"), ("98", "01"), ("02", "99")])
def test_one_account_has_one_pair_of_check_digits(digits, other):
    accounts = (f"1000011101{n:06d}" for n in range(1000))
    account = next(one for one in accounts if is_iban(f"LT{digits}{one}"))
    assert not is_iban(f"LT{other}{account}")


@pytest.mark.parametrize("text", EXAMPLES)
def test_two_swapped_neighbours_make_it_none(text):
    for i in range(2, len(text) - 1):
        if text[i] != text[i + 1]:
            assert not is_iban(text[:i] + text[i + 1] + text[i] + text[i + 2 :])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "LT12 1000 0111 0100 1000",
        "lt121000011101001000",
        "LT121000011101001000\n",
        "LT12100001110100100٠",
        "LT97",
    ],
)
def test_another_form_than_the_electronic_one_is_none(text):
    assert not is_iban(text)


def with_check_digits(country: str, account: str) -> str:
    digits = "".join(str(int(one, 36)) for one in f"{account}{country}00")
    return f"{country}{98 - int(digits) % 97:02}{account}"


@pytest.mark.parametrize(
    ("country", "length", "is_right"),
    [
        ("LT", 20, True),
        ("LT", 19, False),
        ("LT", 21, False),
        ("NO", 15, True),
        ("RU", 33, True),
        ("ZZ", 20, False),
        ("US", 20, False),
    ],
)
def test_a_country_of_the_registry_has_one_length(country, length, is_right):
    assert is_iban(with_check_digits(country, "1" * (length - 4))) is is_right


@given(st.text(max_size=40))
def test_any_text_gets_an_answer(text):
    assert is_iban(text) in (True, False)
