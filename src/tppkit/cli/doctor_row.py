"""One line of `tppkit doctor`: what was checked, its state, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from threading import Thread
from typing import NamedTuple, TypeVar

from tppkit._clock import format_time
from tppkit.cli.output import UnreadableFile, as_tppkit_error, counted
from tppkit.errors import TransportError, VerificationError

_T = TypeVar("_T")


class Status(StrEnum):
    """The states of monitoring plugins, the worst first."""

    CRITICAL = "critical"
    UNKNOWN = "unknown"
    WARNING = "warning"
    OK = "ok"


CRITICAL, UNKNOWN, WARNING, OK = Status


class Row(NamedTuple):
    """One result.

    Attributes:
        name: what was checked; the same for every object of a kind, so that a monitoring system can select it.
        status: the state.
        message: one sentence with the object, the values, and what to do unless the state is ok.
        days_left: whole days until something ends, negative after the end; None if nothing ends.
    """

    name: str
    status: Status
    message: str
    days_left: int | None = None


class Present(NamedTuple):
    """The time to judge at.

    Attributes:
        at: aware UTC.
        warn: how long before an end a warning begins.
    """

    at: datetime
    warn: timedelta

    def row(self, name: str, what: str, end: datetime, *, todo: str, begin: datetime | None = None) -> Row:
        """Return the row of something that ends.

        Args:
            name: of the row.
            what: the object, the subject of the sentence.
            end: aware UTC.
            todo: what to do before or after the end.
            begin: of what is issued again and again, which is late only when a tenth of its period is left.
        """
        left, day = end - self.at, format_time(end)[:10]
        warn = self.warn if begin is None else min(self.warn, (end - begin) / 10)
        if left < timedelta(0):
            return Row(name, CRITICAL, f"{what} ended on {day}: {todo}", left.days)
        message = f"{what} ends on {day}, in {counted(left.days, 'day')}"
        if left <= warn:
            return Row(name, WARNING, f"{message}: {todo}", left.days)
        return Row(name, OK, message, left.days)


class Checkup:
    """The rows of all checks. An error that ends one check is a row too, so that every other check still runs.

    Example:
        checkup = Checkup()
        anchors = checkup.attempt("anchors", lambda: load_anchors("root.pem"))
    """

    def __init__(self) -> None:
        self.rows = list[Row]()

    def attempt(self, name: str, read: Callable[[], _T]) -> _T | None:
        """Return what a function returns; None after an error, which is critical if a verification or a connection failed.

        After other errors, the state is unknown.
        """
        try:
            return read()
        except Exception as e:  # noqa: BLE001  # of any class: one check must not hide the others
            error = as_tppkit_error(e)
            file = f"{error.file}: " if isinstance(error, UnreadableFile) else ""
            status = CRITICAL if isinstance(error, VerificationError | TransportError) else UNKNOWN
            hint = f": {error.hint}" if error.hint else ""
            self.rows.append(Row(name, status, f"{file}{error.message} [{error.code}]{hint}"))
            return None

    def add(self, name: str, check: Callable[[], Iterable[Row]]) -> None:
        """Add the rows of a check, also those before an error."""

        def run() -> None:
            for row in check():
                self.rows.append(row)

        self.attempt(name, run)

    def add_within(self, limit_s: float, name: str, check: Callable[[], Iterable[Row]]) -> None:
        """Add the rows of a check that uses the network, or that it took too long: no other limit covers the resolution of names."""
        checkup = Checkup()
        thread = Thread(target=checkup.add, args=(name, check), daemon=True)
        thread.start()
        thread.join(limit_s)
        self.rows += checkup.rows
        if thread.is_alive():
            message = f"no result within {limit_s:g} seconds: check address, resolver and firewall"
            self.rows.append(Row(name, CRITICAL, message))
