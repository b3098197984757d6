"""Structured fields."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import http_sf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import FormatError
from tppkit.httpsig.structured import (
    BareItem,
    Date,
    DisplayString,
    InnerList,
    Item,
    Token,
    is_key,
    parse_dictionary,
    write_bare_item,
    write_member,
)

NAMES = st.from_regex(r"[a-z*][a-z0-9_.*-]{0,12}", fullmatch=True)
TEXTS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20)
TOKENS = st.from_regex(r"[A-Za-z*][A-Za-z0-9:/.~-]{0,9}", fullmatch=True).map(Token)
INTEGERS = st.integers(-(10**15) + 1, 10**15 - 1)
DECIMALS = st.decimals(-(10**12) + 1, 10**12 - 1, places=3)
DATES = st.integers(0, 2**32).map(Date)
DISPLAYED = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map(DisplayString)
BARE = st.one_of(INTEGERS, st.booleans(), TEXTS, st.binary(max_size=20), TOKENS, DECIMALS, DATES, DISPLAYED)
PARAMETERS = st.dictionaries(NAMES, BARE, max_size=3).map(lambda found: tuple(found.items()))
ITEMS = st.builds(Item, BARE, PARAMETERS)
MEMBERS = st.one_of(ITEMS, st.builds(InnerList, st.lists(ITEMS, max_size=4).map(tuple), PARAMETERS))


def parse(value: str) -> dict[str, Any]:
    return dict(parse_dictionary(value, what="the field"))


def fault(value: str) -> str:
    with pytest.raises(FormatError) as caught:
        parse(value)
    return caught.value.code


def test_a_dictionary_is_read_and_written_with_every_type():
    assert parse('a=("x";p  y);q=1, b=:YQ==:,\tc;d=?0,e=-7') == {
        "a": InnerList((Item("x", (("p", True),)), Item(Token("y"))), (("q", 1),)),
        "b": Item(b"a"),
        "c": Item(True, (("d", False),)),
        "e": Item(-7),
    }
    text = 'a=1.50, b=-0012.003;c=@1659578233, d=%"f%c3%bc %25 %22", e=@-1, f=0.0'
    read = parse(text)
    assert read == {
        "a": Item(Decimal("1.5")),
        "b": Item(Decimal("-12.003"), (("c", Date(1659578233)),)),
        "d": Item(DisplayString('fü % "')),
        "e": Item(Date(-1)),
        "f": Item(Decimal(0)),
    }
    written = ", ".join(f"{name}={write_member(member)}" for name, member in read.items())
    assert written == 'a=1.5, b=-12.003;c=@1659578233, d=%"f%c3%bc %25 %22", e=@-1, f=0.0'
    assert write_member(Item(1, (("a", 1), ("b", True), ("c", False)))) == "1;a=1;b;c=?0"


def test_an_empty_field_and_a_string_with_its_escapes_are_read():
    assert parse("") == parse("  ") == {}
    assert parse(r'a="x\"y\\z"') == {"a": Item(r'x"y\z')}


MALFORMED = (
    ",", "a,", "a=1,", "a=1,,b", "a=1 b=2", "a=1;", "a= 1", "a =1", "A=1", "1=a", "a=", "=1", "a=(1 2", "a=(1,2)",
    "a=((1))", "a=()()", "a=(1)2", 'a=("x""y")', 'a="x', 'a="\\n"', 'a="é"', 'a="\x7f"', 'a="\t"', "a=1.", "a=.5", "a=1.2345",
    "a=1.5.2",
    "a=1234567890123456", "a=--1", "a=-", "a=?2", "a=?", "a=:Y Q==:", "a=:YQ==", "a=@", "a=@1.5", "a=@x",
    'a=%"x', 'a=%x', 'a=%"%C3%BC"', 'a=%"%c3"', 'a=%"%2"', 'a=%"ü"', "a=1234567890123.1", "a=\xa0", "a=1\n",
    "\ta=1", "a=1;X=1", "a=1; ;b", "a=(1\t2)", "a=$x",
)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "code"),
    [
        *((value, "structured.malformed") for value in MALFORMED),
        *((value, "structured.duplicate") for value in ("a=1, a=2", "a;x;x", "a=(1;x=1;x=2)", "a=(1);x;y;x=1", "a,b,a")),
        ("a=:YQ:", "base64.malformed"), ("a=:YR==:", "base64.noncanonical"), ("a=:YQ==YQ==:", "base64.malformed"),
    ],
)  # fmt: skip
def test_what_is_not_in_the_form_or_has_a_name_twice_is_refused(value, code):
    assert fault(value) == code


def test_a_field_that_is_too_long_or_has_too_many_members_is_refused():
    assert parse('a="' + "x" * 8188 + '"')
    assert fault('a="' + "x" * 8189 + '"') == "structured.malformed"
    assert len(parse(",".join(f"a{n}" for n in range(64)))) == 64
    assert fault(",".join(f"a{n}" for n in range(65))) == "structured.malformed"


@pytest.mark.parametrize(
    "value", [10**15, -(10**15), "é", "a\nb", "\x7f", 1.5, Decimal("1.2345"), Decimal(10**12), Date(10**15), Decimal("Infinity"),
              Decimal("-Infinity"), Decimal("NaN"), Decimal("sNaN"), Decimal("1e30"), DisplayString("\ud800"), DisplayString("a\udfff")],
)  # fmt: skip
def test_what_no_field_can_hold_is_not_written(value):
    with refused(FormatError, "structured.malformed"):
        write_bare_item(value)


@pytest.mark.parametrize(
    ("name", "expected"), [("sig1", True), ("*a.b-c_", True), ("Sig", False), ("1", False), ("", False)]
)
def test_a_key_is_distinguished_from_other_texts(name, expected):
    assert is_key(name) is expected


@given(st.dictionaries(NAMES, MEMBERS, max_size=5))
def test_round_trip(members):
    text = ", ".join(f"{name}={write_member(member)}" for name, member in members.items())
    read = parse(text)
    assert read == members
    assert [write_member(member) for member in read.values()] == [write_member(member) for member in members.values()]


@given(st.one_of(st.text(max_size=60), st.text('ab=;,"\\:()?1.-*@% \t', max_size=60)))
def test_only_format_error_escapes(text):
    with suppress(FormatError):
        parse(text)


def plain(value: BareItem) -> Any:
    match value:
        case Token() | DisplayString():
            return type(value).__name__, value.text
        case Date():
            return datetime, datetime.fromtimestamp(value.seconds, UTC)
    return type(value), value


def theirs(value: Any) -> Any:
    if isinstance(value, datetime):
        return datetime, value.astimezone(UTC)
    return (
        (type(value).__name__, str(value))
        if isinstance(value, http_sf.Token | http_sf.DisplayString)
        else (type(value), value)
    )


@given(st.one_of(st.text('ab=;,"\\:()?1.-* %', max_size=40), st.dictionaries(NAMES, MEMBERS, min_size=1, max_size=4).map(
    lambda members: ", ".join(f"{name}={write_member(member)}" for name, member in members.items()))))  # fmt: skip
def test_what_is_read_another_reader_reads_alike(text):
    try:
        ours = parse(text)
    except FormatError:
        return
    if not text.strip(" "):
        return
    other = http_sf.parse(text.encode(), tltype="dictionary")
    assert list(other) == list(ours)
    for name, member in ours.items():
        value, parameters = other[name]
        assert {key: theirs(what) for key, what in parameters.items()} == {
            key: plain(what) for key, what in member.parameters
        }
        if isinstance(member, InnerList):
            assert [theirs(item) for item, _ in value] == [plain(item.value) for item in member.items]
        else:
            assert theirs(value) == plain(member.value)
