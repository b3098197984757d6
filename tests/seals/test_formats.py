"""Seals in RFC 9421 and as detached JWS, through the same calls and the same policy as every other seal."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sealing import AT, policy_of, seal_of, with_value, without

from refusals import refused
from tppkit._encoding import decode_base64url, encode_base64url
from tppkit.errors import CertificateRejected, ConfigurationError, FormatError, SignatureRejected
from tppkit.httpsig.algorithms import ALGORITHMS, JWS, RFC9421, Scheme
from tppkit.httpsig.components import Origin
from tppkit.httpsig.digest import make_content_digest, make_digest
from tppkit.seals import (
    PROFILES,
    KeyIdForm,
    KeyIdStyle,
    Message,
    SealPolicy,
    SealProfile,
    VerifiedRequest,
    sign_request,
    verify_request,
)
from tppkit.seals.certificate_header import CertificateForm
from tppkit.seals.profile import Format
from tppkit.seals.profiles import PSD2_V1
from tppkit.testpki import Issued, Pki

AMAZON, OPEN_FINANCE, ING_JWS = PROFILES["amazon"], PROFILES["open-finance"], PROFILES["ing-jws"]
NAMES = ("amazon", "open-finance", "ing-jws")
BODY = b'{"amount": "1.00"}'
REQUEST = Message(
    "POST",
    "/v1/payments?x=1",
    (
        ("Content-Type", "application/json"), ("X-Request-ID", "99391c7e-ad88-49ec-a2ad-99ddcb1f7721"),
        ("x-amz-access-token", "Atza|token"),
    ),
    BODY,
)  # fmt: skip
CARRIERS: Mapping[str, str] = {"amazon": "Signature", "open-finance": "x-jws-signature", "ing-jws": "x-jws-signature"}


def profile_of(name: str) -> SealProfile:
    """The row, with an algorithm of the test PKI's P-256 keys added where the bank takes RSA only."""
    row = PROFILES[name]
    if any(ALGORITHMS[ours].key == "P-256" for _, ours in row.algorithms):
        return row
    wire = "ES256" if row.format is Format.JWS else "ecdsa-p256-sha256"
    return replace(row, algorithms=(*row.algorithms, (wire, "ecdsa-p256-sha256")))


OTHER_FORMATS: Mapping[Format, dict[str, Any]] = {
    Format.RFC9421: {
        "label": "sig1", "digest_field": "content-digest", "digest_algorithm": "sha-256",
        "covered": ("@method", "@request-target", "content-digest", "x-request-id"),
    },
    Format.JWS: {"carrier": "x-jws-signature", "covered": ("(request-target)", "digest", "x-request-id")},
}  # fmt: skip


@pytest.mark.parametrize("format_", OTHER_FORMATS, ids=lambda format_: format_.name)
def test_a_row_without_algorithms_has_those_of_its_format(format_, pki):
    own = {"key_id": KeyIdStyle(form=KeyIdForm.CLIENT_ID), "certificate_header": None, "source": "a letter"}
    row = SealProfile(name="own", format=format_, **OTHER_FORMATS[format_], **own)
    names = {Format.RFC9421: RFC9421, Format.JWS: JWS}[format_]
    assert dict(row.algorithms) == {wire: algorithm.name for wire, algorithm in names.items()}
    seal = seal_of(row, pki.qseal)
    sealed = sign_request(REQUEST, seal=seal, at=AT)
    assert seal.signer.algorithm.scheme is Scheme.ECDSA_RAW
    assert verify_request(sealed, qwac=None, at=AT, policy=policy_of(row, pki)).body == REQUEST.body


@pytest.mark.parametrize("format_", OTHER_FORMATS, ids=lambda format_: format_.name)
@pytest.mark.parametrize(
    "algorithms",
    [
        PSD2_V1.algorithms,
        (("ecdsa-p256-sha256", "ecdsa-sha256"),),
        (("ES256", "ecdsa-sha256"),),
        (("hs2019", "rsa-pss-sha512"),),
        (("ES256", "ecdsa-p384-sha384"),),
    ],
)
def test_a_row_whose_format_does_not_have_its_algorithms_is_refused(format_, algorithms):
    with refused(ConfigurationError, "profile.malformed"):
        replace(PSD2_V1, format=format_, **OTHER_FORMATS[format_], algorithms=algorithms)
    assert replace(PSD2_V1, format=format_, **OTHER_FORMATS[format_], algorithms=())


def sealed(pki: Pki, name: str, message: Message = REQUEST, *, issued: Issued | None = None) -> Message:
    return sign_request(message, seal=seal_of(profile_of(name), issued or pki.qseal), at=AT)


def verify(
    pki: Pki, name: str, message: Message, *, at: datetime = AT, policy: SealPolicy | None = None
) -> VerifiedRequest:
    policy = policy or policy_of(profile_of(name), pki)
    return verify_request(message, qwac=pki.qwac.certificate, at=at, policy=policy)


def code_of(pki: Pki, name: str, message: Message, **options: Any) -> str:
    with pytest.raises((FormatError, SignatureRejected, CertificateRejected)) as caught:
        verify(pki, name, message, **options)
    return caught.value.code


def test_a_request_for_amazon_looks_as_its_guide_says_and_a_jws_seal_carries_its_certificate(pki):
    message = sealed(pki, "amazon")
    assert message.values("x-amzn-content-digest") == (make_content_digest(BODY),)
    assert message.values("signature-input") == (
        'x-amzn-psd2=("@method" "@query" "x-amz-access-token" "x-amzn-content-digest")'
        f';created={int(AT.timestamp())};alg="ecdsa-p256-sha256";keyid="client-4711"',
    )
    assert message.values("signature")[0].startswith("x-amzn-psd2=:")
    (value,) = sealed(pki, "open-finance").values("x-jws-signature")
    header = json.loads(decode_base64url(value.partition(".")[0], what="header"))
    assert header["sigD"]["pars"] == ["(request-target)", "digest", "x-request-id"]
    assert len(header["x5c"]) == 1
    assert (header["b64"], header["alg"], header["sigT"]) == (False, "ES256", "2026-06-01T12:00:00Z")


@pytest.mark.parametrize("name", NAMES)
def test_a_seal_needs_the_time_of_signing_and_counts_only_near_it(pki, name):
    with refused(ConfigurationError, "seal.time-needed"):
        sign_request(REQUEST, seal=seal_of(profile_of(name), pki.qseal))
    message, skew = sealed(pki, name), timedelta(minutes=5)
    age = profile_of(name).max_age
    assert age is not None
    assert verify(pki, name, message, at=AT - skew)
    assert verify(pki, name, message, at=AT + skew + age)
    assert code_of(pki, name, message, at=AT - skew - timedelta(seconds=1)) == "signature.created"
    assert code_of(pki, name, message, at=AT + skew + age + timedelta(seconds=1)) == "signature.expired"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_covered_cannot_be_changed_removed_or_doubled(pki, name):
    field = profile_of(name).digest_field
    value = make_content_digest(b"{}") if name == "amazon" else make_digest(b"{}")
    message = with_value(sealed(pki, name), field, value)._replace(body=b"{}")
    assert code_of(pki, name, message) == "signature.invalid"
    message = sealed(pki, name)
    assert code_of(pki, name, message._replace(target="/v1/payments?x=2")) == "signature.invalid"
    assert code_of(pki, name, message._replace(target="/v1/payments")) == "signature.invalid"
    assert code_of(pki, name, message._replace(method="PUT")) == "signature.invalid"
    for header in {CARRIERS[name], profile_of(name).digest_field, *(["Signature-Input"] if name == "amazon" else [])}:
        assert code_of(pki, name, without(sealed(pki, name), header)) == "signature.missing"
    message = sealed(pki, name).with_headers(("X-Other", "1"))
    verified = verify(pki, name, message)
    names = {n for n in profile_of(name).demanded if n[0] not in "(@"}
    assert verified.covered.keys() == names
    for covered in names - {profile_of(name).digest_name}:
        assert code_of(pki, name, with_value(message, covered, "changed")) == "signature.invalid"
        assert code_of(pki, name, without(message, covered)) == "signature.header-absent"
    for covered in names:
        assert code_of(pki, name, message.with_headers((covered, "second"))) == "header.duplicate"


ANOTHERS = ('other=("@method");made=1.5;at=@1780315200;by=%"f%c3%bc"', "other=:YQ==:")


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("lines", ["one line", "a line each"])
def test_anothers_signature_may_appear_beside_ours(pki, lines, first):
    message = sealed(pki, "amazon")
    fields = list(zip(("Signature-Input", "Signature"), ANOTHERS, strict=True))
    if lines == "one line":
        for name, other in fields:
            ours = message.values(name)[0]
            message = with_value(message, name, f"{other}, {ours}" if first else f"{ours}, {other}")
    else:
        message = message._replace(headers=(*fields, *message.headers) if first else (*message.headers, *fields))
    assert verify(pki, "amazon", message).body == BODY
    assert code_of(pki, "amazon", message._replace(body=b"evil")) == "digest.mismatch"


def test_a_label_that_is_on_two_lines_is_refused(pki):
    message = sealed(pki, "amazon")
    twice = message.with_headers(("Signature", message.values("signature")[0]))
    assert code_of(pki, "amazon", twice) == "structured.duplicate"
    twice = message.with_headers(("Signature-Input", message.values("signature-input")[0]))
    assert code_of(pki, "amazon", twice) == "structured.duplicate"


def test_a_swapped_certificate_in_the_header_breaks_the_signature(pki, other_qseal):
    message = sealed(pki, "open-finance")
    theirs = sealed(pki, "open-finance", issued=other_qseal).values("x-jws-signature")[0]
    ours = message.values("x-jws-signature")[0]
    swapped = f"{theirs.partition('..')[0]}..{ours.partition('..')[2]}"
    assert code_of(pki, "open-finance", with_value(message, "x-jws-signature", swapped)) == "signature.invalid"


def test_a_jws_without_the_thumbprint_that_the_row_demands_is_refused(pki):
    named_otherwise = replace(OPEN_FINANCE, key_id=KeyIdStyle())
    message = sign_request(REQUEST, seal=seal_of(named_otherwise, pki.qseal), at=AT)
    assert "x5t" not in str(decode_base64url(message.values("x-jws-signature")[0].partition(".")[0], what="header"))
    verify_request(message, qwac=None, at=AT, policy=policy_of(named_otherwise, pki))
    assert code_of(pki, "open-finance", message) == "signature.missing-parameter"


@pytest.mark.parametrize("name", ["amazon", "ing-jws"])
def test_a_certificate_that_is_unknown_is_not_fetched(pki, name):
    policy = policy_of(profile_of(name), pki, certificates={})
    assert code_of(pki, name, sealed(pki, name), policy=policy) == "seal.unknown-certificate"


NO_ALGORITHMS = ("hmac-sha256", "none", "rsa-pss-sha512", "ecdsa-sha256")


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        *(("ecdsa-p256-sha256", name, "signature.algorithm") for name in NO_ALGORITHMS),
        (';alg="ecdsa-p256-sha256"', "", "signature.algorithm"),
        (f";created={int(AT.timestamp())}", "", "signature.created"),
        ('("@method"', '("date";key="a" "@method"', "signature.unsupported-component"),
        ("x-amzn-psd2=", "sig1=", "signature.missing"),
    ],
)
def test_a_signature_input_that_proves_too_little_is_refused(pki, old, new, code):
    message = sealed(pki, "amazon", REQUEST.with_headers(("Date", "Mon, 01 Jun 2026 12:00:00 GMT")))
    for name in ("signature-input", "signature")[: 1 + (new == "sig1=")]:
        (value,) = message.values(name)
        message = with_value(message, name, value.replace(old, new))
    assert code_of(pki, "amazon", message) == code


@pytest.mark.parametrize(
    ("change", "code"),
    [
        *(({"alg": name}, "signature.algorithm") for name in ("none", "HS256", "RS256", "ES384")),
        ({"x5t#S256": encode_base64url(bytes(32))}, "key-id.mismatch"),
        ({"x5c": None}, "signature.missing"),
    ],
)
def test_a_jws_header_of_another_algorithm_or_certificate_is_refused(pki, change, code):
    message = sealed(pki, "open-finance")
    value = message.values("x-jws-signature")[0]
    header = json.loads(decode_base64url(value.partition(".")[0], what="header")) | change
    encoded = encode_base64url(json.dumps({name: one for name, one in header.items() if one is not None}).encode())
    secret = pki.qseal.certificate.public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    mac = encode_base64url(hmac.digest(secret, encoded.encode() + b".", hashlib.sha256))
    signature = mac if "alg" in change else value.partition("..")[2]
    assert code_of(pki, "open-finance", with_value(message, "x-jws-signature", f"{encoded}..{signature}")) == code


def test_a_dialect_can_cover_where_the_request_goes(pki):
    profile = replace(
        AMAZON, covered=("@method", "@target-uri", "x-amzn-content-digest"), certificate_header="TPP-Signature-Certificate",
        certificate_form=CertificateForm.DER,
    )  # fmt: skip
    origin = Origin("https", "bank.example")
    message = sign_request(REQUEST, seal=seal_of(profile, pki.qseal, origin=origin), at=AT)
    assert verify(pki, "amazon", message, policy=policy_of(profile, pki, origin=origin)).covers_target
    other = policy_of(profile, pki, origin=Origin("https", "evil.example"))
    assert code_of(pki, "amazon", message, policy=other) == "signature.invalid"
    assert code_of(pki, "amazon", message, policy=policy_of(profile, pki)) == "signature.unsupported-component"
