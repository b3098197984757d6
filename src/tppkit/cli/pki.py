"""`tppkit pki`: test certificates and their services."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path

import click

from tppkit._files import PRIVATE
from tppkit.cli.output import json_option, present, print_json, say
from tppkit.cli.pki_csr import csr
from tppkit.cli.pki_issue import issue, revoke
from tppkit.cli.pki_options import (
    day_option,
    path_only,
    policy_option,
    provider_from,
    provider_options,
    qscd_option,
)
from tppkit.testpki import DEFAULT_DAYS, KEY_KINDS, SEAL_KEY_KINDS, make_pki, open_pki, write_pki
from tppkit.testpki.profiles import SERVICES_URL


@click.group()
def pki() -> None:
    """Make test certificates, and serve OCSP, revocation lists, time stamps and trusted lists for them."""


@pki.command()
@click.argument("directory", type=path_only, metavar="DIR")
@provider_options()
@click.option("--key", default="p256", show_default=True, type=click.Choice(KEY_KINDS), help="Kind of every key.")
@click.option("--seal-key", type=click.Choice(SEAL_KEY_KINDS), help="Kind of the keys of QSealCs, if it differs.")
@policy_option(default="gen")
@qscd_option
@click.option(
    "--days", type=int, metavar="N",
    help=f"Validity of leaf certificates; {DEFAULT_DAYS} by default, with --policy ev no more than browsers accept.",
)  # fmt: skip
@click.option("--seed", type=int, metavar="N", help="Make the same bytes for the same day (with --at on any day).")
@click.option(
    "--services-url",
    default=SERVICES_URL,
    show_default=True,
    metavar="URL",
    help="Base URL of OCSP and CRLs in the certificates.",
)
@click.option(
    "--faults", is_flag=True, help="Also make certificates, chains, CRLs and OCSP responses with one fault each."
)
@day_option
@json_option
def create(
    directory: Path, org_id: str, name: str, country: str | None, nca_name: str | None, roles: str, dns: str, key: str,
    seal_key: str | None, policy: str, qscd: bool, days: int | None, seed: int | None, services_url: str, faults: bool,
    at: datetime | None, as_json: bool,
) -> None:  # fmt: skip
    """Make a whole test PKI in the new folder DIR. Its README.md explains each file; its manifest.json names them for programs.

    Certificates are valid from midnight UTC of the day. Private keys have mode 0600.
    """
    if seed is not None and "rsa" in f"{key} {seal_key}":
        say("making RSA keys from a seed takes from seconds (2048 bits) to a minute (4096 bits)")
    made = make_pki(
        at=present(at),
        provider=provider_from(org_id, name, country, nca_name, roles, dns),
        key=key, days=days, seed=seed, services_url=services_url, policy=policy, qscd=qscd, seal_key=seal_key,
    )  # fmt: skip
    manifest = write_pki(made, directory, with_faults=faults)
    if as_json:
        print_json(manifest)
        return
    for entry in manifest["files"]:
        key_path = f"  key {entry['key_path']}" if entry["key_path"] else ""
        click.echo(f"{directory / entry['path']}  {entry['kind']}{key_path}")
    say(f"test certificates for {org_id} ({roles}); see {directory / 'README.md'} for how to use them. For tests only")


@pki.command()
@json_option
def faults(as_json: bool) -> None:
    """List the faults that `pki create --faults` makes, and the codes that a check of each reports."""
    from tppkit.testpki.faults import FAULTS

    if as_json:
        print_json([
            {
                "name": fault.name, "summary": fault.summary, "as": fault.use.value, "expected": list(fault.expected),
                "verdict": fault.verdict,
            }
            for fault in FAULTS.values()
        ])  # fmt: skip
        return
    for fault in FAULTS.values():
        click.echo(
            f"{fault.name} ({fault.use.value})\n  {fault.summary}\n  {fault.verdict}: {', '.join(fault.expected)}"
        )
    say(f"{len(FAULTS)} faults")


@pki.command()
@click.argument("directory", type=path_only, metavar="DIR")
@json_option
def renew(directory: Path, as_json: bool) -> None:
    """Sign the revocation lists and trusted lists of DIR again, dated now. `issue`, `revoke` and `serve` renew those that end soon."""
    names = open_pki(directory).renew(now=present(None))
    if as_json:
        print_json({"files": list(names)})
    else:
        click.echo("\n".join(str(directory / name) for name in names))


@pki.command()
@click.argument("directory", type=path_only, metavar="DIR")
@click.option(
    "--port", default=8448, show_default=True, type=click.IntRange(0, 65535), metavar="N", help="0 chooses a free port."
)
@click.option("--ready-file", type=path_only, metavar="FILE", help="Written as JSON once the services answer.")
@json_option
def serve(directory: Path, port: int, ready_file: Path | None, as_json: bool) -> None:
    """Serve OCSP, CRLs, time stamps, issuing certificates and trusted lists of DIR over HTTP on loopback, until interrupted."""
    from tppkit.sandbox.pki_services import PkiServer

    server = PkiServer(directory, port=port)
    asyncio.run(server.serve_until_stopped(on_ready=lambda: _announce(server.addresses, ready_file, as_json)))


def _announce(addresses: dict[str, str], ready_file: Path | None, as_json: bool) -> None:
    if ready_file is not None:
        from tppkit._files import replace_file
        from tppkit.testpki.files import manifest_json

        replace_file(ready_file, manifest_json(addresses), mode=PRIVATE)
    if as_json:
        print_json(addresses)
    else:
        for name, url in addresses.items():
            click.echo(f"{name:<14}{url}")
    say("the services answer; stop them with Ctrl-C")


for command in (issue, revoke, csr):
    pki.add_command(command)
