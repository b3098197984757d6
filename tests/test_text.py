"""Safe display of untrusted text."""

from __future__ import annotations

import pytest

from tppkit._text import hidden_character


@pytest.mark.parametrize(
    "hidden", ["\n", "\u202e", "\u200b", "\u3164", "\ufe0f", "\u2800", "\ufffc", "\U00016fe4", "\U0001d159", "\udcff"]
)
def test_an_invisible_character_is_found(hidden):
    assert hidden_character(f"ž a{hidden}b") == hidden


def test_visible_text_has_no_hidden_character():
    assert hidden_character("ž A-1 e\u0301 €") is None
