"""Numbered steps of a demonstration, printed as they end."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import httpx

from tppkit._text import printable
from tppkit.errors import TppkitError

_WIDTH, _INDENT = 100, " " * 7


class UnexpectedResult(Exception):
    """A step had another result than expected."""


class DemoStopped(Exception):
    """A step failed, and the later steps depend on it."""


class Steps:
    """Steps with their results.

    Args:
        on_stderr: Print to stderr, so that stdout holds only JSON.

    Attributes:
        done: The steps so far, as JSON objects.

    Example:
        with steps.step("Read the certificate") as lines:
            lines.append(str(certificate.subject))
    """

    def __init__(self, *, on_stderr: bool = False) -> None:
        self.done: list[dict[str, Any]] = []
        self._on_stderr = on_stderr

    @property
    def as_expected(self) -> bool:
        """Whether no step had an unexpected result; such a step is the last one."""
        return all(step["as_expected"] for step in self.done)

    @contextmanager
    def step(self, title: str) -> Iterator[list[str]]:
        """Run one step; its body appends the lines to print.

        Raises:
            DemoStopped: The body raised `UnexpectedResult`, or a call failed.
        """
        lines: list[str] = []
        try:
            yield lines
        except (UnexpectedResult, TppkitError, httpx.HTTPError) as e:
            self._add(title, [*lines, f"unexpected: {e}"], as_expected=False)
            raise DemoStopped from e
        self._add(title, lines, as_expected=True)

    def print(self, text: str = "", **style: Any) -> None:
        """Print a line between the steps; `style` as for `click.style`."""
        click.secho(text, err=self._on_stderr, **style)

    def _add(self, title: str, lines: list[str], *, as_expected: bool) -> None:
        self.done.append({"title": title, "as_expected": as_expected, "lines": lines})
        state = click.style("ok", fg="green", bold=True) if as_expected else click.style("!!", fg="red", bold=True)
        self.print(f"{len(self.done):>2} {state}  {click.style(title, bold=True)}")
        for line in lines:
            self.print(
                textwrap.fill(
                    printable(line), _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT,
                    break_on_hyphens=False, break_long_words=False,
                ), dim=True,
            )  # fmt: skip


def expect(condition: bool, otherwise: str) -> None:
    """Raise `UnexpectedResult` with a text unless a condition holds."""
    if not condition:
        raise UnexpectedResult(otherwise)
