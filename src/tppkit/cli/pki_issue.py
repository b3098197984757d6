"""`tppkit pki issue` and `tppkit pki revoke`: issue or revoke one certificate of a test PKI."""

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
    reject_options,
    split_roles,
)
from tppkit.errors import FormatError
from tppkit.testpki import SEAL_KEY_KINDS, open_pki
from tppkit.testpki.crl import NO_LONGER, REASONS
from tppkit.testpki.files import MANIFEST, entry_of
from tppkit.testpki.folder import PkiFolder
from tppkit.testpki.provider import make_provider_like
from tppkit.testpki.requests import KINDS

# Options that have no effect on a certificate of a kind.
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
@click.option(
    "--key", type=click.Choice(SEAL_KEY_KINDS), help="Kind of its key; that of the first certificates by default."
)
@policy_option(default=None)
@qscd_option
@click.option("--days", type=int, metavar="N", help="Its validity; that of the first certificates by default.")
@click.option("--csr", metavar="FILE", help="The request, for the kind csr.")
@click.option(
    "--as", "as_", type=click.Choice(KINDS), help="What the request of --csr is for, if it does not state it."
)
@day_option
@json_option
def issue(
    kind: str, directory: Path, label: str | None, org_id: str | None, name: str | None, country: str | None,
    nca_name: str | None, roles: str | None, dns: str | None, key: str | None, policy: str | None, qscd: bool,
    days: int | None, csr: str | None, as_: str | None, at: datetime | None, as_json: bool,
) -> None:  # fmt: skip
    """Issue one more certificate in the test PKI of DIR: a QWAC, a QSealC, a server certificate (for --dns), or what a CSR asks for.

    It names the provider of the PKI unless options say otherwise, and is valid from midnight UTC of the day. What a request asks
    for and the certificate lacks is reported as dropped.
    """
    if (csr is None) == (kind == "csr"):
        raise click.UsageError("the kind csr needs --csr FILE, and no other kind takes one")
    reject_options(_IDLE[kind], because=f"a certificate of the kind {kind} does not take it")
    folder = open_pki(directory)
    now = present(None)
    at = at or max(now, folder.pki.not_before)  # a PKI may begin in the future
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
@click.option(
    "--dir",
    "directory",
    type=path_only,
    metavar="DIR",
    help="The test PKI; by default the folder of FILE or the one above it.",
)
@click.option(
    "--reason", default="unspecified", show_default=True,
    help=f"The reason: {', '.join(reason for reason in REASONS if reason != NO_LONGER)}.",
)  # fmt: skip
@click.option("--lift", is_flag=True, help="End a hold (certificateHold): the certificate is no longer revoked.")
@click.option("--at", metavar="TIME", callback=read_time, help="Time of revocation; now by default, and never later.")
@json_option
def revoke(file: str, directory: Path | None, reason: str, lift: bool, at: datetime | None, as_json: bool) -> None:
    """Revoke the certificate in FILE: the CRL of its issuer is written again, and `pki serve` answers accordingly at once.

    A certificate on hold (--reason certificateHold) can be revoked again for another reason, or released with --lift.
    """
    if lift:
        reject_options(("reason", "at"), because="--lift ends a hold now")
    if directory is None and file == "-":
        raise click.UsageError("a certificate from standard input needs --dir DIR")
    folder = open_pki(directory or _folder_of(Path(file)))
    now = max(present(None), folder.pki.not_before)  # a PKI may begin in the future
    certificate = _read_certificate(file)
    folder = (
        folder.lift(certificate, now=now) if lift else folder.revoke(certificate, at=at or now, reason=reason, now=now)
    )
    since = folder.revocation_of(certificate)
    shown = {"reason": since.reason, "at": format_time(since.at)} if since else {"reason": None, "at": None}
    if as_json:
        print_json({"sha256": certificate.sha256, "serial_hex": certificate.serial_hex, "lifted": lift, **shown})
        return
    what = f"revoked since {shown['at']}, {shown['reason']}" if since else "no longer on hold"
    click.echo(f"{printable(str(certificate.subject))} (serial {certificate.serial_hex}): {what}")


def _folder_of(file: Path) -> Path:
    """Return the folder of a certificate's PKI: that of the file, or the one above it, as for faults."""
    return next((folder for folder in (file.parent, file.parent.parent) if (folder / MANIFEST).is_file()), file.parent)


def _read_certificate(name: str) -> EidasCertificate:
    for source in read_sources(read_input(name, max_bytes=MAX_SOURCE_BYTES)):
        if source.kind == "certificate":
            return EidasCertificate.from_der(source.der)
    raise FormatError("certificate.not-found", f"{name} contains no certificate")
