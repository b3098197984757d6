"""OpenSSL's own command signs what we verify, and verifies what we sign."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from calling import (
    ACCESS,
    ACCESS_URL,
    AT,
    LIVE,
    LOGIN_URL,
    ORIGIN,
    PAYMENT_URL,
    RECEIVER,
    TRANSACTION,
    header,
    received,
    with_headers,
)
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from programs import needed
from tppkit.callbacks import load_callback_key, verify_callback

CALLBACKS = [
    ("POST", ACCESS_URL, ACCESS),
    ("POST", PAYMENT_URL, TRANSACTION),
    ("GET", LOGIN_URL, b""),
    ("POST", f"{ORIGIN}/a%2Fb/%C5%BEalias/", '{"name":"Žydrūnas"}'.encode()),
    ("POST", f"{ORIGIN}/a/b/žalias/", b'{"a":"\\u0000"}'),
]


def openssl(*arguments: object, data: bytes) -> bytes:
    done = subprocess.run(
        [needed("openssl"), *map(str, arguments)], input=data, capture_output=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "key.pem").write_bytes(LIVE.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (folder / "key.pub").write_bytes(LIVE.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return folder


@pytest.mark.parametrize(("method", "url", "body"), CALLBACKS)
def test_what_openssl_signs_is_verified(keys, method, url, body):
    # The bytes are put together here by hand, from the document.
    data = b"openssl-1" + method.encode() + url.encode("utf-8") + body
    signature = openssl("dgst", "-sha256", "-sign", keys / "key.pem", data=data).hex()
    callback = with_headers(received(url, body, method=method), requestid="openssl-1", signature=signature)
    assert verify_callback(callback, at=AT, receiver=RECEIVER).url == url


@pytest.mark.parametrize(("method", "url", "body"), CALLBACKS)
def test_what_we_sign_openssl_verifies(keys, tmp_path, method, url, body):
    callback = received(url, body, method=method, request_id="ours-1")
    (tmp_path / "signature").write_bytes(bytes.fromhex(header(callback, "signature")))
    data = b"ours-1" + method.encode() + url.encode("utf-8") + body
    said = openssl("dgst", "-sha256", "-verify", keys / "key.pub", "-signature", tmp_path / "signature", data=data)
    assert said.strip() == b"Verified OK"


def test_a_key_that_openssl_made_is_read(tmp_path):
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", tmp_path / "key.pem", data=b"")
    for form in ("PEM", "DER"):
        public = openssl("ec", "-in", tmp_path / "key.pem", "-pubout", "-outform", form, data=b"")
        assert load_callback_key(public, name=form).public_key.curve.name == "secp256r1"
