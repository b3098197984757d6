"""OpenSSL's own command line verifies what we sign and signs what we verify."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from programs import needed
from tppkit.httpsig import KeySigner, make_digest, make_signing_string, message_components
from tppkit.httpsig.algorithms import (
    ALGORITHMS,
    PrivateKey,
    Scheme,
    der_from_raw,
    make_verifiers,
    raw_from_der,
    verify_signature,
)
from tppkit.message import Message

_PSS = ("-pkeyopt", "rsa_padding_mode:pss", "-pkeyopt", "rsa_pss_saltlen:digest")
# What `openssl pkeyutl` is told for each algorithm.
OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "rsa-sha256": ("-digest", "sha256"),
        "rsa-sha512": ("-digest", "sha512"),
        "rsa-pss-sha256": ("-digest", "sha256", *_PSS),
        "rsa-pss-sha512": ("-digest", "sha512", *_PSS),
        "ecdsa-sha256": ("-digest", "sha256"),
        "ecdsa-sha384": ("-digest", "sha384"),
        "ecdsa-p256-sha512": ("-digest", "sha512"),
        "ecdsa-p256-sha256": ("-digest", "sha256"),
        "ecdsa-p384-sha384": ("-digest", "sha384"),
        "ed25519": (),
    }
)


@pytest.fixture(scope="module")
def keys() -> Mapping[str, PrivateKey]:
    return {
        "rsa": rsa.generate_private_key(65537, 2048),
        "P-256": ec.generate_private_key(ec.SECP256R1()),
        "P-384": ec.generate_private_key(ec.SECP384R1()),
        "ed25519": ed25519.Ed25519PrivateKey.generate(),
    }


@pytest.fixture
def data() -> bytes:
    headers = (("Digest", make_digest(b"{}")), ("X-Request-ID", "7f9c24e8-3b12-4f6b-9d3a-0c1f1e9b6a55"))
    message = Message("POST", "/psd2/v1/payments/sepa-credit-transfers", headers, b"{}")
    return make_signing_string(("digest", "x-request-id", "(request-target)"), message_components(message)[0])


def openssl(name: str, *arguments: str | Path) -> str:
    command = [needed("openssl"), "pkeyutl", *arguments, "-rawin", *OPTIONS[name]]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def to_der(name: str, signature: bytes) -> bytes:
    """OpenSSL's command knows ECDSA as DER only."""
    raw = ALGORITHMS[name].scheme is Scheme.ECDSA_RAW
    return der_from_raw(signature, size=len(signature) // 2) if raw else signature


def from_der(name: str, signature: bytes) -> bytes:
    row = ALGORITHMS[name]
    return raw_from_der(signature, size=int(row.key[2:]) // 8) if row.scheme is Scheme.ECDSA_RAW else signature


@pytest.mark.parametrize("name", ALGORITHMS)
def test_openssl_verifies_what_we_sign_and_signs_what_we_verify(name, keys, data, tmp_path):
    key = keys[ALGORITHMS[name].key]
    public, text, signature = tmp_path / "public.pem", tmp_path / "text", tmp_path / "signature"
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    text.write_bytes(data)
    signature.write_bytes(to_der(name, KeySigner(key, algorithm=name).sign(data)))
    told = openssl(name, "-verify", "-pubin", "-inkey", public, "-sigfile", signature, "-in", text)
    assert told == "Signature Verified Successfully\n"
    private, text, signature = tmp_path / "private.pem", tmp_path / "text", tmp_path / "signature"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    openssl(name, "-sign", "-inkey", private, "-out", signature, "-in", text)
    verifiers = make_verifiers(key.public_key(), names=ALGORITHMS)
    verify_signature(verifiers, name, from_der(name, signature.read_bytes()), data)
