"""How the SQL stores have the effects of several callbacks: in one transaction, or each in one of its own where that fails."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from tppkit.callbacks.stores.driving import Called, EffectFailed, TransactionEnded, is_of_several
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
        effect: of the entries that the program yields.
        shared: it may share a commit with others, where the store does that.
    """

    program: Program[list[Outcome]]
    effect: Effect
    shared: bool


class Note(NamedTuple):
    """A transaction of its own for what is kept behind a failure.

    Attributes:
        program: gives whether a row was there for it; where the store fails at it the note gives False.
    """

    program: Program[bool]


Batch = Generator[Transaction | Note, Any, list[Outcome]]


def run_all(programs: Programs, entries: Sequence[Entry], effect: Effect, *, at: datetime, retry: Retry) -> Batch:
    """See `Store.run_all`."""
    return _in_parts(
        entries,
        effect,
        program=lambda some: programs.run_all(some, at=at, retry=retry),
        failed=lambda one, reason: programs.record_failure(one, at=at, reason=reason, retry=retry),
        ended=lambda _, e: programs.record_failure(e.entry, at=at, reason=e.reason, retry=retry),
    )


def resume(programs: Programs, taken: Sequence[Taken], effect: Effect, *, at: datetime, retry: Retry) -> Batch:
    """See `Store.resume`."""
    return _in_parts(
        taken,
        effect,
        program=lambda some: programs.resume(some, at=at, retry=retry),
        failed=lambda one, reason: programs.fail(one, reason=reason, retry=retry),
        ended=lambda left, e: programs.leave(left, e, at=at, retry=retry),
        unavailable=lambda left: programs.put_back(left, at=at, retry=retry),
    )


class _Part(NamedTuple):
    items: Sequence[Any]
    effect: Effect
    is_last: bool = False  # there is no other way to try them


def _in_parts(
    items: Sequence[S],
    effect: Effect,
    *,
    program: Callable[[Sequence[S]], Program[list[Outcome]]],
    failed: Callable[[S, str], Program[bool]],
    ended: Callable[[Sequence[S], TransactionEnded], Program[bool]],
    unavailable: Callable[[Sequence[S]], Program[bool]] | None = None,
) -> Batch:
    """Have the effects of all together, and where commit or store fail behind one of them, nobody knows which, of each alone.

    One behind whose handler the store fails while it is alone has failed: nothing else may ever tell that it is its handler that costs
    the store its connection.

    Args:
        items: what is to be done.
        effect: of one.
        program: makes the program of some.
        failed: makes the note that one failed, with the reason; there is no row for it where the commit was made and only not answered.
        ended: makes the note for those that are left where a handler ended the transaction.
        unavailable: the same where the store failed.

    Returns:
        Fewer outcomes than items, where the store failed behind some.
    """
    outcomes, parts = list[Outcome](), [_Part(items, effect)]
    first: Exception | None = None  # by which all together failed
    error: Exception | None = None
    while parts:
        part = parts.pop(0)
        called = Called(part.effect)
        try:
            outcomes += yield Transaction(program(part.items), called, shared=first is None)
        except TransactionEnded as e:
            yield Note(ended(items[len(outcomes) :], e))
            outcomes, error = [], e.error
            break
        except (EffectFailed, InboxError) as e:
            failure = e if isinstance(e, EffectFailed) else EffectFailed(e)
            is_own = len(part.items) == 1 and not is_of_several(e)
            if not is_own and called.was_called:
                first, parts = e, [_Part([one], effect) for one in part.items]
            elif isinstance(e, EffectFailed) and not part.is_last:  # by the commit
                parts.insert(0, _Part(part.items, raising(failure.error), is_last=True))
            elif called.was_called and (yield Note(failed(part.items[0], failure.reason))):
                outcomes.append(Outcome.FAILED)
            else:
                if unavailable is not None:
                    yield Note(unavailable(items[len(outcomes) :]))
                error = failure.error
                break
    if isinstance(first, InboxError) and set(outcomes) == {Outcome.BUSY}:
        raise first  # nobody has them: only the answer to the commit was lost
    if error is not None and not outcomes:
        raise error
    return outcomes
