"""Each known mistake, really made: it is named, it alone, and it is proven."""

from __future__ import annotations

import pytest
from wrong_signer import PAIRS, SINGLE, Case, seal_wrongly

from tppkit.seals.diagnose import Outcome, diagnose_request
from tppkit.testpki import Pki

# What is found hardly depends on the key, so that each mistake is made with one kind, by turns.
SINGLES = [(case, case.keys[number % len(case.keys)]) for number, case in enumerate(SINGLE)]
BOTH = [(case, case.keys[number % len(case.keys)]) for number, case in enumerate(PAIRS)]


def ids(row: object) -> str:
    return row.name if isinstance(row, Case) else str(row)


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
