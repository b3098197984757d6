"""A seal that was believed a moment ago fails as soon as a revocation is known."""

from __future__ import annotations

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from sealing import AT, REQUEST, verdict

from refusals import refused
from tppkit.errors import CertificateRejected
from tppkit.seals import SealPolicy, sign_request
from tppkit.testpki import Issued, Pki, certificate_pem
from tppkit.trust import PathVerifier, RevocationChecker, RevocationEvidence, RevocationScope, make_anchors
from tppkit.trust.revocation.revocation_list import parse_crl
from tppkit.web import PeerCertificate, QwacPolicy

HOUR = timedelta(hours=1)


def listing(issuer: Issued, *revoked: Issued, is_delta: bool = False) -> RevocationEvidence:
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.certificate.x509.subject)
        .last_update(AT - HOUR)
        .next_update(AT + HOUR)
    )
    if is_delta:
        builder = builder.add_extension(x509.DeltaCRLIndicator(1), critical=True)
    for one in revoked:
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder().serial_number(one.certificate.serial).revocation_date(AT - HOUR).build()
        )
    return RevocationEvidence(crls=(parse_crl(builder.sign(issuer.key, hashes.SHA256()).public_bytes(Encoding.DER)),))


@pytest.fixture
def checker(pki: Pki) -> RevocationChecker:
    return RevocationChecker(
        evidence=listing(pki.qseal_ca) + listing(pki.qwac_ca), scope=RevocationScope.LEAF, remember=24 * HOUR
    )


@pytest.fixture
def checked_paths(pki: Pki, checker: RevocationChecker) -> PathVerifier:
    return PathVerifier(make_anchors(pki.authorities), revocation=checker)


@pytest.mark.parametrize("is_delta", [False, True], ids=["complete", "delta"])
def test_a_known_seal_fails_once_a_revocation_is_known_or_its_evidence_is_over(
    seal, checked_paths, pki, checker, is_delta
):
    policy, message = SealPolicy(checked_paths), sign_request(REQUEST, seal=seal)
    assert verdict(message, policy) == "holds"
    assert verdict(message, policy, at=AT + HOUR) == "holds"
    assert verdict(message, policy, at=AT + 2 * HOUR) == "revocation.stale"
    assert [verdict(message, policy) for _ in range(2)] == ["holds", "holds"]
    checker.replace(listing(pki.qseal_ca, pki.qseal, is_delta=is_delta))
    assert [verdict(message, policy) for _ in range(2)] == ["revocation.revoked", "revocation.revoked"]


def test_a_known_qwac_fails_once_a_revocation_is_known(pki, checker, checked_paths):
    policy = QwacPolicy(checked_paths)
    peer = PeerCertificate((certificate_pem(pki.qwac.certificate).decode(),), None, "asgi-tls")
    assert policy.verify(peer, at=AT) is policy.verify(peer, at=AT)
    checker.replace(listing(pki.qwac_ca, pki.qwac))
    with refused(CertificateRejected, "revocation.revoked"):
        policy.verify(peer, at=AT)
