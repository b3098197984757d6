"""`tppkit audit redact`, `audit prune` and `audit hold`: what may be removed from an archive, with a receipt.

Exit: 0 done, 1 the archive is held, 2 wrong usage, 3 there is no such record in a sealed part, 5 the archive cannot be used.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import click

from tppkit.cli.output import Result, failure, json_option, present
from tppkit.errors import ArchiveError
from tppkit.evidence import retention

_EXIT = {"archive.held": 1, "record.unsealed": 3}
_archive = click.argument("archive", type=click.Path(path_type=Path), metavar="ARCHIVE")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without names
        return "unknown"


_by = click.option("--by", default=_user, metavar="NAME", help="Who does it, for the receipt; your login by default.")


def _operate(action: Callable[[], tuple[str, ...]], done: str) -> Result:
    try:
        changed = list(action())
    except ArchiveError as e:
        return failure(e, _EXIT.get(e.code, 5))
    return Result({"changed": changed}, [f"{done}: {name}" for name in changed] or ["nothing to do"])


@click.command()
@_archive
@click.argument("seqs", nargs=-1, required=True, type=click.IntRange(min=0), metavar="SEQ...")
@click.option("--ground", required=True, metavar="TEXT", help="Why, for the receipt.")
@click.option("--by", required=True, metavar="NAME", help="Who decided it, for the receipt.")
@json_option
def redact(archive: Path, seqs: tuple[int, ...], ground: str, by: str) -> Result:
    """Remove the bodies of the records SEQ of sealed parts of ARCHIVE. Their signed digests stay, and can give a guessed body away."""
    return _operate(
        lambda: retention.redact(archive, seqs, ground=ground, by=by, now=present(None)), "written without bodies"
    )


@click.command()
@_archive
@click.option(
    "--before", required=True, type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Of which everything is older."
)
@click.option("--ground", default="the time of retention is over", show_default=True, metavar="TEXT", help="Why.")
@_by
@json_option
def prune(archive: Path, before: datetime, ground: str, by: str) -> Result:
    """Remove the sealed parts of ARCHIVE in which every record was received before DATE (UTC), and answers of months before."""
    at, now = before.replace(tzinfo=UTC), present(None)
    return _operate(lambda: retention.prune(archive, before=at, ground=ground, by=by, now=now), "removed")


@click.command()
@_archive
@click.option("--ground", required=True, metavar="TEXT", help="Why; several holds are told apart by it.")
@click.option("--release", is_flag=True, help="End the hold with this ground.")
@_by
@json_option
def hold(archive: Path, ground: str, release: bool, by: str) -> Result:
    """Refuse to redact and prune ARCHIVE, until the hold is released."""
    change = retention.release if release else retention.hold

    def action() -> tuple[str, ...]:
        change(archive, ground=ground, by=by, now=present(None))
        return (str(archive),)

    return _operate(action, "released" if release else "held")
