"""How a refused callback is told: a bare status to the sender, everything to the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from tppkit.callbacks import ReceivedCallback
from tppkit.errors import CallbackRejected, FormatError, TppkitError, TransportError
from tppkit.web.message import Answer

_LOG = logging.getLogger("tppkit.web")


def make_answer(status: int, body: bytes = b"") -> Answer:
    """An answer that nobody keeps, its body JSON or empty."""
    fixed = (("content-length", str(len(body))), ("cache-control", "no-store"))
    return Answer(status, (*fixed, ("content-type", "application/json")) if body else fixed, body)


AGAIN = make_answer(503)
_REFUSED = make_answer(400)
_BY_CODE = {
    "transport.timeout": make_answer(408),
    "transport.busy": AGAIN,
    "callback.peer": make_answer(403),
    "callback.too-large": make_answer(413),
    "message.too-large": make_answer(413),
    "message.no-length": make_answer(411),
}


def answer_to(error: Exception) -> Answer:
    """What the sender gets for an error: 503 for what is the store's, the settings' or a mistake of ours."""
    if not isinstance(error, CallbackRejected | FormatError | TransportError):
        return AGAIN
    return _BY_CODE.get(error.code, _REFUSED)


@dataclass(frozen=True, slots=True)
class RefusedCallback:
    """Everything about a request that was not acknowledged, for the log; not for the sender.

    Attributes:
        error: why, in full; what a handler raised, where it failed.
        status: what was answered.
        at: when, aware UTC.
        peer: the connection's other end, or None.
        received: the request for `explain_callback`; None when its body was not read.
    """

    error: Exception
    status: int
    at: datetime
    peer: str | None
    received: ReceivedCallback | None = field(default=None, repr=False)


OnRefusal = Callable[[RefusedCallback], object]


def log_refused_callback(refused: RefusedCallback) -> None:
    """Write a refusal to the logger `tppkit.web`: what the sender did as a warning, what we did as an error."""
    failed, error = refused.status >= 500, refused.error
    _LOG.log(
        logging.ERROR if failed else logging.WARNING, "callback from %s: %d: %s",
        refused.peer, refused.status, error if isinstance(error, TppkitError) else f"{error} [{type(error).__name__}]",
        exc_info=error if failed else None,
    )  # fmt: skip
