"""Bodies of many rows: CSV as it arrives, and JSON arrays."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.errors import FormatError
from tppkit.protocol.reports import ROWS_PER_CHUNK, CsvRows
from tppkit.protocol.wire import JsonArray, WireModel, written


def check_short(text: str) -> str:
    if len(text) > 9:
        raise ValueError("longer than 9")
    return text


class Fee(WireModel):
    id: int
    note: Annotated[str, written(check_short)] | None = None
    paid: bool | None = None


FORM = CsvRows(("id", "note", "paid"), Fee, max_record_bytes=1000)
ARRAY = JsonArray(Fee, max_bytes=1000)
notes = st.none() | st.text(st.characters(codec="utf-8") | st.sampled_from('",\n\r'), min_size=1, max_size=9)
fees = st.lists(st.builds(Fee, id=st.integers(), note=notes, paid=st.none() | st.booleans()), max_size=5)


def read(*chunks: bytes, form: CsvRows[Fee] = FORM) -> list[Fee]:
    reader = form.reader()
    rows = [row for chunk in chunks for row in reader.feed(chunk)]
    return rows + reader.end() + reader.end()


def code(raw: bytes) -> str:
    with pytest.raises(FormatError) as refused:
        read(raw)
    return refused.value.code


@given(fees, st.integers(1, 30))
def test_rows_come_back_however_they_are_cut(rows, size):
    raw = b"".join(FORM.chunks(rows))
    assert read(*[raw[at : at + size] for at in range(0, len(raw), size)]) == list(rows)


@pytest.mark.parametrize(
    "raw",
    [b"id,note,paid\n7,,", b"id\n7", b"\xef\xbb\xbfid\r\n7\r\n", b'\xef\xbb\xbf"id"\r\n7\r\n'],
    ids=["no last line end", "optional columns absent", "byte order mark", "quotes after it"],
)
def test_a_report_of_another_writer_is_read(raw):
    assert read(raw) == [Fee(id=7)]


@given(st.binary(), st.sampled_from([b"", b"id,note,paid\r\n"]))
def test_only_format_error_escapes(raw, head):
    with suppress(FormatError):
        read(head + raw)
    with suppress(FormatError):
        ARRAY.read(raw, tolerant=True)


def test_chunks_are_bounded():
    chunks = list(FORM.chunks(Fee(id=n) for n in range(2 * ROWS_PER_CHUNK)))
    assert [chunk.count(b"\r\n") for chunk in chunks] == [ROWS_PER_CHUNK + 1, ROWS_PER_CHUNK, 0]


def test_columns_are_found_by_name_and_further_ones_ignored():
    assert read(b"new,paid,note,id\r\nx,true,a much longer note,7\r\n") == [
        Fee.model_construct(id=7, note="a much longer note", paid=True)
    ]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", "csv.cut-off"),
        (b"id,note,paid\n1,a", "csv.malformed"),
        (b'id,note,paid\n1,"a', "csv.cut-off"),
        (b'id,note,paid\n1,"a\n', "csv.cut-off"),
        (b"note,paid\n", "csv.malformed"),
        (b"id,note,paid,id\n", "csv.malformed"),
        (b"id,note,paid\n1,2\n", "csv.malformed"),
        (b"id,note,paid\n\n", "csv.malformed"),
        (b"id,note,paid\n1,\xff,\n", "csv.malformed"),
        (b'id,note,paid\n1,"a"b,\n', "csv.malformed"),
        (b'id,note,paid\n1,a"b,\n2,c"d,\n', "csv.malformed"),
        (b"id,note,paid\none,a,\n", "model.invalid"),
        (b"id,note,paid\n,a,\n", "model.invalid"),
        (b"id,note,paid\n1," + b"a" * 1000, "csv.too-long"),
        (b'id,note,paid\n1,"' + b"a\n" * 500, "csv.too-long"),
    ],
)
def test_what_is_not_a_report_is_refused(raw, expected):
    assert code(raw) == expected


@given(fees)
def test_an_array_comes_back(rows):
    array = JsonArray(Fee)
    assert array.read(array.write(tuple(rows)), tolerant=False) == tuple(rows)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"{}", "model.invalid"), (b"[1]", "model.invalid"), (b'[{"id":"1"}]', "model.invalid"),
        (b'[{"id":1,"note":"longer than 9"}]', "model.invalid"), (b'[{"id":1,"id":2}]', "json.duplicate-name"),
        (b"[" + b" " * 1000 + b"]", "json.too-large"),
    ],
)  # fmt: skip
def test_what_is_not_an_array_of_the_model_is_refused(raw, expected):
    with pytest.raises(FormatError) as refused:
        ARRAY.read(raw, tolerant=False)
    assert refused.value.code == expected


def test_an_answer_is_read_tolerantly():
    (fee,) = ARRAY.read(b'[{"id":1,"note":"longer than 9"}]', tolerant=True)
    assert fee.note == "longer than 9"
