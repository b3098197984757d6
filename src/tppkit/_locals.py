"""Errors whose frames have lost their local variables, because tools that report errors send these: keys, passwords and bodies."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from tppkit.errors import TppkitError

_P = ParamSpec("_P")
_T = TypeVar("_T")


def without_locals(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a function from whose errors no reporter reads a local variable of its frames, or of those that it called.

    This covers frames of libraries and of functions of the caller that ran below it. Only for functions whose errors no other task
    or thread holds. Causes that are older than the call keep theirs. An error of ours also loses an error that it only happened to follow.
    """

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        outside = sys.exception()
        try:
            return function(*args, **kwargs)
        except BaseException as e:
            old = list(with_causes(outside))
            if isinstance(e, TppkitError) and e is not outside:
                e.__context__ = None if any(e is one for one in old) else outside  # a cycle
            _clear_locals(e, old)
            raise
        finally:
            del args, kwargs, outside
            old = []

    return call


def with_causes(*errors: BaseException | None) -> Iterator[BaseException]:
    """Yield errors, their causes and the members of groups, each once: functions of the caller may raise errors in a cycle."""
    left, seen = [*errors], set[int]()
    while left:
        if (one := left.pop(0)) is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            left += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]


def _clear_locals(error: BaseException, old: Iterable[BaseException]) -> None:
    """Clear the frames of an error, and of its causes that were raised in or below one of these frames."""
    frames, kept = {frame for frame, _ in traceback.walk_tb(error.__traceback__)}, {id(one) for one in old}
    for one in with_causes(error):
        own = [frame for frame, _ in traceback.walk_tb(one.__traceback__)]
        if own and own[0] in frames and (one is error or id(one) not in kept):
            frames.update(own)
            traceback.clear_frames(one.__traceback__)
