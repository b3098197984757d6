"""A request as ASGI hands it over: the target and the body come through byte for byte."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import FormatError
from tppkit.message import Message
from tppkit.web.sources import read_message

LIMIT = 1000


def receiving(*events: dict[str, Any]) -> Callable[[], Awaitable[Any]]:
    """An ASGI receive callable; it fails when it is called once too often."""
    waiting = list(events)

    async def receive() -> Any:
        return waiting.pop(0)

    return receive


def in_chunks(*chunks: bytes) -> Callable[[], Awaitable[Any]]:
    last = len(chunks) - 1
    events = [{"type": "http.request", "body": chunk, "more_body": i < last} for i, chunk in enumerate(chunks)]
    return receiving(*events)


def read(receive: Callable[[], Awaitable[Any]], **scope: Any) -> Message:
    whole = {"type": "http", "method": "POST", "raw_path": b"/x", "query_string": b"", "headers": [], **scope}
    return asyncio.run(read_message(whole, receive, max_body_bytes=LIMIT))


@given(chunks=st.lists(st.binary(max_size=100), min_size=1, max_size=9))
def test_a_body_in_chunks_is_read_whole(chunks):
    assert read(in_chunks(*chunks)).body == b"".join(chunks)


def test_empty_pieces_of_a_body_are_not_held():
    left = 200_000

    async def receive() -> Any:
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": b"", "more_body": left > 0}

    tracemalloc.start()
    assert read(receive).body == b""
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 500_000


def test_an_event_without_a_body_ends_it():
    assert read(receiving({"type": "http.request"})).body == b""


@pytest.mark.parametrize("chunks", [[LIMIT], [LIMIT - 1, 1], [1] * LIMIT])
def test_a_body_over_the_limit_is_refused(chunks):
    assert len(read(in_chunks(*(b"x" * size for size in chunks))).body) == LIMIT
    with refused(FormatError, "message.too-large"):
        read(in_chunks(*(b"x" * size for size in chunks), b"x"))


@pytest.mark.parametrize(
    ("raw_path", "query", "target"),
    [
        (b"/a", b"", "/a"),
        (b"/a%2Fb/%c3%a9", b"", "/a%2Fb/%c3%a9"),
        (b"/a", b"x=%2F&y=+&x", "/a?x=%2F&y=+&x"),
        (b"/a", b"?", "/a??"),
        (b"//a/../b/", b"q", "//a/../b/?q"),
    ],
)
def test_the_target_is_what_was_on_the_wire(raw_path, query, target):
    assert read(in_chunks(b""), raw_path=raw_path, path="/decoded", query_string=query).target == target


def test_headers_keep_their_order_duplicates_and_bytes_but_no_white_space_around_values():
    headers = [(b"digest", b"a"), (b"x-name", b"\xe9\xff"), (b"digest", b" b \t")]
    assert read(in_chunks(b""), headers=headers).headers == (("digest", "a"), ("x-name", "\xe9\xff"), ("digest", "b"))
