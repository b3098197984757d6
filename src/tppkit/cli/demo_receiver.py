"""The receivers of callbacks and webhooks in `tppkit demo`: HTTPS on loopback, with a certificate of the demo's PKI."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tppkit.sandbox import SandboxServer
from tppkit.sandbox.listening import QuietServer, make_config, serve, stop
from tppkit.sandbox.thread import in_thread
from tppkit.sandbox.tls import TlsMode, make_http_protocol
from tppkit.testpki import Pki, certificate_pem, key_pem
from tppkit.web import CallbackGate, CallbackMiddleware, WebhookGate
from tppkit.web.seal import Send

Control = Callable[[str, Any], Any]


@contextmanager
def receiving(
    bound: socket.socket, gate: CallbackGate | WebhookGate, *, server: SandboxServer, pki: Pki
) -> Iterator[None]:
    """Answer at a bound socket while the body runs.

    Args:
        bound: the socket.
        gate: takes callbacks or webhooks.
        server: whose TLS settings count here too.
        pki: issues the certificate.
    """
    issued = pki.issue_server("localhost", label="receiver")
    tls = replace(
        server.sandbox.tls, mode=TlsMode.NO_CERTIFICATES, private_key_pem=key_pem(issued.key),
        certificate_pem=b"".join(map(certificate_pem, (issued.certificate, *issued.chain))),
    )  # fmt: skip
    app = CallbackMiddleware(_no_other_page, gate=gate)
    servers = [(QuietServer(make_config(app, http=make_http_protocol(tls))), bound)]
    with in_thread(lambda on_ready: serve(servers, on_ready=on_ready), stop=lambda: stop(servers)):
        yield


def deliver(control: Control, *, after_s: float = 0) -> None:
    """Move the clock, and wait until each callback or webhook that is due by then was attempted once."""
    control("/clock/advance", {"seconds": after_s})


async def _no_other_page(scope: Any, receive: Any, send: Send) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})
