"""Each known mistake, really made: it is named, it alone, and it is proven."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.hashes import SHA512
from wrong_signer import PAIRS, SINGLE, Case, pss, seal_wrongly, with_hash

from tppkit.seals import PROFILES, PSD2_V1
from tppkit.seals.diagnose import Outcome, diagnose_request
from tppkit.testpki import Pki

# By turns with each kind of key first: the fast tests make each mistake with the first alone.
SINGLES = [(case, kind) for number, case in enumerate(SINGLE) for kind in case.keys[:: -1 if number % 2 else 1]]
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


OF_ANOTHER_DIALECT = {
    "pkcs1-for-pss": with_hash(SHA512()), "pss-salt-length": pss(20, hashed=SHA512(), mgf=SHA512()),
    "pss-mgf": pss(64, hashed=SHA512()),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_ANOTHER_DIALECT)
def test_a_mistake_that_psd2_v1_does_not_have_is_named(rsa_pki: Pki, name: str) -> None:
    profile = replace(PSD2_V1, name="mine", algorithms=PROFILES["cavage-12"].algorithms)
    message = seal_wrongly(rsa_pki.qseal, algorithm="hs2019", signer=OF_ANOTHER_DIALECT[name])
    assert [cause.name for cause in diagnose_request(message, profile=profile).causes] == [name]


@pytest.mark.parametrize(("case", "kind"), BOTH, ids=ids)
def test_two_mistakes_are_both_named(diagnose, case: Case, kind: str) -> None:
    diagnosis = diagnose(case, kind)
    assert {cause.name for cause in diagnosis.causes} == set(case.name.split(" + "))
    assert diagnosis.outcome is Outcome.EXPLAINED
