"""Refusals of a sealed request by its signature: encoding, keyId, algorithm and the signature itself."""

from __future__ import annotations

import hmac

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sealing import REQUEST, TEMPLATE, changed, fresh_policy, header, seal_by_hand, verdict, with_value

from tppkit.httpsig import KeySigner, Message
from tppkit.seals import Seal, SealPolicy, sign_request
from tppkit.testpki import Issued, Pki


@pytest.fixture(scope="module")
def sealed(seal: Seal) -> Message:
    return sign_request(REQUEST, seal=seal)


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
def test_the_signature_is_read_as_canonical_base64_only(spoil, codes, pki: Pki, policy: SealPolicy) -> None:
    sealed = padded(pki.qseal)
    head, mark, last = header(sealed, "Signature").rpartition('signature="')
    assert verdict(with_value(sealed, "Signature", f'{head}{mark}{spoil(last[:-1])}"'), policy) in codes


@pytest.mark.parametrize(("spoil", "codes"), SPOILT_BASE64)
def test_the_certificate_is_read_as_canonical_base64_only(spoil, codes, sealed: Message, policy: SealPolicy) -> None:
    name = "TPP-Signature-Certificate"
    text = header(sealed, name).rstrip("=")
    text = text[: len(text) // 4 * 4 - 2] + "A="
    assert verdict(with_value(sealed, name, spoil(text)), policy) in codes


@pytest.mark.parametrize(
    ("key_id", "code"),
    [
        ("", "key-id.malformed"),
        ("9FA1", "key-id.malformed"),
        ("SN=xyz,CA=CN=A", "key-id.malformed"),
        ("SN=9FA1", "key-id.malformed"),
        ("SN=9FA1,CA=CN=A", "key-id.mismatch"),
        ("https://attacker.example/certificate.pem", "key-id.malformed"),
    ],
)
def test_a_key_id_that_names_nothing_or_another_certificate_is_refused(
    key_id: str, code: str, pki: Pki, policy: SealPolicy
) -> None:
    assert verdict(seal_by_hand(REQUEST, pki.qseal, key_id=key_id), policy) == code


@pytest.mark.parametrize(
    "algorithm",
    [
        "rsa-sha256", "rsa-sha512", "ecdsa-sha384", "ecdsa-sha512", "hmac-sha256", "rsa-sha1", "hs2019", "none", "",
        "SHA256withECDSA", "SHA-256", "ES256", "ECDSA-SHA256", "ecdsa-sha256 ",
    ],
)  # fmt: skip
def test_a_p_256_key_signs_with_its_own_algorithm_only(algorithm: str, pki: Pki, policy: SealPolicy) -> None:
    assert verdict(seal_by_hand(REQUEST, pki.qseal, algorithm=algorithm), policy) == "signature.algorithm"


@pytest.mark.parametrize(
    "algorithm",
    [
        "ecdsa-sha256",
        "hmac-sha256",
        "rsa-sha1",
        "rsa-sha384",
        "hs2019",
        "rsa-pss-sha256",
        "SHA256withRSA",
        "RSA-SHA256",
    ],
)
def test_an_rsa_key_signs_with_its_own_algorithms_only(algorithm: str, rsa_pki: Pki) -> None:
    sealed = seal_by_hand(REQUEST, rsa_pki.qseal, algorithm=algorithm)
    assert verdict(sealed, fresh_policy(rsa_pki)) == "signature.algorithm"


def test_the_other_hash_of_an_rsa_key_does_not_verify(rsa_pki: Pki) -> None:
    sealed = seal_by_hand(REQUEST, rsa_pki.qseal, key_algorithm="rsa-sha256", algorithm="rsa-sha512")
    assert verdict(sealed, fresh_policy(rsa_pki)) == "signature.invalid"


@pytest.mark.parametrize("algorithm", ["hmac-sha256", "rsa-sha256"])
def test_an_hmac_keyed_with_the_public_key_is_refused(algorithm: str, rsa_pki: Pki) -> None:
    public = rsa_pki.qseal.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    sealed = seal_by_hand(
        REQUEST, rsa_pki.qseal, algorithm=algorithm, sign=lambda data: hmac.digest(public, data, "sha256")
    )
    assert verdict(sealed, fresh_policy(rsa_pki)) in {"signature.algorithm", "signature.invalid"}


def test_an_ecdsa_signature_as_two_bare_numbers_is_refused(pki: Pki, policy: SealPolicy) -> None:
    def sign(data: bytes) -> bytes:
        r, s = decode_dss_signature(KeySigner(pki.qseal.key).sign(data))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    assert verdict(seal_by_hand(REQUEST, pki.qseal, sign=sign), policy) == "signature.invalid"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda der: b"",
        lambda der: b"\x30\x81" + der[1:],
        lambda der: der + b"\x00",
        lambda der: b"\x30" + bytes([der[1] + 1, 0x02, der[3] + 1, 0x00]) + der[4:],
        lambda der: der[:-1],
        lambda der: bytes(len(der)),
    ],
    ids=["empty", "long length", "trailing byte", "padded integer", "cut", "zeros"],
)
def test_an_ecdsa_signature_that_is_not_der_is_refused(spoil, pki: Pki, policy: SealPolicy) -> None:
    sealed = seal_by_hand(REQUEST, pki.qseal, sign=lambda data: spoil(KeySigner(pki.qseal.key).sign(data)))
    assert verdict(sealed, policy) == "signature.invalid"


@pytest.mark.parametrize("spoil", [lambda s: b"", lambda s: s[1:], lambda s: b"\x00" + s, lambda s: s + b"\x00"])
def test_an_rsa_signature_of_another_length_is_refused(spoil, rsa_pki: Pki) -> None:
    sealed = seal_by_hand(REQUEST, rsa_pki.qseal, sign=lambda data: spoil(KeySigner(rsa_pki.qseal.key).sign(data)))
    assert verdict(sealed, fresh_policy(rsa_pki)) == "signature.invalid"


def test_a_signature_of_another_request_is_refused(sealed: Message, seal: Seal, policy: SealPolicy) -> None:
    other = sign_request(changed(REQUEST, target="/psd2/v1/consents"), seal=seal)
    assert verdict(with_value(sealed, "Signature", header(other, "Signature")), policy) == "signature.invalid"


def test_an_unknown_parameter_is_ignored(pki: Pki, policy: SealPolicy) -> None:
    assert verdict(seal_by_hand(REQUEST, pki.qseal, template=TEMPLATE + ',created=1,note="x"'), policy) == "holds"
