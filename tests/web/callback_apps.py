"""Applications with the callback middleware, for real servers in processes of their own.

What they need to know is in the environment: `CALLBACK_KEY` (the service's public key), `CALLBACK_KEPT` (a file that gets one line
for each acknowledged callback: what was proven), `CALLBACK_PREFIX` (what is taken off the front of paths), `CALLBACK_PROXIES` (a
trusted proxy of `guarded` and `guarded_wsgi`), `CALLBACK_RAW` (its address comes from no header).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from werkzeug.middleware.dispatcher import DispatcherMiddleware

from tppkit.callbacks import (
    CallbackAddress,
    CallbackKind,
    CallbackReceiver,
    Inbox,
    Receipt,
    load_callback_key,
    parse_networks,
)
from tppkit.inbox.store import MemoryStore
from tppkit.web import CallbackGate, CallbackMiddleware, CallbackPeers, WsgiCallbackMiddleware

ORIGIN = "https://tpp.example"
# Registered in plain UTF-8; on the wire in a form that can only be what stood there, as it is neither configured nor decoded.
RAW_PATH, RAW_ON_WIRE = "/ž/", "/%c5%be/"
PATHS = ("/cb/", "/a%2Fb/", "/%C5%BEalias/", "/q?kind=a%2Fb&x=%C5%BE")
_ADDRESSES = [
    CallbackAddress(ORIGIN + prefix + path, CallbackKind.OTHER)
    for prefix in ("", "/app")
    for path in (*PATHS, RAW_PATH)
]


def receiver() -> CallbackReceiver:
    key = load_callback_key(Path(os.environ["CALLBACK_KEY"]), name="live")
    prefix = os.environ.get("CALLBACK_PREFIX", "")
    below = [address for address in _ADDRESSES if address.path.startswith(prefix + "/")]
    return CallbackReceiver(below, keys=[key], stripped_prefix=prefix)


def keep(receipt: Receipt) -> None:
    with Path(os.environ["CALLBACK_KEPT"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps([receipt.callback.request_id, receipt.callback.url]) + "\n")


async def asgi_rest(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while True:
            event = (await receive())["type"]
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return
    await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


def wsgi_rest(environ: Any, start_response: Any) -> Iterable[bytes]:
    start_response("404 Not Found", [("Content-Length", "0")])
    return [b""]


def gate() -> CallbackGate:
    return CallbackGate(Inbox(receiver(), MemoryStore()), keep=keep)


def asgi() -> CallbackMiddleware:
    return CallbackMiddleware(asgi_rest, gate=gate())


def wsgi() -> WsgiCallbackMiddleware:
    return WsgiCallbackMiddleware(wsgi_rest, gate=gate())


def dispatched() -> DispatcherMiddleware:
    return DispatcherMiddleware(wsgi_rest, {"/app": wsgi()})


def guarded_gate() -> CallbackGate:
    proxies = os.environ.get("CALLBACK_PROXIES", "").split()
    peers = CallbackPeers(
        parse_networks(["203.0.113.0/28"]),
        trusted_proxies=parse_networks(proxies),
        address_is_raw=bool(os.environ.get("CALLBACK_RAW")),
    )
    return CallbackGate(Inbox(receiver(), MemoryStore()), peers=peers)


def guarded() -> CallbackMiddleware:
    return CallbackMiddleware(asgi_rest, gate=guarded_gate())


def guarded_wsgi() -> WsgiCallbackMiddleware:
    return WsgiCallbackMiddleware(wsgi_rest, gate=guarded_gate())
