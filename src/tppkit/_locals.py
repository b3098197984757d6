"""Errors whose frames have lost their local variables, because tools that report errors send these: keys, passwords and bodies."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from functools import wraps
from opcode import opmap
from typing import ParamSpec, TypeVar

from tppkit.errors import TppkitError

_P = ParamSpec("_P")
_T = TypeVar("_T")


def without_locals(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a function from whose errors no reporter reads a local variable of its frames, or of those that it called.

    This covers frames of libraries and of functions of the caller that ran below it, also in causes, except of the error that the caller
    was handling and of suspended generators. An error of ours also loses an error that it only happened to follow.
    """

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        outside = sys.exception()
        try:
            return function(*args, **kwargs)
        except BaseException as e:
            kept = {id(one) for one in with_causes(outside)}
            if isinstance(e, TppkitError) and e is not outside:
                e.__context__ = None if id(e) in kept else outside  # a cycle
            _clear_locals(e, kept)
            raise
        finally:
            del args, kwargs, outside

    return call


def with_causes(*errors: BaseException | None) -> Iterator[BaseException]:
    """Yield errors, their causes and the members of groups, each once: functions of the caller may raise errors in a cycle."""
    left, seen = [*errors], set[int]()
    while left:
        if (one := left.pop(0)) is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            left += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]


def _clear_locals(error: BaseException, kept: Set[int]) -> None:
    """Clear the frames of an error and of its causes, except those with these ids."""
    for one in with_causes(error):
        for frame, _ in traceback.walk_tb(one.__traceback__) if one is error or id(one) not in kept else ():
            # Clearing a suspended generator would end it, before Python 3.13.
            if frame.f_code.co_code[frame.f_lasti] != opmap["YIELD_VALUE"]:
                with suppress(RuntimeError):  # it still runs
                    frame.clear()
