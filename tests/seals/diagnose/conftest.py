"""Keys and certificates of each kind, and a diagnosis with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from wrong_signer import Case, seal_wrongly

from tppkit.seals import Message
from tppkit.seals.diagnose import Diagnosis, diagnose_request
from tppkit.testpki import Pki

Diagnose = Callable[[Case, str], Diagnosis]


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
