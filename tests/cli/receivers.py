"""A receiver on a real socket, for the commands that send callbacks."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tppkit._clock import utc_now
from tppkit.callbacks import CallbackReceiver, CallbackRejected, Inbox
from tppkit.inbox.store import MemoryStore
from tppkit.message import Message


@contextmanager
def receiving(
    receiver: CallbackReceiver | None, seen: list[Message] | None = None, *, tls: ssl.SSLContext | None = None
) -> Iterator[int]:
    """A receiver on a real socket; without a receiver it accepts everything."""
    seen = [] if seen is None else seen

    inbox = Inbox(receiver, MemoryStore()) if receiver else None

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            callback = Message(self.command, self.path, tuple(self.headers.items()), body)
            seen.append(callback)
            try:
                if inbox is not None:
                    inbox.accept(callback, at=utc_now())
                self.send_response(200)
            except CallbackRejected:
                self.send_response(400)
            self.end_headers()

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
