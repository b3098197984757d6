"""What docs/explanation/security-model.md says about tests and commands is so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from tppkit.cli.main import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/explanation/security-model.md").read_text("utf-8")
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| (?!who |---)", line)]
TEST = re.compile(r"`(test_\w+\.py)::(\w+)`")


def test_each_row_names_a_test_and_each_test_exists():
    assert len(ROWS) > 40
    assert [row for row in ROWS if not TEST.search(row.split(" | ")[2])] == []
    files = {file.name: file.read_text("utf-8") for file in (ROOT / "tests").rglob("test_*.py")}
    assert [(file, name) for file, name in TEST.findall(PAGE) if f"def {name}(" not in files[file]] == []


def test_no_option_takes_a_password_or_a_token():
    secret = re.compile(r"password|token|secret|pin$")
    options = [name for command in commands(main) for one in command.params for name in one.opts]
    assert len(options) > 100
    assert {name for name in options if secret.search(name)} == {"--password-file"}


def commands(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if below := command.get_command(context, name):
                yield from commands(below)
