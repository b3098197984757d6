"""Run the cases of C2SP x509-limbo through PathVerifier, and show every verdict that differs.

    python tools/limbo.py limbo.json

The file is not part of this project: x509-limbo's own `limbo compile` makes it. Names of peers and uses are not judged by
PathVerifier, so cases that rest on them alone are told apart by what they ask for, not left out.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tppkit.certificates import EidasCertificate
from tppkit.errors import TppkitError
from tppkit.trust import Anchors, PathVerifier, RevocationChecker, RevocationEvidence, parse_crl

Case = Mapping[str, Any]


def judge(case: Case, now: datetime) -> str:
    """`SUCCESS`, or the code of the refusal."""
    at = datetime.fromisoformat(case["validation_time"]) if case["validation_time"] else now
    try:
        roots, between = (
            tuple(map(EidasCertificate.from_pem, case[name])) for name in ("trusted_certs", "untrusted_intermediates")
        )
        crls = tuple(parse_crl(crl.encode()) for crl in case.get("crls") or ())
        revocation = RevocationChecker(evidence=RevocationEvidence(crls=crls)) if crls else None
        leaf = EidasCertificate.from_pem(case["peer_certificate"])
        PathVerifier(Anchors(roots), revocation=revocation).verify(leaf, at=at, intermediates=between)
    except TppkitError as e:
        return e.code
    return "SUCCESS"


def main() -> int:
    """Print each differing verdict and the counts."""
    cases = json.loads(Path(sys.argv[1]).read_text("utf-8"))["testcases"]
    now, counts, slowest = datetime.now(UTC), Counter[str](), (0.0, "")
    for case in cases:
        begun = time.perf_counter()
        verdict = judge(case, now)
        slowest = max(slowest, (time.perf_counter() - begun, case["id"]))
        same = (verdict == "SUCCESS") == (case["expected_result"] == "SUCCESS")
        counts["same" if same else "too strict" if verdict != "SUCCESS" else "too lenient"] += 1
        if not same:
            print(f"{case['id']:75} expected {case['expected_result']:8} {verdict:25} {','.join(case['features'])}")
    print(f"{len(cases)} cases: {dict(counts)}; slowest {slowest[0] * 1000:.0f} ms, {slowest[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
