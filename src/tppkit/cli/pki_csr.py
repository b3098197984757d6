"""`tppkit pki csr`: a certificate request made, or a malformed one mended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tppkit._files import PRIVATE, PUBLIC, write_new
from tppkit._text import printable
from tppkit.certificates import EidasRequest
from tppkit.cli.certificates import key_password_option, read_key, read_password
from tppkit.cli.output import DOES_NOT_HOLD, HOLDS, finding_object, json_option, print_json, say
from tppkit.cli.pki_options import (
    is_given,
    policy_option,
    provider_from,
    provider_options,
    qscd_option,
    read_request,
    refuse_options,
    split_roles,
)
from tppkit.errors import Finding, FormatError
from tppkit.testpki import KEY_KINDS, SEAL_KEY_KINDS, KeySource, Provider, key_pem
from tppkit.testpki.keys import PrivateKey, require_kind
from tppkit.testpki.pem import pem_block
from tppkit.testpki.provider import Corrections, make_corrections
from tppkit.testpki.repair import Change, changes_of, faults_left, openssl_config, repair_request
from tppkit.testpki.request import KINDS, kind_of, make_request

_Files = Sequence[tuple[str, bytes, int]]


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--kind", type=click.Choice(KINDS), help="What it is for; a QWAC by default, with --repair what OLD.csr says."
)
@provider_options()
@policy_option(default="gen")
@qscd_option
@click.option(
    "--key", "key_file", metavar="KEY", help="The private key: PEM, DER or PKCS#12; a new one is written by default."
)
@key_password_option
@click.option(
    "--key-kind", default="p256", show_default=True, type=click.Choice(SEAL_KEY_KINDS), help="Kind of a new key."
)
@click.option(
    "--repair", metavar="OLD.csr", help="Mend this request: a new one with --key, an OpenSSL configuration without."
)
@json_option
def csr(
    file: str, kind: str | None, org_id: str, name: str, country: str | None, nca_name: str | None, roles: str, dns: str, policy: str,
    qscd: bool, key_file: str | None, password_file: Path | None, key_kind: str, repair: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Write a certificate request for a QWAC or QSealC, with the PSD2 statement as trust service providers expect it.

    A new private key is written beside it as FILE with the suffix .key, mode 0600. With --repair, a malformed request is read,
    what it meant is written as it should be, and what was changed is told, and what is left that only the holder can mend (exit 1);
    options such as --country then say one thing that OLD.csr has wrong. FILE may be -.
    """
    _require_one_stream(file, key_file, repair, as_json=as_json)
    given = None if key_file is None else _read_key(key_file, password_file)
    if repair is not None:
        refuse_options(("policy", "qscd", "key_kind"), because="with --repair it comes from OLD.csr")
        old = read_request(repair)
        kind = kind or kind_of(old)
        if kind == "qseal":
            refuse_options(("dns",), because="a qseal does not take it")
        corrections = _corrections(org_id, name, country, nca_name, roles, dns)
        files = _repair(file, old, given, kind, corrections)
        changes = changes_of(old, kind=kind, corrections=corrections)
        left = faults_left(old, kind=kind, corrections=corrections)
        _write_all(files)
        _tell_repair(files, changes, left, as_json=as_json)
        return DOES_NOT_HOLD if left else HOLDS
    kind = kind or "qwac"
    refuse_options(("qscd",) if kind == "qwac" else ("policy", "dns"), because=f"a {kind} does not take it")
    if given is not None:
        refuse_options(("key_kind",), because="with --key no new key is made")
    provider = provider_from(org_id, name, country, nca_name, roles, dns)
    files = _request(file, provider, kind, given, key_kind, policy=policy, qscd=qscd)
    _write_all(files)
    _tell(files, as_json=as_json)
    return HOLDS


def _require_one_stream(file: str, key_file: str | None, repair: str | None, *, as_json: bool) -> None:
    if key_file == repair == "-":
        raise click.UsageError("--key and --repair cannot both be standard input")
    if file == "-" and as_json:
        raise click.UsageError("standard output cannot hold both the request and JSON")
    if file == "-" and key_file is None and repair is None:
        raise click.UsageError("to standard output a request needs --key: a new key has no place there")


def _read_key(name: str, password_file: Path | None) -> PrivateKey:
    if name in SEAL_KEY_KINDS and not Path(name).exists():
        raise click.UsageError(f"--key names a file; a new key of the kind {name} is made with --key-kind {name}")
    key = read_key(name, read_password(password_file))
    if not isinstance(key, PrivateKey):
        raise FormatError("key.unsupported", f"a certificate is not requested for a {type(key).__name__}")
    return key


def _request(
    file: str, provider: Provider, kind: str, given: PrivateKey | None, key_kind: str, *, policy: str, qscd: bool
) -> _Files:
    possible = SEAL_KEY_KINDS if kind == "qseal" else KEY_KINDS
    key = given or KeySource().make_key("csr", kind=require_kind(key_kind, possible))
    request = (file, _pem(make_request(provider, kind, key, policy=policy, qscd=qscd)), PUBLIC)
    if given:
        return [request]
    key_name = str(Path(file).with_suffix(".key"))
    if key_name == file:
        raise click.UsageError(f"{file} is the name of the new key: give the request another suffix, such as .csr")
    return [request, (key_name, key_pem(key), PRIVATE)]


def _corrections(
    org_id: str, name: str, country: str | None, nca_name: str | None, roles: str, dns: str
) -> Corrections:
    """What the options say that were given."""
    return make_corrections(
        organization_identifier=org_id if is_given("org_id") else None,
        name=name if is_given("name") else None,
        country=country,
        nca_name=nca_name,
        roles=split_roles(roles) if is_given("roles") else None,
        dns_name=dns if is_given("dns") else None,
    )


def _repair(file: str, old: EidasRequest, key: PrivateKey | None, kind: str, corrections: Corrections) -> _Files:
    if key is None:
        return [(file, openssl_config(old, kind=kind, corrections=corrections).encode(), PUBLIC)]
    return [(file, _pem(repair_request(old, key, kind=kind, corrections=corrections)), PUBLIC)]


def _pem(request: bytes) -> bytes:
    return pem_block("CERTIFICATE REQUEST", request)


def _write_all(files: _Files) -> None:
    """Write new files, all or none; `-` is standard output."""
    written: list[Path] = []
    try:
        for name, content, mode in files:
            if name == "-":
                click.echo(content, nl=False)
            else:
                write_new(Path(name), content, mode=mode)
                written.append(Path(name))
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _tell(files: _Files, *, as_json: bool, told: Mapping[str, Any] | None = None) -> None:
    written = [name for name, _, _ in files if name != "-"]
    if as_json:
        print_json({"files": written, **(told or {})})
    elif written:
        click.echo("\n".join(written))


def _tell_repair(files: _Files, changes: Sequence[Change], left: Sequence[Finding], *, as_json: bool) -> None:
    for field, before, after in changes:
        say(printable(f"{field}: {before or 'nothing'} -> {after or 'nothing'}"))
    if not changes:
        say("nothing had to be changed")
    for finding in left:
        say(printable(f"left: {finding.message} [{finding.code}]"))
    told = {"changes": [change._asdict() for change in changes], "left": [finding_object(finding) for finding in left]}
    _tell(files, as_json=as_json, told=told)
