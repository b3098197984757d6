"""Believing certificates: paths, and trusted lists."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from harness import Line, Subject, within
from tppkit.certificates import EidasCertificate
from tppkit.testpki import make_pki
from tppkit.trust import Anchors, PathVerifier, load_trusted_lists, verify_trusted_list
from tppkit.trust.trusted_list.folder import pointers_to

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
LISTS = Path(__file__).parents[2] / "shared" / "data" / "certificates" / "trusted-lists"


def believing() -> Iterator[Line]:
    """A path with one intermediate, nothing remembered; and national lists."""
    for key, name in (("p256", "P-256"), ("rsa2048", "RSA-2048")):
        yield within(f"path with one intermediate, {name}", path(key), limit_us=1500, rounds=400)
    yield from trusted_lists()


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
