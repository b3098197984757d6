"""What became of each request, for metrics."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple, TypeVar

from tppkit.errors import ConfigurationError, TppkitError

_LOG = logging.getLogger("tppkit.web")
T = TypeVar("T")


class RequestResult(StrEnum):
    """What was done with a request.

    Attributes:
        UNLOOKED: nothing was required of it, and it went to the application.
        ACCEPTED: it was let through to its handler.
        REPEATED: so it was, but its handler may have been asked before.
        REPLAYED: it was answered with the answer that was kept of its first time.
        REFUSED: it was refused.
    """

    UNLOOKED = "unlooked"
    ACCEPTED = "accepted"
    REPEATED = "repeated"
    REPLAYED = "replayed"
    REFUSED = "refused"


class RequestOutcome(NamedTuple):
    """What became of a request; nothing that stood in it.

    Attributes:
        result: what was done.
        status: the HTTP status that was answered; None where the application answers.
        code: why it was refused, one of `tppkit.codes`; None where it was not, or for an error that is none of ours.
    """

    result: RequestResult
    status: int | None = None
    code: str | None = None

    @classmethod
    def refused(cls, error: Exception, status: int) -> RequestOutcome:
        """That of a request that was refused for an error."""
        return cls(RequestResult.REFUSED, status, error.code if isinstance(error, TppkitError) else None)


UNLOOKED = RequestOutcome(RequestResult.UNLOOKED)
OnOutcome = Callable[[RequestOutcome], object]


def call_sink(sink: Callable[[T], object], told: T) -> None:
    """Tell a sink; what it raises is logged, and changes nothing for the request; so is a coroutine, which nobody would await."""
    try:
        given = sink(told)
        if inspect.iscoroutine(given):
            given.close()
            raise ConfigurationError("web.setting", "a sink gave a coroutine, which nobody awaits")
    except Exception:  # noqa: BLE001  # the application's own function
        _LOG.exception("a sink of the seal middleware failed")
