"""Each known mistake, really made: it is named, it alone, and it is proven."""

from __future__ import annotations

import pytest
from wrong_signer import PAIRS, SINGLE, Case, seal_wrongly

from tppkit.seals.diagnose import Outcome, diagnose_request
from tppkit.testpki import Pki

SINGLES = [(case, kind) for case in SINGLE for kind in case.keys]
BOTH = [(case, kind) for case in PAIRS for kind in case.keys]


def ids(row: object) -> str:
    return row.name if isinstance(row, Case) else str(row)


def test_there_are_enough_of_each() -> None:
    assert len({case.name for case in SINGLE}) >= 40
    assert len({case.name for case in PAIRS}) >= 25


@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_a_right_request_verifies(pkis: dict[str, Pki], kind: str) -> None:
    diagnosis = diagnose_request(seal_wrongly(pkis[kind].qseal))
    assert diagnosis.outcome is Outcome.VERIFIES
    assert diagnosis.causes == ()


@pytest.mark.parametrize(("case", "kind"), SINGLES, ids=ids)
def test_a_single_mistake_is_named(diagnose, case: Case, kind: str) -> None:
    diagnosis = diagnose(case, kind)
    assert [cause.name for cause in diagnosis.causes] == [case.name]
    assert diagnosis.outcome is Outcome.EXPLAINED


@pytest.mark.parametrize(("case", "kind"), BOTH, ids=ids)
def test_two_mistakes_are_both_named(diagnose, case: Case, kind: str) -> None:
    diagnosis = diagnose(case, kind)
    assert {cause.name for cause in diagnosis.causes} == set(case.name.split(" + "))
    assert diagnosis.outcome is Outcome.EXPLAINED
