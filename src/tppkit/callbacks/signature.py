"""The signature of a callback: the bytes that it covers, the keys that verify it, and signing for tests and the sandbox.

The service signs requestid + method + URL + body with nothing between them. It also signs GETs to addresses that attackers
choose with LOGIN codes. Without rules, one signature fits several requests: the end of a URL can be read as a body, the
beginning of a method as the end of a requestid. Four rules leave only one reading:

1. A requestid has only characters of its alphabet, never `:` or `/`. So the first `:` belongs to `https://`.
2. The method is exactly GET or POST. Neither is a suffix of the other, so the bytes before it are the requestid.
3. The URL is one of the receiver's own addresses, with its token if it has one. No address contains `{`.
4. The body of a POST begins with `{`, that of a GET is empty. So the URL ends at the first `{` or at the end.

No setting can make the bytes ambiguous.
"""

from __future__ import annotations

import binascii
import hashlib
from dataclasses import dataclass, field
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
from tppkit.errors import ConfigurationError, VerificationError
from tppkit.message import Header

CLAUSE = "PSD2 document B.5"

# Assumption callback-request-id. No comma, because servers join two headers of one name with it.
_ID_LETTERS = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_")
_NEVER_IN_ID = frozenset(":/,")
_LONGEST_ID = 255

MAX_KEY_BYTES = 16 * 1024
# Hash with hashlib: its objects are created faster than those of `cryptography`.
_ECDSA = ec.ECDSA(Prehashed(hashes.SHA256()))
_RANDOM = ec.ECDSA(hashes.SHA256())
_DETERMINISTIC = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)


class CallbackRejected(VerificationError):
    """A callback or login GET is malformed, breaks a rule, or lacks a signature by a trusted key."""


def signed_bytes(request_id: str, method: str, url: str, body: bytes = b"") -> bytes:
    """Return the bytes that a signature covers: requestid, method, URL and body, concatenated.

    Args:
        request_id: the header `requestid`.
        method: as on the wire.
        url: the whole address with `https://`; encoded as UTF-8.
        body: the raw bytes.

    Source: PSD2 document, part B section 5.
    """
    return f"{request_id}{method}{url}".encode() + body


@dataclass(frozen=True, slots=True)
class RequestIds:
    """The accepted requestids.

    Attributes:
        further: visible ASCII characters to accept in addition to letters, digits, `-` and `_`; never `:`, `/` or `,`.
        max_length: the maximum length, 1 to 255.

    Raises:
        ConfigurationError: `callback.request-id-setting`.

    Example:
        CallbackReceiver(addresses, keys=[key], request_ids=RequestIds(further="."))
    """

    further: str = ""
    max_length: int = 64
    _alphabet: frozenset[str] = field(init=False, repr=False, compare=False, default=_ID_LETTERS)

    def __post_init__(self) -> None:
        further = frozenset(self.further)
        if any(not "!" <= c <= "~" for c in further) or further & _NEVER_IN_ID:
            raise ConfigurationError(
                "callback.request-id-setting",
                f"requestids cannot contain all of {shown(self.further)}: only visible ASCII except : / and , is allowed",
            )
        if not 1 <= self.max_length <= _LONGEST_ID:
            raise ConfigurationError(
                "callback.request-id-setting", f"a maximum length of {self.max_length} is not 1 to {_LONGEST_ID}"
            )
        object.__setattr__(self, "_alphabet", _ID_LETTERS | further)

    def allow(self, request_id: str) -> bool:
        """Whether a requestid is accepted."""
        return 0 < len(request_id) <= self.max_length and self._alphabet.issuperset(request_id)

    def require(self, request_id: str) -> None:
        """Reject a requestid that is not accepted.

        Raises:
            CallbackRejected: `callback.request-id`.
        """
        if not self.allow(request_id):
            raise CallbackRejected(
                "callback.request-id",
                f"the requestid {shown(request_id)} is not 1 to {self.max_length} letters, digits"
                f" or characters of {shown('-_' + self.further)}",
                clause=CLAUSE,
            )


def require_body(method: str, body: bytes) -> None:
    """Reject a body that could also be read as the end of the URL: a GET's must be empty, a POST's must begin with `{`.

    Args:
        method: GET or POST.
        body: the raw bytes.

    Raises:
        CallbackRejected: `callback.body`.
    """
    if method == "GET":
        if body:
            raise CallbackRejected("callback.body", f"a GET has a body of {len(body)} bytes", clause=CLAUSE)
    elif body[:1] != b"{":
        raise CallbackRejected(
            "callback.body",
            f"the body of {len(body)} bytes does not begin with {{ as a JSON object does",
            clause=CLAUSE,
        )


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


def make_signature(key: ec.EllipticCurvePrivateKey, data: bytes, *, deterministic: bool = False) -> str:
    """Sign bytes with ECDSA and SHA-256; returns DER in lower-case hexadecimal.

    Args:
        key: on secp256r1.
        data: the bytes to sign.
        deterministic: the same key and bytes give the same signature (RFC 6979).
    """
    return key.sign(data, _DETERMINISTIC if deterministic else _RANDOM).hex()


def sign_callback(
    key: ec.EllipticCurvePrivateKey,
    *,
    request_id: str,
    method: str,
    url: str,
    body: bytes = b"",
    deterministic: bool = False,
) -> tuple[Header, ...]:
    """Return the headers `requestid` and `signature` of a callback.

    The values are not checked: tests of receivers need callbacks that break the rules.

    Args:
        key: on secp256r1.
        request_id: the id of this request.
        method: GET or POST.
        url: the whole address with `https://`.
        body: the raw bytes.
        deterministic: the same request gives the same signature (RFC 6979).

    Example:
        headers = sign_callback(key, request_id="r-1", method="POST", url="https://tpp.example/cb/", body=b"{}")

    Source: PSD2 document, part B section 5.
    """
    signature = make_signature(key, signed_bytes(request_id, method, url, body), deterministic=deterministic)
    return ("requestid", request_id), ("signature", signature)
