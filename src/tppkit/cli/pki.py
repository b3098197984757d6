"""`tppkit pki`: test certificates, and the services that vouch for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from tppkit._files import PRIVATE, PUBLIC, write_new
from tppkit.certificates import EidasCertificate, EidasRequest, load_certificates, read_sources
from tppkit.certificates.sources import MAX_SOURCE_BYTES
from tppkit.cli.output import at_option, json_option, present, print_json, read_input, say
from tppkit.errors import ConfigurationError, FormatError
from tppkit.testpki import (
    DEFAULT_DAYS,
    KEY_KINDS,
    SEAL_KEY_KINDS,
    KeySource,
    Provider,
    key_pem,
    make_pki,
    make_provider,
    open_pki,
    write_pki,
)
from tppkit.testpki.crl import REASONS
from tppkit.testpki.files import entry_of
from tppkit.testpki.keys import PrivateKey, load_key, require_kind
from tppkit.testpki.pem import pem_block
from tppkit.testpki.profiles import QWAC_POLICIES, SERVICES_URL
from tppkit.testpki.provider import DEFAULT_DNS_NAME, DEFAULT_NAME, DEFAULT_ORGANIZATION_IDENTIFIER, DEFAULT_ROLES
from tppkit.testpki.repair import openssl_config, repair_request
from tppkit.testpki.request import KINDS, make_request

_folder = click.Path(path_type=Path)
_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group()
def pki() -> None:
    """Make test certificates."""


def _provider_options(command: _Command) -> _Command:
    """Who certificates are for."""
    for option in reversed((
        click.option("--org-id", default=DEFAULT_ORGANIZATION_IDENTIFIER, show_default=True, metavar="ID", help="organizationIdentifier."),
        click.option("--name", default=DEFAULT_NAME, show_default=True, help="The organisation's name."),
        click.option("--country", metavar="CC", help="Two letters; that of the organizationIdentifier by default."),
        click.option("--nca-name", metavar="NAME", help="The competent authority's name."),
        click.option("--roles", default=",".join(DEFAULT_ROLES), show_default=True, help="PSD2 roles, separated by commas."),
        click.option("--dns", default=DEFAULT_DNS_NAME, show_default=True, metavar="NAME", help="The QWAC's DNS name."),
    )):  # fmt: skip
        command = option(command)
    return command


def _provider(org_id: str, name: str, country: str | None, nca_name: str | None, roles: str, dns: str) -> Provider:
    return make_provider(
        organization_identifier=org_id,
        name=name,
        country=country,
        roles=[role.strip() for role in roles.split(",") if role.strip()],
        nca_name=nca_name,
        dns_name=dns,
    )


@pki.command()
@click.argument("directory", type=_folder, metavar="DIR")
@_provider_options
@click.option("--key", default="p256", show_default=True, type=click.Choice(KEY_KINDS), help="Kind of every key.")
@click.option("--seal-key", type=click.Choice(SEAL_KEY_KINDS), help="Kind of the QSealCs' keys, if another.")
@click.option(
    "--policy", default="gen", show_default=True, type=click.Choice([*QWAC_POLICIES]), help="Policy of the QWACs."
)
@click.option("--qscd", is_flag=True, help="QSealCs state a qualified device.")
@click.option(
    "--days", default=DEFAULT_DAYS, show_default=True, type=int, metavar="N", help="Validity of leaf certificates."
)
@click.option("--seed", type=int, metavar="N", help="The same bytes again for the same day (with --at on any day).")
@click.option(
    "--services-url",
    default=SERVICES_URL,
    show_default=True,
    metavar="URL",
    help="Where certificates say OCSP and CRLs are.",
)
@click.option("--faults", is_flag=True, help="Also certificates, chains, CRLs and OCSP answers with one fault each.")
@at_option
@json_option
def create(
    directory: Path, org_id: str, name: str, country: str | None, nca_name: str | None, roles: str, dns: str, key: str,
    seal_key: str | None, policy: str, qscd: bool, days: int, seed: int | None, services_url: str, faults: bool,
    at: datetime | None, as_json: bool,
) -> None:  # fmt: skip
    """Make a whole test PKI in the new folder DIR; README.md there explains each file, manifest.json names them for programs.

    Certificates are valid from midnight UTC of the day. Private keys get mode 0600.
    """
    made = make_pki(
        at=present(at),
        provider=_provider(org_id, name, country, nca_name, roles, dns),
        key=key, days=days, seed=seed, services_url=services_url, policy=policy, qscd=qscd, seal_key=seal_key,
    )  # fmt: skip
    manifest = write_pki(made, directory, with_faults=faults)
    if as_json:
        print_json(manifest)
        return
    for entry in manifest["files"]:
        key_path = f"  key {entry['key_path']}" if entry["key_path"] else ""
        click.echo(f"{directory / entry['path']}  {entry['kind']}{key_path}")
    say(f"test certificates for {org_id} ({roles}); {directory / 'README.md'} says how to use them. For tests only")


@pki.command()
@click.argument("kind", type=click.Choice(["qwac", "qseal", "server", "csr"]))
@click.argument("directory", type=_folder, metavar="DIR")
@click.option("--label", help="Stem of the new files; the kind and a number by default.")
@_provider_options
@click.option("--key", type=click.Choice(SEAL_KEY_KINDS), help="Kind of its key.")
@click.option("--csr", metavar="FILE", help="For the kind csr: the request.")
@json_option
def issue(
    kind: str, directory: Path, label: str | None, org_id: str, name: str, country: str | None, nca_name: str | None,
    roles: str, dns: str, key: str | None, csr: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Issue one more certificate in the test PKI of DIR: a QWAC, a QSealC, a server's (for --dns), or what a CSR asks for."""
    if (csr is None) == (kind == "csr"):
        raise click.UsageError("the kind csr needs --csr FILE, and no other kind takes one")
    folder = open_pki(directory)
    if csr is not None:
        entry = folder.issue_requested(_read_request(csr), label=label)
    else:
        provider = _provider(org_id, name, country, nca_name, roles, dns)
        entry = entry_of(folder.issue(kind, provider, label=label, key=key))
    if as_json:
        print_json(entry)
    else:
        click.echo(f"{directory / entry['path']}  {entry['kind']}")


@pki.command()
@click.argument("file", type=_folder, metavar="FILE")
@click.option("--dir", "directory", type=_folder, metavar="DIR", help="The test PKI; the folder of FILE by default.")
@click.option("--reason", default="unspecified", show_default=True, type=click.Choice([*REASONS]), help="Why.")
@at_option
@json_option
def revoke(file: Path, directory: Path | None, reason: str, at: datetime | None, as_json: bool) -> None:
    """Revoke the certificate in FILE: the CRLs are written anew, and `pki serve` answers accordingly from now on."""
    folder = open_pki(directory or file.parent)
    certificate = _first(load_certificates(file), file)
    now = present(None)
    folder.revoke(certificate, at=at or now, reason=reason, now=now)
    if as_json:
        print_json({"sha256": certificate.sha256, "serial_hex": certificate.serial_hex, "reason": reason})
    else:
        click.echo(f"revoked {certificate.subject} (serial {certificate.serial_hex}, {reason})")


@pki.command()
@json_option
def faults(as_json: bool) -> None:
    """List the catalogue of faults: what `pki create --faults` makes, and the codes that a check gives for each."""
    from tppkit.testpki.faults import FAULTS

    if as_json:
        print_json([
            {"name": fault.name, "summary": fault.summary, "as": fault.use.value, "expected": list(fault.expected)}
            for fault in FAULTS.values()
        ])  # fmt: skip
        return
    for fault in FAULTS.values():
        click.echo(f"{fault.name} ({fault.use.value})\n  {fault.summary}\n  {', '.join(fault.expected)}")
    say(f"{len(FAULTS)} faults")


@pki.command()
@click.argument("directory", type=_folder, metavar="DIR")
@click.option(
    "--port", default=8448, show_default=True, type=click.IntRange(0, 65535), metavar="N", help="0 takes a free one."
)
@click.option("--ready-file", type=_folder, metavar="FILE", help="Written as JSON once it answers.")
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


@pki.command()
@click.argument("file", type=_folder, metavar="FILE")
@click.option(
    "--kind", type=click.Choice(KINDS), help="What it is for; a QWAC by default, with --repair what OLD.csr says."
)
@_provider_options
@click.option(
    "--policy", default="gen", show_default=True, type=click.Choice([*QWAC_POLICIES]), help="Policy of a QWAC."
)
@click.option("--qscd", is_flag=True, help="Ask for a QSealC in a qualified device.")
@click.option(
    "--key", "key_file", type=_folder, metavar="KEY", help="The private key (PEM); a new one is written by default."
)
@click.option(
    "--key-kind", default="p256", show_default=True, type=click.Choice(SEAL_KEY_KINDS), help="Kind of a new key."
)
@click.option(
    "--repair", metavar="OLD.csr", help="Mend this request: a new one with --key, an OpenSSL configuration without."
)
@json_option
def csr(
    file: Path, kind: str | None, org_id: str, name: str, country: str | None, nca_name: str | None, roles: str, dns: str, policy: str,
    qscd: bool, key_file: Path | None, key_kind: str, repair: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Write a certificate request for a QWAC or QSealC, with the PSD2 statement as trust service providers expect it.

    A new private key is written beside it as FILE with the suffix .key, mode 0600. With --repair, a malformed request is read
    and what it meant is written as it should be.
    """
    given = None if key_file is None else load_key(read_input(str(key_file), max_bytes=MAX_SOURCE_BYTES))
    if repair is not None:
        files = [(file, _repaired(_read_request(repair), given, kind), PUBLIC)]
    else:
        kind = kind or "qwac"
        provider = _provider(org_id, name, country, nca_name, roles, dns)
        possible = SEAL_KEY_KINDS if kind == "qseal" else KEY_KINDS
        key = given or KeySource().make_key("csr", kind=require_kind(key_kind, possible))
        files = [(file, _request_pem(make_request(provider, kind, key, policy=policy, qscd=qscd)), PUBLIC)]
        if given is None:
            files.append((file.with_suffix(".key"), key_pem(key), PRIVATE))
    _write_all(files)
    written = [str(path) for path, _, _ in files]
    if as_json:
        print_json({"files": written})
    else:
        click.echo("\n".join(written))


def _repaired(old: EidasRequest, key: PrivateKey | None, kind: str | None) -> bytes:
    if key is None:
        return openssl_config(old, kind=kind).encode()
    return _request_pem(repair_request(old, key, kind=kind))


def _request_pem(request: bytes) -> bytes:
    return pem_block("CERTIFICATE REQUEST", request)


def _write_all(files: Sequence[tuple[Path, bytes, int]]) -> None:
    """Write new files, all or none."""
    written: list[Path] = []
    try:
        for path, content, mode in files:
            write_new(path, content, mode=mode)
            written.append(path)
    except ConfigurationError:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _read_request(name: str) -> EidasRequest:
    for source in read_sources(read_input(name, max_bytes=MAX_SOURCE_BYTES)):
        if source.kind == "csr":
            return EidasRequest.from_der(source.der)
    raise FormatError("certificate.not-found", f"no certificate request stands in {name}")


def _first(certificates: tuple[EidasCertificate, ...], file: Path) -> EidasCertificate:
    if not certificates:
        raise FormatError("certificate.not-found", f"no certificate stands in {file}")
    return certificates[0]
