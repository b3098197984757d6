"""Methods of clients, for threads and for asyncio, from one declaration of each endpoint.

class Psd2Client(SyncClient[Psd2Calls]):
payment_status = Method(Psd2Calls.payment_status)
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from tppkit.client.calls import Call, Calls, PagedCall, StreamCall
from tppkit.client.driver import AsyncClient, SyncClient

C = TypeVar("C", bound=Calls)
R = TypeVar("R")
P = ParamSpec("P")


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
        if isinstance(client, AsyncClient):
            return _built_async(self._build, client)
        return self._build if client is None else _built(self._build, client.calls, client.send)


class StreamMethod(Generic[C, P, R]):
    """A method of a client whose result is rows, of one streamed answer or of pages that link to each other.

    It is a generator on a `SyncClient`, an asynchronous one on an `AsyncClient`.

    Args:
        build: a method of the client's `Calls`.

    Example:
        search_csv = StreamMethod(GatewayCalls.search_csv)
    """

    def __init__(self, build: Callable[Concatenate[C, P], StreamCall[R] | PagedCall[R]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[C, P], StreamCall[R] | PagedCall[R]]: ...
    @overload
    def __get__(self, client: SyncClient[C], owner: type) -> Callable[P, Generator[R, None, None]]: ...
    @overload
    def __get__(self, client: AsyncClient[C], owner: type) -> Callable[P, AsyncGenerator[R, None]]: ...
    def __get__(self, client: SyncClient[C] | AsyncClient[C] | None, owner: type) -> Any:
        """The method of this client."""
        if client is None:
            return self._build

        def send(call: StreamCall[R] | PagedCall[R]) -> Any:
            return client.pages(call) if isinstance(call, PagedCall) else client.stream(call)

        return _built(self._build, client.calls, send)


def _built(build: Callable[..., Any], calls: Calls, send: Callable[[Any], Any]) -> Callable[..., Any]:
    @wraps(build)
    def method(*args: Any, **kwargs: Any) -> Any:
        return send(build(calls, *args, **kwargs))

    return method


def _built_async(build: Callable[..., Any], client: AsyncClient[C]) -> Callable[..., Any]:
    @wraps(build)
    async def method(*args: Any, **kwargs: Any) -> Any:
        return await client.send(build(client.calls, *args, **kwargs))

    return method
