"""The receiver's own addresses, and the lookup of a received target among them.

The base of a signed URL comes from configuration, never from the Host header, because the sender chooses that header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from tppkit._addresses import MAX_ADDRESS, SCHEME, parse_signed_address
from tppkit._encoding import shown
from tppkit.errors import ConfigurationError, FormatError
from tppkit.protocol.legacy.rules import is_token

TOKEN = "{token}"  # noqa: S105  # a placeholder, not a secret
MAX_TARGET = 4096  # the longest address with a token, and room for needless percent-encoding

_PREFIX = re.compile(r"(?:/[0-9A-Za-z._~-]+)*")


class CallbackKind(StrEnum):
    """The kind of callback that the service sends to an address. Source: PSD2 document, part B section 6."""

    ACCESS = "access"
    PAYMENT = "payment"
    LOGIN = "login"
    OTHER = "other"

    __hash__ = str.__hash__  # faster: Enum's own is a Python function, and each callback needs two lookups

    @property
    def methods(self) -> frozenset[str]:
        """The methods that such an address accepts: GET and POST at most, because neither is a suffix of the other."""
        return _METHODS[self]


_POST, _BOTH = frozenset({"POST"}), frozenset({"GET", "POST"})
_METHODS = {
    CallbackKind.ACCESS: _POST,
    CallbackKind.PAYMENT: _POST,
    CallbackKind.LOGIN: _BOTH,
    CallbackKind.OTHER: _BOTH,
}


@dataclass(frozen=True, slots=True)
class CallbackAddress:
    """One address of the receiver, as the service knows it.

    Attributes:
        url: `https://…` as registered or as in the LOGIN code; percent-encoded or plain UTF-8, at most 2,332 characters
            when percent-encoded. If a token (20 to 40 letters and digits) follows, the URL ends with `{token}` after a `/`
            or `=`.
        kind: the expected kind of callback; a body of another kind is rejected. `other` accepts any JSON object and reads
            no event.

    Raises:
        ConfigurationError: `callback.address-unusable`.

    Example:
        CallbackAddress("https://tpp.example/pay/{token}", CallbackKind.PAYMENT)
    """

    url: str
    kind: CallbackKind
    origin: str = field(init=False, repr=False, compare=False)
    path: str = field(init=False, repr=False, compare=False)
    has_token: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fixed = self.url.removesuffix(TOKEN)
        try:
            address = parse_signed_address(fixed, what="it", beyond_ascii=True)
        except FormatError as e:
            raise _unusable(self.url, e.message) from e
        has_token = self.url != fixed
        if has_token and fixed[-1] not in "/=":
            raise _unusable(self.url, f"{TOKEN} does not follow / or =")
        # Only characters beyond ASCII are encoded: the service signs the rest as it was registered.
        path = quote(address.path, safe=_ASCII_PATH)
        length = len(address.origin) + len(path)
        if length > MAX_ADDRESS:
            raise _unusable(self.url, f"percent-encoded it has {length} characters, at most {MAX_ADDRESS} are allowed")
        for name, value in {"origin": address.origin, "path": path, "has_token": has_token}.items():
            object.__setattr__(self, name, value)


_ASCII_PATH = "".join(map(chr, range(0x21, 0x7F)))


def _unusable(url: str, reason: str) -> ConfigurationError:
    return ConfigurationError("callback.address-unusable", f"{shown(url)} cannot be a callback address: {reason}")


class AddressMatch(NamedTuple):
    """The address of a target, and the URLs that the service may have signed for it.

    Attributes:
        address: the configured address.
        token: the token that follows it, empty if the address has none.
        urls: the whole URL in UTF-8 as received and, where they differ, as configured and percent-decoded.
    """

    address: CallbackAddress
    token: str
    urls: tuple[bytes, ...]


class AddressBook:
    """Finds the configured address of a target.

    A target matches an address if both are the same bytes after percent-decoding. The decoded paths of all addresses differ
    and contain no `%`, so a signed URL matches at most one address.

    Args:
        addresses: at least one; no two with the same path.
        stripped_prefix: the prefix that a proxy removes from each path before this server receives it, for example `/app`.

    Raises:
        ConfigurationError: `callback.address-unusable`, `callback.addresses-ambiguous`.
    """

    def __init__(self, addresses: Iterable[CallbackAddress], *, stripped_prefix: str = "") -> None:
        self.addresses = tuple(addresses)
        self._prefix = stripped_prefix
        self._decoded: dict[tuple[bytes, bool], CallbackAddress] = {}
        # Precomputed for the usual spellings: whole targets, and targets up to their token.
        self._usual: dict[str, AddressMatch] = {}
        self._usual_before_token: dict[str, AddressMatch] = {}
        for address in self.addresses:
            self._add(address)
        self._require_usable()

    def _add(self, address: CallbackAddress) -> None:
        decoded = unquote_to_bytes(address.path)
        if (decoded, address.has_token) in self._decoded:
            raise _ambiguous(address, self._decoded[decoded, address.has_token])
        self._decoded[decoded, address.has_token] = address
        usual = self._usual_before_token if address.has_token else self._usual
        for path in (address.path, decoded.decode("latin-1")):
            if path.startswith(self._prefix):
                usual[path.removeprefix(self._prefix)] = AddressMatch(
                    address, "", _urls(address, path.encode("latin-1"))
                )

    def _require_usable(self) -> None:
        if not self.addresses:
            raise ConfigurationError("callback.address-unusable", "a receiver needs at least one address")
        if not _PREFIX.fullmatch(self._prefix):
            raise ConfigurationError(
                "callback.address-unusable",
                f"{shown(self._prefix)} is not a path prefix such as /app (without a final /)",
            )
        for address in self.addresses:
            if not address.path.startswith(self._prefix + "/"):
                raise ConfigurationError(
                    "callback.address-unusable",
                    f"{shown(address.url)} has no path below the prefix {shown(self._prefix)}",
                )
        for (decoded, has_token), address in self._decoded.items():
            before, token = _cut(decoded.decode())
            other = None if has_token or not is_token(token) else self._decoded.get((before.encode(), True))
            if other is not None:
                raise _ambiguous(address, other)

    def find(self, target: str) -> AddressMatch | None:
        """The address of a target, or None.

        Args:
            target: as on the wire: path and query, or the whole URL (absolute form); bytes beyond ASCII as Latin-1.
        """
        usual = self._usual.get(target)
        if usual is not None:
            return usual
        cut = target.rfind("/") + 1
        usual = self._usual_before_token.get(target[:cut])
        token = target[cut:]
        if usual is not None and is_token(token):
            return _with_token(usual.address, token, usual.urls)
        return self._find_unusual(target)

    def _find_unusual(self, target: str) -> AddressMatch | None:
        """Other spellings: absolute form, lower-case or needless percent-encoding."""
        if len(target) > MAX_TARGET:
            return None
        origin, path = _split_absolute(target)
        try:
            # A whole URL is the public one, with the prefix that a proxy strips from paths.
            received = (path if origin else self._prefix + path).encode("latin-1")
        except UnicodeError:
            return None
        token = ""
        address = self._decoded.get((unquote_to_bytes(received), False))
        if address is None:
            before, token = _cut(received.decode("latin-1"))
            received = before.encode("latin-1")
            address = self._decoded.get((unquote_to_bytes(received), True)) if is_token(token) else None
        if address is None or origin not in ("", address.origin):
            return None
        return _with_token(address, token, _urls(address, received))


def _with_token(address: CallbackAddress, token: str, urls: tuple[bytes, ...]) -> AddressMatch:
    behind = token.encode()
    return AddressMatch(address, token, tuple([url + behind for url in urls]))


def _cut(target: str) -> tuple[str, str]:
    end = max(target.rfind("/"), target.rfind("=")) + 1
    return target[:end], target[end:]


def _split_absolute(target: str) -> tuple[str, str]:
    if not target.startswith(SCHEME):
        return "", target
    authority, slash, path = target[len(SCHEME) :].partition("/")
    return SCHEME + authority, slash + path


def _urls(address: CallbackAddress, received: bytes) -> tuple[bytes, ...]:
    # Assumption callback-url-form.
    origin = address.origin.encode()
    configured = address.url.removesuffix(TOKEN).encode()
    return tuple(dict.fromkeys((origin + received, configured, origin + unquote_to_bytes(received))))


def _ambiguous(one: CallbackAddress, other: CallbackAddress) -> ConfigurationError:
    return ConfigurationError(
        "callback.addresses-ambiguous", f"one request could match both {shown(one.url)} and {shown(other.url)}"
    )
