"""What tools show that report an error with the local variables of its frames."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from weakref import ProxyTypes

_TESTS = str(Path(__file__).parent)
_MAX_DEPTH = 5


def reported(error: BaseException | None) -> Iterator[str]:
    """An error and those that a traceback shows before it, with the local variables of all frames but those of tests.

    Of tuples with a representation of their own it has the items all the same, as Sentry has.
    """
    while error is not None:
        yield f"{error} {error!r}"
        for frame, _ in traceback.walk_tb(error.__traceback__):
            code = frame.f_code
            for name, value in frame.f_locals.items() if not code.co_filename.startswith(_TESTS) else ():
                yield from (f"{code.co_qualname} {name} = {one}" for one in _shown(value))
        for one in getattr(error, "exceptions", ()):  # of a group
            yield from reported(one)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _shown(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, ProxyTypes):  # what it stands for may be gone
        return
    if not isinstance(value, Mapping | list | tuple) or hasattr(value, "__sentry_repr__") or depth == _MAX_DEPTH:
        yield repr(value)
        return
    for one in value.values() if isinstance(value, Mapping) else value:
        yield from _shown(one, depth + 1)
