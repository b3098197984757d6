"""The HTTP libraries that can carry our requests: httpx, and httpx2 where it is installed.

They look alike and share no class, so what asks for their classes asks here.
"""

from __future__ import annotations

import ssl
from typing import Any

import httpx

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
