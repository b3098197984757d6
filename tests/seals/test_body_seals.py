"""Seals as JSON Web Signatures over the body, with the private parameters of a scheme."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc import jws
from joserfc.jwk import RSAKey
from joserfc.registry import HeaderParameter
from sealing import AT, CLIENT_IDS, REQUEST, issue_seal, policy_of, seal_of, verdict, with_value

from refusals import refused
from tppkit._encoding import decode_base64url, encode_base64url
from tppkit.errors import ConfigurationError, FormatError, SignatureRejected
from tppkit.evidence.record import make_record
from tppkit.httpsig import KeySigner
from tppkit.httpsig.jws import OPEN_BANKING_UK
from tppkit.seals import (
    PROFILES,
    KeyIdForm,
    Message,
    Seal,
    SealProfile,
    parse_profile,
    sign_request,
    verify_request,
    verify_request_head,
)
from tppkit.seals.private_parameters import private_names
from tppkit.testpki import Pki
from tppkit.testpki.pem import key_pem

UKOB = PROFILES["ukob"]
IAT, ISS, TAN = OPEN_BANKING_UK
WITHOUT_B64 = replace(UKOB, name="ukob-3.1.3", b64=False)
KID = CLIENT_IDS[KeyIdForm.CLIENT_ID]


def sealed_in(profile: SealProfile, pki: Pki) -> Message:
    return sign_request(REQUEST, seal=seal_of(profile, pki.qseal), at=AT)


def protected(message: Message) -> dict[str, Any]:
    (value,) = message.values("x-jws-signature")
    header: dict[str, Any] = json.loads(decode_base64url(value.partition("..")[0], what="the header"))
    return header


def signed_with(header: dict[str, Any], pki: Pki, *, body: bytes = REQUEST.body) -> Message:
    """The request under any protected header, with a right signature."""
    encoded = encode_base64url(json.dumps(header).encode())
    payload = body if header.get("b64") is False else encode_base64url(body).encode()
    signature = KeySigner(pki.qseal.key, algorithm="rsa-pss-sha256").sign(encoded.encode() + b"." + payload)
    return REQUEST.with_headers(("x-jws-signature", f"{encoded}..{encode_base64url(signature)}"))


@pytest.mark.parametrize("profile", [UKOB, WITHOUT_B64], ids=["base64url", "b64 false"])
def test_a_seal_proves_the_body_and_nothing_else(profile, rsa_pki):
    sealed = sealed_in(profile, rsa_pki)
    expected = [IAT, ISS, TAN]
    assert protected(sealed)["crit"] == (expected if profile.b64 else ["b64", *expected])
    moved = sealed._replace(method="PUT", target="/elsewhere", headers=(*sealed.headers, ("Digest", "SHA-256=no")))
    for message in (sealed, moved):  # a verifier reads both forms, because the signed header names it
        verified = verify_request(message, qwac=rsa_pki.qwac.certificate, at=AT, policy=policy_of(UKOB, rsa_pki))
        assert (verified.body, verified.parameters.headers, dict(verified.covered)) == (REQUEST.body, ("(body)",), {})
        assert not verified.covers_target
        assert verified.private_parameters == {ISS: str(rsa_pki.qseal.certificate.subject), TAN: "openbanking.org.uk"}
        with refused(ConfigurationError, "seal.target-uncovered"):
            _ = verified.target
    assert verdict(sealed._replace(body=sealed.body + b" "), policy_of(profile, rsa_pki)) == "signature.invalid"
    assert (verified.request_id, make_record(verified).x_request_id) == ("", "")  # none is proven


def test_the_private_parameters_are_processed(rsa_pki):
    good, subject = protected(sealed_in(UKOB, rsa_pki)), str(rsa_pki.qseal.certificate.subject)
    policy = policy_of(UKOB, rsa_pki)
    root_first = ", ".join(part.replace("=", " = ") for part in reversed(subject.split(",")))
    seconds = int(AT.timestamp())
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "holds"),
        ({"typ": "JOSE", "cty": "application/json"}, "holds"),
        ({ISS: root_first}, "holds"),
        ({ISS: subject + "x"}, "signature.private-parameter"),
        ({ISS: "not a name"}, "signature.private-parameter"),
        ({TAN: "openbanking.org.uk.evil.example"}, "signature.private-parameter"),
        ({TAN: ""}, "jws.private"),
        ({TAN: ["openbanking.org.uk"]}, "jws.private"),
        ({IAT: seconds + 301}, "signature.created"),
        ({IAT: seconds - 601}, "signature.expired"),
        ({IAT: float(seconds)}, "jws.time"),
        ({IAT: "2026-06-01T12:00:00Z"}, "jws.time"),
        ({"iat": seconds}, "jws.time"),
        ({"crit": [IAT, ISS]}, "signature.missing-parameter"),
        (
            {"crit": [IAT, ISS, TAN, "http://openbanking.org.uk/new"], "http://openbanking.org.uk/new": 1},
            "jws.critical",
        ),
        ({"crit": [IAT, ISS, TAN, TAN]}, "jws.critical"),
        ({"crit": []}, "jws.critical"),
        ({"b64": False}, "jws.critical"),
        ({"b64": "false", "crit": ["b64", IAT, ISS, TAN]}, "jws.encoded-payload"),
        ({"kid": "another"}, "seal.unknown-certificate"),
        ({"alg": "RS256"}, "signature.algorithm"),
    ]
    for change, expected in cases:
        assert verdict(signed_with(good | change, rsa_pki), policy) == expected, change


def test_another_implementation_verifies_ours_and_signs_what_we_verify(rsa_pki):
    key = RSAKey.import_key(key_pem(rsa_pki.qseal.key))
    extra = {name: HeaderParameter(name, "str") for name in (ISS, TAN)} | {IAT: HeaderParameter(IAT, "int")}
    registry = jws.JWSRegistry(header_registry=extra, algorithms=["PS256"])
    for profile in (UKOB, WITHOUT_B64):
        sealed = sealed_in(profile, rsa_pki)
        (value,) = sealed.values("x-jws-signature")
        read = jws.deserialize_compact(value, key, payload=sealed.body, registry=registry)
        assert read.headers()[TAN] == "openbanking.org.uk"
        theirs = jws.detach_content(jws.serialize_compact(protected(sealed), sealed.body, key, registry=registry))
        assert verdict(with_value(sealed, "x-jws-signature", theirs), policy_of(profile, rsa_pki)) == "holds"


def test_a_seal_over_fields_is_none_over_the_body_and_the_other_way_round(rsa_pki):
    fields, body = PROFILES["ing-jws"], sealed_in(UKOB, rsa_pki)
    over_fields = sign_request(REQUEST, seal=seal_of(fields, rsa_pki.qseal), at=AT)
    policy = policy_of(replace(UKOB, private=(), key_id=fields.key_id), rsa_pki)
    assert verdict(over_fields, policy) == "signature.uncovered"
    anything = body.with_headers(("Digest", over_fields.values("digest")[0]))
    open_to_both = replace(fields, key_id=UKOB.key_id)
    assert verdict(anything, policy_of(open_to_both, rsa_pki)) == "jws.critical"
    plain = signed_with({"alg": "PS256", "kid": KID, "iat": int(AT.timestamp())}, rsa_pki)
    digest = ("Digest", over_fields.values("digest")[0])
    assert verdict(plain.with_headers(digest), policy_of(open_to_both, rsa_pki)) == "signature.uncovered"


def test_without_the_body_nothing_is_verified(rsa_pki):
    policy = policy_of(UKOB, rsa_pki)
    with refused(ConfigurationError, "seal.body-needed"):
        verify_request_head(sealed_in(UKOB, rsa_pki), qwac=None, at=AT, policy=policy)
    empty = signed_with(protected(sealed_in(UKOB, rsa_pki)), rsa_pki, body=b"")._replace(body=b"")
    assert verdict(empty, policy) == "signature.uncovered"


def test_a_dialect_without_private_parameters_writes_iat_and_a_p521_key_seals_with_es512(pki):
    plain = replace(UKOB, name="webhook", private=(), algorithms=(("ES512", "ecdsa-p521-sha512"),))
    key = ec.derive_private_key(521, ec.SECP521R1())
    certificate = issue_seal(pki, key.public_key())
    sealed = sign_request(REQUEST, seal=Seal.for_key(certificate, key, profile=plain, key_id="k1"), at=AT)
    assert protected(sealed) == {"alg": "ES512", "kid": "k1", "iat": int(AT.timestamp())}
    policy = policy_of(plain, pki, certificates={"k1": certificate})
    assert verdict(sealed, policy) == "holds"
    assert verdict(sealed, policy, at=AT + timedelta(hours=1)) == "signature.expired"
    assert verdict(sealed._replace(body=b"{}"), policy) == "signature.invalid"


def test_a_dialect_of_a_bank_is_derived_in_toml(rsa_pki):
    derived = f"""
        based_on = "ukob"
        name = "our-bank"
        source = "letter from the bank"
        b64 = false
        private = [["{IAT}", "time"], ["{ISS}", "=0015800001041RHAAY/HQuZPIt3ipkh33Uxytox1E"], ["{TAN}", "=bank.example"]]
    """
    profile = parse_profile(derived.encode())
    sealed = sealed_in(profile, rsa_pki)
    assert verdict(sealed, policy_of(profile, rsa_pki)) == "holds"
    assert verdict(sealed, policy_of(UKOB, rsa_pki)) == "signature.private-parameter"
    lenient = replace(profile, private=((IAT, "time"), (ISS, "text"), (TAN, "=bank.example")))
    assert verdict(sealed, policy_of(lenient, rsa_pki)) == "holds"
    with refused(ConfigurationError, "profile.private"):
        sealed_in(lenient, rsa_pki)


def test_the_default_of_the_format_reads_the_names_of_the_dialect():
    assert private_names(UKOB) == OPEN_BANKING_UK


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"covered": ("(body)", "digest")}, "profile.coverage"),
        ({"covered_if_present": ("psu-id",)}, "profile.coverage"),
        ({"max_age": None}, "profile.coverage"),
        ({"private": (("alg", "text"),)}, "profile.malformed"),
        ({"private": (("a", "text"), ("a", "text"))}, "profile.malformed"),
        ({"private": (("a", "time"), ("b", "time"))}, "profile.malformed"),
        ({"private": (("a", "="),)}, "profile.malformed"),
        ({"private": (("a", "other"),)}, "profile.malformed"),
        ({"private": (("a b", "text"),)}, "profile.malformed"),
        ({"covered": ("(request-target)", "digest")}, "profile.malformed"),
    ],
)
def test_a_dialect_that_proves_too_little_or_contradicts_itself_is_refused(change, code):
    with refused((ConfigurationError, FormatError, SignatureRejected), code):
        replace(UKOB, **change)
