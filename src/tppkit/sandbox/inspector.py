"""The inspector: pages of the control host that show requests as they arrive, explain each, and have buttons for control calls."""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tppkit._clock import Clock
from tppkit._encoding import parse_json
from tppkit.codes import CODES
from tppkit.errors import ArchiveError, FormatError, LocalProtocolError, TppkitError, TransportError
from tppkit.sandbox.cell import Decision
from tppkit.sandbox.conformance import RULES
from tppkit.sandbox.control import Control
from tppkit.sandbox.exchange import MAX_KEPT_BYTES
from tppkit.sandbox.html import (
    INSPECTOR_HEADERS,
    INSPECTOR_SCRIPT,
    error_page,
    fragment,
    is_cross_origin,
    is_local,
    local_only_page,
    page,
    read_form,
    see_other,
)
from tppkit.sandbox.latest_requests import Kept, LatestRequests
from tppkit.sandbox.request_view import SealDiagnoses, reason_of, shown_body, shown_headers

PATH = "/inspector"
MAX_READERS = 8
_TICK_S = 0.25
_LIFE_S = 300.0
_LAST_S = 5.0  # for a reader to take what was sent at the end of its time
_STATUSES = ("2xx", "3xx", "4xx", "5xx")
_NUMBER = re.compile("[0-9]{1,12}")
_MAX_FORM = 4096

_ERRORS: Mapping[str, tuple[int, str]] = {
    "form.elsewhere": (403, "Nothing was done: reload the page"),
    "inspector.unknown": (404, "This request is not here"),
    "inspector.busy": (503, "Too many pages of the inspector are open"),
}
_DONE: Mapping[str, str] = {
    "advance": "The clock was advanced.",
    "next": "The clock was moved to the next event.",
    "freeze": "The clock was stopped.",
    "run": "The clock runs.",
    "fault": "The fault was added.",
    "clear": "All faults were removed.",
    "approve": "Approved.",
    "decline": "Declined.",
}


class _Call(NamedTuple):
    """A control call of a button: method and path of its row, parameters and body."""

    method: str
    path: str
    parameters: Mapping[str, str] = {}
    body: Any = None


class Filter(NamedTuple):
    """The requests that a page shows; empty texts show all."""

    interface: str = ""
    status: str = ""

    def fits(self, kept: Kept) -> bool:
        """Whether the page shows a request."""
        exchange = kept.exchange
        return self.interface in ("", exchange.host) and self.status[:1] in ("", str(exchange.status)[:1])


class Inspector:
    """The pages.

    Args:
        requests: the latest requests.
        controls: the calls of the control host, which the buttons make.
        interfaces: the names of the hosts.
        plain: those whose bodies are shown also if they are not JSON.
        decisions: what customers decide.
        faults: the names of faults, by what they are faults of.
        faulty: the interfaces that can have faults.
        diagnoses: explains refused seals.
        now: the virtual clock.
        token: a random text in each form; a form without it is refused.
        life_s: seconds after which a stream of events ends; the browser opens another one.

    Attributes:
        routes: the routes of the pages.
        readers: how many streams of events are open.
    """

    def __init__(
        self, requests: LatestRequests, controls: Iterable[Control], *, interfaces: Sequence[str], plain: Sequence[str],
        decisions: Sequence[Decision], faults: Mapping[str, Iterable[str]], faulty: Iterable[str], diagnoses: SealDiagnoses, now: Clock,
        token: str, life_s: float = _LIFE_S,
    ) -> None:  # fmt: skip
        self._requests, self._diagnoses, self._now, self._token = requests, diagnoses, now, token
        self._controls = {(row.method, row.path): row for row in controls}
        self._interfaces, self._plain, self._decisions = interfaces, plain, decisions
        self._faults, self._faulty = faults, tuple(faulty)
        self.life_s, self.readers, self._stopped = life_s, 0, False
        self.routes = (
            _route(PATH, self._list),
            _route(f"{PATH}/events", self._events),
            _route(f"{PATH}/actions", self._act, method="POST"),
            _route(f"{PATH}/{{number}}", self._one),
        )

    def stop(self) -> None:
        """End the streams of events; may be called in any thread."""
        self._stopped = True

    async def _list(self, request: Request) -> Response:
        shown = self._filter(request)
        kept = [one for one in self._requests if shown.fits(one)]
        query = urlencode({name: value for name, value in shown._asdict().items() if value})
        return page(
            "inspector.html", heading="Requests to this bank", width="80rem", requests=kept, newest=self._requests.newest, shown=shown,
            interfaces=self._interfaces, statuses=_STATUSES, faults=self._faults, faulty=self._faulty,
            events=f"{PATH}/events?{query}{'&' if query else ''}after=", **self._common(request),
        )  # fmt: skip

    async def _one(self, request: Request) -> Response:
        kept = self._find(request.path_params["number"])
        exchange = kept.exchange
        is_plain = exchange.host in self._plain
        is_whole = exchange.is_whole and exchange.body_size == len(exchange.body)
        diagnosis = await self._diagnoses.diagnose(kept) if is_plain else None
        answer = exchange.answer_body
        return page(
            "inspected.html", heading=f"Request {kept.number}", width="60rem", kept=kept, exchange=exchange, is_whole=is_whole,
            reason=reason_of(exchange), rules=[RULES[name] for name in exchange.broken_rules], diagnosis=diagnosis,
            decision=self._decision(kept)[0],
            sent=(shown_headers(exchange.headers), shown_body(exchange.body, is_whole=is_whole, is_plain=is_plain)),
            answered=(
                shown_headers(exchange.answer_headers), shown_body(answer, is_whole=len(answer) < MAX_KEPT_BYTES, is_plain=is_plain)
            ),
            **self._common(request),
        )  # fmt: skip

    async def _events(self, request: Request) -> Response:
        shown = self._filter(request)
        if self.readers >= MAX_READERS:
            raise LocalProtocolError("inspector.busy", f"at most {MAX_READERS} follow the requests at the same time")
        given = (request.query_params.get("after", ""), request.headers.get("last-event-id", ""))
        after = max([int(text) for text in given if _NUMBER.fullmatch(text)], default=0)
        # After a restart, the numbers begin again.
        return _Events(self, shown, after if after <= self._requests.newest else 0)

    async def _act(self, request: Request) -> Response:
        form = {
            name: values[0] for name, values in (await read_form(request, _url(request), max_bytes=_MAX_FORM)).items()
        }
        if not hmac.compare_digest(form.get("token", "").encode(), self._token.encode()):
            raise LocalProtocolError(
                "form.elsewhere", "the form is not of this page, or of an earlier start of the sandbox"
            )
        action, number = form.get("action", ""), form.get("number", "")
        call = self._call(action, form)
        await self._controls[call.method, call.path].answer(call.parameters, call.body)
        page_of = f"{PATH}/{number}" if _NUMBER.fullmatch(number) else PATH
        return see_other(f"{page_of}?done={action}")

    def _call(self, action: str, form: Mapping[str, str]) -> _Call:
        match action:
            case "advance":
                return _Call("POST", "/clock/advance", body={"seconds": _number(form.get("seconds", ""))})
            case "next":
                return _Call("POST", "/clock/next")
            case "freeze" | "run":
                return _Call("POST", "/clock/freeze", body={"frozen": action == "freeze"})
            case "fault":
                fields = {
                    "name": form.get("name"),
                    "count": _number(form.get("count", "1")),
                    "interface": form.get("interface"),
                }
                return _Call(
                    "POST", "/faults", body={name: value for name, value in fields.items() if value is not None}
                )
            case "clear":
                return _Call("DELETE", "/faults")
            case "approve" | "decline":
                decision, id_ = self._decision(self._find(form.get("number", "")))
                if decision is not None:
                    path, body = decision.approve if action == "approve" else decision.decline
                    return _Call("POST", path, {decision.path_parameter: id_}, body)
        raise FormatError("model.invalid", "there is no such button")

    def _decision(self, kept: Kept) -> tuple[Decision | None, str]:
        """Return what can be decided about the object of a request, with its id."""
        exchange = kept.exchange
        for one in self._decisions:
            id_ = (exchange.parameters or {}).get(one.parameter)
            if id_ is None and exchange.row == one.created_by and exchange.status < 400:
                with suppress(FormatError):
                    answer = parse_json(exchange.answer_body, what="the answer", max_bytes=MAX_KEPT_BYTES)
                    id_ = answer.get(one.field) if isinstance(answer, dict) else None
            if isinstance(id_, str) and exchange.host in one.hosts:
                return one, id_
        return None, ""

    def _find(self, text: str) -> Kept:
        kept = self._requests.find(int(text)) if _NUMBER.fullmatch(text) else None
        if kept is None:
            raise LocalProtocolError(
                "inspector.unknown", "no request with this number is kept; only the latest ones are"
            )
        return kept

    def _filter(self, request: Request) -> Filter:
        interface, status = request.query_params.get("interface", ""), request.query_params.get("status", "")
        for value, known in ((interface, self._interfaces), (status, _STATUSES)):
            if value and value not in known:
                raise FormatError("model.invalid", f"the filter is unknown; there are {', '.join(known)}")
        return Filter(interface, status)

    def _common(self, request: Request) -> dict[str, Any]:
        done = _DONE.get(request.query_params.get("done", ""), "")
        return {"token": self._token, "now": self._now(), "done": done, "script": INSPECTOR_SCRIPT}

    async def follow(self, shown: Filter, after: int) -> AsyncIterator[str]:
        """Yield an event for each request after a number. What a slow reader has missed and is no longer kept, it does not get."""
        end = asyncio.get_running_loop().time() + self.life_s
        yield "retry: 2000\n\n"
        while not self._stopped and asyncio.get_running_loop().time() < end:
            for kept in self._requests.after(after):
                after = kept.number
                if shown.fits(kept):
                    row = fragment("inspector_row.html", one=kept).replace("\n", "")
                    yield f"id: {kept.number}\ndata: {row}\n\n"
            await asyncio.sleep(_TICK_S)


class _Events(StreamingResponse):
    """The stream of events for one reader, who is cut off at the end of its time also if it does not read."""

    def __init__(self, inspector: Inspector, shown: Filter, after: int) -> None:
        super().__init__(inspector.follow(shown, after), media_type="text/event-stream")
        self._inspector = inspector

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._inspector.readers += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._inspector.life_s + _LAST_S):
                    await super().__call__(scope, receive, send)
        finally:
            self._inspector.readers -= 1


def _route(path: str, answer: Callable[[Request], Awaitable[Response]], *, method: str = "GET") -> Route:
    async def guarded(request: Request) -> Response:
        try:
            # Other pages may link to these pages, but not make them work: a diagnosis takes time, a stream has a place.
            if request.headers.get("sec-fetch-dest") != "document" and is_cross_origin(request, _url(request)):
                raise LocalProtocolError("form.elsewhere", "")
            response = await answer(request) if is_local(request) else local_only_page()
        except TppkitError as e:
            is_passing = isinstance(e, TransportError | ArchiveError)
            status, heading = _ERRORS.get(e.code, (503 if is_passing else 400, "This was not possible"))
            response = error_page(e, (status, heading, f"{e.message or CODES[e.code].hint} ({e.code})"))
        response.headers.update(INSPECTOR_HEADERS)
        return response

    return Route(path, guarded, methods=[method])


def _url(request: Request) -> str:
    return f"http://{request.headers['host']}"


def _number(text: str) -> Any:
    """Return the whole number in a field; anything else unchanged, which the call refuses."""
    return int(text) if _NUMBER.fullmatch(text) else text
