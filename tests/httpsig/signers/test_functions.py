"""Signers made of the caller's functions."""

from __future__ import annotations

import asyncio

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


def test_a_function_signs() -> None:
    signer = CallableSigner(KEY.public_key(), sign=sign)
    signer.public_key.verify(signer.sign(b"x"), b"x", ec.ECDSA(hashes.SHA256()))  # type: ignore[union-attr]


def test_an_asynchronous_function_signs() -> None:
    signer = CallableSigner(KEY.public_key(), sign_async=sign_async)
    KEY.public_key().verify(asyncio.run(signer.sign_async(b"x")), b"x", ec.ECDSA(hashes.SHA256()))


def test_a_signer_needs_a_function() -> None:
    with refused(ConfigurationError, "signer.no-function"):
        CallableSigner(KEY.public_key())


def test_a_signer_refuses_an_algorithm_of_another_key() -> None:
    with refused(FormatError, "signature.algorithm"):
        CallableSigner(KEY.public_key(), sign=sign, algorithm="rsa-sha256")


def test_a_signer_that_only_blocks_is_not_awaited() -> None:
    with refused(ConfigurationError, "signer.sync-only"):
        asyncio.run(CallableSigner(KEY.public_key(), sign=sign).sign_async(b"x"))


def test_a_signer_that_is_only_awaited_does_not_block() -> None:
    with refused(ConfigurationError, "signer.async-only"):
        CallableSigner(KEY.public_key(), sign_async=sign_async).sign(b"x")
