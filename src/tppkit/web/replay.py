"""Notices a sealed request that was sent before: (organisation, X-Request-ID) stands for one request within a window.

A seal covers no time, so whoever has seen a sealed request can send it again; and a provider that got no answer does so by
right. The same request gets the kept answer, another one under the same id is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple, Protocol

from tppkit._clock import as_utc
from tppkit._encoding import decode_base64, encode_base64
from tppkit.errors import ConfigurationError, LocalProtocolError, TransportError
from tppkit.protocol.psd2.endpoints import IDEMPOTENCY_WINDOW
from tppkit.protocol.psd2.rules import request_fingerprint
from tppkit.seals import VerifiedRequest
from tppkit.web.refusing import Answer

MAX_ANSWER_BYTES = 64 * 1024
_MAX_WRITTEN = 2 * MAX_ANSWER_BYTES  # in base64, with its headers
LEASE = timedelta(seconds=60)

# An answer sent again has these headers and those that begin so; a cookie or a trace belongs to the first one alone.
REPEATED_HEADERS = frozenset({"location", "retry-after", "x-request-id"})
REPEATED_BEGINNINGS = ("content-", "aspsp-")

# Statuses below 500 that ask for the same request again, and say nothing of what becomes of it: timeout, too early, too many.
NOT_NOW = frozenset({408, 425, 429})

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AT_ONCE = 2**53 - 1  # later than every claim, and exact in Redis's numbers
_TOO_LONG = b""  # kept in the place of an answer that is too long


class Verdict(StrEnum):
    """What a store says of a request.

    Attributes:
        FIRST: nobody has used the id within the window.
        AGAIN: the same request as before, whose answer is not known; the claim is the caller's now.
        RUNNING: the same request as before, and its first handler may still be at it.
        SAME: the same request as before, and here is its answer.
        OTHER: another request has used the id within the window.
    """

    FIRST = "first"
    AGAIN = "again"
    RUNNING = "running"
    SAME = "same"
    OTHER = "other"


class Claim(NamedTuple):
    """What became of a claim.

    Attributes:
        verdict: whose the id is.
        answer: the answer that was kept, with SAME.
        attempt: with FIRST and AGAIN, the number of this claim; greater than that of every earlier claim of the id.
    """

    verdict: Verdict
    answer: bytes | None = None
    attempt: int = 0


class Bounds(NamedTuple):
    """Times of a claim, in microseconds since 1970.

    Attributes:
        at: now.
        forget: what was first used at or before counts as unused.
        free: a claim of that time or before may be taken over.
    """

    at: int
    forget: int
    free: int


class ReplayStore(Protocol):
    """Where uses of ids are kept. Every method is atomic, also between processes, and may be called by any thread.

    Attributes:
        blocking: its methods wait for a disk or a network, so an event loop calls them in a thread.
    """

    blocking: bool

    def claim(self, key: bytes, digest: bytes, bounds: Bounds) -> Claim:
        """Claim an id for a request.

        Args:
            key: 32 bytes that stand for organisation and id; the first 8 for the organisation alone.
            digest: 32 bytes that stand for the request.
            bounds: the times.

        Raises:
            TransportError: `replay.unavailable`.
        """

    def settle(self, key: bytes, attempt: int, answer: bytes | None) -> None:
        """Keep the answer to a claimed request, or with None let the claim go.

        Nothing happens when the claim is not the last one: who was overtaken must neither answer for the next one nor free its
        claim.

        Args:
            key: as claimed.
            attempt: that of the claim.
            answer: what is given with SAME from now on.

        Raises:
            TransportError: `replay.unavailable`.
        """

    def purge(self, *, forget: int, limit: int) -> int:
        """Forget at most `limit` ids that were first used at or before a time; says how many.

        Raises:
            TransportError: `replay.unavailable`.
        """


@dataclass(frozen=True, slots=True)
class Replay:
    """What is to be done with a request.

    Attributes:
        key: stands for organisation and id.
        attempt: the number of the claim; 0 where none was made.
        answer: send this instead of asking the handler; None: ask it.
        repeated: the handler may have been asked before.
    """

    key: bytes
    attempt: int
    answer: Answer | None
    repeated: bool


class ReplayGuard:
    """Sorts sealed requests into new ones, repeated ones and misuses of an id.

    It keeps an event from being handled twice as long as the store stands; that an effect happens once although processes die,
    only a handler's own transaction can promise, which may look at `AdmittedRequest.repeated`.

    Args:
        store: where uses are kept.
        window: how long an id stands for its first request.
        answers: keep answers and send them again. Without, every repeated request goes to the handler.
        lease: how long a handler may take; until then a repetition is refused with 409, afterwards it goes to the handler.

    Raises:
        ConfigurationError: `web.setting`, window or lease is not positive, or the lease is longer than the window.
    """

    def __init__(
        self,
        store: ReplayStore,
        *,
        window: timedelta = IDEMPOTENCY_WINDOW,
        answers: bool = True,
        lease: timedelta = LEASE,
    ) -> None:
        self.store = store
        self.answers = answers
        if not timedelta(0) < lease <= window:
            raise ConfigurationError("web.setting", f"a lease of {lease} does not fit a window of {window}")
        self._window = window
        self._lease = lease

    def admit(self, verified: VerifiedRequest, *, at: datetime) -> Replay:
        """Claim the id of a request.

        Args:
            verified: the request.
            at: now, aware.

        Raises:
            LocalProtocolError: `request-id.reuse`, `request-id.in-progress`, `request-id.answered`.
            TransportError: `replay.unavailable`.

        Source: PSD2 document, part A section 4, X-Request-ID.
        """
        message = verified.unverified_message
        organisation = verified.organization_identifier.encode()
        request_id = verified.request_id.lower().encode()
        key = sha256(organisation).digest()[:8] + sha256(organisation + b"\0" + request_id).digest()[:24]
        digest = bytes.fromhex(request_fingerprint(message.method, message.target, message.body))
        at = as_utc(at)
        free = _microseconds(at - self._lease) if self.answers else _AT_ONCE
        bounds = Bounds(_microseconds(at), _microseconds(at - self._window), free)
        claim = self.store.claim(key, digest, bounds)
        if claim.verdict is Verdict.OTHER:
            raise LocalProtocolError(
                "request-id.reuse", "this request id was used for another request within the window"
            )
        if claim.verdict is Verdict.RUNNING:
            raise LocalProtocolError("request-id.in-progress", "the first request with this id has no answer yet")
        if claim.answer == _TOO_LONG:
            raise LocalProtocolError(
                "request-id.answered", "the first request was answered, at a length that is not kept"
            )
        answer = None if claim.answer is None else _read_answer(claim.answer)
        return Replay(key, claim.attempt, answer, repeated=claim.verdict is not Verdict.FIRST)

    def settle(self, replay: Replay, answer: Answer | None) -> None:
        """Keep an answer for repetitions; None, a failure of the server (5xx) and 408, 425 and 429 let the request be tried again.

        Raises:
            TransportError: `replay.unavailable`.

        Source: RFC 9110 section 15.5.9, RFC 8470 section 5.2 and RFC 6585 section 4 ask for the same request again.
        """
        if self.answers:
            final = answer is not None and answer.status < 500 and answer.status not in NOT_NOW
            self.store.settle(replay.key, replay.attempt, _write_answer(answer) if final and answer else None)

    def purge(self, *, at: datetime, limit: int = 10_000) -> int:
        """Forget what is older than the window, in a bounded batch; every first use forgets two besides.

        Raises:
            TransportError: `replay.unavailable`.
        """
        return self.store.purge(forget=_microseconds(as_utc(at) - self._window), limit=limit)


def unavailable(name: str, error: Exception) -> TransportError:
    """The error for a store that fails; raise it from `error`."""
    cause = getattr(error, "orig", None) or error  # without SQLAlchemy's statement and links
    return TransportError(
        "replay.unavailable", f"the replay guard's {name} store fails: {type(cause).__name__}: {cause}"
    )


def _write_answer(answer: Answer) -> bytes:
    headers = [field for field in answer.headers if _is_repeated(field[0].lower())]
    written = json.dumps([answer.status, headers, encode_base64(answer.body)]).encode()
    return written if len(written) <= _MAX_WRITTEN and len(answer.body) <= MAX_ANSWER_BYTES else _TOO_LONG


def _is_repeated(name: str) -> bool:
    return name in REPEATED_HEADERS or name.startswith(REPEATED_BEGINNINGS)


def _read_answer(raw: bytes) -> Answer:
    status, headers, body = json.loads(raw)
    return Answer(status, tuple((name, value) for name, value in headers), decode_base64(body, what="a kept answer"))


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)
