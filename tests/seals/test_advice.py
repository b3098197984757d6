"""A refusal advises what its profile asks for: following the advice leads to a request that is accepted."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from sealing import AT, REQUEST, policy_of, request_for, seal_by_hand, seal_of, verdict

from tppkit.codes import CODES
from tppkit.errors import FormatError, VerificationError
from tppkit.message import Message
from tppkit.seals import PROFILES, SealPolicy, SealProfile, sign_request, verify_request
from tppkit.seals.profiles import PSD2_V1

ROWS = pytest.mark.parametrize("row", PROFILES.values(), ids=PROFILES)


def refusal(message: Message, policy: SealPolicy) -> FormatError | VerificationError:
    with pytest.raises((FormatError, VerificationError)) as caught:
        verify_request(message, qwac=None, at=AT, policy=policy)
    return caught.value


def advised(message: str) -> tuple[str, ...]:
    """The fields that a refusal says must be covered."""
    found = re.search(r'the profile \S+ requires "(.+?)"', message)
    assert found, message
    return tuple(found[1].split(" "))


def full_request(row: SealProfile) -> Message:
    """A request with fields that some dialects demand where they are present."""
    more = [("PSU-ID", "max"), ("TPP-Redirect-URI", "https://tpp.example/back"), ("X-ING-ReqID", "1")]
    if not request_for(row).values("Date"):
        more.append(("Date", "Mon, 01 Jun 2026 12:00:00 GMT"))
    return request_for(row).with_headers(*more)


@pytest.mark.parametrize("row", [row for row in PROFILES.values() if not row.covers_body], ids=lambda row: row.name)
@pytest.mark.parametrize("covered", [("date",), ("date", "x-forwarded-for")], ids=["too little", "something else"])
def test_what_a_refusal_says_to_cover_is_accepted(row, covered, rsa_pki):
    message, policy = full_request(row), policy_of(row, rsa_pki)
    wrong = replace(
        row, covered=(row.digest_field.lower(), *covered), covered_if_present=(), required=(), request_id=None,
        expires_after=None, max_age=None if row.expires_after else row.max_age,
    )  # fmt: skip
    error = refusal(sign_request(message, seal=seal_of(wrong, rsa_pki.qseal), at=AT), policy)
    assert error.code == "signature.uncovered"
    right = replace(row, covered=advised(error.message), covered_if_present=(), required=(), order=row.order)
    sealed = sign_request(message, seal=seal_of(right, rsa_pki.qseal), at=AT)
    assert verdict(sealed, policy) == "holds"


@pytest.mark.parametrize("row", [row for row in PROFILES.values() if row.only_these], ids=lambda row: row.name)
def test_what_may_be_covered_is_reported_if_too_much_is(row, rsa_pki):
    message, policy = full_request(row), policy_of(row, rsa_pki)
    more = replace(row, covered=(*row.covered, "x-forwarded-for"))
    error = refusal(sign_request(message, seal=seal_of(more, rsa_pki.qseal), at=AT), policy)
    assert error.code == "signature.other-coverage"
    right = replace(row, covered=advised(error.message), covered_if_present=())
    assert verdict(sign_request(message, seal=seal_of(right, rsa_pki.qseal), at=AT), policy) == "holds"


@ROWS
def test_the_digest_that_a_refusal_says_to_send_is_accepted(row, rsa_pki):
    policy, message = policy_of(row, rsa_pki), request_for(row)
    for algorithm in ("sha-256", "sha-512", "SHA-256", "SHA-512"):
        if row.format is PROFILES["amazon"].format and algorithm.isupper():
            continue
        other = replace(row, digest_algorithm=algorithm, digest_algorithms=())
        sealed = sign_request(message, seal=seal_of(other, rsa_pki.qseal), at=AT)
        if verdict(sealed, policy) == "holds":
            continue
        error = refusal(sealed, policy)
        found = re.search(rf"{row.digest_field}: ([A-Za-z0-9-]+)=", error.message)
        assert found, error.message
        right = replace(other, digest_algorithm=found[1])
        assert verdict(sign_request(message, seal=seal_of(right, rsa_pki.qseal), at=AT), policy) == "holds"


@pytest.mark.parametrize("digest", ["", "SHA-256", "SHA-256=AAAA", "MD5=HUXZLQLMuI/KZ5KDcJPcOA==", "SHA-256=:AAAA:"])
def test_a_digest_that_cannot_be_read_is_reported_in_the_profiles_form(digest, pki, policy):
    assert "Digest: SHA-256=<base64>" in refusal(seal_by_hand(REQUEST, pki.qseal, digest=digest), policy).message


@pytest.mark.parametrize(("name", "body"), [("wso2", b"[]"), ("psd2-v1", b"")])
def test_what_is_hashed_without_a_body_is_reported_where_it_matters_and_only_there(name, body, rsa_pki):
    row = PROFILES[name]
    sealed = sign_request(request_for(row), seal=seal_of(row, rsa_pki.qseal), at=AT)
    error = refusal(sealed._replace(body=body), policy_of(row, rsa_pki))
    assert (error.code, "without a body" in error.message) == ("digest.mismatch", False)
    row = PROFILES["wso2"]
    other = replace(row, empty_body=PSD2_V1.empty_body)
    sealed = sign_request(request_for(row, body=b""), seal=seal_of(other, rsa_pki.qseal), at=AT)
    error = refusal(sealed, policy_of(row, rsa_pki))
    assert (error.code, "without a body the profile wso2 hashes {}" in error.message) == ("digest.mismatch", True)


@pytest.mark.parametrize(
    ("name", "template", "form"),
    [
        ("psd2-v1", 'keyId="{key_id}",algorithm="rsa-sha256",created=1780315200,headers="(created) digest",signature="{signature}"',
         'headers="digest x-request-id (request-target)"'),
        ("cavage-12", 'keyId="{key_id}",algorithm="rsa-sha256",created=1780315200,headers="(created) digest",signature="{signature}"',
         'algorithm="hs2019",created=…,expires=…,headers="(request-target) (created) (expires) digest x-request-id"'),
        ("wso2", "nonsense", 'headers="digest x-request-id date",signature=…; it also covers psu-* tpp-redirect-uri if'),
        ("berlin-group", 'keyId="{key_id}",headers="digest",signature="{signature}"', '="rsa-sha256 or rsa-sha512 or ecdsa-sha256"'),
        ("ing-token", 'keyId="{key_id}"', 'Authorization: Signature keyId="…"'),
    ],
)  # fmt: skip
def test_a_signature_that_cannot_be_read_is_reported_in_the_profiles_form(name, template, form, rsa_pki):
    row = PROFILES[name]
    sealed = seal_by_hand(request_for(row), rsa_pki.qseal, template=template)
    if row.carrier == "Authorization":
        sealed = sealed.with_headers(("Authorization", f"Signature {template}"))
    assert form in refusal(sealed, policy_of(row, rsa_pki)).message


def test_a_certificate_in_another_form_is_reported_in_the_profiles_form(rsa_pki):
    for name in ("psd2-v1", "bng", "salt-edge"):
        row = PROFILES[name]
        sealed = sign_request(request_for(row), seal=seal_of(row, rsa_pki.qseal), at=AT)
        fields = tuple((n, "%" if n == row.certificate_header else value) for n, value in sealed.headers)
        error = refusal(sealed._replace(headers=fields), policy_of(row, rsa_pki))
        assert f"the profile {name} expects TPP-Signature-Certificate: {row.certificate_form.value}" in error.message


def test_no_general_advice_is_one_profiles():
    named = ("x-request-id", "(request-target)", "sha-256", "hs2019", "keyid, algorithm")
    for code, row in CODES.items():
        if code.startswith(("signature.", "seal.", "key-id.", "digest.", "request-id.")):
            assert not [text for text in named if text in row.hint.lower()], code
