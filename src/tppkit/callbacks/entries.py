"""Callbacks as entries of an inbox.

The **key** identifies address and requestid: the service uses a requestid once for an address. The **digest** identifies the
signed bytes: a known key with another digest is a conflict, not a repetition. The **version** identifies the event's record, its
version and its content, so a repetition under another requestid, or a late older version, has no effect.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from json import JSONEncoder, loads
from typing import NamedTuple

from tppkit._clock import format_time
from tppkit._locals import without_locals
from tppkit.callbacks.settings import TimeWindow
from tppkit.callbacks.signature import CallbackRejected, signed_bytes
from tppkit.callbacks.verify import CallbackReceiver, VerifiedCallback, read_event, verify_signature
from tppkit.inbox import Entry, InboxError, Version
from tppkit.message import Message
from tppkit.protocol.legacy import AccessGranted, Transaction

_canonical = JSONEncoder(
    sort_keys=True, separators=(",", ":"), check_circular=False
).encode  # names sorted at every depth


class IncomingCallback(NamedTuple):
    """A callback whose signature was verified.

    Attributes:
        callback: what was proven.
        entry: what the inbox stores.
        fault: why the body cannot be read, or None.
    """

    callback: VerifiedCallback
    entry: Entry
    fault: CallbackRejected | None

    def __repr__(self) -> str:
        return f"IncomingCallback({self.callback!r}, fault={self.fault!r})"

    def __sentry_repr__(self) -> str:
        return repr(self)  # otherwise Sentry shows the items of a tuple


class CallbackEntries:
    """Converts verified callbacks into entries, and entries back into callbacks.

    Args:
        receiver: the addresses and keys.
        environment: `live`, `test` or another name, to keep requestids and transaction ids of environments apart.
        window: how far the time of a callback may be from its receipt; None: not checked.

    Attributes:
        source: the source name of the entries.
    """

    def __init__(self, receiver: CallbackReceiver, *, environment: str, window: TimeWindow | None) -> None:
        self._receiver, self._window = receiver, window
        self.source = f"callback:{environment}"

    def verify(self, received: Message, *, at: datetime) -> IncomingCallback:
        """Verify a request. The time window does not apply to an unreadable callback, whose event is unknown.

        Raises:
            CallbackRejected: see `verify_signature` and `TimeWindow.require`.
            InboxError: see `TimeWindow.require`.
            ConfigurationError: `time.naive`; see `TimeWindow.require`.
        """
        callback = verify_signature(received, at=at, receiver=self._receiver)
        fault: CallbackRejected | None = None
        try:
            callback = read_event(callback)
        except CallbackRejected as e:
            fault = _unreadable(e)
        if self._window is not None and fault is None:
            self._window.require(callback)
        return IncomingCallback(callback, self._entry(callback), fault)

    @without_locals
    def restore(self, entry: Entry) -> VerifiedCallback:
        """Return the callback of an entry that is not done.

        Raises:
            InboxError: `inbox.address`, the receiver no longer has the address.
            CallbackRejected: `callback.unreadable`, the body is not of the address's kind.
        """
        kept = loads(entry.content)
        match = self._receiver.book.find(kept["url"].encode().decode("latin-1"))
        if match is None:
            raise InboxError(
                "inbox.address", f"the receiver no longer has the address of the stored callback {entry.name}"
            )
        callback = VerifiedCallback(
            entry.name, kept["method"], kept["url"], kept["body"].encode("latin-1"), kept["key_name"], None, entry.received_at,
            match.address, match.token, kept["signature"],
        )  # fmt: skip
        try:
            return read_event(callback)
        except CallbackRejected as e:
            raise _unreadable(e) from e

    def prepare(self, entry: Entry, _: datetime) -> Entry:
        """Add the version to an entry that could not be read when it was received, if it can be read now."""
        if entry.version is not None:
            return entry
        try:
            return entry._replace(version=_version(self.restore(entry)))
        except (CallbackRejected, InboxError):
            return entry

    def _entry(self, callback: VerifiedCallback) -> Entry:
        address, request_id = callback.replay_key
        signed = signed_bytes(request_id, callback.method, callback.url, callback.body)
        content = _canonical({
            "method": callback.method, "url": callback.url, "body": callback.body.decode("latin-1"),
            "key_name": callback.key_name, "signature": callback.signature,
        })  # fmt: skip
        return Entry(
            self.source, _digest(address, request_id), sha256(signed).digest(), request_id, content.encode(), callback.received_at,
            _version(callback),
        )  # fmt: skip


def _version(callback: VerifiedCallback) -> Version | None:
    event = callback.event
    if isinstance(event, Transaction):  # assumption same-version
        return Version(_digest("transaction", event.id), event.ver, _content(event))
    if isinstance(event, AccessGranted):
        # Under another requestid it is the same grant. A login has no version: a customer can log in twice.
        return Version(_digest("access", event.token, format_time(event.expires_at())), 0)
    return None


def _digest(*parts: str) -> str:
    # No part contains a zero byte: ids, tokens and URLs are printable. Hashed, because URLs and tokens are not kept.
    return sha256("\0".join(parts).encode()).hexdigest()


def _unreadable(error: CallbackRejected) -> CallbackRejected:
    message = f"the signed body is not of the address's kind: {error.message} [{error.code}]"
    return CallbackRejected("callback.unreadable", message, clause=error.clause)


def _content(record: Transaction) -> bytes:
    # Hash the parsed values, not the body: spaces, the order of names and trailing zeros do not make another record.
    # An amount has at most 21 digits, so nothing is rounded; adding 0 removes the sign of a negative zero.
    amounts, fees = (
        [(one.currency, str((one.value + 0).normalize())) for one in some] for some in (record.amounts, record.fees)
    )
    fields = (
        record.time_stamp, record.tlc, record.acc, amounts, fees, record.name, record.street, record.city, record.country,
        record.msg, record.time, record.tcc, _canonical(dict(record.unknown)) if record.unknown else "",
    )  # fmt: skip
    return sha256(repr(fields).encode()).digest()
