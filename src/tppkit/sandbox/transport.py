"""An httpx transport to ASGI applications in another thread's event loop, without sockets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import unquote

import httpx
from starlette.types import ASGIApp

from tppkit.web.sources import RAW_TARGET

T = TypeVar("T")

_LOGGER = logging.getLogger("tppkit.sandbox.http")


class SandboxTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Sends the requests of a client for threads or for asyncio. Answers are not streamed.

    Args:
        apps: the applications by their origins, for example `https://localhost:8443`.
        loop: the event loop in which they run.
        peer: returns the client certificates for https origins, PEM, the client's own first; empty without certificates.

    Example:
        httpx.Client(transport=SandboxTransport(apps, loop))
    """

    def __init__(
        self, apps: Mapping[str, ASGIApp], loop: asyncio.AbstractEventLoop, *, peer: Callable[[], Sequence[str]] = tuple
    ) -> None:
        self._apps, self._loop, self._peer = apps, loop, peer

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.BaseTransport`.

        Raises:
            httpx.TransportError: there is no such host, it was closed, or its answer was incomplete or too late.
        """
        request.read()
        with _failures(request):
            return submit(self._answer(request), self._loop).result(_timeout_s(request))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.AsyncBaseTransport`; errors are those of `handle_request`."""
        await request.aread()
        with _failures(request):
            async with asyncio.timeout(_timeout_s(request)):
                return await asyncio.wrap_future(submit(self._answer(request), self._loop))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        app = self._apps.get(f"{request.url.scheme}://{request.url.netloc.decode('ascii')}")
        if app is None:
            raise ConnectionError("the sandbox has no host at this address")
        status, headers, chunks, is_whole = 0, [], [], False
        bodies = [request.content]

        async def receive() -> Any:
            if not bodies:
                await asyncio.Event().wait()  # the client does not disconnect
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}

        async def send(event: Any) -> None:
            nonlocal status, headers, is_whole
            if event["type"] == "http.response.start":
                status, headers = event["status"], list(event["headers"])
            else:
                chunks.append(event.get("body", b""))
                is_whole = not event.get("more_body", False)

        try:
            await app(self._scope(request), receive, send)
        except Exception as e:  # any error of the application
            # Starlette answers 500 and raises the error again for the server, which logs it.
            _LOGGER.exception("the application failed")
            if not is_whole:
                raise ConnectionError("the application failed without a whole answer") from e
        if not is_whole:
            raise ConnectionError("the answer was cut off")
        body = b"" if request.method == "HEAD" else b"".join(chunks)
        return httpx.Response(status, headers=headers, content=body)

    def _scope(self, request: httpx.Request) -> dict[str, Any]:
        """Return the same scope as the sandbox's server."""
        url, target = request.url, request.url.raw_path
        path, _, query = target.partition(b"?")
        extensions: dict[str, Any] = {RAW_TARGET: {"target": target}}
        if url.scheme == "https":
            extensions["tls"] = {"client_cert_chain": tuple(self._peer()), "client_cert_error": None}
        return {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": request.method, "scheme": url.scheme,
            "path": unquote(path.decode("ascii")), "raw_path": path, "query_string": query, "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": ("127.0.0.1", 1), "server": (url.host, url.port), "extensions": extensions,
        }  # fmt: skip


def submit(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> Future[T]:
    """Begin work in another thread's event loop.

    Raises:
        ConnectionError: the loop is closed.
    """
    try:
        return asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError as e:
        work.close()
        raise ConnectionError("the sandbox is closed") from e


def _timeout_s(request: httpx.Request) -> float | None:
    timeout: float | None = request.extensions.get("timeout", {}).get("read")
    return timeout


@contextmanager
def _failures(request: httpx.Request) -> Iterator[None]:
    try:
        yield
    except TimeoutError as e:
        raise httpx.ReadTimeout("the sandbox did not answer in time", request=request) from e
    except (ConnectionError, CancelledError) as e:
        raise httpx.ConnectError(str(e) or "the sandbox was closed", request=request) from e
