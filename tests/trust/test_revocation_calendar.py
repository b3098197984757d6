"""Answers and certificates whose times lie at the end of the calendar, as 99991231235959Z does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from answering import evidence, make_crl, make_ocsp, outcome

from tppkit.trust import Anchors, PathVerifier, RevocationChecker, RevocationPolicy

AT = datetime(2026, 6, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
NEVER_ENDS = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize("make", ["crl", "ocsp"])
@pytest.mark.parametrize(
    "at", [AT, NEVER_ENDS, datetime.max.replace(tzinfo=UTC)], ids=["now", "last second", "maximum"]
)
def test_times_at_the_end_of_the_calendar_are_times(certify, make, at):
    root = certify("Root", ends=NEVER_ENDS)
    leaf = certify("leaf", root, ca=False, ends=NEVER_ENDS)
    issued = {"at": min(at, NEVER_ENDS), "lasts": NEVER_ENDS - min(at, NEVER_ENDS)}
    answer = make_crl(root, **issued) if make == "crl" else make_ocsp(leaf, root, **issued)
    checker = RevocationChecker(evidence=evidence(answer), now=lambda: at, max_age=timedelta.max)
    paths = PathVerifier(Anchors((root.certificate,)), revocation=checker)
    expected = None if at <= NEVER_ENDS else "certificate.expired"
    assert outcome(paths, leaf, at)[0] == expected


def test_an_undated_answer_of_the_last_day_of_the_calendar_is_read(certify):
    root = certify("Root", ends=NEVER_ENDS)
    leaf = certify("leaf", root, ca=False, ends=NEVER_ENDS)
    answer = make_ocsp(leaf, root, at=NEVER_ENDS - HOUR, lasts=None)
    soft = RevocationChecker(evidence=evidence(answer), policy=RevocationPolicy.SOFT_FAIL)
    assert outcome(PathVerifier(Anchors((root.certificate,)), revocation=soft), leaf, NEVER_ENDS)[0] is None
    nothing = RevocationChecker(policy=RevocationPolicy.SOFT_FAIL)
    assert outcome(PathVerifier(Anchors((root.certificate,)), revocation=nothing), leaf, NEVER_ENDS)[0] is None
