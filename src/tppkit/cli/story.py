"""A story on the terminal: steps that are as expected or not, in colour where there is a terminal."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from tppkit._text import printable
from tppkit.errors import TppkitError

if TYPE_CHECKING:
    from rich.console import Console


class Surprise(Exception):
    """Something came out otherwise than the story says."""


class StoryOver(Exception):
    """A step went wrong, so the steps after it have nothing to stand on."""


class Story:
    """Numbered steps.

    Args:
        on_stderr: leave stdout free for a result.
        width: columns to fill.

    Attributes:
        steps: the steps so far, as JSON has them.
    """

    def __init__(self, *, on_stderr: bool = False, width: int = 100) -> None:
        self.steps: list[dict[str, Any]] = []
        self._on_stderr = on_stderr
        self._width = width
        self._console = None if on_stderr else _console()

    @property
    def surprises(self) -> int:
        """How many steps were not as expected."""
        return sum(not step["as_expected"] for step in self.steps)

    @contextmanager
    def step(self, title: str) -> Iterator[list[str]]:
        """One step; the body appends lines to tell, and raises `Surprise` (or any error of ours) when it goes wrong.

        Raises:
            StoryOver: after the failure was told.
        """
        told: list[str] = []
        try:
            yield told
        except (Surprise, TppkitError) as e:
            self._tell(title, [*told, f"unexpected: {e}"], good=False)
            raise StoryOver from e
        self._tell(title, told, good=True)

    def say(self, text: str, *, style: str | None = None) -> None:
        """A line between the steps."""
        if self._console is not None:
            self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
        else:
            click.echo(text, err=self._on_stderr)

    def _tell(self, title: str, lines: list[str], *, good: bool) -> None:
        self.steps.append({"title": title, "as_expected": good, "lines": lines})
        self._head(title, good)
        for line in lines:
            self._line(line)

    def _head(self, title: str, good: bool) -> None:
        mark, style = ("ok", "bold green") if good else ("!!", "bold red")
        if self._console is None:
            self.say(f"{len(self.steps):>2} {mark}  {title}")
            return
        from rich.text import Text

        self._console.print(Text.assemble((f"{len(self.steps):>2} ", "dim"), (mark, style), "  ", (title, "bold")))

    def _line(self, line: str) -> None:
        for part in textwrap.wrap(printable(line), self._width - 7, break_on_hyphens=False, break_long_words=False) or [
            ""
        ]:
            self.say(f"       {part}", style="bright_black" if self._console is not None else None)


def _console() -> Console | None:
    if not sys.stdout.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console()


def expect(condition: bool, told: str) -> None:
    """Raise `Surprise` with what was told instead, unless the condition holds."""
    if not condition:
        raise Surprise(told)
