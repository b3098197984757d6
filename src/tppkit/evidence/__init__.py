"""Retained signatures: stored as received, and verified again years later.

with EvidenceArchive(folder, stream_id=uuid4().hex) as archive:
    archive.append(make_record(caller.seal, http_status=201, qwac_path=caller.qwac_path))
for row in audit_archive(folder, paths=PathVerifier(anchors)): ...
"""

from tppkit.evidence.answers import make_answer_record
from tppkit.evidence.archive import EvidenceArchive
from tppkit.evidence.audit import audit_archive, audit_archives
from tppkit.evidence.checks import RecordVerdict
from tppkit.evidence.heads import Head, parse_head
from tppkit.evidence.record import EvidenceRecord, make_record, make_sent_record
from tppkit.evidence.results import AuditResult
from tppkit.evidence.runner import AuditPlan, Shard
from tppkit.evidence.verdicts import Verdict

__all__ = [
    "AuditPlan", "AuditResult", "EvidenceArchive", "EvidenceRecord", "Head", "RecordVerdict", "Shard", "Verdict", "audit_archive",
    "audit_archives", "make_answer_record", "make_record", "make_sent_record", "parse_head",
]  # fmt: skip
