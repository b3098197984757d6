"""WSGI middleware for callbacks and webhooks: the same gate as under ASGI, before an application of Flask, Django or any other.

Limit the time of a request in the settings of the server: this middleware cannot end a slow body or a slow store.
"""

from __future__ import annotations

from collections.abc import Iterable

from tppkit.message import Message
from tppkit.web.callback_gate import CallbackGate
from tppkit.web.seal_wsgi import Environ, StartResponse, WsgiApp, give_answer
from tppkit.web.sources import Answer, WsgiSource, read_pieces
from tppkit.web.webhooks import WebhookGate


class WsgiCallbackMiddleware:
    """Receive callbacks, or webhooks of the payment gateway, before a WSGI application.

    Args:
        app: the application.
        gate: decides about callbacks or webhooks.

    Example:
        app.wsgi_app = WsgiCallbackMiddleware(app.wsgi_app, gate=CallbackGate(Inbox(receiver, store), handler=handle))
    """

    def __init__(self, app: WsgiApp, *, gate: CallbackGate | WebhookGate) -> None:
        self._app, self._gate = app, gate

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Handle one request."""
        source = WsgiSource(environ)
        target = self._gate.find(source)
        if target is None:
            return self._app(environ, start_response)
        return give_answer(start_response, self._answer(source, environ, target), environ)

    def _answer(self, source: WsgiSource, environ: Environ, target: str) -> Answer:
        try:
            self._gate.require_head(source)
            body = b"".join(read_pieces(environ, max_bytes=self._gate.max_body))
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered with a bare status
            return self._gate.refuse(e, source)
        received = Message(source.method, target, source.headers(), body)
        return self._gate.receive(received, source)
