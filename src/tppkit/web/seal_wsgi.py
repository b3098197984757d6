"""WSGI middleware: the same gate as under ASGI, before an application of Flask, Django or any other.

A WSGI server must hand over the raw target (`RAW_URI` or `REQUEST_URI`: gunicorn, waitress, Werkzeug, uWSGI, mod_wsgi).
Behind one that does not (wsgiref, granian) every request is refused with `message.no-raw-path`: putting the target together again
from decoded parts would verify another request than the one sent.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from io import BytesIO
from typing import Any

from tppkit.errors import ConfigurationError, TransportError
from tppkit.web.admitted import KEY, AdmittedRequest
from tppkit.web.gate import PendingRequest, SealGate, not_kept
from tppkit.web.refusing import Answer
from tppkit.web.replay import MAX_ANSWER_BYTES, Replay, ReplayGuard
from tppkit.web.sources import WsgiSource
from tppkit.web.wsgi_body import read_pieces

_LOG = logging.getLogger("tppkit.web")

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
        replay, source = None, WsgiSource(environ)
        try:
            pending = self._gate.open(source)
            admitted = None if pending is None else self._receive_body(pending, environ)
            if admitted is not None:
                admitted, replay = self._claim(admitted)
                if replay is None or replay.answer is None:
                    self._keep(admitted, replay)
        except Exception as e:  # noqa: BLE001  # the last resort of a server: told to the log, and as 500 without details
            return give_answer(start_response, self._gate.refuse(source, e), environ)
        if admitted is None:
            return self._app(environ, start_response)
        if replay is not None and replay.answer is not None:
            return give_answer(start_response, replay.answer, environ)
        return self._handle(environ, start_response, admitted, replay)

    def _receive_body(self, pending: PendingRequest, environ: Environ) -> AdmittedRequest:
        for piece in read_pieces(environ, max_bytes=self._gate.max_body_bytes):
            pending.update(piece)
        return pending.finish()

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
        return _AnswerKeeper(guard, replay, start_response).run(self._app, environ)

    def _claim(self, admitted: AdmittedRequest) -> tuple[AdmittedRequest, Replay | None]:
        guard = self._gate.replay
        if guard is None or admitted.verified is None:
            return admitted, None
        replay = guard.admit(admitted.verified, at=self._gate.now())
        return (replace(admitted, repeated=True) if replay.repeated else admitted), replay

    def _keep(self, admitted: AdmittedRequest, replay: Replay | None) -> None:
        try:
            kept = self._gate.keep(admitted)
            if inspect.iscoroutine(kept):
                kept.close()
                raise ConfigurationError("web.awaited-sink", "a WSGI server cannot await the sink")
        except Exception as e:
            if self._gate.replay is not None and replay is not None:
                self._gate.replay.settle(replay, None)
            raise not_kept(e) from e


class _AnswerKeeper:
    """Keeps what an application answers, before the last of it is sent.

    The claim is let go only when the application itself failed. When the client leaves, the application may have had its effect: it
    is asked for the rest of its answer, which nobody reads, and that is kept.
    """

    def __init__(self, guard: ReplayGuard, replay: Replay, start_response: StartResponse) -> None:
        self._guard = guard
        self._replay = replay
        self._start_response = start_response
        self._write: Callable[[bytes], object] | None = None
        self._status = 500
        self._headers: tuple[tuple[str, str], ...] = ()
        self._body = bytearray()
        self._unsent: Exception | None = None

    def run(self, app: WsgiApp, environ: Environ) -> Iterator[bytes]:
        """Call the application, give what it answers, and see to its claim."""
        chunks: Iterable[bytes] = ()
        held = b""
        try:
            with self._let_go_on_failure():
                chunks = app(environ, self._started)
                rest = iter(chunks)
            while (chunk := self._next(rest)) is not None:
                held, ready = chunk, held
                if self._unsent is None:
                    try:
                        yield ready
                    except GeneratorExit:  # the server cannot send
                        while self._next(rest) is not None:
                            pass
                        self._keep_answer()
                        raise
            self._keep_answer()
            if self._unsent is not None:
                raise self._unsent
            yield held
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()

    @contextmanager
    def _let_go_on_failure(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            self._keep(None)
            raise

    def _next(self, rest: Iterator[bytes]) -> bytes | None:
        """What the application answers next; None when that was all."""
        with self._let_go_on_failure():
            chunk = next(rest, None)
        if chunk is not None:
            self._take(chunk)
        return chunk

    def _keep_answer(self) -> None:
        self._keep(Answer(self._status, self._headers, bytes(self._body)))

    def _started(self, status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Callable[[bytes], object]:
        self._status, self._headers = int(status.split(" ", 1)[0]), tuple(headers)
        if any(exc_info):
            self._body.clear()
            self._write = self._start_response(status, headers, *exc_info)  # raises the application's own error
        else:
            self._write = self._try(self._start_response, status, headers)
        return self._written

    def _written(self, chunk: bytes) -> None:
        self._take(chunk)
        if self._write is not None:
            self._try(self._write, chunk)

    def _try(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call the server; what it raises is raised again when the answer is kept, because the application did nothing wrong."""
        if self._unsent is not None:
            return None
        try:
            return call(*arguments)
        except Exception as e:  # noqa: BLE001  # servers raise what they like
            self._unsent = e
            return None

    def _take(self, chunk: bytes) -> None:
        if len(self._body) <= MAX_ANSWER_BYTES:
            self._body += chunk

    def _keep(self, answer: Answer | None) -> None:
        try:
            self._guard.settle(self._replay, answer)
        except TransportError as e:
            _LOG.error("an answer was not kept for repetitions: %s", e)  # it happened, so it is sent


def give_answer(start_response: StartResponse, answer: Answer, environ: Environ) -> list[bytes]:
    """Start a whole answer, and give its body; to HEAD there is none."""
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = "Unknown"
    start_response(f"{answer.status} {phrase}", list(answer.headers))
    return [b"" if environ.get("REQUEST_METHOD") == "HEAD" else answer.body]
