"""The service's public keys, each with a name that appears in results."""

from __future__ import annotations

import binascii
import hashlib
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

from tppkit._clock import as_utc
from tppkit._encoding import pem_fault, shown
from tppkit._files import FilePath, read_bounded
from tppkit._locals import without_locals
from tppkit.errors import ConfigurationError

MAX_KEY_BYTES = 16 * 1024
# Hash with hashlib: its objects are created faster than those of `cryptography`.
_ECDSA = ec.ECDSA(Prehashed(hashes.SHA256()))


@dataclass(frozen=True, slots=True)
class CallbackKey:
    """One public key of the service.

    Attributes:
        name: its name in results, for example `live-2026`.
        public_key: on secp256r1 (P-256); see `load_callback_key`.
        not_before: start of its validity, aware; None: no start.
        not_after: end of its validity, aware; None: no end.

    Raises:
        ConfigurationError: `callback-key.unreadable` (not a public key), `callback-key.curve`, `callback-key.setting`, `time.naive`.

    Example:
        CallbackKey("live-2026", public_key, not_after=datetime(2027, 1, 1, tzinfo=UTC))
    """

    name: str
    public_key: ec.EllipticCurvePublicKey
    not_before: datetime | None = None
    not_after: datetime | None = None

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable():
            raise ConfigurationError(
                "callback-key.setting", f"{shown(self.name)} is not a name of printable characters"
            )
        _require_public_p256(self.public_key, self.name)
        for bound in ("not_before", "not_after"):
            at = getattr(self, bound)
            if at is not None:
                object.__setattr__(self, bound, as_utc(at))
        if self.not_before and self.not_after and self.not_before > self.not_after:
            raise ConfigurationError("callback-key.setting", f"the key {shown(self.name)} ends before it begins")

    def counts_at(self, at: datetime) -> bool:
        """Whether the key is valid at a time (aware UTC), both ends included."""
        return (self.not_before is None or self.not_before <= at) and (self.not_after is None or at <= self.not_after)

    def has_signed(self, signed: bytes, signature: bytes) -> bool:
        """Whether this key made a signature (ECDSA with SHA-256, in DER) over these bytes."""
        return self.has_signed_digest(hashlib.sha256(signed).digest(), signature)

    def has_signed_digest(self, digest: bytes, signature: bytes) -> bool:
        """Whether this key made a signature (ECDSA in DER) over bytes with this SHA-256 digest."""
        try:
            self.public_key.verify(signature, digest, _ECDSA)
        except InvalidSignature:
            return False
        return True


@without_locals
def load_callback_key(
    source: bytes | FilePath, *, name: str, not_before: datetime | None = None, not_after: datetime | None = None
) -> CallbackKey:
    """Read a public key of the service.

    Args:
        source: a SubjectPublicKeyInfo as PEM, DER or base64 of DER, or the path of a file that contains it.
        name: its name in results.
        not_before: start of its validity, aware.
        not_after: end of its validity, aware.

    Raises:
        ConfigurationError: `callback-key.unreadable`, `callback-key.curve`, `callback-key.setting`, `time.naive`, `file.path`.
        FormatError: `file.unreadable`, `file.too-large`.

    Example:
        key = load_callback_key("callback-live.pub", name="live")
    """
    data = read_bounded(source, max_bytes=MAX_KEY_BYTES) if isinstance(source, str | PathLike) else source
    return CallbackKey(name, _read_public_key(data, name), not_before, not_after)


def _require_public_p256(key: object, name: str) -> None:
    if isinstance(key, ec.EllipticCurvePublicKey):
        if isinstance(key.curve, ec.SECP256R1):
            return
        raise ConfigurationError(
            "callback-key.curve", f"the key {shown(name)} is on {key.curve.name}, not on secp256r1"
        )
    kind = type(key).__name__
    if hasattr(key, "public_bytes"):
        raise ConfigurationError("callback-key.curve", f"the key {shown(name)} is a {kind}, not on secp256r1")
    raise ConfigurationError("callback-key.unreadable", f"{shown(name)} is a {kind}, not a public key")


def _read_public_key(data: bytes, name: str) -> Any:
    if b"PRIVATE KEY-----" in data:
        raise ConfigurationError(
            "callback-key.unreadable", f"{shown(name)} is a private key; a receiver needs the public key only"
        )
    try:
        if b"-----BEGIN " in data:
            return load_pem_public_key(data)
        return load_der_public_key(data if data[:1] == b"\x30" else binascii.a2b_base64(b"".join(data.split())))
    except UnsupportedAlgorithm as e:
        raise ConfigurationError("callback-key.curve", f"the key {shown(name)} is of an unsupported type") from e
    except ValueError as e:
        raise ConfigurationError(
            "callback-key.unreadable",
            f"{shown(name)} is not a public key (PEM, DER or base64 of a SubjectPublicKeyInfo){pem_fault(data, ': ')}",
        ) from e
