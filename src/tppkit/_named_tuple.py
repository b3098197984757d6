"""Named tuples on hot paths, where the call around their constructor can be measured."""

from __future__ import annotations

new_tuple = tuple.__new__  # what a named tuple's own constructor calls
"""`new_tuple(Point, (1, 2))` is `Point(1, 2)`; the number of fields is not checked."""
