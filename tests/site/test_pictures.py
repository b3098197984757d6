"""The pictures of the pages are made from what the source says now, and each is shown with a text in its place."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path

import pytest

import make_pictures
import terminals
from digests import digest
from programs import needed
from tppkit.protocol.psd2.payment import PAYMENT

DOCS = Path(__file__).parents[2] / "docs"
IMAGE = re.compile(r'!\[([^\]]*)\]\(([^)]+)\)|<img src="([^"]+)" alt="([^"]*)"')
MAX_BYTES = 150 * 1024
KEPT: dict[str, str] = tomllib.loads(make_pictures.HASHES.read_text("utf-8"))


@pytest.mark.parametrize("name", make_pictures.PAGES)
def test_a_picture_of_a_page_is_made_from_its_templates_and_texts(name):
    assert make_pictures.PAGES[name].source() == KEPT[name], "the page has changed: run make pictures, and look at it"


def test_another_template_gives_another_source(tmp_path, monkeypatch):
    one = make_pictures.PAGES["approval-phone.png"]
    (tmp_path / "sandbox").symlink_to(make_pictures.SOURCE / "sandbox")
    monkeypatch.setattr(make_pictures, "SOURCE", tmp_path)
    assert one.source() == KEPT["approval-phone.png"]
    for name in ("phone.html", "order.html", "page.html"):
        templates = tmp_path / name / "sandbox/templates"
        templates.mkdir(parents=True)
        for file in (make_pictures.ROOT / "src/tppkit/sandbox/templates").iterdir():
            (templates / file.name).write_text(file.read_text() + "\n" * (file.name == name))
        (templates.parent / "psd2").symlink_to(make_pictures.ROOT / "src/tppkit/sandbox/psd2")
        monkeypatch.setattr(make_pictures, "SOURCE", tmp_path / name)
        assert one.source() != KEPT["approval-phone.png"], name


def test_what_the_scenes_share_gives_another_source(tmp_path, monkeypatch):
    for number, path in enumerate(make_pictures.TOOLS):
        (tmp_path / path.name).write_text(path.read_text("utf-8") + "\n")
        tools = [*make_pictures.TOOLS]
        tools[number] = tmp_path / path.name
        with monkeypatch.context() as patch:
            patch.setattr(make_pictures, "TOOLS", tools)
            assert make_pictures.PAGES["result-page.png"].source() != KEPT["result-page.png"]


def test_neither_progress_nor_the_day_changes_a_terminal():
    printed = "\r4096 of about 8192 records, 900 a second, about 5 s left\x1b[K\r\x1b[Kall passed on 2026-11-30"
    assert terminals.masked(printed, today=None) == "all passed on 2026-11-30"
    assert terminals.masked(printed, today=date(2026, 11, 29)) == "all passed on 2026-06-02"


@pytest.mark.slow
@pytest.mark.parametrize("name", terminals.TERMINALS)
def test_a_picture_of_a_terminal_has_what_the_command_prints(name):
    needed("bash")
    text = terminals.shown(name)
    assert digest(text) == KEPT[name], f"run make pictures, and look at it: {text}"


def test_each_picture_is_small_has_a_source_and_a_page_that_shows_it_with_a_text():
    files = {*make_pictures.PICTURES.glob("*.*")} - {make_pictures.HASHES}
    assert {file.name for file in files} == {*KEPT} == {*make_pictures.PAGES, *terminals.TERMINALS}
    files |= {*(DOCS / "reference").glob("*.svg")}
    assert [file for file in files if file.stat().st_size > MAX_BYTES] == []
    shown = set()
    for page in [DOCS.parent / "README.md", *DOCS.rglob("*.md")]:
        for alt, address, other, its_alt in IMAGE.findall(page.read_text("utf-8")):
            assert alt or its_alt, page
            shown.add((page.parent / (address or other)).resolve())
    assert shown == files


def test_no_terminal_names_this_machine_or_loads_anything():
    for path in make_pictures.PICTURES.glob("*.svg"):
        text = path.read_text("utf-8")
        assert re.findall(r"/tmp|/home|@font-face|https?://(?!www\.w3\.org/|localhost:)", text) == [], path


def test_the_rooms_are_the_layers_of_imports():
    design = (DOCS / "explanation/design.md").read_text("utf-8")
    levels = re.findall(r'subgraph level(\d) \["\d"\]\n +direction TB\n(.*?)\n    end', design, re.DOTALL)
    drawn = [{name.strip() for name in names.split("\n")} for _, names in levels]
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one["name"] == "Imports point down")
    wanted = [{name.strip().removeprefix("tppkit.") for name in layer.split("|")} for layer in layers]
    assert [level for level, _ in levels] == list("6543210")
    assert drawn[:-1] == wanted[: len(drawn) - 1]
    ground = {name for layer in wanted[len(drawn) - 1 :] for name in layer if not name.startswith("_")}
    assert drawn[-1] == ground | {"message", 'private["modules whose name begins with _"]'}


def test_a_state_machine_is_drawn_from_its_table():
    page = (DOCS / "reference/psd2.md").read_text("utf-8")
    for (state, trigger), after in PAYMENT.moves.items():
        assert re.search(rf"^    {state} --> {after}: .*\b{trigger}\b", page, re.MULTILINE), (state, trigger)
