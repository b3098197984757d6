"""What the Redis stores ask of the server, and what its answers say; no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple, assert_never

from tppkit.callbacks.stores.claims import Begin, Claim, Fail, Finish
from tppkit.callbacks.stores.entry import Entry, Failure, Lifetimes, Order, Outcome, Taken, microseconds, moment
from tppkit.errors import InboxError

_OFFSET = 2**63  # makes versions sort as texts of twenty digits


class Call(NamedTuple):
    """A call of a script.

    Attributes:
        script: its name in `redis_scripts`.
        keys: what it reads and writes; all have one hash tag.
        args: what that script's comment names.
    """

    script: str
    keys: tuple[str, ...]
    args: tuple[str | int | bytes, ...]


class Calls:
    """Operations as calls of scripts.

    Args:
        prefix: of every key.
    """

    def __init__(self, prefix: str) -> None:
        self._hashes, self._versions = f"{prefix}c:", f"{prefix}v:"
        self._sets = tuple(f"{prefix}{name}" for name in ("due", "done", "failed", "versions"))
        self._given_up = f"{prefix}given-up"

    def add(self, entry: Entry) -> Call:
        """See `Store.add`, for one entry."""
        received_at = microseconds(entry.received_at)
        return self._call("ADD", entry.key.hex(), entry.digest.hex(), received_at, *_fields(entry))

    def step(self, step: Claim | Begin | Finish | Fail) -> Call:
        """One step of a program."""
        match step:
            case Claim(entry, at, until):
                times = microseconds(at), microseconds(until)
                return self._call("CLAIM", entry.key.hex(), entry.digest.hex(), *times, *_fields(entry))
            case Begin(taken, at):
                subject = _subject(taken)
                args = microseconds(at), _version(taken), subject, self._hashes, _content(taken)
                return self._call("BEGIN", *_claim_of(taken), *args, subject=subject)
            case Finish(taken, at):
                marked = microseconds(at), _version(taken), _content(taken)
                return self._call("FINISH", *_claim_of(taken), *marked, subject=_subject(taken))
            case Fail(taken, reason, due_at):
                due = "" if due_at is None else microseconds(due_at)
                subject, received_at = _subject(taken), microseconds(taken.entry.received_at)
                return self._call("FAIL", *_claim_of(taken), reason, received_at, due, subject, subject=subject)
            case _:
                assert_never(step)

    def take(self, at: datetime, until: datetime, limit: int) -> Call:
        """See `Store.take`."""
        return self._call("TAKE", self._hashes, microseconds(at), microseconds(until), limit)

    def renew(self, taken: Sequence[Taken], until: datetime) -> Call:
        """See `Renewing.renew`."""
        claims = [part for one in taken for part in _claim_of(one)]
        return self._call("RENEW", self._hashes, microseconds(until), *claims)

    def failed(self, limit: int, after: Failure | None) -> Call:
        """See `Store.failed`."""
        behind = () if after is None else (microseconds(after.entry.received_at), after.entry.key.hex())
        return self._call("FAILED", self._hashes, limit, *behind)

    def release(self, key: bytes, at: datetime) -> Call:
        """See `Store.release`."""
        return self._call("RELEASE", key.hex(), microseconds(at))

    def discard(self, failure: Failure, at: datetime) -> Call:
        """See `Store.discard`."""
        return self._call("DISCARD", failure.entry.key.hex(), failure.attempts, microseconds(at))

    def discard_failed(self, before: datetime, at: datetime, limit: int) -> Call:
        """See `Store.discard_failed`."""
        return self._call("DISCARD_FAILED", self._hashes, microseconds(before), microseconds(at), limit)

    def purge(self, lifetimes: Lifetimes, limit: int) -> Call:
        """See `Store.purge`."""
        before = microseconds(lifetimes.done), microseconds(lifetimes.versions)
        return self._call("PURGE", self._hashes, self._versions, *before, limit)

    def _call(self, script: str, *args: str | int | bytes, subject: str = "") -> Call:
        keys = f"{self._hashes}{args[0]!s}", *self._sets, f"{self._versions}{subject}", self._given_up
        return Call(script, keys, args)


def _claim_of(taken: Taken) -> tuple[str, int]:
    return taken.entry.key.hex(), taken.attempt


def _subject(taken: Taken) -> str:
    return "" if taken.entry.order is None else taken.entry.order.subject.hex()


def _version(taken: Taken) -> str:
    order = taken.entry.order
    return "" if order is None else f"{order.version + _OFFSET:020d}"


def _content(taken: Taken) -> str:
    order = taken.entry.order
    return "" if order is None or order.content is None else order.content.hex()


def outcome_of(answer: Any) -> Any:
    """An outcome's name as the outcome; any other answer as it is."""
    return Outcome(answer.decode()) if isinstance(answer, bytes) else answer


def _fields(entry: Entry) -> list[str | int | bytes]:
    subject, version, content = entry.order or (b"", "", None)
    fields: Mapping[str, str | int | bytes] = {
        "key": entry.key, "digest": entry.digest.hex(), "environment": entry.environment, "key_name": entry.key_name,
        "request_id": entry.request_id, "method": entry.method, "url": entry.url, "body": entry.body,
        "signature": entry.signature, "received_at": microseconds(entry.received_at), "subject": subject, "version": version,
        "content": content or b"",
    }  # fmt: skip
    return [part for field in fields.items() for part in field]


def taken_of(answer: Sequence[Any]) -> list[Taken]:
    """What TAKE answered.

    Raises:
        InboxError: `inbox.unavailable`, a callback is damaged.
    """
    with _told_of_damage():
        rows = [(bool(lapsed), _row(flat)) for lapsed, flat in answer]
        return [Taken(_entry(row), int(row["attempts"]), lapsed) for lapsed, row in rows]


def failures_of(answer: Sequence[Sequence[bytes]]) -> list[Failure]:
    """What FAILED answered.

    Raises:
        InboxError: `inbox.unavailable`, a callback is damaged.
    """
    with _told_of_damage():
        return [_failure(_row(flat)) for flat in answer]


def _failure(row: Mapping[str, bytes]) -> Failure:
    due_at = moment(int(row["due"])) if row["due"] else None
    return Failure(_entry(row), int(row["attempts"]), row["reason"].decode(), due_at)


@contextmanager
def _told_of_damage() -> Iterator[None]:
    try:
        yield
    except (KeyError, ValueError, OverflowError) as e:
        raise InboxError("inbox.unavailable", f"a callback in the inbox's Redis is damaged: {type(e).__name__}") from e


def _row(flat: Sequence[bytes]) -> dict[str, bytes]:
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _entry(row: Mapping[str, bytes]) -> Entry:
    text = {
        name: row[name].decode() for name in ("environment", "key_name", "request_id", "method", "url", "signature")
    }
    return Entry(
        key=row["key"], digest=bytes.fromhex(row["digest"].decode()), body=row["body"],
        received_at=moment(int(row["received_at"])),
        order=Order(row["subject"], int(row["version"]), row.get("content") or None) if row["subject"] else None, **text,
    )  # fmt: skip
