"""`tppkit cert`: read, check and compare certificates and requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp

from tppkit._clock import format_time
from tppkit._text import printable
from tppkit.certificates import (
    EidasCertificate,
    ExtensionFacts,
    QcStatements,
    Use,
    check_pair,
    check_renewal,
    der,
    oids,
)
from tppkit.certificates.certificate import EidasRequest
from tppkit.certificates.pair import valid_together
from tppkit.certificates.rules import check_statement
from tppkit.certificates.sources import Source, read_sources
from tppkit.cli.certificates import (
    Bundle,
    Read,
    certificate_object,
    password_option,
    passwords_option,
    read_bundle,
    read_bundles,
    read_password,
    read_source,
)
from tppkit.cli.output import (
    Result,
    UnreadableFile,
    at_option,
    combine,
    fact_lines,
    finding_line,
    json_option,
    present,
    read_input,
    require_one_stdin,
    verdict,
)
from tppkit.cli.trust_options import TrustFiles, trust_facts, trust_object, trust_options
from tppkit.errors import Finding, FormatError
from tppkit.trust import TrustMaterial, check_trust, parse_revocation
from tppkit.trust.path.link_extensions import IssuingPoint
from tppkit.trust.revocation.crl import check_dates
from tppkit.trust.revocation.crl_entries import CrlEntry
from tppkit.trust.revocation.ocsp_response import UNREADABLE as OCSP_ERRORS
from tppkit.trust.revocation.ocsp_response import OcspResponse, reason_of, responder_name, revoked_at
from tppkit.trust.revocation.revocation_list import MAX_CRL_BYTES, Crl, has_pem_crl

_NO_CHAIN = "no chain was checked: neither --trust nor --trusted-lists was given"
_NOT_CHECKED = " (signature not checked: cert check --trust does that)"
_FLAGS = ("indirect_crl", "only_contains_user_certs", "only_contains_ca_certs", "only_contains_attribute_certs")
_NAMES = {Use.QWAC: "QWAC", Use.QSEALC: "QSealC"}


@click.group()
def cert() -> None:
    """Read, check and compare eIDAS certificates.

    A certificate may be PEM (also bundles: the first certificate counts, the others are intermediates), DER, one-line base64 of either,
    URL-escaped PEM, RFC 9440 or PKCS#12; - is standard input.
    """


@cert.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@password_option
@json_option
def show(files: tuple[str, ...], password_file: Path | None) -> Result:
    """Show every fact and finding of each certificate, request, CRL or OCSP response.

    FILE: PEM (also bundles), DER, one-line base64, URL-escaped PEM, RFC 9440, PKCS#12, or a CSR; a CRL in DER or PEM; an OCSP
    response in DER; - is standard input.
    """
    password = read_password(password_file)
    return combine([one for name in files for one in _read_all(name, password)])


@cert.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--as", "use", required=True, type=click.Choice([use.value for use in Use]), help="The use that it must fit."
)
@at_option
@trust_options
@click.option(
    "--rules",
    "edition",
    metavar="EDITION",
    help="Apply this edition of TS 119 495, for example V1.4.1; by default the one in force when it was issued.",
)
@password_option
@json_option
def check(
    files: tuple[str, ...], use: str, at: datetime | None, trust: TrustFiles, edition: str | None, password_file: Path | None
) -> Result:  # fmt: skip
    """Check that each certificate fits its use and, with --trust or --trusted-lists, is trusted at a time.

    In a bundle the first certificate is checked; the others may be between it and an anchor. The worst exit code of all files
    counts.
    """
    require_one_stdin(*files)
    at = present(at)
    material = trust.load(at)
    password = read_password(password_file)
    results: list[Result | UnreadableFile] = []
    for name in files:
        try:
            results.append(_check(read_bundle(name, password), Use(use), at, edition, material))
        except UnreadableFile as e:
            results.append(e)
    every = combine(results)
    return every if len(files) > 1 else every._replace(value=every.value[0])


def _check(bundle: Bundle, as_: Use, at: datetime, edition: str | None, material: TrustMaterial) -> Result:
    leaf = bundle.leaf
    report = check_trust(leaf, as_=as_, at=at, material=material, intermediates=bundle.others, edition=edition)
    chain = report.path and [str(certificate.subject) for certificate in report.path.chain]
    identity = {
        **certificate_object(leaf),
        "nca_name": leaf.qc.psd2 and leaf.qc.psd2.nca_name,
        "nca_id": leaf.qc.psd2 and leaf.qc.psd2.nca_id,
    }
    proven = {
        "file": bundle.file,
        "at": format_time(at),
        "as": as_.value,
        "rules": edition,
        **identity,
        "chain": chain,
        **trust_object(report.path, report.status, material),
    }
    about = f"{bundle.file} as {_NAMES[as_]} at {format_time(at)}"
    if not material.has_anchors:
        return verdict(f"{about}; {_NO_CHAIN}", report.findings, proven=proven, facts=identity)
    facts = identity | {"chain": chain or "no valid chain"} | trust_facts(report.path, report.status, material)
    return verdict(about, report.findings, proven=proven, facts=facts)


@cert.command()
@click.argument("qwac", metavar="QWAC")
@click.argument("qsealc", metavar="QSEALC")
@passwords_option
@json_option
def pair(qwac: str, qsealc: str, password_files: tuple[Path, ...]) -> Result:
    """Check that a QWAC and a QSealC belong to one provider; show every difference that matters.

    `tppkit cert check` checks each against its own profile.
    """
    return _compare(check_pair, {"qwac": qwac, "qseal": qsealc}, password_files)


@cert.command()
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@passwords_option
@json_option
def renewal(old: str, new: str, password_files: tuple[Path, ...]) -> Result:
    """Show the differences that matter to a bank that has stored details of OLD.

    It fails if NEW belongs to another organisation or is another kind of certificate; warnings concern some banks only.
    """
    return _compare(check_renewal, {"old": old, "new": new}, password_files)


def _compare(
    check_both: Callable[[EidasCertificate, EidasCertificate], tuple[Finding, ...]],
    files: dict[str, str],
    password_files: tuple[Path, ...],
) -> Result:
    first, second = read_bundles([*files.values()], password_files)
    one, other = first.leaf, second.leaf
    named = dict(zip(files, (first, second), strict=True))
    period = valid_together(one, other)
    together = period and [format_time(moment) for moment in period]
    identifiers = {leaf.organization and leaf.organization.text for leaf in (one, other)}
    authorities = {leaf.qc.psd2 and leaf.qc.psd2.nca_id for leaf in (one, other)}
    proven = {  # null where they differ, and the roles that both have
        "organization_identifier": identifiers.pop() if len(identifiers) == 1 else None,
        "nca_id": authorities.pop() if len(authorities) == 1 else None,
        "roles": [role for role in one.roles if role in other.roles],
        "valid_together": together,
        **{name: {"file": bundle.file, **certificate_object(bundle.leaf)} for name, bundle in named.items()},
    }
    return verdict(f"{first.file} and {second.file}", check_both(one, other), proven=proven)


def _read_all(name: str, password: bytes | None) -> Iterator[Result | UnreadableFile]:
    """Read each entry of a file; an unreadable entry does not hide the others, but a cut PEM block hides all."""
    try:
        data = read_input(name, max_bytes=MAX_CRL_BYTES)
    except FormatError as e:
        yield UnreadableFile(name, e)
        return
    with_lists = has_pem_crl(data)
    answers = [*_read_answers(name, data, is_expected=with_lists)]
    try:
        sources = () if answers and not with_lists else read_sources(data, password=password)
    except FormatError as e:
        if e.code != "pem.malformed":
            yield from answers
        if not (with_lists and e.code == "certificate.not-found"):
            yield UnreadableFile(name, e)
        return
    yield from answers
    for source in sources:
        try:
            certificate = read_source(source)
        except FormatError as e:
            yield UnreadableFile(name, e)
        else:
            yield _shown(name, _entry(source, certificate), (*certificate.findings, *check_statement(certificate)))


def _read_answers(name: str, data: bytes, *, is_expected: bool) -> Iterator[Result | UnreadableFile]:
    """Read the CRLs or the OCSP response of a file, if it contains any."""
    try:
        evidence = parse_revocation(data, name=printable(name))
        entries = [(_crl_object(crl), check_dates(crl)) for crl in evidence.crls]
        entries += [(_ocsp_object(response), ()) for response in evidence.ocsp]
    except FormatError as e:
        if is_expected or e.code != "revocation.unreadable":
            yield UnreadableFile(name, e)
        return
    for entry, findings in entries:
        yield _shown(name, entry, findings)


def _shown(name: str, entry: dict[str, Any], findings: Sequence[Finding]) -> Result:
    object_ = {"file": name, **entry, "findings": [one.to_object() for one in findings]}
    return Result(object_, _entry_lines(name, entry, findings))


def _entry_lines(name: str, entry: dict[str, Any], findings: Sequence[Finding]) -> Iterator[str]:
    yield f"{name}: {entry['kind']}{_NOT_CHECKED if entry['kind'] in ('crl', 'ocsp') else ''}"
    yield from fact_lines((key, value) for key, value in entry.items() if key != "kind")
    yield from (f"  {finding_line(finding)}" for finding in findings)


def _entry(source: Source, certificate: Read) -> dict[str, Any]:
    identifier, key = certificate.organization_identifier, certificate.key
    entry = {
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
    return entry | _qc_object(certificate.qc) | _extensions_object(certificate.extensions)


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
    same = ("compliance", "sscd", "retention_years", "semantics")
    lists = ("types", "cc_legislation", "identification_methods", "qscd_legislation", "name_registration_authorities")
    return {
        "psd2": qc.psd2 and {
            "roles": list(qc.psd2.role_names), "role_oids": [role.oid for role in qc.psd2.roles if role.oid],
            "nca_name": qc.psd2.nca_name, "nca_id": qc.psd2.nca_id,
        },
        "psd2_written_role_names": [role.name for role in qc.psd2.roles] if qc.psd2 else [],
        **{f"qc_{name}": getattr(qc, name) for name in same},
        **{f"qc_{name}": list(getattr(qc, name)) for name in lists},
        "qc_pds": [{"url": pds.url, "language": pds.language} for pds in qc.pds],
        "qc_limit_value": limit and {"currency": limit.currency, "amount": limit.amount, "exponent": limit.exponent},
        "qc_unknown_statements": [oid for oid, _ in qc.unknown],
    }  # fmt: skip


def _extensions_object(extensions: ExtensionFacts) -> dict[str, Any]:
    lists = (
        "policies", "key_usage", "extended_key_usage", "dns_names", "ip_addresses", "ocsp_urls", "ca_issuers_urls", "crl_urls",
    )  # fmt: skip
    subject_key, issuer_key = extensions.subject_key_identifier, extensions.authority_key_identifier
    return {
        **{name: list(getattr(extensions, name)) for name in lists},
        "is_ca": extensions.is_ca,
        "path_length": extensions.path_length,
        "subject_key_identifier": None if subject_key is None else subject_key.hex(),
        "authority_key_identifier": None if issuer_key is None else issuer_key.hex(),
        "extensions": list(extensions.present),
        "critical_extensions": list(extensions.critical),
        "precertificate": extensions.is_precertificate,
    }


def _crl_object(crl: Crl) -> dict[str, Any]:
    """A CRL as JSON."""
    point = crl.distribution_point
    return {
        "sha256": crl.sha256,
        "kind": "crl",
        "issuer": str(crl.issuer_name),
        "this_update": format_time(crl.this_update),
        "next_update": crl.next_update and format_time(crl.next_update),
        "number": crl.number,
        "base_number": crl.base_number,
        "distribution_point": point and _point_object(point),
        "signature_algorithm": _algorithm(crl.x509.signature_algorithm_oid.dotted_string),
        "revoked": [
            {
                "serial_hex": f"{entry.serial:X}",
                "revoked_at": format_time(entry.revoked_at),
                "reason": entry.reason,
                "certificate_issuer": issuer,
            }
            for entry, issuer in _entries(crl)
        ],
        "extensions": list(crl.extensions),
        "critical_extensions": [oid for oid, extension in crl.extensions.items() if extension.is_critical],
    }


def _entries(crl: Crl) -> Iterator[tuple[CrlEntry, str | None]]:
    """Each entry, and in an indirect list the issuer of its certificate, or None if that is unreadable."""
    # One name counts for any number of entries, so a long one is shortened, as in messages.
    for issuer, entries in groupby(crl.entries_with_issuers, key=itemgetter(1)):
        text = f"{issuer}" if issuer is not None and crl.is_indirect else None
        yield from ((entry, text) for entry, _ in entries)


def _point_object(point: IssuingPoint) -> dict[str, Any]:
    values = [name.value for name in point.full_name or ()]
    return {
        "names": [value.hex() if isinstance(value, bytes) else str(value) for value in values],
        "only_some_reasons": sorted(point.only_some_reasons or ()),
        **{flag: getattr(point, flag) for flag in _FLAGS},
    }


def _ocsp_object(response: OcspResponse) -> dict[str, Any]:
    """An OCSP response as JSON.

    Raises:
        FormatError: `ocsp.malformed`; `der.*`, the name of the responder is malformed.
    """
    parsed, is_answer = response.x509, response.status == "successful"
    try:
        return {
            "sha256": response.sha256,
            "kind": "ocsp",
            "status": response.status,
            "produced_at": response.produced_at and format_time(response.produced_at),
            "nonce": None if response.nonce is None else response.nonce.hex(),
            "signature_algorithm": _algorithm(parsed.signature_algorithm_oid.dotted_string) if is_answer else None,
            "responder_key_hash": parsed.responder_key_hash.hex() if is_answer and parsed.responder_key_hash else None,
            "responder_name": str(name) if is_answer and (name := responder_name(response)) else None,
            "certificates": [
                str(EidasCertificate.from_der(one.public_bytes(Encoding.DER)).subject)
                for one in (parsed.certificates if is_answer else ())
            ],
            "responses": [_single_object(one) for one in (parsed.responses if is_answer else ())],
        }
    except OCSP_ERRORS as e:
        raise FormatError("ocsp.malformed", f"the OCSP response cannot be read: {der.parse_failure(e)}") from e


def _single_object(single: ocsp.OCSPSingleResponse) -> dict[str, Any]:
    revoked = revoked_at(single)
    return {
        "serial_hex": f"{single.serial_number:X}",
        "state": single.certificate_status.name.lower(),
        "this_update": format_time(single.this_update_utc),
        "next_update": single.next_update_utc and format_time(single.next_update_utc),
        "revoked_at": revoked and format_time(revoked),
        "reason": reason_of(single),
    }


def _algorithm(oid: str) -> str:
    return oids.SIGNATURE_ALGORITHMS.get(oid, oid)
