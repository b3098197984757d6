"""The audit of one archive, counted, and what a program of its own needs for records."""

from __future__ import annotations

from pathlib import Path

from tppkit._clock import utc_now
from tppkit.evidence import AuditPlan, AuditResult, audit_archives
from tppkit.trust import PathVerifier


def audit_of(folder: Path, paths: PathVerifier, *heads: str) -> AuditResult:
    return audit_archives([folder], AuditPlan(now=utc_now()), heads=heads, material=paths)


# The same PKI as the fixture `pki`, and one verified request.
VERIFIED = """
import sys
from datetime import UTC, datetime
from tppkit.evidence import EvidenceArchive, make_record
from tppkit.seals import KeySigner, Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import make_pki
from tppkit.trust import PathVerifier, make_anchors

at = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
pki = make_pki(at=at, seed=1)
policy = SealPolicy(PathVerifier(make_anchors(pki.authorities)))
headers = (("X-Request-ID", "00000000-0000-0000-0000-000000000001"),)
message = Message("POST", "/psd2/v1/payments/sepa-credit-transfers", headers, b"x" * 20_000)
sealed = sign_request(message, seal=Seal(pki.qseal.certificate, KeySigner(pki.qseal.key)))
verified = verify_request(sealed, qwac=pki.qwac.certificate, at=at, policy=policy)
"""
