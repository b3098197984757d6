"""WSGI middleware: the same gate as under ASGI, before an application of Flask, Django or any other.

A WSGI server must hand over the raw target (`RAW_URI` or `REQUEST_URI`: gunicorn, waitress, Werkzeug, uWSGI, mod_wsgi).
Behind one that does not (wsgiref, granian) every request is refused with `message.no-raw-path`: putting the target together again
from decoded parts would verify another request than the one sent.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from http import HTTPStatus
from io import BytesIO
from typing import Any

from tppkit.errors import ConfigurationError, FormatError, TransportError
from tppkit.web.admitted import KEY, AdmittedRequest
from tppkit.web.gate import PendingRequest, SealGate, not_kept
from tppkit.web.refusing import Answer
from tppkit.web.replay import MAX_ANSWER_BYTES, Replay, ReplayGuard

_LOG = logging.getLogger("tppkit.web")
_CHUNK = 64 * 1024

Environ = dict[str, Any]
StartResponse = Callable[..., Callable[[bytes], object]]
WsgiApp = Callable[[Environ, StartResponse], Iterable[bytes]]


class WsgiSealMiddleware:
    """Stands before a WSGI application, which gets the proven body as `wsgi.input` and reads `verified_request(environ)`.

    Args:
        app: the application.
        gate: what is demanded; its sink must not be a coroutine function.
    """

    def __init__(self, app: WsgiApp, *, gate: SealGate) -> None:
        self._app = app
        self._gate = gate

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Handle one request."""
        replay = None
        try:
            pending = self._gate.open(environ)
            admitted = None if pending is None else _receive_body(pending, environ)
            if admitted is not None:
                self._keep(admitted)
                admitted, replay = self._guard(admitted)
        except Exception as e:  # noqa: BLE001  # the last resort of a server: told to the log, and as 500 without details
            return give_answer(start_response, self._gate.refuse(environ, e))
        if admitted is None:
            return self._app(environ, start_response)
        if replay is not None and replay.answer is not None:
            return give_answer(start_response, replay.answer)
        return self._handle(environ, start_response, admitted, replay)

    def _handle(
        self, environ: Environ, start_response: StartResponse, admitted: AdmittedRequest, replay: Replay | None
    ) -> Iterable[bytes]:
        body = admitted.unverified_message.body
        environ = {
            **environ, KEY: admitted, "wsgi.input": BytesIO(body), "wsgi.input_terminated": True, "CONTENT_LENGTH": str(len(body)),
        }  # fmt: skip
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        guard = self._gate.replay
        if replay is None or guard is None or not guard.answers:
            return self._app(environ, start_response)
        return _AnswerKeeper(guard, replay).run(self._app, environ, start_response)

    def _keep(self, admitted: AdmittedRequest) -> None:
        try:
            kept = self._gate.keep(admitted)
            if inspect.iscoroutine(kept):
                kept.close()
                raise ConfigurationError("web.awaited-sink", "a WSGI server cannot await the sink")
        except Exception as e:
            raise not_kept(e) from e

    def _guard(self, admitted: AdmittedRequest) -> tuple[AdmittedRequest, Replay | None]:
        guard = self._gate.replay
        if guard is None or admitted.verified is None:
            return admitted, None
        replay = guard.admit(admitted.verified, at=admitted.at)
        return (replace(admitted, repeated=True) if replay.repeated else admitted), replay


class _AnswerKeeper:
    """Keeps what an application answers, before the last of it is sent."""

    def __init__(self, guard: ReplayGuard, replay: Replay) -> None:
        self._guard = guard
        self._replay = replay
        self._status = 500
        self._headers: tuple[tuple[str, str], ...] = ()
        self._body = bytearray()

    def run(self, app: WsgiApp, environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
        def started(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Callable[[bytes], object]:
            self._status, self._headers = int(status.split(" ", 1)[0]), tuple(headers)
            write = start_response(status, headers, *exc_info)

            def written(chunk: bytes) -> object:
                self._take(chunk)
                return write(chunk)

            return written

        chunks: Iterable[bytes] = ()
        whole = False
        try:
            chunks = app(environ, started)
            held = b""
            for chunk in chunks:
                self._take(chunk)
                yield held
                held = chunk
            whole = True
            self._keep(Answer(self._status, self._headers, bytes(self._body)))
            yield held
        finally:
            if not whole:
                self._keep(None)
            close = getattr(chunks, "close", None)
            if close is not None:
                close()

    def _take(self, chunk: bytes) -> None:
        if len(self._body) <= MAX_ANSWER_BYTES:
            self._body += chunk

    def _keep(self, answer: Answer | None) -> None:
        try:
            self._guard.answered(self._replay, answer)
        except TransportError as e:
            _LOG.error("an answer was not kept for repetitions: %s", e)  # it happened, so it is sent


def _receive_body(pending: PendingRequest, environ: Environ) -> AdmittedRequest:
    length = environ.get("CONTENT_LENGTH")
    if length:
        _read_counted(pending, environ["wsgi.input"], int(length))
    elif environ.get("wsgi.input_terminated"):
        while chunk := environ["wsgi.input"].read(_CHUNK):
            pending.update(chunk)
    elif environ.get("HTTP_TRANSFER_ENCODING"):
        raise FormatError("message.malformed", "the WSGI server does not say where a chunked body ends")
    return pending.finish()


def _read_counted(pending: PendingRequest, body: Any, length: int) -> None:
    while length:
        chunk = body.read(min(length, _CHUNK))
        if not chunk:
            raise FormatError("message.malformed", f"the body ends {length} bytes before its Content-Length")
        length -= len(chunk)
        pending.update(chunk)


def give_answer(start_response: StartResponse, answer: Answer) -> list[bytes]:
    """Start a whole answer, and give its body."""
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = "Unknown"
    start_response(f"{answer.status} {phrase}", list(answer.headers))
    return [answer.body]
