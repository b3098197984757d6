"""`tppkit doctor`: what will break, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click

from tppkit.cli.certificates import password_option, read_password
from tppkit.cli.doctor_row import Checkup, Present, Row, Status, within
from tppkit.cli.output import (
    UNREADABLE,
    Raw,
    Result,
    at_option,
    colored,
    json_option,
    present,
    require_one_stdin,
    table_lines,
)
from tppkit.trust import load_anchors, load_trusted_lists

_EXITS = {Status.OK: 0, Status.WARNING: 1, Status.CRITICAL: 2, Status.UNKNOWN: 3}
_WAIT_S = 4.0
_NOTHING = (
    "nothing to check: give FILES (certificates, chains and keys in PEM, DER or PKCS#12), --crl, --trust, --trusted-lists, --database,"
    " --archive or --bank"
)


class _WrongUsage(click.UsageError):
    exit_code = UNREADABLE


class _Plugin(click.Command):
    """A command whose wrong usage has the exit code of monitoring plugins for an unknown state."""

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        """See `click.Command`."""
        with _wrong_usage():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """See `click.Command`."""
        with _wrong_usage():
            return super().invoke(ctx)


@contextmanager
def _wrong_usage() -> Iterator[None]:
    try:
        yield
    except click.UsageError as e:
        raise _WrongUsage(e.format_message(), e.ctx) from e


@click.command(cls=_Plugin)
@click.argument("files", nargs=-1, metavar="[FILES]...")
@password_option
@click.option(
    "--crl",
    "crls",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A CRL that the application uses.",
)
@click.option(
    "--trust", type=click.Path(path_type=Path), metavar="FILE_OR_DIR",
    help="Authorities that the chains must lead to; for the server of --bank, besides those of the system.",
)  # fmt: skip
@click.option("--trusted-lists", type=click.Path(path_type=Path), metavar="DIR", help="Folder of trusted lists.")
@click.option(
    "--database", metavar="URL",
    help="SQLAlchemy address. With a password in it, set TPPKIT_DOCTOR_DATABASE instead: others can read arguments.",
)  # fmt: skip
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Archive of evidence, of which the end is checked.",
)
@click.option("--bank", metavar="URL", help="https://host[:port][/prefix]; the QWAC is sent if FILES have its key.")
@click.option(
    "--warn-days",
    type=click.IntRange(0, 3650),
    default=30,
    show_default=True,
    metavar="N",
    help="Warn N days before an end.",
)
@at_option
@json_option
def doctor(
    files: tuple[str, ...],
    password_file: Path | None,
    crls: tuple[Path, ...],
    trust: Path | None,
    trusted_lists: Path | None,
    database: str | None,
    archive: Path | None,
    bank: str | None,
    warn_days: int,
    at: datetime | None,
) -> Result:
    """Check what will break, and when: certificates, keys, CRLs, trusted lists, database, archive, and the connection to a bank.

    FILES: QWAC, QSealC, their authorities and private keys; - is standard input. Each result is one line, the worst first: its state,
    what was checked, and what to do. CRLs and lists warn when a tenth of their period is left, but not before --warn-days.

    \b
    As a line of /etc/cron.d, which mails what is printed if a state is not ok:
      15 6 * * * tpp out=$(/usr/local/bin/tppkit doctor /etc/tpp/qwac.p12 --password-file /etc/tpp/password) || echo "$out"
    \b
    As a systemd timer, whose service fails if a state is not ok:
      tppkit-doctor.service:
        [Service]
        Type=oneshot
        ExecStart=/usr/local/bin/tppkit doctor /etc/tpp/qwac.p12 --password-file /etc/tpp/password
      tppkit-doctor.timer:
        [Timer]
        OnCalendar=hourly
        [Install]
        WantedBy=timers.target
    """  # noqa: D301  # click's mark of lines that stay as they are
    if not any((files, crls, trust, trusted_lists, database, archive, bank)):
        raise click.UsageError(_NOTHING)
    require_one_stdin(*files)
    now, checkup = Present(present(at), timedelta(days=warn_days)), Checkup()
    _check_files(checkup, files, password_file, crls, trust, trusted_lists, bank, now)
    if database is not None:
        checkup.rows += _database_rows(database)
    if archive is not None:
        from tppkit.cli.doctor_archive import check_archive

        checkup.add("archive", lambda: check_archive(archive, present(None)))
    return _result(checkup.rows)


def _check_files(
    checkup: Checkup, files: tuple[str, ...], password_file: Path | None, crls: tuple[Path, ...], trust: Path | None,
    trusted_lists: Path | None, bank: str | None, now: Present,
) -> None:  # fmt: skip
    """Check what is on disk, and then the bank with it."""
    if not any((files, crls, trust, trusted_lists, bank)):
        return
    from tppkit.cli import doctor_certificates as checks

    password, own = checkup.attempt("file", lambda: read_password(password_file)), checks.Own()
    for name in files:
        own += checkup.attempt("file", partial(checks.read_own, name, password)) or checks.Own()
    anchors = None if trust is None else checkup.attempt("anchors", lambda: load_anchors(trust))
    lists = (
        None if trusted_lists is None else checkup.attempt("trusted-list", lambda: load_trusted_lists(trusted_lists))
    )
    trusted = (*anchors.roots, *anchors.intermediates) if anchors else ()
    if anchors is not None and trust is not None:
        checkup.add("anchors", lambda: checks.check_anchors(trust, anchors, now))
    if lists is not None and trusted_lists is not None:
        checkup.add("trusted-list", lambda: checks.check_lists(trusted_lists, lists, now))
    for held in own.certificates:
        checkup.add(held.kind, partial(checks.check_certificate_of, held, now))
    checkup.add("pair", lambda: checks.check_pairs(own))
    checkup.add("key", lambda: checks.check_keys(own))
    checkup.add("chain", lambda: checks.check_chains(own, now, anchors, lists))
    certificates = tuple(dict.fromkeys((*(one.certificate for one in own.certificates), *trusted)))
    for crl in crls:
        checkup.add("crl", partial(checks.check_crl, crl, now, certificates))
    if bank is not None:
        from tppkit.cli.doctor_bank import LIMIT_S, check_bank, client_of

        client = client_of(own, now.at, anchors.roots if anchors else ())
        checkup.rows += within("bank.connection", lambda: check_bank(bank, client, now), limit_s=LIMIT_S + 1)


def _database_rows(database: str) -> list[Row]:
    def check() -> list[Row]:
        from tppkit.sql.probe import require_writable  # needs SQLAlchemy

        return [Row("database", Status.OK, f"{require_writable(database, wait_s=_WAIT_S)} can be reached and written")]

    return within("database", check, limit_s=3 * _WAIT_S)


def _result(rows: Sequence[Row]) -> Result:
    rows = sorted(rows, key=lambda row: row.status.rank)
    worst = rows[0].status if rows else Status.UNKNOWN
    counted = Counter(row.status for row in rows)
    summary = ", ".join(f"{counted[status]} {status}" for status in Status if counted[status])
    value = {"status": worst, "checks": [row._asdict() for row in rows]}
    table = table_lines((row.status, row.name, row.message) for row in rows)
    lines = [Raw(f"{colored(worst, holds=worst is Status.OK)}: {summary}"), *table]
    return Result(value, lines, _EXITS[worst])
