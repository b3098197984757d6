"""`tppkit cert`: what certificates and requests say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from tppkit._clock import format_time
from tppkit._files import read_bounded
from tppkit._text import printable
from tppkit.certificates import EidasCertificate, EidasRequest, OrganizationIdentifier, Source, read_sources
from tppkit.certificates.sources import MAX_SOURCE_BYTES
from tppkit.cli.output import (
    HOLDS,
    UNREADABLE,
    error_object,
    finding_object,
    json_option,
    print_facts,
    print_json,
    read_input,
    say_error,
)
from tppkit.errors import FormatError

_MAX_PASSWORD_BYTES = 1024
Read = EidasCertificate | EidasRequest


@click.group()
def cert() -> None:
    """Read eIDAS certificates and requests."""


@cert.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--password-file", type=click.Path(path_type=Path), help="First line: the password of a PKCS#12 file.")
@json_option
def show(files: tuple[str, ...], password_file: Path | None, as_json: bool) -> int:
    """Show every fact and finding of each certificate or request.

    FILE: PEM (also bundles), DER, one-line base64, URL-escaped PEM, RFC 9440, PKCS#12, or a CSR; - is standard input.
    """
    password = _password(password_file)
    entries: list[dict[str, Any]] = []
    failed = False
    for name in files:
        for entry, text in _read_all(name, password):
            entries.append(entry)
            failed = failed or "error" in entry
            if not as_json:
                text()
    if as_json:
        print_json(entries)
    return UNREADABLE if failed else HOLDS


def _read_all(name: str, password: bytes | None) -> Iterator[tuple[dict[str, Any], Callable[[], None]]]:
    """Each certificate of a file as JSON has it, and how to print it; one that cannot be read hides no other."""
    try:
        sources = read_sources(read_input(name, max_bytes=MAX_SOURCE_BYTES), password=password)
    except FormatError as e:
        yield _failure(name, e)
        return
    for source in sources:
        try:
            certificate = _read(source)
        except FormatError as e:
            yield _failure(name, e)
        else:
            yield _entry(name, source, certificate), partial(_print, name, source, certificate)


def _failure(name: str, error: FormatError) -> tuple[dict[str, Any], Callable[[], None]]:
    def tell() -> None:
        click.echo(printable(name))
        say_error(error)

    return {"file": name, "error": error_object(error)}, tell


def _password(file: Path | None) -> bytes | None:
    return None if file is None else read_bounded(file, max_bytes=_MAX_PASSWORD_BYTES).partition(b"\n")[0].rstrip(b"\r")


def _read(source: Source) -> Read:
    return EidasCertificate.from_der(source.der) if source.kind == "certificate" else EidasRequest.from_der(source.der)


def _entry(name: str, source: Source, certificate: Read) -> dict[str, Any]:
    identifier, qc, extensions = certificate.organization_identifier, certificate.qc, certificate.extensions
    entry: dict[str, Any] = {
        "file": name,
        "sha256": certificate.sha256,
        "kind": source.kind,
        "subject": str(certificate.subject),
    }
    entry |= _issue_facts(certificate)
    key = certificate.key
    return entry | {
        "key": {"type": key.type, "bits": key.bits, "curve": key.curve},
        "organization_identifier": identifier and {
            "text": identifier.text, "scheme": identifier.scheme, "country": identifier.country,
            "authority": identifier.authority, "reference": identifier.reference,
        },
        "psd2": qc.psd2 and {
            "roles": list(qc.psd2.role_names), "role_oids": [role.oid for role in qc.psd2.roles],
            "nca_name": qc.psd2.nca_name, "nca_id": qc.psd2.nca_id,
        },
        "qc_types": list(qc.types),
        "qc_compliance": qc.compliance,
        "qc_sscd": qc.sscd,
        "qc_pds": [{"url": pds.url, "language": pds.language} for pds in qc.pds],
        "policies": list(extensions.policies),
        "key_usage": list(extensions.key_usage),
        "extended_key_usage": list(extensions.extended_key_usage),
        "dns_names": list(extensions.dns_names),
        "findings": [finding_object(finding) for finding in certificate.findings],
    }  # fmt: skip


def _issue_facts(certificate: Read) -> dict[str, Any]:
    if isinstance(certificate, EidasRequest):
        return {"issuer": None, "serial_hex": None, "not_before": None, "not_after": None}
    return {
        "issuer": str(certificate.issuer),
        "serial_hex": certificate.serial_hex,
        "not_before": format_time(certificate.not_before),
        "not_after": format_time(certificate.not_after),
    }


def _print(name: str, source: Source, certificate: Read) -> None:
    entry = _entry(name, source, certificate)
    identifier, psd2, key = certificate.organization_identifier, certificate.qc.psd2, certificate.key
    click.echo(f"{printable(name)}: {source.kind}")
    print_facts([
        ("subject", entry["subject"]),
        ("issuer", entry["issuer"] or ""),
        ("serial", entry["serial_hex"] or ""),
        ("valid", f"{entry['not_before']} to {entry['not_after']}" if entry["not_before"] else ""),
        ("key", " ".join(str(part) for part in (key.type, key.curve or key.bits) if part)),
        ("organisation", _organisation(identifier)),
        ("PSD2 roles", ", ".join(certificate.roles)),
        ("authority", f"{psd2.nca_name} ({psd2.nca_id})" if psd2 else ""),
        ("QC type", ", ".join(certificate.qc.types)),
        ("QC statements", _statements(certificate)),
        ("PDS", ", ".join(f"{pds.url} ({pds.language})" for pds in certificate.qc.pds)),
        ("key usage", ", ".join(certificate.extensions.key_usage)),
        ("extended", ", ".join(certificate.extensions.extended_key_usage)),
        ("policies", ", ".join(certificate.extensions.policies)),
        ("DNS names", ", ".join(certificate.extensions.dns_names)),
        ("sha256", certificate.sha256),
    ])  # fmt: skip
    for finding in certificate.findings:
        place = "" if finding.offset is None else f" at byte {finding.offset}"
        click.echo(f"  {finding.severity}: {printable(finding.message)}{place} [{finding.code}]")
    click.echo()


def _organisation(identifier: OrganizationIdentifier | None) -> str:
    if identifier is None:
        return ""
    parts = (identifier.scheme, identifier.country, identifier.authority)
    return f"{identifier.text} ({' '.join(part for part in parts if part) or 'form not known'})"


def _statements(certificate: Read) -> str:
    qc = certificate.qc
    return ", ".join(
        name for name, stated in (("compliance", qc.compliance), ("SSCD", qc.sscd), ("PSD2", qc.psd2)) if stated
    )
