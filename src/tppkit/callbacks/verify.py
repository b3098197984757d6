"""Verify that the service signed exactly this request for exactly this address of the receiver.

This module has no memory; the inbox rejects replays. Recognise a replay by `VerifiedCallback.replay_key`, never by the signature:
for an ECDSA signature (r, s), anyone can compute (r, n - s), which verifies as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tppkit._clock import as_utc, format_time
from tppkit._encoding import shown
from tppkit._locals import without_locals
from tppkit.callbacks.addresses import MAX_TARGET, AddressBook, AddressMatch, CallbackAddress, CallbackKind
from tppkit.callbacks.signature import CLAUSE, CallbackKey, CallbackRejected, RequestIds, require_body
from tppkit.errors import ConfigurationError, FormatError
from tppkit.message import Message
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, Transaction
from tppkit.protocol.wire import MAX_BODY_BYTES, WireModel

MAX_HEADERS = 100
MAX_KEYS = 8

# Order of the group of P-256: NIST SP 800-186 section 3.2.1.3.
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_MAX_SIGNATURE = 2 * 72  # two INTEGERs of at most 33 bytes

CallbackEvent = AccessGranted | Transaction | LoginConfirmed

# An attacker can make the service POST a customer's data to any address, with a LOGIN code that names the address. So the
# address decides the type of the body. PSD2 document, part B section 6.
_READERS: Mapping[CallbackKind, Callable[[bytes], CallbackEvent]] = MappingProxyType(
    {
        CallbackKind.ACCESS: AccessGranted.from_wire,
        CallbackKind.PAYMENT: Transaction.from_wire,
        CallbackKind.LOGIN: LoginConfirmed.from_wire,
    }
)


class CallbackReceiver:
    """The addresses of a receiver, and the keys that it trusts.

    Args:
        addresses: the receiver's own, as the service knows them.
        keys: one to eight, with different names; a live receiver must not have a test key. Each key is tried, so each one adds
            to the cost of a forged callback.
        stripped_prefix: the prefix that a proxy removes from each path before this server receives it, for example `/app`.
        request_ids: the accepted requestids.
        max_body: maximum length of a body in bytes, at most 65,536.

    Raises:
        ConfigurationError: `callback.address-unusable`, `callback.addresses-ambiguous`, `callback-key.setting`,
            `callback.body-setting`.

    Example:
        CallbackReceiver([CallbackAddress("https://tpp.example/cb/", CallbackKind.ACCESS)], keys=[key])
    """

    def __init__(
        self, addresses: Iterable[CallbackAddress], *, keys: Iterable[CallbackKey], stripped_prefix: str = "",
        request_ids: RequestIds = RequestIds(), max_body: int = MAX_BODY_BYTES,  # noqa: B008  # frozen
    ) -> None:  # fmt: skip
        self.book = AddressBook(addresses, stripped_prefix=stripped_prefix)
        self.keys = tuple(keys)
        self.request_ids = request_ids
        self.max_body = max_body
        if not 1 <= len({key.name for key in self.keys}) == len(self.keys) <= MAX_KEYS:
            raise ConfigurationError(
                "callback-key.setting", f"a receiver needs 1 to {MAX_KEYS} keys with different names"
            )
        if not 2 <= max_body <= MAX_BODY_BYTES:
            raise ConfigurationError(
                "callback.body-setting", f"a body of {max_body} bytes is not 2 to {MAX_BODY_BYTES}"
            )


class VerifiedCallback(NamedTuple):
    """A callback whose signature is verified. Handlers should use only this, not the received request.

    Attributes:
        request_id: the signed requestid.
        method: the signed method, GET or POST.
        url: the signed URL.
        body: the signed body.
        key_name: the name of the key that signed it.
        event: the event in the body; None for a GET, and for an address of kind `other`.
        received_at: the time of verification, aware UTC. No time is signed (assumption callback-time).
        address: the configured address at which it was received.
        token: the value in place of the address's `{token}` (the uuid of a payment request), or empty.
        signature: as received, for evidence. Do not use it to recognise a replay.

    Example:
        if isinstance(callback.event, Transaction):
            print(callback.event.id, callback.replay_key)
    """

    request_id: str
    method: str
    url: str
    body: bytes
    key_name: str
    event: CallbackEvent | None
    received_at: datetime
    address: CallbackAddress
    token: str
    signature: str

    def __repr__(self) -> str:
        # Bodies and tokens do not belong in logs.
        return (
            f"VerifiedCallback(request_id={self.request_id!r}, method={self.method!r}, address={self.address.url!r},"
            f" key_name={self.key_name!r}, event={self.event!r}, received_at={format_time(self.received_at)!r})"
        )

    def __sentry_repr__(self) -> str:
        return repr(self)  # otherwise Sentry shows the items of a tuple

    @property
    def replay_key(self) -> tuple[str, str]:
        """Address with token, and requestid: the same for each copy of this callback, different for any other callback.

        The service uses a requestid once for an address (assumption callback-repeats).
        """
        return self.address.url + self.token, self.request_id


def verify_callback(received: Message, *, at: datetime, receiver: CallbackReceiver) -> VerifiedCallback:
    """Verify a callback or login GET.

    Args:
        received: the request, exactly as received.
        at: the time to judge at, aware. Pass the receipt time when checking a kept request.
        receiver: the addresses and keys.

    Raises:
        CallbackRejected: see `verify_signature`; `json.*`, `model.invalid`: the body is not of the address's kind.
        ConfigurationError: `time.naive`, `at` has no time zone.

    Example:
        verified = verify_callback(received, at=utc_now(), receiver=receiver)

    Source: PSD2 document, part B section 5.
    """
    return read_event(verify_signature(received, at=at, receiver=receiver))  # only a signed body is read


@without_locals
def verify_signature(received: Message, *, at: datetime, receiver: CallbackReceiver) -> VerifiedCallback:
    """Verify a callback without reading its body: `event` is None.

    Args:
        received: the request, exactly as received.
        at: the time to judge at, aware.
        receiver: the addresses and keys.

    Raises:
        CallbackRejected: `callback.too-large`, `callback.header-missing`, `callback.header-duplicate`, `callback.method`,
            `callback.request-id`, `callback.address`, `callback.body`, `callback.signature-form`, `callback.signature-range`,
            `callback.signature`.
        ConfigurationError: `time.naive`, `at` has no time zone.

    Source: PSD2 document, part B section 5.
    """
    # 1. Sizes are within their limits.
    # 2. The headers requestid and signature appear once each.
    # 3. Requestid, method, address and body follow the four rules of `message`.
    # 4. The signature is lower-case hexadecimal.
    # 5. It fits the signed bytes, for the URL as received, configured or decoded, under one of the keys valid at the time.
    #    `cryptography` rejects other encodings than DER and values out of range; the reason is looked up only after a failure.
    at = as_utc(at)
    method, target, headers, body = received
    if len(body) > receiver.max_body or len(target) > MAX_TARGET or len(headers) > MAX_HEADERS:  # 1
        message = (
            f"a body of {len(body)} bytes, a target of {len(target)} characters or {len(headers)} headers"
            f" exceeds the limit ({receiver.max_body}, {MAX_TARGET} and {MAX_HEADERS})"
        )
        raise CallbackRejected("callback.too-large", message)
    request_id, signature = read_headers(received)  # 2
    receiver.request_ids.require(request_id)  # 3
    match = require_address(received, receiver)
    require_body(method, body)
    der = read_signature(signature)  # 4
    url, key = _find_signed(f"{request_id}{method}".encode(), match.urls, body, der, receiver.keys, at)  # 5
    return VerifiedCallback(request_id, method, url, body, key.name, None, at, match.address, match.token, signature)


@without_locals
def read_event(callback: VerifiedCallback) -> VerifiedCallback:
    """Add the event to a callback whose signature is verified.

    Raises:
        CallbackRejected: `json.*`, `model.invalid`.
    """
    if callback.method == "GET":
        return callback
    read = _READERS.get(callback.address.kind)
    try:
        if read is None:
            WireModel.from_wire(callback.body)  # any JSON object
            return callback
        return callback._replace(event=read(callback.body))
    except FormatError as e:
        raise CallbackRejected(e.code, e.message, clause="PSD2 document B.6") from e


def read_headers(received: Message) -> tuple[str, str]:
    """Return the values of the headers requestid and signature.

    Raises:
        CallbackRejected: `callback.header-missing`, `callback.header-duplicate`.
    """
    found: dict[str, str] = {}
    for name, value in received.headers:
        if (lower := name.lower()) in ("requestid", "signature"):
            if lower in found:
                message = f"the header {lower} appears more than once"
                raise CallbackRejected("callback.header-duplicate", message, clause=CLAUSE)
            found[lower] = value
    for name in ("requestid", "signature"):
        if name not in found:
            raise CallbackRejected("callback.header-missing", f"the request has no {name} header", clause=CLAUSE)
    return found["requestid"], found["signature"]


def require_address(received: Message, receiver: CallbackReceiver) -> AddressMatch:
    """Return the address of a request.

    Raises:
        CallbackRejected: `callback.method`, `callback.address`.
    """
    match = receiver.book.find(received.target)
    if match is None:
        message = f"the target {shown(received.target)} is not one of the receiver's addresses"
        raise CallbackRejected("callback.address", message, clause=CLAUSE)
    if received.method not in match.address.kind.methods:
        accepted = " and ".join(sorted(match.address.kind.methods))
        raise CallbackRejected(
            "callback.method",
            f"{shown(match.address.url)} accepts {accepted} only, not {shown(received.method)}",
            clause="PSD2 document B.6",
        )
    return match


def read_signature(text: str) -> bytes:
    """Decode a signature from lower-case hexadecimal, the only form that is accepted.

    Raises:
        CallbackRejected: `callback.signature-form`.
    """
    try:
        signature = bytes.fromhex(text) if len(text) <= _MAX_SIGNATURE else b""
    except ValueError:
        signature = b""
    if signature.hex() != text:  # fromhex also reads spaces and upper case
        raise _malformed(len(text))
    return signature


def require_der(signature: bytes) -> None:
    """Reject bytes that cannot be an ECDSA signature: not DER, or a value out of range.

    Raises:
        CallbackRejected: `callback.signature-form`, `callback.signature-range`.
    """
    try:
        r, s = decode_dss_signature(signature)
    except ValueError:
        raise _malformed(2 * len(signature)) from None
    if not (0 < r < P256_ORDER and 0 < s < P256_ORDER):
        raise CallbackRejected(
            "callback.signature-range",
            "r or s of the signature is not from 1 to n-1",
            clause="FIPS 186-5 section 6.4.2",
        )


def _malformed(length: int) -> CallbackRejected:
    return CallbackRejected(
        "callback.signature-form",
        f"the signature of {length} characters is not an ECDSA signature in DER, in lower-case hexadecimal",
        clause=CLAUSE,
    )


def _find_signed(
    head: bytes, urls: tuple[bytes, ...], body: bytes, der: bytes, keys: tuple[CallbackKey, ...], at: datetime
) -> tuple[str, CallbackKey]:
    for key in keys:
        if not key.counts_at(at):
            continue
        for url in urls:
            if key.has_signed(head + url + body, der):
                return url.decode(), key
    require_der(der)
    message = "the signature fits no form of the URL under any key valid at the time"
    raise CallbackRejected("callback.signature", message, clause=CLAUSE)
