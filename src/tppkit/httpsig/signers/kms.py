"""A signer with a key in AWS Key Management Service (extra `kms`).

The private key never leaves the service. Up to 4096 bytes are sent to it as they are, more bytes as their hash.
Source: AWS KMS API reference, GetPublicKey and Sign.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_der_public_key

from tppkit._extras import needs_extra
from tppkit._locals import without_locals
from tppkit.errors import ConfigurationError, FormatError, TransportError
from tppkit.httpsig.algorithms import ALGORITHMS, Algorithm, Scheme, hash_data, raw_from_der
from tppkit.httpsig.signers.protocol import choose_algorithm

MAX_RAW_BYTES = 4096  # the longest message that KMS hashes itself

_ALGORITHMS: Mapping[str, str] = MappingProxyType(
    {
        "rsa-sha256": "RSASSA_PKCS1_V1_5_SHA_256",
        "rsa-sha512": "RSASSA_PKCS1_V1_5_SHA_512",
        "rsa-pss-sha256": "RSASSA_PSS_SHA_256",
        "rsa-pss-sha512": "RSASSA_PSS_SHA_512",
        "ecdsa-sha256": "ECDSA_SHA_256",
        "ecdsa-sha384": "ECDSA_SHA_384",
        "ecdsa-p256-sha256": "ECDSA_SHA_256",
        "ecdsa-p384-sha384": "ECDSA_SHA_384",
    }
)
_NAMES = MappingProxyType({name: ALGORITHMS[name] for name in _ALGORITHMS})
# Temporary errors, and errors that need another setting.
_THROTTLED = frozenset({"ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded"})
_TROUBLE = frozenset(
    {"KMSInternalException", "DependencyTimeoutException", "KeyUnavailableException", "ServiceUnavailable"}
)
_ABSENT = frozenset({"NotFoundException", "InvalidArnException"})


class KmsSigner:
    """Signs with a key of AWS KMS; thread-safe.

        seal = Seal(certificate, KmsSigner("alias/seal-2026"))

    An alias is resolved once. If it is pointed at another key later, this signer continues to use the first key.

    Args:
        key_id: the key's id, ARN or alias (`alias/seal-2026`); its usage is SIGN_VERIFY.
        client: a boto3 client of KMS; by default one from the environment's settings.
        algorithm: a name of `httpsig.algorithms.ALGORITHMS`; by default the key's usual one. Ed25519 keys are not supported.
        timeout_s: timeout for connecting and for reading, in seconds, of the default client.
        attempts: total number of attempts of the default client if KMS throttles or fails.

    Raises:
        ConfigurationError: `extra.missing`; `signer.key-not-found`; `signer.refused`, no credentials, no permission, a disabled key,
            a key of another usage, or an invalid `key_id`.
        FormatError: `key.unsupported`, `key.weak`, `signature.algorithm`.
        TransportError: `signer.timeout`, `signer.throttled`, `signer.unavailable`.
    """

    @without_locals
    def __init__(
        self,
        key_id: str,
        *,
        client: Any = None,
        algorithm: str | None = None,
        timeout_s: float = 5.0,
        attempts: int = 3,
    ) -> None:
        self._client = client if client is not None else _make_client(timeout_s, attempts)
        answer = self._ask("get_public_key", KeyId=key_id)
        self.key_id: str = answer["KeyId"]
        self.public_key = _read_public_key(answer["PublicKey"])
        self.algorithm: Algorithm = choose_algorithm(self.public_key, algorithm, names=_NAMES)
        self._size = self.public_key.key_size // 8

    def __repr__(self) -> str:
        return f"KmsSigner({self.key_id!r}, algorithm={self.algorithm.name!r})"

    @without_locals
    def sign(self, data: bytes) -> bytes:
        """Return the signature of KMS over `data`.

        Raises:
            ConfigurationError: `signer.key-not-found`, `signer.refused`.
            TransportError: `signer.timeout`, `signer.throttled`, `signer.unavailable`.
        """
        kind = "RAW" if 0 < len(data) <= MAX_RAW_BYTES else "DIGEST"  # KMS rejects an empty message
        answer = self._ask(
            "sign",
            KeyId=self.key_id,
            Message=data if kind == "RAW" else hash_data(data, self.algorithm.hash),
            MessageType=kind,
            SigningAlgorithm=_ALGORITHMS[self.algorithm.name],
        )
        signature: bytes = answer["Signature"]
        if self.algorithm.scheme is not Scheme.ECDSA_RAW:
            return signature
        try:
            return raw_from_der(signature, size=self._size)
        except ValueError as e:
            raise TransportError(
                "signer.unavailable", f"KMS returned {len(signature)} bytes, which are not a signature of its key"
            ) from e

    async def sign_async(self, data: bytes) -> bytes:
        """Run `sign` in a thread."""
        return await asyncio.to_thread(self.sign, data)

    def _ask(self, operation: str, **question: Any) -> Any:
        from botocore.exceptions import (
            BotoCoreError,
            ClientError,
            ConnectTimeoutError,
            NoCredentialsError,
            NoRegionError,
            ParamValidationError,
            PartialCredentialsError,
            ReadTimeoutError,
        )

        try:
            return getattr(self._client, operation)(**question)
        except ClientError as e:
            raise _error(operation, str(e.response.get("Error", {}).get("Code", "")), question["KeyId"]) from e
        except (ConnectTimeoutError, ReadTimeoutError) as e:
            raise TransportError(
                "signer.timeout", f"KMS did not answer {operation} in time ({type(e).__name__})"
            ) from e
        except (NoCredentialsError, PartialCredentialsError, NoRegionError, ParamValidationError) as e:
            raise ConfigurationError("signer.refused", f"the KMS client is misconfigured: {type(e).__name__}") from e
        except BotoCoreError as e:
            raise TransportError("signer.unavailable", f"KMS cannot be reached ({type(e).__name__})") from e


def _error(operation: str, code: str, key_id: str) -> TransportError | ConfigurationError:
    if code in _THROTTLED:
        return TransportError("signer.throttled", f"KMS has too many requests for {operation} ({code})")
    if code in _ABSENT:
        return ConfigurationError("signer.key-not-found", f"KMS has no key {key_id!r} here ({code})")
    if code in _TROUBLE or code.isdigit() or not code:  # boto3 returns the HTTP status if the body has no code
        return TransportError("signer.unavailable", f"KMS cannot do {operation} now ({code or 'no code'})")
    return ConfigurationError(
        "signer.refused",
        f"KMS rejects {operation} with the key {key_id!r} ({code}): check that the key is enabled, and the permissions",
    )


def _make_client(timeout_s: float, attempts: int) -> Any:
    with needs_extra("kms"):
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    retries = {"mode": "standard", "total_max_attempts": attempts}
    try:
        return boto3.client("kms", config=Config(connect_timeout=timeout_s, read_timeout=timeout_s, retries=retries))
    except BotoCoreError as e:
        raise ConfigurationError("signer.refused", f"KMS cannot be asked: {type(e).__name__}") from e


def _read_public_key(der: bytes) -> rsa.RSAPublicKey | ec.EllipticCurvePublicKey:
    try:
        key = load_der_public_key(der)
    except (ValueError, UnsupportedAlgorithm) as e:
        raise FormatError("key.unsupported", "the public key of KMS is of an unsupported type") from e
    if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
        raise FormatError("key.unsupported", "KMS's key is neither RSA nor EC")
    return key
