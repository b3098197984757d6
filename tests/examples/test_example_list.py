"""Each example stands alone: it is listed, has a README and its requirements, and a test that runs it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
ALONE = sorted(path.parent.name for path in EXAMPLES.glob("*/requirements.txt"))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_every_folder_and_file_is_listed():
    listed = (EXAMPLES / "README.md").read_text()
    names = [path.name for path in EXAMPLES.iterdir() if path.suffix == ".py" or (path / "README.md").exists()]
    assert len(names) > len(ALONE) > 3
    assert [name for name in names if f"`{name}`" not in listed] == []


@pytest.mark.parametrize("name", ALONE)
def test_an_example_has_what_its_reader_needs(name):
    text = (EXAMPLES / name / "README.md").read_text()
    for heading in ("## Install", "## Run", "## Before production"):
        assert heading in text
    assert "At the end, " in text.split("\n\n")[1]
    assert Path(__file__).with_name(f"test_{name.replace('-', '_')}_example.py").exists()
    requirements = (EXAMPLES / name / "requirements.txt").read_text()
    assert set(re.search(r"^tppkit\[(.*)\]$", requirements, re.MULTILINE)[1].split(",")) <= set(EXTRAS)


@pytest.mark.parametrize("page", sorted(EXAMPLES.glob("**/README.md")), ids=lambda page: page.parent.name)
def test_every_link_of_a_readme_leads_to_a_file(page):
    links = re.findall(r"\]\(([^)#]+)", page.read_text())
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []
