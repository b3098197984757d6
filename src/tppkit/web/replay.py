"""Detect a sealed request that was received before: within a window, an organisation uses a request id for one request.

A seal of the document's dialect covers no time, so anyone who has seen a sealed request can send it again. A provider without an
answer may repeat its request, too. The same request gets the stored answer; another request with the same id is rejected.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple, Protocol

from tppkit._clock import as_utc, to_microseconds
from tppkit._encoding import decode_base64, encode_base64
from tppkit.errors import ConfigurationError, LocalProtocolError, TransportError
from tppkit.message import Answer
from tppkit.seals import SealPolicy, VerifiedRequest

MAX_ANSWER_BYTES = 64 * 1024
_MAX_WRITTEN = 2 * MAX_ANSWER_BYTES  # in base64, with its headers
WINDOW = timedelta(hours=1)
LEASE = timedelta(seconds=60)
_LONGEST = timedelta(days=3650)
BODY_TIME = timedelta(seconds=60)  # the longest time from the judgement of a seal to its claim

# A repeated answer has these headers and those with these prefixes; cookies and traces belong to the first answer only.
REPEATED_HEADERS = frozenset({"location", "retry-after", "x-request-id"})
REPEATED_BEGINNINGS = ("content-", "aspsp-")

# Statuses below 500 that ask for a repetition and are not a result: timeout, too early, too many.
# RFC 9110 section 15.5.9, RFC 8470 section 5.2, RFC 6585 section 4.
NOT_NOW = frozenset({408, 425, 429})

_LOG = logging.getLogger("tppkit.web")
_TOO_LONG = b""  # stored instead of an answer that is too long


class Verdict(StrEnum):
    """The result of looking up a request in a store.

    Attributes:
        FIRST: the id was not used within the window.
        AGAIN: the same request as before, whose answer is unknown; the caller now holds the claim.
        RUNNING: the same request as before, whose first handler may still run.
        SAME: the same request as before, whose answer is stored.
        OTHER: another request used the id within the window.
    """

    FIRST = "first"
    AGAIN = "again"
    RUNNING = "running"
    SAME = "same"
    OTHER = "other"


class Claim(NamedTuple):
    """The result of a claim.

    Attributes:
        verdict: what the store knows about the request.
        answer: with SAME, the stored answer.
        attempt: with FIRST and AGAIN, the number of this claim, greater than that of every earlier claim of the id.
    """

    verdict: Verdict
    answer: bytes | None = None
    attempt: int = 0


class Bounds(NamedTuple):
    """Times of a claim, in microseconds since 1970.

    Attributes:
        at: now.
        forget: an id that was first used at this time or before counts as unused.
        free: a claim of this time or before may be taken over.
    """

    at: int
    forget: int
    free: int


class ReplayStore(Protocol):
    """Stores used ids. Every method is atomic, also between processes, and thread-safe.

    Attributes:
        blocking: whether its methods wait for a disk or a network, so that an event loop must call them in a thread.
    """

    blocking: bool

    def claim(self, key: bytes, digest: bytes, bounds: Bounds) -> Claim:
        """Claim an id for a request.

        Args:
            key: 32 bytes for organisation and id; the first 8 for the organisation alone.
            digest: 32 bytes for the request.
            bounds: the times.

        Raises:
            TransportError: `replay.unavailable`.
        """

    def settle(self, key: bytes, attempt: int, answer: bytes | None) -> None:
        """Store the answer to a claimed request, or with None give up the claim.

        If the claim is not the latest one, this does nothing, because the request now belongs to another handler.

        Args:
            key: as claimed.
            attempt: the number of the claim.
            answer: the answer to return with SAME.

        Raises:
            TransportError: `replay.unavailable`.
        """

    def purge(self, *, forget: int, limit: int) -> int:
        """Delete at most `limit` ids that were first used at or before a time; return their number.

        Raises:
            TransportError: `replay.unavailable`.
        """


class Replay:
    """A claimed request: what to do with it, and later its answer.

    Attributes:
        answer: send this instead of running the handler; None: run it.
        repeated: the handler may have run before.
        is_settled: an answer was kept, or the claim was given up.
    """

    def __init__(self, store: ReplayStore, key: bytes, claim: Claim) -> None:
        self.answer = None if claim.answer is None else _read_answer(claim.answer)
        self.repeated = claim.verdict is not Verdict.FIRST
        self.is_settled = False
        self._store = store
        self._key = key
        self._attempt = claim.attempt

    def settle(self, answer: Answer | None) -> None:
        """Store the answer for repetitions. After None, 5xx, 408, 425 and 429, give up the claim so that the request may be retried.

        If the store fails, log it: the handler has run, so its answer is sent anyway.
        """
        self.is_settled = True
        final = answer is not None and answer.status < 500 and answer.status not in NOT_NOW
        try:
            self._store.settle(self._key, self._attempt, _write_answer(answer) if final and answer else None)
        except TransportError as e:
            _LOG.error("an answer was not stored for repetitions: %s", e)


class ReplayGuard:
    """Distinguish new sealed requests, repeated ones, and misuses of an id.

    If a process dies, only the handler's own transaction can ensure that an effect happens once; see `RequestTable`.

    Args:
        store: stores used ids.
        window: how long an id is bound to its first request.
        lease: how long a handler may take. Until then a repetition is rejected with 409; after that, it is passed to the handler.

    Raises:
        ConfigurationError: `web.setting`, window or lease is not positive, the lease is longer than the window, or the window than ten
            years.

    Example:
        SealGate(PSD2, qwacs=qwacs, seals=seals, replay=ReplayGuard(MemoryReplayStore()))
    """

    def __init__(self, store: ReplayStore, *, window: timedelta = WINDOW, lease: timedelta = LEASE) -> None:
        if not timedelta(0) < lease <= window <= _LONGEST:
            raise ConfigurationError(
                "web.setting",
                f"a lease of {lease} does not fit a window of {window}, which is at most {_LONGEST.days} days",
            )
        self.store = store
        self._window = window
        self._lease = lease

    def require_window(self, seals: SealPolicy) -> None:
        """Check that a seal with a limited life does not outlive the window. In many dialects a seal has no such limit.

        Raises:
            ConfigurationError: `web.setting`.
        """
        limits = [limit for limit in (seals.profile.max_age, seals.profile.expires_after) if limit is not None]
        if "date" in seals.profile.demanded:  # a Date may differ by the clock skew, before and after
            limits.append(timedelta(0))
        if limits and (life := min(limits) + 2 * seals.clock_skew + BODY_TIME) >= self._window:
            raise ConfigurationError(
                "web.setting",
                f"with clock skew and a slow body a seal lives for {life}, so a window of {self._window} is too short",
            )

    def admit(self, verified: VerifiedRequest, *, at: datetime) -> Replay:
        """Claim the id of a request. If its covered Date is not fresh, only a kept answer admits it (assumption `covered-date`).

        Args:
            verified: the request.
            at: now, aware.

        Raises:
            SignatureRejected: `signature.expired`, `signature.created`, a covered Date is not fresh and no answer is kept.
            LocalProtocolError: `request-id.reuse`, `request-id.in-progress`, `request-id.answered`.
            TransportError: `replay.unavailable`.

        Source: PSD2 document, part A section 4, X-Request-ID.
        """
        message = verified.unverified_message
        digest = sha256(b"\0".join((message.method.encode(), message.target.encode("latin-1"), message.body))).digest()
        organisation = verified.organization_identifier.encode()
        request_id = verified.request_id.lower().encode()
        key = sha256(organisation).digest()[:8] + sha256(organisation + b"\0" + request_id).digest()[:24]
        at = as_utc(at)
        bounds = Bounds(*map(to_microseconds, (at, at - self._window, at - self._lease)))
        if verified.date_fault is not None:  # a first claim has left the window already, and none is taken over
            bounds = Bounds(bounds.forget, bounds.forget, free=-1)
        claim = self.store.claim(key, digest, bounds)
        if verified.date_fault is not None and claim.answer is None:
            if claim.attempt:
                self.store.settle(key, claim.attempt, None)
            raise verified.date_fault
        if claim.verdict is Verdict.OTHER:
            raise LocalProtocolError(
                "request-id.reuse", "the request id was used for another request within the window"
            )
        if claim.verdict is Verdict.RUNNING:
            raise LocalProtocolError("request-id.in-progress", "the first request with this id has no answer yet")
        if claim.answer == _TOO_LONG:
            raise LocalProtocolError("request-id.answered", "the answer to the first request was too long to be stored")
        return Replay(self.store, key, claim)

    def purge(self, *, at: datetime, limit: int = 10_000) -> int:
        """Delete at most `limit` ids that are older than the window. Each first use also deletes two.

        Raises:
            TransportError: `replay.unavailable`.
        """
        return self.store.purge(forget=to_microseconds(as_utc(at) - self._window), limit=limit)


def unavailable(name: str, error: Exception) -> TransportError:
    """Return the error for a failing store; raise it from `error`."""
    cause = getattr(error, "orig", None) or error  # without SQLAlchemy's statement and links
    return TransportError(
        "replay.unavailable", f"the replay guard's {name} store fails: {type(cause).__name__}: {cause}"
    )


def _write_answer(answer: Answer) -> bytes:
    named = [(name.lower(), (name, value)) for name, value in answer.headers]
    headers = [one for name, one in named if name in REPEATED_HEADERS or name.startswith(REPEATED_BEGINNINGS)]
    written = json.dumps([answer.status, headers, encode_base64(answer.body)]).encode()
    return written if len(written) <= _MAX_WRITTEN and len(answer.body) <= MAX_ANSWER_BYTES else _TOO_LONG


def _read_answer(raw: bytes) -> Answer:
    status, headers, body = json.loads(raw)
    return Answer(status, tuple((name, value) for name, value in headers), decode_base64(body, what="a kept answer"))
