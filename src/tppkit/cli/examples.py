"""The end of every `--help`: examples and exit codes, the rows of `examples.toml`."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

import click

_ROWS: dict[str, Any] = tomllib.loads(files("tppkit.cli").joinpath("examples.toml").read_text("utf-8"))
_EXITS: dict[str, str] = _ROWS.pop("exits")


def epilog(path: str) -> str:
    """Return the end of a command's help, in click's markup; `path` is the command without `tppkit`, empty for the root."""
    row = _ROWS.get(path) or {"examples": _first_of_each(path), "exit": "groups"}
    lines = "".join(f"\n  {example}" for example in row["examples"])
    codes = row["exit"] if row["exit"].startswith("0 ") else _EXITS[row["exit"]]
    return f"\b\nExamples:{lines}\n\nExit: {codes}"


def _first_of_each(group: str) -> tuple[str, ...]:
    depth = len(group.split())
    first: dict[str, str] = {}
    for path, row in _ROWS.items():
        names = path.split()
        if names[:depth] == group.split():
            first.setdefault(names[depth], row["examples"][0])
    return tuple(first.values())


def add_epilogs(command: click.Command, path: str) -> click.Command:
    """Add the end of the help, and the environment variable of each option, to a command and its subcommands."""
    command.epilog = epilog(path)
    for parameter in command.params:
        if (
            isinstance(parameter, click.Option) and parameter.name != "as_json"
        ):  # failures look for --json in the arguments
            name = max(parameter.opts, key=len).removeprefix("--")
            parameter.envvar = f"TPPKIT_{path}_{name}".upper().replace(" ", "_").replace("-", "_")
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            add_epilogs(below, f"{path} {name}")
    return command
