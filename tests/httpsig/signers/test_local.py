"""Keys in memory and in files, and signers that call functions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig import CallableSigner, KeySigner, load_private_key, parse_pkcs12
from tppkit.seals import Seal
from tppkit.testpki import Pki

KEY = ec.derive_private_key(21, ec.SECP256R1())
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
ENCRYPTED = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"correct"))
# PKCS#8 of an algorithm that has no number: OID 1.2.3.4.
UNKNOWN = b"-----BEGIN PRIVATE KEY-----\nMA4CAQAwBQYDKgMEBAIEAA==\n-----END PRIVATE KEY-----\n"


def test_a_signer_takes_the_usual_algorithm_of_its_key_or_the_one_it_is_given_and_shows_no_key():
    signer = KeySigner(KEY)
    assert signer.algorithm.name == "ecdsa-sha256"
    assert signer.public_key == KEY.public_key()
    assert repr(KeySigner(KEY)) == "KeySigner(algorithm='ecdsa-sha256')"
    assert KeySigner(rsa.generate_private_key(65537, 2048), algorithm="rsa-sha512").algorithm.name == "rsa-sha512"


@pytest.mark.parametrize("encoding", [Encoding.PEM, Encoding.DER], ids=["PEM", "DER"])
def test_a_certificate_in_place_of_a_key_is_named_as_such(encoding, pki):
    with refused(ConfigurationError, "key.unreadable", match="it is a certificate, not a private key"):
        load_private_key(pki.qseal.certificate.x509.public_bytes(encoding))


@pytest.mark.parametrize("algorithm", ["rsa-sha256", "ecdsa-sha384", "hs2019", "ECDSA-SHA256"])
def test_a_signer_refuses_an_algorithm_that_its_key_cannot_have(algorithm):
    with refused(FormatError, "signature.algorithm"):
        KeySigner(KEY, algorithm=algorithm)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (ed448.Ed448PrivateKey.generate, "key.unsupported"),
        (lambda: ec.generate_private_key(ec.SECP256K1()), "key.unsupported"),
        (lambda: dsa.generate_private_key(2048), "key.unsupported"),
        (lambda: rsa.generate_private_key(65537, 1024), "key.weak"),
    ],
)
def test_a_signer_refuses_a_key_that_no_algorithm_signs_with(make, code):
    with refused(FormatError, code):
        KeySigner(make())


def pkcs12_file(
    pki: Pki, *, named: bool = True, key: bool = True, own: bool = True, password: bytes = b"correct"
) -> bytes:
    issued = pki.qseal
    chain = [certificate.x509 for certificate in issued.chain]
    others = chain if named or not own else [*chain, issued.certificate.x509]
    return pkcs12.serialize_key_and_certificates(
        b"seal", issued.key if key else None, issued.certificate.x509 if named and own else None, others,
        BestAvailableEncryption(password),
    )  # fmt: skip


@pytest.mark.parametrize("named", [True, False], ids=["named", "found by its key"])
def test_key_certificate_and_chain_are_read_from_pkcs12(named, pki):
    found = parse_pkcs12(pkcs12_file(pki, named=named), password=b"correct")
    assert found.key.public_key() == pki.qseal.certificate.public_key
    assert (found.certificate, found.chain) == (pki.qseal.certificate, pki.qseal.chain)
    assert Seal(found.certificate, KeySigner(found.key)).certificate == found.certificate


@pytest.mark.parametrize(("key", "own"), [(False, True), (True, False)], ids=["no key", "no certificate of the key"])
def test_pkcs12_without_a_pair_or_with_a_wrong_password_is_refused(key, own, pki):
    with refused(ConfigurationError, "key.unreadable"):
        parse_pkcs12(pkcs12_file(pki, key=key, own=own), password=b"correct")
    with refused(FormatError, "pkcs12.unreadable"):
        parse_pkcs12(pkcs12_file(pki), password=b"wrong")


@pytest.mark.parametrize("password", [None, b"of another file"])
def test_pkcs12_in_which_nothing_is_encrypted_needs_no_password_and_is_read_with_one(password, pki):
    issued = pki.qseal
    plain = pkcs12.serialize_key_and_certificates(b"seal", issued.key, issued.certificate.x509, None, NoEncryption())
    assert parse_pkcs12(plain, password=password).certificate == issued.certificate


PLAIN = [KEY.private_bytes(encoding, PrivateFormat.PKCS8, NoEncryption()) for encoding in (Encoding.PEM, Encoding.DER)]


@pytest.mark.parametrize(
    ("form", "password"),
    [
        (KEY.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()), None),
        (ENCRYPTED, b"correct"),
        (KEY.private_bytes(Encoding.DER, PrivateFormat.TraditionalOpenSSL, NoEncryption()), None),
        *((plain, password) for plain in PLAIN for password in (None, b"for another key")),
    ],
)
def test_a_key_is_read_in_every_form_and_with_a_password_that_it_does_not_need(form, password):
    assert load_private_key(form, password=password).public_key() == KEY.public_key()


UNREADABLE: dict[str, tuple[Any, Any, str]] = {
    "no password": (ENCRYPTED, None, "no password was given"),
    "empty password": (ENCRYPTED, b"", "no password was given"),
    "wrong password": (ENCRYPTED, b"wrong", "the password is wrong"),
    "password as a number": (ENCRYPTED, 5, "the password is neither text nor bytes"),
    "cut": (PEM[:90] + PEM[110:], None, "damaged"),
    "empty": (b"", None, "damaged"),
    "name of a file": ("certs/qseal.key", None, "not bytes"),
    "text": (PEM.decode(), None, "not bytes"),
    "public key": (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", None, "damaged"),
    "line breaks as text": (PEM.replace(b"\n", b"\\n"), None, "its line breaks are written as backslash and n"),
    "line breaks as text, encrypted": (ENCRYPTED.replace(b"\n", b"\\n"), b"correct", "its line breaks"),
    "UTF-16": (PEM.decode().encode("utf-16"), None, "it is text in UTF-16"),
    "UTF-16, no mark": (PEM.decode().encode("utf-16-be"), None, "it is text in UTF-16"),
    "unknown algorithm": (UNKNOWN, None, ""),
    "wrong label": (ENCRYPTED.replace(b"ENCRYPTED ", b""), None, "damaged"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_key_that_cannot_be_read_is_reported_without_showing_it(name):
    pem, password, reason = UNREADABLE[name]
    with pytest.raises(ConfigurationError) as caught:
        load_private_key(pem, password=password)
    assert caught.value.code == "key.unreadable"
    assert reason in caught.value.message
    assert "MIG" not in caught.value.message
    assert caught.value.__cause__ is None


@given(position=st.integers(0, len(PEM) - 1), byte=st.integers(0, 255))
def test_only_a_configuration_error_escapes_the_reader_of_keys(position, byte):
    spoilt = PEM[:position] + bytes([byte]) + PEM[position + 1 :]
    with suppress(ConfigurationError):
        load_private_key(spoilt)


def sign(data: bytes) -> bytes:
    return KEY.sign(data, ec.ECDSA(hashes.SHA256()))


async def sign_async(data: bytes) -> bytes:
    await asyncio.sleep(0)
    return sign(data)


def test_a_function_signs_and_so_does_an_asynchronous_one():
    signer = CallableSigner(KEY.public_key(), sign=sign)
    signer.public_key.verify(signer.sign(b"x"), b"x", ec.ECDSA(hashes.SHA256()))  # type: ignore[union-attr]
    signer = CallableSigner(KEY.public_key(), sign_async=sign_async)
    KEY.public_key().verify(asyncio.run(signer.sign_async(b"x")), b"x", ec.ECDSA(hashes.SHA256()))


@pytest.mark.parametrize(
    ("use", "code"),
    [
        (lambda: CallableSigner(KEY.public_key()), "signer.no-function"),
        (lambda: CallableSigner(KEY.public_key(), sign=sign, algorithm="rsa-sha256"), "signature.algorithm"),
        (lambda: asyncio.run(CallableSigner(KEY.public_key(), sign=sign).sign_async(b"x")), "signer.sync-only"),
        (lambda: CallableSigner(KEY.public_key(), sign_async=sign_async).sign(b"x"), "signer.async-only"),
    ],
)
def test_a_signer_needs_the_function_that_is_called_and_an_algorithm_of_its_key(use, code):
    with refused((ConfigurationError, FormatError), code):
        use()
