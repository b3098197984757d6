"""Seal the answers of a bank's application, and the refusals of its gate."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tppkit._clock import Clock
from tppkit._text import printable
from tppkit.errors import ConfigurationError, FormatError, LocalProtocolError, SignatureRejected
from tppkit.message import Answer
from tppkit.seals import PreparedAnswer, Seal, prepare_answer
from tppkit.web.sources import Source

MAX_SEALED_BYTES = 4 * 1024 * 1024  # what the client reads of an answer
_LOG = logging.getLogger("tppkit.web")


class AnswerSeals:
    """Seals each answer for its request. Nothing else leaves a gate, except refusals of requests that no seal can name.

    Args:
        seal: the bank's seal, with one of `ANSWER_PROFILES`.
        now: the clock.
        failure: makes the answer that is sent unsealed if sealing fails: 500.

    Raises:
        ConfigurationError: `seal.for-answers`.
    """

    def __init__(self, seal: Seal, *, now: Clock, failure: Callable[[Source], Answer]) -> None:
        if not seal.profile.for_answers:
            raise ConfigurationError(
                "seal.for-answers", f"the profile {seal.profile.name} seals requests; choose one of ANSWER_PROFILES"
            )
        self._seal, self._now, self._failure = seal, now, failure

    def sign(self, source: Source, answer: Answer, *, is_refusal: bool = False) -> Answer:
        """Return the sealed answer, or the failure.

        Args:
            source: the request.
            answer: what to send.
            is_refusal: the gate refused the request. If no seal can name the request, the refusal is sent unsealed.
        """
        try:
            prepared = self._prepare(source, answer)
            return prepared.finish(self._seal.sign(prepared.signing_string))
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered with 500 without details
            return self._unsealed(source, answer, e, is_refusal=is_refusal)

    async def sign_async(self, source: Source, answer: Answer, *, is_refusal: bool = False) -> Answer:
        """See `sign`; awaits the signer."""
        try:
            prepared = self._prepare(source, answer)
            return prepared.finish(await self._seal.sign_async(prepared.signing_string))
        except Exception as e:  # noqa: BLE001  # as in `sign`
            return self._unsealed(source, answer, e, is_refusal=is_refusal)

    def _prepare(self, source: Source, answer: Answer) -> PreparedAnswer:
        if len(answer.body) > MAX_SEALED_BYTES:
            raise LocalProtocolError(
                "answer.too-large", f"an answer of more than {MAX_SEALED_BYTES} bytes is not sealed"
            )
        return prepare_answer(answer, request=source.head(), seal=self._seal, at=self._now())

    def _unsealed(self, source: Source, answer: Answer, error: Exception, *, is_refusal: bool) -> Answer:
        if is_refusal and isinstance(error, (FormatError, SignatureRejected)):
            _LOG.warning("a refusal was sent without a seal: %s", error)
            return answer
        _LOG.error(
            "an answer to %s from %s could not be sealed: %s", printable(source.method), source.address(), error,
            exc_info=error,
        )  # fmt: skip
        return self._failure(source)
