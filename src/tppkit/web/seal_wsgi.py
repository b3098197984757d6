"""WSGI middleware: the same gate as under ASGI, before an application of Flask, Django or any other.

A WSGI server must hand over the raw target (`RAW_URI` or `REQUEST_URI`: gunicorn, waitress, Werkzeug, uWSGI, mod_wsgi).
Behind one that does not (wsgiref, granian) every request is refused with `message.no-raw-path`: putting the target together again
from decoded parts would verify another request than the one sent.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from io import BytesIO
from typing import Any

from tppkit.errors import ConfigurationError
from tppkit.web.admitted import KEY
from tppkit.web.gate import SealGate, not_kept
from tppkit.web.outcomes import UNLOOKED, RequestOutcome
from tppkit.web.passing import Passage
from tppkit.web.refusing import Answer
from tppkit.web.sources import WsgiSource
from tppkit.web.wsgi_body import read_pieces

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
        source = WsgiSource(environ)
        try:
            passage = self._open(source, environ)
        except Exception as e:  # noqa: BLE001  # the last resort of a server: told to the log, and as 500 without details
            answer = self._gate.refuse(source, e)
            self._gate.tell_outcome(RequestOutcome.refused(e, answer.status))
            return give_answer(start_response, answer, environ)
        self._gate.tell_outcome(UNLOOKED if passage is None else passage.outcome)
        if passage is None:
            return self._app(environ, start_response)
        if passage.answer is not None:
            return give_answer(start_response, passage.answer, environ)
        return self._handle(environ, start_response, passage)

    def _open(self, source: WsgiSource, environ: Environ) -> Passage | None:
        pending = self._gate.open(source)
        if pending is None:
            return None
        for piece in read_pieces(environ, max_bytes=self._gate.max_body_bytes):
            pending.update(piece)
        passage = self._gate.let_through(pending.finish())
        passage.claim()
        if passage.answer is None:
            self._keep(passage)
        return passage

    def _keep(self, passage: Passage) -> None:
        try:
            kept = self._gate.keep(passage.admitted)
            if inspect.iscoroutine(kept):
                kept.close()
                raise ConfigurationError("web.awaited-sink", "a WSGI server cannot await the sink")
        except Exception as e:
            passage.let_go()
            raise not_kept(e) from e

    def _handle(self, environ: Environ, start_response: StartResponse, passage: Passage) -> Iterable[bytes]:
        body = passage.admitted.unverified_message.body
        environ = {
            **environ, KEY: passage.admitted, "wsgi.input": BytesIO(body), "wsgi.input_terminated": True,
            "CONTENT_LENGTH": str(len(body)),
        }  # fmt: skip
        if passage.is_recorded:
            return _Recorder(passage, start_response).run(self._app, environ)
        return self._app(environ, start_response)


class _Recorder:
    """Takes down what an application answers, and settles its claim before the last of it is sent.

    When the client leaves, the application is asked for the rest of its answer.
    """

    def __init__(self, passage: Passage, start_response: StartResponse) -> None:
        self._passage = passage
        self._start_response = start_response
        self._write: Callable[[bytes], object] | None = None
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
                        self._passage.answered()
                        raise
            self._passage.answered()
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
            self._passage.let_go()
            raise

    def _next(self, rest: Iterator[bytes]) -> bytes | None:
        """What the application answers next; None when that was all."""
        with self._let_go_on_failure():
            chunk = next(rest, None)
        if chunk is not None:
            self._passage.add(chunk)
        return chunk

    def _started(self, status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Callable[[bytes], object]:
        self._passage.started(int(status.split(" ", 1)[0]), tuple(headers))
        if any(exc_info):
            self._write = self._start_response(status, headers, *exc_info)  # raises the application's own error
        else:
            self._write = self._try(self._start_response, status, headers)
        return self._written

    def _written(self, chunk: bytes) -> None:
        self._passage.add(chunk)
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


def give_answer(start_response: StartResponse, answer: Answer, environ: Environ) -> list[bytes]:
    """Start a whole answer, and give its body; to HEAD there is none."""
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = "Unknown"
    start_response(f"{answer.status} {phrase}", list(answer.headers))
    return [b"" if environ.get("REQUEST_METHOD") == "HEAD" else answer.body]
