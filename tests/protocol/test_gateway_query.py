"""The search language: what is built is written, what is written is read, and only its errors escape."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from functools import reduce
from operator import and_, or_

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.errors import FormatError
from tppkit.protocol.gateway import F, Query
from tppkit.protocol.gateway.query import (
    MAX_DEPTH,
    MAX_LENGTH,
    MAX_TERMS,
    And,
    Between,
    Equal,
    Everything,
    Not,
    Or,
    parse_query,
)
from tppkit.protocol.gateway.values import CONTROL

A, B, C = Equal("a", "1"), Equal("b", "2"), Equal("c", "3")
RIGA = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("*", Everything()), ("status:completed", Equal("status", "completed")), (" a:1\n", A), ("amount:-5", Equal("amount", "-5")),
        ("customer.email_address:a@b.example", Equal("customer.email_address", "a@b.example")), ("city:Rīga", Equal("city", "Rīga")),
        ("created:[2026-01-01 TO 2026-01-31]", Between("created", "2026-01-01", "2026-01-31")),
        ("a:[ -5 TO * ]", Between("a", "-5", None)), ("a:[* TO *]", Between("a", None, None)),
        ("a:[2026-01-01T10:00:00+02:00 TO 2026-01-02T10:00:00Z]", Between("a", "2026-01-01T10:00:00+02:00", "2026-01-02T10:00:00Z")),
        ('a:["*" TO "TO"]', Between("a", "*", "TO")), (r'a:"1 \"2\" \\ OR (*"', Equal("a", r'1 "2" \ OR (*')), ('a:""', Equal("a", "")),
        ("a:1 OR b:2 AND c:3", Or(A, And(B, C))), ("(a:1 OR b:2) AND c:3", And(Or(A, B), C)), ("NOT a:1 AND b:2", And(Not(A), B)),
        ("a:1 OR b:2 OR c:3", Or(Or(A, B), C)), ("NOT(a:1)AND(b:2)", And(Not(A), B)), ("NOT NOT *", Not(Not(Everything()))),
        ("NOT:1", Equal("NOT", "1")), ("a:AND AND b:2", And(Equal("a", "AND"), B)),
    ],
)  # fmt: skip
def test_a_query_is_a_tree(text, query):
    assert parse_query(text) == query
    assert parse_query(str(query)) == query


@pytest.mark.parametrize(
    ("text", "character"),
    [
        ("", 1), (" ", 2), ("status", 7), ("a:1 b:2", 5), ("a:1 and b:2", 5), ("a:1 AND", 8), ("a:1 ANDb:2", 5), ("OR a:1", 3), ("(a:1", 5),
        ("a:1)", 4), ("()", 2), ("a:", 3), ("a: 1", 3), ("a :1", 2), ("a:b:c", 4), ("a:1*", 4), ("a:?", 3), ("a:(1 OR 2)", 3), ("a:1~2", 4),
        ("a:[1 TO 2}", 10), ("a:{1 TO 2]", 3), ("a:[1 to 2]", 6), ("a:[1]", 5), ("a:[1 TO]", 8), ("a:>1", 3), ('a:"1', 3), (r'a:"\n"', 3),
        ("-a:1", 1), ("!a:1", 1), ("a:1 && b:2", 5), ("1a:1", 1), ("ä:1", 1), ("é" * 100_000, None), ("a:1 OR a:\0", 10),
        (":1", 1), ("a:\r", 3), ('a:"\ud800"', 4), ("*:*", 2), ("a" * 101 + ":1", 101),
        ("(" * (MAX_DEPTH + 1) + "a:1", MAX_DEPTH + 2), ("NOT " * 500 + "a:1", 4 * (MAX_DEPTH + 1) + 1),
        (" OR ".join(["*"] * (MAX_TERMS + 1)), 5 * MAX_TERMS + 1), ("(" * MAX_LENGTH, MAX_DEPTH + 2),
    ],
)  # fmt: skip
def test_another_text_is_refused_where_it_goes_wrong(text, character):
    with pytest.raises(FormatError) as refused:
        parse_query(text)
    assert refused.value.code == "search.query"
    assert refused.value.offset == (character and character - 1)
    assert f"character {character}:" in refused.value.message or character is None


@pytest.mark.parametrize(
    "text",
    ["(" * MAX_DEPTH + "a:1" + ")" * MAX_DEPTH, " AND ".join(["a:1"] * MAX_TERMS), "a:" + "1" * (MAX_LENGTH - 2)],
)
def test_a_query_at_a_limit_is_read(text):
    assert str(parse_query(text)).endswith("1")


@given(st.text() | st.text(alphabet='a:1"\\[]()* TONRAD-'))
def test_only_format_error_escapes(text):
    with suppress(FormatError):
        query = parse_query(text)
        assert parse_query(str(query)) == query


values = st.text(max_size=20).filter(lambda text: not CONTROL.search(text)) | st.sampled_from(
    ["*", "TO", "-1", "a:b", "AND"]
)
names = st.from_regex(r"[a-z_]{1,5}(\.[a-zA-Z0-9_-]{1,5})?", fullmatch=True) | st.just("NOT")
ends = st.none() | values
leaves = st.just(Everything()) | st.builds(Equal, names, values) | st.builds(Between, names, ends, ends)
trees = st.recursive(
    leaves,
    lambda inner: st.builds(Not, inner) | st.builds(And, inner, inner) | st.builds(Or, inner, inner),
    max_leaves=5,
)


@given(trees)
def test_a_tree_is_read_as_it_is_written(query):
    assert parse_query(str(query)) == query


def nested(count: int) -> Query:
    """A conjunction that has each further term on its right, in parentheses."""
    query = A
    for _ in range(count):
        query = A & query
    return query


@pytest.mark.parametrize(
    ("build", "most"),
    [
        (lambda count: reduce(or_, [A] * count), MAX_TERMS), (lambda count: reduce(and_, [A] * count), MAX_TERMS),
        (lambda count: reduce(lambda query, _: ~query, range(count), A), MAX_DEPTH), (lambda count: nested(count + 1), MAX_DEPTH),
    ],
)  # fmt: skip
def test_a_query_is_built_as_large_as_one_is_read(build, most):
    assert parse_query(str(build(most))) == build(most)
    for too_many in (most + 1, 2000):
        with pytest.raises(FormatError) as refused:
            build(too_many)
        assert refused.value.code == "search.query"


def test_a_term_has_the_place_where_it_was_read():
    query = parse_query("(a:1 OR b:[1 TO 2])")
    assert isinstance(query, Or)
    assert (query.left.offset, query.right.offset) == (1, 8)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (F("status") == "completed", "status:completed"), (F("status") != "new", "NOT status:new"), (F("amount") == -5, 'amount:"-5"'),
        (F("a") == 'x" OR b:"y', r'a:"x\" OR b:\"y"'), (F("a") == "*", 'a:"*"'), (F("a") == "OR", 'a:"OR"'),
        (F("a") == "4711/2", 'a:"4711/2"'),
        (F("amount").between(-5, None), "amount:[-5 TO *]"), (F("a").between("x y", "TO"), 'a:["x y" TO "TO"]'),
        (F("created").between(date(2026, 1, 1), datetime(2026, 1, 2, 12, tzinfo=RIGA)),
         "created:[2026-01-01 TO 2026-01-02T10:00:00.000000+00:00]"),
        (F("created") == datetime(2026, 1, 1, tzinfo=UTC), 'created:"2026-01-01T00:00:00.000000+00:00"'),
        ((A | B) & ~C, "(a:1 OR b:2) AND NOT c:3"), (A | B & C, "a:1 OR b:2 AND c:3"), (~(A & B), "NOT (a:1 AND b:2)"),
        (A & (B & C), "a:1 AND (b:2 AND c:3)"),
    ],
)  # fmt: skip
def test_the_builder_quotes_what_needs_it(query, text):
    assert str(query) == text
    assert parse_query(text) == query


@pytest.mark.parametrize("value", [None, True, 1.5, b"x", datetime(2026, 1, 1), "a\0", "\ud800"])
def test_other_values_are_refused(value):
    for build in (F("a").__eq__, lambda value: F("a").between("1", value if value is not None else 1.5)):
        with pytest.raises(FormatError) as refused:
            build(value)
        assert refused.value.code == "search.query"


def test_a_field_is_a_name():
    with pytest.raises(FormatError):
        F("a:1 OR b") == "2"  # noqa: B015


def test_queries_are_not_combined_by_mistake():
    for combine in (lambda: A and B, lambda: not A, lambda: A & "b:2", lambda: "b:2" | A, lambda: F("a") == "1" & B):  # type: ignore[operator]
        with pytest.raises(TypeError):
            combine()
