"""Errors whose frames have lost their local variables, because tools that report errors send these: keys, passwords and bodies."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from tppkit.errors import TppkitError

_P = ParamSpec("_P")
_T = TypeVar("_T")


def without_locals(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a function from whose errors no reporter reads a local variable of its frames, or of those that it called.

    This covers frames of libraries and of functions of the caller that ran below it. Only for functions whose errors no other task
    or thread holds: a frame that is suspended would end. An error of ours also loses an error that it only happened to follow.
    """

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        outside = sys.exception()
        try:
            return function(*args, **kwargs)
        except BaseException as e:
            if isinstance(e, TppkitError) and e is not outside:
                e.__context__ = outside
            clear_locals(e, outside)
            raise
        finally:
            del args, kwargs, outside

    return call


def clear_locals(error: BaseException, outside: BaseException | None = None) -> None:
    """Remove the local variables of the finished frames of an error and of the errors that a traceback shows with it.

    Args:
        error: the error.
        outside: the error that the caller was handling; it and its causes keep theirs.
    """
    left: list[BaseException | None] = [error]
    done = {id(outside)}
    while left:
        if (one := left.pop()) is not None and id(one) not in done:
            done.add(id(one))
            traceback.clear_frames(one.__traceback__)
            left += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
