"""`tppkit pki csr`: make a certificate request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from tppkit._files import PRIVATE, PUBLIC, write_new
from tppkit.cli.certificates import key_password_option, read_key, read_password
from tppkit.cli.output import json_option, print_json
from tppkit.cli.pki_options import policy_option, provider_from, provider_options, qscd_option, reject_options
from tppkit.errors import FormatError
from tppkit.testpki import KEY_KINDS, SEAL_KEY_KINDS, KeySource, key_pem
from tppkit.testpki.keys import PrivateKey, require_kind
from tppkit.testpki.pem import pem_block
from tppkit.testpki.requests import KINDS, make_request

_Files = Sequence[tuple[str, bytes, int]]


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--kind", default="qwac", show_default=True, type=click.Choice(KINDS), help="The requested certificate.")
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
@json_option
def csr(
    file: str, kind: str, org_id: str, name: str, country: str | None, nca_name: str | None, roles: str, dns: str, policy: str,
    qscd: bool, key_file: str | None, password_file: Path | None, key_kind: str, as_json: bool,
) -> None:  # fmt: skip
    """Write a certificate request for a QWAC or QSealC, with the PSD2 statement that trust service providers expect.

    A new private key is written beside it, as FILE with the suffix .key and mode 0600. FILE may be -, if --key is given.
    """
    if file == "-" and as_json:
        raise click.UsageError("standard output cannot hold both the request and JSON")
    if file == "-" and key_file is None:
        raise click.UsageError("a request on standard output needs --key: a new key has no file name")
    given = None if key_file is None else _read_key(key_file, password_file)
    reject_options(("qscd",) if kind == "qwac" else ("policy", "dns"), because=f"a {kind} does not take it")
    if given is not None:
        reject_options(("key_kind",), because="with --key no new key is made")
    provider = provider_from(org_id, name, country, nca_name, roles, dns)
    possible = SEAL_KEY_KINDS if kind == "qseal" else KEY_KINDS
    key = given or KeySource().make_key("csr", kind=require_kind(key_kind, possible))
    request = pem_block("CERTIFICATE REQUEST", make_request(provider, kind, key, policy=policy, qscd=qscd))
    files = [(file, request, PUBLIC), *([] if given else [_key_file(file, key)])]
    _write_all(files)
    written = [name for name, _, _ in files if name != "-"]
    if as_json:
        print_json({"files": written})
    elif written:
        click.echo("\n".join(written))


def _read_key(name: str, password_file: Path | None) -> PrivateKey:
    if name in SEAL_KEY_KINDS and not Path(name).exists():
        raise click.UsageError(f"--key names a file; a new key of the kind {name} is made with --key-kind {name}")
    key = read_key(name, read_password(password_file))
    if not isinstance(key, PrivateKey):
        raise FormatError("key.unsupported", f"a certificate cannot be requested for a {type(key).__name__}")
    return key


def _key_file(file: str, key: PrivateKey) -> tuple[str, bytes, int]:
    name = str(Path(file).with_suffix(".key"))
    if name == file:
        raise click.UsageError(f"{file} is the name of the new key: give the request another suffix, such as .csr")
    return name, key_pem(key), PRIVATE


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
