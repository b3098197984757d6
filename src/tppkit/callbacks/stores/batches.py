"""How the SQL stores have the effects of several callbacks: in one transaction, or each in one of its own where that fails."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from tppkit.callbacks.stores.driving import Called, EffectFailed, TransactionEnded
from tppkit.callbacks.stores.entry import Entry, Outcome, Taken
from tppkit.callbacks.stores.programs import Program, Programs
from tppkit.callbacks.stores.sessions import raising
from tppkit.callbacks.stores.store import Retry
from tppkit.errors import InboxError

S = TypeVar("S")
Effect = Callable[[Entry, Any], Any]  # plain, or to be awaited


class Transaction(NamedTuple):
    """One transaction, which gives what its program gives.

    Attributes:
        program: what is done in it.
        effect: of the entries that the program yields; None: it yields none, and where the store fails nobody is told.
    """

    program: Program[Any]
    effect: Effect | None = None


Batch = Generator[Transaction, Any, list[Outcome]]


def run_all(programs: Programs, entries: Sequence[Entry], effect: Effect, *, at: datetime, retry: Retry) -> Batch:
    """See `Store.run_all`."""
    return _in_parts(
        entries,
        effect,
        program=lambda some: programs.run_all(some, at=at, retry=retry),
        ended=lambda _, e: programs.record_failure(e.entry, at=at, reason=e.reason, retry=retry),
        unavailable=lambda _, reason: None,
    )


def resume(programs: Programs, taken: Sequence[Taken], effect: Effect, *, at: datetime, retry: Retry) -> Batch:
    """See `Store.resume`."""
    return _in_parts(
        taken,
        effect,
        program=lambda some: programs.resume(some, at=at, retry=retry),
        ended=lambda left, e: programs.leave(left, e, at=at, retry=retry),
        unavailable=lambda left, reason: programs.put_back(left, at=at, retry=retry, reason=reason),
    )


def _in_parts(
    items: Sequence[S],
    effect: Effect,
    *,
    program: Callable[[Sequence[S]], Program[list[Outcome]]],
    ended: Callable[[Sequence[S], TransactionEnded], Program[None]],
    unavailable: Callable[[Sequence[S], str | None], Program[None] | None],
) -> Batch:
    """Have the effects of all together, and where commit or store fail behind one of them, nobody knows which, of each alone.

    Args:
        items: what is to be done.
        effect: of one.
        program: makes the program of some.
        ended: makes what is kept of the items that are left where a handler ended the transaction.
        unavailable: the same where the store failed; with a reason where it did behind the handler of the first of them, which was
            alone.

    Returns:
        Fewer outcomes than items, where the store failed behind some.
    """
    outcomes, parts = list[Outcome](), [items]
    while parts:
        part, called = parts.pop(0), Called(effect)
        try:
            outcomes += yield from _alone(program, part, called) if len(part) == 1 else _together(program, part, called)
        except TransactionEnded as e:
            yield Transaction(ended(items[len(outcomes) :], e))
            failed: Exception = e.error
            break
        except (EffectFailed, InboxError) as e:
            if len(part) > 1 and called.was_called:
                parts = [[one] for one in part]
                continue
            if kept := unavailable(items[len(outcomes) :], called.reason(e)):
                yield Transaction(kept)
            if outcomes:
                return outcomes
            failed = e.error if isinstance(e, EffectFailed) else e
            break
    else:
        return outcomes
    raise failed


def _together(program: Callable[[Sequence[S]], Program[list[Outcome]]], some: Sequence[S], effect: Effect) -> Batch:
    outcomes: list[Outcome] = yield Transaction(program(some), effect)
    return outcomes


def _alone(program: Callable[[Sequence[S]], Program[list[Outcome]]], one: Sequence[S], effect: Effect) -> Batch:
    try:
        return (yield from _together(program, one, effect))
    except TransactionEnded:
        raise
    except EffectFailed as e:  # by the commit
        error = e.error
    return (yield from _together(program, one, raising(error)))
