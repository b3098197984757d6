"""Verdicts on one chain, the root first and the leaf last: ours, and that of pyhanko-certvalidator."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from asn1crypto import x509 as asn1_x509
from pyhanko_certvalidator import CertificateValidator, ValidationContext
from pyhanko_certvalidator.errors import InvalidCertificateError, PathBuildingError, PathValidationError

from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected
from tppkit.trust import Anchors, PathVerifier

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)


def we_believe(chain: Sequence[EidasCertificate]) -> bool:
    root, *between, leaf = chain
    try:
        PathVerifier(Anchors((root,), tuple(between))).verify(leaf, at=AT)
    except CertificateRejected:
        return False
    return True


def they_believe(chain: Sequence[EidasCertificate]) -> bool:
    root, *between, leaf = (asn1_x509.Certificate.load(one.der) for one in chain)
    context = ValidationContext(trust_roots=[root], other_certs=between, moment=AT, allow_fetching=False)
    validator = CertificateValidator(leaf, validation_context=context)
    try:
        asyncio.run(validator.async_validate_path())
    except (PathBuildingError, PathValidationError, InvalidCertificateError):
        return False
    return True
