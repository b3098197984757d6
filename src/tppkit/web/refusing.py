"""How a refusal is told: a code and a short text to the peer, everything to the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from tppkit.codes import CODES
from tppkit.errors import TppkitError
from tppkit.protocol.psd2 import PSD2
from tppkit.protocol.refusals import Refusal

_LOG = logging.getLogger("tppkit.web")


class Answer(NamedTuple):
    """An HTTP answer.

    Attributes:
        status: HTTP status.
        headers: names and values, in order.
        body: the bytes.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Refused(NamedTuple):
    """Everything about a refused request, for the log; not for the peer.

    Attributes:
        error: why, in full.
        refusal: what the peer is told.
        method: the HTTP method.
        target: the target as it stood on the wire, or empty where it is not known.
        address: the connection's other end, or None.
    """

    error: Exception
    refusal: Refusal
    method: str
    target: str
    address: str | None


Tell = Callable[[TppkitError], Refusal]
OnRefusal = Callable[[Refused], object]


def brief_refusal(error: TppkitError) -> Refusal:
    """What a stranger may know: the code, and what it means in general; no value of the request or of our settings."""
    refusal = PSD2.refusals.refusal_for(error)
    row = CODES.get(error.code)
    if refusal.status >= 500 or row is None:
        return refusal
    return Refusal(refusal.status, refusal.code, f"{row.meaning} ({error.code})")


def log_refusal(refused: Refused) -> None:
    """Log a refusal with its reason to `tppkit.web`: faults of the caller as warnings, our own as errors."""
    failed = refused.refusal.status >= 500
    _LOG.log(
        logging.ERROR if failed else logging.WARNING, "%s %s from %s: %d %s: %s",
        refused.method, refused.target, refused.address, refused.refusal.status, refused.refusal.code, refused.error,
        exc_info=refused.error if failed else None,
    )  # fmt: skip
