"""Reading and judging certificates."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime

from cryptography.x509 import load_der_x509_certificate

from harness import Line, Subject, against
from tppkit.certificates import EidasCertificate, Use, check_certificate
from tppkit.testpki import make_pki

LEAF = make_pki(at=datetime(2026, 6, 1, 12, tzinfo=UTC), seed=1).qwac.certificate


def reading() -> Iterator[Line]:
    """A QWAC and every fact of it, as the first one that a process reads, and the same one again."""
    for name, read, limit in (("cold", read_cold, 2.5), ("again", read_whole, 1.2)):
        what = "of cryptography with extensions"
        yield against(f"read a QWAC {name}", read, load_plainly, what=what, at_most=limit)


def load_plainly() -> object:
    return load_der_x509_certificate(LEAF.der).extensions


def read_whole() -> object:
    certificate = EidasCertificate.from_der(bytes(memoryview(LEAF.der)))  # as it comes with the next request
    return certificate.organization_identifier, certificate.roles, certificate.extensions, certificate.findings


def read_cold() -> object:
    """With nothing remembered."""
    EidasCertificate._remembered.cache_clear()
    return read_whole()


def judging() -> Iterator[Line]:
    """Every rule on a QWAC from its bytes, as pkilint does it too; nothing is remembered."""

    def check() -> object:
        EidasCertificate._remembered.cache_clear()
        return check_certificate(EidasCertificate.from_der(LEAF.der), as_=Use.QWAC, at=LEAF.not_before)

    yield against("read and check a QWAC", check, pkilint(LEAF.der), what="of pkilint", at_most=0.1)


def pkilint(leaf: bytes) -> Subject:
    """Reads and lints by the profile that it takes the certificate for; its validators are made once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pkilint import etsi, loader
        from pkilint.pkix import certificate

    kind = etsi.determine_certificate_type(loader.load_certificate(leaf, "QWAC"))
    container = certificate.create_pkix_certificate_validator_container(
        etsi.create_decoding_validators(kind), etsi.create_validators(kind)
    )

    def lint() -> object:
        return container.validate(loader.load_certificate(leaf, "QWAC").root)

    return lint
