"""Verdicts of gates as metrics: counted once, with codes of a fixed set, scraped and exported by the real libraries."""

from __future__ import annotations

import re
import time
from typing import Any
from urllib.request import urlopen

import pytest
from asgi import AT, BODY, Recorder, call, request, scope_of
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, start_http_server
from wsgi import environ_of, forwarded

from refusals import refused
from tppkit.errors import ConfigurationError
from tppkit.web import ReplayGuard, SealMiddleware, WsgiSealMiddleware, opentelemetry, prometheus
from tppkit.web.replay_stores.memory import MemoryReplayStore

VERDICTS = [("admitted", ""), ("refused", "digest.mismatch"), ("refused", "certificate.missing"), ("failed", "OSError")]


def send_all(middleware: SealMiddleware, good: Any, pki: Any, failing: list[bool]) -> None:
    """Send a request for each of the verdicts."""
    for message, qwac, body in ((good, pki.qwac, BODY), (good, pki.qwac, b"other"), (good, None, BODY)):
        call(middleware, scope_of(message, qwac), [body])
    failing.append(True)
    call(middleware, scope_of(good, pki.qwac), [BODY])


@pytest.fixture
def counting(make_gate, good, pki):
    """Counts all verdicts with a function."""

    def counting(count: Any) -> None:
        failing: list[bool] = []

        def now() -> Any:
            if failing:
                raise OSError("disk")
            return AT

        send_all(SealMiddleware(Recorder(), gate=make_gate(now=now, count=count)), good, pki, failing)

    return counting


def test_each_request_is_counted_once_with_the_gates_own_seconds(counting):
    counted: list[Any] = []
    counting(lambda *one: counted.append(one))
    assert [one[:2] for one in counted] == VERDICTS
    assert all(0 < seconds < 5 for *_, seconds in counted)


def test_neither_the_wait_for_a_body_nor_the_application_is_the_gates_own_time(make_gate, good, pki):
    counted: list[Any] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        counted.append("application")
        start_response("201 Created", [])
        return []

    class Slow:
        def read(self, size: int) -> bytes:
            time.sleep(1)
            return BODY[:size]

    gate = make_gate(count=lambda *one: counted.append(one), replay=ReplayGuard(MemoryReplayStore()))
    slow = environ_of(forwarded(good, pki)) | {"wsgi.input": Slow(), "CONTENT_LENGTH": str(len(BODY))}
    for _ in range(2):  # the second gets the kept answer
        list(WsgiSealMiddleware(app, gate=gate)(slow, lambda *_: None))
    (outcome, code, seconds), called, repeated = counted
    assert (outcome, code, called, repeated[:2]) == ("admitted", "", "application", ("admitted", ""))
    assert 0 < seconds < 1


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyError])
def test_a_counter_that_raises_changes_no_answer_and_is_logged(error, make_gate, good, pki, caplog):
    def fails(*_: object) -> None:
        raise error

    gate = SealMiddleware(Recorder(), gate=make_gate(count=fails))
    assert [call(gate, scope_of(one, pki.qwac), [BODY]).status for one in (good, request())] == [201, 401]
    assert caplog.text.count("count failed for") == 2


def test_a_counter_whose_call_runs_nothing_is_rejected(make_gate):
    async def count(outcome: str, code: str, seconds: float) -> None: ...

    with refused(ConfigurationError, "callback.function", match="count is a generator, or a coroutine function"):
        make_gate(count=count)


def test_prometheus_scrapes_a_counter_and_a_histogram(counting):
    registry = CollectorRegistry()
    counting(prometheus.make_count("gate", registry=registry))
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    try:
        with urlopen(f"http://127.0.0.1:{server.server_port}/metrics") as answer:
            text = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    found = re.findall(r'^tppkit_gate_total\{code="(.*)",outcome="(.*)"\} 1.0$', text, re.MULTILINE)
    assert [(outcome, code) for code, outcome in found] == VERDICTS
    assert 'tppkit_gate_seconds_count{outcome="refused"} 2.0' in text
    assert 'tppkit_gate_seconds_bucket{le="30.0",outcome="refused"} 2.0' in text
    with refused(ConfigurationError, "metrics.name", match="registered already"):
        prometheus.make_count("gate", registry=registry)


def test_opentelemetry_exports_a_counter_and_a_histogram(counting):
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    counting(opentelemetry.make_count("gate", meter=provider.get_meter("bank")))
    data: Any = reader.get_metrics_data()
    metrics = {one.name: one for one in data.resource_metrics[0].scope_metrics[0].metrics}
    provider.shutdown()
    points = metrics["tppkit.gate"].data.data_points
    assert [(one.attributes["outcome"], one.attributes["code"], one.value) for one in points] == [
        (*verdict, 1) for verdict in VERDICTS
    ]
    spent = {one.attributes["outcome"]: one for one in metrics["tppkit.gate.duration"].data.data_points}
    assert (spent["refused"].count, metrics["tppkit.gate.duration"].unit) == (2, "s")
    assert spent["refused"].explicit_bounds[0] == 0.001


@pytest.mark.parametrize("make", [prometheus.make_count, opentelemetry.make_count])
@pytest.mark.parametrize("name", ["", "Gate", "gate-1", "1gate", "gate\n", "g" * 65])
def test_a_name_that_no_metrics_system_takes_is_rejected(make, name):
    with refused(ConfigurationError, "metrics.name"):
        make(name)
