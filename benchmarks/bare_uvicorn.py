"""A constant answer by uvicorn behind the sandbox's own TLS, the reference of the sandbox's reads: python bare_uvicorn.py FOLDER PORT"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import uvicorn

from tppkit.sandbox.tls import ServerTls, make_http_protocol

ANSWER = b'{"transactionStatus":"RCVD"}'


async def constant(scope: Any, receive: Any, send: Any) -> None:
    """Answer without reading anything."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"28")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    certificate, key, anchors = (folder / name for name in ("server-chain.pem", "server.key", "root.pem"))
    tls = ServerTls(certificate.read_bytes(), key.read_bytes(), anchors.read_bytes())
    protocol: Any = make_http_protocol(tls)
    uvicorn.run(constant, port=int(sys.argv[2]), log_level="error", lifespan="off", http=protocol)
