"""What each code means for a record, after ETSI EN 319 102-1: only what is disproved has failed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tppkit
from tppkit.codes import CODES
from tppkit.evidence import Verdict
from tppkit.evidence.verdicts import is_unproved, step_of, sub_indication, verdict_of

FAILED = {"FORMAT_FAILURE", "HASH_FAILURE", "SIG_CRYPTO_FAILURE", "REVOKED", None}
# The rooms whose errors become failures of records, and the groups of codes there that do not.
ROOMS = ("seals", "httpsig", "certificates", "trust", "evidence", "callbacks")
NOT_OF_RECORDS = """
    archive authority callback-cause crl fetch file head inbox internal ledger log manifest message ocsp operations origin outbox
    pair pem pkcs12 qr renewal request signer stamp time tree
"""
# What breaks a rule, is malformed or is disproved.
DISPROVING = """
    answer callback certificate der digest form-data header json jws key key-id name organization-identifier profile qcstatements record
    role seal signature structured revocation trust
"""


def test_every_code_of_a_record_has_a_verdict_on_purpose():
    texts = [path.read_text("utf-8") for room in ROOMS for path in (Path(tppkit.__file__).parent / room).rglob("*.py")]
    used = {code for text in texts for code in re.findall(r'"([a-z0-9-]+\.[a-z0-9-]+)"', text)} & set(CODES)
    assert len(used) > 300
    for code in sorted(used):
        group = code.partition(".")[0]
        assert is_unproved(code) or group in (NOT_OF_RECORDS + DISPROVING).split(), code
        assert is_unproved(code) != (sub_indication(code) in FAILED), code
        assert 1 <= step_of(code) <= 7


@pytest.mark.parametrize(
    ("verdict", "sub", "codes"),
    [
        (Verdict.INDETERMINATE, "NO_CERTIFICATE_CHAIN_FOUND", "trust.no-path trust.no-anchors"),
        (Verdict.INDETERMINATE, "CERTIFICATE_CHAIN_GENERAL_FAILURE", "revocation.unknown record.answer path.signature"),
        (Verdict.INDETERMINATE, "TRY_LATER", "revocation.stale"),
        (Verdict.INDETERMINATE, "NO_SIGNING_CERTIFICATE_FOUND", "record.certificate record.no-qwac file.unreadable"),
        (Verdict.INDETERMINATE, "OUT_OF_BOUNDS_NO_POE", "certificate.expired certificate.not-yet-valid"),
        (
            Verdict.INDETERMINATE,
            "CHAIN_CONSTRAINTS_FAILURE",
            "path.policy trusted-list.not-granted trusted-list.missing",
        ),
        (
            Verdict.INDETERMINATE,
            "CRYPTO_CONSTRAINTS_FAILURE_NO_POE",
            "record.algorithm-ended key.weak path.weak-signature",
        ),
        (Verdict.INDETERMINATE, "SIGNED_DATA_NOT_FOUND", "record.body-redacted"),
        (Verdict.FAILED, "HASH_FAILURE", "record.leaf record.body digest.mismatch record.signing-input"),
        (Verdict.FAILED, "SIG_CRYPTO_FAILURE", "signature.invalid callback.signature"),
        (Verdict.FAILED, "REVOKED", "revocation.revoked"),
        (Verdict.FAILED, "FORMAT_FAILURE", "signature.malformed header.duplicate record.version"),
        (Verdict.FAILED, None, "role.missing seal.other-organisation certificate.key-usage"),
    ],
)
def test_a_code_has_the_sub_indication_of_the_standard(verdict, sub, codes):
    for code in codes.split():
        assert (verdict_of([code])[0], sub_indication(code)) == (verdict, sub), code


def test_what_is_disproved_decides_over_what_is_unproved():
    assert verdict_of(["revocation.unknown", "signature.invalid"]) == (Verdict.FAILED, "signature.invalid")
    assert verdict_of(["revocation.unknown", "trust.no-path"]) == (Verdict.INDETERMINATE, "revocation.unknown")
    assert verdict_of([]) == (Verdict.PASSED, None)
