"""A receiver of callbacks behind FastAPI and uvicorn, or an empty handler there: python receiver.py inbox|empty FOLDER PORT."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Response

from inbox import PAYMENTS, RECEIVER, apply
from tppkit.callbacks import AsyncInbox
from tppkit.inbox.store import InboxStore
from tppkit.web import AsyncCallbackGate, CallbackMiddleware


def make_app(kind: str, folder: Path) -> Any:
    """The ASGI application."""
    app = FastAPI()

    @app.post("/cb/{token}")
    async def empty(token: str) -> Response:
        return Response()

    if kind == "empty":
        return app
    store = InboxStore(f"sqlite:///{folder / 'callbacks.sqlite'}")
    store.create_tables()
    PAYMENTS.metadata.create_all(store.engine)

    async def handler(callback: Any, db: Any) -> None:
        apply(callback, db)

    app.add_middleware(CallbackMiddleware, gate=AsyncCallbackGate(AsyncInbox(RECEIVER, store), handler=handler))
    return app


if __name__ == "__main__":
    app = make_app(sys.argv[1], Path(sys.argv[2]))
    gc.collect()
    gc.freeze()  # as docs/receiver.md advises, for both
    uvicorn.run(app, port=int(sys.argv[3]), log_level="error", lifespan="off", http="httptools")
