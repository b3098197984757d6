"""Verify the seals of a bank's answers before anything in them is used."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Literal, get_args

import httpx

from tppkit._clock import utc_now
from tppkit._encoding import shown
from tppkit._handlers import require_finished
from tppkit.errors import ConfigurationError, SignatureRejected, TppkitError
from tppkit.message import Answer, Message
from tppkit.seals import ANSWER_PROFILES, Paths, SealPolicy, VerifiedAnswer, verify_answer
from tppkit.trust import Anchors, PathVerifier
from tppkit.trust.revocation.fetched import FetchNeeded, without_fetching

Answers = Literal["off", "if-present", "required"]
KeepAnswer = Callable[[VerifiedAnswer], object]
"""Keeps a verified answer as evidence; for asyncio it may be a coroutine function."""

_SEALING = ("signature", "signature-input", "aspsp-signature-certificate")


class AnswerSeals:
    """Verifies the answers of a client by a policy. The form, RFC 9421 or draft-cavage, is found by the header Signature-Input.

    Args:
        answers: `if-present` accepts answers without a seal; `required` does not.
        anchors: decides which banks' seals are trusted.
        keep: called with each verified answer.
        now: the present time, aware.

    Raises:
        ConfigurationError: `client.answers`, see `make_answer_seals`.
    """

    def __init__(
        self, answers: Answers, anchors: Anchors | Paths, *, keep: KeepAnswer | None = None, now: Callable[[], datetime] = utc_now
    ) -> None:  # fmt: skip
        paths = PathVerifier(anchors) if isinstance(anchors, Anchors) else anchors
        self._policies = {name: SealPolicy(paths, profile=profile) for name, profile in ANSWER_PROFILES.items()}
        self._is_required, self._keep, self._now = answers == "required", keep, now

    def verify(self, response: httpx.Response, body: bytes) -> VerifiedAnswer | None:
        """Verify the seal of an answer; None if it has none and needs none.

        Args:
            response: the answer, whose request is as it was sent.
            body: its raw bytes.

        Raises:
            SignatureRejected: `answer.unsealed`, `answer.seal`, which `Calls.sealed` converts into an error of the call.
        """
        answer = Answer.from_wire(response.status_code, response.headers.raw, body)
        if not any(name in response.headers for name in _SEALING):
            if self._is_required:
                raise SignatureRejected("answer.unsealed", "an answer without a seal, which this client requires")
            return None
        policy = self._policies["rfc9421" if "signature-input" in response.headers else "cavage"]
        try:
            return verify_answer(answer, request=Message.from_httpx(response.request), policy=policy, at=self._now())
        except TppkitError as e:  # also of the anchors: the bank has the request already
            raise SignatureRejected("answer.seal", f"an answer whose seal is not valid: {e}") from e

    async def verify_async(self, response: httpx.Response, body: bytes) -> VerifiedAnswer | None:
        """See `verify`; fetches answers about revocation in a thread."""
        try:
            return without_fetching(partial(self.verify, response), body)
        except FetchNeeded:
            return await asyncio.to_thread(self.verify, response, body)

    def keep(self, verified: VerifiedAnswer | None) -> None:
        """Hand a verified answer over. Raises what the function raises."""
        if verified is not None and self._keep is not None:
            require_finished(self._keep(verified))

    async def keep_async(self, verified: VerifiedAnswer | None) -> None:
        """See `keep`; awaits a coroutine function."""
        if verified is not None and self._keep is not None:
            kept = self._keep(verified)
            require_finished(await kept if inspect.isawaitable(kept) else kept)


def make_answer_seals(
    answers: Answers, anchors: Anchors | Paths | None, keep: KeepAnswer | None, now: Callable[[], datetime] = utc_now
) -> AnswerSeals | None:
    """Return what verifies a client's answers; None for `off`.

    Raises:
        ConfigurationError: `client.answers`, the policy is unknown, it is `off` and anchors or a function are given, or it is not and there
            are no anchors; the anchors are a path or text.
    """
    if answers not in get_args(Answers):
        raise ConfigurationError("client.answers", f"answers is {shown(str(answers))}, not off, if-present or required")
    if anchors is not None and not (isinstance(anchors, Anchors) or callable(getattr(anchors, "verify_use", None))):
        raise ConfigurationError(
            "client.answers",
            f"answer_anchors is of {type(anchors).__name__}: pass load_anchors(...) or load_trust(...)",
        )
    if answers != "off" and anchors is not None:
        return AnswerSeals(answers, anchors, keep=keep, now=now)
    if answers != "off":
        raise ConfigurationError("client.answers", f'answers="{answers}" needs answer_anchors')
    if anchors is not None or keep is not None:
        raise ConfigurationError(
            "client.answers",
            'answer_anchors and keep_answer have no effect with answers="off"; choose if-present or required',
        )
    return None
