"""`tppkit inbox`: list, release, discard, purge and handle stored callbacks and webhooks."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from tppkit._clock import format_time, utc_now
from tppkit._text import printable
from tppkit.cli.output import DOES_NOT_HOLD, HOLDS, json_option, print_json, say, say_error
from tppkit.errors import ConfigurationError, InboxError
from tppkit.inbox import Failure, Outcome, Worked

_PAGE = 1000
_TURN = 100  # entries of one source before the next source


def _database_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        json_option,
        click.option("--source", metavar="NAME", help="Only entries of this source, for example callback:live."),
        click.option("--prefix", default="tppkit_inbox_", show_default=True, metavar="TEXT", help="Prefix of the table names."),
        click.option("--database", required=True, metavar="URL", help="SQLAlchemy address, for example sqlite:///tpp.sqlite."),
    ):  # fmt: skip
        command = option(command)
    return command


@click.group()
def inbox() -> None:
    """List, release, discard, purge and handle stored callbacks and webhooks."""


@inbox.command()
@_database_options
def failed(database: str, prefix: str, source: str | None, as_json: bool) -> int:
    """List the entries whose last attempt failed, oldest first. Exit 1 if there are any."""
    with _opened(database, prefix) as store:
        found = [failure for one in _sources(store, source) for failure in _failures(store, one)]
    if as_json:
        print_json([_object(failure) for failure in found])
    for failure in found if not as_json else ():
        entry, due = failure.entry, f"due {format_time(failure.due_at)}" if failure.due_at else "not due"
        attempts = f"{failure.attempts} attempt{'s' if failure.attempts != 1 else ''}"
        click.echo(printable(f"{entry.source}  {entry.key}  {entry.name}  {attempts}, {failure.reason}, {due}"))
    return DOES_NOT_HOLD if found else HOLDS


def _changing(name: str, what: str, summary: str) -> None:
    @inbox.command(
        name, help=f"{summary} Exit 1 if one is not failed.\n\nKEY: as `tppkit inbox failed` prints it, in full."
    )
    @click.argument("keys", nargs=-1, required=True, metavar="KEY...")
    @_database_options
    def change(keys: tuple[str, ...], database: str, prefix: str, source: str | None, as_json: bool) -> int:
        done: list[str] = []
        with _opened(database, prefix) as store:
            for key in keys:
                found = [
                    failure for one in _sources(store, source) if (failure := store.find_failed(one, key)) is not None
                ]
                changed = [getattr(store, name)(failure, at=utc_now()) for failure in found]
                if changed and all(changed):
                    done.append(key)
                else:
                    say(f"error: no failed entry has the key {printable(key)}")
        if as_json:
            print_json({what: done, "not_failed": [key for key in keys if key not in done]})
        for key in done if not as_json else ():
            click.echo(printable(f"{what}  {key}"))
        return HOLDS if len(done) == len(keys) else DOES_NOT_HOLD


_changing("release", "released", "Make failed entries due now.")
_changing("discard", "discarded", "Complete failed entries without handling them, and delete their content.")


@inbox.command()
@_database_options
def purge(database: str, prefix: str, source: str | None, as_json: bool) -> int:
    """Delete entries that were completed 7 days ago, and versions of 400 days ago."""
    with _opened(database, prefix) as store:
        forgotten = sum(store.purge(one, at=utc_now()) for one in _sources(store, source))
    print_json({"forgotten": forgotten}) if as_json else click.echo(f"{forgotten} rows forgotten")
    return HOLDS


@inbox.command()
@click.option("--handler", required=True, metavar="MODULE:FUNCTION", help="Called with each entry and the connection.")
@click.option("--forever", is_flag=True, help="Wait for further entries until SIGTERM or Ctrl-C.")
@click.option(
    "--interval", "interval_s", type=click.FloatRange(0.01, 3600), default=1.0, show_default=True, metavar="SECONDS",
    help="Time to wait with --forever if no entry is due.",
)  # fmt: skip
@_database_options
def work(
    handler: str, forever: bool, interval_s: float, database: str, prefix: str, source: str | None, as_json: bool
) -> int:
    """Handle the due entries, oldest first, until none is left. Exit 1 if one failed.

    MODULE may be in the working directory. `Inbox.worker` makes FUNCTION from a callback handler, for its own source.

    With --forever, a signal ends the command after the current entry with exit 0, and a database error is reported and retried.
    --json then prints one object a line.
    """
    function, stop, done = _load(handler), _Stop(), list[dict[str, str]]()
    for number in (signal.SIGINT, signal.SIGTERM) if forever else ():
        signal.signal(number, stop.ask)
    with _opened(database, prefix) as store:
        while not stop.asked:
            idle = True
            try:
                for name, one in _turn(store, source, function, stop):
                    idle = False
                    shown = {"source": name, "key": one.entry.key, "name": one.entry.name, "outcome": one.outcome.value}
                    shown |= {"code": one.code} if one.code else {}
                    if not as_json:
                        click.echo(printable("  ".join(shown.values())))
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
    return DOES_NOT_HOLD if any(one["outcome"] == Outcome.FAILED for one in done) else HOLDS


class _Stop:
    """Whether a signal asked to stop; not an Event, because a signal may arrive while its lock is held."""

    asked = False

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
    given = {name: getattr(function, name) for name in ("prepare", "lease", "retries") if hasattr(function, name)}
    count = getattr(function, "count", None)
    for name in _sources(store, source or getattr(function, "source", None)):
        for _ in range(_TURN):
            worked = [] if stop.asked else store.work(name, function, at=utc_now(), limit=1, **given)
            if not worked:
                break
            (one,) = worked
            try:
                if count is not None:
                    count(one.outcome.value, one.code)
            except Exception as e:  # noqa: BLE001  # the application's code; the entry is complete
                say(f"error: count raised {type(e).__name__}")
            yield name, one


@contextmanager
def _opened(database: str, prefix: str) -> Iterator[Any]:
    from tppkit.inbox.store import InboxStore  # needs SQLAlchemy

    kind, _, file = database.partition(":///")
    if (
        kind.startswith("sqlite") and not Path(file.partition("?")[0]).is_file()
    ):  # SQLite would create the file of a mistyped name
        raise ConfigurationError("inbox.sqlite", f"there is no file {file}")
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
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as e:
        raise click.BadParameter(f"{name} cannot be loaded: {e}", param_hint="--handler") from e
    if not callable(found):
        raise click.BadParameter(f"{name} is a {type(found).__name__}, not a function", param_hint="--handler")
    return found
