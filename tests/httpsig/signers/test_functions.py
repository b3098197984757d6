"""Signers made of the caller's functions."""

from __future__ import annotations

import asyncio

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig import CallableSigner

KEY = ec.derive_private_key(21, ec.SECP256R1())


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
