"""The audit of one archive, counted."""

from __future__ import annotations

from pathlib import Path

from tppkit.evidence import AuditSummary, audit_archive
from tppkit.trust import PathVerifier


def audit_of(folder: Path, paths: PathVerifier, *heads: str) -> AuditSummary:
    counted = AuditSummary(expected_heads=frozenset(heads))
    for row in audit_archive(folder, paths=paths):
        counted.add(row)
    counted.expect([folder])
    return counted
