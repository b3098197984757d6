"""Which keys are strong enough, and whose signature one is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa, x25519
from cryptography.hazmat.primitives.hashes import SHA1, SHA256

from tppkit.certificates import EidasCertificate
from tppkit.testpki.certificate import Draft, for_key
from tppkit.testpki.signing import sign_der
from tppkit.trust.path.strength import is_signature_of, is_signed_by, require_key, signature_weakness

PSS = padding.PSS(padding.MGF1(SHA256()), 32)
RSA, EC = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
ED25519, ED448 = ed25519.Ed25519PrivateKey.generate(), ed448.Ed448PrivateKey.generate()


@pytest.mark.parametrize(
    ("key", "how", "pss"),
    [
        (RSA, (padding.PKCS1v15(), SHA256()), None),
        (RSA, (PSS, SHA256()), PSS),
        (EC, (ec.ECDSA(SHA256()),), None),
        (ED25519, (), None),
        (ED448, (), None),
    ],
    ids=["RSA", "RSASSA-PSS", "ECDSA", "Ed25519", "Ed448"],
)
def test_a_signature_is_of_one_text(key, how, pss):
    hash_algorithm = SHA256() if how else None
    for data, expected in ((b"text", True), (b"other", False)):
        signature = key.sign(b"text", *how)
        found = is_signature_of(
            key.public_key(), signature=signature, data=data, hash_algorithm=hash_algorithm, pss=pss
        )
        assert found is expected


def test_an_algorithm_that_names_no_hash_is_weak_only_where_it_has_one():
    ed25519, pss = "1.3.101.112", "1.2.840.113549.1.1.10"
    assert signature_weakness(ed25519, None) is None
    assert signature_weakness(pss, None)


def test_an_unknown_algorithm_is_weak_with_a_strong_hash_too():
    dsa = "2.16.840.1.101.3.4.3.2"
    assert signature_weakness(dsa, SHA256()) == f"the signature algorithm {dsa}"


def test_a_strong_algorithm_with_a_weak_hash_is_weak():
    pss = "1.2.840.113549.1.1.10"
    assert signature_weakness(pss, SHA1()) == "a signature with sha1"
    assert signature_weakness(pss, SHA256()) is None


def test_a_key_that_signs_nothing_made_no_signature():
    key = x25519.X25519PrivateKey.generate().public_key()
    assert not is_signature_of(key, signature=b"", data=b"text", hash_algorithm=None)


def test_the_issuer_of_a_signature_has_the_name_that_the_certificate_states(pki):
    issuer, draft = pki.qseal_ca, Draft.of(pki.qseal.certificate)
    other = replace(draft, issuer=pki.qwac_ca.certificate.subject_der)
    for one, expected in ((draft, True), (other, False)):
        assert is_signed_by(EidasCertificate.from_der(one.sign(issuer.key)), issuer.certificate) is expected


def test_a_signature_is_of_the_algorithm_stated_in_the_signed_part(pki):
    signed, key = pki.qseal.certificate.x509.tbs_certificate_bytes, pki.qseal_ca.key
    for name, expected in (("sha256", True), ("sha384", False)):
        certificate = EidasCertificate.from_der(sign_der(signed, key, hash_name=name))
        assert is_signed_by(certificate, pki.qseal_ca.certificate) is expected


@pytest.mark.parametrize("key", [RSA, EC, ED25519, ED448], ids=["RSA", "P-256", "Ed25519", "Ed448"])
def test_a_strong_key_is_accepted(pki, key):
    draft = for_key(Draft.of(pki.qseal.certificate), key.public_key())
    require_key(EidasCertificate.from_der(draft.sign(pki.qseal_ca.key)))
