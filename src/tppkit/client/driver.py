"""Sends the calls of every interface, for threads and for asyncio, from one declaration of each endpoint.

    class Calls(driver.Calls):
        def payment_status(self, payment_id: str) -> Call[PaymentStatus]: ...

    class Client(SyncClient[Calls]):
        payment_status = Method(Calls.payment_status)

Connections are kept alive between calls. Redirects are never followed, and proxy settings of the environment are ignored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType, TracebackType
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, Self, TypeVar, cast, overload
from urllib.parse import urlsplit

import httpx

from tppkit._encoding import shown
from tppkit.client.connections import DEFAULT_TIMEOUT_S, make_async_client, make_client
from tppkit.client.deadline import deadline
from tppkit.client.http_libraries import FAILURES, TIMEOUTS
from tppkit.client.identity import Identity
from tppkit.errors import (
    ConfigurationError,
    FormatError,
    LocalProtocolError,
    OutcomeUnknown,
    RemoteProtocolError,
    RequestRefused,
    TransportError,
)
from tppkit.httpsig.components import parse_origin
from tppkit.httpsig.message import Header, Message
from tppkit.protocol.endpoint import Endpoint, Interface

MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_ATTEMPTS = 3
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 60.0

# Overrides what a client that is passed in does with its own requests.
_PLAIN: Mapping[str, Any] = MappingProxyType({"stream": True, "follow_redirects": False, "auth": None})

Q = TypeVar("Q")
A = TypeVar("A")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
P = ParamSpec("P")


class ServerAnswer(NamedTuple):
    """An answer as it came.

    Attributes:
        status: HTTP status.
        headers: by lower-case name.
        body: raw bytes.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


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
        interval_s: seconds between two calls.
        wait_s: give up after this many seconds.
        not_final: the error to raise then, for the last result.
    """

    until: Callable[[R], bool]
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
            headers: further headers.
            request_id: the id of the request, where the interface has one.
            to_find_out: as in `Call`.
            **parameters: of the path.

        Raises:
            FormatError: `header.control-character`.
        """
        body = row.request.write(content)
        fields = [("Accept", row.answer.media_type or "*/*"), *map(_check_plain, headers)]
        if row.request.media_type is not None:
            # The length too: the library would add it after the seal, and some dialects cover it where it is present.
            fields += [("Content-Type", row.request.media_type), ("Content-Length", str(len(body)))]
        message = Message(row.method, self._prefix + row.target(**parameters), tuple(fields), body)
        return Call(row, message, lambda raw: row.answer.read(raw, tolerant=True), request_id, to_find_out)

    def check_answer(self, call: Call[Any], answer: ServerAnswer) -> None:
        """Check that an answer belongs to its request, before anything else in it is used.

        A server or proxy that sends one answer too many shifts all later answers of the connection, so close the connection after a
        failure.

        Raises:
            OutcomeUnknown: `answer.request-id`.
        """
        if call.request_id is None or self._interface.request_id is None:
            return
        echoed = answer.headers.get(self._interface.request_id)
        if echoed is not None and echoed.lower() == call.request_id.lower():
            return
        found = "without X-Request-ID" if echoed is None else f"for the X-Request-ID {shown(echoed)}"
        raise OutcomeUnknown(
            "answer.request-id",
            f"{call.name} {call.request_id} was answered {answer.status} {found}, so it is not known what became of the request; "
            f"{call.to_find_out or 'ask again'}",
            status=answer.status, request_id=call.request_id,
        )  # fmt: skip

    def read(self, call: Call[R], answer: ServerAnswer) -> R:
        """The result of an answer that belongs to its request.

        Raises:
            RequestRefused: the service answered with an error status.
            RemoteProtocolError: `answer.redirect`, `answer.status`.
            FormatError: `json.*`, `model.invalid`.
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
        return call.result(answer.body)


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


C = TypeVar("C", bound=Calls)


class _Client(Generic[C]):
    """What both clients share.

    Args:
        calls: builds and reads them.
        timeout_s: for each attempt of a call, in seconds, however slowly the answer comes.
        clock: monotonic seconds.
    """

    def __init__(self, calls: C, timeout_s: float, clock: Callable[[], float]) -> None:
        self.calls = calls
        self._timeout_s = timeout_s
        self._clock = clock

    def _request(self, client: httpx.Client | httpx.AsyncClient, message: Message) -> httpx.Request:
        request = client.build_request(
            message.method, self.calls.origin + message.target, headers=list(message.headers), content=message.body or None
        )  # fmt: skip
        if request.url.raw_path != message.target.encode("ascii"):
            raise LocalProtocolError("client.target", "the HTTP library would send another target than the sealed one")
        return request

    def _steps(self, call: Call[R]) -> Generator[_Step, Any, R]:
        """What a call does, step by step; a client carries out each step and sends back its outcome."""
        polling = call.polling
        if polling is None:
            return (yield from self._once(call))
        end = self._clock() + polling.wait_s
        while True:
            result = yield from self._once(call)
            if polling.until(result):
                return result
            if self._clock() + polling.interval_s > end:
                raise polling.not_final(result)
            yield _Pause(polling.interval_s)

    def _once(self, call: Call[R]) -> Generator[_Step, Any, R]:
        message = yield _Authorize(call)
        attempts = Attempts(call.row)
        while True:
            answer: ServerAnswer | None = None
            try:
                answer = yield _Send(call, message)
            except TransportError as e:
                # After a timeout the caller's time is over.
                pause_s = attempts.pause_s(None) if e.code == "transport.failed" else None
                if pause_s is None:
                    raise
            else:
                pause_s = attempts.pause_s(answer)
                if pause_s is None:
                    return self.calls.read(call, answer)
            yield _Pause(pause_s)


class _Authorize(NamedTuple):
    call: Call[Any]


class _Send(NamedTuple):
    call: Call[Any]
    message: Message


class _Pause(NamedTuple):
    seconds: float


_Step = _Authorize | _Send | _Pause


class SyncClient(_Client[C]):
    """Sends calls from threads.

    Args:
        calls: builds and reads them.
        identity: shown to the server.
        timeout_s: for each attempt of a call, in seconds, however slowly the answer comes.
        http: a client to use instead of an own one, as `make_client` gives it; it is not closed, and its own `auth` and redirects
            are not used.
        sleep: waits a number of seconds.
        clock: monotonic seconds.
    """

    def __init__(
        self, calls: C, identity: Identity, *, timeout_s: float = DEFAULT_TIMEOUT_S, http: httpx.Client | None = None,
        sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        super().__init__(calls, timeout_s, clock)
        self._own = http is None
        self._http = make_client(identity, timeout_s=timeout_s) if http is None else http
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._own:
            self._http.close()

    def send(self, call: Call[R]) -> R:
        """Send a call, and again where its row allows it.

        Raises:
            RequestRefused: the service answered with an error.
            OutcomeUnknown, RemoteProtocolError, FormatError: the answer is not one of the interface.
            TransportError: `transport.timeout`, `transport.failed`, or the call's own error if polling ends without a final result.
        """
        steps = self._steps(call)
        try:
            step = next(steps)
            while True:
                try:
                    outcome = self._carry_out(step)
                except TransportError as e:
                    step = steps.throw(e)
                else:
                    step = steps.send(outcome)
        except StopIteration as e:
            return cast("R", e.value)

    def _carry_out(self, step: _Step) -> Message | ServerAnswer | None:
        match step:
            case _Authorize(call):
                return self.calls.credentials.authorize(call.row, call.message)
            case _Send(call, message):
                return self._exchange(call, message)
            case _Pause(seconds):
                self._sleep(seconds)
        return None

    def _exchange(self, call: Call[Any], message: Message) -> ServerAnswer:
        with _transport_errors(), deadline(self._timeout_s):
            response = self._http.send(self._request(self._http, message), **_PLAIN)
            try:
                answer = ServerAnswer(response.status_code, response.headers)
                self.calls.check_answer(call, answer)
                body = bytearray()
                # A hook or transport of the caller's may have read the answer.
                for chunk in [response.content] if response.is_stream_consumed else response.iter_raw():
                    _extend(body, chunk)
                return answer._replace(body=bytes(body))
            except OutcomeUnknown:
                if stream := response.extensions.get("network_stream"):
                    stream.close()  # the body may have been read, so that the connection would serve the next request
                raise
            finally:
                response.close()


class AsyncClient(_Client[C]):
    """Sends calls from asyncio tasks. Arguments and errors are those of `SyncClient`."""

    def __init__(
        self, calls: C, identity: Identity, *, timeout_s: float = DEFAULT_TIMEOUT_S, http: httpx.AsyncClient | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        super().__init__(calls, timeout_s, clock)
        self._own = http is None
        self._http = make_async_client(identity, timeout_s=timeout_s) if http is None else http
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._own:
            await self._http.aclose()

    async def send(self, call: Call[R]) -> R:
        """Send a call; as `SyncClient.send`."""
        steps = self._steps(call)
        try:
            step = next(steps)
            while True:
                try:
                    outcome = await self._carry_out(step)
                except TransportError as e:
                    step = steps.throw(e)
                else:
                    step = steps.send(outcome)
        except StopIteration as e:
            return cast("R", e.value)

    async def _carry_out(self, step: _Step) -> Message | ServerAnswer | None:
        match step:
            case _Authorize(call):
                return await self.calls.credentials.authorize_async(call.row, call.message)
            case _Send(call, message):
                return await self._exchange(call, message)
            case _Pause(seconds):
                await self._sleep(seconds)
        return None

    async def _exchange(self, call: Call[Any], message: Message) -> ServerAnswer:
        with _transport_errors():
            async with asyncio.timeout(self._timeout_s):
                response = await self._http.send(self._request(self._http, message), **_PLAIN)
                try:
                    answer = ServerAnswer(response.status_code, response.headers)
                    self.calls.check_answer(call, answer)
                    body = bytearray()
                    if response.is_stream_consumed:
                        _extend(body, response.content)
                    else:
                        async for chunk in response.aiter_raw():
                            _extend(body, chunk)
                    return answer._replace(body=bytes(body))
                except OutcomeUnknown:
                    if stream := response.extensions.get("network_stream"):
                        await stream.aclose()
                    raise
                finally:
                    await response.aclose()


class Method(Generic[C, P, R]):
    """A method of a client, made from the builder of its request.

    On a `SyncClient` it returns the result, on an `AsyncClient` a coroutine, on the class the builder itself.

    Args:
        build: a method of the client's `Calls`.

    Example:
        payment_status = Method(Psd2Calls.payment_status)
    """

    def __init__(self, build: Callable[Concatenate[C, P], Call[R]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[C, P], Call[R]]: ...
    @overload
    def __get__(self, client: SyncClient[C], owner: type) -> Callable[P, R]: ...
    @overload
    def __get__(self, client: AsyncClient[C], owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, client: SyncClient[C] | AsyncClient[C] | None, owner: type) -> Any:
        """The method of this client."""
        if client is None:
            return self._build
        build, calls, send = self._build, client.calls, client.send
        if isinstance(client, AsyncClient):

            @wraps(build)
            async def send_async(*args: P.args, **kwargs: P.kwargs) -> R:
                return cast("R", await client.send(build(calls, *args, **kwargs)))

            return send_async

        @wraps(build)
        def send_sync(*args: P.args, **kwargs: P.kwargs) -> R:
            return cast("R", send(build(calls, *args, **kwargs)))

        return send_sync


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


def _extend(body: bytearray, chunk: bytes) -> None:
    # Raw chunks: an uncompressed answer was asked for, and unpacking another one could fill the memory in one step.
    body += chunk
    if len(body) > MAX_ANSWER_BYTES:
        raise RemoteProtocolError("answer.too-large", f"the answer has more than {MAX_ANSWER_BYTES} bytes")


@contextmanager
def _transport_errors() -> Iterator[None]:
    try:
        yield
    except TIMEOUTS as e:
        raise TransportError("transport.timeout", f"the bank did not answer in time ({type(e).__name__})") from e
    except FAILURES as e:
        raise TransportError("transport.failed", f"the connection failed: {str(e)[:200] or type(e).__name__}") from e
