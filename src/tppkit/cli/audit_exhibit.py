"""`tppkit audit show` and `audit export`: one record in full, and as a bundle that proves itself.

Exit: 0 the record holds, 1 it does not, 2 wrong usage, 3 it is undecided or there is no such record, 5 unreadable archive,
7 trust material missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tppkit._clock import format_time
from tppkit._encoding import encode_base64
from tppkit.certificates import EidasCertificate, OrganizationPolicy
from tppkit.cli.certificates import certificate_object
from tppkit.cli.output import Raw, Result, colored, counted, fact_lines, failure, json_option, present
from tppkit.cli.trust_options import NO_TRUST, TrustFiles, organization_options, trust_options
from tppkit.errors import ArchiveError, ConfigurationError, FormatError, VerificationError
from tppkit.evidence.exhibit import FAILS, HOLDS, Exhibit, examine, write_bundle
from tppkit.evidence.heads import head_object
from tppkit.evidence.lookup import find_record
from tppkit.evidence.record import Kind
from tppkit.evidence.results import row_object
from tppkit.evidence.runner import Endpoints
from tppkit.evidence.verdicts import Verdict
from tppkit.protocol.psd2 import PSD2
from tppkit.trust import TrustMaterial

ENDPOINTS = tuple((row.method, row.path, row.role) for row in PSD2.endpoints)
_UNREADABLE, _NO_TRUST = 5, 7
_EXIT = {Verdict.PASSED: 0, Verdict.FAILED: 1, Verdict.INDETERMINATE: 3, Verdict.UNREADABLE: 5}
_MAX_BODY = 4_096  # characters of a body as text; --json and the bundle have all of it

_archive = click.argument("archive", type=click.Path(path_type=Path), metavar="ARCHIVE")
_id = click.argument("wanted", metavar="ID")


@click.command()
@_archive
@_id
@trust_options
@organization_options
@json_option
def show(archive: Path, wanted: str, trust: TrustFiles, organizations: OrganizationPolicy) -> Result:
    """Show one record: what was received and answered, its certificates, every check, and its place in the log.

    ID is a sequence number from 0 of the first stream, STREAM/SEQ, an X-Request-ID, a payment id or a consent id.
    """
    found = _examine(archive, wanted, trust, organizations)
    if isinstance(found, Result):
        return found
    exhibit, material = found
    return Result(_shown(exhibit), _lines(exhibit), _exit_code(exhibit), "" if material.has_anchors else NO_TRUST)


@click.command()
@_archive
@_id
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="The new folder to write.")
@trust_options
@organization_options
@json_option
def export(archive: Path, wanted: str, out: Path, trust: TrustFiles, organizations: OrganizationPolicy) -> Result:
    """Write one record into a folder, with all that proves it and a script that verifies it with bash and openssl alone.

    ID is a sequence number from 0 of the first stream, STREAM/SEQ, an X-Request-ID, a payment id or a consent id.
    """
    if Path(os.path.realpath(out)).is_relative_to(os.path.realpath(archive)):
        raise click.UsageError(f"--out {out} is in the archive, to which nothing may be added")
    found = _examine(archive, wanted, trust, organizations)
    if isinstance(found, Result):
        return found
    exhibit, material = found
    names = write_bundle(exhibit, out, paths=material)
    verdict = exhibit.verdict
    state = "holds" if verdict.code is None else f"{verdict.verdict.value}: {verdict.message} [{verdict.code}]"
    lines = [f"record {exhibit.record.seq}: {state}", *(f"{out}/{name}" for name in names)]
    missing = [] if "body.bin" in names else ["the body: it was redacted, so its digest cannot be checked"]
    lines += [f"not in the bundle: {one}" for one in missing]
    shown = {"verdict": verdict.verdict.value, "code": verdict.code, "files": list(names), "missing": missing}
    return Result(shown, lines, _exit_code(exhibit), f"verify it on any machine: bash {out}/verify.sh")


def _examine(
    archive: Path, wanted: str, trust: TrustFiles, organizations: OrganizationPolicy
) -> tuple[Exhibit, TrustMaterial] | Result:
    try:
        material = trust.load(None)
    except (ConfigurationError, FormatError, VerificationError) as e:
        return failure(e, _NO_TRUST)
    try:
        found = find_record(archive, wanted)
        exhibit = examine(
            found, paths=material, organizations=organizations, role_of=Endpoints(ENDPOINTS).role, now=present(None)
        )
    except ArchiveError as e:
        return failure(e, _UNREADABLE)
    return exhibit, material


def _exit_code(exhibit: Exhibit) -> int:
    return 4 if exhibit.place_fault else _EXIT[exhibit.verdict.verdict]


def _shown(exhibit: Exhibit) -> dict[str, Any]:
    record, place = exhibit.record, exhibit.place
    body = record.body
    return row_object(str(exhibit.found.segment.archive), exhibit.verdict) | {
        "stream_id": record.stream_id, "received_at": format_time(record.received_at), "clock_source": record.clock_source,
        "method": record.method, "target": record.target, "headers": record.header_block.decode("latin-1").splitlines(),
        "signature": record.signature_raw.decode("latin-1"), "body": None if body is None else encode_base64(body),
        "http_status": record.http_status, "error_code": record.error_code, "payment_id": record.payment_ref,
        "consent_id": record.consent_ref, "profile": record.profile,
        "certificates": {
            "seal": exhibit.seal and certificate_object(exhibit.seal), "qwac": exhibit.qwac and certificate_object(exhibit.qwac),
        },
        "steps": [{"step": one.name, "state": one.state, "codes": list(one.codes), "why": one.why} for one in exhibit.steps],
        "part": exhibit.found.segment.name, "leaf": exhibit.verdict.leaf,
        "head": place and head_object(place.head), "stamped": place is not None and place.stamp is not None,
        "place_fault": exhibit.place_fault and {"code": exhibit.place_fault.code, "message": exhibit.place_fault.message},
    }  # fmt: skip


def _lines(exhibit: Exhibit) -> Iterator[str]:
    record, verdict = exhibit.record, exhibit.verdict
    state = "holds" if verdict.code is None else f"{verdict.verdict.value} ({verdict.code})"
    yield Raw(colored(f"record {record.seq}: {state}", holds=verdict.code is None))
    connection = f", connection {record.session_id}" if record.session_id else ""
    yield f"received {format_time(record.received_at)} (clock: {record.clock_source}){connection}"
    yield f"  {record.method} {record.target}"
    own, _, asked = record.header_block.decode("latin-1").partition("\r\n\r\n")
    yield from (f"  {line}" for line in own.split("\r\n") if line)
    yield f"  signature: {record.signature_raw.decode('latin-1')}"
    yield from ("", *(f"  {line}" for line in _body(exhibit)), "")
    if record.kind == Kind.ANSWER:
        yield from ("covered of the request", *(f"  {line}" for line in asked.split("\r\n") if line))
    yield f"answered {record.http_status or 'unknown'} {record.error_code or ''}".rstrip()
    yield from fact_lines((("payment", record.payment_ref), ("consent", record.consent_ref)))
    if exhibit.verdict.key is not None:
        yield from ("key of the service", f"  {exhibit.verdict.key}")
    else:
        yield from _certificate("seal", exhibit.seal)
        yield from _certificate("connection", exhibit.qwac) if record.kind != Kind.ANSWER else ()
    yield "checks"
    for number, step in enumerate(exhibit.steps, 1):
        line = f"  {number} {step.state:11}  {step.name}{f': {step.why}' if step.why else ''}"
        yield Raw(colored(line, holds=step.state == HOLDS)) if step.state in (HOLDS, FAILS) else line
    yield from (f"  {one.severity}: {one.message} [{one.code}]" for one in verdict.findings)
    yield "place in the log"
    yield from _place(exhibit)


def _body(exhibit: Exhibit) -> Iterator[str]:
    record, step = exhibit.record, exhibit.steps[1]
    body = record.body
    if body is None:
        yield f"(no body in the record: {step.why or f'{record.body_len} bytes'})"
        return
    text = body.decode("utf-8", "replace")
    yield from text[:_MAX_BODY].split("\n")
    if len(text) > _MAX_BODY:
        yield f"(… {record.body_len} bytes in all, SHA-256 {record.body_sha256})"


def _certificate(name: str, certificate: EidasCertificate | None) -> Iterator[str]:
    yield f"certificate of the {name}"
    yield from fact_lines(certificate_object(certificate).items()) if certificate else ["  missing or damaged"]


def _place(exhibit: Exhibit) -> Iterator[str]:
    record, place = exhibit.record, exhibit.place
    facts: list[tuple[str, object]] = [
        ("stream", record.stream_id), ("record", str(record.seq)), ("part", exhibit.found.segment.name), ("leaf", exhibit.verdict.leaf),
    ]  # fmt: skip
    if place is None:
        fault = exhibit.place_fault
        facts.append(("not proven", fault and f"{fault.message} [{fault.code}]"))
    else:
        facts += [
            ("head", f"{counted(place.head.records, 'record')}, root {place.head.root}"),
            ("stamp", place.stamp or "none"),
        ]
    yield from fact_lines(facts)
