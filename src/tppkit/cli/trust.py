"""`tppkit trust`: trusted lists and the status of certificates by them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from tppkit._clock import format_time
from tppkit._files import make_folder
from tppkit._text import printable
from tppkit.certificates import EidasCertificate
from tppkit.cli.certificates import password_option, read_bundle, read_password
from tppkit.cli.output import (
    DOES_NOT_HOLD,
    HOLDS,
    at_option,
    finding_line,
    finding_object,
    json_option,
    present,
    print_facts,
    print_json,
    say,
)
from tppkit.cli.verdict import colored
from tppkit.client import make_fetch
from tppkit.trust import Judgement, QualifiedStatus, TrustedList, TrustedLists, load_trusted_lists
from tppkit.trust.trusted_list.fetch import LOTL_ADDRESS, fetch_trusted_lists
from tppkit.trust.trusted_list.lists import ListFailure
from tppkit.trust.trusted_list.qualified_status import Listing, check_freshness

_folder = click.Path(path_type=Path, exists=True, file_okay=False)


@click.group()
def trust() -> None:
    """Look up the status of certificates in trusted lists."""


@trust.command()
@click.argument("file", metavar="FILE")
@click.option("--trusted-lists", required=True, type=_folder, metavar="DIR", help="Folder of the lists.")
@password_option
@at_option
@json_option
def status(file: str, trusted_lists: Path, password_file: Path | None, at: datetime | None, as_json: bool) -> int:
    """Show what a certificate is qualified for, by which service of which list, at a time.

    FILE: a certificate in any form; further ones in it are intermediate authorities; - is standard input.
    """
    bundle = read_bundle(file, read_password(password_file))
    lists = load_trusted_lists(trusted_lists)
    found = lists.status(bundle.leaf, at=present(at), intermediates=bundle.others)
    if as_json:
        print_json(_status_object(file, bundle.leaf, found, lists))
    else:
        _print_status(bundle.leaf, found)
    return HOLDS if found.code is None else DOES_NOT_HOLD


@trust.command("lists")
@click.argument("directory", type=_folder, metavar="DIR")
@at_option
@json_option
def lists_(directory: Path, at: datetime | None, as_json: bool) -> int:
    """Verify the lists of a folder, and show which are in force at a time."""
    lists = load_trusted_lists(directory)
    failures = (*lists.failures, *_too_old(_all(lists), present(at)))
    if as_json:
        code = failures[0].code if failures else None
        print_json(
            {
                "verdict": "fails" if code else "holds",
                "code": code,
                "findings": [finding_object(f) for one in lists.lists for f in one.findings],
                "lists": [{**_list_object(one), "territory": one.territory} for one in _all(lists)],
                "failures": [_failure_object(failure) for failure in failures],
            }
        )
    else:
        for one in _all(lists):
            until = format_time(one.next_update) if one.next_update else "closed"
            click.echo(
                printable(f"{one.territory}  number {one.sequence_number}, in force until {until}  {one.source}")
            )
        for failure in failures:
            click.echo(printable(f"{failure.territory or '??'}  {failure.message} [{failure.code}]"))
    return DOES_NOT_HOLD if failures else HOLDS


@trust.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option("--territory", "territories", multiple=True, metavar="CC", help="Only this list; may be given again.")
@click.option("--url", default=LOTL_ADDRESS, show_default=True, metavar="URL", help="The list of lists.")
@click.option("--allow-private", is_flag=True, help="Fetch from private addresses too.")
@json_option
def fetch(directory: Path, territories: tuple[str, ...], url: str, allow_private: bool, as_json: bool) -> int:
    """Fetch the list of lists and the national lists into a folder; each is verified before it is written."""
    make_folder(directory)
    fetched = fetch_trusted_lists(
        directory,
        fetch=make_fetch(allow_private=allow_private, follow_redirects=True),
        territories=[territory.upper() for territory in territories] or None,
        address=url,
        progress=lambda territory: say(f"fetching the list of {territory}"),
    )
    failures = (*fetched.failures, *_too_old((*fetched.written, *fetched.kept), present(None)))
    if as_json:
        print_json(
            {
                "verdict": "fails" if failures else "holds",
                "code": failures[0].code if failures else None,
                "findings": [],
                "written": [{**_list_object(one), "territory": one.territory} for one in fetched.written],
                "kept": [{**_list_object(one), "territory": one.territory} for one in fetched.kept],
                "failures": [_failure_object(failure) for failure in failures],
            }
        )
    else:
        for what, lists in (("written", fetched.written), ("unchanged", fetched.kept)):
            for one in lists:
                click.echo(printable(f"{one.territory}  {what}: number {one.sequence_number}"))
        for failure in failures:
            click.echo(printable(f"{failure.territory or '??'}  failed: {failure.message} [{failure.code}]"))
    return DOES_NOT_HOLD if failures else HOLDS


def _too_old(lists: Iterable[TrustedList], at: datetime) -> Iterator[ListFailure]:
    """The lists that are no longer in force at a time: an attacker may serve an old one."""
    for one in lists:
        finding = check_freshness(one, at)
        if finding is not None:
            yield ListFailure(one.source, one.territory, finding.code, finding.message)


def _all(lists: TrustedLists) -> tuple[TrustedList, ...]:
    top = (lists.list_of_lists,) if lists.list_of_lists else ()
    return (*top, *sorted(lists.lists, key=lambda one: one.territory))


def _list_object(one: TrustedList) -> dict[str, Any]:
    return {
        "sequence_number": one.sequence_number,
        "issued": format_time(one.issued),
        "next_update": format_time(one.next_update) if one.next_update else None,
        "sha256": one.sha256,
        "file": one.source,
    }


def _failure_object(failure: ListFailure) -> dict[str, Any]:
    return {"file": failure.source, "territory": failure.territory, "code": failure.code, "message": failure.message}


def _listing_object(listing: Listing | None) -> dict[str, Any]:
    if listing is None:
        names = ("service", "provider", "territory", "list", "status", "status_since", "matched_by")
        return dict.fromkeys(names)
    instance, issuer = listing.instance, listing.issuer
    return {
        "service": instance.name,
        "provider": issuer.provider.name,
        "territory": issuer.trusted_list.territory,
        "list": _list_object(issuer.trusted_list),
        "status": instance.status,
        "status_since": format_time(instance.since),
        "matched_by": listing.matched_by,
    }


def _judgement_object(judgement: Judgement) -> dict[str, Any]:
    return {
        "at": format_time(judgement.at),
        "qualified_for": list(judgement.qualified_for),
        "with_device": judgement.with_device,
        **_listing_object(judgement.listing),
    }


def _status_object(
    file: str, certificate: EidasCertificate, found: QualifiedStatus, lists: TrustedLists
) -> dict[str, Any]:
    return {
        "verdict": "holds" if found.code is None else "fails",
        "code": found.code,
        "findings": [finding_object(finding) for finding in found.findings],
        "file": file,
        "sha256": certificate.sha256,
        "subject": str(certificate.subject),
        "at": format_time(found.at),
        "qualified_for": list(found.qualified_for),
        "with_device": found.with_device,
        **_listing_object(found.listing),
        "at_issuance": _judgement_object(found.at_issuance),
        "list_of_lists": _list_object(lists.list_of_lists) if lists.list_of_lists else None,
    }


def _print_status(certificate: EidasCertificate, found: QualifiedStatus) -> None:
    click.echo(colored(f"fails ({found.code})" if found.code else "holds", holds=not found.code))
    listing = found.listing
    print_facts([
        ("subject", str(certificate.subject)),
        ("at", format_time(found.at)),
        ("qualified for", ", ".join(found.qualified_for) or "nothing"),
        ("at issuance", f"{', '.join(found.at_issuance.qualified_for) or 'nothing'} ({format_time(found.at_issuance.at)})"),
        ("service", listing.instance.name if listing else ""),
        ("provider", listing.issuer.provider.name if listing else ""),
        ("status", f"{listing.instance.status_name} since {format_time(listing.instance.since)}" if listing else ""),
        ("list", str(listing.issuer.trusted_list) if listing else ""),
        ("matched by", listing.matched_by if listing else ""),
    ])  # fmt: skip
    for finding in found.findings:
        click.echo(f"  {finding_line(finding)}")
