"""The parts of a query or form, in other orders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import permutations

PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_PERMUTED = 5  # parts; of more, only the usual orders are tried
_MAX_PARTS = 64


def other_orders(query: str) -> Iterator[str]:
    """The parts between ampersands by name, in reverse, and where they are few in every order."""
    parts = query.split("&")
    if 1 < len(parts) <= _MAX_PARTS:
        yield "&".join(sorted(parts))
        yield "&".join(sorted(parts, key=lambda part: part.partition("=")[0]))
        yield "&".join(reversed(parts))
        if len(parts) <= _PERMUTED:
            yield from ("&".join(order) for order in permutations(parts))
