"""The function that gates, clients, inboxes, outboxes and reloaders call for metrics."""

from __future__ import annotations

from typing import Protocol


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
