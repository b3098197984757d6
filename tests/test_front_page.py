"""The front page: its code runs, its figures are those that were measured or counted, and its tables are those of the pages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tppkit.callbacks.attacks import ATTACKS
from tppkit.seals import PROFILES
from tppkit.seals.diagnose.mistakes import MISTAKES
from tppkit.testpki.faults.catalogue import FAULTS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LINES = {line["name"]: line for line in json.loads((ROOT / "benchmarks/results.json").read_text())}
COUNTED = {"ATTACKS": ATTACKS, "FAULTS": FAULTS, "MISTAKES": MISTAKES, "PROFILES": PROFILES}


def text(page: str) -> str:
    return (DOCS / page).read_text("utf-8")


def rows(page: str, heading: str) -> list[list[str]]:
    """The rows of the table below a heading, without its head."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", text(page), re.DOTALL | re.MULTILINE)
    return [line[2:-2].split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]


def measured(name: str) -> list[str]:
    """The ways to state the figure of a line: as it is, as a factor and as our own rate."""
    line = LINES[name]
    figure = line["figure"]
    return [f"{line.get('a_second')} a second", f"{1 / figure:.1f} times", f"{figure} bytes"]


@pytest.mark.parametrize(("figure", "what", "source"), rows("index.md", "Figures"))
def test_each_figure_is_what_its_source_says_and_names_a_goal_that_is_not_met(figure, what, source):
    name = source.strip("`")
    assert figure in ([str(len(COUNTED[name]))] if name in COUNTED else measured(name))
    notes = {"ok": [], "edge": ["; goal undecided"], "MISS": ["; goal missed"]}
    assert re.findall(r"; goal \w+$", what) == ([] if name in COUNTED else notes[LINES[name]["ok/MISS"]])


def test_the_page_has_at_most_900_words():
    assert len(text("index.md").partition("```{toctree}")[0].split()) <= 900


def test_the_comparison_names_the_tools_that_the_whole_table_names():
    for capability, *named in rows("index.md", "Compared with other tools"):
        assert named == [tools(capability, language) for language in ("Python", "Java")], capability


def tools(capability: str, language: str) -> str:
    """The other tools that have a capability, or a part of it."""
    (section,) = re.findall(
        rf"^## {language}\n(.*?)(?=^## )", text("explanation/compared.md"), re.DOTALL | re.MULTILINE
    )
    head = next(line for line in section.splitlines() if line.startswith("| |"))[4:-2].split(" | ")
    (cells,) = [row[1:] for row in rows("explanation/compared.md", language) if row[0] == capability]
    named = [f"{tool}{' (part)' * ('[part]' in cell)}" for tool, cell in zip(head, cells, strict=True)
             if tool != "tppkit" and re.match(r"\[(yes|part)\]", cell)]  # fmt: skip
    return ", ".join(named) or "–"


def test_each_cell_about_another_tool_has_a_source_of_one_commit():
    page = text("explanation/compared.md")
    sources = dict(re.findall(r"^\[([\w-]+)\]: (\S+)$", page, re.MULTILINE))
    assert {*re.findall(r"\]\[([\w-]+)\]", page)} == sources.keys()
    assert [address for address in sources.values() if not re.search(r"/blob/[0-9a-f]{40}/", address)] == []
    assert "yes |" not in page.partition("## Python")[2]


def test_each_row_of_what_was_tried_names_tests_that_exist():
    for heading in ("Against the real thing", "Against the standard or a document only"):
        for row in rows("explanation/tried-with.md", heading):
            named = re.findall(r"`(tests/[\w/]+\.py)`", row[-1])
            assert named, row
            assert [name for name in named if not (ROOT / name).is_file()] == []


@pytest.mark.slow
@pytest.mark.parametrize("label", ["Threads", "asyncio"])
def test_the_payment_of_the_page_is_made(label, capsys):
    (code,) = re.findall(rf"^\*\*{label}\*\*\n\n```python\n(.*?)^```$", text("index.md"), re.DOTALL | re.MULTILINE)
    exec(compile(code, label, "exec", dont_inherit=True), {"__name__": "page"})
    assert capsys.readouterr().out == "ACSC\n"
