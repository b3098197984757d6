"""How long a diagnosis lasts: the slowest single mistake and the slowest pair, each really made, of those the tests have."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from harness import Line, against, seconds
from seals import AT, raw_operations
from tppkit.seals.diagnose import diagnose_request
from tppkit.testpki import make_pki

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "seals" / "diagnose"))
from wrong_signer import PAIRS, SINGLE, Case, seal_wrongly  # the path is set above


def diagnosing() -> Iterator[Line]:
    """The worst single mistake."""
    yield worst("single mistake", SINGLE, at_most=5_000)


def diagnosing_pairs() -> Iterator[Line]:
    """The worst pair of mistakes."""
    yield worst("pair of mistakes", PAIRS, at_most=50_000)


def worst(what: str, cases: tuple[Case, ...], *, at_most: float) -> Line:
    """The request of these cases that takes longest, with P-256, whose verifications are the slower ones."""
    pki = make_pki(at=AT, key="p256")

    def diagnose() -> None:
        if not diagnose_request(message, certificates=(pki.qseal.certificate, pki.qwac.certificate)).explained:
            raise AssertionError("a known mistake is not explained")

    taken = {}
    for case in cases:
        if "ec" in case.keys:
            message = seal_wrongly(pki.qseal, **case.steps)
            taken[seconds(diagnose, 1)] = message
    message = taken[max(taken)]
    _, raw_verify = raw_operations(pki, b"x" * 200)
    return against(f"diagnose the worst {what}", diagnose, raw_verify, what="of raw P-256 verify", at_most=at_most)
