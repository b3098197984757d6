"""`tppkit pki issue` and `tppkit pki revoke`: one certificate of a test PKI more, and one less."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from tppkit._clock import format_time
from tppkit._text import printable
from tppkit.certificates import EidasCertificate, EidasRequest, read_sources
from tppkit.certificates.sources import MAX_SOURCE_BYTES
from tppkit.cli.output import json_option, present, print_json, read_input, read_time, say
from tppkit.cli.pki_options import (
    PROVIDER,
    day_option,
    path_only,
    policy_option,
    provider_options,
    qscd_option,
    read_request,
    refuse_options,
    split_roles,
)
from tppkit.errors import FormatError
from tppkit.testpki import SEAL_KEY_KINDS, open_pki
from tppkit.testpki.crl import NO_LONGER, REASONS
from tppkit.testpki.files import MANIFEST, entry_of
from tppkit.testpki.folder import PkiFolder
from tppkit.testpki.provider import make_provider_like
from tppkit.testpki.requests import KINDS

# Options that say nothing about a certificate of a kind.
_IDLE = {
    "qwac": ("qscd", "as_"),
    "qseal": ("policy", "dns", "as_"),
    "server": ("policy", "qscd", "as_", *(name for name in PROVIDER if name != "dns")),
    "csr": ("policy", "qscd", "key", *PROVIDER),
}


@click.command()
@click.argument("kind", type=click.Choice([*_IDLE]))
@click.argument("directory", type=path_only, metavar="DIR")
@click.option("--label", help="Stem of the new files; the kind and a number by default.")
@provider_options(of_folder=True)
@click.option("--key", type=click.Choice(SEAL_KEY_KINDS), help="Kind of its key; that of the first ones by default.")
@policy_option(default=None)
@qscd_option
@click.option("--days", type=int, metavar="N", help="Its validity; that of the first ones by default.")
@click.option("--csr", metavar="FILE", help="For the kind csr: the request.")
@click.option(
    "--as", "as_", type=click.Choice(KINDS), help="What the request of --csr is for, where it does not say it."
)
@day_option
@json_option
def issue(
    kind: str, directory: Path, label: str | None, org_id: str | None, name: str | None, country: str | None,
    nca_name: str | None, roles: str | None, dns: str | None, key: str | None, policy: str | None, qscd: bool,
    days: int | None, csr: str | None, as_: str | None, at: datetime | None, as_json: bool,
) -> None:  # fmt: skip
    """Issue one more certificate in the test PKI of DIR: a QWAC, a QSealC, a server's (for --dns), or what a CSR asks for.

    It is for the PKI's provider where no option says otherwise, and valid from midnight UTC of the day. What a request asks for
    and the certificate lacks is told.
    """
    if (csr is None) == (kind == "csr"):
        raise click.UsageError("the kind csr needs --csr FILE, and no other kind takes one")
    refuse_options(_IDLE[kind], because=f"a certificate of the kind {kind} does not take it")
    folder = open_pki(directory)
    now = present(None)
    at = at or max(now, folder.pki.not_before)  # a PKI may begin in days to come
    if csr is not None:
        entry = _issue_requested(folder, read_request(csr), at=at, days=days, label=label, kind=as_, now=now)
    else:
        provider = make_provider_like(
            folder.pki.provider, organization_identifier=org_id, name=name, country=country, nca_name=nca_name,
            roles=None if roles is None else split_roles(roles), dns_name=dns,
        )  # fmt: skip
        issued = folder.issue(
            kind, provider, at=at, days=days, policy=policy, qscd=qscd or None, label=label, key=key, now=now
        )
        entry = entry_of(issued)
    if as_json:
        print_json(entry)
    else:
        click.echo(f"{directory / entry['path']}  {entry['kind']}")


def _issue_requested(folder: PkiFolder, request: EidasRequest, **options: Any) -> dict[str, Any]:
    entry, dropped = folder.issue_requested(request, **options)
    for field, value in dropped:
        say(printable(f"dropped: {field} {value}"))
    return {**entry, "dropped": [one._asdict() for one in dropped]}


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--dir", "directory", type=path_only, metavar="DIR", help="The test PKI; where FILE is, or one above.")
@click.option(
    "--reason", default="unspecified", show_default=True,
    help=f"Why: {', '.join(reason for reason in REASONS if reason != NO_LONGER)}.",
)  # fmt: skip
@click.option("--lift", is_flag=True, help="End a hold (certificateHold): the certificate is no longer revoked.")
@click.option("--at", metavar="TIME", callback=read_time, help="Since when; now by default, and never later.")
@json_option
def revoke(file: str, directory: Path | None, reason: str, lift: bool, at: datetime | None, as_json: bool) -> None:
    """Revoke the certificate in FILE: the CRLs are written anew, and `pki serve` answers accordingly from now on.

    A certificate on hold (--reason certificateHold) can be revoked again for another reason, or be freed with --lift.
    """
    if lift:
        refuse_options(("reason", "at"), because="--lift ends a hold now")
    if directory is None and file == "-":
        raise click.UsageError("a certificate from standard input needs --dir DIR")
    folder = open_pki(directory or _folder_of(Path(file)))
    now = max(present(None), folder.pki.not_before)  # a PKI may begin in days to come
    certificate = _read_certificate(file)
    folder = (
        folder.lift(certificate, now=now) if lift else folder.revoke(certificate, at=at or now, reason=reason, now=now)
    )
    since = folder.revocation_of(certificate)
    told = {"reason": since.reason, "at": format_time(since.at)} if since else {"reason": None, "at": None}
    if as_json:
        print_json({"sha256": certificate.sha256, "serial_hex": certificate.serial_hex, "lifted": lift, **told})
        return
    what = f"revoked since {told['at']}, {told['reason']}" if since else "no longer on hold"
    click.echo(f"{printable(str(certificate.subject))} (serial {certificate.serial_hex}): {what}")


def _folder_of(file: Path) -> Path:
    """Where a certificate's PKI is: beside it, or one above, as for faults."""
    return next((folder for folder in (file.parent, file.parent.parent) if (folder / MANIFEST).is_file()), file.parent)


def _read_certificate(name: str) -> EidasCertificate:
    for source in read_sources(read_input(name, max_bytes=MAX_SOURCE_BYTES)):
        if source.kind == "certificate":
            return EidasCertificate.from_der(source.der)
    raise FormatError("certificate.not-found", f"no certificate stands in {name}")
