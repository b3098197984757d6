"""A chain holds exactly while every certificate of it is valid, and remembering it changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from refusals import refused
from tppkit.certificates import Use
from tppkit.errors import CertificateRejected
from tppkit.trust import PathVerifier, make_anchors

SECOND, INSTANT = timedelta(seconds=1), timedelta(microseconds=1)
DAY = [datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 31)]
WIDE = (DAY[0], DAY[29])
NARROW = (DAY[9], DAY[19])


@pytest.fixture(scope="module")
def make(certify):
    """A verifier and a leaf whose chain has one certificate of narrow validity."""

    def make(narrow: str) -> tuple[PathVerifier, object]:
        def dates(name: str) -> dict:
            starts, ends = NARROW if name == narrow else WIDE
            return {"starts": starts, "ends": ends}

        root = certify("Root", **dates("root"))
        issuing = certify("Issuing", root, **dates("issuing"))
        leaf = certify("leaf", issuing, ca=False, **dates("leaf"))
        return PathVerifier(make_anchors([root.certificate, issuing.certificate])), leaf.certificate

    return make


def code(paths: PathVerifier, certificate, at: datetime) -> str | None:
    try:
        paths.verify(certificate, at=at)
    except CertificateRejected as e:
        return e.code
    return None


@pytest.mark.parametrize("narrow", ["leaf", "issuing", "root"])
def test_a_chain_holds_from_its_first_to_its_last_moment(make, narrow):
    paths, leaf = make(narrow)
    path = paths.verify(leaf, at=DAY[14])
    assert (path.window.not_before, path.window.not_after) == NARROW
    for at in NARROW:
        assert paths.verify(leaf, at=at) == path


EARLY = {"leaf": "certificate.not-yet-valid", "issuing": "path.not-yet-valid", "root": "path.not-yet-valid"}
LATE = {"leaf": "certificate.expired", "issuing": "path.expired", "root": "path.expired"}


@pytest.mark.parametrize("step", [SECOND, INSTANT])
@pytest.mark.parametrize("remembered", [False, True], ids=["at first sight", "when remembered"])
@pytest.mark.parametrize("narrow", ["leaf", "issuing", "root"])
def test_a_chain_is_refused_just_outside_its_validity(make, narrow, remembered, step):
    paths, leaf = make(narrow)
    if remembered:
        assert code(paths, leaf, DAY[14]) is None
    assert code(paths, leaf, NARROW[0] - step) == EARLY[narrow]
    assert code(paths, leaf, NARROW[1] + step) == LATE[narrow]


@pytest.mark.parametrize("narrow", ["leaf", "issuing", "root"])
def test_a_refusal_does_not_outlive_its_time(make, narrow):
    paths, leaf = make(narrow)
    assert code(paths, leaf, DAY[25]) == LATE[narrow]
    assert code(paths, leaf, DAY[2]) == EARLY[narrow]
    assert code(paths, leaf, DAY[14]) is None


def test_a_time_is_judged_as_a_moment_whatever_its_zone(make):
    paths, leaf = make("root")
    for hours in (-11, 0, 13):
        assert code(paths, leaf, NARROW[1].astimezone(timezone(timedelta(hours=hours)))) is None
        assert code(paths, leaf, (NARROW[1] + SECOND).astimezone(timezone(timedelta(hours=hours)))) == "path.expired"


def test_after_an_intermediate_was_renewed_the_chain_continues(certify):
    root = certify("Root", starts=WIDE[0], ends=WIDE[1])
    old = certify("Issuing", root, starts=WIDE[0], ends=DAY[10])
    leaf = certify("leaf", old, ca=False, starts=WIDE[0], ends=WIDE[1])
    paths = PathVerifier(make_anchors([root.certificate]))
    first = paths.verify(leaf.certificate, at=DAY[5], intermediates=[old.certificate])
    assert code(paths, leaf.certificate, DAY[12]) == "trust.no-path"
    assert first.window.not_after == DAY[10]


def test_a_remembered_chain_is_good_without_the_intermediates_sent_again(certify):
    root = certify("Root")
    issuing = certify("Issuing", root)
    leaf = certify("leaf", issuing, ca=False).certificate
    paths, at = PathVerifier(make_anchors([root.certificate])), datetime(2026, 6, 1, tzinfo=UTC)
    path = paths.verify(leaf, at=at, intermediates=[issuing.certificate])
    assert paths.verify(leaf, at=at) == path


def test_what_one_verifier_remembers_another_does_not_trust(make):
    paths, leaf = make("leaf")
    others, _ = make("leaf")
    assert code(paths, leaf, DAY[14]) is None
    assert code(others, leaf, DAY[14]) == "trust.no-path"


def test_a_remembered_chain_is_still_judged_for_its_use(pki, paths):
    at = pki.not_before
    assert code(paths, pki.qseal.certificate, at) is None
    with refused(CertificateRejected, "qcstatements.not-web"):
        paths.verify_use(pki.qseal.certificate, as_=Use.QWAC, at=at)


def test_more_chains_than_are_remembered_are_still_verified(pki, paths):
    leaves = [pki.issue_qseal(pki.provider, label=f"seal {number}").certificate for number in range(520)]
    assert all(code(paths, leaf, pki.not_before) is None for leaf in [*leaves, leaves[0]])
    assert code(paths, leaves[0], pki.not_before - SECOND) == "certificate.not-yet-valid"
