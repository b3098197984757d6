"""The inbox in Redis: quick and shared by hosts, with a weaker promise.

A handler's writes cannot be part of what Redis does, so claim, effect and done mark are three steps. A process that dies after the
effect and before the mark leaves a claim; when its lease ends, the effect happens again. And Redis keeps only what its own
persistence keeps: without `appendfsync always` an acknowledged callback can be gone after a crash of the server, and with a
`maxmemory-policy` other than `noeviction` at any time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple, assert_never

from tppkit._extras import missing_extra
from tppkit.callbacks.stores import redis_scripts as scripts
from tppkit.callbacks.stores.claims import Begin, Claim, Fail, Finish, Step, resume, run, run_all
from tppkit.callbacks.stores.driving import EffectFailed, drive, drive_async, have_effect, have_effect_async
from tppkit.callbacks.stores.entry import (
    Entry,
    Failure,
    Lifetimes,
    Order,
    Outcome,
    Promise,
    Taken,
    microseconds,
    moment,
)
from tppkit.callbacks.stores.store import AsyncEffect, Effect, Retry
from tppkit.errors import ConfigurationError, InboxError

try:
    import redis
    import redis.asyncio
except ImportError as e:
    raise missing_extra("redis", e) from e

_SCRIPTS = ("ADD", "CLAIM", "BEGIN", "FINISH", "FAIL", "TAKE", "FAILED", "RELEASE", "PURGE")
_OFFSET = 2**63  # makes versions sort as texts of twenty digits


class _Call(NamedTuple):
    script: str
    keys: tuple[str, ...]
    args: tuple[str | int | bytes, ...]


class _Calls:
    """Operations as calls of scripts."""

    def __init__(self, prefix: str) -> None:
        self._hashes, self._versions = f"{prefix}c:", f"{prefix}v:"
        self._sets = tuple(f"{prefix}{name}" for name in ("due", "done", "failed", "versions"))

    def add(self, entry: Entry) -> _Call:
        received_at = microseconds(entry.received_at)
        return self._call("ADD", entry.key.hex(), entry.digest.hex(), received_at, *_fields(entry))

    def step(self, step: Claim | Begin | Finish | Fail) -> _Call:
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

    def take(self, at: datetime, until: datetime, limit: int) -> _Call:
        return self._call("TAKE", self._hashes, microseconds(at), microseconds(until), limit)

    def failed(self, limit: int) -> _Call:
        return self._call("FAILED", self._hashes, limit)

    def release(self, key: bytes, at: datetime) -> _Call:
        return self._call("RELEASE", key.hex(), microseconds(at))

    def purge(self, lifetimes: Lifetimes, limit: int) -> _Call:
        before = microseconds(lifetimes.done), microseconds(lifetimes.versions)
        return self._call("PURGE", self._hashes, self._versions, *before, limit)

    def _call(self, script: str, *args: str | int | bytes, subject: str = "") -> _Call:
        return _Call(script, (f"{self._hashes}{args[0]!s}", *self._sets, f"{self._versions}{subject}"), args)


class RedisStore:
    """A store in Redis 5 or later, or Valkey. Handlers get None for a connection.

    Args:
        client: a `redis.Redis` that gives bytes (`decode_responses` false).
        prefix: of every key; its hash tag keeps them on one node of a cluster.

    Raises:
        ConfigurationError: `inbox.redis`; `extra.missing` when the module is imported.
    """

    promise = Promise.AT_LEAST_ONCE

    def __init__(self, client: redis.Redis, *, prefix: str = "{tppkit-inbox}:") -> None:
        _require_bytes(client)
        self._calls = _Calls(prefix)
        self._scripts = {name: client.register_script(getattr(scripts, name)) for name in _SCRIPTS}

    def add(self, entries: Sequence[Entry]) -> list[Outcome]:
        """See `Store.add`."""
        return [_outcome(self._run(self._calls.add(entry))) for entry in entries]

    def run(self, entry: Entry, effect: Effect, *, at: datetime, until: datetime, retry: Retry) -> Outcome:
        """See `Store.run`."""
        try:
            return drive(run(entry, at=at, until=until, retry=retry), self._performing(effect))
        except EffectFailed as e:
            error = e.error
        raise error

    def run_all(
        self, entries: Sequence[Entry], effect: Effect, *, at: datetime, until: datetime, retry: Retry
    ) -> list[Outcome]:
        """See `Store.run_all`."""
        return drive(run_all(entries, at=at, until=until, retry=retry), self._performing(effect))

    def take(self, *, at: datetime, until: datetime, limit: int) -> list[Taken]:
        """See `Store.take`."""
        return _taken(self._run(self._calls.take(at, until, limit)))

    def resume(self, taken: Sequence[Taken], effect: Effect, *, at: datetime, retry: Retry) -> list[Outcome]:
        """See `Store.resume`."""
        return drive(resume(taken, at=at, retry=retry), self._performing(effect))

    def failed(self, *, limit: int) -> list[Failure]:
        """See `Store.failed`."""
        return _failures(self._run(self._calls.failed(limit)))

    def release(self, key: bytes, *, at: datetime) -> bool:
        """See `Store.release`."""
        return bool(self._run(self._calls.release(key, at)))

    def purge(self, lifetimes: Lifetimes, *, limit: int) -> int:
        """See `Store.purge`."""
        return int(self._run(self._calls.purge(lifetimes, limit)))

    def _performing(self, effect: Effect) -> Callable[[Step], object]:
        def perform(step: Step) -> object:
            if not isinstance(step, Entry):
                return _outcome(self._run(self._calls.step(step)))
            try:
                have_effect(effect, step, None)
            except Exception as e:
                raise EffectFailed(e) from e
            return None

        return perform

    def _run(self, call: _Call) -> Any:
        with _told():
            return self._scripts[call.script](keys=call.keys, args=call.args)


class AsyncRedisStore:
    """The same with `redis.asyncio.Redis`."""

    promise = Promise.AT_LEAST_ONCE

    def __init__(self, client: redis.asyncio.Redis, *, prefix: str = "{tppkit-inbox}:") -> None:
        _require_bytes(client)
        self._calls = _Calls(prefix)
        self._scripts = {name: client.register_script(getattr(scripts, name)) for name in _SCRIPTS}

    async def add(self, entries: Sequence[Entry]) -> list[Outcome]:
        """See `Store.add`."""
        return [_outcome(await self._run(self._calls.add(entry))) for entry in entries]

    async def run(self, entry: Entry, effect: AsyncEffect, *, at: datetime, until: datetime, retry: Retry) -> Outcome:
        """See `Store.run`."""
        try:
            return await drive_async(run(entry, at=at, until=until, retry=retry), self._performing(effect))
        except EffectFailed as e:
            error = e.error
        raise error

    async def run_all(
        self, entries: Sequence[Entry], effect: AsyncEffect, *, at: datetime, until: datetime, retry: Retry
    ) -> list[Outcome]:
        """See `Store.run_all`."""
        program = run_all(entries, at=at, until=until, retry=retry)
        return await drive_async(program, self._performing(effect))

    async def take(self, *, at: datetime, until: datetime, limit: int) -> list[Taken]:
        """See `Store.take`."""
        return _taken(await self._run(self._calls.take(at, until, limit)))

    async def resume(self, taken: Sequence[Taken], effect: AsyncEffect, *, at: datetime, retry: Retry) -> list[Outcome]:
        """See `Store.resume`."""
        return await drive_async(resume(taken, at=at, retry=retry), self._performing(effect))

    async def failed(self, *, limit: int) -> list[Failure]:
        """See `Store.failed`."""
        return _failures(await self._run(self._calls.failed(limit)))

    async def release(self, key: bytes, *, at: datetime) -> bool:
        """See `Store.release`."""
        return bool(await self._run(self._calls.release(key, at)))

    async def purge(self, lifetimes: Lifetimes, *, limit: int) -> int:
        """See `Store.purge`."""
        return int(await self._run(self._calls.purge(lifetimes, limit)))

    def _performing(self, effect: AsyncEffect) -> Callable[[Step], Awaitable[object]]:
        async def perform(step: Step) -> object:
            if not isinstance(step, Entry):
                return _outcome(await self._run(self._calls.step(step)))
            try:
                await have_effect_async(effect, step, None)
            except Exception as e:
                raise EffectFailed(e) from e
            return None

        return perform

    async def _run(self, call: _Call) -> Any:
        with _told():
            return await self._scripts[call.script](keys=call.keys, args=call.args)


def _require_bytes(client: Any) -> None:
    if client.get_encoder().decode_responses:
        raise ConfigurationError(
            "inbox.redis", "the inbox needs a Redis client with decode_responses=False: bodies are bytes"
        )


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except redis.RedisError as e:
        raise InboxError("inbox.unavailable", f"the inbox's Redis fails: {type(e).__name__}") from e


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


def _outcome(answer: Any) -> Any:
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


def _taken(answer: Sequence[Any]) -> list[Taken]:
    with _told_of_damage():
        rows = [(bool(lapsed), _row(flat)) for lapsed, flat in answer]
        return [Taken(_entry(row), int(row["attempts"]), lapsed) for lapsed, row in rows]


def _failures(answer: Sequence[Sequence[bytes]]) -> list[Failure]:
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
