"""Sends the calls of every interface, for threads and for asyncio, from one declaration of each endpoint.

    class Psd2Client(SyncClient[Psd2Calls]):
        payment_status = Method(Psd2Calls.payment_status)

Connections are kept alive between calls. Redirects are never followed, and proxy settings of the environment are ignored.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import AsyncExitStack, ExitStack, aclosing, closing, contextmanager
from functools import partial, update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, get_args, overload

import httpx

from tppkit._handlers import call_count, require_run
from tppkit._locals import without_locals
from tppkit.client.answers import (
    PASSING,
    AnswerBody,
    TransportErrors,
    is_passing,
    is_unsent,
    opened_answer,
    opened_answer_async,
    pause_before_repeat_s,
    read_next,
    read_next_async,
)
from tppkit.client.calls import Call, Calls, PagedCall, ServerAnswer, StreamCall
from tppkit.client.connections import DEFAULT_TIMEOUT_S, PLAIN, client_options
from tppkit.client.identity import Identity
from tppkit.client.tls_context import NoCertificate
from tppkit.client.tls_deadline import deadline
from tppkit.errors import (
    LocalProtocolError,
    OutcomeUnknown,
    RemoteProtocolError,
    RequestRefused,
    TppkitError,
    TransportError,
    code_of,
)
from tppkit.message import Message
from tppkit.metrics import Count
from tppkit.protocol.reports import CsvReader

_LOG = logging.getLogger("tppkit.client")

C = TypeVar("C", bound=Calls)
R = TypeVar("R")
A = TypeVar("A")
P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])

_Step = Callable[[], Any]
_Reader = Callable[[], CsvReader[Any]] | None


class _Client(Generic[C]):
    """The common part of both clients. A step is a function of the client, which the client calls or awaits."""

    _attempt: Callable[..., Any]

    def __init__(
        self, calls: C, timeout_s: float, clock: Callable[[], float] | None, sleep: Callable[[float], Any], authorize: Callable[..., Any],
        count: Count | None,
    ) -> None:  # fmt: skip
        require_run(awaited=False, count=count)
        self._count = count
        self.calls, self._timeout_s, self._clock = calls, timeout_s, clock or time.monotonic
        self._sleep, self._authorize = sleep, authorize

    def _request(self, client: httpx.Client | httpx.AsyncClient, message: Message) -> httpx.Request:
        request = client.build_request(
            message.method, self.calls.origin + message.target, headers=list(message.headers), content=message.body or None
        )  # fmt: skip
        if request.url.raw_path != message.target.encode("ascii"):
            raise LocalProtocolError("client.target", "the HTTP library would send another target than the sealed one")
        return request

    def _steps(self, call: Call[R]) -> Generator[_Step, Any, R]:
        """What a call does, step by step; the client sends back the outcome of each step."""
        polling = call.polling
        if polling is None:
            return (yield from self._looked_up(call))
        end = self._clock() + polling.wait_s
        while True:
            result = yield from self._read(call, floor_s=polling.interval_s, end=end)
            if polling.until(result):
                return result
            if self._clock() + polling.interval_s > end:
                raise polling.not_final(result)
            yield partial(self._sleep, polling.interval_s)
            call = polling.again()

    def _looked_up(self, call: Call[R]) -> Generator[_Step, Any, R]:
        """Send a call; if its answer is lost, find out by its look-up what became of it."""
        try:
            return (yield from self._read(call))
        except (OutcomeUnknown, TransportError) as e:
            lost, lookup, found = e, call.lookup, None
            if lookup is None or is_unsent(e):
                raise
        try:
            found = lookup.call and (yield from self._read(lookup.call))
        except TppkitError as e:
            found = e
        raise lookup.conclude(lost, found) from lost

    def _read(self, call: Call[R], *, floor_s: float = 0.0, end: float = math.inf) -> Generator[_Step, Any, R]:
        """Send the request of a call, read its answer, and count it."""
        with self._counted():
            return self.calls.read(call, (yield from self._once(call, floor_s=floor_s, end=end)))

    @contextmanager
    def _counted(self) -> Iterator[None]:
        begin, outcome, code = self._clock(), "answered", ""
        try:
            yield
        except GeneratorExit:  # the caller reads no more rows of a stream
            raise
        except BaseException as e:
            outcome, code = "failed", code_of(e)
            if isinstance(e, RequestRefused):
                outcome = "refused"
                code = e.peer_code if e.peer_code and self.calls.has_refusal(e.peer_code) else code
            raise
        finally:
            call_count(self._count, _LOG, outcome, code, self._clock() - begin)

    def _once(
        self, call: Call[Any], reader: _Reader = None, *, floor_s: float = 0.0, end: float = math.inf
    ) -> Generator[_Step, Any, ServerAnswer]:
        message = yield partial(self._authorize, call.row, call.message)
        made, may_be_done, may_be_sent = 0, False, False
        while True:
            made += 1
            try:
                answer = yield partial(self._attempt, call, message, reader)
            except TransportError as e:
                left_s = end - self._clock()
                pause_s = pause_before_repeat_s(call.row, made, None, floor_s, left_s) if is_passing(e) else None
                may_be_sent |= not is_unsent(e)
                if pause_s is None:
                    text = call.advised(e.message) if may_be_sent else f"{e.message}; nothing was sent"
                    raise TransportError(e.code, text, request_id=call.request_id) from e.__cause__
                may_be_done |= not call.row.safe and not is_unsent(e)
            except RemoteProtocolError as e:
                may_be_sent = True
                if not call.row.safe and not isinstance(e, OutcomeUnknown):
                    raise call.outcome_unknown(e.code, e.message) from e
                if not call.row.safe or getattr(e, "status", None) not in PASSING:
                    raise
                # A proxy answered, without the request id.
                pause_s = pause_before_repeat_s(call.row, made, None, floor_s, end - self._clock())
                if pause_s is None:
                    raise
            else:
                may_be_sent = True
                pause_s = pause_before_repeat_s(call.row, made, answer, floor_s, end - self._clock())
                if pause_s is None:
                    if may_be_done and answer.status >= 400:
                        raise self.calls.not_known(call, answer)
                    return cast("ServerAnswer", answer)
                may_be_done |= not call.row.safe and self.calls.proves_nothing(answer)
            yield partial(self._sleep, pause_s)


class SyncClient(_Client[C]):
    """Sends calls from threads.

    Args:
        calls: builds and reads them.
        identity: the client certificate; `NoCertificate` for interfaces that use a key.
        timeout_s: time limit for each attempt of a call, in seconds.
        http: a client from `make_client` to use instead of a new one; it is not closed, and its own `auth` and redirects are not used.
        sleep: waits a number of seconds; by default `time.sleep`.
        clock: monotonic seconds; by default `time.monotonic`.
        count: called once for each request, after its last repetition: `answered`; `refused` with the service's code if the interface
            has it, otherwise `request.refused`; or `failed` with the code of the error, if it is not known what the service did. Each
            poll, page and look-up after a lost answer is a request of its own. Seconds include pauses before repetitions, and for a
            stream the time until its last row is read.
    """

    def __init__(
        self, calls: C, identity: Identity | NoCertificate, *, timeout_s: float = DEFAULT_TIMEOUT_S, http: httpx.Client | None = None,
        sleep: Callable[[float], None] | None = None, clock: Callable[[], float] | None = None, count: Count | None = None,
    ) -> None:  # fmt: skip
        super().__init__(calls, timeout_s, clock, sleep or time.sleep, calls.credentials.authorize, count)
        self._own = http is None
        self._http = httpx.Client(**client_options(identity, timeout_s=timeout_s)) if http is None else http

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._own:
            self._http.close()

    def _send(self, call: Call[R]) -> R:
        """Send a call, and again where its row allows it.

        Raises:
            RequestRefused: the service answered with an error.
            OutcomeUnknown, RemoteProtocolError, FormatError: the answer is not one of the interface.
            TransportError: `transport.timeout`, `transport.failed`, or the call's own error if polling ends without a final result.
        """
        return cast("R", self._run(self._steps(call)))

    def _stream(self, call: StreamCall[R]) -> Generator[R, None, None]:
        """Send a call when the first row is asked for, and yield the rows of its answer as they arrive.

        The call is sent again, where its row allows it, only before the first row. Between two rows `timeout_s` may pass. If you do
        not read all rows, close the generator (`contextlib.closing`) to close the connection.

        Raises:
            RequestRefused: the service answered with an error.
            RemoteProtocolError, FormatError: the answer is not one of the interface; `csv.cut-off`, `answer.no-end`.
            TransportError: `transport.timeout`, `transport.failed`, also after some rows: discard them.
        """
        with self._counted():
            answer = self._run(self._once(call.call, call.reader))
            self.calls.check_success(call.call, answer)
            with closing(answer.batches) as batches:
                for batch in batches:
                    yield from batch

    def _pages(self, paged: PagedCall[R]) -> Generator[R, None, None]:
        """Send the request of each page when its first row is asked for, and yield the rows.

        Raises:
            RemoteProtocolError: `answer.link`, `answer.pages`, after the rows of the page; otherwise as `_send`.
        """
        call: Call[Any] | None = paged.first
        seen: set[bytes] = set()
        while call is not None:
            page = self._send(call)
            yield from paged.rows(page)
            call = paged.after(page, seen)

    def _run(self, steps: Generator[_Step, Any, Any]) -> Any:
        try:
            step = next(steps)
            while True:
                try:
                    outcome = step()
                except BaseException as e:  # noqa: BLE001  # raised where the step was yielded
                    step = steps.throw(e)
                else:
                    step = steps.send(outcome)
        except StopIteration as e:
            return e.value

    def _attempt(self, call: Call[Any], message: Message, reader: _Reader) -> ServerAnswer:
        request = self._request(self._http, message)
        if reader is None:
            with closing(self._batches(call, request)) as whole:
                answer = cast("ServerAnswer", next(whole))
            if self.calls.answer_seals is not None:
                self.calls.answer_seals.keep(answer.verified)
            return answer
        batches = self._batches(call, request, reader())
        return cast("ServerAnswer", next(batches))._replace(batches=batches)

    def _batches(
        self, call: Call[Any], request: httpx.Request, reader: CsvReader[Any] | None = None
    ) -> Generator[Any, None, None]:
        """Yield the answer once its first rows have arrived, then its rows."""
        with TransportErrors(), ExitStack() as opened:
            with deadline(self._timeout_s):
                response = self._http.send(request, **PLAIN)
                answer, chunks = opened.enter_context(opened_answer(self.calls, call, response))
                body = AnswerBody(reader if self.calls.is_success(call, answer.status) else None)
                rows = read_next(chunks, body)
            answer = self.calls.sealed(call, answer._replace(body=bytes(body.raw)), response)
            if not rows:
                opened.close()
            yield answer
            while rows:
                yield rows
                with deadline(self._timeout_s):
                    rows = read_next(chunks, body)


class AsyncClient(_Client[C]):
    """Sends calls from asyncio tasks. Arguments and errors are those of `SyncClient`."""

    def __init__(
        self, calls: C, identity: Identity | NoCertificate, *, timeout_s: float = DEFAULT_TIMEOUT_S, http: httpx.AsyncClient | None = None,
        sleep: Callable[[float], Awaitable[None]] | None = None, clock: Callable[[], float] | None = None, count: Count | None = None,
    ) -> None:  # fmt: skip
        super().__init__(calls, timeout_s, clock, sleep or asyncio.sleep, calls.credentials.authorize_async, count)
        self._own = http is None
        self._http = httpx.AsyncClient(**client_options(identity, timeout_s=timeout_s)) if http is None else http

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._own:
            await self._http.aclose()

    async def _send(self, call: Call[R]) -> R:
        """Send a call; as `SyncClient._send`."""
        return cast("R", await self._run(self._steps(call)))

    async def _stream(self, call: StreamCall[R]) -> AsyncGenerator[R, None]:
        """Send a call, and yield the rows of its answer; as `SyncClient._stream`, closed by `contextlib.aclosing`."""
        with self._counted():
            answer = await self._run(self._once(call.call, call.reader))
            self.calls.check_success(call.call, answer)
            async with aclosing(answer.batches) as batches:
                async for batch in batches:
                    for row in batch:
                        yield row

    async def _pages(self, paged: PagedCall[R]) -> AsyncGenerator[R, None]:
        """Send the request of each page, and yield the rows; as `SyncClient._pages`."""
        call: Call[Any] | None = paged.first
        seen: set[bytes] = set()
        while call is not None:
            page = await self._send(call)
            for row in paged.rows(page):
                yield row
            call = paged.after(page, seen)

    async def _run(self, steps: Generator[_Step, Any, Any]) -> Any:
        try:
            step = next(steps)
            while True:
                try:
                    outcome = await step()
                except BaseException as e:  # noqa: BLE001  # raised where the step was yielded
                    step = steps.throw(e)
                else:
                    step = steps.send(outcome)
        except StopIteration as e:
            return e.value

    async def _attempt(self, call: Call[Any], message: Message, reader: _Reader) -> ServerAnswer:
        request = self._request(self._http, message)
        if reader is None:
            async with aclosing(self._batches(call, request)) as whole:
                answer = cast("ServerAnswer", await anext(whole))
            if self.calls.answer_seals is not None:
                await self.calls.answer_seals.keep_async(answer.verified)
            return answer
        batches = self._batches(call, request, reader())
        return cast("ServerAnswer", await anext(batches))._replace(batches=batches)

    async def _batches(
        self, call: Call[Any], request: httpx.Request, reader: CsvReader[Any] | None = None
    ) -> AsyncGenerator[Any, None]:
        with TransportErrors():
            async with AsyncExitStack() as opened:
                async with asyncio.timeout(self._timeout_s):
                    response = await self._http.send(request, **PLAIN)
                    answer, chunks = await opened.enter_async_context(opened_answer_async(self.calls, call, response))
                    body = AnswerBody(reader if self.calls.is_success(call, answer.status) else None)
                    rows = await read_next_async(chunks, body)
                answer = await self.calls.sealed_async(call, answer._replace(body=bytes(body.raw)), response)
                if not rows:
                    await opened.aclose()
                yield answer
                while rows:
                    yield rows
                    async with asyncio.timeout(self._timeout_s):
                        rows = await read_next_async(chunks, body)


class _Method(Generic[C, P, R, A]):
    """Two functions with one name: that of a `SyncClient`, and that of an `AsyncClient`."""

    def __init__(
        self, sync: Callable[Concatenate[SyncClient[C], P], R], aio: Callable[Concatenate[AsyncClient[C], P], A]
    ) -> None:
        self._sync, self._async = sync, aio

    @overload
    def __get__(self, client: None, owner: type[AsyncClient[C]]) -> Callable[Concatenate[AsyncClient[C], P], A]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[SyncClient[C], P], R]: ...
    @overload
    def __get__(self, client: SyncClient[C], owner: type) -> Callable[P, R]: ...
    @overload
    def __get__(self, client: AsyncClient[C], owner: type) -> Callable[P, A]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """The function of this client."""
        return (self._async if issubclass(owner, AsyncClient) else self._sync).__get__(client, owner)


class Method(_Method[C, P, R, Coroutine[Any, Any, R]]):
    """A method of a client, made from the builder of its request.

    On a `SyncClient` it is a function that returns the result, on an `AsyncClient` a coroutine function.

    Args:
        build: a method of the client's `Calls`.

    Example:
        payment_status = Method(Psd2Calls.payment_status)
    """

    def __init__(self, build: Callable[Concatenate[C, P], Call[R]]) -> None:
        prepare = _named(build)

        def sync(client: SyncClient[C], /, *args: P.args, **kwargs: P.kwargs) -> R:
            try:
                call = prepare(client, *args, **kwargs)
            finally:
                del args, kwargs  # access tokens, and personal data
            return client._send(call)

        async def aio(client: AsyncClient[C], /, *args: P.args, **kwargs: P.kwargs) -> R:
            try:
                call = prepare(client, *args, **kwargs)
            finally:
                del args, kwargs
            return await client._send(call)

        super().__init__(_as_method(sync, build), _as_method(aio, build))


class StreamMethod(_Method[C, P, Generator[R, None, None], AsyncGenerator[R, None]]):
    """A method of a client whose result is rows, of one streamed answer or of pages.

    It returns a generator on a `SyncClient`, an asynchronous one on an `AsyncClient`.

    Args:
        build: a method of the client's `Calls`.

    Example:
        report = StreamMethod(GatewayCalls.report)
    """

    def __init__(self, build: Callable[Concatenate[C, P], StreamCall[R] | PagedCall[R]]) -> None:
        prepare = _named(build)

        def sync(client: SyncClient[C], /, *args: P.args, **kwargs: P.kwargs) -> Generator[R, None, None]:
            call = prepare(client, *args, **kwargs)
            return client._pages(call) if isinstance(call, PagedCall) else client._stream(call)

        def aio(client: AsyncClient[C], /, *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[R, None]:
            call = prepare(client, *args, **kwargs)
            return client._pages(call) if isinstance(call, PagedCall) else client._stream(call)

        rows, async_rows = Generator[R, None, None], AsyncGenerator[R, None]
        super().__init__(_as_method(sync, build, rows), _as_method(aio, build, async_rows))


def _named(build: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[_Client[C], P], R]:
    """Return a builder for a client; the TypeError of a wrong argument names the client's method."""

    def named(client: _Client[C], /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return build(client.calls, *args, **kwargs)
        except TypeError as e:
            e.args = (str(e).replace(f"{build.__qualname__}(", f"{type(client).__name__}.{build.__name__}("),)
            raise

    return without_locals(named)


def _as_method(function: F, build: Callable[..., Any], rows: Any = None) -> F:
    """Give a function the name, docstring and parameters of a builder, and as result the type in its `Call[...]`, or `rows` of it."""
    signature = inspect.signature(build, eval_str=True)
    (result,) = get_args(signature.return_annotation)
    signature = signature.replace(return_annotation=rows[result] if rows else result)
    method: Any = update_wrapper(function, build)
    method.__signature__ = signature
    # Documentation tools read the types of parameters and result here.
    types = {name: parameter.annotation for name, parameter in signature.parameters.items() if name != "self"}
    method.__annotations__ = {**types, "return": signature.return_annotation}
    return function
