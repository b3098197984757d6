"""The least that a careful engineer would write by hand: one signature check, one prepared INSERT, one durable commit.

It is the reference of the sandbox's rate. It trusts the certificate that the TLS handshake proved, checks nothing else, and keeps
no evidence: python bare_bank.py FOLDER PORT
"""

from __future__ import annotations

import base64
import re
import sqlite3
import ssl
import sys
from pathlib import Path
from typing import Any

import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

SIGNATURE = re.compile(r'headers="([^"]+)",signature="([^"]+)"')
INSERT = "INSERT INTO payments (request_id, body) VALUES (?, ?)"


def make_bank(folder: Path) -> Any:
    """The ASGI application."""
    key = x509.load_pem_x509_certificate((folder / "qseal.pem").read_bytes()).public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise TypeError("the benchmark's seal is P-256")
    database = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE payments (request_id TEXT PRIMARY KEY, body BLOB)")

    async def bank(scope: Any, receive: Any, send: Any) -> None:
        event = await receive()
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        found = SIGNATURE.search(headers["signature"])
        if found is None:
            raise ValueError("no signature")
        values = {**headers, "(request-target)": f"post {scope['path']}"}
        signed = "\n".join(f"{name}: {values[name]}" for name in found[1].split())
        key.verify(base64.b64decode(found[2]), signed.encode(), ec.ECDSA(hashes.SHA256()))
        database.execute("BEGIN IMMEDIATE")
        database.execute(INSERT, (headers["x-request-id"], event["body"]))
        database.execute("COMMIT")
        answer = b'{"transactionStatus":"RCVD"}'
        await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"28")]})
        await send({"type": "http.response.body", "body": answer})

    return bank


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    uvicorn.run(
        make_bank(folder), port=int(sys.argv[2]), log_level="error", lifespan="off", http="httptools",
        ssl_certfile=folder / "server-chain.pem", ssl_keyfile=folder / "server.key", ssl_ca_certs=str(folder / "root.pem"),
        ssl_cert_reqs=ssl.CERT_REQUIRED,
    )  # fmt: skip
