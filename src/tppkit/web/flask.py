"""What a Flask view asks for behind `WsgiSealMiddleware`: the verified request, through a decorator.

@app.post("/psd2/v1/payments/<product>")
@sealed
def initiate(product: str, verified: VerifiedRequest) -> Response: ...
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from flask import current_app, request

from tppkit.web.caller import verified_request

R = TypeVar("R")


def sealed(view: Callable[..., R]) -> Callable[..., R]:
    """Call a view with the keyword argument `verified`: what the seal of the request proves.

    The view raises ConfigurationError `web.unverified` if no middleware was passed, or the endpoint requires no seal.
    """

    @wraps(view)
    def proven(*args: Any, **kwargs: Any) -> R:
        # An async view is run, as Flask itself would.
        run: Callable[..., R] = current_app.ensure_sync(view)
        return run(*args, verified=verified_request(request.environ), **kwargs)

    return proven
