"""How long a diagnosis lasts: the slowest mistake, really made, of those the tests have."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from harness import Line, against, seconds
from seals import AT, raw_operations
from tppkit.seals.diagnose import diagnose_request
from tppkit.testpki import make_pki

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "seals" / "diagnose"))
from wrong_signer import SINGLE, seal_wrongly  # the path is set above


def diagnosing() -> Iterator[Line]:
    """The request that takes longest, with P-256, whose verifications are the slower ones."""
    pki = make_pki(at=AT, key="p256")

    def diagnose() -> None:
        if not diagnose_request(message, certificates=(pki.qseal.certificate, pki.qwac.certificate)).explained:
            raise AssertionError("a known mistake is not explained")

    taken = {}
    for case in SINGLE:
        if "ec" in case.keys:
            message = seal_wrongly(pki.qseal, **case.steps)
            taken[seconds(diagnose, 1)] = message
    message = taken[max(taken)]
    _, raw_verify = raw_operations(pki, b"x" * 200)
    yield against("diagnose the worst single mistake", diagnose, raw_verify, what="of raw P-256 verify", at_most=5_000)
