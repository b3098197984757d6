"""How long a diagnosis lasts: the slowest single mistake and the slowest pair, each really made, of those the tests have."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from harness import Line, within
from tppkit.httpsig import Message
from tppkit.seals.diagnose import diagnose_request
from tppkit.testpki import Pki, make_pki

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "seals" / "diagnose"))
from wrong_signer import PAIRS, SINGLE, Case, seal_wrongly  # the path is set above

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)


def diagnosing() -> Iterator[Line]:
    """The worst of each kind with each kind of key."""
    for kind, key in (("rsa", "rsa2048"), ("ec", "p256")):
        pki = make_pki(at=AT, key=key)
        for what, cases, limit_us in (("single cause", SINGLE, 300_000), ("pair", PAIRS, 3_000_000)):
            message = slowest(pki, kind, cases)
            yield within(
                f"diagnose, worst {what}, {key}", lambda m=message, p=pki: diagnose(p, m), limit_us=limit_us, rounds=5
            )


def slowest(pki: Pki, kind: str, cases: tuple[Case, ...]) -> Message:
    """The request of these cases that takes longest."""
    messages = [seal_wrongly(pki.qseal, **case.steps) for case in cases if kind in case.keys]
    return max(messages, key=lambda message: seconds(pki, message))


def seconds(pki: Pki, message: Message) -> float:
    begin = perf_counter()
    diagnose(pki, message)
    return perf_counter() - begin


def diagnose(pki: Pki, message: Message) -> None:
    diagnosis = diagnose_request(message, certificates=(pki.qseal.certificate, pki.qwac.certificate))
    if not diagnosis.explained:
        raise AssertionError("a known mistake is not explained")
