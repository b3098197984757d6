"""OpenSSL's own command line verifies what we sign and signs what we verify."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tppkit.httpsig import ALGORITHMS, KeySigner, Message, make_digest, make_signing_string, message_components
from tppkit.httpsig.algorithms import make_verifiers, verify_signature

HASHES = {"rsa-sha256": "-sha256", "rsa-sha512": "-sha512", "ecdsa-sha256": "-sha256", "ecdsa-sha384": "-sha384"}


@pytest.fixture(scope="module")
def keys() -> dict[str, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey]:
    return {
        "rsa": rsa.generate_private_key(65537, 2048),
        "P-256": ec.generate_private_key(ec.SECP256R1()),
        "P-384": ec.generate_private_key(ec.SECP384R1()),
    }


@pytest.fixture
def data() -> bytes:
    headers = (("Digest", make_digest(b"{}")), ("X-Request-ID", "7f9c24e8-3b12-4f6b-9d3a-0c1f1e9b6a55"))
    message = Message("POST", "/psd2/v1/payments/sepa-credit-transfers", headers, b"{}")
    return make_signing_string(("digest", "x-request-id", "(request-target)"), message_components(message)[0])


def openssl(*arguments: str | Path) -> str:
    return subprocess.run(["openssl", "dgst", *arguments], check=True, capture_output=True, text=True).stdout


def test_every_algorithm_is_compared_with_openssl() -> None:
    assert HASHES.keys() == ALGORITHMS.keys()


@pytest.mark.parametrize("name", HASHES)
def test_openssl_verifies_what_we_sign(name: str, keys, data: bytes, tmp_path: Path) -> None:
    key = keys[ALGORITHMS[name].key]
    public, text, signature = tmp_path / "public.pem", tmp_path / "text", tmp_path / "signature"
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    text.write_bytes(data)
    signature.write_bytes(KeySigner(key, algorithm=name).sign(data))
    assert openssl(HASHES[name], "-verify", public, "-signature", signature, text) == "Verified OK\n"


@pytest.mark.parametrize("name", HASHES)
def test_we_verify_what_openssl_signs(name: str, keys, data: bytes, tmp_path: Path) -> None:
    key = keys[ALGORITHMS[name].key]
    private, text, signature = tmp_path / "private.pem", tmp_path / "text", tmp_path / "signature"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    text.write_bytes(data)
    openssl(HASHES[name], "-sign", private, "-out", signature, text)
    verify_signature(make_verifiers(key.public_key()), name, signature.read_bytes(), data)
