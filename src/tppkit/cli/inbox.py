"""`tppkit inbox`: list, release, discard, purge and handle stored callbacks and webhooks."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import wraps
from importlib import import_module
from math import isnan
from pathlib import Path
from typing import Any, Self

import click
from click.exceptions import Exit

from tppkit._clock import format_time, utc_now
from tppkit._text import printable
from tppkit.cli.output import (
    DOES_NOT_HOLD,
    HOLDS,
    Result,
    echo,
    json_flag,
    json_option,
    print_json,
    say,
    say_error,
    table_lines,
)
from tppkit.errors import ConfigurationError
from tppkit.inbox import Failure, InboxError, Retention, Worked, Worker
from tppkit.inbox.settings import RETENTION

_PAGE = 1000
_TURN = 100  # entries of one source before the next source


def _database_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, as the parameters `store` and `source`; without a source, all sources of the store are meant."""

    @click.option(
        "--database", required=True, metavar="URL", help="SQLAlchemy address, for example sqlite:///tpp.sqlite."
    )
    @click.option(
        "--prefix", default="tppkit_inbox_", show_default=True, metavar="TEXT", help="Prefix of the table names."
    )
    @click.option("--source", metavar="NAME", help="Only entries of this source, for example callback:live.")
    @wraps(command)
    def with_store(*args: Any, database: str, prefix: str, **options: Any) -> Any:
        source = options["source"]
        if "handler" in options:  # a wrong name is reported before the wait for a database
            stop = _Stop.at_signals() if options.pop("forever") else None
            options |= {"function": _load(options.pop("handler")), "stop": stop}
        stop = options.get("stop")
        with _opened(database, prefix, stop) as store:
            if source is not None and stop is None and source not in (known := store.sources()):
                say(f"warning: no entry is of the source {source}; the sources are: {', '.join(known) or 'none'}")
            return command(*args, store=store, **options)

    return with_store  # fmt: skip


@click.group()
def inbox() -> None:
    """List, release, discard, purge and handle stored callbacks and webhooks."""


@inbox.command()
@_database_options
@json_option
def failed(store: Any, source: str | None) -> Result:
    """List the entries whose last attempt failed, oldest first. Exit 1 if there are any."""
    found = [failure for one in _sources(store, source) for failure in _failures(store, one)]
    rows = []
    for one in found:
        due = f"due {format_time(one.due_at)}" if one.due_at else "not due"
        attempts = f"{one.attempts} attempt{'s' if one.attempts != 1 else ''}"
        rows.append((one.entry.source, one.entry.key, one.entry.name, f"{attempts}, {one.reason}, {due}"))
    return Result([_object(one) for one in found], table_lines(rows), DOES_NOT_HOLD if found else HOLDS)


def _changing(name: str, what: str, summary: str) -> None:
    @inbox.command(
        name, help=f"{summary} Exit 1 if one is not failed.\n\nKEY: as `tppkit inbox failed` prints it, in full."
    )
    @click.argument("keys", nargs=-1, required=True, metavar="KEY...")
    @_database_options
    @json_option
    def change(keys: tuple[str, ...], store: Any, source: str | None) -> Result:
        done: list[str] = []
        for key in keys:
            found = [one for of in _sources(store, source) if (one := store.find_failed(of, key)) is not None]
            changed = [getattr(store, name)(one, at=utc_now()) for one in found]
            if changed and all(changed):
                done.append(key)
            else:
                say(f"error: no failed entry has the key {key}")
        others = [key for key in keys if key not in done]
        lines = table_lines((what, key) for key in done)
        return Result({what: done, "not_failed": others}, lines, DOES_NOT_HOLD if others else HOLDS)


_changing("release", "released", "Make failed entries due now.")
_changing("discard", "discarded", "Complete failed entries without handling them, and delete their content.")


def _days(name: str, default: timedelta | None, text: str) -> Callable[..., Any]:
    days = None if default is None else default.days
    kind = click.IntRange(1, 36_500)
    return click.option(f"--{name}", type=kind, default=days, show_default=True, metavar="DAYS", help=text)


@inbox.command()
@_days("done", RETENTION.done, "Retention of completed entries.")
@_days("versions", RETENTION.versions, "Retention of the last version of each record.")
@_days("failed", RETENTION.failed, "Retention of failed entries that are not due; without it, they are kept.")
@_database_options
@json_option
def purge(store: Any, source: str | None, **days: int | None) -> Result:
    """Delete entries and versions whose retention has ended.

    Give the times of the application's `Retention`: with shorter ones, a late repetition takes effect again.
    """
    retention = Retention(**{name: timedelta(days=count) for name, count in days.items() if count is not None})
    forgotten = sum(store.purge(one, at=utc_now(), retention=retention) for one in _sources(store, source))
    return Result({"forgotten": forgotten}, [f"{forgotten} row{'s' if forgotten != 1 else ''} deleted"])


@inbox.command()
@click.option("--handler", required=True, metavar="MODULE:FUNCTION", help="Called with each entry and the connection.")
@click.option(
    "--forever",
    is_flag=True,
    help="Wait for further entries, and for the database if it does not exist yet, until SIGTERM or Ctrl-C.",
)
@click.option(
    "--interval", "interval_s", type=click.FloatRange(0.01, 3600), default=1.0, show_default=True, metavar="SECONDS",
    help="Time to wait with --forever if no entry is due.",
)  # fmt: skip
@_database_options
@json_flag
def work(function: Any, stop: _Stop | None, interval_s: float, store: Any, source: str | None, as_json: bool) -> int:
    """Handle the due entries, oldest first, until none is left. Exit 1 if one fails.

    MODULE may be in the working directory. `Inbox.worker` makes FUNCTION from a callback handler, for its own source.

    With --forever, a signal ends the command after the current entry with exit 0, and a database error is reported and retried.
    --json then prints one object a line.
    """
    if isnan(interval_s):  # the range of the option lets it pass
        raise click.BadParameter("nan is not a number of seconds", param_hint="--interval")
    forever, stop, done = stop is not None, stop or _Stop(), list[dict[str, str]]()
    while not stop.asked:
        idle = True
        try:
            for name, one in _turn(store, source, function, stop):
                idle = False
                shown = {"source": name, "key": one.entry.key, "name": one.entry.name, "outcome": one.outcome.value}
                shown |= {"code": one.code} if one.code else {}
                if not as_json:
                    echo("  ".join(shown.values()))
                elif forever:
                    click.echo(json.dumps(shown))
                if not forever:
                    done.append(shown)
        except InboxError as e:
            if not forever:
                raise
            say_error(e)
        if idle and not forever:
            break
        if idle:
            stop.wait(interval_s)
    if as_json and not forever:
        print_json(done)
    return DOES_NOT_HOLD if any("code" in one for one in done) else HOLDS  # only failures have a code


class _Stop:
    """Whether a signal asked to stop; not an Event, because a signal may arrive while its lock is held."""

    asked = False

    @classmethod
    def at_signals(cls) -> Self:
        """Ask at SIGTERM and Ctrl-C."""
        stop = cls()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop.ask)
        return stop

    def ask(self, number: int, _: object) -> None:
        """Handle a signal; a second signal ends the process immediately."""
        self.asked = True
        signal.signal(number, signal.SIG_DFL)

    def wait(self, seconds: float) -> None:
        """Wait for a time, or until a signal arrives."""
        end = time.monotonic() + seconds
        while not self.asked and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))


def _turn(store: Any, source: str | None, function: Any, stop: _Stop) -> Iterator[tuple[str, Worked]]:
    """Handle some entries of each source, one at a time, so that a signal waits for one entry at most."""
    worker = function if isinstance(function, Worker) else None
    for name in _sources(store, source or (worker.source if worker else None)):
        of_source = _worker_of(worker, name) if worker else Worker(name, function)
        for _ in range(_TURN):
            worked = [] if stop.asked else store.work(of_source, at=utc_now(), limit=1)
            if not worked:
                break
            yield name, worked[0]


def _worker_of(worker: Worker, source: str) -> Worker:
    """Return the worker for a source; what its `count` raises is printed, and not logged with a traceback."""
    count = worker.count
    if count is None:
        return replace(worker, source=source)

    def counted(outcome: str, code: str, seconds: float) -> object:
        try:
            return count(outcome, code, seconds)
        except Exception as e:  # noqa: BLE001  # the application's code; the entry is complete
            say(f"error: count raised {type(e).__name__}")
            return None

    return replace(worker, source=source, count=counted)


@contextmanager
def _opened(database: str, prefix: str, stop: _Stop | None) -> Iterator[Any]:
    from tppkit.inbox.store import InboxStore  # needs SQLAlchemy

    kind, _, file = database.partition(":///")
    path = Path(file.partition("?")[0])
    if stop is not None and kind.startswith("sqlite") and not path.is_file():
        say(f"waiting for {file}, which the receiver makes")
        while not (stop.asked or path.is_file()):
            stop.wait(1.0)
        if stop.asked:
            raise Exit(HOLDS)
    # SQLite would create the file of a mistyped name.
    if kind.startswith("sqlite") and not path.is_file():
        raise ConfigurationError("inbox.sqlite", f"there is no file {file}: give the file of the receiver's inbox")
    store = InboxStore(database, prefix=prefix)
    try:
        yield store
    finally:
        store.close()


def _sources(store: Any, source: str | None) -> list[str]:
    return store.sources() if source is None else [source]


def _failures(store: Any, source: str) -> Iterator[Failure]:
    last = None
    while page := store.failed(source, limit=_PAGE, after=last):
        yield from page
        last = page[-1]


def _object(failure: Failure) -> dict[str, Any]:
    entry = failure.entry
    return {
        "source": entry.source, "key": entry.key, "name": entry.name, "received_at": format_time(entry.received_at),
        "attempts": failure.attempts, "reason": failure.reason,
        "due_at": format_time(failure.due_at) if failure.due_at else None,
    }  # fmt: skip


def _load(name: str) -> Any:
    module, _, function = name.partition(":")
    if not module or not function:
        raise click.BadParameter(f"{name} is not MODULE:FUNCTION", param_hint="--handler")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(import_module(module), function)
    except (Exception, SystemExit) as e:  # the module's own code may raise any class
        message = (
            f"{name} cannot be loaded: {type(e).__name__}: {printable(str(e))}; the current folder is {Path.cwd()}"
        )
        raise click.BadParameter(message, param_hint="--handler") from e
    if not callable(found) and not isinstance(found, Worker):
        raise click.BadParameter(
            f"{name} is not a function: its type is {type(found).__name__}", param_hint="--handler"
        )
    return found
