"""Refusals of a sealed request by its signature: encoding, keyId, algorithm and the signature itself."""

from __future__ import annotations

import pytest
from sealing import REQUEST, TEMPLATE, changed, fresh_policy, header, seal_by_hand, verdict, with_value

from tppkit.message import Message
from tppkit.seals import sign_request
from tppkit.testpki import Issued

SPOILT_BASE64 = [
    (lambda text: text[:-4] + "\n" + text[-4:], {"base64.malformed", "signature.malformed"}),
    (lambda text: text[:8] + " " + text[8:], {"base64.malformed"}),
    (lambda text: text.rstrip("="), {"base64.malformed", "base64.noncanonical"}),
    (lambda text: text + "=", {"base64.malformed", "base64.noncanonical"}),
    (lambda text: text + "AAAA", {"base64.malformed", "base64.noncanonical"}),
    (lambda text: "-" + text[1:], {"base64.malformed"}),
    (lambda text: "_" + text[1:], {"base64.malformed"}),
    (lambda text: "é" + text[1:], {"base64.malformed"}),
    (lambda text: text[:-2] + chr(ord(text[-2]) + 1) + "=", {"base64.noncanonical"}),
]


def padded(issued: Issued) -> Message:
    """A sealed request whose signature's base64 ends with one `=`."""
    for attempt in range(400):
        sealed = seal_by_hand(changed(REQUEST, body=b"%d" % attempt), issued)
        text = header(sealed, "Signature").rpartition('signature="')[2][:-1]
        if text.endswith("=") and not text.endswith("=="):
            return sealed
    raise AssertionError("no signature of that length")


@pytest.mark.parametrize(("spoil", "codes"), SPOILT_BASE64)
def test_the_signature_is_read_as_canonical_base64_only(spoil, codes, pki, policy):
    sealed = padded(pki.qseal)
    head, mark, last = header(sealed, "Signature").rpartition('signature="')
    assert verdict(with_value(sealed, "Signature", f'{head}{mark}{spoil(last[:-1])}"'), policy) in codes


@pytest.mark.parametrize(("spoil", "codes"), SPOILT_BASE64)
def test_the_certificate_is_read_as_canonical_base64_only(spoil, codes, sealed, policy):
    name = "TPP-Signature-Certificate"
    text = header(sealed, name).rstrip("=")
    text = text[: len(text) // 4 * 4 - 2] + "A="
    assert verdict(with_value(sealed, name, spoil(text)), policy) in codes


@pytest.mark.parametrize(
    ("kind", "algorithms"),
    [
        ("ec", ["rsa-sha256", "ecdsa-sha384", "ecdsa-sha512", "hs2019", "", "SHA256withECDSA", "ES256", "ECDSA-SHA256", "ecdsa-sha256 "]),
        ("rsa", ["ecdsa-sha256", "hmac-sha256", "rsa-sha1", "rsa-sha384", "hs2019", "rsa-pss-sha256", "SHA256withRSA", "RSA-SHA256"]),
    ],
)  # fmt: skip
def test_a_key_signs_with_its_own_algorithms_only(kind, algorithms, pki, rsa_pki):
    one = {"ec": pki, "rsa": rsa_pki}[kind]
    for algorithm in algorithms:
        sealed = seal_by_hand(REQUEST, one.qseal, algorithm=algorithm)
        assert verdict(sealed, fresh_policy(one)) == "signature.algorithm", algorithm


def test_a_signature_of_another_request_is_refused(sealed, seal, policy):
    other = sign_request(changed(REQUEST, target="/psd2/v1/consents"), seal=seal)
    assert verdict(with_value(sealed, "Signature", header(other, "Signature")), policy) == "signature.invalid"


def test_an_unknown_parameter_is_ignored(pki, policy):
    assert verdict(seal_by_hand(REQUEST, pki.qseal, template=TEMPLATE + ',created=1,note="x"'), policy) == "holds"
