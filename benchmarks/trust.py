"""Believing certificates: paths, and trusted lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType

from harness import Line, Subject, within
from tppkit.certificates import EidasCertificate
from tppkit.testpki import make_pki
from tppkit.testpki.crl import Revocation
from tppkit.trust import (
    Anchors,
    PathVerifier,
    RevocationChecker,
    RevocationEvidence,
    RevocationScope,
    load_trusted_lists,
    parse_crl,
    verify_trusted_list,
)
from tppkit.trust.trusted_list.folder import pointers_to

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
LISTS = Path(__file__).parents[2] / "shared" / "data" / "certificates" / "trusted-lists"


def believing() -> Iterator[Line]:
    """A path with one intermediate, nothing remembered; and national lists."""
    for key, name in (("p256", "P-256"), ("rsa2048", "RSA-2048")):
        yield within(f"path with one intermediate, {name}", path(key), limit_us=1500, rounds=400)
    yield within("status by a CRL of 100,000 entries", long_list(), limit_us=150, rounds=2000)
    yield from trusted_lists()


def long_list() -> Subject:
    """A checker that has the list, asked about a certificate again and again; nothing of the certificate is remembered."""
    pki = make_pki(at=AT, seed=1)
    revoked = tuple(Revocation(serial, AT) for serial in range(1 << 126, (1 << 126) + 100_000))
    filled = replace(pki, revocations=MappingProxyType({pki.qwac_ca.label: revoked}))
    evidence = RevocationEvidence(crls=(parse_crl(filled.crl(filled.qwac_ca, at=AT)),))
    checker = RevocationChecker(evidence=evidence, scope=RevocationScope.LEAF)
    chain = (pki.qwac.certificate, pki.qwac_ca.certificate)
    return lambda: checker.check(chain, at=AT)


def path(key: str) -> Subject:
    """A verifier that has seen nothing, and certificates read anew."""
    pki = make_pki(at=AT, key=key)
    root, issuing, leaf = (one.certificate.der for one in (pki.root, pki.qwac_ca, pki.qwac))

    def verify() -> object:
        anchors = Anchors((EidasCertificate.from_der(root),))
        intermediate = EidasCertificate.from_der(issuing)
        return PathVerifier(anchors).verify(EidasCertificate.from_der(leaf), at=AT, intermediates=[intermediate])

    return verify


def trusted_lists() -> Iterator[Line]:
    """Verifying and reading a national list of 2023, where the shared data are present."""
    if not LISTS.is_dir():
        return
    top = load_trusted_lists(LISTS).list_of_lists
    for name in ("NO", "PT", "NL", "CZ") if top else ():
        data, signers = (LISTS / f"{name}.xml").read_bytes(), pointers_to(top, name)[0].signers
        load = partial(verify_trusted_list, data, signers=signers, source=name)
        yield within(f"load the trusted list of {name}, {len(data) // 1000} KB", load, limit_us=150_000, rounds=10)
