"""A request as ASGI hands it over: the target and the body come through byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.errors import FormatError, TransportError
from tppkit.httpsig.message import Message
from tppkit.web import read_message

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
def test_a_body_in_chunks_is_read_whole(chunks: list[bytes]) -> None:
    assert read(in_chunks(*chunks)).body == b"".join(chunks)


def test_an_event_without_a_body_ends_it() -> None:
    assert read(receiving({"type": "http.request"})).body == b""


@pytest.mark.parametrize("chunks", [[LIMIT], [LIMIT - 1, 1], [1] * LIMIT])
def test_a_body_of_exactly_the_limit_is_read(chunks: list[int]) -> None:
    assert len(read(in_chunks(*(b"x" * size for size in chunks))).body) == LIMIT


@pytest.mark.parametrize("chunks", [[LIMIT + 1], [LIMIT, 1], [1] * (LIMIT + 1)])
def test_a_body_over_the_limit_is_refused(chunks: list[int]) -> None:
    with pytest.raises(FormatError) as caught:
        read(in_chunks(*(b"x" * size for size in chunks)))
    assert caught.value.code == "message.too-large"


def test_a_body_over_the_limit_is_not_read_to_its_end() -> None:
    endless = {"type": "http.request", "body": b"x" * 600, "more_body": True}
    with pytest.raises(FormatError):  # a third call of receive would fail otherwise
        read(receiving(endless, endless))


@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_client_that_leaves_before_the_end_is_told_apart(before: int) -> None:
    chunk = {"type": "http.request", "body": b"x", "more_body": True}
    with pytest.raises(TransportError) as caught:
        read(receiving(*[chunk] * before, {"type": "http.disconnect"}))
    assert caught.value.code == "transport.disconnected"


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
def test_the_target_is_what_stood_on_the_wire(raw_path: bytes, query: bytes, target: str) -> None:
    assert read(in_chunks(b""), raw_path=raw_path, path="/decoded", query_string=query).target == target


@pytest.mark.parametrize("scope", [{"raw_path": None}, {"raw_path": b""}])
def test_a_server_that_gives_no_raw_path_is_refused(scope: dict[str, Any]) -> None:
    with pytest.raises(FormatError) as caught:
        read(in_chunks(b""), path="/x", **scope)
    assert caught.value.code == "message.no-raw-path"


@pytest.mark.parametrize("raw_path", [b"/a#b", b"*", b"bank.example:443", b"http://bank.example/a"])
def test_a_target_that_is_no_path_is_refused(raw_path: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        read(in_chunks(b""), raw_path=raw_path)
    assert caught.value.code == "message.malformed"


def test_a_scope_without_a_query_has_none() -> None:
    scope = {"method": "GET", "raw_path": b"/x", "headers": []}
    assert asyncio.run(read_message(scope, in_chunks(b""), max_body_bytes=0)).target == "/x"


def test_headers_keep_their_order_duplicates_and_bytes() -> None:
    headers = [(b"digest", b"a"), (b"x-name", b"\xe9\xff"), (b"digest", b" b ")]
    assert read(in_chunks(b""), headers=headers).headers == (("digest", "a"), ("x-name", "\xe9\xff"), ("digest", " b "))


def test_the_method_is_taken_over() -> None:
    assert read(in_chunks(b""), method="DELETE").method == "DELETE"
