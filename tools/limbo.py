"""Run the cases of C2SP x509-limbo through PathVerifier, and fail when a verdict became more lenient.

    python tools/limbo.py limbo.json

The file is not part of this project: x509-limbo's own `limbo compile` writes it. PathVerifier checks neither the name of a peer nor
its use, so cases about these alone hold here; they are listed with the others that hold.
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
from tppkit.trust import Anchors, PathVerifier, RevocationChecker, RevocationEvidence
from tppkit.trust.revocation.revocation_list import parse_crl

Case = Mapping[str, Any]
HOLDS = "SUCCESS"

# The cases that hold although x509-limbo expects a failure, by reason. A case goes when it fails; none is added.
LENIENT = {
    "the name of the peer, and what a host name looks like: TLS checks them": """
        rfc5280::san::noncritical-with-empty-subject rfc5280::san::underscore-dns rfc5280::san::ip-in-dns
        webpki::cn::ipv4-hex-mismatch webpki::cn::ipv4-leading-zeros-mismatch webpki::cn::ipv6-uppercase-mismatch
        webpki::cn::ipv6-uncompressed-mismatch webpki::cn::ipv6-non-rfc5952-mismatch webpki::cn::punycode-not-in-san
        webpki::cn::utf8-vs-punycode-mismatch webpki::cn::not-in-san webpki::cn::case-mismatch webpki::san::no-san
        webpki::san::mismatch-domain-san webpki::san::mismatch-subdomain-san webpki::san::mismatch-subdomain-apex-san
        webpki::san::mismatch-apex-subdomain-san webpki::san::public-suffix-wildcard-san
        webpki::san::public-suffix-multi-label-wildcard-san webpki::san::public-suffix-private-namespace-wildcard-san
        webpki::san::wildcard-embedded-leftmost-san webpki::san::wildcard-not-in-leftmost-san
        webpki::san::wildcard-match-across-labels-san webpki::san::wildcard-embedded-ulabel-san
        webpki::san::san-wildcard-only webpki::san::san-wildcard-only-tld""",
    "the use of the end entity: the rules of certificates check it": """
        rfc5280::eku::ee-wrong-eku rfc5280::leaf-ku-keycertsign rfc5280::ca-as-leaf-wrong-san webpki::eku::ee-anyeku
        webpki::eku::ee-critical-eku webpki::eku::ee-without-eku webpki::eku::root-has-eku
        webpki::ee-basicconstraints-ca webpki::ca-as-leaf""",
    "key identifiers and CRL numbers, which prove nothing": """
        crl::crlnumber-missing crl::crlnumber-critical rfc5280::aki::leaf-missing-aki
        rfc5280::aki::intermediate-missing-aki rfc5280::aki::cross-signed-root-missing-aki
        rfc5280::ski::root-missing-ski rfc5280::ski::intermediate-missing-ski
        webpki::aki::root-with-aki-authoritycertissuer webpki::aki::root-with-aki-authoritycertserialnumber
        webpki::aki::root-with-aki-all-fields webpki::aki::root-with-aki-ski-mismatch""",
    "criticality of an extension that is processed in either case": """
        rfc5280::nc::permitted-dns-match-noncritical rfc5280::pc::ica-noncritical-pc
        rfc5280::root-non-critical-basic-constraints webpki::san::san-critical-with-nonempty-subject""",
    "RSA moduli that are not divisible by 8": """
        webpki::forbidden-rsa-not-divisible-by-8-in-root webpki::forbidden-rsa-key-not-divisible-by-8-in-leaf""",
    "a depth that the case sets itself, and many names that no constraint is about": """
        pathlen::max-chain-depth-0-exhausted pathlen::max-chain-depth-1-exhausted pathological::nc-dos-3""",
}


def judge(case: Case, now: datetime) -> str:
    """`SUCCESS`, or the code of the rejection."""
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
    return HOLDS


def main(file: Path) -> int:
    """Print each verdict that differs, and the counts; 1 if a case holds that may not."""
    known = {case for cases in LENIENT.values() for case in cases.split()}
    cases = json.loads(file.read_text("utf-8"))["testcases"]
    now, counts, worse, slowest = datetime.now(UTC), Counter[str](), [], (0.0, "")
    for case in cases:
        begun = time.perf_counter()
        verdict, expected = judge(case, now), case["expected_result"]
        slowest = max(slowest, (time.perf_counter() - begun, case["id"]))
        difference = "same" if (verdict == HOLDS) == (expected == HOLDS) else "stricter"
        if difference != "same" and verdict == HOLDS:
            difference = "more lenient"
            worse += [case["id"]] if case["id"] not in known else []
        counts[difference] += 1
        if difference != "same":
            print(f"{case['id']:75} expected {expected:8} {verdict:25} {','.join(case['features'])}")
    print(f"slowest: {slowest[1]}, {slowest[0] * 1000:.0f} ms")
    print(f"{len(cases)} cases: {', '.join(f'{count} {name}' for name, count in counts.most_common())}")
    for name in worse:
        print(f"{name} holds now, and failed before")
    return 1 if worse else 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        print("give limbo.json, which `limbo compile` of x509-limbo writes: make limbo LIMBO=FILE", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(Path(sys.argv[1])))
