"""Rows of bank dialects: what each covers, in which order and form."""

from __future__ import annotations

import tomllib
from base64 import b64encode
from dataclasses import fields, replace
from datetime import date
from pathlib import Path
from ssl import DER_cert_to_PEM_cert

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA512
from sealing import (
    AT,
    CLIENT_IDS,
    REQUEST,
    REQUEST_ID,
    TARGET,
    header,
    policy_of,
    request_for,
    seal_by_hand,
    seal_of,
    verdict,
    with_value,
    without,
)

from refusals import refused
from tppkit.errors import ConfigurationError, SignatureRejected
from tppkit.httpsig import KeySigner, make_digest
from tppkit.httpsig.cavage import parse_signature_header
from tppkit.message import Message
from tppkit.seals import (
    PROFILES,
    EmptyBody,
    FieldOrder,
    KeyIdForm,
    Seal,
    SealPolicy,
    SealProfile,
    profiles,
    sign_request,
    verify_request,
)
from tppkit.seals.profiles import PSD2_V1
from tppkit.testpki import Issued, Pki

CERTIFICATE = "TPP-Signature-Certificate"


ROWS = pytest.mark.parametrize("row", PROFILES.values(), ids=PROFILES)


def sealed_in(row: SealProfile, pki: Pki, **parts: bytes) -> Message:
    """A request of a dialect, sealed in it."""
    return sign_request(request_for(row, **parts), seal=seal_of(row, pki.qseal), at=AT)


@ROWS
@pytest.mark.parametrize("body", [REQUEST.body, b""], ids=["body", "no body"])
def test_every_row_verifies_what_it_seals(row, body, rsa_pki):
    if row.covers_body and not body:
        with refused(SignatureRejected, "signature.uncovered"):  # such a seal would fit every request without a body
            sealed_in(row, rsa_pki, body=body)
        return
    sealed = sealed_in(row, rsa_pki, body=body)
    policy = policy_of(row, rsa_pki)
    for _ in range(2):  # the second time from memory
        verified = verify_request(sealed, qwac=rsa_pki.qwac.certificate, at=AT, policy=policy)
        assert verified.covers_target is row.covers_target
        assert (verified.body, verified.profile) == (body, row)


@ROWS
def test_every_row_is_distinguished_from_a_request_that_was_changed(row, rsa_pki):
    sealed, policy = sealed_in(row, rsa_pki), policy_of(row, rsa_pki)
    expected = "signature.uncovered" if row.covers_body else "digest.mismatch"
    assert verdict(sealed._replace(body=b""), policy) == expected
    assert verdict(sealed._replace(target="/elsewhere?x=%2F"), policy) == (
        "signature.invalid" if row.covers_target else "holds"
    )
    if row.covers_target:
        assert verdict(sealed._replace(method="PUT"), policy) == "signature.invalid"
    if row.request_id in row.demanded:
        assert verdict(with_value(sealed, row.request_id, "another"), policy) == "signature.invalid"


@ROWS
def test_every_row_has_a_name_and_a_source_of_its_own_and_demands_digest_and_what_identifies_a_request(row):
    assert row.source
    assert PROFILES[row.name] is row
    plain = [replace(other, name="", source="") for other in PROFILES.values()]
    assert plain.count(replace(row, name="", source="")) == 1
    assert {row.digest_name, "(body)"} & row.demanded
    assert row.max_age or row.demanded & {row.request_id, "date", "(created)"}


def test_each_file_states_its_source_when_it_was_read_and_what_is_assumed():
    names = {field.name for field in fields(SealProfile)}
    paths = sorted(Path(profiles.__file__).with_name("dialects").glob("*.toml"))
    assert {path.stem for path in paths} == set(PROFILES)
    for path in paths:
        table = tomllib.loads(path.read_text("utf-8"))
        assert table["name"] == path.stem
        assert table["source"]
        assert date.fromisoformat(table["read_on"])
        for entry in table["assumed"].split("; "):
            assert entry.partition(": ")[0] in names, entry


def value_of(row: SealProfile, issued: Issued, *, body: bytes = REQUEST.body, **more: str) -> str:
    """The Signature header of a request with these further fields."""
    message = request_for(row, body=body).with_headers(*((n.replace("_", "-"), v) for n, v in more.items()))
    return header(sign_request(message, seal=seal_of(row, issued), at=AT), row.carrier)


@pytest.mark.parametrize(
    ("name", "more", "covered"),
    [
        ("psd2-v1", {"psu_id": "x"}, "digest x-request-id (request-target)"),
        ("berlin-group", {}, "digest x-request-id"),
        ("berlin-group", {"tpp_redirect_uri": "u", "psu_id": "x"}, "digest x-request-id psu-id tpp-redirect-uri"),
        ("adorsys", {"psu_id": "x"}, "date digest psu-id x-request-id"),
        ("wso2", {"PSU_ID": "x", "psu_geo_location": "y"}, "digest x-request-id date psu-geo-location psu-id"),
        ("ing", {}, "(request-target) date digest"),
        ("ing", {"X_ING_ReqID": "x"}, "(request-target) date digest x-ing-reqid"),
        ("rabobank", {"tpp_redirect_uri": "u"}, "date digest x-request-id tpp-redirect-uri"),
        ("bng", {}, "(request-target) date digest"),
        (
            "stet", {"content_type": "a/b", "psu_ip_address": "192.0.2.7"},
            "(request-target) digest x-request-id content-type psu-ip-address",
        ),
        ("triodos", {"psu_id": "x"}, "digest x-request-id"),
        ("chebanca", {}, "(request-target) tpp-request-id date digest"),
        ("samlink", {"tpp_redirect_uri": "u"}, "Digest X-Request-ID TPP-Redirect-URI"),
        ("redsys", {"tpp_redirect_uri": "u"}, "digest x-request-id tpp-redirect-uri"),
        ("cavage-12", {}, "(request-target) (created) (expires) digest x-request-id"),
    ],
)  # fmt: skip
def test_a_row_covers_its_fields_in_its_order(name, more, covered, rsa_pki):
    assert f',headers="{covered}",' in value_of(PROFILES[name], rsa_pki.qseal, **more)


@ROWS
def test_every_row_takes_its_fields_in_another_order(row, rsa_pki):
    other = replace(row, covered=tuple(reversed(row.covered)), order=FieldOrder.LISTED)
    sealed = sign_request(request_for(row), seal=seal_of(other, rsa_pki.qseal), at=AT)
    verified = verify_request(sealed, qwac=rsa_pki.qwac.certificate, at=AT, policy=policy_of(row, rsa_pki))
    assert [name.lower() for name in verified.parameters.headers] == [name.lower() for name in other.covered]


def test_a_row_without_digest_for_no_body_covers_none(rsa_pki):
    row = PROFILES["chebanca"]
    assert ',headers="(request-target) tpp-request-id date",' in value_of(row, rsa_pki.qseal, body=b"")
    sealed = sealed_in(row, rsa_pki, body=b"")
    policy = policy_of(row, rsa_pki)
    assert verdict(sealed, policy) == "holds"
    assert verdict(sealed._replace(body=b"smuggled"), policy) == "signature.uncovered"
    digest = ("Digest", make_digest(b"smuggled"))
    assert verdict(sealed._replace(body=b"smuggled").with_headers(digest), policy) == "signature.uncovered"


@pytest.mark.parametrize(
    ("name", "algorithm", "digest"),
    [
        ("psd2-v1", "rsa-sha256", "SHA-256="), ("rabobank", "rsa-sha512", "sha-512="), ("redsys", "SHA-256", "SHA-256="),
        ("cavage-12", "hs2019", "SHA-256="), ("adorsys", "rsa-sha256", "SHA-256="),
    ],
)  # fmt: skip
def test_a_row_spells_its_algorithms(name, algorithm, digest, rsa_pki):
    row = PROFILES[name]
    sealed = sealed_in(row, rsa_pki)
    assert f',algorithm="{algorithm}",' in header(sealed, row.carrier)
    assert header(sealed, "Digest").startswith(digest)


def test_a_row_takes_only_its_own_algorithms_and_only_keys_that_it_has_a_name_for(rsa_pki, pki):
    with refused(ConfigurationError, "profile.algorithm"):
        Seal(rsa_pki.qseal.certificate, KeySigner(rsa_pki.qseal.key), profile=PROFILES["rabobank"])
    weaker = replace(PROFILES["rabobank"], algorithms=(("rsa-sha256", "rsa-sha256"),))
    sealed = sign_request(request_for(weaker), seal=seal_of(weaker, rsa_pki.qseal))
    assert verdict(sealed, policy_of(PROFILES["rabobank"], rsa_pki)) == "signature.algorithm"
    sealed = sign_request(request_for(PSD2_V1), seal=seal_of(PSD2_V1, pki.qseal))
    redsys = replace(PROFILES["redsys"], only_these=False)
    assert verdict(sealed, policy_of(redsys, pki)) == "profile.key"


def test_jca_names_are_read_where_a_row_tolerates_them(rsa_pki):
    row = PROFILES["adorsys"]
    jca = replace(row, algorithms=(("SHA256withRSA", "rsa-sha256"),))
    sealed = sign_request(request_for(row), seal=seal_of(jca, rsa_pki.qseal))
    assert verdict(sealed, policy_of(row, rsa_pki)) == "holds"
    assert verdict(sealed, policy_of(replace(row, algorithms=PSD2_V1.algorithms), rsa_pki)) == "signature.algorithm"


@pytest.mark.parametrize("kind", ["p256", "rsa2048"])
def test_hs2019_means_what_the_row_says_for_the_key(kind, pki, rsa_pki):
    row, one = PROFILES["cavage-12"], {"p256": pki, "rsa2048": rsa_pki}[kind]
    sealed = sign_request(request_for(row), seal=seal_of(row, one.qseal), at=AT)
    assert verdict(sealed, policy_of(row, one)) == "holds"
    key, signature = one.qseal.key.public_key(), parse_signature_header(header(sealed, "Signature")).signature
    data = verify_request(sealed, qwac=None, at=AT, policy=policy_of(row, one)).signing_string
    if isinstance(key, rsa.RSAPublicKey):
        key.verify(signature, data, padding.PSS(padding.MGF1(SHA512()), 64), SHA512())
        other = replace(row, algorithms=(("hs2019", "rsa-sha512"),))
        assert verdict(sealed, policy_of(other, one)) == "signature.invalid"
    else:
        key.verify(signature, data, ec.ECDSA(SHA512()))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("meo", lambda der: ("TPP-Signing-Certificate", b64encode(der).decode())),
        (
            "bng",
            lambda der: (CERTIFICATE, f"-----BEGIN CERTIFICATE-----{b64encode(der).decode()}-----END CERTIFICATE-----"),
        ),
        ("salt-edge", lambda der: (CERTIFICATE, b64encode(DER_cert_to_PEM_cert(der).encode()).decode())),
    ],
)
def test_a_row_sends_the_certificate_in_its_form(name, expected, rsa_pki):
    row = PROFILES[name]
    sealed = sealed_in(row, rsa_pki)
    assert sealed.headers[-1] == expected(rsa_pki.qseal.certificate.der)


def test_a_known_certificate_that_was_exchanged_is_not_trusted_from_memory(rsa_pki):
    row, other = PROFILES["stet"], rsa_pki.issue_qseal(rsa_pki.provider, label="renewed")
    known = {CLIENT_IDS[KeyIdForm.URL]: rsa_pki.qseal.certificate}
    policy = SealPolicy(policy_of(row, rsa_pki).paths, profile=row, certificates=known)
    sealed = sealed_in(row, rsa_pki)
    assert verdict(sealed, policy) == "holds"
    known[CLIENT_IDS[KeyIdForm.URL]] = other.certificate
    assert verdict(sealed, policy) == "signature.invalid"


def test_only_the_call_for_a_token_carries_the_certificate_at_ing_and_its_authorization_the_parameters(rsa_pki):
    row = PROFILES["ing-token"]
    sealed = sealed_in(row, rsa_pki)
    value = header(sealed, "Authorization")
    assert value.startswith('Signature keyId="SN=')
    policy = policy_of(row, rsa_pki)
    lower = with_value(sealed, "Authorization", value.replace("Signature ", "signature ", 1))
    assert verdict(sealed, policy) == verdict(lower, policy) == "holds"
    for other in (value.removeprefix("Signature "), value.replace("Signature ", "Bearer "), f" {value[1:]}"):
        assert verdict(with_value(sealed, "Authorization", other), policy) == "signature.missing"
    token, later = (
        sign_request(request_for(PROFILES[name]), seal=seal_of(PROFILES[name], rsa_pki.qseal))
        for name in ("ing-token", "ing")
    )
    assert header(token, CERTIFICATE).startswith("-----BEGIN CERTIFICATE-----MII")
    assert later.values(CERTIFICATE) == ()
    assert header(later, "Signature").startswith(f'keyId="{CLIENT_IDS[KeyIdForm.CLIENT_ID]}",')


def test_the_signature_is_unquoted_if_a_row_requires_it(rsa_pki):
    row = PROFILES["wso2"]
    sealed = sealed_in(row, rsa_pki)
    value = header(sealed, "Signature")
    head, mark, text = value.rpartition(",signature=")
    assert mark
    assert '"' not in text
    policy = policy_of(row, rsa_pki)
    quoted = with_value(sealed, "Signature", f'{head},signature="{text}"')
    assert [verdict(message, policy) for message in (sealed, quoted, sealed, quoted)] == ["holds"] * 4
    assert verdict(sealed._replace(body=b"{}"), policy) == "digest.mismatch"


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "POST", "PUT", "PATCH"])
def test_a_missing_body_is_a_pair_of_braces_if_a_row_requires_it_and_no_body_is_mistaken_for_them(method, rsa_pki):
    row = PROFILES["wso2"]
    message = request_for(row, body=b"")._replace(method=method)
    sealed = sign_request(message, seal=seal_of(row, rsa_pki.qseal))
    assert header(sealed, "Digest") == make_digest(b"{}")
    policy = policy_of(row, rsa_pki)
    assert verdict(sealed, policy) == "holds"
    hashed = replace(row, empty_body=EmptyBody.HASHED)
    honest = sign_request(message, seal=seal_of(hashed, rsa_pki.qseal))
    assert verdict(honest, policy) == "digest.mismatch"
    sealed = sealed_in(row, rsa_pki, body=b'{"a":1}')
    assert verdict(sealed, policy) == "holds"
    assert verdict(sealed._replace(body=b""), policy) == "digest.mismatch"
    assert verdict(sealed._replace(body=b"{}"), policy) == "digest.mismatch"


def test_under_a_key_id_that_is_known_no_other_certificate_is_accepted(rsa_pki):
    row = PROFILES["chebanca"]
    sealed = sealed_in(row, rsa_pki)
    key_id, renewed = CLIENT_IDS[KeyIdForm.CLIENT_ID], rsa_pki.issue_qseal(rsa_pki.provider, label="renewed")
    known = {key_id: rsa_pki.qseal.certificate, "another": renewed.certificate}
    policy = SealPolicy(policy_of(row, rsa_pki).paths, profile=row, certificates=known)
    assert [verdict(sealed, policy), verdict(sealed, policy)] == ["holds", "holds"]
    known[key_id] = renewed.certificate
    assert verdict(sealed, policy) == "key-id.mismatch"  # though it was believed before
    del known[key_id]
    assert verdict(sealed, policy) == "holds"


@pytest.mark.parametrize("name", ["psu-id", "psu-corporate-id", "tpp-redirect-uri"])
def test_a_field_that_must_be_covered_when_present_is_refused_uncovered(name, pki):
    row, policy = PROFILES["berlin-group"], policy_of(PROFILES["berlin-group"], pki)
    sealed = sealed_in(row, pki)
    assert verdict(sealed, policy) == "holds"
    added = sealed.with_headers((name.upper(), "added on the way"))
    assert verdict(added, policy) == "signature.uncovered"  # though the same Signature text is remembered
    covered = sign_request(request_for(row).with_headers((name, "x")), seal=seal_of(row, pki.qseal))
    assert verdict(covered, policy) == "holds"
    assert verdict(without(covered, name), policy) == "signature.header-absent"
    assert verdict(covered.with_headers((name, "y")), policy) == "header.duplicate"


def test_every_psu_field_must_be_covered_if_a_row_requires_it(rsa_pki):
    row, policy = PROFILES["wso2"], policy_of(PROFILES["wso2"], rsa_pki)
    sealed = sign_request(request_for(row).with_headers(("PSU-Anything", "a")), seal=seal_of(row, rsa_pki.qseal))
    assert verdict(sealed, policy) == "holds"
    assert verdict(sealed.with_headers(("psu-other", "b")), policy) == "signature.uncovered"
    assert verdict(sealed.with_headers(("psu-anything", "b")), policy) == "header.duplicate"
    assert verdict(sealed.with_headers(("Accept", "a"), ("Accept", "b")), policy) == "holds"


def test_a_row_that_allows_nothing_else_refuses_more_coverage(pki):
    policy = policy_of(PROFILES["berlin-group"], pki)
    for covered in (("digest", "x-request-id", "(request-target)"), ("digest", "x-request-id", "date")):
        sealed = seal_by_hand(request_for(PROFILES["adorsys"]), pki.qseal, covered=covered)
        assert verdict(sealed, policy) == "signature.other-coverage"
    assert verdict(seal_by_hand(REQUEST, pki.qseal, covered=("x-request-id", "digest")), policy) == "holds"


def test_capital_letters_in_names_are_read_where_a_row_writes_them(pki):
    row = PROFILES["samlink"]
    sealed = sealed_in(row, pki)
    verified = verify_request(sealed, qwac=None, at=AT, policy=policy_of(row, pki))
    assert verified.covered.keys() == {"digest", "x-request-id"}
    assert verified.signing_string.startswith(b"digest: SHA-256=")
    assert verdict(sealed, policy_of(PROFILES["triodos"], pki)) == "signature.covered-names"


def test_only_the_parts_that_are_signed_are_shown_as_verified(pki, rsa_pki):
    row = PROFILES["berlin-group"]
    sealed = sealed_in(row, pki)
    verified = verify_request(sealed, qwac=None, at=AT, policy=policy_of(row, pki))
    for name in ("method", "target"):
        with refused(ConfigurationError, "seal.target-uncovered"):
            getattr(verified, name)
    assert verified.unverified_message.target == TARGET
    assert verified.request_id == REQUEST_ID
    row = PROFILES["bng"]
    sealed = sealed_in(row, rsa_pki)
    assert sealed.values("x-request-id") == (REQUEST_ID,)
    assert verify_request(sealed, qwac=None, at=AT, policy=policy_of(row, rsa_pki)).request_id == ""
