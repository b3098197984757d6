"""FastAPI dependencies: the verified request behind `SealMiddleware`, or a verified callback.

@app.post("/psd2/v1/payments/{product}")
async def initiate(product: str, verified: Sealed) -> Response: ...

Callback = Annotated[VerifiedCallback, Depends(verified_callback(receiver))]

@app.post("/cb/")
async def granted(callback: Callback) -> Response: ...
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Annotated, Any

from tppkit._clock import Clock, utc_now
from tppkit._extras import needs_extra
from tppkit.callbacks import CallbackReceiver, CallbackRejected, VerifiedCallback, verify_callback
from tppkit.errors import FormatError, TransportError
from tppkit.metrics import Count
from tppkit.seals import VerifiedRequest
from tppkit.web.caller import verified_request
from tppkit.web.receiving.callbacks import route_gate
from tppkit.web.receiving.gate import OnRefusal, log_refused_callback
from tppkit.web.receiving.peers import CallbackPeers
from tppkit.web.receiving.routes import read_asgi_callback
from tppkit.web.sources import AsgiSource

with needs_extra("fastapi"):
    from fastapi import Depends, HTTPException, Request


async def sealed_request(request: Request) -> VerifiedRequest:
    """Return the verified request behind `SealMiddleware`; use it as a dependency.

    Raises:
        ConfigurationError: `web.unverified`, the request did not pass a middleware, or the endpoint requires no seal.
    """
    return verified_request(request.scope)


Sealed = Annotated[VerifiedRequest, Depends(sealed_request)]


def verified_callback(
    receiver: CallbackReceiver, *, peers: CallbackPeers | None = None, on_refusal: OnRefusal = log_refused_callback,
    count: Count | None = None, now: Clock = utc_now,
) -> Callable[[Request], Coroutine[Any, Any, VerifiedCallback]]:  # fmt: skip
    """Return a dependency that verifies a callback or login GET; a request that is refused gets a status without a reason.

    Repetitions are not detected: see `verify_callback_request`.

    Args:
        receiver: the addresses and keys.
        peers: see `CallbackGate`.
        on_refusal: see `CallbackGate`; always called on the event loop.
        count: called with `verified`, or `refused` and the code of the error.
        now: the clock.

    Raises:
        ConfigurationError: `callback.function`.

    Example:
        Callback = Annotated[VerifiedCallback, Depends(verified_callback(receiver))]
    """
    gate = route_gate(receiver, peers=peers, on_refusal=on_refusal, count=count, now=now)

    async def verify(request: Request) -> VerifiedCallback:
        received, begin = None, monotonic()
        try:
            received = await read_asgi_callback(request, receiver=receiver, peers=peers)
            verified = verify_callback(received, at=gate.now(), receiver=receiver)
        except (CallbackRejected, FormatError, TransportError) as e:
            raise HTTPException(gate.refuse(e, AsgiSource(request.scope), received, begin=begin).status) from e
        gate.admit(AsgiSource(request.scope), begin=begin)
        return verified

    return verify
