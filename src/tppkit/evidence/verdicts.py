"""What a failure means for a record: its verdict and sub-indication (ETSI EN 319 102-1).

A failure either disproves a record (FAILED) or leaves it unproved with the material at hand (INDETERMINATE): missing evidence never
disproves anything. A record that breaks a rule of the interface, such as a seal of another organisation, is disproved too. The
standard has no sub-indication of FAILED for that, so it has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType


class Verdict(StrEnum):
    """The result for one record."""

    PASSED = "passed"
    FAILED = "failed"
    INDETERMINATE = "indeterminate"
    UNREADABLE = "unreadable"


# Codes that leave a record unproved, with the sub-indication (EN 319 102-1 section 5.1.3, tables 5 and 6).
# A certificate that the trusted lists do not qualify, or that has no valid chain, may be proved by other material.
_UNPROVED: Mapping[str, str] = MappingProxyType({
    "trust.no-path": "NO_CERTIFICATE_CHAIN_FOUND", "trust.no-anchors": "NO_CERTIFICATE_CHAIN_FOUND",
    "certificate.expired": "OUT_OF_BOUNDS_NO_POE", "certificate.not-yet-valid": "OUT_OF_BOUNDS_NO_POE",
    "revocation.unknown": "CERTIFICATE_CHAIN_GENERAL_FAILURE", "revocation.stale": "TRY_LATER",
    "record.answer": "CERTIFICATE_CHAIN_GENERAL_FAILURE", "path.signature": "CERTIFICATE_CHAIN_GENERAL_FAILURE",
    "file.unreadable": "NO_SIGNING_CERTIFICATE_FOUND", "file.too-large": "NO_SIGNING_CERTIFICATE_FOUND",
    "record.certificate": "NO_SIGNING_CERTIFICATE_FOUND", "record.no-qwac": "NO_SIGNING_CERTIFICATE_FOUND",
    "record.body-redacted": "SIGNED_DATA_NOT_FOUND", "seal.body-needed": "SIGNED_DATA_NOT_FOUND",
    "record.unconfirmed-key": "NO_SIGNING_CERTIFICATE_FOUND",
    "record.unknown-profile": "SIGNATURE_POLICY_NOT_AVAILABLE", "record.unknown-kind": "SIGNATURE_POLICY_NOT_AVAILABLE",
    "record.algorithm-ended": "CRYPTO_CONSTRAINTS_FAILURE_NO_POE", "path.weak-signature": "CRYPTO_CONSTRAINTS_FAILURE_NO_POE",
    "key.weak": "CRYPTO_CONSTRAINTS_FAILURE_NO_POE", "certificate.weak-key": "CRYPTO_CONSTRAINTS_FAILURE_NO_POE",
})  # fmt: skip
_UNPROVED_PREFIXES: Mapping[str, str] = MappingProxyType(
    {"path.": "CHAIN_CONSTRAINTS_FAILURE", "trusted-list.": "CHAIN_CONSTRAINTS_FAILURE"}
)
# Codes that disprove a record, with the sub-indication; those that say in their name that something is malformed follow.
_DISPROVED: Mapping[str, str] = MappingProxyType({
    "record.leaf": "HASH_FAILURE", "record.body": "HASH_FAILURE", "record.signing-input": "HASH_FAILURE",
    "digest.mismatch": "HASH_FAILURE", "signature.invalid": "SIG_CRYPTO_FAILURE", "callback.signature": "SIG_CRYPTO_FAILURE",
    "revocation.revoked": "REVOKED", "record.version": "FORMAT_FAILURE", "signature.covered-names": "FORMAT_FAILURE",
    "jws.covered-names": "FORMAT_FAILURE", "signature.missing": "FORMAT_FAILURE", "signature.missing-parameter": "FORMAT_FAILURE",
})  # fmt: skip
_MALFORMED = ("malformed", "duplicate")


def verdict_of(codes: Iterable[str]) -> tuple[Verdict, str | None]:
    """Return the verdict on a record with these failures, and the first code that decides it; PASSED and None without any."""
    unproved = None
    for code in codes:
        if not is_unproved(code):
            return Verdict.FAILED, code
        unproved = unproved or code
    return (Verdict.PASSED, None) if unproved is None else (Verdict.INDETERMINATE, unproved)


def is_unproved(code: str) -> bool:
    """Whether a failure leaves a record unproved, rather than disproved."""
    return code in _UNPROVED or code.startswith(tuple(_UNPROVED_PREFIXES))


def sub_indication(code: str) -> str | None:
    """Return the sub-indication of a failure; None for a rule of the interface, for which the standard has none."""
    if known := _UNPROVED.get(code) or _DISPROVED.get(code):
        return known
    for prefix, value in _UNPROVED_PREFIXES.items():
        if code.startswith(prefix):
            return value
    return "FORMAT_FAILURE" if code.rpartition(".")[2].startswith(_MALFORMED) else None


# The checks of a record are numbered as in `checks`. All other codes are of step 4: the seal holds for the request.
_STEPS: Mapping[str, int] = MappingProxyType({
    "record.leaf": 1, "record.body": 2, "record.body-redacted": 2, "record.answer": 3, "record.certificate": 3, "record.no-qwac": 3,
    "record.signing-input": 5, "record.malformed": 5, "role.missing": 6, "record.algorithm-ended": 7, "record.unconfirmed-key": 3,
})  # fmt: skip
_STEP_3 = frozenset(
    ("trust", "trusted-list", "path", "revocation", "certificate", "qcstatements", "organization-identifier", "file", "der", "key")
)  # fmt: skip


def step_of(code: str) -> int:
    """Return the step of the audit, 1 to 7, that a failure belongs to."""
    return _STEPS.get(code, 3 if code.partition(".")[0] in _STEP_3 else 4)
