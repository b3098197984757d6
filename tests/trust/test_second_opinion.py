"""The same chains judged by an independent implementation of RFC 5280: pyhanko-certvalidator."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from asn1crypto import x509 as asn1_x509
from pyhanko_certvalidator import CertificateValidator, ValidationContext
from pyhanko_certvalidator.errors import PathBuildingError, PathValidationError

from tppkit.errors import CertificateRejected
from tppkit.testpki.profiles import key_usage
from tppkit.trust import Anchors, PathVerifier

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)


def they_believe(leaf, *, root, between, at: datetime) -> bool:
    def read(one) -> asn1_x509.Certificate:
        return asn1_x509.Certificate.load(one.certificate.der)

    context = ValidationContext(
        trust_roots=[read(root)], other_certs=[read(one) for one in between], moment=at, allow_fetching=False
    )
    validator = CertificateValidator(read(leaf), validation_context=context)
    try:
        asyncio.run(validator.async_validate_path())
    except (PathBuildingError, PathValidationError):
        return False
    return True


def we_believe(leaf, *, root, between, at: datetime) -> bool:
    paths = PathVerifier(Anchors((root.certificate,), tuple(one.certificate for one in between)))
    try:
        paths.verify(leaf.certificate, at=at)
    except CertificateRejected:
        return False
    return True


@pytest.fixture(scope="module")
def chains(certify) -> dict[str, tuple[bool, dict]]:
    """What a chain is, whether it holds, and its parts."""
    early = {"ends": AT - timedelta(days=1)}
    root, other, namesake = certify("Root"), certify("Other"), certify("Root")
    issuing, expired = certify("Issuing", root, path_length=0), certify("Issuing", root, **early)
    below = certify("Below", issuing)
    no_authority = certify("Between", root, extensions=(key_usage("digital_signature"),))

    def chain(issuer, *between, root=root, at=AT, **leaf):
        return {"leaf": certify("leaf", issuer, ca=False, **leaf), "root": root, "between": between, "at": at}

    return {
        "direct": (True, chain(root)),
        "through an authority": (True, chain(issuing, issuing)),
        "other root": (False, chain(issuing, issuing, root=other)),
        "namesake of the root": (False, chain(issuing, issuing, root=namesake)),
        "intermediate missing": (False, chain(issuing)),
        "intermediate expired": (False, chain(expired, expired)),
        "intermediate is no authority": (False, chain(no_authority, no_authority)),
        "path too long": (False, chain(below, below, issuing)),
        "leaf expired": (False, chain(issuing, issuing, **early)),
        "leaf not yet valid": (False, chain(issuing, issuing, starts=AT + timedelta(days=1))),
        "last moment": (True, chain(issuing, issuing, ends=AT)),
        "first moment": (True, chain(issuing, issuing, starts=AT)),
    }


def test_both_give_the_same_verdict(chains):
    expected = {name: (holds, holds) for name, (holds, _) in chains.items()}
    assert {name: (we_believe(**chain), they_believe(**chain)) for name, (_, chain) in chains.items()} == expected
