"""HTTP clients with an identity: its TLS, connections that stay open between polls, and a time limit for each call.

No redirects, no proxies except a given one, no cookies, no compressed answers.
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
from tppkit.client.tls_context import Adjust, NoCertificate
from tppkit.client.tls_deadline import deadline

# httpx2 has the interface of httpx, but no common classes.
LIBRARIES: tuple[Any, ...]
try:
    import httpx2
except ImportError:
    LIBRARIES = (httpx,)
else:
    LIBRARIES = (httpx, httpx2)

AUTHS: tuple[type, ...] = tuple(library.Auth for library in LIBRARIES)
TIMEOUTS: tuple[type[Exception], ...] = (*(library.TimeoutException for library in LIBRARIES), TimeoutError)
# SSLError: the asynchronous backends do not convert TLS alerts.
FAILURES: tuple[type[Exception], ...] = (*(library.TransportError for library in LIBRARIES), ssl.SSLError)
# Raised before the first byte of a request is sent.
UNCONNECTED: tuple[type[Exception], ...] = tuple(
    getattr(library, name)
    for library in LIBRARIES
    for name in ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError")
)
# Overrides the settings of a client that the caller passes in.
PLAIN: Mapping[str, Any] = MappingProxyType({"stream": True, "follow_redirects": False, "auth": None})

DEFAULT_TIMEOUT_S = 30.0
KEEP_ALIVE_S = 120.0
MAX_KEPT_ALIVE = 20
# The share of a call's time for each of: a free connection, TCP, TLS. All end before the call does, because a library that is
# cancelled during a handshake leaves its socket open.
_STEP = 0.3


def make_client(
    identity: Identity | NoCertificate, *, base_url: str = "", timeout_s: float = DEFAULT_TIMEOUT_S, auth: Any = None,
    proxy: Any = None, library: Any = httpx, adjust_tls: Adjust | None = None,
) -> httpx.Client:  # fmt: skip
    """Make a client for threads; close it, or use it in a `with` statement.

    Args:
        identity: the client certificate of every connection; `NoCertificate` for interfaces that use a key.
        base_url: prefix of relative addresses.
        timeout_s: time limit for a whole call over TLS, in seconds; over plain HTTP for each read and write. For a streamed answer,
            the limit applies until its body begins.
        auth: the library's authentication for every request, for example `SealAuth`.
        proxy: address of an egress proxy, or the library's own `Proxy`. TLS is tunnelled to the bank, so the proxy sees no request.
        library: `httpx` or `httpx2`.
        adjust_tls: changes the TLS settings, for one bank; see `Identity.tls_context_with`.

    Example:
        with make_client(identity, base_url="https://psd2.bank.example") as client:
            client.get("/psd2/v1/accounts", headers={"Consent-ID": consent_id})
    """
    options = client_options(
        identity, timeout_s=timeout_s, base_url=base_url, auth=auth, proxy=proxy, library=library, adjust_tls=adjust_tls
    )
    return cast("httpx.Client", _classes(library)[0](timeout_s, **options))


def make_async_client(
    identity: Identity | NoCertificate, *, base_url: str = "", timeout_s: float = DEFAULT_TIMEOUT_S, auth: Any = None,
    proxy: Any = None, library: Any = httpx, adjust_tls: Adjust | None = None,
) -> httpx.AsyncClient:  # fmt: skip
    """Make a client for asyncio. Arguments are those of `make_client`; the time limit holds over plain HTTP too."""
    options = client_options(
        identity, timeout_s=timeout_s, base_url=base_url, auth=auth, proxy=proxy, library=library, adjust_tls=adjust_tls
    )
    return cast("httpx.AsyncClient", _classes(library)[1](timeout_s, **options))


def client_options(
    identity: Identity | NoCertificate, *, timeout_s: float, base_url: str = "", auth: Any = None, proxy: Any = None,
    library: Any = httpx, adjust_tls: Adjust | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return options for a client of the library itself, without the time limit of a whole call. See `make_client`."""
    step_s = _STEP * timeout_s
    return {
        "base_url": base_url,
        "verify": identity.tls_context_with(adjust_tls),
        "timeout": library.Timeout(timeout_s, pool=step_s, connect=step_s),
        "limits": library.Limits(max_keepalive_connections=MAX_KEPT_ALIVE, keepalive_expiry=KEEP_ALIVE_S),
        "follow_redirects": False,
        "trust_env": False,
        "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=())),  # stores no cookie
        "headers": {"Accept-Encoding": "identity", "User-Agent": "tppkit"},
        "auth": auth,
        "proxy": proxy,
    }


@cache
def _classes(library: Any) -> tuple[Any, Any]:
    """Return the library's client classes with a time limit for the whole of `send`, which follows no redirect."""

    class TimedClient(library.Client):  # type: ignore[misc]  # the library is an argument
        def __init__(self, whole_s: float, **options: Any) -> None:
            super().__init__(**options)
            self._whole_s = whole_s

        def send(self, request: Any, **options: Any) -> Any:
            with deadline(self._whole_s):
                return super().send(request, **options | {"follow_redirects": False})

    class TimedAsyncClient(library.AsyncClient):  # type: ignore[misc]  # the library is an argument
        def __init__(self, whole_s: float, **options: Any) -> None:
            super().__init__(**options)
            self._whole_s = whole_s

        async def send(self, request: Any, **options: Any) -> Any:
            try:
                async with asyncio.timeout(self._whole_s):
                    return await super().send(request, **options | {"follow_redirects": False})
            except TimeoutError as e:
                raise library.ReadTimeout("the time for the whole call is over", request=request) from e

    return TimedClient, TimedAsyncClient
