"""The requests of an interface as values: what to send, how to read the answer, and when to repeat. Sends nothing."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

import httpx

from tppkit._encoding import shown
from tppkit.errors import ConfigurationError, FormatError, OutcomeUnknown, RemoteProtocolError, RequestRefused
from tppkit.httpsig.components import parse_origin
from tppkit.httpsig.message import Header, Message
from tppkit.protocol.endpoint import Endpoint, Interface
from tppkit.protocol.wire import RowReader, is_streamed

MAX_ATTEMPTS = 3
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 60.0
MAX_ANSWER_BYTES = 4 * 1024 * 1024

_OTHER_NAME = re.compile(r"certificate is not valid for ('[^']{1,255}')")

Q = TypeVar("Q")
A = TypeVar("A")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class ServerAnswer(NamedTuple):
    """An answer as it came.

    Attributes:
        status: HTTP status.
        headers: by lower-case name.
        body: raw bytes.
        batches: the rows of a streamed success, open; None for any other answer.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    batches: Any = None


class Credentials(Protocol):
    """What proves who calls."""

    def authorize(self, row: Endpoint[Any, Any], message: Message) -> Message:
        """The message with its proof; the same message again gets the same proof."""
        ...

    async def authorize_async(self, row: Endpoint[Any, Any], message: Message) -> Message:
        """As `authorize`, without blocking the event loop."""
        ...


@dataclass(frozen=True, slots=True)
class Polling(Generic[R]):
    """How a call is repeated until its result is final.

    Attributes:
        until: whether a result is final.
        again: makes the next call, with a request id of its own.
        interval_s: seconds between two calls.
        wait_s: give up after this many seconds.
        not_final: the error to raise then, for the last result.
    """

    until: Callable[[R], bool]
    again: Callable[[], Call[R]]
    interval_s: float
    wait_s: float
    not_final: Callable[[R], Exception]


@dataclass(frozen=True, slots=True)
class Call(Generic[R_co]):
    """One request, ready to be authorized and sent.

    Attributes:
        row: its endpoint.
        message: what is sent; the HTTP library adds Host.
        result: reads the body of a success.
        request_id: the id that every answer must echo, or None where the interface has none.
        to_find_out: what the caller can do if the outcome is not known.
        polling: repeat the call until its result is final; None sends it once.
    """

    row: Endpoint[Any, Any]
    message: Message
    result: Callable[[bytes], R_co]
    request_id: str | None = None
    to_find_out: str = ""
    polling: Polling[Any] | None = None

    @property
    def name(self) -> str:
        """Method and path of the row, for messages."""
        return f"{self.row.method} {self.row.path}"


@dataclass(frozen=True, slots=True)
class StreamCall(Generic[R]):
    """One request whose answer is rows, ready to be authorized and sent.

    Attributes:
        call: the request.
        reader: makes a reader for one answer.
    """

    call: Call[None]
    reader: Callable[[], RowReader[R]]


class Calls:
    """Builds the requests of an interface and reads its answers; sends nothing.

    Args:
        interface: its rows and errors.
        base_url: `https://host[:port]`, with a path prefix where a gateway needs one.
        credentials: proves who calls.

    Raises:
        ConfigurationError: `client.base-url`.
    """

    def __init__(self, interface: Interface, base_url: str, *, credentials: Credentials) -> None:
        self.origin, self._prefix = split_base_url(base_url)
        self._interface = interface
        self.credentials = credentials

    def call(
        self,
        row: Endpoint[Q, A],
        content: Q,
        query: Mapping[str, str] | None = None,
        /,
        *,
        headers: Iterable[Header] = (),
        request_id: str | None = None,
        to_find_out: str = "",
        **parameters: str,
    ) -> Call[A]:
        """A request of a row.

        Args:
            row: the endpoint.
            content: the value of the body.
            query: parameters of the query; the row's constants are added.
            headers: further headers.
            request_id: the id of the request, where the interface has one.
            to_find_out: as in `Call`.
            **parameters: of the path.

        Raises:
            FormatError: `header.control-character`.
            ConfigurationError: `endpoint.streamed`.
        """
        answer = row.whole
        message = self._message(row, content, query, headers, parameters)
        return Call(row, message, lambda raw: answer.read(raw, tolerant=True), request_id, to_find_out)

    def stream(
        self, row: Endpoint[Q, A], content: Q, query: Mapping[str, str] | None = None, /, *, headers: Iterable[Header] = (),
        request_id: str | None = None, **parameters: str,
    ) -> StreamCall[A]:  # fmt: skip
        """A request of a row whose answer is streamed. Arguments and errors are those of `call`."""
        reader = row.rows.reader
        message = self._message(row, content, query, headers, parameters)
        return StreamCall(Call(row, message, lambda _: None, request_id), reader)

    def _message(
        self, row: Endpoint[Q, Any], content: Q, query: Mapping[str, str] | None, headers: Iterable[Header],
        parameters: Mapping[str, str],
    ) -> Message:  # fmt: skip
        body = row.request.write(content)
        fields = [("Accept", row.answer.media_type or "*/*"), *map(_check_plain, headers)]
        if row.request.media_type is not None:
            # The length too: the library would add it after the seal, and some dialects cover it where it is present.
            fields += [("Content-Type", row.request.media_type), ("Content-Length", str(len(body)))]
        return Message(row.method, self._prefix + row.target(query, **parameters), tuple(fields), body)

    def check_answer(self, call: Call[Any], answer: ServerAnswer) -> None:
        """Check that an answer belongs to its request, before anything else in it is used (assumption refusal-echo).

        A server or proxy that sends one answer too many shifts all later answers of the connection, so close the connection after a
        failure.

        Raises:
            OutcomeUnknown: `answer.request-id`.
        """
        header = self._interface.request_id
        if call.request_id is None or header is None:
            return
        echoed = answer.headers.get(header)
        if echoed is not None and echoed.lower() == call.request_id.lower():
            return
        found = f"without {header}" if echoed is None else f"for the {header} {shown(echoed)}"
        raise _not_known("answer.request-id", f"was answered {answer.status} {found}", call, answer)

    def proves_nothing(self, answer: ServerAnswer | None) -> bool:
        """Whether a 503 has no code of the interface, so that a gateway may have sent it after the request was carried out."""
        # With its code, the service has kept nothing (assumption not-now).
        return answer is not None and answer.status == 503 and self._interface.refusals.read(answer.body)[0] is None

    def not_known(self, call: Call[Any], answer: ServerAnswer) -> OutcomeUnknown:
        """The error for a request that was refused after an earlier attempt that may have been carried out."""
        code, _ = self._interface.refusals.read(answer.body)
        reason = f"was answered {answer.status} {code or 'without a code'} after an attempt that got no answer of the service"
        return _not_known("answer.after-lost", reason, call, answer)

    def read(self, call: Call[R], answer: ServerAnswer) -> R:
        """The result of an answer that belongs to its request.

        Raises:
            RequestRefused: the service answered with an error status.
            RemoteProtocolError: `answer.redirect`, `answer.status`.
            FormatError: `json.*`, `model.invalid`.
        """
        self.check_success(call, answer)
        return call.result(answer.body)

    def check_success(self, call: Call[Any], answer: ServerAnswer) -> None:
        """Check that an answer is a success.

        Raises:
            RequestRefused: the service answered with an error status.
            RemoteProtocolError: `answer.redirect`, `answer.status`.
        """
        status = answer.status
        if 300 <= status < 400:
            raise RemoteProtocolError("answer.redirect", f"{call.name} was answered with a redirect ({status})")
        if status >= 400:
            code, text = self._interface.refusals.read(answer.body)
            reason = f": {shown(text, limit=200)}" if text else ""
            raise RequestRefused(
                f"{call.name} was refused: {status} {code or 'without a code'}{reason}",
                status=status, peer_code=code, peer_text=text, request_id=call.request_id,
            )  # fmt: skip
        if status != call.row.success:
            raise RemoteProtocolError("answer.status", f"{call.name} was answered {status}, not {call.row.success}")


def _not_known(code: str, reason: str, call: Call[Any], answer: ServerAnswer) -> OutcomeUnknown:
    message = f"{call.name} {call.request_id} {reason}, so it is not known what became of the request"
    return OutcomeUnknown(
        code, f"{message}; {call.to_find_out or 'ask again'}", status=answer.status, request_id=call.request_id or ""
    )  # fmt: skip


class Attempts:
    """Decides whether and when a request is sent again: only rows that are `safe` or `once`, at most three times.

    Args:
        row: the endpoint.
    """

    def __init__(self, row: Endpoint[Any, Any]) -> None:
        self._left = MAX_ATTEMPTS - 1 if row.safe or row.once is not None else 0
        self._pause_s = FIRST_PAUSE_S

    def pause_s(self, answer: ServerAnswer | None) -> float | None:
        """Seconds to wait before the next attempt, or None to accept what there is.

        Args:
            answer: the last answer; None where the connection failed.
        """
        if self._left == 0 or (answer is not None and answer.status not in (429, 503)):
            return None
        asked = "" if answer is None else answer.headers.get("retry-after", "")
        pause_s = float(asked) if asked.isascii() and asked.isdigit() else self._pause_s
        self._left -= 1
        self._pause_s *= 2
        return pause_s if pause_s <= MAX_PAUSE_S else None


def split_base_url(base_url: str) -> tuple[str, str]:
    """Origin and path prefix of an address, if the HTTP library will send the prefix unchanged.

    Raises:
        ConfigurationError: `client.base-url`.
    """
    try:
        parts = urlsplit(base_url)
        origin, prefix = f"https://{parts.netloc.removesuffix(':')}", parts.path.rstrip("/")
        parse_origin(origin)
        usable = (
            parts.scheme == "https"
            and bool(parts.hostname)
            and parts.port != 0
            and base_url.isascii()
            and base_url.isprintable()
            and not any(mark in base_url for mark in "@?# ")
            and httpx.URL(f"{origin}{prefix}/").raw_path == f"{prefix}/".encode("ascii")
        )
    except (ValueError, FormatError, httpx.InvalidURL):
        usable = False
    if not usable:
        raise ConfigurationError("client.base-url", "the base address is not https://host[:port][/prefix]")
    return origin, prefix


def _check_plain(header: Header) -> Header:
    name, value = header
    if not (value.isascii() and value.isprintable()):
        raise FormatError("header.control-character", f"the value for {name} is not printable ASCII: {shown(value)}")
    return header


class AnswerBody:
    """What is read of an answer: rows as they arrive, or without a reader all bytes.

    Attributes:
        raw: all bytes; empty with a reader.
    """

    def __init__(self, reader: RowReader[Any] | None = None) -> None:
        self.raw = bytearray()
        self._reader = reader

    def feed(self, chunk: bytes) -> list[Any]:
        """The rows that are complete with these bytes.

        Raises:
            RemoteProtocolError: `answer.too-large`.
            FormatError: as `RowReader.feed`.
        """
        if self._reader is not None:
            return self._reader.feed(chunk)
        # Raw chunks: an uncompressed answer was asked for, and unpacking another one could fill the memory in one step.
        self.raw += chunk
        if len(self.raw) > MAX_ANSWER_BYTES:
            raise RemoteProtocolError("answer.too-large", f"the answer has more than {MAX_ANSWER_BYTES} bytes")
        return []

    def end(self) -> list[Any]:
        """No rows, if the last one was complete. Raises as `RowReader.end`."""
        if self._reader is not None:
            self._reader.end()
        return []


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


async def as_chunks(chunk: bytes) -> AsyncIterator[bytes]:
    """Bytes that were read already, as chunks."""
    yield chunk


def require_end(call: Call[Any], response: httpx.Response) -> None:
    """Check that a streamed success shows where it ends.

    Raises:
        RemoteProtocolError: `answer.no-end`.
    """
    if response.status_code != call.row.success or not is_streamed(call.row.answer):
        return
    is_framed = response.http_version == "HTTP/2" or not {"content-length", "transfer-encoding"}.isdisjoint(
        response.headers
    )
    if not is_framed:
        raise RemoteProtocolError(
            "answer.no-end", f"{call.name} was answered with rows that a lost connection would end"
        )


def certificate_error(failure: BaseException) -> ssl.SSLCertVerificationError | None:
    """The refusal of the server's certificate that caused a failure."""
    cause: BaseException | None = failure
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause


def failure_text(failure: BaseException) -> str:
    """Why a connection failed, in one line."""
    # OpenSSL reports the name that was asked for, but not that only names in subjectAltName count.
    found = _OTHER_NAME.search(str(certificate_error(failure)))
    if found:
        return f"the server's certificate has no subjectAltName for {found[1]}; the common name is not used"
    return str(failure)[:200] or type(failure).__name__
