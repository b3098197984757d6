"""Authenticate callers by a key: as the whole Authorization header, or as the user name of HTTP Basic.

keys = KeyAuthenticator({"merchant-7": hash_key("sk_test_...")}, auth=Auth.BASIC)
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from tppkit._clock import Clock, as_utc, utc_now
from tppkit.errors import ConfigurationError, FormatError, VerificationError
from tppkit.protocol.endpoint import Auth, Endpoint
from tppkit.web.caller import Caller
from tppkit.web.gate import MAX_BODY_BYTES, SealPending
from tppkit.web.sources import Source

_DIGEST_BYTES = 32
_SCHEME = "basic "


def hash_key(key: str) -> bytes:
    """Return the SHA-256 of a key for storage. Keys are random with at least 128 bits, so no salt is needed."""
    return hashlib.sha256(key.encode()).digest()


class KeyAuthenticator:
    """Admit requests with a known key; no error, log line or representation contains it. See `Authenticator`.

    Args:
        keys: the hash of the key (see `hash_key`) by the caller's id; entries may be added later.
        auth: `Auth.API_KEY`, the Authorization header is the key; `Auth.BASIC`, the key is the user name and the password is empty.
        now: the clock.
        max_body_bytes: a longer body is rejected.

    Raises:
        ConfigurationError: `web.setting`, `auth` is another kind, or a hash does not have 32 bytes.

    Example:
        Host(..., authenticators={Auth.API_KEY: KeyAuthenticator({"shop": hash_key(key)}, auth=Auth.API_KEY)})
    """

    def __init__(
        self, keys: Mapping[str, bytes], *, auth: Auth, now: Clock = utc_now, max_body_bytes: int = MAX_BODY_BYTES
    ) -> None:
        if auth not in (Auth.API_KEY, Auth.BASIC) or any(len(known) != _DIGEST_BYTES for known in keys.values()):
            raise ConfigurationError("web.setting", "keys must be SHA-256 hashes, and auth API_KEY or BASIC")
        self._keys = keys
        self._auth = auth
        self._clock = now
        self._max_body_bytes = max_body_bytes

    def open(self, source: Source, row: Endpoint[Any, Any] | None) -> SealPending:
        """See `Authenticator.open`.

        Raises:
            VerificationError: `credentials.missing`, `credentials.unknown`.
            FormatError: `credentials.malformed`, `header.duplicate`.
            ConfigurationError: `web.setting`, the endpoint requires another kind of authentication.
        """
        if row is not None and row.auth is not self._auth:
            raise ConfigurationError(
                "web.setting", f"{row.name} requires {row.auth}, but this authenticator is for {self._auth}"
            )
        values = source.header_values("authorization")
        if len(values) > 1:
            raise FormatError("header.duplicate", "the Authorization header appears more than once")
        if not any(values):
            raise VerificationError("credentials.missing", "the request has no Authorization header")
        key = values[0].encode("latin-1") if self._auth is Auth.API_KEY else _parse_basic(values[0])
        digest = hashlib.sha256(key).digest()
        # Compare all keys, so that the time does not depend on which one fits; a copy, as another thread may change them.
        found = [caller for caller, known in tuple(self._keys.items()) if hmac.compare_digest(known, digest)]
        if not found:
            raise VerificationError("credentials.unknown", "the key is unknown")
        caller = Caller(found[0], as_utc(self._clock()))
        return SealPending(caller, None, self._max_body_bytes, None, now=self._clock)


def _parse_basic(value: str) -> bytes:
    """Return the user name of HTTP Basic with an empty password. Source: RFC 7617 section 2."""
    if value[: len(_SCHEME)].lower() == _SCHEME:
        try:
            key, colon, password = binascii.a2b_base64(value[len(_SCHEME) :].strip(), strict_mode=True).partition(b":")
        except ValueError:  # its text could contain a part of the key
            pass
        else:
            if key and colon and not password:
                return key
    raise FormatError("credentials.malformed", "the Authorization header is not Basic with a key and an empty password")
