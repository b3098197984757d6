"""Facts as text."""

from __future__ import annotations

from tppkit.cli.output import fact_lines


class Counted:
    def __init__(self) -> None:
        self.shown = 0

    def __str__(self) -> str:
        self.shown += 1
        return "item"


def test_of_many_items_only_some_are_formatted():
    item = Counted()
    *_, last = fact_lines([("items", [item] * 10_000)])
    assert last.strip() == "and 9990 more (--json shows all)"
    assert item.shown < 1000
