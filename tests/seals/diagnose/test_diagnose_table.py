"""The table of mistakes."""

from __future__ import annotations

import re
from pathlib import Path

from tppkit.seals.diagnose import ALL_MISTAKES


def test_every_name_stands_once() -> None:
    names = [row.name for row in ALL_MISTAKES]
    assert sorted(names) == sorted(set(names))


def test_every_row_says_what_was_done_and_what_to_do() -> None:
    assert [row.name for row in ALL_MISTAKES if not row.cause.endswith(".")] == []
    assert [row.name for row in ALL_MISTAKES if not row.mend.endswith(".")] == []


def test_names_are_lower_case_words() -> None:
    assert [row.name for row in ALL_MISTAKES if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row.name)] == []


def test_some_test_makes_each_mistake() -> None:
    texts = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("*.py"))
    assert [row.name for row in ALL_MISTAKES if f'"{row.name}"' not in texts] == []
