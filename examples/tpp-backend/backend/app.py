"""The application.

uvicorn --factory backend.app:make_app --no-proxy-headers --no-server-header --port 9443 --ssl-certfile … --ssl-keyfile …
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse

from backend import accounts, logins, payments
from backend.callbacks import Callbacks
from backend.database import make_engine, metadata
from backend.sessions import protect
from backend.settings import Settings
from tppkit.client import Identity, Psd2Client
from tppkit.errors import FormatError, RequestRefused, TppkitError
from tppkit.web import CallbackMiddleware

_LOG = logging.getLogger("backend")


def make_app() -> FastAPI:
    """Build the application from the environment."""
    settings = Settings.from_environment(os.environ)
    engine = make_engine(settings.database_url)
    callbacks = Callbacks(settings, engine)
    identity = Identity.from_environment(os.environ)
    bank = Psd2Client(settings.bank_url, identity=identity, keep=callbacks.evidence.sent)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        metadata.create_all(engine)
        callbacks.create_tables()
        yield
        bank.close()
        engine.dispose()

    app = FastAPI(lifespan=lifespan, openapi_url=None, dependencies=[Depends(protect)])
    app.state.settings, app.state.engine, app.state.callbacks, app.state.bank = settings, engine, callbacks, bank
    for module in (logins, accounts, payments):
        app.include_router(module.router)
    app.add_exception_handler(TppkitError, explain)
    app.add_middleware(CallbackMiddleware, gate=callbacks.gate)  # before the routes: callbacks have no Origin
    return app


async def explain(request: Request, error: Exception) -> JSONResponse:
    """Answer an error of the bank or of the form; the log has the details."""
    _LOG.warning("%s %s: %s", request.method, request.url.path, error)
    if isinstance(error, FormatError):
        return JSONResponse({"detail": "the bank would not accept this", "code": error.code}, 422)
    if isinstance(error, RequestRefused):
        return JSONResponse({"detail": "the bank refused it", "code": error.peer_code}, 502)
    return JSONResponse({"detail": "the bank did not answer as expected: repeat the request"}, 503)
