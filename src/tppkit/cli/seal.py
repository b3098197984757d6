"""`tppkit seal`: seal requests, verify seals, and explain why a seal does not verify."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from tppkit._clock import format_time
from tppkit._text import printable
from tppkit.certificates import EidasCertificate, OrganizationPolicy, Use
from tppkit.cli.certificates import read_bundle, read_certificate, read_key, read_password, seal_password_option
from tppkit.cli.output import (
    DOES_NOT_HOLD,
    HOLDS,
    Raw,
    Result,
    at_option,
    colored,
    fact_lines,
    headers_result,
    json_option,
    parsed,
    present,
    read_input,
    read_time,
    require_one_stdin,
    verdict,
)
from tppkit.cli.sealed_request import entry_option, files_option, read_sealed_request
from tppkit.cli.trust_options import (
    PROFILE_HELP,
    TrustFiles,
    organization_options,
    read_profile,
    trust_facts,
    trust_object,
    trust_options,
)
from tppkit.errors import FormatError, SignatureRejected
from tppkit.evidence.checks import verify_agreement
from tppkit.evidence.record import read_header_block
from tppkit.httpsig.components import Origin, parse_origin
from tppkit.httpsig.http_date import format_http_date
from tppkit.httpsig.signing_string import is_field_name
from tppkit.httpsig.wire import MAX_MESSAGE_BYTES
from tppkit.protocol.psd2.rules import parse_request_id
from tppkit.seals import Message, Seal, SealPolicy, SealProfile, VerifiedRequest, sign_request, verify_request
from tppkit.seals.diagnose import Diagnosis, DiagnosisOutcome, diagnose_request
from tppkit.seals.diagnose.report import visible
from tppkit.seals.profiles import PSD2_V1
from tppkit.trust import check_trust

_WIDTH = 110  # of an explanation
_METHOD = re.compile(r"[A-Za-z]{1,20}")
_ADDRESS = re.compile(r"([Hh][Tt][Tt][Pp][Ss]?://[!-.0->@-~]+)?(/[!\"$-~]*)?(?<=.)")
_qwac_option = click.option(
    "--qwac",
    metavar="FILE",
    callback=parsed(read_certificate),
    help="The website certificate; its organisation must be the seal's.",
)
_origin_option = click.option(
    "--origin",
    metavar="URL",
    callback=parsed(parse_origin),
    help="Where the request arrived, for a dialect that covers scheme or authority.",
)


def _profile_option(name: str, *, default: str | None, help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    shown = default is not None
    callback = parsed(read_profile)
    return click.option(
        "--profile", name, default=default, show_default=shown, metavar="NAME|FILE.toml", callback=callback, help=help
    )


def _read_address(url: str) -> tuple[Origin | None, str]:
    """Split an address into origin and target; the target is signed, so it stays unchanged."""
    match = _ADDRESS.fullmatch(url)
    if match is None:
        raise click.BadParameter(
            f"{url!r} is neither a whole http or https address nor a path and query that begin with a slash, in printable "
            "ASCII and without a fragment"
        )
    origin, target = match.groups()
    return parse_origin(origin) if origin else None, target or "/"


def _read_header(text: str) -> tuple[str, str]:
    name, separator, value = text.partition(":")
    if not separator or not is_field_name(name) or not (value.isascii() and value.isprintable()):
        raise click.BadParameter(f"{text!r} is not 'Name: value' in printable ASCII")
    return name, value.strip()


def _read_known(text: str) -> tuple[str, EidasCertificate]:
    key_id, separator, file = text.rpartition("=")  # a keyId may contain =, the file name may not
    if not separator:
        raise click.BadParameter(f"{text!r} is not KEYID=FILE")
    return key_id, read_certificate(file)


@click.group()
def seal() -> None:
    """Seal requests, verify seals, and explain why a seal does not verify."""


@seal.command()
@click.option("--key", required=True, metavar="FILE", help="The QSealC's private key: PEM, DER or PKCS#12.")
@click.option("--cert", "certificate", required=True, metavar="FILE", help="The QSealC.")
@click.option("--method", required=True, help="HTTP method.")
@click.option(
    "--url", "address", required=True, callback=parsed(_read_address), help="The whole address, or path and query."
)
@click.option("--body", default=None, metavar="FILE", help="The exact body; - is standard input.")
@click.option("--request-id", default=None, metavar="UUID", help="X-Request-ID; a new one by default.")
@click.option(
    "--header", "headers", multiple=True, metavar="'N: V'", callback=parsed(_read_header), help="A further header."
)
@click.option(
    "--key-id", default=None, metavar="TEXT", help="keyId, for a dialect where it is a client id or an address."
)
@seal_password_option
@at_option
@_profile_option("row", default="psd2-v1", help=PROFILE_HELP)
@json_option
def sign(
    key: str, certificate: str, method: str, address: tuple[Origin | None, str], body: str | None, request_id: str | None,
    headers: tuple[tuple[str, str], ...], key_id: str | None, password_file: Path | None, at: datetime | None, row: SealProfile,
) -> Result:  # fmt: skip
    """Print the headers to send with a request, one a line."""
    time, (origin, target) = present(at), address
    if not _METHOD.fullmatch(method):
        raise click.BadParameter(f"{method!r} is not a method as in POST", param_hint="--method")
    require_one_stdin(key, certificate, body)
    password = read_password(password_file)
    private, leaf = read_key(key, password), read_bundle(certificate, password).leaf
    ready = Seal.for_key(leaf, private, profile=row, key_id=key_id, origin=origin)
    content = b"" if body is None else read_input(body, max_bytes=MAX_MESSAGE_BYTES)
    rid = parse_request_id(request_id or str(uuid4()))
    further = [(_request_id_header(row), rid), *headers]
    if "date" in row.covered and not any(name.lower() == "date" for name, _ in further):
        further.append(("Date", format_http_date(time)))
    message = Message(method.upper(), target, tuple(further), content)
    return headers_result(sign_request(message, seal=ready, at=time).headers)


@seal.command()
@click.argument("request_file", metavar="REQUEST")
@trust_options
@_qwac_option
@click.option(
    "--known",
    multiple=True,
    metavar="KEYID=FILE",
    callback=parsed(_read_known),
    help="The seal certificate of a keyId; no other is accepted under it.",
)
@_origin_option
@organization_options
@entry_option
@files_option
@at_option
@_profile_option("row", default="psd2-v1", help=PROFILE_HELP)
@json_option
def verify(
    request_file: str, trust: TrustFiles, qwac: EidasCertificate | None, known: tuple[tuple[str, EidasCertificate], ...],
    origin: Origin | None, entry: int | None, allow_files: bool, at: datetime | None, row: SealProfile,
    organizations: OrganizationPolicy,
) -> Result:  # fmt: skip
    """Verify a sealed request.

    REQUEST is a raw HTTP/1.1 request, a HAR file, a curl command line or an evidence archive; - is standard input.
    """
    if trust.anchors is None and trust.lists is None:
        raise click.UsageError("give the authorities with --trust or --trusted-lists")
    certificates = dict(known)
    given = read_sealed_request(
        request_file, entry=entry, allow_files=allow_files, certificates=tuple(certificates.values())
    )
    time = present(at)
    material = trust.load(time)
    policy = SealPolicy(material, profile=row, certificates=certificates, origin=origin, organizations=organizations)
    try:
        verified = verify_request(given.message, qwac=qwac, at=time, policy=policy)
        if given.record is not None:
            verify_agreement(given.record, verified, read_header_block(given.record.header_block))
    except FormatError as e:  # a malformed seal is a verdict, not an unreadable file
        raise SignatureRejected(e.code, e.message, clause=e.clause) from e
    path = verified.path
    status = check_trust(verified.seal, as_=Use.QSEALC, at=time, material=material, intermediates=path.chain[1:]).status
    proven = _proven(verified)
    facts = proven | {"roles": proven["roles"] or "none"} | trust_facts(path, status, material)
    if not verified.covers_target:
        facts |= {"method": "not signed", "target": "not signed"}
    if verified.covers_file_only:
        facts["signed_part"] = "the file of the form; its other fields are not signed"
    if verified.qwac is None:
        facts["same_organization_as_qwac"] = "not compared: no --qwac"
    return verdict(
        f"the seal of {verified.organization_identifier}",
        path.findings,
        proven={**proven, **trust_object(path, status, material)},
        facts=facts,
    )


def _proven(verified: VerifiedRequest) -> dict[str, Any]:
    return {
        "organization_identifier": verified.organization_identifier,
        "roles": list(verified.seal.roles),
        "same_organization_as_qwac": verified.qwac is not None or None,
        "method": verified.method if verified.covers_target else None,
        "target": verified.target if verified.covers_target else None,
        "covered_headers": dict(verified.covered),
        "private_parameters": dict(verified.private_parameters),
        "signed_part": "file" if verified.covers_file_only else "body",
        "body_bytes": len(verified.body),
        "algorithm": verified.parameters.algorithm,
        "seal_sha256": verified.seal.sha256,
        "at": format_time(verified.at),
        "profile": verified.profile.name,
    }


def _request_id_header(profile: SealProfile) -> str:
    name = profile.request_id or "x-request-id"
    return "X-Request-ID" if name == "x-request-id" else name.title()


@seal.command()
@click.argument("request_file", metavar="REQUEST")
@click.option(
    "--cert", "certificates", multiple=True, metavar="FILE", callback=parsed(read_certificate),
    help="A further certificate whose key may have signed the request, such as an old or a new one.",
)  # fmt: skip
@_qwac_option
@_origin_option
@_profile_option("profile", default=None, help=f"{PROFILE_HELP} psd2-v1 by default.")
@entry_option
@files_option
@click.option(
    "--show-values", is_flag=True, help="Show tokens, keys, card numbers and a signed body, which are masked otherwise."
)
@click.option(
    "--at",
    metavar="TIME",
    callback=read_time,
    help="Judge the request's age at this time; by default it is not judged.",
)
@json_option
def diagnose(
    request_file: str, certificates: tuple[EidasCertificate, ...], qwac: EidasCertificate | None, origin: Origin | None,
    profile: SealProfile | None, entry: int | None, allow_files: bool, show_values: bool, at: datetime | None,
) -> Result:  # fmt: skip
    """Explain why a sealed request does not verify, with proof, and what to do instead.

    REQUEST is a raw HTTP/1.1 request, a HAR file, a curl command line or an evidence archive; - is standard input. Trust in
    the certificate is not judged, and the request's age only with --at.
    """
    given = read_sealed_request(
        request_file, entry=entry, allow_files=allow_files, certificates=certificates, as_found=True
    )
    row = profile or given.profile or PSD2_V1
    known = (*given.certificates, *certificates)
    diagnosis = diagnose_request(
        given.message, certificates=known, profile=row, at=at, qwac=qwac, origin=origin, show_values=show_values
    )
    return Result(diagnosis.to_object(), _diagnosis_lines(diagnosis), HOLDS if diagnosis.explained else DOES_NOT_HOLD)


def _diagnosis_lines(diagnosis: Diagnosis) -> Iterator[str]:
    state, rest = _headline(diagnosis)
    yield Raw(f"{colored(state, holds=diagnosis.explained)}{printable(rest)}")
    for number, cause in enumerate(diagnosis.causes, 1):
        yield from ("", f"{number}. {cause.sentence}  [{cause.name}]")
        for text in (*(f"seen: {one}" for one in cause.evidence), f"do:   {cause.fix}"):
            yield from _wrapped(text, "   ", "         ")
    if diagnosis.outcome is not DiagnosisOutcome.VERIFIES:
        yield from _string_lines(diagnosis)
    if diagnosis.made:
        yield from ("", "The signature")
        yield from fact_lines((("made as", diagnosis.made), ("hash recovered from it", diagnosis.recovered_hash)))
    lists = (("Seen besides", diagnosis.notes), ("Not the cause", diagnosis.excluded), ("Next", diagnosis.advice))
    for title, texts in lists:
        if texts:
            yield from ("", title)
        for text in texts:
            yield from _wrapped(text, "  - ", "    ")


def _headline(diagnosis: Diagnosis) -> tuple[str, str]:
    count = len(diagnosis.causes)
    if diagnosis.outcome is DiagnosisOutcome.VERIFIES:
        return "verifies", f" as {diagnosis.profile} (trust in the certificate was not judged)"
    causes = f"{count} cause{'' if count == 1 else 's'}"
    if diagnosis.explained:
        return "explained", f": {causes}, judged as {diagnosis.profile}"
    found = f"{causes} found, but not all is explained" if count else "no known mistake fits"
    return "not explained", f": {found}; judged as {diagnosis.profile}, {diagnosis.tried} strings compared"


def _wrapped(text: str, first: str, further: str) -> list[str]:
    return click.wrap_text(printable(text), _WIDTH, initial_indent=first, subsequent_indent=further).splitlines()


def _string_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Return the right signing string; if another one was signed, line by line with it."""
    if diagnosis.expected is None:
        return
    right = _visible_lines(diagnosis.expected)
    if diagnosis.signed is None or diagnosis.first_difference is None:
        yield from ("", "The signing string (· space, ␊ line feed, ␍ carriage return)")
        yield from (f"    {line}" for line in right)
        return
    yield from (
        "", "The signing string: - as it should be, + as it was signed (· space, ␊ line feed, ␍ carriage return)"
    )  # fmt: skip
    for wanted, signed in zip_longest(right, _visible_lines(diagnosis.signed)):
        if wanted == signed:
            yield f"    {wanted}"
            continue
        yield from (f"  {sign} {line}" for sign, line in (("-", wanted), ("+", signed)) if line is not None)


def _visible_lines(raw: bytes) -> list[str]:
    return visible(raw).removesuffix("\n").split("\n")
