"""What a store keeps of a callback, and what it answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Promise(StrEnum):
    """How often the effect of one callback can happen when processes die.

    Attributes:
        EXACTLY_ONCE: the handler's writes and the done mark are one transaction of the store.
        AT_LEAST_ONCE: the claim survives; a process that dies between effect and done mark makes the effect happen again.
        UNTIL_EXIT: nothing survives the process.
    """

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    UNTIL_EXIT = "until-exit"


class State(StrEnum):
    """Where a callback stands.

    Attributes:
        WAITING: stored, taken by nobody yet.
        CLAIMED: somebody handles it, until the lease ends.
        DONE: handled, or stale.
        FAILED: its handler failed; it is tried again when it is due, or never by itself when it has no due time.
    """

    WAITING = "waiting"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"


class Outcome(StrEnum):
    """What became of a callback.

    Attributes:
        STORED: it is new and waits for a worker.
        APPLIED: its effect happened now.
        REPEATED: it was stored or handled before.
        STALE: a version as new or newer was applied before; it is done, without effect.
        VERSION_CONFLICT: the same version was applied before with other content; it is done, without effect.
        BUSY: somebody else holds a claim on it; the sender should repeat it.
        FAILED: its handler failed (only workers say so; elsewhere the handler's exception is raised).
        CONFLICT: its key was used for other signed bytes.
        LOGIN: A login GET: no handler gets it and nothing is stored. Answer it with a `LoginRequest`.
        UNREADABLE: The signature is valid, the body is not what belongs to the address. Kept as failed until an operator releases or
            discards it.
    """

    STORED = "stored"
    APPLIED = "applied"
    REPEATED = "repeated"
    STALE = "stale"
    VERSION_CONFLICT = "version-conflict"
    BUSY = "busy"
    FAILED = "failed"
    CONFLICT = "conflict"
    LOGIN = "login"
    UNREADABLE = "unreadable"


class Order(NamedTuple):
    """What puts callbacks about one thing in order.

    Attributes:
        subject: 32 bytes that stand for the thing.
        version: its version, a signed 64-bit integer; only a greater one is applied.
        content: 32 bytes that stand for what this version says, or None where that is not compared.
    """

    subject: bytes
    version: int
    content: bytes | None = None

    def contradicts(self, version: int, content: bytes | None) -> bool:
        """Whether another content of the same version is known."""
        return self.version == version and None not in (self.content, content) and self.content != content


class Lifetimes(NamedTuple):
    """Bounds of a purge, aware UTC.

    Attributes:
        done: callbacks done before are forgotten.
        versions: versions set before are forgotten.
    """

    done: datetime
    versions: datetime


class Entry(NamedTuple):
    """One verified callback as a store keeps it.

    Attributes:
        key: 32 bytes that stand for environment, address and request id.
        digest: SHA-256 of the signed bytes; one key never stands for two.
        environment: `test` or `live`, or what the receiver calls it.
        key_name: the public key that verified it.
        request_id: the request id.
        method: `GET` or `POST`.
        url: the URL that was signed.
        body: the body; a store forgets it once the callback is done.
        signature: as received; forgotten with the body.
        received_at: when it was received, aware UTC.
        order: for events that have a version, else None.
    """

    key: bytes
    digest: bytes
    environment: str
    key_name: str
    request_id: str
    method: str
    url: str
    body: bytes
    signature: str
    received_at: datetime
    order: Order | None


class Taken(NamedTuple):
    """An entry that a worker has claimed.

    Attributes:
        entry: the entry.
        attempt: the number of this attempt, from 1; a claim that was overtaken has another number.
        lapsed: the claim before was neither finished nor given up: whoever had it died, or was too slow. Such an entry is claimed
            alone, so that one that ends its process takes no others with it.
    """

    entry: Entry
    attempt: int
    lapsed: bool = False


class Failure(NamedTuple):
    """A failed entry.

    Attributes:
        entry: the entry.
        attempts: how often it was tried.
        reason: the kind of the last error.
        due_at: when it is tried again, aware UTC, or None when only `release` makes it so.
    """

    entry: Entry
    attempts: int
    reason: str
    due_at: datetime | None

    @property
    def place(self) -> tuple[datetime, bytes]:
        """Where it stands among the failed ones: oldest first, and those of one moment by key."""
        return self.entry.received_at, self.entry.key


def microseconds(at: datetime) -> int:
    """`at` as microseconds since 1970, the form of times in every store."""
    return (at - _EPOCH) // _MICROSECOND


def moment(since_1970: int) -> datetime:
    """The time that `microseconds` wrote."""
    return _EPOCH + timedelta(microseconds=since_1970)
