"""The inbox in Redis: quick and shared by hosts, with a weaker promise.

A handler's writes cannot be part of what Redis does, so claim, effect and done mark are three steps. A process that dies after the
effect and before the mark leaves a claim; when its lease ends, the effect happens again. And Redis keeps only what its own
persistence keeps: without `appendfsync always` an acknowledged callback can be gone after a crash of the server, and with a
`maxmemory-policy` other than `noeviction` at any time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from tppkit._extras import missing_extra
from tppkit.callbacks.stores import redis_scripts as scripts
from tppkit.callbacks.stores.claims import Step, resume, run, run_all
from tppkit.callbacks.stores.driving import EffectFailed, drive, drive_async, have_effect, have_effect_async
from tppkit.callbacks.stores.entry import Entry, Failure, Lifetimes, Outcome, Promise, Taken
from tppkit.callbacks.stores.redis_calls import Call, Calls, failures_of, outcome_of, taken_of
from tppkit.callbacks.stores.store import AsyncEffect, Effect, Retry
from tppkit.errors import ConfigurationError, InboxError

try:
    import redis
    import redis.asyncio
except ImportError as e:
    raise missing_extra("redis", e) from e

_SCRIPTS = (
    "ADD", "CLAIM", "BEGIN", "FINISH", "FAIL", "TAKE", "RENEW", "FAILED", "RELEASE", "DISCARD", "DISCARD_FAILED",
    "PURGE",
)  # fmt: skip


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
        self._calls = Calls(prefix)
        self._scripts = {name: client.register_script(getattr(scripts, name)) for name in _SCRIPTS}

    def add(self, entries: Sequence[Entry]) -> list[Outcome]:
        """See `Store.add`."""
        return [outcome_of(self._run(self._calls.add(entry))) for entry in entries]

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
        return taken_of(self._run(self._calls.take(at, until, limit)))

    def renew(self, taken: Sequence[Taken], *, until: datetime) -> None:
        """See `Renewing.renew`."""
        self._run(self._calls.renew(taken, until))

    def resume(self, taken: Sequence[Taken], effect: Effect, *, at: datetime, retry: Retry) -> list[Outcome]:
        """See `Store.resume`."""
        return drive(resume(taken, at=at, retry=retry), self._performing(effect))

    def failed(self, *, limit: int, after: Failure | None = None) -> list[Failure]:
        """See `Store.failed`."""
        return failures_of(self._run(self._calls.failed(limit, after)))

    def release(self, key: bytes, *, at: datetime) -> bool:
        """See `Store.release`."""
        return bool(self._run(self._calls.release(key, at)))

    def discard(self, failure: Failure, *, at: datetime) -> bool:
        """See `Store.discard`."""
        return bool(self._run(self._calls.discard(failure, at)))

    def discard_failed(self, *, before: datetime, at: datetime, limit: int) -> int:
        """See `Store.discard_failed`."""
        return int(self._run(self._calls.discard_failed(before, at, limit)))

    def purge(self, lifetimes: Lifetimes, *, limit: int) -> int:
        """See `Store.purge`."""
        return int(self._run(self._calls.purge(lifetimes, limit)))

    def _performing(self, effect: Effect) -> Callable[[Step], object]:
        def perform(step: Step) -> object:
            if not isinstance(step, Entry):
                return outcome_of(self._run(self._calls.step(step)))
            try:
                have_effect(effect, step, None)
            except Exception as e:
                raise EffectFailed(e) from e
            return None

        return perform

    def _run(self, call: Call) -> Any:
        with _told():
            return self._scripts[call.script](keys=call.keys, args=call.args)


class AsyncRedisStore:
    """The same with `redis.asyncio.Redis`."""

    promise = Promise.AT_LEAST_ONCE

    def __init__(self, client: redis.asyncio.Redis, *, prefix: str = "{tppkit-inbox}:") -> None:
        _require_bytes(client)
        self._calls = Calls(prefix)
        self._scripts = {name: client.register_script(getattr(scripts, name)) for name in _SCRIPTS}

    async def add(self, entries: Sequence[Entry]) -> list[Outcome]:
        """See `Store.add`."""
        return [outcome_of(await self._run(self._calls.add(entry))) for entry in entries]

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
        return taken_of(await self._run(self._calls.take(at, until, limit)))

    async def renew(self, taken: Sequence[Taken], *, until: datetime) -> None:
        """See `Renewing.renew`."""
        await self._run(self._calls.renew(taken, until))

    async def resume(self, taken: Sequence[Taken], effect: AsyncEffect, *, at: datetime, retry: Retry) -> list[Outcome]:
        """See `Store.resume`."""
        return await drive_async(resume(taken, at=at, retry=retry), self._performing(effect))

    async def failed(self, *, limit: int, after: Failure | None = None) -> list[Failure]:
        """See `Store.failed`."""
        return failures_of(await self._run(self._calls.failed(limit, after)))

    async def release(self, key: bytes, *, at: datetime) -> bool:
        """See `Store.release`."""
        return bool(await self._run(self._calls.release(key, at)))

    async def discard(self, failure: Failure, *, at: datetime) -> bool:
        """See `Store.discard`."""
        return bool(await self._run(self._calls.discard(failure, at)))

    async def discard_failed(self, *, before: datetime, at: datetime, limit: int) -> int:
        """See `Store.discard_failed`."""
        return int(await self._run(self._calls.discard_failed(before, at, limit)))

    async def purge(self, lifetimes: Lifetimes, *, limit: int) -> int:
        """See `Store.purge`."""
        return int(await self._run(self._calls.purge(lifetimes, limit)))

    def _performing(self, effect: AsyncEffect) -> Callable[[Step], Awaitable[object]]:
        async def perform(step: Step) -> object:
            if not isinstance(step, Entry):
                return outcome_of(await self._run(self._calls.step(step)))
            try:
                await have_effect_async(effect, step, None)
            except Exception as e:
                raise EffectFailed(e) from e
            return None

        return perform

    async def _run(self, call: Call) -> Any:
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
