"""Cards of a test, and the check that no file, log or answer contains one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TypeVar

import pytest

from reported import reported
from tppkit.protocol.gateway import CardSecret
from tppkit.protocol.gateway.card_data import is_luhn_number
from tppkit.sandbox.gateway.outcomes import TEST_CARDS
from tppkit.testing import assert_no_pan

T = TypeVar("T")
_NUMBERS = count(7_390_161)
_NO_CODES = {number[-4:] for number in TEST_CARDS} | {"0600", "0644", "0700"}  # endings of cards, and modes of files


class Cards:
    """Makes numbers and codes that occur nowhere by chance, and remembers them."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.secrets: list[str] = []
        self.answers: list[object] = []
        self.folders: list[Path] = []
        self._caplog = caplog

    def pan(self, number: str | None = None) -> str:
        """A card number: the one given, for example of a test card, or a new Visa number that no table lists.

        The last four digits of a new number are no code: answers show them.
        """
        if number is None:
            begun = next(one for n in _NUMBERS if (one := f"49291{n * 137:010d}")[-3] != "0")
            number = next(one for digit in range(10) if is_luhn_number(CardSecret(one := f"{begun}{digit}")))
        return self._remember(number)

    def cvc(self) -> str:
        """A code of four digits that begins with 0, as no amount, length or port does, and is not shown for another reason."""
        return self._remember(next(one for n in _NUMBERS if (one := f"0{n % 900 + 100}") not in _NO_CODES))

    def keep(self, answer: T) -> T:
        """Remember an answer: text, bytes, JSON, a model, an exception or an httpx.Response."""
        self.answers.append(answer)
        return answer

    def watch(self, folder: Path) -> Path:
        """Remember a folder that the test's processes write to."""
        self.folders.append(folder)
        return folder

    def firewall(self, *places: object) -> None:
        """Search the places, and the logs, answers and folders up to now."""
        __tracebackhide__ = True
        if self.secrets:
            logged = [record for when in ("setup", "call", "teardown") for record in self._caplog.get_records(when)]
            shown = [[*reported(record.exc_info[1])] for record in logged if record.exc_info]
            assert_no_pan(*places, logged, shown, self.answers, *self.folders, cards=self.secrets)

    def forget(self) -> None:
        """Drop logs and answers that were searched."""
        self.answers.clear()
        self._caplog.clear()

    def _remember(self, secret: str) -> str:
        if secret not in self.secrets:
            self.secrets.append(secret)
        return secret


@contextmanager
def logged_at_debug() -> Iterator[None]:
    """Every logger passes everything on to the root's handlers, where pytest listens."""
    named = [one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)]
    before = [(one, one.level, one.propagate, one.disabled) for one in (logging.root, *named)]
    for one, *_ in before:
        one.setLevel(logging.DEBUG if one is logging.root else logging.NOTSET)
        one.propagate, one.disabled = True, False
    try:
        yield
    finally:
        for one, level, one.propagate, one.disabled in before:
            one.setLevel(level)
