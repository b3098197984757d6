"""Whoever sends a long target or thousands of headers does not make a diagnosis long. Work is counted, not timed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sealing import REQUEST, changed

from tppkit.httpsig.message import Header
from tppkit.seals import Message, Seal, sign_request
from tppkit.seals.diagnose import Outcome, diagnose_request

MANY, WORK = 5000, 200_000


class Walked(tuple[Header, ...]):
    """Headers that count how often somebody walks through all of them."""

    walks = 0

    def __iter__(self) -> Iterator[Header]:
        type(self).walks += 1
        return super().__iter__()


@pytest.mark.parametrize(
    "more", [[(f"X-{n}", "v") for n in range(MANY)], [("X-Same", "v")] * MANY], ids=["many names", "one name"]
)
def test_the_headers_are_walked_through_a_few_times_whatever_is_tried(seal: Seal, more: list[Header]) -> None:
    sealed = sign_request(changed(REQUEST, headers=(*REQUEST.headers, *more)), seal=seal)
    Walked.walks = 0
    headers = Walked(sealed.headers)
    diagnosis = diagnose_request(Message("POST", "/elsewhere", headers, sealed.body), max_work=WORK)
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert diagnosis.tried > 3000
    assert Walked.walks < 150


@pytest.mark.parametrize(
    "target",
    [
        "/a" + "/b%2Fc" * 10_000, "/a?" + "&".join(f"key{n}=v%20{n}" for n in range(4500)), "/a" + ";x=1" * 16_000,
        "/" + "%25" * 21_000,
    ],
    ids=["path", "query", "parameters", "escapes"],
)  # fmt: skip
def test_a_long_target_is_tried_in_fewer_ways(seal: Seal, target: str) -> None:
    sealed = sign_request(changed(REQUEST, target=target), seal=seal)
    diagnosis = diagnose_request(changed(sealed, target=f"/z{target[2:]}"), max_work=WORK)
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert diagnosis.tried * (len(target) >> 7) < 2 * WORK
    near = diagnose_request(changed(sealed, target=f"/base{target}"))
    assert "target-base-path-stripped" in [cause.name for cause in near.causes]
