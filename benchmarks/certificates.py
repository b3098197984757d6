"""Judging a certificate, alone and against pkilint in the same run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime

from harness import Line, Subject, against, within
from tppkit.certificates import EidasCertificate, Use, check_certificate
from tppkit.testpki import make_pki

AT = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def judging() -> Iterator[Line]:
    """Every rule on a QWAC; then from its bytes, as pkilint does it too."""
    qwac = make_pki(at=AT, seed=1).qwac.certificate

    def check() -> object:
        return check_certificate(qwac, as_=Use.QWAC, at=AT)

    def read_and_check() -> object:
        return check_certificate(EidasCertificate.from_der(qwac.der), as_=Use.QWAC, at=AT)

    yield within("check a QWAC", check, limit_us=1000, rounds=2000)
    yield against("read and check a QWAC", read_and_check, pkilint(qwac.der), what="pkilint", limit=0.1, rounds=100)


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
