"""`tppkit pki`: test certificates and their services."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any

import click

from tppkit._clock import format_time
from tppkit._files import PRIVATE, PUBLIC, replace_file, write_new
from tppkit.cli.certificates import key_password_option, read_bundle, read_key, read_password, read_request
from tppkit.cli.output import (
    Result,
    echo,
    fact_lines,
    json_flag,
    json_option,
    present,
    print_json,
    read_time,
    say,
    table_lines,
)
from tppkit.errors import FormatError
from tppkit.testpki import Provider, key_pem, make_pki, make_provider, write_pki
from tppkit.testpki.crl import NO_LONGER, REASONS
from tppkit.testpki.files import entry_of
from tppkit.testpki.folder import open_pki
from tppkit.testpki.keys import KEY_KINDS, SEAL_KEY_KINDS, KeySource, PrivateKey, require_kind
from tppkit.testpki.manifest import MANIFEST, manifest_json
from tppkit.testpki.pem import pem_block
from tppkit.testpki.pki import DEFAULT_DAYS
from tppkit.testpki.profiles import QWAC_POLICIES, SERVICES_URL
from tppkit.testpki.provider import EXAMPLE
from tppkit.testpki.requests import KINDS, make_request

# The names of the options for the provider, as parameters of a command.
_PROVIDER = ("org_id", "name", "country", "nca_name", "roles", "dns")

_pki_argument = click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
_day_option = click.option(
    "--at", metavar="TIME", callback=read_time, help="Valid from midnight UTC of this day; today by default."
)
_qscd_option = click.option("--qscd", is_flag=True, help="QSealCs state a qualified device.")
_policy_option = click.option(
    "--policy",
    type=click.Choice([*QWAC_POLICIES]),
    help="Policy of QWACs: for payment services only (gen, the default of a new PKI), or for browsers too (ev).",
)
# Options that have no effect on a certificate of a kind.
_IDLE = {
    "qwac": ("qscd",),
    "qseal": ("policy", "dns"),
    "server": ("policy", "qscd", *(name for name in _PROVIDER if name != "dns")),
    "csr": ("policy", "qscd", "key", *_PROVIDER),
}


def _provider_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the provider, as the parameter `provider_of`.

    It is a function that makes the provider: one like a given provider, that of a PKI, or else one like the default.
    """

    # fmt: off
    @click.option("--org-id", metavar="ID",
                  help=f"organizationIdentifier; that of the PKI, or {EXAMPLE.organization_identifier.text}, by default.")
    @click.option("--name", help=f"The organisation's name; that of the PKI, or {EXAMPLE.name}, by default.")
    @click.option("--country", metavar="CC", help="Two letters; that of the organizationIdentifier by default.")
    @click.option("--nca-name", metavar="NAME", help="The competent authority's name.")
    @click.option("--roles", metavar="ROLE,...",
                  help=f"PSD2 roles, separated by commas; those of the PKI, or {','.join(EXAMPLE.roles)}, by default.")
    @click.option("--dns", metavar="NAME", help=f"The QWAC's DNS name; that of the PKI, or {EXAMPLE.dns_name}, by default.")
    @wraps(command)
    def with_provider(*args: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in _PROVIDER}
        roles = given["roles"]

        def provider_of(provider: Provider | None = None) -> Provider:
            return make_provider(
                like=provider or EXAMPLE,
                organization_identifier=given["org_id"],
                name=given["name"],
                country=given["country"],
                nca_name=given["nca_name"],
                roles=None if roles is None else [role.strip() for role in roles.split(",") if role.strip()],
                dns_name=given["dns"],
            )

        return command(*args, provider_of=provider_of, **options)

    # fmt: on
    return with_provider


def _reject_options(names: Collection[str], *, because: str) -> None:
    """Reject options of the running command that would have no effect.

    Args:
        names: Their names as parameters; none has a default.
        because: The reason, for the message.

    Raises:
        click.UsageError: One of them was given.
    """
    context = click.get_current_context()
    own = {str(option.name): option.opts[0] for option in context.command.params}
    given = [own[name] for name in own if name in names and context.params.get(name) not in (None, False)]
    if given:
        raise click.UsageError(f"{', '.join(given)}: {because}")


@click.group()
def pki() -> None:
    """Make test certificates, and serve OCSP, revocation lists, time stamps and trusted lists for them."""


@pki.command()
@_pki_argument
@_provider_options
@click.option("--key", default="p256", show_default=True, type=click.Choice(KEY_KINDS), help="Kind of every key.")
@click.option("--seal-key", type=click.Choice(SEAL_KEY_KINDS), help="Kind of the keys of QSealCs, if it differs.")
@_policy_option
@_qscd_option
@click.option(
    "--days", type=int, metavar="N",
    help=f"Validity of end-entity certificates in days; {DEFAULT_DAYS} by default, with --policy ev a day less than browsers accept.",
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
@_day_option
@json_option
def create(
    directory: Path, provider_of: Callable[[], Provider], seed: int | None, faults: bool, at: datetime | None,
    policy: str | None, **options: Any,
) -> Result:  # fmt: skip
    """Make a whole test PKI in the new folder DIR. Its README.md explains each file; its manifest.json names them for programs.

    Certificates are valid from midnight UTC of the day. Private keys have mode 0600.
    """
    if seed is not None and "rsa" in f"{options['key']} {options['seal_key']}":
        say("making RSA keys from a seed takes from seconds (2048 bits) to a minute (4096 bits)")
    provider = provider_of()
    made = make_pki(at=present(at), provider=provider, seed=seed, policy=policy or "gen", **options)
    manifest = write_pki(made, directory, with_faults=faults)
    rows = [
        (str(directory / entry["path"]), entry["kind"], f"key {entry['key_path']}" if entry["key_path"] else "")
        for entry in manifest["files"]
    ]
    owner = f"{provider.organization_identifier.text} ({','.join(manifest['roles'])})"
    message = f"test certificates for {owner}; see {directory / 'README.md'} for how to use them. For tests only"
    return Result(manifest, table_lines(rows), message=message)


@pki.command()
@json_option
def faults() -> Result:
    """List the faults that `pki create --faults` makes, and what a check and a gate report of each."""
    from tppkit.testpki.faults.catalogue import FAULTS

    shown = [
        {
            "name": fault.name, "summary": fault.summary, "as": fault.use.value,
            "expected": list(fault.expected), "verdict": fault.verdict, "gate": fault.gate,
        }
        for fault in FAULTS.values()
    ]  # fmt: skip
    lines = [
        line
        for fault in FAULTS.values()
        for line in (
            f"{fault.name} ({fault.use.value})", f"  {fault.summary}",
            f"  {fault.verdict}: {', '.join(fault.expected)}; gate: {fault.gate}",
        )
    ]  # fmt: skip
    return Result(shown, lines, message=f"{len(FAULTS)} faults")


@pki.command()
@_pki_argument
@json_option
def renew(directory: Path) -> Result:
    """Sign the revocation lists and trusted lists of DIR again, dated now. `serve` renews those that end soon."""
    names = open_pki(directory).renew(now=present(None))
    return Result({"files": list(names)}, [str(directory / name) for name in names])


@pki.command()
@_pki_argument
@click.option(
    "--port", default=8448, show_default=True, type=click.IntRange(0, 65535), metavar="N", help="0 chooses a free port."
)
@click.option(
    "--ready-file", type=click.Path(path_type=Path), metavar="FILE", help="Written as JSON once the services answer."
)
@json_flag
def serve(directory: Path, port: int, ready_file: Path | None, as_json: bool) -> None:
    """Serve OCSP, CRLs, time stamps, issuing certificates and trusted lists of DIR over HTTP on loopback, until interrupted."""
    from tppkit.sandbox.pki_services import PkiServer

    def announce() -> None:
        if ready_file is not None:
            replace_file(ready_file, manifest_json(server.addresses), mode=PRIVATE)
        if as_json:
            print_json(server.addresses)
        for line in () if as_json else fact_lines(server.addresses.items()):
            echo(line)
        say("the services answer; stop them with Ctrl-C")

    server = PkiServer(directory, port=port)
    asyncio.run(server.serve_until_stopped(on_ready=announce))


@pki.command()
@click.argument("kind", type=click.Choice([*_IDLE]))
@_pki_argument
@click.option("--label", help="Name of the new files without suffix; the kind and a number by default.")
@_provider_options
@click.option(
    "--key", type=click.Choice(SEAL_KEY_KINDS), help="Kind of its key; that of the first certificates by default."
)
@_policy_option
@_qscd_option
@click.option("--days", type=int, metavar="N", help="Validity in days; that of the first certificates by default.")
@click.option("--csr", metavar="FILE", help="The request, for the kind csr.")
@_day_option
@json_option
def issue(
    kind: str, directory: Path, label: str | None, provider_of: Callable[[Provider], Provider], key: str | None,
    policy: str | None, qscd: bool, days: int | None, csr: str | None, at: datetime | None,
) -> Result:  # fmt: skip
    """Issue one more certificate in the test PKI of DIR: a QWAC, a QSealC, a server certificate (for --dns), or what a CSR asks for.

    It names the provider of the PKI unless options name another, and is valid from midnight UTC of the day. A request that asks
    for something that the certificate would lack is rejected.
    """
    if (csr is None) == (kind == "csr"):
        raise click.UsageError("the kind csr needs --csr FILE, and no other kind takes one")
    _reject_options(_IDLE[kind], because=f"a certificate of the kind {kind} does not take it")
    folder = open_pki(directory)
    # A PKI may begin in the future.
    when: dict[str, Any] = {"at": at or max(present(None), folder.pki.not_before), "days": days, "label": label}
    if csr is not None:
        entry = folder.issue_requested(read_request(csr), **when)
    else:
        provider = provider_of(folder.pki.provider)
        entry = entry_of(folder.issue(kind, provider, policy=policy, qscd=qscd or None, key=key, **when))
    return Result(entry, table_lines([(str(directory / entry["path"]), entry["kind"])]))


@pki.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The test PKI; by default the folder of FILE or the one above it.",
)
@click.option(
    "--reason",
    help=f"The reason: {', '.join(reason for reason in REASONS if reason != NO_LONGER)}. The first by default.",
)  # fmt: skip
@click.option("--lift", is_flag=True, help="End a hold (certificateHold): the certificate is no longer revoked.")
@click.option("--at", metavar="TIME", callback=read_time, help="Time of revocation; now by default, and never later.")
@json_option
def revoke(file: str, directory: Path | None, reason: str | None, lift: bool, at: datetime | None) -> Result:
    """Revoke the certificate in FILE: the CRL of its issuer is written again, and `pki serve` answers accordingly at once.

    A certificate on hold (--reason certificateHold) can be revoked again for another reason, or released with --lift.
    """
    if lift:
        _reject_options(("reason", "at"), because="--lift ends a hold now")
    if directory is None and file == "-":
        raise click.UsageError("a certificate from standard input needs --dir DIR")
    certificate = read_bundle(file, None).leaf
    folder = open_pki(directory or _folder_of(Path(file)))
    now = max(present(None), folder.pki.not_before)  # a PKI may begin in the future
    if lift:
        folder = folder.lift(certificate, now=now)
    else:
        folder = folder.revoke(certificate, at=at or now, reason=reason or "unspecified", now=now)
    since = folder.revocation_of(certificate)
    shown = {"reason": since.reason, "at": format_time(since.at)} if since else {"reason": None, "at": None}
    value = {"sha256": certificate.sha256, "serial_hex": certificate.serial_hex, "lifted": lift, **shown}
    what = f"revoked since {shown['at']}, {shown['reason']}" if since else "no longer on hold"
    return Result(value, [f"{certificate.subject} (serial {certificate.serial_hex}): {what}"])


def _folder_of(file: Path) -> Path:
    """Return the folder of a certificate's PKI: that of the file, or the one above it, as for faults."""
    return next((folder for folder in (file.parent, file.parent.parent) if (folder / MANIFEST).is_file()), file.parent)


@pki.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--kind", default="qwac", show_default=True, type=click.Choice(KINDS), help="The requested certificate.")
@_provider_options
@_policy_option
@_qscd_option
@click.option(
    "--key", "key_file", metavar="KEY", help="The private key: PEM, DER or PKCS#12; a new one is written by default."
)
@key_password_option
@click.option("--key-kind", type=click.Choice(SEAL_KEY_KINDS), help="Kind of a new key; p256 by default.")
@json_option
def csr(
    file: Path, kind: str, provider_of: Callable[[], Provider], policy: str | None, qscd: bool, key_file: str | None,
    password_file: Path | None, key_kind: str | None,
) -> Result:  # fmt: skip
    """Write a certificate request for a QWAC or QSealC, with the PSD2 statement that trust service providers expect.

    A new private key is written beside it, as FILE with the suffix .key and mode 0600.
    """
    _reject_options(("qscd",) if kind == "qwac" else ("policy", "dns"), because=f"a {kind} does not take it")
    if key_file is None:
        possible = SEAL_KEY_KINDS if kind == "qseal" else KEY_KINDS
        key = KeySource().make_key("csr", kind=require_kind(key_kind or "p256", possible))
    else:
        _reject_options(("key_kind",), because="with --key no new key is made")
        key = _read_key(key_file, password_file)
    der = make_request(provider_of(), kind, key, policy=policy or "gen", qscd=qscd)
    written = [file] if key_file else [file, file.with_suffix(".key")]
    write_new(file, pem_block("CERTIFICATE REQUEST", der), mode=PUBLIC)
    try:
        for path in written[1:]:
            write_new(path, key_pem(key), mode=PRIVATE)
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    names = [str(path) for path in written]
    return Result({"files": names}, names)


def _read_key(name: str, password_file: Path | None) -> PrivateKey:
    key = read_key(name, read_password(password_file))
    if not isinstance(key, PrivateKey):
        raise FormatError("key.unsupported", f"a certificate cannot be requested for a {type(key).__name__}")
    return key
