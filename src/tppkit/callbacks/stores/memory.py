"""The inbox in memory: for tests, and for effects that may be lost with the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import heapify, heappop, heappush, nsmallest
from itertools import islice
from typing import NamedTuple, assert_never

from tppkit.callbacks.stores.claims import Begin, Claim, Fail, Finish, Step, resume, run, run_all
from tppkit.callbacks.stores.driving import EffectFailed, drive, have_effect
from tppkit.callbacks.stores.entry import Entry, Failure, Lifetimes, Order, Outcome, Promise, State, Taken
from tppkit.callbacks.stores.store import LEASE_ENDED, Effect, Retry


@dataclass(slots=True)
class _Row:
    entry: Entry
    state: State
    attempts: int
    due_at: datetime | None
    reason: str = ""


class _Pending(NamedTuple):
    """A version whose callback is neither done nor failed, and that callback's key."""

    version: int
    setter: bytes


@dataclass(slots=True)
class _Version:
    settled: Order | None
    pending: _Pending | None
    set_at: datetime


class MemoryStore:
    """A store for the threads of one process. Handlers get None for a connection."""

    promise = Promise.UNTIL_EXIT

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[bytes, _Row] = {}
        self._versions: dict[bytes, _Version] = {}
        # (time, key) and (due, received, key), earliest first; an item that its row or version no longer bears out is passed over.
        self._due: list[tuple[datetime, datetime, bytes]] = []
        self._done: list[tuple[datetime, bytes]] = []
        self._set: list[tuple[datetime, bytes]] = []

    def add(self, entries: Sequence[Entry]) -> list[Outcome]:
        """See `Store.add`."""
        with self._lock:
            return [self._add(entry) for entry in entries]

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
        taken: list[Taken] = []
        with self._lock:
            while self._due and self._due[0][0] <= at and len(taken) < limit:
                due_at, _, key = self._due[0]
                row = self._rows.get(key)
                current = row is not None and row.due_at == due_at
                lapsed = current and row is not None and row.state is State.CLAIMED
                if lapsed and taken:
                    break
                heappop(self._due)
                if current and row is not None:
                    self._claim_row(row, until)
                    taken.append(Taken(row.entry, row.attempts, lapsed))
                if lapsed:
                    break
        return taken

    def renew(self, taken: Sequence[Taken], *, until: datetime) -> None:
        """See `Renewing.renew`."""
        with self._lock:
            for one in taken:
                if row := self._held(one):
                    self._set_due(row, until)

    def resume(self, taken: Sequence[Taken], effect: Effect, *, at: datetime, retry: Retry) -> list[Outcome]:
        """See `Store.resume`."""
        return drive(resume(taken, at=at, retry=retry), self._performing(effect))

    def failed(self, *, limit: int, after: Failure | None = None) -> list[Failure]:
        """See `Store.failed`."""
        with self._lock:
            rows = [row for row in self._rows.values() if row.state is State.FAILED]
            failures = [Failure(row.entry, row.attempts, row.reason, row.due_at) for row in rows]
        behind = (one for one in failures if after is None or one.place > after.place)
        return nsmallest(limit, behind, key=lambda one: one.place)

    def release(self, key: bytes, *, at: datetime) -> bool:
        """See `Store.release`."""
        with self._lock:
            row = self._rows.get(key)
            if row is None or row.state is not State.FAILED:
                return False
            row.state = State.WAITING
            self._set_due(row, at)
            return True

    def discard(self, failure: Failure, *, at: datetime) -> bool:
        """See `Store.discard`."""
        with self._lock:
            row = self._rows.get(failure.entry.key)
            if row is None or row.state is not State.FAILED or row.attempts != failure.attempts:
                return False
            self._finish(row, at)
            return True

    def discard_failed(self, *, before: datetime, at: datetime, limit: int) -> int:
        """See `Store.discard_failed`."""
        with self._lock:
            failed = (row for row in self._rows.values() if row.state is State.FAILED and row.due_at is None)
            rows = list(islice((row for row in failed if row.entry.received_at < before), limit))
            for row in rows:
                self._finish(row, at)
        return len(rows)

    def purge(self, lifetimes: Lifetimes, *, limit: int) -> int:
        """See `Store.purge`."""
        count = 0
        with self._lock:
            self._drop_past_claims()
            for _ in range(limit):
                if not self._done or self._done[0][0] >= lifetimes.done:
                    break
                del self._rows[heappop(self._done)[1]]
                count += 1
            return count + self._purge_versions(lifetimes.versions, limit)

    def _purge_versions(self, before: datetime, limit: int) -> int:
        count = 0
        while count < limit and self._set and self._set[0][0] < before:
            set_at, subject = heappop(self._set)
            known = self._versions.get(subject)
            if known is not None and known.set_at == set_at:  # else it was set again, or is gone
                del self._versions[subject]
                count += 1
        return count

    def _drop_past_claims(self) -> None:
        # Every claim leaves an item that only a worker would come upon.
        if len(self._due) > 2 * len(self._rows) + 1000:
            rows = self._rows.values()
            self._due = [(row.due_at, row.entry.received_at, row.entry.key) for row in rows if row.due_at is not None]
            heapify(self._due)

    def _performing(self, effect: Effect) -> Callable[[Step], object]:
        def perform(step: Step) -> object:
            if isinstance(step, Entry):
                try:
                    have_effect(effect, step, None)
                except Exception as e:
                    raise EffectFailed(e) from e
                return None
            with self._lock:
                return self._step(step)

        return perform

    def _step(self, step: Claim | Begin | Finish | Fail) -> int | Outcome | None:
        match step:
            case Claim(entry, at, until):
                return self._claim(entry, at, until)
            case Begin(taken, at):
                return self._begin(taken, at)
            case Finish(taken, at):
                row = self._held(taken)
                if row is None:
                    return Outcome.BUSY
                self._finish(row, at)
                self._settle(taken.entry, applied=True)
                return Outcome.APPLIED
            case Fail(taken, reason, due_at):
                if row := self._held(taken):
                    row.state, row.reason = State.FAILED, reason
                    row.attempts -= reason == LEASE_ENDED  # this was no attempt
                    self._set_due(row, due_at)
                    self._settle(taken.entry, applied=False)
            case _:
                assert_never(step)
        return None

    def _add(self, entry: Entry) -> Outcome:
        row = self._rows.get(entry.key)
        if row is not None:
            return Outcome.REPEATED if row.entry.digest == entry.digest else Outcome.CONFLICT
        row = self._rows[entry.key] = _Row(entry, State.WAITING, 0, None)
        self._set_due(row, entry.received_at)
        return Outcome.STORED

    def _claim(self, entry: Entry, at: datetime, until: datetime) -> int | Outcome:
        row = self._rows.setdefault(entry.key, _Row(entry, State.WAITING, 0, None))
        if row.entry.digest != entry.digest:
            return Outcome.CONFLICT
        if row.state is State.DONE:
            return Outcome.REPEATED
        if row.state is State.CLAIMED and row.due_at is not None and row.due_at > at:
            return Outcome.BUSY
        self._claim_row(row, until)
        return row.attempts

    def _begin(self, taken: Taken, at: datetime) -> Outcome:
        row = self._held(taken)
        if row is None:
            return Outcome.BUSY
        order = taken.entry.order
        if order is None:
            return Outcome.APPLIED
        known = self._versions.setdefault(order.subject, _Version(None, None, at))
        if known.settled is not None and order.version <= known.settled.version:
            self._finish(row, at)
            return Outcome.VERSION_CONFLICT if order.contradicts(*known.settled[1:]) else Outcome.STALE
        if self._is_hindered(known, _Pending(order.version, taken.entry.key), at):
            row.state, row.attempts = State.WAITING, row.attempts - 1  # this was no attempt
            return Outcome.BUSY
        known.pending, known.set_at = _Pending(order.version, taken.entry.key), at
        heappush(self._set, (at, order.subject))
        return Outcome.APPLIED

    def _is_hindered(self, known: _Version, new: _Pending, at: datetime) -> bool:
        held = known.pending
        if held is None or held.setter == new.setter or new.version > held.version:
            return False
        row = self._rows[held.setter]
        # Whoever had it may have died behind the effect: the same version may have it again, an older one must not follow it.
        return new.version < held.version or (row.due_at is not None and row.due_at > at)

    def _settle(self, entry: Entry, *, applied: bool) -> None:
        known = self._versions.get(entry.order.subject) if entry.order else None
        if known is None or entry.order is None:
            return
        if applied and (known.settled is None or known.settled.version < entry.order.version):
            known.settled = entry.order
        if known.pending is not None and known.pending.setter == entry.key:
            known.pending = None
        if known.settled is None and known.pending is None:
            del self._versions[entry.order.subject]

    def _held(self, taken: Taken) -> _Row | None:
        row = self._rows.get(taken.entry.key)
        held = row is not None and row.state is State.CLAIMED and row.attempts == taken.attempt
        return row if held else None

    def _claim_row(self, row: _Row, until: datetime) -> None:
        row.state, row.attempts = State.CLAIMED, row.attempts + 1
        self._set_due(row, until)

    def _finish(self, row: _Row, at: datetime) -> None:
        row.state, row.due_at, row.entry = State.DONE, None, row.entry._replace(url="", body=b"", signature="")
        heappush(self._done, (at, row.entry.key))

    def _set_due(self, row: _Row, due_at: datetime | None) -> None:
        row.due_at = due_at
        if due_at is not None:
            heappush(self._due, (due_at, row.entry.received_at, row.entry.key))
