"""`tppkit doctor`: what will break, and when."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import click

from tppkit.cli.doctor_row import CRITICAL, OK, UNKNOWN, WARNING, Checkup, Present, Row, Status
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

_EXITS = {OK: 0, WARNING: 1, CRITICAL: 2, UNKNOWN: 3}
_WAIT_S = 4.0
_OBJECTS = ("files", "crls", "trust", "trusted_lists", "database", "archive", "bank")
_NOTHING = (
    "nothing to check: give FILES (certificates, chains and keys in PEM, DER or PKCS#12), --crl, --trust, --trusted-lists, --database,"
    " --archive or --bank"
)
_path = click.Path(path_type=Path)


class _WrongUsage(click.UsageError):
    exit_code = UNREADABLE


class _Plugin(click.Command):
    """A command whose wrong usage has the exit code of monitoring plugins for an unknown state."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See `click.Command`."""
        try:
            left = super().parse_args(ctx, args)
            if not any(ctx.params[name] for name in _OBJECTS):
                raise click.UsageError(_NOTHING)
            require_one_stdin(*ctx.params["files"])
            return left
        except click.UsageError as e:
            raise _WrongUsage(e.format_message(), e.ctx or ctx) from e


@click.command(cls=_Plugin)
@click.argument("files", nargs=-1, metavar="[FILES]...")
@click.option("--password-file", type=_path, help="A file whose first line is the password of the PKCS#12 file or key.")
@click.option("--crl", "crls", multiple=True, type=_path, metavar="FILE", help="A CRL that the application uses.")
@click.option(
    "--trust", type=_path, metavar="FILE_OR_DIR",
    help="Authorities that the chains must lead to; for the server of --bank, besides those of the system.",
)  # fmt: skip
@click.option("--trusted-lists", type=_path, metavar="DIR", help="Folder of trusted lists.")
@click.option(
    "--database", metavar="URL",
    help="SQLAlchemy address. With a password in it, set TPPKIT_DOCTOR_DATABASE instead: others can read arguments.",
)  # fmt: skip
@click.option("--archive", type=_path, metavar="DIR", help="Archive of evidence, of which the end is checked.")
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
    now, checkup = Present(present(at), timedelta(days=warn_days)), Checkup()
    if files or crls or trust or trusted_lists or bank:
        _check_certificates(checkup, files, password_file, crls, trust, trusted_lists, bank, now)
    if database is not None:
        checkup.add_within(3 * _WAIT_S, "database", lambda: [_database_row(database)])
    if archive is not None:
        from tppkit.cli.doctor_archive import check_archive

        checkup.add("archive", lambda: check_archive(archive, present(None)))
    return _result(sorted(dict.fromkeys(checkup.rows), key=lambda row: [*Status].index(row.status)))


def _check_certificates(
    checkup: Checkup, files: tuple[str, ...], password_file: Path | None, crls: tuple[Path, ...], trust: Path | None,
    trusted_lists: Path | None, bank: str | None, now: Present,
) -> None:  # fmt: skip
    """Check what is in files, and then the bank with it."""
    from tppkit.cli import doctor_certificates as checks
    from tppkit.cli.certificates import read_password
    from tppkit.trust import load_anchors, load_trusted_lists

    own = checks.Own()
    password = checkup.attempt("file", lambda: read_password(password_file and checks.regular(password_file)))
    for name in files:
        checkup.attempt("file", partial(own.read, name, password))
    anchors = None if trust is None else checkup.attempt("anchors", lambda: load_anchors(checks.regular(trust)))
    if trust is not None and anchors is not None:
        checkup.add("anchors", partial(checks.check_anchors, trust, anchors, now))
    lists = (
        None if trusted_lists is None else checkup.attempt("trusted-list", partial(load_trusted_lists, trusted_lists))
    )
    if trusted_lists is not None and lists is not None:
        checkup.add("trusted-list", partial(checks.check_lists, trusted_lists, lists, now))
    for held in own.certificates.values():
        checkup.add(held.kind, partial(checks.check_certificate_of, held, now))
    checkup.add("pair", lambda: checks.check_pairs(own))
    checkup.add("key", lambda: checks.check_keys(own))
    checkup.add("chain", lambda: checks.check_chains(own, now, anchors, lists))
    trusted = (*anchors.roots, *anchors.intermediates) if anchors else ()
    certificates = tuple(dict.fromkeys((*(one.certificate for one in own.certificates.values()), *trusted)))
    for crl in crls:
        checkup.add("crl", partial(checks.check_crl, crl, now, certificates))
    if bank is not None:
        from tppkit.cli.doctor_bank import LIMIT_S, check_bank, client_of

        client = client_of(own, now.at, anchors.roots if anchors else ())
        checkup.add_within(LIMIT_S + 1, "bank.connection", lambda: check_bank(bank, client, now))


def _database_row(database: str) -> Row:
    from tppkit.sql.probe import require_writable  # needs SQLAlchemy

    return Row("database", OK, f"{require_writable(database, wait_s=_WAIT_S)} can be reached and written")


def _result(rows: list[Row]) -> Result:
    """Return the result of rows, the worst first."""
    worst = rows[0].status if rows else UNKNOWN
    numbers = Counter(row.status for row in rows)
    summary = ", ".join(f"{number} {status}" for status, number in numbers.items())
    value = {"status": worst, "checks": [row._asdict() for row in rows]}
    table = table_lines((row.status, row.name, row.message) for row in rows)
    return Result(value, [Raw(f"{colored(worst, holds=worst is OK)}: {summary}"), *table], _EXITS[worst])
