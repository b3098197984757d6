"""Read answers as they arrive, check that they belong to their requests, explain lost connections, and decide what is sent again."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx

from tppkit._locals import with_causes
from tppkit.client.calls import Call, Calls, ServerAnswer
from tppkit.client.connections import FAILURES, TIMEOUTS, UNCONNECTED
from tppkit.errors import OutcomeUnknown, RemoteProtocolError, TppkitError, TransportError
from tppkit.protocol.endpoint import Endpoint, is_streamed
from tppkit.protocol.reports import CsvReader

MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_ATTEMPTS = 3
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 60.0
PASSING = frozenset({429, 503})  # statuses after which another attempt may succeed

_OTHER_NAME = re.compile(r"certificate is not valid for ('[^']{1,255}')")


class AnswerBody:
    """The body of an answer: rows as they arrive, or without a reader all bytes.

    Attributes:
        raw: all bytes; empty with a reader.
    """

    def __init__(self, reader: CsvReader[Any] | None = None) -> None:
        self.raw = bytearray()
        self._reader = reader

    def feed(self, chunk: bytes) -> list[Any]:
        """Return the rows that these bytes complete.

        Raises:
            RemoteProtocolError: `answer.too-large`.
            FormatError: as `CsvReader.feed`.
        """
        if self._reader is not None:
            return self._reader.feed(chunk)
        # Raw chunks: an uncompressed answer was requested, and decompressing one could fill the memory in one step.
        self.raw += chunk
        if len(self.raw) > MAX_ANSWER_BYTES:
            raise RemoteProtocolError("answer.too-large", f"the answer has more than {MAX_ANSWER_BYTES} bytes")
        return []

    def end(self) -> list[Any]:
        """See `CsvReader.end`."""
        return [] if self._reader is None else self._reader.end()


def read_next(chunks: Iterator[bytes], body: AnswerBody) -> list[Any]:
    """Read up to the next rows; empty at the end of the answer."""
    for chunk in chunks:
        if rows := body.feed(chunk):
            return rows
    return body.end()


async def read_next_async(chunks: AsyncIterator[bytes], body: AnswerBody) -> list[Any]:
    """Read up to the next rows; empty at the end of the answer."""
    async for chunk in chunks:
        if rows := body.feed(chunk):
            return rows
    return body.end()


@contextmanager
def opened_answer(
    calls: Calls, call: Call[Any], response: httpx.Response
) -> Iterator[tuple[ServerAnswer, Iterator[bytes]]]:
    """An answer without its body, if it belongs to the call, and the chunks of the body; closed in the end.

    Raises:
        OutcomeUnknown, RemoteProtocolError: see `Calls.check_answer`; `answer.no-end`.
    """
    try:
        answer = ServerAnswer(response.status_code, response.headers)
        calls.check_answer(call, answer)
        _require_end(calls, call, response)
        # A hook or transport of the caller may have read the answer.
        yield answer, iter([response.content]) if response.is_stream_consumed else response.iter_raw()
    except OutcomeUnknown:
        if stream := response.extensions.get("network_stream"):
            stream.close()  # the body may have been read, so that the connection would serve the next request
        raise
    finally:
        response.close()


@asynccontextmanager
async def opened_answer_async(
    calls: Calls, call: Call[Any], response: httpx.Response
) -> AsyncIterator[tuple[ServerAnswer, AsyncIterator[bytes]]]:
    """As `opened_answer`, for asyncio."""
    try:
        answer = ServerAnswer(response.status_code, response.headers)
        calls.check_answer(call, answer)
        _require_end(calls, call, response)
        yield answer, _as_chunks(response.content) if response.is_stream_consumed else response.aiter_raw()
    except OutcomeUnknown:
        if stream := response.extensions.get("network_stream"):
            await stream.aclose()
        raise
    finally:
        await response.aclose()


async def _as_chunks(chunk: bytes) -> AsyncIterator[bytes]:
    """Bytes that were read already, as chunks."""
    yield chunk


def _require_end(calls: Calls, call: Call[Any], response: httpx.Response) -> None:
    """Check that a streamed success shows where it ends."""
    if not calls.is_success(call, response.status_code) or not is_streamed(call.row.answer):
        return
    is_framed = response.http_version == "HTTP/2" or not {"content-length", "transfer-encoding"}.isdisjoint(
        response.headers
    )
    if not is_framed:
        raise RemoteProtocolError(
            "answer.no-end", f"{call.name} was answered with rows that a lost connection would end"
        )


class TransportErrors:
    """Converts the HTTP library's errors; these, cancellations and all others lose the library's frames, whose variables have the request.

    `contextmanager` would give an error that passes its frames back.

    Raises:
        TransportError: `transport.timeout`, `transport.failed`.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, frames: object) -> None:
        for one in with_causes(error):
            one.__traceback__ = None
        if isinstance(error, TIMEOUTS):
            message = f"the server did not answer in time ({type(error).__name__})"
            raise TransportError("transport.timeout", message) from error
        if isinstance(error, FAILURES):
            raise TransportError("transport.failed", f"the connection failed: {_failure_text(error)}") from error


def is_unsent(error: TppkitError) -> bool:
    """Whether no connection was made, so that the server has no part of the request."""
    return isinstance(error.__cause__, UNCONNECTED)


def is_passing(error: TransportError) -> bool:
    """Whether another attempt may succeed: not after a timeout, and not with a wrong certificate."""
    return error.code == "transport.failed" and _certificate_error(error) is None


def pause_before_repeat_s(
    row: Endpoint[Any, Any], made: int, answer: ServerAnswer | None, floor_s: float = 0.0, left_s: float = MAX_PAUSE_S
) -> float | None:
    """Return the seconds to wait before a request is sent again, or None to accept the last answer or failure.

    Rows that are `safe` or `once` are sent three times at most, again after a lost connection, 429 or 503.

    Args:
        row: the endpoint.
        made: the number of attempts so far.
        answer: the last answer; None if the connection failed.
        floor_s: wait at least so many seconds.
        left_s: maximum length of the pause in seconds; it is never longer than 60.
    """
    if made >= MAX_ATTEMPTS or not (row.safe or row.once is not None):
        return None
    if answer is not None and answer.status not in PASSING:
        return None
    asked = "" if answer is None else answer.headers.get("retry-after", "")
    usual_s = FIRST_PAUSE_S * 2 ** (made - 1)
    pause_s = max(floor_s, float(asked) if asked.isascii() and asked.isdigit() else usual_s)
    return pause_s if pause_s <= min(MAX_PAUSE_S, left_s) else None


def _certificate_error(failure: BaseException) -> ssl.SSLCertVerificationError | None:
    """Return the verification error of the server's certificate that caused a failure, or None."""
    return next((error for error in with_causes(failure) if isinstance(error, ssl.SSLCertVerificationError)), None)


# Errors of OpenSSL's strict checks of RFC 5280: X509_V_ERR_PATHLEN_INVALID_FOR_NON_CA to X509_V_ERR_EXTENSIONS_REQUIRE_VERSION_3.
_STRICT = range(80, 94)
# X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, DEPTH_ZERO_SELF_SIGNED_CERT to UNABLE_TO_VERIFY_LEAF_SIGNATURE.
_UNKNOWN_ISSUER = (2, 18, 19, 20, 21)
_ADVICE = {
    "HANDSHAKE_FAILURE": "the server may support none of our ciphers (in TLS 1.2 ECDHE with AES-GCM or ChaCha20), or not the kind of"
    " the client certificate's key",
    "UNSAFE_LEGACY_RENEGOTIATION": "the server renegotiates without RFC 5746; adjust_tls of make_client can accept that for this bank",
}


def _failure_text(failure: BaseException) -> str:
    """Why a connection failed, in one line."""
    # OpenSSL reports the expected name, but not that only names in subjectAltName are accepted.
    found = _OTHER_NAME.search(str(_certificate_error(failure)))
    if found:
        return f"the server's certificate has no subjectAltName for {found[1]}; the common name is not used"
    text, error = str(failure)[:200] or type(failure).__name__, _certificate_error(failure)
    advice = next((advice for known, advice in _ADVICE.items() if known in text), "")
    if error is not None and error.verify_code in _STRICT:
        advice = (
            "the server's certificate or an authority of it, which may be in server_anchors, breaks RFC 5280: the bank should replace"
            " it; adjust_tls of make_client can accept it for this bank"
        )
    if error is not None and error.verify_code in _UNKNOWN_ISSUER:
        advice = 'pass the authority of the server as server_anchors=, for the sandbox "certs/root.pem"'
    return f"{text}; {advice}" if advice else text
