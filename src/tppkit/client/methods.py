"""Methods of clients, made from the builders of their requests, for threads and asyncio alike.

payment_status = Method(Psd2Calls.payment_status)
search_csv = StreamMethod(GatewayCalls.search_csv)
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from tppkit.client.calls import Call, Calls, StreamCall
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


class StreamMethod(Generic[C, P, R]):
    """A method of a client whose result is rows, made from the builder of its request.

    On a `SyncClient` it returns a generator of rows, on an `AsyncClient` an asynchronous one, on the class the builder itself.

    Args:
        build: a method of the client's `Calls`.

    Example:
        search_csv = StreamMethod(GatewayCalls.search_csv)
    """

    def __init__(self, build: Callable[Concatenate[C, P], StreamCall[R]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[C, P], StreamCall[R]]: ...
    @overload
    def __get__(self, client: SyncClient[C], owner: type) -> Callable[P, Generator[R, None, None]]: ...
    @overload
    def __get__(self, client: AsyncClient[C], owner: type) -> Callable[P, AsyncGenerator[R, None]]: ...
    def __get__(self, client: SyncClient[C] | AsyncClient[C] | None, owner: type) -> Any:
        """The method of this client."""
        if client is None:
            return self._build
        build, calls, stream = self._build, client.calls, client.stream

        @wraps(build)
        def start(*args: P.args, **kwargs: P.kwargs) -> Any:
            return stream(build(calls, *args, **kwargs))

        return start
