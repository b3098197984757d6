"""The table of what the documents leave open."""

from __future__ import annotations

import re
from pathlib import Path

import tppkit
from tppkit.protocol.assumptions import ASSUMPTIONS

SOURCE = Path(tppkit.__file__).parent
IDS = {row.id for row in ASSUMPTIONS}
# "assumption key-id", "assumption `key-id`", "(assumptions signature-status, certificate-codes, …)"; "assumption row" names none.
NAMED = re.compile(r"[Aa]ssumptions?[ \n#]+((?:`?[a-z]+(?:-[a-z]+)*`?)(?:,[ \n#]+(?:and )?`?[a-z]+(?:-[a-z]+)+`?)*)")


def named_in(text: str) -> set[str]:
    return {name.strip("` \n#") for names in NAMED.findall(text) for name in names.split(",")} - {"row", "rows"}


def test_the_search_finds_every_way_of_naming_a_row():
    text = "# (assumption a-b).\n# Assumptions c-d, e-f\n'''assumption `g`'''  # each an assumption row; assumptions\n# h-i, j-k)"
    assert named_in(text) == {"a-b", "c-d", "e-f", "g", "h-i", "j-k"}


def test_every_row_that_the_source_names_exists():
    named = {file.name: named_in(file.read_text(encoding="utf-8")) for file in SOURCE.rglob("*.py")}
    assert set().union(*named.values())
    assert {name: ids - IDS for name, ids in named.items() if ids - IDS} == {}


def test_every_row_is_complete():
    for row in ASSUMPTIONS:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", row.id), row.id
        assert row.interface in {"psd2", "legacy", "gateway", "dialects"}, row.id
        assert all((row.open, row.choice, row.why, row.change)), row.id
