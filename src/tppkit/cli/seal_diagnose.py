"""`tppkit seal diagnose`: why a sealed request does not verify, and what would."""

from __future__ import annotations

from datetime import datetime
from itertools import zip_longest

import click

from tppkit._text import printable
from tppkit.certificates import EidasCertificate
from tppkit.cli.output import DOES_NOT_HOLD, HOLDS, at_option, json_option, print_facts, print_json
from tppkit.cli.seal_options import CERTIFICATE, ORIGIN, PROFILE, PROFILE_HELP
from tppkit.cli.sealed_request import entry_option, files_option, read_sealed_request
from tppkit.cli.verdict import colored
from tppkit.httpsig.components import Origin
from tppkit.seals import PSD2_V1, SealProfile
from tppkit.seals.diagnose import Cause, Diagnosis, Outcome, diagnose_request, visible

_WIDTH = 110


@click.command()
@click.argument("request_file", metavar="REQUEST")
@click.option(
    "--cert", "certificates", multiple=True, type=CERTIFICATE,
    help="A certificate whose key may have signed it, besides the one that the request carries: an old one, a new one.",
)  # fmt: skip
@click.option(
    "--qwac",
    type=CERTIFICATE,
    help="The website certificate: its organisation must be the seal's; its key is often taken by mistake.",
)
@click.option(
    "--origin", type=ORIGIN, help="Where the request was sent, for a dialect that covers scheme or authority."
)
@click.option("--profile", "profile", type=PROFILE, help=f"{PROFILE_HELP} psd2-v1 by default.")
@entry_option
@files_option
@click.option(
    "--show-values", is_flag=True, help="Show tokens, keys, card numbers and a signed body, which are masked otherwise."
)
@at_option
@json_option
def diagnose(
    request_file: str, certificates: tuple[EidasCertificate, ...], qwac: EidasCertificate | None, origin: Origin | None,
    profile: SealProfile | None, entry: int | None, allow_files: bool, show_values: bool, at: datetime | None, as_json: bool,
) -> int:  # fmt: skip
    """Explain why a sealed request does not verify, with proof, and what to do instead.

    REQUEST is a raw HTTP/1.1 request, a HAR file, a curl command line or an evidence archive; - is standard input. Trust in
    the certificate is not judged, and the request's age only with --at.
    """
    given = read_sealed_request(
        request_file, entry=entry, allow_files=allow_files, certificates=certificates, as_found=True
    )
    row = profile or given.profile or PSD2_V1
    known = (*given.certificates, *certificates)
    diagnosis = diagnose_request(
        given.message, certificates=known, profile=row, at=at, qwac=qwac, origin=origin, show_values=show_values
    )
    if as_json:
        print_json(diagnosis.to_object())
    else:
        _print(diagnosis)
    return HOLDS if diagnosis.explained else DOES_NOT_HOLD


def _print(diagnosis: Diagnosis) -> None:
    state, rest = _headline(diagnosis)
    click.echo(f"{colored(state, holds=diagnosis.explained)}{rest}")
    for number, cause in enumerate(diagnosis.causes, 1):
        _print_cause(number, cause)
    if diagnosis.outcome is not Outcome.VERIFIES:
        _print_strings(diagnosis)
    if diagnosis.made:
        click.echo("\nThe signature")
        print_facts((("made as", diagnosis.made), ("hash recovered from it", diagnosis.recovered_hash)))
    lists = (("Seen besides", diagnosis.notes), ("Not the cause", diagnosis.excluded), ("Next", diagnosis.advice))
    for title, texts in lists:
        if texts:
            click.echo(f"\n{title}")
        for text in texts:
            click.echo(_wrapped(text, "  - ", "    "))


def _headline(diagnosis: Diagnosis) -> tuple[str, str]:
    count = len(diagnosis.causes)
    if diagnosis.outcome is Outcome.VERIFIES:
        return "verifies", f" as {diagnosis.profile} (trust in the certificate was not judged)"
    causes = f"{count} cause{'' if count == 1 else 's'}"
    if diagnosis.explained:
        return "explained", f": {causes}, judged as {diagnosis.profile}"
    found = f"{causes} found, but not all is explained" if count else "no known mistake fits"
    return "not explained", f": {found}; judged as {diagnosis.profile}, {diagnosis.tried} strings compared"


def _print_cause(number: int, cause: Cause) -> None:
    click.echo(f"\n{number}. {cause.sentence}  [{cause.name}]")
    for text in cause.evidence:
        click.echo(_wrapped(f"seen: {text}", "   ", "         "))
    click.echo(_wrapped(f"do:   {cause.fix}", "   ", "         "))


def _wrapped(text: str, first: str, further: str) -> str:
    return click.wrap_text(printable(text), _WIDTH, initial_indent=first, subsequent_indent=further)


def _print_strings(diagnosis: Diagnosis) -> None:
    """The right signing string; where another one was signed, line by line with it."""
    if diagnosis.expected is None:
        return
    right = _lines(diagnosis.expected)
    if diagnosis.signed is None or diagnosis.first_difference is None:
        click.echo("\nThe signing string (· space, ␊ line feed, ␍ carriage return)")
        for line in right:
            click.echo(f"    {line}")
        return
    click.echo("\nThe signing string: - as it should be, + as it was signed (· space, ␊ line feed, ␍ carriage return)")
    for wanted, signed in zip_longest(right, _lines(diagnosis.signed)):
        if wanted == signed:
            click.echo(f"    {wanted}")
            continue
        for mark, line in (("-", wanted), ("+", signed)):
            if line is not None:
                click.echo(f"  {mark} {line}")


def _lines(raw: bytes) -> list[str]:
    return visible(raw).removesuffix("\n").split("\n")
