"""Retained signatures: stored as received, and verified again years later.

with EvidenceArchive(folder, stream_id=uuid4().hex) as archive:
    archive.append(make_record(verified, http_status=201), *verified.chain, verified.qwac)
for row in audit_archive(folder, paths=PathVerifier(anchors)): ...
"""

from tppkit.evidence.archive import EvidenceArchive
from tppkit.evidence.audit import AuditSummary, Head, RecordVerdict, Verdict, audit_archive
from tppkit.evidence.record import EvidenceRecord, make_record

__all__ = [
    "AuditSummary", "EvidenceArchive", "EvidenceRecord", "Head", "RecordVerdict", "Verdict", "audit_archive", "make_record",
]  # fmt: skip
