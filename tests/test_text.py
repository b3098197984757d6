"""Foreign text made safe to show."""

from __future__ import annotations

import pytest

from tppkit._text import hidden_character


@pytest.mark.parametrize(
    "hidden", ["\n", "\u202e", "\u200b", "\u3164", "\ufe0f", "\u2800", "\ufffc", "\U00016fe4", "\U0001d159", "\udcff"]
)
def test_the_character_that_cannot_be_seen_is_told(hidden):
    assert hidden_character(f"ž a{hidden}b") == hidden


def test_what_is_seen_hides_nothing():
    assert hidden_character("ž A-1 e\u0301 €") is None
