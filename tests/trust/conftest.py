"""Chains of certificates with any validity, path length or extension."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import pytest
from answering import evidence
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from key_identifiers import key_identifiers
from tppkit.certificates import EidasCertificate
from tppkit.testpki.profiles import authority_extensions, key_usage
from tppkit.trust import Anchors, PathVerifier, RevocationChecker, RevocationScope

STARTS, ENDS = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)


class Certified(NamedTuple):
    """A certificate and the key it certifies."""

    certificate: EidasCertificate
    key: ec.EllipticCurvePrivateKey


Certify = Callable[..., Certified]


@pytest.fixture(scope="session")
def certify() -> Certify:
    """Certifies a name: as a root when `issuer` is absent, else by the issuer; `ca=False` makes an end entity."""

    def certify(
        name: str,
        issuer: Certified | None = None,
        *,
        ca: bool = True,
        path_length: int | None = None,
        starts: datetime = STARTS,
        ends: datetime = ENDS,
        extensions: tuple[tuple[x509.ExtensionType, bool], ...] | None = None,
    ) -> Certified:
        key = ec.generate_private_key(ec.SECP256R1())
        signing_key = issuer.key if issuer else key
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer.certificate.x509.subject if issuer else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(starts)
            .not_valid_after(ends)
        )
        if extensions is None:
            extensions = (
                tuple(authority_extensions(path_length=path_length)) if ca else (key_usage("digital_signature"),)
            )
        for extension, critical in (*extensions, *key_identifiers(key.public_key(), signing_key.public_key())):
            builder = builder.add_extension(extension, critical)
        signed = builder.sign(signing_key, hashes.SHA256())
        return Certified(EidasCertificate.from_der(signed.public_bytes(Encoding.DER)), key)

    return certify


@pytest.fixture(scope="module")
def root(certify: Certify) -> Certified:
    """A root, for tests that need no other one."""
    return certify("Root")


@pytest.fixture(scope="module")
def issuing(certify: Certify, root: Certified) -> Certified:
    """An authority below `root`."""
    return certify("Issuing", root)


@pytest.fixture
def judging(root: Certified, issuing: Certified) -> Callable[..., PathVerifier]:
    """A verifier of certificates of `issuing` with these answers; of the end entity alone unless stated otherwise."""

    def judging(*answers, scope: RevocationScope = RevocationScope.LEAF, **options) -> PathVerifier:
        checker = RevocationChecker(evidence=evidence(*answers), scope=scope, **options)
        return PathVerifier(Anchors((root.certificate,), (issuing.certificate,)), revocation=checker)

    return judging


@pytest.fixture(scope="session")
def operator(certify: Certify) -> Certified:
    """The operator of a national list."""
    return certify("Scheme operator", ca=False)


@pytest.fixture(scope="session")
def commission(certify: Certify) -> Certified:
    """The signer of the list of lists."""
    return certify("Commission", ca=False)
