"""Rows of bank dialects, and one of a user's own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sealing import AT, REQUEST, header, verdict, with_value

from tppkit.errors import SignatureRejected
from tppkit.httpsig import KeySigner, Message
from tppkit.seals import PROFILES, PSD2_V1, Seal, SealPolicy, SealProfile, sign_request, verify_request
from tppkit.testpki import Pki
from tppkit.trust import PathVerifier

OWN = replace(
    PSD2_V1,
    name="own",
    covered=("(request-target)", "digest", "x-request-id", "tpp-redirect-uri"),
    digest_algorithm="SHA-512",
    certificate_header="TPP-Signing-Certificate",
)


@pytest.fixture
def own_seal(pki: Pki) -> Seal:
    return Seal(pki.qseal.certificate, KeySigner(pki.qseal.key), profile=OWN)


@pytest.fixture
def request_with_redirect() -> Message:
    return REQUEST.with_headers(("TPP-Redirect-URI", "https://tpp.example/back"))


def test_every_row_stands_under_its_name() -> None:
    assert PROFILES
    assert all(row.name == name for name, row in PROFILES.items())


@pytest.mark.parametrize("row", PROFILES.values(), ids=PROFILES)
def test_every_row_demands_the_digest_and_what_tells_one_request_from_another(row: SealProfile) -> None:
    assert "digest" in row.demanded
    assert row.demanded & {row.request_id, "date", "(created)"}


def test_a_row_of_ones_own_says_digest_coverage_and_header(own_seal: Seal, request_with_redirect: Message) -> None:
    sealed = sign_request(request_with_redirect, seal=own_seal)
    assert header(sealed, "Digest").startswith("SHA-512=")
    assert ',headers="(request-target) digest x-request-id tpp-redirect-uri",' in header(sealed, "Signature")
    assert header(sealed, "TPP-Signing-Certificate")


def test_a_request_of_a_row_verifies_under_the_row(
    own_seal: Seal, request_with_redirect: Message, paths: PathVerifier
) -> None:
    sealed, policy = sign_request(request_with_redirect, seal=own_seal), SealPolicy(paths, profile=OWN)
    verified = verify_request(sealed, qwac=None, at=AT, policy=policy)
    assert (verified.profile.name, verified.covered["tpp-redirect-uri"]) == ("own", "https://tpp.example/back")
    assert verdict(with_value(sealed, "TPP-Redirect-URI", "https://x"), policy) == "signature.invalid"


def test_a_request_of_another_row_is_refused(
    seal: Seal, own_seal: Seal, request_with_redirect: Message, paths: PathVerifier
) -> None:
    sealed = sign_request(request_with_redirect, seal=seal)
    assert verdict(sealed, SealPolicy(paths, profile=OWN)) == "signature.missing"
    same_header = replace(OWN, certificate_header=PSD2_V1.certificate_header)
    assert verdict(sealed, SealPolicy(paths, profile=same_header)) == "signature.uncovered"


def test_what_a_row_covers_must_be_there_to_be_sealed(own_seal: Seal) -> None:
    with pytest.raises(SignatureRejected) as caught:
        sign_request(REQUEST, seal=own_seal)
    assert caught.value.code == "signature.header-absent"
