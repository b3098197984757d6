"""The requests of an interface as values: what to send, how to read the answer, and when to repeat. Sends nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import httpx

from tppkit._encoding import shown
from tppkit.client.answer_seals import AnswerSeals
from tppkit.client.base_url import split_base_url
from tppkit.errors import (  # fmt: skip
    FormatError,
    OutcomeUnknown,
    RemoteProtocolError,
    RequestRefused,
    SignatureRejected,
    TppkitError,
    TransportError,
)
from tppkit.message import Header, Message
from tppkit.protocol.endpoint import Endpoint, Interface
from tppkit.protocol.reports import CsvReader
from tppkit.seals import VerifiedAnswer

MAX_PAGES = 10_000
MAX_LINK = 4096
# Sent before a request is carried out, by proxies too. Source: RFC 9110 section 15.5, RFC 6585.
_BEFORE_EXECUTION = frozenset({401, 405, 411, 413, 414, 415, 429, 431})

# A link's path and query as httpx sends them unchanged; encoded characters in a path could be dots and slashes.
_LINK = re.compile(r"((?:/[A-Za-z0-9._~!$&'()*+,=:@-]+)+)(?:\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?")

Q = TypeVar("Q")
A = TypeVar("A")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class ServerAnswer(NamedTuple):
    """An answer as received.

    Attributes:
        status: HTTP status.
        headers: by lower-case name.
        body: raw bytes.
        batches: the rows of a streamed success, open; None for any other answer.
        verified: the answer with its verified seal, or None.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    batches: Any = None
    verified: VerifiedAnswer | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.status}, {len(self.headers)} headers, {len(self.body)} bytes)"  # as of Message

    def __sentry_repr__(self) -> str:
        return repr(self)


class Credentials(Protocol):
    """Authenticates requests."""

    def authorize(self, row: Endpoint[Any, Any], message: Message) -> Message:
        """Return the message with its credentials; the same message gets the same credentials."""
        ...

    async def authorize_async(self, row: Endpoint[Any, Any], message: Message) -> Message:
        """See `authorize`; does not block the event loop."""
        ...


@dataclass(frozen=True, slots=True)
class Polling(Generic[R]):
    """How a call is repeated until its result is final.

    Attributes:
        until: whether a result is final.
        again: makes the next call, with a request id of its own.
        interval_s: seconds between two calls, and at least before an attempt is repeated.
        wait_s: give up after this many seconds.
        not_final: the error to raise then, for the last result.
    """

    until: Callable[[R], bool]
    again: Callable[[], Call[R]]
    interval_s: float
    wait_s: float
    not_final: Callable[[R], Exception]


@dataclass(frozen=True, slots=True)
class Lookup(Generic[R]):
    """How to find out what became of a call whose answer was lost.

    Attributes:
        call: asks for it; None if nothing can be asked for.
        conclude: the error to raise, for the lost answer's error and the result of `call`, or its error, or None without `call`.
    """

    call: Call[R] | None
    conclude: Callable[[OutcomeUnknown | TransportError, R | TppkitError | None], Exception]


@dataclass(frozen=True, slots=True)
class Call(Generic[R_co]):
    """One request, ready to be authorized and sent.

    Attributes:
        row: its endpoint.
        message: what is sent; the HTTP library adds Host.
        result: reads the body of a success.
        request_id: the request's name in errors; if the interface has a header for it, every answer must echo it.
        to_find_out: what the caller can do if the outcome is not known.
        polling: repeat the call until its result is final; None sends it once.
        no_content: the result of a success without a body; None reads the body all the same.
        lookup: how to find the outcome if the answer is lost; None raises the original error.
    """

    row: Endpoint[Any, Any]
    message: Message
    result: Callable[[bytes], R_co]
    request_id: str | None = None
    to_find_out: str = ""
    polling: Polling[Any] | None = None
    no_content: R_co | None = None
    lookup: Lookup[Any] | None = None

    @property
    def name(self) -> str:
        """Method and path of the row, for messages."""
        return f"{self.row.method} {self.row.path}"

    def advised(self, reason: str) -> str:
        """The message of an error that leaves the outcome open."""
        return "; ".join(filter(None, (reason, self.to_find_out)))

    def outcome_unknown(self, code: str, reason: str, status: int | None = None) -> OutcomeUnknown:
        """The error for an answer that says nothing about the outcome."""
        return OutcomeUnknown(code, self.advised(reason), status=status, request_id=self.request_id or "")


@dataclass(frozen=True, slots=True)
class StreamCall(Generic[R]):
    """One request whose answer is rows, ready to be authorized and sent.

    Attributes:
        call: the request.
        reader: makes a reader for one answer.
    """

    call: Call[None]
    reader: Callable[[], CsvReader[R]]


@dataclass(frozen=True, slots=True)
class PagedCall(Generic[R]):
    """Requests whose answers are pages of rows, each of which says where the next one is.

    Attributes:
        first: the request of the first page.
        rows: the rows of a page.
        following: the request of the page after a page, or None for the last page.
    """

    first: Call[Any]
    rows: Callable[[Any], Iterable[R]]
    following: Callable[[Any], Call[Any] | None]

    def after(self, page: Any, seen: set[bytes]) -> Call[Any] | None:
        """The request of the next page, or None.

        Args:
            page: the page that was read.
            seen: fingerprints of the requests so far but for the first one; the next one is added.

        Raises:
            RemoteProtocolError: `answer.pages`, the page was read before, or there are more than 10,000; `answer.link`.
        """
        call = self.following(page)
        if call is not None:
            fingerprint = _fingerprint(call)
            if fingerprint == _fingerprint(self.first) or fingerprint in seen or len(seen) + 1 >= MAX_PAGES:
                raise RemoteProtocolError(
                    "answer.pages", f"page {len(seen) + 1} of {call.name} links to a page before it, or there is no end"
                )
            seen.add(fingerprint)
        return call


def _fingerprint(call: Call[Any]) -> bytes:
    """Hash what distinguishes the request of a page: target of a GET, body of a POST."""
    return sha256(repr((call.message.target, call.message.body)).encode()).digest()


class Calls:
    """Builds the requests of an interface and reads its answers; sends nothing.

    Args:
        interface: its rows and errors.
        base_url: `https://host[:port]`, with a path prefix where a gateway needs one.
        credentials: authenticates the requests.

    Attributes:
        answer_seals: verifies the seals of answers; None verifies none.

    Raises:
        ConfigurationError: `client.base-url`.
    """

    answer_seals: AnswerSeals | None = None

    def __init__(self, interface: Interface, base_url: str, *, credentials: Credentials) -> None:
        self.origin, self._prefix = split_base_url(base_url)
        self._interface = interface
        self._id_header = interface.request_id
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

    def linked_target(self, href: str, *, below: str) -> str:
        """The target of a link in an answer (assumption next-link).

        Args:
            href: an absolute path as the interface has it, or an address of this service.
            below: the path that it must be below.

        Raises:
            RemoteProtocolError: `answer.link`.
        """
        path = href.removeprefix(self.origin)
        if self._prefix and path.startswith(f"{self._prefix}{below}/"):
            path = path.removeprefix(self._prefix)
        found = _LINK.fullmatch(path) if len(path) <= MAX_LINK and path.startswith(f"{below}/") else None
        target = self._prefix + path
        if (
            found is None
            or not {".", ".."}.isdisjoint(found[1].split("/"))
            or httpx.URL(self.origin + target).raw_path != target.encode("ascii")
        ):
            raise RemoteProtocolError("answer.link", f"the link {shown(href)} is not a path below {below}")
        return target

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
        echoed = answer.headers.get(header, answer.headers.get(self._id_header or header))
        if echoed is not None and echoed.lower() == call.request_id.lower():
            return
        found = f"without {header}" if echoed is None else f"for the {header} {shown(echoed)}"
        error = _not_known("answer.request-id", f"was answered {answer.status} {found}", call, answer)
        if echoed is None and answer.status in (401, 404):  # another interface's
            message = f"{error.message}; does the address belong to a PSD2 interface?"
            error = OutcomeUnknown(error.code, message, status=error.status, request_id=error.request_id)
        raise error

    def sealed(self, call: Call[Any], answer: ServerAnswer, response: httpx.Response) -> ServerAnswer:
        """Verify the seal of a whole answer by the client's policy, before its body is read.

        Raises:
            OutcomeUnknown: `answer.unsealed`, `answer.seal`.
        """
        if self.answer_seals is None:
            return answer
        try:
            return answer._replace(verified=self.answer_seals.verify(response, answer.body))
        except SignatureRejected as e:
            raise _not_known(e.code, f"got {e.message}", call, answer) from e.__cause__

    async def sealed_async(self, call: Call[Any], answer: ServerAnswer, response: httpx.Response) -> ServerAnswer:
        """See `sealed`; does not block the event loop."""
        if self.answer_seals is None:
            return answer
        try:
            return answer._replace(verified=await self.answer_seals.verify_async(response, answer.body))
        except SignatureRejected as e:
            raise _not_known(e.code, f"got {e.message}", call, answer) from e.__cause__

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
            RequestRefused, OutcomeUnknown, RemoteProtocolError: see `check_success`.
            OutcomeUnknown: `answer.unreadable`, the success of a request that changes something.
            FormatError: `json.*`, `model.invalid`, another answer.
        """
        self.check_success(call, answer)
        is_page = answer.headers.get("content-type", "").lower().startswith("text/html")
        if is_page and not call.row.safe and call.row.answer.media_type is None:  # of a proxy; no model would reject it
            raise call.outcome_unknown(
                "answer.unreadable", f"{call.name} was answered {answer.status} with a page", answer.status
            )
        if not answer.body and call.no_content is not None:
            return call.no_content
        try:
            return call.result(answer.body)
        except FormatError as e:
            e.with_traceback(None)  # its frames have the body
            if call.row.safe:
                raise e
            reason = f"{call.name} was answered {answer.status}, and the answer cannot be read: {e}"
            raise call.outcome_unknown("answer.unreadable", reason, answer.status) from e

    def is_success(self, call: Call[Any], status: int) -> bool:
        """Whether a status is a success of a call."""
        return self._interface.is_success(call.row, status)

    def peer_error(self, call: Call[Any], answer: ServerAnswer) -> tuple[str | None, str | None]:
        """Code and text of an error answer; None for each that it does not have."""
        return self._interface.refusals.read(answer.body)

    def has_refusal(self, code: str) -> bool:
        """Whether the interface has a code of the service, which can otherwise be any text."""
        return self._interface.refusals.has(code)

    def refusal_class(self, status: int, code: str | None) -> type[RequestRefused]:
        """The class of the error for a refusal."""
        return RequestRefused

    def _is_refusal(self, answer: ServerAnswer) -> bool:
        """Whether the service rejected the request (assumption gateway-repeats)."""
        status = answer.status
        if status == 503:
            return not self.proves_nothing(answer)
        if self._interface.request_id is not None:  # echoed, so the service itself answered
            return status < 500
        # A proxy that has sent the request on may stop waiting for the answer.
        if not 400 <= status < 500 or status in (408, 499):
            return False
        is_named = self.refusal_class(status, None) is not RequestRefused  # by the legacy interface, without a body
        return status in _BEFORE_EXECUTION or is_named or self._interface.refusals.is_error(answer.body)

    def check_success(self, call: Call[Any], answer: ServerAnswer) -> None:
        """Check that an answer is a success.

        Raises:
            RequestRefused: the service answered with an error status.
            OutcomeUnknown: `answer.no-outcome`, it is neither a success nor a refusal of a request that changes something.
            RemoteProtocolError: `answer.redirect`, `answer.status`.
        """
        status = answer.status
        if self.is_success(call, status):
            return
        if not call.row.safe and not self._is_refusal(answer):
            # Also after 500: the service may have failed after it had carried out the request.
            raise call.outcome_unknown("answer.no-outcome", f"{call.name} was answered {status}", status)
        if 300 <= status < 400:
            raise RemoteProtocolError("answer.redirect", f"{call.name} was answered with a redirect ({status})")
        if status >= 400:
            code, text = self.peer_error(call, answer)
            reason = f": {shown(text, limit=200)}" if text else ""
            reason += _sent_path(call, self._prefix) if status == 404 else ""
            raise self.refusal_class(status, code)(
                f"{call.name} was refused: {status} {code or 'without a code'}{reason}",
                status=status, peer_code=code, peer_text=text, request_id=call.request_id,
            )  # fmt: skip
        raise RemoteProtocolError("answer.status", f"{call.name} was answered {status}, not {call.row.success}")


def _sent_path(call: Call[Any], prefix: str) -> str:
    """The path that was not found, where the base address adds to it."""
    if not prefix:
        return ""
    parts = prefix.split("/")
    is_repeated = any(call.row.path.startswith("/".join(["", *parts[n:], ""])) for n in range(1, len(parts)))
    advice = ": the base address must not repeat the beginning of the path" if is_repeated else ""
    return f"; sent to {prefix}{call.row.path}{advice}"


def _not_known(code: str, reason: str, call: Call[Any], answer: ServerAnswer) -> OutcomeUnknown:
    message = f"{call.name} {call.request_id} {reason}, so it is not known what became of the request"
    return OutcomeUnknown(
        code, f"{message}; {call.to_find_out or 'ask again'}", status=answer.status, request_id=call.request_id or ""
    )  # fmt: skip


def _check_plain(header: Header) -> Header:
    name, value = header
    if not (value.isascii() and value.isprintable()):
        raise FormatError("header.control-character", f"the value for {name} is not printable ASCII: {shown(value)}")
    return header
