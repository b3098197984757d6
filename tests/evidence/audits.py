"""The audit of one archive, counted, and what a program of its own needs for records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from tppkit._clock import utc_now
from tppkit.evidence import AuditPlan, AuditResult, audit_archives
from tppkit.testpki import Pki
from tppkit.testpki.timestamps import answer_timestamp
from tppkit.trust import Fetch, PathVerifier

TSA = "http://tsa.example/"
STAMPED = datetime(2026, 6, 2, 12, 0, tzinfo=UTC)


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


def authority(pki: Pki, at: datetime = STAMPED) -> Fetch:
    """Posts requests to the time-stamping authority of a test PKI."""

    def fetch(url, *, max_bytes, timeout, body=None, content_type=None):
        assert (url, content_type) == (TSA, "application/timestamp-query")
        return answer_timestamp(pki, body, at=at, serial=7)

    return fetch


def root_from_path(leaf: bytes, index: int, size: int, path: Iterable[bytes]) -> bytes | None:
    """The root that an inclusion path proves, None if its length is wrong: RFC 9162 section 2.1.3.2, step by step."""
    last, node = size - 1, leaf
    for sibling in path:
        if last == 0:
            return None
        if index & 1 or index == last:
            node = hashlib.sha256(b"\x01" + sibling + node).digest()
            while index and not index & 1:
                index, last = index >> 1, last >> 1
        else:
            node = hashlib.sha256(b"\x01" + node + sibling).digest()
        index, last = index >> 1, last >> 1
    return node if last == 0 else None
