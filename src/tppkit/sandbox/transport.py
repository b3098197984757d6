"""An httpx transport to ASGI applications in another thread's event loop, without sockets."""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import unquote

import httpx
from starlette.types import ASGIApp, Receive

from tppkit.sandbox.connection import CONNECTION
from tppkit.web.sources import RAW_TARGET

T = TypeVar("T")

_LOGGER = logging.getLogger("tppkit.sandbox.http")


class SandboxTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Sends the requests of a client for threads or for asyncio. Answers are not streamed.

    Args:
        apps: the applications by their origins, for example `https://localhost:8443`.
        loop: the event loop in which they run.
        peer: returns the client certificates for https origins, PEM, the client's own first; empty without certificates.
        is_expired: called with the origin of each request; if it returns True, the server's certificate has expired.

    Example:
        httpx.Client(transport=SandboxTransport(apps, loop))
    """

    def __init__(
        self, apps: Mapping[str, ASGIApp], loop: asyncio.AbstractEventLoop, *, peer: Callable[[], Sequence[str]] = tuple,
        is_expired: Callable[[str], bool] = lambda origin: False,
    ) -> None:  # fmt: skip
        self._apps, self._loop, self._peer, self._is_expired = apps, loop, peer, is_expired

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
        origin = f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
        app = self._apps.get(origin)
        if app is None:
            raise ConnectionError("the sandbox has no host at this address")
        if self._is_expired(origin):
            text = "certificate has expired"
            error = ssl.SSLCertVerificationError(
                1, f"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {text}"
            )
            error.verify_code, error.verify_message = 10, text  # X509_V_ERR_CERT_HAS_EXPIRED; as OpenSSL sets them
            raise httpx.ConnectError(str(error)) from error
        connection = _Connection(_timeout_s(request))
        status, headers, chunks, is_whole = 0, [], [], False
        bodies = [request.content]

        async def receive() -> Any:
            if not bodies:
                await connection.ended.wait()
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}

        async def send(event: Any) -> None:
            nonlocal status, headers, is_whole
            if event["type"] == "http.response.start":
                status, headers = event["status"], list(event["headers"])
            else:
                chunks.append(event.get("body", b""))
                is_whole = not event.get("more_body", False)

        try:
            await app(self._scope(request, connection), receive, send)
        except Exception as e:  # any error of the application
            # Starlette answers 500 and raises the error again for the server, which logs it.
            _LOGGER.exception("the application failed")
            if not is_whole:
                raise httpx.ReadError("the application failed without a whole answer") from e
        if connection.failure is not None:
            raise connection.failure
        if not is_whole:
            raise httpx.ReadError("the answer was cut off")
        body = b"" if request.method == "HEAD" else b"".join(chunks)
        return httpx.Response(status, headers=headers, content=body)

    def _scope(self, request: httpx.Request, connection: _Connection) -> dict[str, Any]:
        """Return the same scope as the sandbox's server."""
        url, target = request.url, request.url.raw_path
        path, _, query = target.partition(b"?")
        extensions: dict[str, Any] = {RAW_TARGET: {"target": target}, CONNECTION: {"connection": connection}}
        if url.scheme == "https":
            extensions["tls"] = {"client_cert_chain": tuple(self._peer()), "client_cert_error": None}
        return {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": request.method, "scheme": url.scheme,
            "path": unquote(path.decode("ascii")), "raw_path": path, "query_string": query, "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": ("127.0.0.1", 1), "server": (url.host, url.port), "extensions": extensions,
        }  # fmt: skip


class _Connection:
    """See `connection.Connection`. No real time passes: a wait beyond the client's time limit ends the request at once.

    Attributes:
        failure: what the client gets instead of an answer, or None.
        ended: set with the failure.
    """

    def __init__(self, timeout_s: float | None) -> None:
        self._left_s = math.inf if timeout_s is None else timeout_s
        self.failure: httpx.TransportError | None = None
        self.ended = asyncio.Event()

    def reset(self) -> None:
        self._fail(httpx.ReadError, "the connection was reset by a requested fault")

    def cut(self) -> None:
        self._fail(httpx.RemoteProtocolError, "the connection was closed before the answer was complete")

    @property
    def is_open(self) -> bool:
        return self.failure is None

    async def wait(self, seconds: float, receive: Receive) -> None:
        self._left_s -= seconds
        if self._left_s < 0:
            self._fail(httpx.ReadTimeout, "the sandbox did not answer in time")

    def _fail(self, kind: type[httpx.TransportError], text: str) -> None:
        self.failure = self.failure or kind(text)
        self.ended.set()


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
    except ConnectionError as e:  # no application got the request
        raise httpx.ConnectError(str(e), request=request) from e
    except CancelledError as e:
        raise httpx.ReadError("the sandbox was closed", request=request) from e
