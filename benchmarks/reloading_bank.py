"""A bank behind a proxy whose gate runs while trusted lists are read again.

Usage: reloading_bank.py PKI_FOLDER LISTS_FOLDER. Prints its port, then reads the lists again for each line on standard input.
"""

from __future__ import annotations

import socket
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import uvicorn

from tppkit.protocol.psd2 import PSD2
from tppkit.seals import SealPolicy
from tppkit.trust import load_trust
from tppkit.web import ProxyForm, QwacPolicy, SealGate, SealMiddleware, TrustedProxy
from web import handler

IN_FORCE = datetime(2023, 10, 20, tzinfo=UTC)  # of the shared lists


def main(pki: str, lists: str) -> None:
    """Serve until standard input ends."""
    material, read_again = load_trust(trust=pki), load_trust(trusted_lists=lists, now=IN_FORCE)
    proxies = [TrustedProxy("127.0.0.1", form=ProxyForm.NGINX)]
    gate = SealGate(PSD2, qwacs=QwacPolicy(material), seals=SealPolicy(material), trusted_proxies=proxies)
    config = uvicorn.Config(
        SealMiddleware(handler, gate=gate), proxy_headers=False, lifespan="off", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=server.run, args=([listening],), daemon=True).start()
    print(listening.getsockname()[1], flush=True)
    for _ in sys.stdin:
        for file in Path(lists).iterdir():
            file.touch()  # so that each is read again
        read_again.reload()
        print("reloaded", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
