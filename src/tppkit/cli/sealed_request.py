"""Read a sealed request: raw HTTP, a HAR file, a curl command line, or an evidence record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from tppkit._files import read_bounded
from tppkit.certificates import EidasCertificate
from tppkit.cli.curl_command import parse_curl
from tppkit.cli.har_file import MAX_HAR_BYTES, parse_har
from tppkit.cli.output import read_input
from tppkit.errors import FormatError
from tppkit.evidence.archive import RECORDS, read_lines
from tppkit.evidence.checks import verify_columns
from tppkit.evidence.files import load_certificate
from tppkit.evidence.record import EvidenceRecord
from tppkit.httpsig.wire import MAX_MESSAGE_BYTES, parse_request
from tppkit.message import Message
from tppkit.seals import SealProfile

entry_option = click.option(
    "--entry",
    type=click.IntRange(min=1),
    help="Number of the entry of a HAR file, or of the line of an archive, from 1.",
)
files_option = click.option(
    "--allow-files", is_flag=True, help="Read the files that a curl command names with --data @FILE."
)


class SealedInput(NamedTuple):
    """A sealed request and what was given with it.

    Attributes:
        message: the request.
        profile: the dialect that a record names; None for the other forms.
        certificates: the seal certificate of a record; empty for the other forms.
        record: the record, whose hash and columns agree; None for the other forms.
    """

    message: Message
    profile: SealProfile | None = None
    certificates: tuple[EidasCertificate, ...] = ()
    record: EvidenceRecord | None = None


def read_sealed_request(
    name: str,
    *,
    entry: int | None,
    allow_files: bool,
    certificates: Sequence[EidasCertificate] = (),
    as_found: bool = False,
) -> SealedInput:
    """Read a sealed request and detect its form.

    Args:
        name: a file, the folder of an archive, or `-`.
        entry: number of the entry of a HAR file, or of the line of an archive.
        allow_files: read the files that a curl command names.
        certificates: further seal certificates for records.
        as_found: accept broken requests, as `parse_request` does.

    Raises:
        FormatError: as `parse_request`, `parse_har`, `parse_curl`, `EvidenceRecord.from_line`, `verify_columns` and
            `load_certificate`; `record.entry`, `record.certificate`.
        SignatureRejected: as `verify_columns`.
        ArchiveError: `archive.unreadable`.
    """
    path = Path(name)
    if name != "-" and path.is_dir():
        return _record(_line_of(path, entry), certificates, path)
    raw = read_input(name, max_bytes=MAX_HAR_BYTES)
    start = raw[:256].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith((b"curl ", b"$ curl ", b"curl\t", b"curl\\", b"curl.exe ")):
        read_file = (lambda file: read_bounded(Path(file), max_bytes=MAX_MESSAGE_BYTES)) if allow_files else None
        return SealedInput(parse_curl(raw, read_file=read_file, as_found=as_found))
    if not start.startswith(b"{"):
        try:
            return SealedInput(parse_request(raw, as_found=as_found))
        except FormatError as e:
            if b" HTTP/" in raw.partition(b"\n")[0]:
                raise
            # Perhaps copied as PowerShell, fetch() or wget.
            forms = "give a raw request, or copy the request as cURL, or save a HAR file"
            raise FormatError(e.code, f"{e.message}: {forms}", offset=e.offset) from e
    first = raw.split(b"\n", 1)[0]
    if b'"seal_cert"' in first:
        folder = path.parent if name != "-" and path.name == RECORDS else None
        return _record(_pick(raw.splitlines(), entry), certificates, folder)
    return SealedInput(parse_har(raw, entry=entry, as_found=as_found))


def _line_of(folder: Path, entry: int | None) -> bytes:
    lines = (line for number, line in read_lines(folder) if entry is None or number == entry)
    return _pick([line for line, _ in zip(lines, range(2), strict=False)], 1 if entry else None)


def _pick(lines: Sequence[bytes], entry: int | None) -> bytes:
    if entry is None and len(lines) > 1:
        raise FormatError("record.entry", "the archive has several records; choose a line with --entry")
    if not lines or (entry or 1) > len(lines):
        raise FormatError("record.entry", f"the archive has no line {entry or 1}")
    return lines[(entry or 1) - 1]


def _record(line: bytes, certificates: Sequence[EidasCertificate], folder: Path | None) -> SealedInput:
    record = EvidenceRecord.from_line(line)
    profile = verify_columns(record)
    known = {certificate.sha256: certificate for certificate in certificates}
    name = record.seal_cert or ""
    seal = known.get(name)
    if seal is None and folder is not None:
        seal = load_certificate(folder, name)
    if seal is None:
        raise FormatError(
            "record.certificate",
            f"the record needs its seal certificate {name[:16]}…: give it with --cert",
        )
    return SealedInput(record.to_message(seal, profile=profile), profile, (seal,), record)
