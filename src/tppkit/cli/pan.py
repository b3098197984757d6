"""`tppkit pan`: search files for card numbers."""

from __future__ import annotations

from pathlib import Path

import click

from tppkit.card_search.files import Skipped, SkipReason, search_path
from tppkit.card_search.forms import AnyCard, CardForms, Forms
from tppkit.cli.output import DOES_NOT_HOLD, HOLDS, UNREADABLE, Result, json_option, read_input

_MAX_CARDS_BYTES = 64 * 1024


@click.group()
def pan() -> None:
    """Search files for card numbers."""


@pan.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("--any", "any_card", is_flag=True, help="Find every number with a valid check digit and a known range.")
@click.option("--cards", metavar="FILE", help="Find these card numbers and security codes, one a line; - is stdin.")
@json_option
def scan(paths: tuple[Path, ...], any_card: bool, cards: str | None) -> Result:
    """Search files and folders for card numbers: text, SQLite databases, and gzip, zip and tar files, also within each other.

    Without --any and --cards, the test cards of the sandbox are searched, in all written forms (hexadecimal and base64 too). Numbers are
    printed truncated. No other process may write to a SQLite database that is searched. The worst exit code counts: content that could
    not be searched, such as encrypted members, gives 3.
    """
    forms = _forms(any_card, cards)
    found, searched, skipped = [], [], []
    for one in (one for path in paths for one in search_path(path, forms)):
        if isinstance(one, Skipped):
            skipped.append(one)
            continue
        searched.append(one.name)
        found += [{"place": one.name, "card": hit.card, "form": hit.form, "at": at} for hit, at in one.hits]
    is_incomplete = any(one.why is not SkipReason.LINK for one in skipped)
    lines = [
        *(f"searched: {name}" for name in searched),
        *(f"not searched: {one.name}: {one.reason}" for one in skipped),
        *(f"found: {one['place']}: {one['card']}, {one['form']}, {one['at']}" for one in found),
    ]
    value = {"found": found, "searched": searched, "skipped": [one._asdict() for one in skipped]}
    code = UNREADABLE if is_incomplete else DOES_NOT_HOLD if found else HOLDS
    return Result(value, lines, code, f"{len(found)} found in {len(searched)} places, {len(skipped)} not searched")


def _forms(any_card: bool, cards: str | None) -> Forms:
    if any_card and cards:
        raise click.UsageError("give --any or --cards, not both")
    if any_card:
        return AnyCard()
    if cards:
        return CardForms(read_input(cards, max_bytes=_MAX_CARDS_BYTES).decode("ascii", "replace").split())
    from tppkit.sandbox.gateway.outcomes import TEST_CARDS

    return CardForms(TEST_CARDS)
