"""A bank whose trust and own identity are read again while it runs; `test_soak` starts it.

Usage: soaked_bank.py FOLDER. Prints its port, then an object of JSON on a line for each reload. For each line of standard input, an
address, it calls that address with its own certificate and prints what it was answered, and whether files are newer than what it uses.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from tppkit.client import Identity, make_client
from tppkit.protocol.psd2 import PSD2
from tppkit.seals import SealPolicy
from tppkit.trust import Reloader, load_trust
from tppkit.web import ProxyForm, QwacPolicy, SealGate, SealMiddleware, TrustedProxy, seal_every_request
from tppkit.web.fastapi import Sealed

EVERY_S = 0.2
app = FastAPI()
printing = threading.Lock()  # a line is printed in parts


@app.post("/psd2/v1/payments/{product}", status_code=201)
async def initiate(product: str, verified: Sealed) -> dict[str, str]:
    return {"product": product, "organisation": verified.organization_identifier}


def report(**values: Any) -> None:
    with printing:
        print(json.dumps({"at": time.monotonic(), **values}), flush=True)


def reports(name: str) -> Callable[[str, str, float], None]:
    return lambda outcome, code, _: report(source=name, outcome=outcome, code=code)


def main(folder: Path) -> None:
    """Serve until standard input ends."""
    material = load_trust(trust=folder / "anchors", trusted_lists=folder / "lists", answers=[folder / "crls"])
    own = folder / "own"
    identity = Identity.from_files(
        qwac=own / "qwac.pem", qwac_key=own / "qwac.key", server_anchors=folder / "pki" / "root.pem"
    )
    app.add_middleware(
        SealMiddleware,
        gate=SealGate(
            seal_every_request(PSD2), qwacs=QwacPolicy(material), seals=SealPolicy(material),
            trusted_proxies=[TrustedProxy("127.0.0.1", form=ProxyForm.NGINX)],
        ),
    )  # fmt: skip
    config = uvicorn.Config(app, proxy_headers=False, lifespan="off", access_log=False, ws="none")
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=uvicorn.Server(config).run, args=([listening],), daemon=True).start()
    with (
        Reloader(material, every=EVERY_S, count=reports("material")),
        Reloader(identity, every=EVERY_S, count=reports("identity")),
        make_client(identity) as client,
    ):
        report(port=listening.getsockname()[1])
        for address in sys.stdin:
            sent, is_behind = time.monotonic(), material.has_changed or identity.has_changed
            try:
                answer = client.get(address.strip(), headers={"Connection": "close"}).text
            except httpx.TransportError as e:
                report(sent=sent, is_behind=is_behind, lost=repr(e))
            else:
                report(sent=sent, is_behind=is_behind, answer=answer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
