"""Trusting certificates: trusted lists, and status by a long list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType

from lxml import etree

from harness import Line, Subject, against
from tppkit.testpki import make_pki
from tppkit.testpki.crl import Revocation
from tppkit.trust import RevocationChecker, RevocationEvidence, RevocationScope, load_trusted_lists
from tppkit.trust.revocation.revocation_list import parse_crl
from tppkit.trust.trusted_list.folder import pointers_to
from tppkit.trust.trusted_list.reader import UnverifiedList

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
LISTS = Path(__file__).parents[2] / "shared" / "data" / "certificates" / "trusted-lists"
FEW, MANY = 100, 100_000
COUNTRY = "CZ"  # the largest of those that we have; a bank loads about thirty


def trusting() -> Iterator[Line]:
    """Verifying and reading a national list of 2023, where the shared data are present."""
    top = load_trusted_lists(LISTS).list_of_lists if LISTS.is_dir() else None
    if top:
        data, signers = (LISTS / f"{COUNTRY}.xml").read_bytes(), pointers_to(top, COUNTRY)[0].signers
        load = partial(verify, data, signers)
        name = f"load a trusted list of {len(data) // 1000:,} KB"
        yield against(name, load, partial(canonicalise, data), what="of lxml canonicalising it", at_most=20)


def verify(data: bytes, signers: frozenset[str]) -> object:
    return UnverifiedList(data, source=COUNTRY).verify(signers=signers)


def canonicalise(data: bytes) -> bytes:
    """What every verification of the list's signature does at least."""
    return etree.tostring(etree.fromstring(data), method="c14n", exclusive=True)


def asking() -> Iterator[Line]:
    """Status by a long CRL; nothing of the certificate is remembered."""
    many, few = status(MANY), status(FEW)
    yield against(f"status by a CRL of {MANY:,} entries", many, few, what=f"of {FEW:,} entries", at_most=1.5)


def status(entries: int) -> Subject:
    """A checker that has the list, asked about a certificate again and again."""
    pki = make_pki(at=AT, seed=1)
    revoked = tuple(Revocation(serial, AT) for serial in range(1 << 126, (1 << 126) + entries))
    filled = replace(pki, revocations=MappingProxyType({pki.qwac_ca.label: revoked}))
    evidence = RevocationEvidence(crls=(parse_crl(filled.crl(filled.qwac_ca, at=AT)),))
    checker = RevocationChecker(evidence=evidence, scope=RevocationScope.LEAF)
    chain = (pki.qwac.certificate, pki.qwac_ca.certificate)
    return lambda: checker.check(chain, at=AT)
