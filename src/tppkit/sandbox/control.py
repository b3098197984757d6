"""The control host: routes for developers to control the sandbox, on loopback, or anywhere with a token."""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tppkit._encoding import parse_json
from tppkit._networks import is_loopback
from tppkit.errors import FormatError, TppkitError, VerificationError
from tppkit.protocol.control import CONTROL_REFUSALS, TOKEN_VARIABLE
from tppkit.protocol.refusals import Refusal
from tppkit.protocol.wire import require_media_type
from tppkit.web.keys import hash_key
from tppkit.web.sources import read_message

_MAX_BODY_BYTES = 4096
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_SCHEME = "bearer "


class Control(NamedTuple):
    """One route of the control host.

    Attributes:
        method: GET, POST or DELETE.
        path: with parameters in braces, for example `/consents/{id}/approve`.
        answer: called with the parameters of the path and the JSON of a POST's body, or None without a body; returns JSON.
    """

    method: str
    path: str
    answer: Callable[[Mapping[str, str], Any], Awaitable[Any]]


def text_fields(body: Any, *names: str) -> Mapping[str, str]:
    """Return the fields of a body with these names, without absent ones; all must be texts.

    Raises:
        FormatError: `model.invalid`.
    """
    fields = {} if body is None else body
    if not isinstance(fields, dict) or not all(isinstance(fields.get(name, ""), str) for name in names):
        raise FormatError("model.invalid", f"the body is not an object with texts for {', '.join(names)}")
    return {name: fields[name] for name in names if name in fields}


def control_host(
    controls: Iterable[Control], *, pages: Iterable[Route] = (), names: Collection[str] = (), token: str | None = None
) -> ASGIApp:  # fmt: skip
    """Make the control host with these routes.

    A web page of another origin must not move the clock. So an `Origin` must be that of the request's `Host`, also its port, because
    other programs on this machine serve pages too. And only `application/json` is accepted, which browsers do not send across origins
    without a preflight request. After DNS rebinding, a page has the origin of this host, so
    `Host` must be a loopback name or one of `names`; other requests are answered with 421.

    Args:
        controls: the routes.
        pages: the routes of pages for browsers.
        names: names and addresses of this host other than loopback, in lower case, also `*.bank.example`.
        token: each call needs it as `Authorization: Bearer`; None: no call does.
    """
    routes = Starlette(routes=[*(Route(row.path, _endpoint(row), methods=[row.method]) for row in controls), *pages])
    routes.router.redirect_slashes = False  # a redirect would lead to the port in the Host header
    digest = None if token is None else hash_key(token)

    def refusal_of(request: Request) -> Response | None:
        if not _is_named(request.headers.get("host", ""), names):
            message = "the Host is neither loopback nor, with --control-host, a name from --public-url or --dns"
            return _refusal(421, FormatError("control.host", message))
        if digest is not None and not _has_token(request, digest):
            return _refusal(
                401,
                VerificationError("control.unauthorized", f"the call needs Authorization: Bearer and {TOKEN_VARIABLE}"),
            )
        origins = request.headers.getlist("origin")
        if origins not in ([], [f"http://{request.headers['host'].lower()}"]):
            return _refusal(403, FormatError("control.origin", "the request is from a web page of another origin"))
        return None

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        refused = refusal_of(Request(scope)) if scope["type"] == "http" else None
        await (refused or routes)(scope, receive, send)

    return app


def _endpoint(control: Control) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            reading = _read(request) if control.method == "POST" else None
            return JSONResponse(await control.answer(request.path_params, reading and await reading))
        except TppkitError as e:
            return _refusal(503 if e.code.startswith(("database.", "archive.", "sandbox.busy")) else 400, e)

    return answer


async def _read(request: Request) -> Any:
    """Read the JSON of the body, None if there is no body. Rejects requests across origins, which always have an Origin."""
    message = await read_message(request.scope, request.receive, max_body_bytes=_MAX_BODY_BYTES)
    if message.body or "origin" in request.headers:
        require_media_type(request.headers.get("content-type"), "application/json")
    return None if not message.body else parse_json(message.body, what="the body", max_bytes=_MAX_BODY_BYTES)


def is_loopback_name(host: str) -> bool:
    """Whether a Host header names loopback, with or without a port."""
    return is_loopback(_name_in(host))


def _name_in(host: str) -> str:
    fields = _HOST.fullmatch(host)
    return fields["name"].lower().strip("[]") if fields else ""


def _is_named(host: str, names: Collection[str]) -> bool:
    name = _name_in(host)
    return is_loopback(name) or (name != "" and (name in names or f"*.{name.partition('.')[2]}" in names))


def _has_token(request: Request, digest: bytes) -> bool:
    values = request.headers.getlist("authorization")
    value = values[0] if len(values) == 1 else ""
    given = hash_key(value[len(_SCHEME) :].strip())
    return value[: len(_SCHEME)].lower() == _SCHEME and hmac.compare_digest(given, digest)


def _refusal(status: int, error: TppkitError) -> Response:
    body = CONTROL_REFUSALS.write(Refusal(status, error.code, error.message))
    headers = {"WWW-Authenticate": 'Bearer realm="control"'} if status == 401 else None  # RFC 9110 section 11.6.1
    return Response(body, status, headers, media_type="application/json")
