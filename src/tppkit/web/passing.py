"""A request on its way to its handler and its answer on the way back: what both middlewares do, without their protocols.

The head is verified, the body comes (`PendingRequest`), the id is claimed and the answer settles it (`Passage`).
"""

from __future__ import annotations

import logging
from dataclasses import replace

from tppkit._clock import Clock
from tppkit.errors import FormatError, TransportError
from tppkit.seals import BodyReceiver
from tppkit.web.admitted import AdmittedRequest
from tppkit.web.message import too_large
from tppkit.web.outcomes import RequestOutcome, RequestResult
from tppkit.web.refusing import Answer
from tppkit.web.replay import MAX_ANSWER_BYTES, Replay, ReplayGuard

_LOG = logging.getLogger("tppkit.web")


class PendingRequest:
    """A request whose head was let through: takes the body, then says what the handler may have.

    Args:
        admitted: what is known so far.
        body: takes a sealed body; None where nothing is sealed.
        max_bytes: a longer body is refused.
        length: the Content-Length, which the body must have, or None.
    """

    def __init__(
        self, admitted: AdmittedRequest, body: BodyReceiver | None, *, max_bytes: int, length: int | None
    ) -> None:
        self._admitted = admitted
        self._body = body
        self._max_bytes = max_bytes
        self._chunks: list[bytes] = []
        self._announced = length
        self._length = 0

    def update(self, chunk: bytes) -> None:
        """Take the next bytes of the body.

        Raises:
            FormatError: `message.too-large`.
        """
        self._length += len(chunk)
        if self._body is not None:
            self._body.update(chunk)
            return
        if self._length > self._max_bytes:
            raise too_large(self._max_bytes)
        self._chunks.append(chunk)

    def finish(self) -> AdmittedRequest:
        """The request, once its whole body was taken.

        Raises:
            FormatError: `message.malformed`, it is not as long as was announced.
            SignatureRejected: `digest.mismatch`, `signature.uncovered`.
        """
        if self._announced not in (None, self._length):
            message = f"the body has {self._length} bytes, and its Content-Length is {self._announced}"
            raise FormatError("message.malformed", message)
        if self._body is None:
            head = self._admitted.unverified_message
            return replace(self._admitted, unverified_message=head._replace(body=b"".join(self._chunks)))
        verified = self._body.finish()
        return replace(self._admitted, verified=verified, unverified_message=verified.unverified_message)


class Passage:
    """A proven request: whether its handler is asked, and what becomes of its claim.

    The claim is let go only when the application itself failed. When the client leaves, the application may have had its effect: what
    it goes on to answer is kept, though nobody reads it.

    Args:
        admitted: the request.
        guard: notices that it was sent before, or None.
        now: the clock.

    Attributes:
        admitted: the request; since `claim`, also whether it is repeated.
        answer: since `claim`, what is sent instead of asking the handler, or None.
        is_settled: the claim was answered or let go.
    """

    def __init__(self, admitted: AdmittedRequest, guard: ReplayGuard | None, now: Clock) -> None:
        self.admitted = admitted
        self.answer: Answer | None = None
        self.is_settled = False
        self._guard = None if admitted.verified is None else guard
        self._now = now
        self._replay: Replay | None = None
        self._status = 500
        self._headers: tuple[tuple[str, str], ...] = ()
        self._body = bytearray()

    @property
    def blocks(self) -> bool:
        """`claim`, `answered` and `let_go` wait for a disk or a network."""
        return self._guard is not None and self._guard.store.blocking

    @property
    def is_recorded(self) -> bool:
        """The handler's answer is wanted, by `started` and `add`."""
        return self._guard is not None and self._guard.answers

    @property
    def outcome(self) -> RequestOutcome:
        """What becomes of it, since `claim`."""
        if self.answer is not None:
            return RequestOutcome(RequestResult.REPLAYED, self.answer.status)
        return RequestOutcome(RequestResult.REPEATED if self.admitted.repeated else RequestResult.ACCEPTED)

    def claim(self) -> None:
        """Claim the request's id.

        Raises:
            LocalProtocolError, TransportError: as `ReplayGuard.admit`.
        """
        if self._guard is None or self.admitted.verified is None:
            return
        self._replay = self._guard.admit(self.admitted.verified, at=self._now())
        self.answer = self._replay.answer
        if self._replay.repeated:
            self.admitted = replace(self.admitted, repeated=True)

    def started(self, status: int, headers: tuple[tuple[str, str], ...]) -> None:
        """Take the head of the handler's answer; another takes its place."""
        self._status, self._headers = status, headers
        self._body.clear()

    def add(self, piece: bytes) -> None:
        """Take the next bytes of the handler's answer; no more are held than tell that it is too long."""
        if len(self._body) <= MAX_ANSWER_BYTES:
            self._body += piece

    def answered(self) -> None:
        """The handler's answer is complete: keep it."""
        self._settle(Answer(self._status, self._headers, bytes(self._body)))

    def let_go(self) -> None:
        """The application failed: let the request be tried again."""
        self._settle(None)

    def _settle(self, answer: Answer | None) -> None:
        self.is_settled = True
        if self._guard is None or self._replay is None:
            return
        try:
            self._guard.settle(self._replay, answer)
        except TransportError as e:
            _LOG.error("an answer was not kept for repetitions: %s", e)  # it happened, so it is sent
