"""Rules of the earlier interface."""

from __future__ import annotations

import pytest

from tppkit.protocol.legacy.rules import is_token


@pytest.mark.parametrize("length", [19, 20, 40, 41])
def test_tokens_have_20_to_40_characters(length):
    assert is_token("a" * length) == (20 <= length <= 40)


@pytest.mark.parametrize("other", ["-", "_", " ", "/", "é", "\u0661", "\n"])
def test_tokens_have_ascii_letters_and_digits_only(other):
    assert is_token("0aZ" * 7)
    assert not is_token("0aZ" * 7 + other)
