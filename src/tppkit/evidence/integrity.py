"""Whether the columns of a record agree with its hash, with one another and with its seal."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from tppkit._cache import Cache
from tppkit.errors import Finding, FormatError, Severity, SignatureRejected
from tppkit.evidence.record import KINDS, BodyState, EvidenceRecord, kept_headers, read_header_block
from tppkit.seals import PROFILES, SealProfile, VerifiedRequest

# PSD2 document, part A section 4, payment initiation headers: the same id with another body is rejected within an hour.
_REMEMBERED = timedelta(hours=1)
_MAX_REQUESTS = 10_000


def verify_leaf(record: EvidenceRecord) -> str:
    """Return the leaf hash of a record, which must be the one on its line.

    Raises:
        SignatureRejected: `record.leaf`.
    """
    leaf = record.leaf
    if record.kept_leaf not in (None, leaf):
        raise SignatureRejected("record.leaf", "the record was changed after it was written: its stored hash differs")
    return leaf


def verify_columns(record: EvidenceRecord) -> SealProfile:
    """Return the profile of a record that can be verified again.

    Raises:
        FormatError: `record.unknown-profile`, `record.unknown-kind`, `record.malformed`.
        SignatureRejected: `record.body-redacted`, `record.body`, `record.no-qwac`.
    """
    profile = PROFILES.get(record.profile)
    if profile is None and record.kind in KINDS.values():
        raise FormatError("record.unknown-profile", f"the record names the profile {record.profile[:40]!r}")
    if profile is None or record.kind != KINDS[profile.format]:
        raise FormatError(
            "record.unknown-kind", f"the record is of kind {record.kind}, which this version cannot verify"
        )
    if record.verdict != "holds":
        raise FormatError("record.malformed", f"the record's verdict is {record.verdict[:40]!r}, not 'holds'")
    _verify_body(record)
    if record.qwac_cert is None:
        raise SignatureRejected("record.no-qwac", "no QWAC was stored, so the provider of the seal is not proven")
    return profile


def _verify_body(record: EvidenceRecord) -> None:
    if record.body_state == BodyState.REDACTED and record.body is None:
        raise SignatureRejected("record.body-redacted", "the body was redacted, so its digest cannot be recomputed")
    body = record.body or b""
    state = BodyState.INLINE if body else BodyState.NONE
    kept = (record.body_state, record.body_len, record.body_sha256, record.body_sha512)
    if (state, len(body), hashlib.sha256(body).hexdigest(), hashlib.sha512(body).hexdigest()) != kept:
        raise SignatureRejected("record.body", "the stored body is not the body that was received")


def verify_agreement(record: EvidenceRecord, verified: VerifiedRequest) -> None:
    """Check that a record agrees with its verified request.

    Raises:
        FormatError: `record.malformed`.
        SignatureRejected: `record.signing-input`.
    """
    if hashlib.sha256(verified.signing_string).hexdigest() != record.signing_input_sha256:
        raise SignatureRejected("record.signing-input", "the signing string is not the one that was recorded")
    if verified.request_id != record.x_request_id:
        raise FormatError("record.malformed", "the record's x_request_id is not the one that was signed")
    names = {name.lower() for name, _ in read_header_block(record.header_block)}
    if others := names - kept_headers(verified):
        raise FormatError("record.malformed", f"the seal does not cover the record's {', '.join(sorted(others))[:200]}")


class AcceptedRequests:
    """The last accepted requests of an archive by organisation and request id, in bounded memory."""

    def __init__(self) -> None:
        self._requests = Cache[tuple[str, str], tuple[datetime, tuple[str, ...]]](_MAX_REQUESTS)

    def add(self, record: EvidenceRecord, organization_identifier: str) -> Finding | None:
        """Add a verified record; return `record.id-reused` if its id was accepted for another request within the hour."""
        if not record.x_request_id or not 200 <= (record.http_status or 0) < 300:
            return None
        key = organization_identifier, record.x_request_id.lower()
        content = record.method, record.target, record.body_sha256
        at, before = self._requests.get(key) or (record.received_at, content)
        # The hour begins with the first request; a repetition does not prolong it.
        is_bound = abs(record.received_at - at) < _REMEMBERED
        self._requests.put(key, (at, before) if is_bound else (record.received_at, content))
        if before == content or not is_bound:
            return None
        message = f"{key[0]} got two requests with the X-Request-ID {key[1][:40]!r} accepted within an hour"
        return Finding("record.id-reused", Severity.WARNING, message)
