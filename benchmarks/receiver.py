"""A receiver of callbacks behind FastAPI and uvicorn, or an empty handler there: python receiver.py DATABASE|empty PORT."""

from __future__ import annotations

import gc
import sys
from inspect import isawaitable
from typing import Any

import uvicorn
from fastapi import FastAPI, Response

from inbox import PAYMENTS, RECEIVER, apply
from tppkit.callbacks import AsyncInbox
from tppkit.inbox.store import InboxStore
from tppkit.web import AsyncCallbackGate, CallbackMiddleware


def make_app(database: str) -> Any:
    """The ASGI application."""
    app = FastAPI()

    @app.post("/cb/{token}")
    async def empty(token: str) -> Response:
        return Response()

    if database == "empty":
        return app
    store = InboxStore(database)
    store.create_tables()
    PAYMENTS.metadata.create_all(store.engine)

    async def handler(callback: Any, db: Any) -> None:
        result = apply(callback, db)
        if isawaitable(result):  # on PostgreSQL
            await result

    app.add_middleware(CallbackMiddleware, gate=AsyncCallbackGate(AsyncInbox(RECEIVER, store), handler=handler))
    return app


if __name__ == "__main__":
    app = make_app(sys.argv[1])
    gc.collect()
    gc.freeze()  # as docs/how-to/receive-callbacks.md advises, for both
    uvicorn.run(app, port=int(sys.argv[2]), log_level="error", lifespan="off", http="httptools")
