"""HTTP clients with an identity: its TLS, connections that outlive a polling interval, and an end to every call.

No redirects, no proxies but one that is given, no cookies, no compressed answers.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import MappingProxyType
from typing import Any, cast

import httpx

from tppkit.client.identity import Identity
from tppkit.client.tls_context import NoCertificate
from tppkit.client.tls_sessions import deadline

# httpx2 looks like httpx and shares no class with it.
LIBRARIES: tuple[Any, ...]
try:
    import httpx2
except ImportError:
    LIBRARIES = (httpx,)
else:
    LIBRARIES = (httpx, httpx2)

AUTHS: tuple[type, ...] = tuple(library.Auth for library in LIBRARIES)
TIMEOUTS: tuple[type[Exception], ...] = (*(library.TimeoutException for library in LIBRARIES), TimeoutError)
# SSLError: the asynchronous drivers let a TLS alert through as it is.
FAILURES: tuple[type[Exception], ...] = (*(library.TransportError for library in LIBRARIES), ssl.SSLError)
# Raised before the first byte of a request is sent.
UNCONNECTED: tuple[type[Exception], ...] = tuple(
    getattr(library, name)
    for library in LIBRARIES
    for name in ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError")
)
# Overrides what a client that is passed in does with its own requests.
PLAIN: Mapping[str, Any] = MappingProxyType({"stream": True, "follow_redirects": False, "auth": None})

DEFAULT_TIMEOUT_S = 30.0
KEEP_ALIVE_S = 120.0
MAX_KEPT_ALIVE = 20
# The share of a call's time for each of: a free connection, TCP, TLS. All of them end before the call does, because a library that is
# stopped from outside in the middle of a handshake leaves its socket open.
_STEP = 0.3


def make_client(
    identity: Identity | NoCertificate, *, base_url: str = "", timeout_s: float = DEFAULT_TIMEOUT_S, auth: Any = None,
    proxy: Any = None, library: Any = httpx,
) -> httpx.Client:  # fmt: skip
    """A client for threads; close it, or use it in a `with` statement.

    Args:
        identity: shown to the bank on every connection; `NoCertificate` where callers are known by a key.
        base_url: put before relative addresses.
        timeout_s: for a whole call, in seconds, however slowly the answer comes. Of an answer that is streamed, until its body.
        auth: for every request; a `SealAuth` that seals all of them.
        proxy: address of an egress proxy, or the library's own `Proxy`. TLS goes through it to the bank, and the proxy sees no request.
        library: `httpx` or `httpx2`, whose `Client` it is.
    """
    options = client_options(identity, timeout_s=timeout_s, base_url=base_url, auth=auth, proxy=proxy, library=library)
    return cast("httpx.Client", _classes(library)[0](timeout_s, **options))


def make_async_client(
    identity: Identity | NoCertificate, *, base_url: str = "", timeout_s: float = DEFAULT_TIMEOUT_S, auth: Any = None,
    proxy: Any = None, library: Any = httpx,
) -> httpx.AsyncClient:  # fmt: skip
    """The same for asyncio."""
    options = client_options(identity, timeout_s=timeout_s, base_url=base_url, auth=auth, proxy=proxy, library=library)
    return cast("httpx.AsyncClient", _classes(library)[1](timeout_s, **options))


def client_options(
    identity: Identity | NoCertificate, *, timeout_s: float, base_url: str = "", auth: Any = None, proxy: Any = None,
    library: Any = httpx,
) -> dict[str, Any]:  # fmt: skip
    """Options of a library's own client, for a caller that limits the whole of each call itself. Arguments are those of `make_client`."""
    step_s = _STEP * timeout_s
    return {
        "base_url": base_url,
        "verify": identity.tls_context,
        "timeout": library.Timeout(timeout_s, pool=step_s, connect=step_s),
        "limits": library.Limits(max_keepalive_connections=MAX_KEPT_ALIVE, keepalive_expiry=KEEP_ALIVE_S),
        "follow_redirects": False,
        "trust_env": False,
        "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=())),  # none is kept
        "headers": {"Accept-Encoding": "identity", "User-Agent": "tppkit"},
        "auth": auth,
        "proxy": proxy,
    }


@cache
def _classes(library: Any) -> tuple[Any, Any]:
    """A library's clients with a limit to the whole of `send`."""

    class TimedClient(library.Client):  # type: ignore[misc]  # the library is an argument
        def __init__(self, whole_s: float, **options: Any) -> None:
            super().__init__(**options)
            self._whole_s = whole_s

        def send(self, request: Any, **options: Any) -> Any:
            with deadline(self._whole_s):
                return super().send(request, **options)

    class TimedAsyncClient(library.AsyncClient):  # type: ignore[misc]  # the library is an argument
        def __init__(self, whole_s: float, **options: Any) -> None:
            super().__init__(**options)
            self._whole_s = whole_s

        async def send(self, request: Any, **options: Any) -> Any:
            try:
                async with asyncio.timeout(self._whole_s):
                    return await super().send(request, **options)
            except TimeoutError as e:
                raise library.ReadTimeout("the time for the whole call is over", request=request) from e

    return TimedClient, TimedAsyncClient
