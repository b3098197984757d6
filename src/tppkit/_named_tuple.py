"""Named tuples on hot paths, where the call around their constructor can be measured."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

new_tuple = tuple.__new__  # what a named tuple's own constructor calls
"""`new_tuple(Point, (1, 2))` is `Point(1, 2)`; the number of fields is not checked."""


def repr_without(value: Any, hidden: AbstractSet[str]) -> str:
    """A named tuple for logs, without the fields that do not belong there."""
    shown = (f"{name}={field!r}" for name, field in zip(value._fields, value, strict=True) if name not in hidden)
    return f"{type(value).__name__}({', '.join(shown)})"
