"""`tppkit trust`: trusted lists and the status of certificates by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from tppkit._clock import format_time
from tppkit.cli.certificates import password_option, read_bundle, read_password
from tppkit.cli.output import UNREADABLE, Result, at_option, failure, json_option, present, say, verdict
from tppkit.cli.trust_options import folder_type, listing_object
from tppkit.client import make_fetch
from tppkit.errors import Finding, Severity, VerificationError
from tppkit.trust import QualifiedStatus, load_trusted_lists
from tppkit.trust.trusted_list.fetch import LOTL_ADDRESS
from tppkit.trust.trusted_list.lists import ListFailure
from tppkit.trust.trusted_list.model import TrustedList
from tppkit.trust.trusted_list.qualified_status import Judgement, check_freshness
from tppkit.trust.trusted_list.refresh import refresh_trusted_lists


@click.group()
def trust() -> None:
    """Look up the status of certificates in trusted lists."""


@trust.command()
@click.argument("file", metavar="FILE")
@click.option("--trusted-lists", required=True, type=folder_type, metavar="DIR", help="Folder of the lists.")
@password_option
@at_option
@json_option
def status(file: str, trusted_lists: Path, password_file: Path | None, at: datetime | None) -> Result:
    """Show what a certificate is qualified for, by which service of which list, at a time.

    FILE: a certificate in any form; further ones in it are intermediate authorities; - is standard input.
    """
    bundle = read_bundle(file, read_password(password_file))
    lists = load_trusted_lists(trusted_lists)
    found = lists.status(bundle.leaf, at=present(at), intermediates=bundle.others)
    proven = {
        "file": file,
        "sha256": bundle.leaf.sha256,
        "subject": str(bundle.leaf.subject),
        **_judged(found),
        "at_issuance": _judged(found.at_issuance),
        "list_of_lists": lists.list_of_lists and _list_object(lists.list_of_lists),
    }
    return verdict(f"{file} at {format_time(found.at)}", found.findings, proven=proven, code=found.code)


def _judged(found: QualifiedStatus | Judgement) -> dict[str, Any]:
    listing = found.listing
    return {
        "at": format_time(found.at),
        "qualified_for": list(found.qualified_for),
        "with_device": found.with_device,
        **listing_object(listing),
        "list": listing and _list_object(listing.issuer.trusted_list),
        "matched_by": listing and listing.matched_by,
    }


@trust.command("lists")
@click.argument("directory", type=folder_type, metavar="DIR")
@at_option
@json_option
def lists_(directory: Path, at: datetime | None) -> Result:
    """Verify the lists of a folder, and show which are in force at a time."""
    lists = load_trusted_lists(directory)
    top = (lists.list_of_lists,) if lists.list_of_lists else ()
    every = (*top, *sorted(lists.lists, key=lambda one: one.territory))
    facts = {}
    for one in every:
        until = f"in force until {format_time(one.next_update)}" if one.next_update else "closed"
        facts[one.territory] = f"number {one.sequence_number}, {until}, {one.source}"
    findings = [finding for one in lists.lists for finding in one.findings]
    return _result(directory, present(at), {"lists": every}, lists.failures, facts=facts, findings=findings)


@trust.command()
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--territory", "territories", multiple=True, metavar="CC", help="Only this list; may be given again.")
@click.option(
    "--max-age", type=click.IntRange(min=1), metavar="DAYS", help="Fail if a list was issued earlier than that."
)
@click.option("--url", default=LOTL_ADDRESS, show_default=True, metavar="URL", help="The list of lists.")
@click.option("--allow-private", is_flag=True, help="Fetch from private addresses too.")
@json_option
def fetch(directory: Path, territories: tuple[str, ...], max_age: int | None, url: str, allow_private: bool) -> Result:
    """Fetch the list of lists and the national lists into a new folder, and switch to it; each list is verified.

    DIR: a symbolic link to the folder in use, DIR.<UTC time>. It is replaced in one step, so a timer may run this beside programs that
    read DIR. The folder before is kept, older ones are removed. A list that fails keeps its old version.
    """
    now = present(None)
    try:
        fetched = refresh_trusted_lists(
            directory,
            fetch=make_fetch(allow_private=allow_private, follow_redirects=True),
            at=now,
            territories=[territory.upper() for territory in territories] or None,
            address=url,
            progress=lambda territory: say(f"fetching the list of {territory}"),
        )
    except VerificationError as e:
        return failure(e, UNREADABLE)  # the list of lists: nothing was fetched
    lists = {"written": fetched.written, "unchanged": fetched.kept}
    facts = {one.territory: f"{what}, number {one.sequence_number}" for what, some in lists.items() for one in some}
    too_old = [
        ListFailure(one.source, one.territory, "trusted-list.old", f"{one} was issued on {format_time(one.issued)}")
        for one in (*fetched.written, *fetched.kept)
        if max_age is not None and now - one.issued > timedelta(days=max_age)
    ]
    return _result(directory, now, lists, [*fetched.failures, *too_old], facts=facts)


def _result(
    folder: Path, at: datetime, lists: Mapping[str, Sequence[TrustedList]], failures: Sequence[ListFailure], *,
    facts: Mapping[str, object], findings: Sequence[Finding] = (),
) -> Result:  # fmt: skip
    """Return the verdict about lists; it fails if one failed, or is no longer in force: an attacker may serve an old one."""
    every = [one for some in lists.values() for one in some]
    late = [(one, finding) for one in every if (finding := check_freshness(one, at))]
    failures = [*failures, *(ListFailure(one.source, one.territory, old.code, old.message) for one, old in late)]
    errors = [Finding(one.code, Severity.ERROR, f"{one.territory or one.source}: {one.message}") for one in failures]
    proven: dict[str, object] = {
        name: [{**_list_object(one), "territory": one.territory} for one in some] for name, some in lists.items()
    }
    proven["failures"] = [
        {"file": one.source, "territory": one.territory, "code": one.code, "message": one.message} for one in failures
    ]
    return verdict(f"{folder} at {format_time(at)}", [*errors, *findings], proven=proven, facts=facts)


def _list_object(one: TrustedList) -> dict[str, Any]:
    return {
        "sequence_number": one.sequence_number,
        "issued": format_time(one.issued),
        "next_update": format_time(one.next_update) if one.next_update else None,
        "sha256": one.sha256,
        "file": one.source,
    }
