"""WSGI middleware: the same gate as under ASGI, before an application of Flask, Django or any other.

The WSGI server must pass the raw target (`RAW_URI` or `REQUEST_URI`: gunicorn, waitress, Werkzeug, uWSGI, mod_wsgi). With other
servers (wsgiref, granian) every request is rejected with `message.no-raw-path`, because a target that is rebuilt from decoded parts may
differ from the signed one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from typing import Any

from tppkit.message import Answer
from tppkit.web.answers import MAX_SEALED_BYTES
from tppkit.web.caller import Caller
from tppkit.web.gate import SealGate, Visit
from tppkit.web.replay import MAX_ANSWER_BYTES, Replay
from tppkit.web.sources import KEY, Environ, StartResponse, WsgiApp, WsgiSource, give_answer, read_pieces


class WsgiSealMiddleware:
    """Check requests before a WSGI application, which gets the verified body as `wsgi.input`.

    The application uses `caller_of(environ)` and `verified_request(environ)`.

    Args:
        app: the application.
        gate: verifies requests.

    Example:
        app.wsgi_app = WsgiSealMiddleware(app.wsgi_app, gate=gate)
    """

    def __init__(self, app: WsgiApp, *, gate: SealGate) -> None:
        self._app = app
        self._gate = gate

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Handle one request."""
        source = WsgiSource(environ)
        visit = Visit(source)
        environ = source.environ
        try:
            _, pending = self._gate.enter(source, allow_old_date=self._gate.replay is not None, visit=visit)
            visit.pause()
            for piece in read_pieces(environ, max_bytes=self._gate.max_body_bytes):
                pending.update(piece)
            visit.resume()
            caller, body = pending.finish()
            stream, length = BytesIO(body), str(len(body))
            piece = body = b""  # tools that report errors show local variables
            replay = self._claim(caller)
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered with 500 without details
            return self._give(
                visit, self._gate.refuse(source, e, visit=visit), environ, start_response, is_refusal=True
            )
        self._gate.admit(visit)
        if replay is not None and replay.answer is not None:
            return self._give(visit, replay.answer, environ, start_response)
        if replay is not None and replay.repeated:
            caller = caller._replace(repeated=True)
        proven = {
            **environ, KEY: caller, "wsgi.input": stream, "wsgi.input_terminated": True, "CONTENT_LENGTH": length,
        }  # fmt: skip
        if replay is None and self._gate.answers is None:
            return self._app(proven, start_response)
        return self._hold_answer(replay, visit, proven, start_response)

    def _give(
        self, visit: Visit, answer: Answer, environ: Environ, start_response: StartResponse, *, is_refusal: bool = False
    ) -> list[bytes]:
        seals = self._gate.answers
        if seals is not None:
            answer = seals.sign(visit.source, answer, organisation=visit.organisation, is_refusal=is_refusal)
        return give_answer(start_response, answer, environ)

    def _claim(self, caller: Caller) -> Replay | None:
        guard = self._gate.replay
        return None if guard is None or caller.seal is None else guard.admit(caller.seal, at=self._gate.now())

    def _hold_answer(
        self, replay: Replay | None, visit: Visit, environ: Environ, start_response: StartResponse
    ) -> Iterator[bytes]:
        """Call the application, and store its answer and seal it before it is sent."""
        is_sealed = self._gate.answers is not None
        limit = MAX_SEALED_BYTES if is_sealed else MAX_ANSWER_BYTES
        started: list[Any] = []
        held = bytearray()
        chunks: Iterable[bytes] = ()
        is_sent = False

        def start(*response: Any) -> Callable[[bytes], object]:
            if is_sent:
                return start_response(*response)  # raises the application's own error
            started[:] = response[:2]
            held.clear()
            return held.extend

        try:
            try:
                chunks = self._app(environ, start)
                rest = iter(chunks)
                for chunk in rest:
                    held += chunk
                    if len(held) > limit:
                        break
                status, headers = started
            except Exception:  # the application's own, raised again
                if replay is not None:
                    replay.settle(None)
                raise
            answer, is_sent = Answer(int(status.split(" ", 1)[0]), tuple(headers), bytes(held)), True
            if replay is not None:
                replay.settle(answer)
            if is_sealed:
                yield from self._give(visit, answer, environ, start_response)
                return
            start_response(status, headers)
            yield bytes(held)
            held.clear()
            for chunk in rest:  # of an answer that is too long to be stored
                held += chunk
                yield bytes(held)
                held.clear()
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
