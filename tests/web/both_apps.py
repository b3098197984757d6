"""The callback middleware before the seal's, for servers in processes of their own; see `callback_apps` and `asgi_app`."""

from __future__ import annotations

import asgi_app
import wsgi_app
from callback_apps import gate

from tppkit.web import CallbackMiddleware, WsgiCallbackMiddleware


def asgi() -> CallbackMiddleware:
    return CallbackMiddleware(asgi_app.app, gate=gate())


def wsgi() -> WsgiCallbackMiddleware:
    return WsgiCallbackMiddleware(wsgi_app.app, gate=gate())
