"""The function that gates, clients, inboxes, outboxes and reloaders call for metrics."""

from __future__ import annotations

import re
from typing import Protocol

from tppkit._encoding import shown
from tppkit.errors import ConfigurationError

__all__ = ["Count"]

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The upper bounds of histograms, in seconds: a gate takes about one millisecond, a call to a bank up to its time limit."""

_NAME = re.compile("[a-z][a-z0-9_]{0,63}")


class Count(Protocol):
    """Counts what one gate, client, worker, outbox or reloader did: a plain function, passed as `count=`.

    It gets no data: outcome and code are from fixed sets, so both can be labels. It may be called from several threads at a time, and
    on the event loop, so it must not block. An exception that it raises is logged, and changes nothing else.
    `tppkit.web.prometheus` and `tppkit.web.opentelemetry` have one each.

    Example:
        def count(outcome: str, code: str, seconds: float) -> None:
            print(outcome, code, seconds)
    """

    def __call__(self, outcome: str, code: str, seconds: float, /) -> object:
        """Count one request, call, entry or attempt.

        Args:
            outcome: what became of it; each taker of `count=` lists its outcomes.
            code: the code of the error, or the class of an error that has none; empty if there is none.
            seconds: how long it took.
        """


def require_name(name: str) -> str:
    """Return a name that is well-formed for every metrics system.

    Raises:
        ConfigurationError: `metrics.name`.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            "metrics.name", f"{shown(name)} is not a name of 1 to 64 lower-case letters, digits and _"
        )
    return name
