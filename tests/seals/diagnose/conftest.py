"""Keys and certificates of each kind, and a diagnosis with them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
from wrong_signer import Case, seal_wrongly

from tppkit.seals import Message
from tppkit.seals.diagnose import ALL_MISTAKES, Diagnosis, diagnose_request
from tppkit.testpki import Pki

Diagnose = Callable[[Case, str], Diagnosis]
HERE = Path(__file__).parent
MISTAKES = frozenset(row.name for row in ALL_MISTAKES)
# Left out of `make test` as whole files: long searches, and the many places and forms of signatures and certificates.
SLOW = frozenset(
    {
        "test_diagnose_absence", "test_diagnose_bounds", "test_diagnose_certificate_places", "test_diagnose_certificates",
        "test_diagnose_jws_parts", "test_diagnose_pairs", "test_diagnose_places", "test_diagnose_proof", "test_diagnose_recover",
        "test_diagnose_vectors",
    }
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow the cases that neither begin a test nor name a mistake that no case before them names."""
    begun: set[str] = set()
    made: set[str] = set()
    for item in items:
        if item.path.is_relative_to(HERE):
            test, names = item.nodeid.partition("[")[0], mistakes_of(item)
            if item.path.stem in SLOW or (test in begun and names <= made):
                item.add_marker("slow")
            else:
                begun.add(test)
                made |= names


def mistakes_of(item: pytest.Item) -> frozenset[str]:
    """The mistakes that the parameters of a case name."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    values = [getattr(value, "name", value) for value in parameters]
    lists = [[value] if isinstance(value, str) else value for value in values if isinstance(value, str | list | set)]
    return MISTAKES.intersection(chain.from_iterable(lists))


@pytest.fixture(scope="session")
def pkis(pki: Pki, rsa_pki: Pki) -> dict[str, Pki]:
    """A test PKI of each kind of key."""
    return {"ec": pki, "rsa": rsa_pki}


@pytest.fixture(scope="session")
def diagnose(pkis: dict[str, Pki]) -> Diagnose:
    """The diagnosis of a request that is really signed so."""

    def run(case: Case, kind: str) -> Diagnosis:
        own = pkis[kind]
        message: Message = seal_wrongly(own.qseal, **case.steps)
        return diagnose_request(message, certificates=(own.qseal.certificate, own.qwac.certificate))

    return run
