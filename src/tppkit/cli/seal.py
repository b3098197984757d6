"""`tppkit seal`: seal requests and verify them."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from tppkit._clock import format_time
from tppkit.certificates import EidasCertificate, OrganizationPolicy
from tppkit.cli.certificates import read_bundle, read_key, read_password
from tppkit.cli.output import (
    HOLDS,
    at_option,
    json_option,
    present,
    print_json,
    read_input,
    require_one_stdin,
)  # fmt: skip
from tppkit.cli.seal_diagnose import diagnose
from tppkit.cli.seal_options import CERTIFICATE, ORIGIN, PROFILE, PROFILE_HELP, organization_options, read_origin
from tppkit.cli.sealed_request import entry_option, files_option, read_sealed_request
from tppkit.cli.trust_options import (
    listing_facts,
    listing_object,
    revocation_facts,
    revocation_object,
    trust_options,
)
from tppkit.cli.verdict import print_verdict, verdict_object
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig.components import Origin
from tppkit.httpsig.http_date import format_http_date
from tppkit.httpsig.message import is_field_name
from tppkit.httpsig.wire import MAX_MESSAGE_BYTES
from tppkit.protocol.psd2.rules import parse_request_id
from tppkit.seals import (
    Message,
    Seal,
    SealPolicy,
    SealProfile,
    VerifiedRequest,
    sign_request,
    verify_request,
)
from tppkit.trust import load_revocation, load_trust

_METHOD = re.compile(r"[A-Za-z]{1,20}")
_ADDRESS = re.compile(r"([Hh][Tt][Tt][Pp][Ss]?://[!-.0->@-~]+)?(/[!\"$-~]*)?(?<=.)")
_file = click.Path(path_type=Path)
_profile_option = click.option(
    "--profile", "row", default="psd2-v1", show_default=True, type=PROFILE, help=PROFILE_HELP
)


@click.group()
def seal() -> None:
    """Seal requests, verify seals, and explain why a seal does not verify."""


seal.add_command(diagnose)


@seal.command()
@click.option("--key", required=True, metavar="FILE", help="The QSealC's private key: PEM, DER or PKCS#12.")
@click.option("--cert", "certificate", required=True, metavar="FILE", help="The QSealC.")
@click.option("--method", required=True, help="HTTP method.")
@click.option("--url", required=True, help="The whole address, or path and query.")
@click.option("--body", default=None, metavar="FILE", help="The exact body; - is standard input.")
@click.option("--request-id", default=None, metavar="UUID", help="X-Request-ID; a new one by default.")
@click.option("--header", "headers", multiple=True, metavar="'N: V'", help="A further header.")
@click.option(
    "--key-id", default=None, metavar="TEXT", help="keyId, for a dialect where it is a client id or an address."
)
@click.option(
    "--password-file", type=_file, help="First line: the password of the key, and of the QSealC if it is PKCS#12."
)
@at_option
@_profile_option
@json_option
def sign(
    key: str, certificate: str, method: str, url: str, body: str | None, request_id: str | None,
    headers: tuple[str, ...], key_id: str | None, password_file: Path | None, at: datetime | None, row: SealProfile, as_json: bool,
) -> None:  # fmt: skip
    """Print the headers to send with a request, one a line."""
    time, (origin, target) = present(at), _address(url)
    if not _METHOD.fullmatch(method):
        raise click.BadParameter(f"{method!r} is not a method as in POST", param_hint="--method")
    require_one_stdin(key, certificate, body)
    password = read_password(password_file)
    private, leaf = read_key(key, password), read_bundle(certificate, password).leaf
    ready = Seal.for_key(leaf, private, profile=row, key_id=key_id, origin=origin)
    content = b"" if body is None else read_input(body, max_bytes=MAX_MESSAGE_BYTES)
    rid = parse_request_id(request_id or str(uuid4()))
    further = [(_request_id_header(row), rid), *(_header(text) for text in headers)]
    if "date" in row.covered and not any(name.lower() == "date" for name, _ in further):
        further.append(("Date", format_http_date(time)))
    message = Message(method.upper(), target, tuple(further), content)
    sealed = sign_request(message, seal=ready, at=time)
    if as_json:
        print_json({"headers": [list(header) for header in sealed.headers]})
        return
    for name, value in sealed.headers:
        click.echo(f"{name}: {value}")


@seal.command()
@click.argument("request_file", metavar="REQUEST")
@trust_options
@click.option("--qwac", type=CERTIFICATE, help="The website certificate; its organisation must be the seal's.")
@click.option(
    "--known",
    multiple=True,
    metavar="KEYID=FILE",
    help="The seal certificate of a keyId; no other is accepted under it.",
)
@click.option(
    "--intermediate", "intermediate_files", multiple=True, metavar="FILE",
    help="Authorities between the seal and an anchor, in any form.",
)  # fmt: skip
@click.option("--origin", type=ORIGIN, help="Where the request arrived, for a dialect that covers scheme or authority.")
@organization_options
@entry_option
@files_option
@at_option
@_profile_option
@json_option
def verify(
    request_file: str, trust: Path | None, trusted_lists: Path | None, crls: tuple[Path, ...],
    responses: tuple[Path, ...], qwac: EidasCertificate | None,
    known: tuple[str, ...], intermediate_files: tuple[str, ...],
    origin: Origin | None, entry: int | None, allow_files: bool, at: datetime | None, row: SealProfile, as_json: bool,
    organizations: OrganizationPolicy,
) -> int:  # fmt: skip
    """Verify a sealed request.

    REQUEST is a raw HTTP/1.1 request, a HAR file, a curl command line or an evidence archive; - is standard input.
    """
    if trust is None and trusted_lists is None:
        raise click.UsageError("give the authorities with --trust or --trusted-lists")
    certificates = dict(_known(text) for text in known)
    given = read_sealed_request(
        request_file, entry=entry, allow_files=allow_files, certificates=tuple(certificates.values())
    )
    message = given.message
    bundles = [read_bundle(name, None) for name in intermediate_files]
    above = [certificate for bundle in bundles for certificate in (bundle.leaf, *bundle.others)]
    time = present(at)
    answers = load_revocation((*crls, *responses)) if crls or responses else None
    material = load_trust(trust=trust, trusted_lists=trusted_lists, answers=answers, now=max(present(None), time))
    policy = SealPolicy(material, profile=row, certificates=certificates, origin=origin, organizations=organizations)
    try:
        verified = verify_request(message, qwac=qwac, at=time, policy=policy, intermediates=above)
    except FormatError as e:  # a malformed seal is a verdict, not an unreadable file
        raise SignatureRejected(e.code, e.message, clause=e.clause) from e
    path, asked = verified.path, material.revocation is not None
    lists = material.lists
    status = None if lists is None else lists.status(verified.seal, at=time, intermediates=above)
    if as_json:
        revocation = revocation_object(path, asked=asked)
        listing = listing_object(status)
        print_json(verdict_object(path.findings, **_proven(verified), revocation=revocation, trusted_list=listing))
    else:
        further = [*revocation_facts(path, asked=asked), *listing_facts(status)]
        _print(verified, further)
    return HOLDS


def _print(verified: VerifiedRequest, further: list[tuple[str, str]]) -> None:
    facts = _proven(verified)
    if not verified.covers_target:
        facts |= {"method": "not signed", "target": "not signed"}
    if verified.qwac is None:
        facts["same_organization_as_qwac"] = "not compared: no --qwac"
    proven = [(name, str(value)) for name, value in facts.items()]
    about = f"the seal of {verified.organization_identifier}"
    print_verdict(about, [*proven, *further], verified.path.findings)


def _proven(verified: VerifiedRequest) -> dict[str, Any]:
    return {
        "organization_identifier": verified.organization_identifier,
        "roles": list(verified.seal.roles),
        "same_organization_as_qwac": verified.qwac is not None or None,
        "method": verified.method if verified.covers_target else None,
        "target": verified.target if verified.covers_target else None,
        "covered_headers": dict(verified.covered),
        "body_bytes": len(verified.body),
        "algorithm": verified.parameters.algorithm,
        "seal_sha256": verified.seal.sha256,
        "at": format_time(verified.at),
        "profile": verified.profile.name,
    }


def _known(text: str) -> tuple[str, EidasCertificate]:
    key_id, separator, path = text.rpartition("=")  # a keyId may contain =, the file name may not
    if not separator:
        raise click.BadParameter(f"{text!r} is not KEYID=FILE", param_hint="--known")
    return key_id, read_bundle(path, None).leaf


def _request_id_header(profile: SealProfile) -> str:
    name = profile.request_id or "x-request-id"
    return "X-Request-ID" if name == "x-request-id" else name.title()


def _address(url: str) -> tuple[Origin | None, str]:
    """Split an address into origin and target; the target is signed, so it stays unchanged."""
    match = _ADDRESS.fullmatch(url)
    if match is None:
        raise click.BadParameter(
            f"{url!r} is neither a whole http or https address nor a path and query that begin with a slash, in printable "
            "ASCII and without a fragment",
            param_hint="--url",
        )
    origin, target = match.groups()
    return None if origin is None else read_origin(origin, "--url"), target or "/"


def _header(text: str) -> tuple[str, str]:
    name, separator, value = text.partition(":")
    if not separator or not is_field_name(name) or not (value.isascii() and value.isprintable()):
        raise click.BadParameter(f"{text!r} is not 'Name: value' in printable ASCII", param_hint="--header")
    return name, value.strip()
