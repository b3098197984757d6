"""Which keys are strong enough, and whose signature one is."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from tppkit.certificates import EidasCertificate
from tppkit.testpki.certificate import Draft, for_key
from tppkit.trust.path.strength import is_signature_of, require_key

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


@pytest.mark.parametrize("key", [RSA, EC, ED25519, ED448], ids=["RSA", "P-256", "Ed25519", "Ed448"])
def test_a_strong_key_is_accepted(pki, key):
    draft = for_key(Draft.of(pki.qseal.certificate), key.public_key())
    require_key(EidasCertificate.from_der(draft.sign(pki.qseal_ca.key)))
