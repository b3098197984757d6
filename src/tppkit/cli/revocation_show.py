"""CRLs and OCSP responses as `tppkit cert show` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import IssuingDistributionPoint, ocsp
from cryptography.x509.extensions import ReasonFlags

from tppkit._clock import format_time
from tppkit.certificates import DistinguishedName, EidasCertificate, der, oids
from tppkit.certificates.names import read_name
from tppkit.errors import FormatError
from tppkit.trust import Crl, OcspResponse
from tppkit.trust.revocation.crl import read_reason
from tppkit.trust.revocation.ocsp_response import UNREADABLE
from tppkit.trust.revocation.revocation_list import issuer_named_by

_SHOWN = 10  # entries of a list that are printed as text
_NOT_CHECKED = "not checked: cert check --trust does that"
_FLAGS = {
    "indirect_crl": "indirect", "only_contains_user_certs": "end entities only",
    "only_contains_ca_certs": "authorities only", "only_contains_attribute_certs": "attribute certificates only",
}  # fmt: skip


def crl_object(crl: Crl) -> dict[str, Any]:
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
                "serial_hex": f"{entry.serial_number:X}",
                "revoked_at": format_time(entry.revocation_date_utc),
                "reason": read_reason(entry),
                "certificate_issuer": issuer and str(issuer),
            }
            for entry, issuer in zip(crl.x509, _issuers(crl), strict=True)
        ],
        "extensions": list(crl.extensions),
        "critical_extensions": [oid for oid, extension in crl.extensions.items() if extension.critical],
    }


def _issuers(crl: Crl) -> Iterator[DistinguishedName | None]:
    """For each entry of an indirect list the issuer of its certificate, the one that was named last (RFC 5280 section 5.3.3).

    None from an unreadable name on, until the next name; None for each entry of a direct list.
    """
    is_indirect = crl.is_indirect
    issuer = crl.issuer_name if is_indirect else None
    for entry in crl.x509:
        if is_indirect:
            try:
                issuer = issuer_named_by(entry) or issuer
            except FormatError:
                issuer = None
        yield issuer


def _point_object(point: IssuingDistributionPoint) -> dict[str, Any]:
    reasons: Sequence[ReasonFlags] = sorted(point.only_some_reasons or (), key=str)
    return {
        "names": [str(name.value) for name in point.full_name or ()],
        "only_some_reasons": [reason.name for reason in reasons],
        **{flag: getattr(point, flag) for flag in _FLAGS},
    }


def ocsp_object(response: OcspResponse) -> dict[str, Any]:
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
            "responder_name": _responder_name(parsed) if is_answer else None,
            "certificates": [
                str(EidasCertificate.from_der(one.public_bytes(Encoding.DER)).subject)
                for one in (parsed.certificates if is_answer else ())
            ],
            "responses": [_single_object(one) for one in (parsed.responses if is_answer else ())],
        }
    except UNREADABLE as e:
        raise FormatError("ocsp.malformed", f"the OCSP response cannot be read: {str(e)[:120]}") from e


def _responder_name(parsed: ocsp.OCSPResponse) -> str | None:
    if parsed.responder_name is None:
        return None
    encoded = parsed.responder_name.public_bytes()
    return str(read_name(encoded, der.read_whole(encoded, tag=der.SEQUENCE)))


def _single_object(single: ocsp.OCSPSingleResponse) -> dict[str, Any]:
    return {
        "serial_hex": f"{single.serial_number:X}",
        "state": single.certificate_status.name.lower(),
        "this_update": format_time(single.this_update_utc),
        "next_update": single.next_update_utc and format_time(single.next_update_utc),
        "revoked_at": single.revocation_time_utc and format_time(single.revocation_time_utc),
        "reason": single.revocation_reason and single.revocation_reason.name,
    }


def _algorithm(oid: str) -> str:
    return oids.SIGNATURE_ALGORITHMS.get(oid, oid)


def crl_facts(entry: dict[str, Any]) -> list[tuple[str, str]]:
    """A CRL as lines, the first entries only."""
    revoked, point = entry["revoked"], entry["distribution_point"] or {}
    scope = [*(text for flag, text in _FLAGS.items() if point.get(flag)), *point.get("only_some_reasons", ())]
    lines = [_entry_text(one, is_indirect=bool(point.get("indirect_crl"))) for one in revoked[:_SHOWN]]
    if len(revoked) > _SHOWN:
        lines.append(f"and {len(revoked) - _SHOWN} more (--json shows all)")
    return [
        ("issuer", entry["issuer"]),
        ("from", f"{entry['this_update']} to {entry['next_update'] or 'no date'}"),
        ("number", "" if entry["number"] is None else str(entry["number"])),
        ("delta of", "" if entry["base_number"] is None else f"number {entry['base_number']}"),
        ("point", ", ".join(point.get("names", ()))),
        ("scope", ", ".join(scope)),
        ("signature", f"{entry['signature_algorithm']}, {_NOT_CHECKED}"),
        ("revoked", f"{len(revoked)} certificate{'' if len(revoked) == 1 else 's'}"),
        *(("", line) for line in lines),
    ]


def _entry_text(one: dict[str, Any], *, is_indirect: bool) -> str:
    issuer = f"issued by {one['certificate_issuer'] or 'an unreadable name'}" if is_indirect else ""
    return " ".join(part for part in (one["serial_hex"], one["revoked_at"], one["reason"], issuer) if part)


def ocsp_facts(entry: dict[str, Any]) -> list[tuple[str, str]]:
    """An OCSP response as lines."""
    return [
        ("status", entry["status"]),
        ("produced", entry["produced_at"] or ""),
        ("nonce", entry["nonce"] or ""),
        ("signature", entry["signature_algorithm"] and f"{entry['signature_algorithm']}, {_NOT_CHECKED}"),
        ("responder", ", ".join(entry["certificates"]) or entry["responder_name"] or entry["responder_key_hash"] or ""),
        *(("certificate", _single_text(one)) for one in entry["responses"]),
    ]


def _single_text(one: dict[str, Any]) -> str:
    revoked = f" since {one['revoked_at']} ({one['reason'] or 'no reason given'})" if one["revoked_at"] else ""
    until = f" to {one['next_update']}" if one["next_update"] else ""
    return f"{one['serial_hex']}: {one['state']}{revoked}, {one['this_update']}{until}"
