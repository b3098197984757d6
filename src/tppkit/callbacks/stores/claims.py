"""How stores without shared transactions work: claim with a lease, effect, done mark, each a step of its own."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from tppkit.callbacks.stores.driving import EffectFailed
from tppkit.callbacks.stores.entry import Entry, Outcome, Taken
from tppkit.callbacks.stores.store import LEASE_ENDED, Retry, is_spent
from tppkit.errors import InboxError


class Claim(NamedTuple):
    """Claim a delivered entry until a time; gives the attempt's number, or why not (REPEATED, BUSY, CONFLICT)."""

    entry: Entry
    at: datetime
    until: datetime


class Begin(NamedTuple):
    """See that the claim is still held and the version is new: APPLIED, STALE or VERSION_CONFLICT (then it is done), or BUSY.

    While another callback that set this version or a newer one is neither done nor failed, it is BUSY too and waits.
    """

    taken: Taken
    at: datetime


class Finish(NamedTuple):
    """Mark done what this attempt still holds: APPLIED; BUSY when somebody overtook it, who has the effect again."""

    taken: Taken
    at: datetime


class Fail(NamedTuple):
    """Mark failed what this attempt still holds."""

    taken: Taken
    reason: str
    due_at: datetime | None


Step = Claim | Begin | Finish | Fail | Entry


def run(entry: Entry, *, at: datetime, until: datetime, retry: Retry) -> Generator[Step, Any, Outcome]:
    """See `Store.run`; raises EffectFailed."""
    claimed: int | Outcome = yield Claim(entry, at, until)
    if isinstance(claimed, Outcome):
        return claimed
    outcome = yield from _have_effect(Taken(entry, claimed), at, retry)
    return outcome


def run_all(
    entries: Sequence[Entry], *, at: datetime, until: datetime, retry: Retry
) -> Generator[Step, Any, list[Outcome]]:
    """See `Store.run_all`."""
    outcomes = []
    for entry in entries:
        try:
            outcome = yield from run(entry, at=at, until=until, retry=retry)
        except EffectFailed:
            outcome = Outcome.FAILED
        outcomes.append(outcome)
    return outcomes


def resume(taken: Sequence[Taken], *, at: datetime, retry: Retry) -> Generator[Step, Any, list[Outcome]]:
    """See `Store.resume`."""
    outcomes = []
    for one in taken:
        try:
            outcome = yield from _have_effect(one, at, retry)
        except EffectFailed:
            outcome = Outcome.FAILED
        outcomes.append(outcome)
    return outcomes


def _have_effect(taken: Taken, at: datetime, retry: Retry) -> Generator[Step, Any, Outcome]:
    if is_spent(taken, retry):
        yield Fail(taken, LEASE_ENDED, None)
        return Outcome.FAILED
    outcome: Outcome = yield Begin(taken, at)
    if outcome is Outcome.APPLIED:
        try:
            yield taken.entry
        except EffectFailed as e:
            with suppress(InboxError):  # the handler's own error says more
                yield Fail(taken, e.reason, retry(taken.attempt))
            raise
        outcome = yield Finish(taken, at)
    return outcome
