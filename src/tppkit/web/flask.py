"""Flask decorators: pass the verified request behind `WsgiSealMiddleware`, or a verified callback, to a view.

@app.post("/psd2/v1/payments/<product>")
@sealed
def initiate(product: str, verified: VerifiedRequest) -> Response: ...

@app.post("/cb/")
@verified_callback(receiver)
def granted(verified: VerifiedCallback) -> Response: ...
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from time import monotonic
from typing import Any, TypeVar

from tppkit._clock import Clock, utc_now
from tppkit._extras import needs_extra
from tppkit.callbacks import CallbackReceiver, CallbackRejected, verify_callback
from tppkit.errors import FormatError, TransportError
from tppkit.metrics import Count
from tppkit.web.caller import verified_request
from tppkit.web.receiving.callbacks import route_gate
from tppkit.web.receiving.gate import OnRefusal, log_refused_callback
from tppkit.web.receiving.peers import CallbackPeers
from tppkit.web.receiving.routes import read_wsgi_callback
from tppkit.web.sources import WsgiSource

with needs_extra("flask"):
    from flask import Response, abort, current_app, request

R = TypeVar("R")


def sealed(view: Callable[..., R]) -> Callable[..., R]:
    """Call a view with the keyword argument `verified`: the verified request.

    The view raises ConfigurationError `web.unverified` if the request did not pass a middleware, or the endpoint requires no seal.
    """

    @wraps(view)
    def proven(*args: Any, **kwargs: Any) -> R:
        # ensure_sync runs an async view, as Flask does.
        run: Callable[..., R] = current_app.ensure_sync(view)
        return run(*args, verified=verified_request(request.environ), **kwargs)

    return proven


def verified_callback(
    receiver: CallbackReceiver, *, peers: CallbackPeers | None = None, on_refusal: OnRefusal = log_refused_callback,
    count: Count | None = None, now: Clock = utc_now,
) -> Callable[[Callable[..., R]], Callable[..., R]]:  # fmt: skip
    """Return a decorator that calls a view with the keyword argument `verified`: the verified callback or login GET.

    A rejected request gets a status without a reason. Repetitions are not detected: see `verify_callback_request`.

    Args:
        receiver: the addresses and keys.
        peers: see `CallbackGate`.
        on_refusal: see `CallbackGate`.
        count: called with `verified`, or `refused` and the code of the error.
        now: the clock.

    Raises:
        ConfigurationError: `callback.function`.

    Example:
        @app.post("/cb/")
        @verified_callback(receiver)
        def granted(verified): ...
    """
    gate = route_gate(receiver, peers=peers, on_refusal=on_refusal, count=count, now=now)

    def decorate(view: Callable[..., R]) -> Callable[..., R]:
        @wraps(view)
        def proven(*args: Any, **kwargs: Any) -> R:
            received, begin = None, monotonic()
            try:
                received = read_wsgi_callback(request, receiver=receiver, peers=peers)
                verified = verify_callback(received, at=gate.now(), receiver=receiver)
            except (CallbackRejected, FormatError, TransportError) as e:
                abort(Response(status=gate.refuse(e, WsgiSource(request.environ), received, begin=begin).status))
            gate.admit(WsgiSource(request.environ), begin=begin)
            run: Callable[..., R] = current_app.ensure_sync(view)
            return run(*args, verified=verified, **kwargs)

        return proven

    return decorate
