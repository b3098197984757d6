"""Applications that verify callbacks in routes of their own, for real servers; `CALLBACK_KEY` is the service's public key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from flask import Flask
from flask import request as flask_request

from tppkit.callbacks import (
    CallbackAddress,
    CallbackKind,
    CallbackReceiver,
    VerifiedCallback,
    load_callback_key,
    parse_networks,
)
from tppkit.errors import TppkitError
from tppkit.web import CallbackPeers, verify_callback_request
from tppkit.web import flask as tppkit_flask
from tppkit.web.fastapi import verified_callback

receiver = CallbackReceiver(
    [
        CallbackAddress("https://tpp.example/cb/", CallbackKind.ACCESS),
        CallbackAddress("https://tpp.example/cb/{token}", CallbackKind.PAYMENT),
        CallbackAddress("https://tpp.example/login/{token}", CallbackKind.LOGIN),
        CallbackAddress("https://tpp.example/own", CallbackKind.OTHER),
        CallbackAddress("https://tpp.example/guarded", CallbackKind.OTHER),
    ],
    keys=[load_callback_key(Path(os.environ["CALLBACK_KEY"]), name="live")],
)
counted: list[tuple[str, str]] = []
guarded = {"peers": CallbackPeers(parse_networks(["203.0.113.0/28"]))}


def count(outcome: str, code: str, seconds: float) -> None:
    counted.append((outcome, code))


def proven(verified: VerifiedCallback) -> dict[str, Any]:
    return {"url": verified.url, "event": type(verified.event).__name__, "counted": counted}


app = FastAPI()
Callback = Annotated[VerifiedCallback, Depends(verified_callback(receiver, count=count))]


@app.post("/cb/{uuid:path}")
async def posted(uuid: str, verified: Callback) -> Any:
    return proven(verified)


@app.get("/login/{token}")
async def scanned(token: str, verified: Callback) -> Any:
    return proven(verified)


@app.middleware("http")
async def reads_the_stream(request: Request, call_next: Any) -> Any:
    if request.headers.get("x-before") == "middleware":
        [_ async for _ in request.stream()]
    return await call_next(request)


@app.post("/own")
async def own(request: Request) -> Any:
    if (before := request.headers.get("x-before")) == "stream":  # as `form` does
        [_ async for _ in request.stream()]
    elif before and before != "middleware":
        await getattr(request, before)()
    try:
        verified = await verify_callback_request(request, receiver=receiver)
    except TppkitError as e:
        return e.code
    return proven(verified) | {"again": await request.json()}


@app.post("/guarded", dependencies=[Depends(verified_callback(receiver, peers=guarded["peers"]))])
async def from_the_service() -> None:
    raise AssertionError


flask = Flask(__name__)


@flask.post("/cb/")
@flask.post("/cb/<uuid>")
@flask.get("/login/<uuid>")
@tppkit_flask.verified_callback(receiver, count=count)
def flask_posted(verified: VerifiedCallback, uuid: str = "") -> Any:
    return proven(verified)


@flask.post("/own")
def flask_own() -> Any:
    if before := flask_request.headers.get("X-Before"):  # an attribute, or a method
        read = getattr(flask_request, before)
        if callable(read):
            read()
    given = flask_request if flask_request.args.get("by") != "environ" else flask_request.environ
    try:
        verified = verify_callback_request(given, receiver=receiver)
    except TppkitError as e:
        return [e.code]
    return proven(verified) | {"again": flask_request.get_json(force=True)}


@flask.post("/guarded")
@tppkit_flask.verified_callback(receiver, **guarded)
def flask_from_the_service(verified: VerifiedCallback) -> None:
    raise AssertionError
