"""How far an audit is, on a terminal: records, their rate, and the time that is left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import click

from tppkit.errors import ArchiveError
from tppkit.evidence.segments import Progress, list_segments

_EVERY_S = 1.0


@contextmanager
def shown_progress(
    archives: Iterable[Path], *, clock: Callable[[], float] = time.perf_counter
) -> Iterator[Progress | None]:
    """Show how far the audit of archives is, from the first second on, if stderr is a terminal.

    Args:
        archives: the archives.
        clock: seconds.
    """
    if not sys.stderr.isatty():
        yield None
        return
    expected = 0
    for archive in archives:
        with suppress(ArchiveError):  # the audit reports it
            expected += sum(segment.estimate() for segment in list_segments(archive))
    begin, done, due = clock(), 0, clock() + _EVERY_S

    def show(records: int) -> None:
        nonlocal done, due
        done += records
        if clock() >= due:
            due = clock() + _EVERY_S
            rate = done / (clock() - begin)
            left = timedelta(seconds=round(max(expected - done, 0) / rate))
            click.echo(
                f"\r{done} of about {max(expected, done)} records, {rate:.0f} a second, about {left} left\x1b[K",
                nl=False,
                err=True,
            )

    yield show
    click.echo("\r\x1b[K", nl=False, err=True)
