"""`tppkit pki`: test certificates."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from tppkit.cli.output import at_option, json_option, present, print_json, say
from tppkit.testpki import DEFAULT_DAYS, KEY_KINDS, make_pki, make_provider, write_pki
from tppkit.testpki.profiles import DEFAULT_DNS_NAME, DEFAULT_NAME, DEFAULT_ORGANIZATION_IDENTIFIER, DEFAULT_ROLES


@click.group()
def pki() -> None:
    """Make test certificates."""


@pki.command()
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--org-id", default=DEFAULT_ORGANIZATION_IDENTIFIER, show_default=True, metavar="ID", help="organizationIdentifier."
)
@click.option("--name", default=DEFAULT_NAME, show_default=True, help="The organisation's name.")
@click.option("--country", metavar="CC", help="Two letters; that of the organizationIdentifier by default.")
@click.option("--nca-name", metavar="NAME", help="The competent authority's name.")
@click.option("--roles", default=",".join(DEFAULT_ROLES), show_default=True, help="PSD2 roles, separated by commas.")
@click.option("--key", default="p256", show_default=True, type=click.Choice(KEY_KINDS), help="Kind of every key.")
@click.option(
    "--days", default=DEFAULT_DAYS, show_default=True, type=int, metavar="N", help="Validity of leaf certificates."
)
@click.option(
    "--seed", type=int, metavar="N", help="The same bytes again for the same day (EC keys; with --at on any day)."
)
@click.option("--dns", default=DEFAULT_DNS_NAME, show_default=True, metavar="NAME", help="The QWAC's DNS name.")
@at_option
@json_option
def create(
    directory: Path,
    org_id: str,
    name: str,
    country: str | None,
    nca_name: str | None,
    roles: str,
    key: str,
    days: int,
    seed: int | None,
    dns: str,
    at: datetime | None,
    as_json: bool,
) -> None:
    """Make a whole test PKI in the new folder DIR; manifest.json there names every file.

    Certificates are valid from midnight UTC of the day. Private keys get mode 0600.
    """
    provider = make_provider(
        organization_identifier=org_id,
        name=name,
        country=country,
        roles=[role.strip() for role in roles.split(",") if role.strip()],
        nca_name=nca_name,
        dns_name=dns,
    )
    manifest = write_pki(make_pki(at=present(at), provider=provider, key=key, days=days, seed=seed), directory)
    if as_json:
        print_json(manifest)
        return
    for entry in manifest["files"]:
        click.echo(f"{directory / entry['path']}  {entry['kind']}  key {entry['key_path']}")
    say(f"test certificates for {org_id} ({roles}); never use them for anything but tests")
