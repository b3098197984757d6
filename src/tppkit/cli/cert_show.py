"""`tppkit cert show`: every fact of certificates, requests, CRLs and OCSP responses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tppkit._clock import format_time
from tppkit._text import printable
from tppkit.certificates import (
    EidasRequest,
    ExtensionFacts,
    OrganizationIdentifier,
    QcStatements,
    Source,
    check_statement,
    read_sources,
)
from tppkit.cli.certificates import Read, password_option, read_password, read_source
from tppkit.cli.output import (
    HOLDS,
    UNREADABLE,
    error_object,
    finding_object,
    json_option,
    print_facts,
    print_json,
    read_input,
    say,
    say_error,
)
from tppkit.cli.revocation_show import crl_facts, crl_object, ocsp_facts, ocsp_object
from tppkit.errors import FormatError
from tppkit.trust import read_revocation
from tppkit.trust.revocation.revocation_list import MAX_CRL_BYTES, has_pem_crl

Fact = tuple[str, str]
Shown = tuple[dict[str, Any], list[Fact] | FormatError]  # the entry as JSON, and its text


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@password_option
@click.option("--strict", is_flag=True, help="Treat a certificate with a malformed encoding as unreadable.")
@json_option
def show(files: tuple[str, ...], password_file: Path | None, strict: bool, as_json: bool) -> int:
    """Show every fact and finding of each certificate, request, CRL or OCSP response.

    FILE: PEM (also bundles), DER, one-line base64, URL-escaped PEM, RFC 9440, PKCS#12, or a CSR; a CRL in DER or PEM; an OCSP
    response in DER; - is standard input.
    """
    password = read_password(password_file)
    entries: list[dict[str, Any]] = []
    for name in files:
        for entry, text in _read_all(name, password, strict=strict):
            entries.append(entry)
            if not as_json:
                _print(entry, text)
    if as_json:
        print_json(entries)
    return UNREADABLE if any("error" in entry for entry in entries) else HOLDS


def _print(entry: dict[str, Any], text: list[Fact] | FormatError) -> None:
    if isinstance(text, FormatError):
        click.echo(printable(entry["file"]))
        say_error(text)
        if text.offset is not None:
            say(f"  at byte {text.offset}")
        return
    click.echo(f"{printable(entry['file'])}: {entry['kind']}")
    print_facts(text)
    for finding in entry["findings"]:
        place = f" at byte {finding['offset']}" if "offset" in finding else ""
        click.echo(f"  {finding['severity']}: {printable(finding['message'])}{place} [{finding['code']}]")
    click.echo()


def _read_all(name: str, password: bytes | None, *, strict: bool) -> Iterator[Shown]:
    """Read each entry of a file; an unreadable entry does not hide the others."""
    try:
        data = read_input(name, max_bytes=MAX_CRL_BYTES)
    except FormatError as e:
        yield _failure(name, e)
        return
    with_lists = has_pem_crl(data)
    answers = [*_read_answers(name, data, is_expected=with_lists)]
    yield from answers
    try:
        sources = () if answers and not with_lists else read_sources(data, password=password)
    except FormatError as e:
        if not (with_lists and e.code == "certificate.not-found"):
            yield _failure(name, e)
        return
    for source in sources:
        try:
            certificate = read_source(source)
            if strict:
                certificate.require_well_formed()
        except FormatError as e:
            yield _failure(name, e)
        else:
            entry = _entry(name, source, certificate)
            yield entry, _facts(entry, certificate)


def _read_answers(name: str, data: bytes, *, is_expected: bool) -> Iterator[Shown]:
    """Read the CRLs or the OCSP response of a file, if it contains any."""
    try:
        evidence = read_revocation(data, name=printable(name))
        lists = [crl_object(name, crl) for crl in evidence.crls]
        responses = [ocsp_object(name, response) for response in evidence.ocsp]
    except FormatError as e:
        if is_expected or e.code != "revocation.unreadable":
            yield _failure(name, e)
        return
    for entry in lists:
        yield entry, crl_facts(entry)
    for entry in responses:
        yield entry, ocsp_facts(entry)


def _failure(name: str, error: FormatError) -> Shown:
    place = {} if error.offset is None else {"offset": error.offset}
    return {"file": name, "error": {**error_object(error), **place}}, error


def _entry(name: str, source: Source, certificate: Read) -> dict[str, Any]:
    identifier, key = certificate.organization_identifier, certificate.key
    entry = {
        "file": name,
        "sha256": certificate.sha256,
        "kind": source.kind,
        "subject": str(certificate.subject),
        **_issue_object(certificate),
        "key": {"type": key.type, "bits": key.bits, "curve": key.curve},
        "signature_algorithm": certificate.signature_algorithm,
        "organization_identifier": identifier and {
            "text": identifier.text, "scheme": identifier.scheme, "country": identifier.country,
            "authority": identifier.authority, "reference": identifier.reference,
        },
    }  # fmt: skip
    findings = [finding_object(finding) for finding in (*certificate.findings, *check_statement(certificate))]
    return entry | _qc_object(certificate.qc) | _extensions_object(certificate.extensions) | {"findings": findings}


def _issue_object(certificate: Read) -> dict[str, Any]:
    if isinstance(certificate, EidasRequest):
        return {"issuer": None, "serial_hex": None, "not_before": None, "not_after": None}
    return {
        "issuer": str(certificate.issuer),
        "serial_hex": certificate.serial_hex,
        "not_before": format_time(certificate.not_before),
        "not_after": format_time(certificate.not_after),
    }


def _qc_object(qc: QcStatements) -> dict[str, Any]:
    limit = qc.limit_value
    return {
        "psd2": qc.psd2 and {
            "roles": list(qc.psd2.role_names), "role_oids": [role.oid for role in qc.psd2.roles],
            "nca_name": qc.psd2.nca_name, "nca_id": qc.psd2.nca_id,
        },
        "psd2_written_role_names": [role.name for role in qc.psd2.roles] if qc.psd2 else [],
        "qc_types": list(qc.types),
        "qc_compliance": qc.compliance,
        "qc_sscd": qc.sscd,
        "qc_pds": [{"url": pds.url, "language": pds.language} for pds in qc.pds],
        "qc_limit_value": limit and {"currency": limit.currency, "amount": limit.amount, "exponent": limit.exponent},
        "qc_retention_years": qc.retention_years,
        "qc_cc_legislation": list(qc.cc_legislation),
        "qc_identification_methods": list(qc.identification_methods),
        "qc_qscd_legislation": list(qc.qscd_legislation),
        "qc_semantics": qc.semantics,
        "qc_name_registration_authorities": list(qc.name_registration_authorities),
        "qc_unknown_statements": [oid for oid, _ in qc.unknown],
    }  # fmt: skip


def _extensions_object(extensions: ExtensionFacts) -> dict[str, Any]:
    return {
        "policies": list(extensions.policies),
        "key_usage": list(extensions.key_usage),
        "extended_key_usage": list(extensions.extended_key_usage),
        "dns_names": list(extensions.dns_names),
        "ip_addresses": list(extensions.ip_addresses),
        "is_ca": extensions.is_ca,
        "path_length": extensions.path_length,
        "subject_key_identifier": _hexadecimal(extensions.subject_key_identifier),
        "authority_key_identifier": _hexadecimal(extensions.authority_key_identifier),
        "ocsp_urls": list(extensions.ocsp_urls),
        "ca_issuers_urls": list(extensions.ca_issuers_urls),
        "crl_urls": list(extensions.crl_urls),
        "extensions": list(extensions.present),
        "critical_extensions": list(extensions.critical),
        "precertificate": extensions.is_precertificate,
    }


def _hexadecimal(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def _facts(entry: dict[str, Any], certificate: Read) -> list[Fact]:
    key = certificate.key
    return [
        ("subject", entry["subject"]),
        ("issuer", entry["issuer"] or ""),
        ("serial", entry["serial_hex"] or ""),
        ("valid", f"{entry['not_before']} to {entry['not_after']}" if entry["not_before"] else ""),
        ("key", " ".join(str(part) for part in (key.type, key.curve or key.bits) if part)),
        ("signature", certificate.signature_algorithm),
        ("organisation", _organisation(certificate.organization_identifier)),
        *_qc_facts(certificate.qc),
        *_extension_facts(certificate.extensions),
        ("sha256", certificate.sha256),
    ]


def _organisation(identifier: OrganizationIdentifier | None) -> str:
    if identifier is None:
        return ""
    parts = (identifier.scheme, identifier.country, identifier.authority)
    return f"{identifier.text} ({' '.join(part for part in parts if part) or 'unknown form'})"


def _qc_facts(qc: QcStatements) -> list[Fact]:
    stated = (("compliance", qc.compliance), ("SSCD", qc.sscd), ("PSD2", qc.psd2))
    limit = qc.limit_value
    return [
        ("PSD2 roles", ", ".join(qc.psd2.role_names) if qc.psd2 else ""),
        ("authority", f"{qc.psd2.nca_name} ({qc.psd2.nca_id})" if qc.psd2 else ""),
        ("QC type", ", ".join(qc.types)),
        ("QC statements", ", ".join(name for name, is_stated in stated if is_stated)),
        ("PDS", ", ".join(f"{pds.url} ({pds.language})" for pds in qc.pds)),
        ("limit", f"{limit.amount} * 10^{limit.exponent} {limit.currency}" if limit else ""),
        ("retention", "" if qc.retention_years is None else f"{qc.retention_years} years"),
        ("QC legislation", ", ".join(qc.cc_legislation)),
        ("identification", ", ".join(qc.identification_methods)),
        ("QSCD legislation", ", ".join(qc.qscd_legislation)),
        ("semantics", qc.semantics or ""),
        ("registrars", ", ".join(qc.name_registration_authorities)),
        ("other statements", ", ".join(oid for oid, _ in qc.unknown)),
    ]


def _extension_facts(extensions: ExtensionFacts) -> list[Fact]:
    length = "" if extensions.path_length is None else f", path length {extensions.path_length}"
    return [
        ("CA", f"yes{length}" if extensions.is_ca else ""),
        ("precertificate", "yes" if extensions.is_precertificate else ""),
        ("key usage", ", ".join(extensions.key_usage)),
        ("extended", ", ".join(extensions.extended_key_usage)),
        ("policies", ", ".join(extensions.policies)),
        ("DNS names", ", ".join(extensions.dns_names)),
        ("IP addresses", ", ".join(extensions.ip_addresses)),
        ("OCSP", ", ".join(extensions.ocsp_urls)),
        ("CRL", ", ".join(extensions.crl_urls)),
        ("issuer at", ", ".join(extensions.ca_issuers_urls)),
        ("subject key", _hexadecimal(extensions.subject_key_identifier) or ""),
        ("issuer key", _hexadecimal(extensions.authority_key_identifier) or ""),
    ]
