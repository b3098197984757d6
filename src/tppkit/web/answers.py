"""Seal the answers of a bank's application, and the refusals of its gate."""

from __future__ import annotations

from collections.abc import Callable

from tppkit._clock import Clock
from tppkit.errors import FormatError, LocalProtocolError, SignatureRejected
from tppkit.message import Answer
from tppkit.seals import PreparedAnswer, Seal, prepare_answer
from tppkit.seals.answers import require_for_answers
from tppkit.web.sources import Source

MAX_SEALED_BYTES = 4 * 1024 * 1024  # what the client reads of an answer


class AnswerSeals:
    """Seals each answer for its request. Nothing else leaves a gate, except refusals of requests that no seal can name.

    Args:
        seal: the bank's seal, with one of `ANSWER_PROFILES`.
        now: the clock.
        failed: called with the error, the organisation and whether the request caused it; returns the 500 that is sent unsealed if it did
            not.

    Raises:
        ConfigurationError: `seal.for-answers`.
    """

    def __init__(self, seal: Seal, *, now: Clock, failed: Callable[[Source, Exception, str, bool], Answer]) -> None:
        require_for_answers(seal.profile)
        self._seal, self._now, self._failed = seal, now, failed

    def sign(self, source: Source, answer: Answer, *, organisation: str, is_refusal: bool) -> Answer:
        """Return the sealed answer, or the failure.

        Args:
            source: the request.
            answer: what to send.
            organisation: the caller's organizationIdentifier if its certificate proved it, for the log.
            is_refusal: the gate refused the request. If no seal can name the request, the refusal is sent unsealed.
        """
        try:
            prepared = self._prepare(source, answer)
            return prepared.finish(self._seal.sign(prepared.signing_string))
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered with 500 without details
            return self._unsealed(source, answer, e, organisation, is_refusal)

    async def sign_async(self, source: Source, answer: Answer, *, organisation: str, is_refusal: bool) -> Answer:
        """See `sign`; awaits the signer."""
        try:
            prepared = self._prepare(source, answer)
            return prepared.finish(await self._seal.sign_async(prepared.signing_string))
        except Exception as e:  # noqa: BLE001  # as in `sign`
            return self._unsealed(source, answer, e, organisation, is_refusal)

    def _prepare(self, source: Source, answer: Answer) -> PreparedAnswer:
        if len(answer.body) > MAX_SEALED_BYTES:
            raise LocalProtocolError(
                "answer.too-large", f"an answer of more than {MAX_SEALED_BYTES} bytes is not sealed"
            )
        return prepare_answer(answer, request=source.head(), seal=self._seal, at=self._now())

    def _unsealed(
        self, source: Source, answer: Answer, error: Exception, organisation: str, is_refusal: bool
    ) -> Answer:
        is_of_request = is_refusal and isinstance(error, (FormatError, SignatureRejected))
        failure = self._failed(source, error, organisation, is_of_request)
        return answer if is_of_request else failure
