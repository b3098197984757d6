"""Rows of a streamed answer: complete, or an error; asked for again only before the first row."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from rogue_bank import Answer, http, rogue_bank, server_context

from refusals import refused
from tppkit.client.calls import Calls, StreamCall
from tppkit.client.credentials import BasicCredentials
from tppkit.client.driver import AsyncClient, StreamMethod, SyncClient
from tppkit.client.tls_context import NoCertificate
from tppkit.errors import ConfigurationError, TppkitError
from tppkit.metrics import Count
from tppkit.protocol.endpoint import Auth, Endpoint, Interface
from tppkit.protocol.refusals import Refusals
from tppkit.protocol.reports import CsvRows
from tppkit.protocol.wire import Nothing, WireModel
from tppkit.testpki import Pki


class Fee(WireModel):
    id: str


FEES = Endpoint(
    name="fees", method="GET", path="/fees", source="", auth=Auth.BASIC, request=Nothing(), answer=CsvRows(("id",), Fee), safe=True,
)  # fmt: skip
REFUSALS = Refusals((), lambda _: b"", lambda _: (None, None))
BANK = Interface(name="fees", endpoints=(FEES,), refusals=REFUSALS, default_auth=Auth.BASIC)


class FeeCalls(Calls):
    def fees(self) -> StreamCall[Fee]:
        return self.stream(FEES, None)


class Client(SyncClient[FeeCalls]):
    fees = StreamMethod(FeeCalls.fees)


class AsyncFeeClient(AsyncClient[FeeCalls]):
    fees = StreamMethod(FeeCalls.fees)


def fetch(kind: str, url: str, tls: NoCertificate, count: Count | None = None) -> tuple[list[str], str | None]:
    """The rows that came, and the code of the error behind them."""
    calls, rows = FeeCalls(BANK, url, credentials=BasicCredentials("key")), []

    async def fetch_async() -> None:
        async with AsyncFeeClient(calls, tls, sleep=lambda _: asyncio.sleep(0), count=count) as client:
            async for row in client.fees():
                rows.append(row.id)  # noqa: PERF401  # an error comes after rows

    try:
        if kind == "async":
            asyncio.run(fetch_async())
        else:
            with Client(calls, tls, sleep=lambda _: None, count=count) as client:
                for row in client.fees():
                    rows.append(row.id)  # noqa: PERF401  # an error comes after rows
    except TppkitError as e:
        return rows, e.code
    return rows, None


@pytest.fixture
def tls(bank_pki: Pki) -> NoCertificate:
    return NoCertificate(server_anchors=[bank_pki.root.certificate])


WHOLE = http(200, b"id\r\n1\r\n2\r\n")
CUT_OFF = http(200, b"id\r\n1\r\n", content_length="50")
CUT_OFF_AT_ONCE = http(200, b"id\r\n", content_length="50")
CASES: dict[str, tuple[list[Answer], list[str], str | None, int]] = {
    "whole": ([WHOLE], ["1", "2"], None, 1),
    "no rows": ([http(200, b"id\r\n")], [], None, 1),
    "no last line end": ([http(200, b"id\r\n1\r\n2")], ["1", "2"], None, 1),
    "cut off in quotes": ([http(200, b'id\r\n1\r\n"2')], ["1"], "csv.cut-off", 1),
    "empty": ([http(200, b"")], [], "csv.cut-off", 1),
    "no end": ([http(200, b"id\r\n1\r\n", content_length="")], [], "answer.no-end", 1),
    "lost after a row": ([CUT_OFF, WHOLE], ["1"], "transport.failed", 1),
    "lost before the first row": ([CUT_OFF_AT_ONCE, http(503), WHOLE], ["1", "2"], None, 3),
    "lost three times": ([CUT_OFF_AT_ONCE] * 3, [], "transport.failed", 3),
    "refused": ([http(404)], [], "request.refused", 1),
    "another page": ([http(200, b"<html>\n<p>\n")], [], "csv.malformed", 1),
}


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(("answers", "rows", "code", "requests"), CASES.values(), ids=CASES)
def test_rows_are_whole_or_an_error(
    answers: list[Answer], rows: list[str], code: str | None, requests: int, kind: str, bank_pki_folder: Path, tls: NoCertificate
) -> None:  # fmt: skip
    left, counted = iter(answers), list[object]()
    with rogue_bank(server_context(bank_pki_folder), lambda request: next(left)(request), then_close=True) as bank:
        assert fetch(kind, bank.url, tls, lambda *given: counted.append(given[:2])) == (rows, code)
    outcome = "answered" if code is None else "refused" if code == "request.refused" else "failed"
    assert counted == [(outcome, code or "")]
    assert len(bank.requests) == requests


def test_a_streamed_row_is_not_a_row_with_a_whole_answer():
    with refused(ConfigurationError, "endpoint.streamed"):
        FeeCalls(BANK, "https://bank.example", credentials=BasicCredentials("key")).call(FEES, None)
