"""DER, read strictly and written."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tppkit.certificates import der
from tppkit.errors import FormatError

TAGS = st.integers(0, 255).filter(lambda tag: tag & 0x1F != 0x1F)
ARCS = st.integers(0, 2**70)
OIDS = st.one_of(
    st.tuples(st.integers(0, 1), st.integers(0, 39), *[ARCS] * 3),
    st.tuples(st.just(2), ARCS, ARCS),
    st.tuples(st.just(2), ARCS),
).map(lambda arcs: ".".join(map(str, arcs)))
STRING_TAGS = [der.UTF8_STRING, der.PRINTABLE_STRING, der.IA5_STRING, 0x12, 0x14, 0x1A, 0x1C, 0x1E]
READERS = [der.read_children, der.read_integer, der.read_oid, der.read_text]


def whole(data: bytes) -> der.Element:
    return der.read_element(data, 0, len(data))


def refusal(data: bytes, read=der.read_element, *args) -> FormatError:
    with pytest.raises(FormatError) as refused:
        read(data, *(args or (0, len(data))))
    return refused.value


@given(TAGS, st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0x100, 0xFFFF, 0x10000]))
def test_a_written_element_is_read_again_whatever_its_length(tag, size):
    data = der.write_element(tag, b"x" * size)
    assert der.read_whole(data, tag=tag) == (tag, 0, len(data) - size, len(data))


@given(st.lists(st.tuples(TAGS, st.binary(max_size=200)), max_size=5))
def test_written_children_are_read_again(children):
    data = der.write_sequence(*(der.write_element(tag, content) for tag, content in children))
    read = der.read_children(data, whole(data))
    assert [(child.tag, data[child.start : child.end]) for child in read] == children


@given(st.integers(-(2**255), 2**255 - 1))
@example(-(2**255))
def test_a_written_integer_is_read_again(value):
    data = der.write_integer(value)
    assert der.read_integer(data, whole(data)) == value


@pytest.mark.parametrize(
    ("value", "content"),
    [(0, b"\x00"), (127, b"\x7f"), (128, b"\x00\x80"), (-1, b"\xff"), (-128, b"\x80"), (-129, b"\xff\x7f")],
)
def test_an_integer_is_written_as_short_as_it_can_be(value, content):
    assert der.write_integer(value) == bytes([der.INTEGER, len(content)]) + content


@given(OIDS)
def test_a_written_object_identifier_is_read_again(dotted):
    data = der.write_oid(dotted)
    assert der.read_oid(data, whole(data)) == dotted


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_written_text_is_read_again(text):
    data = der.write_text(text)
    assert der.read_text(data, whole(data)) == text


@pytest.mark.parametrize("tag", STRING_TAGS)
def test_every_string_type_is_read(tag):
    data = der.write_text("1234", tag=tag)
    assert der.read_text(data, whole(data)) == "1234"


@given(st.binary(max_size=40), st.sampled_from(READERS))
def test_only_format_error_escapes_from_random_bytes(data, read):
    with suppress(FormatError):
        read(data, whole(data))


@given(st.sampled_from([der.INTEGER, der.OID, *STRING_TAGS]), st.binary(max_size=80), st.sampled_from(READERS))
def test_only_format_error_escapes_from_random_content(tag, content, read):
    data = der.write_element(tag, content)
    with suppress(FormatError):
        read(data, whole(data))


@given(st.binary(max_size=60))
def test_children_lie_one_after_the_other_inside_their_parent(content):
    data = der.write_sequence(content)
    with suppress(FormatError):
        children = der.read_children(data, whole(data))
        ends = [2, *(child.end for child in children)]
        assert [child.offset for child in children] == ends[:-1]
        assert ends[-1] == len(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x30",
        b"\x30\x01",
        b"\x30\x80" + bytes(128),
        b"\x30\x81\x7f" + b"x" * 0x7F,
        b"\x30\x82\x00\x80" + b"x" * 0x80,
        b"\x30\x84\x7f\xff\xff\xff",
        b"\x30\x85\x00\x00\x00\x00\x01x",
        b"\x30\xff" + b"\x01" * 127,
        b"\x30\x82\x01",
        b"\x1f\x02\x00\x00",
    ],
    ids=[
        "empty", "only a tag", "cut off", "indefinite length", "long form of a short length", "padded length",
        "two gigabytes", "length of five bytes", "length of 127 bytes", "cut off length", "multi-byte tag",
    ],
)  # fmt: skip
def test_what_is_not_der_is_malformed(data):
    assert refusal(data).code == "der.malformed"


@pytest.mark.parametrize("child", [b"\x1f\x02\x00\x00", b"\x04\x80" + bytes(128), b"\x04\x81\x01x", b"\x04"])
def test_children_are_read_as_strictly(child):
    data = der.write_sequence(b"\x05\x00" + child)
    assert refusal(data, der.read_children, whole(data)).code == "der.malformed"


def test_an_element_longer_than_its_parent_is_malformed():
    data = der.write_sequence(b"\x04\x05abc") + b"more than enough"
    assert refusal(data, der.read_children, der.read_element(data, 0, 7)).offset == 2


def test_bytes_after_the_end_are_malformed():
    with pytest.raises(FormatError) as refused:
        der.read_whole(b"\x30\x00\x00", tag=der.SEQUENCE)
    assert (refused.value.code, refused.value.offset) == ("der.malformed", 2)


@pytest.mark.parametrize("read", [der.read_integer, der.read_oid, der.read_text])
def test_another_type_than_expected_is_named_with_its_place(read):
    data = der.write_sequence(der.write_element(der.BOOLEAN, b"\xff"))
    refused = refusal(data, read, der.read_element(data, 2, 5))
    assert (refused.code, refused.offset) == ("der.unexpected-tag", 2)


# What is malformed inside an element, of which an identifier is cut off, padded or too long, and a text does not fit its type.
MALFORMED = [
    *((der.read_oid, der.OID, content) for content in (b"", b"\x80\x01", b"\x2a\x80\x01", b"\x2a\x86", b"\x2a" * 65)),
    *((der.read_integer, der.INTEGER, content) for content in (b"", b"\x01" * 33)),
    *(
        (der.read_text, tag, content)
        for tag, content in ((0x0C, b"\xff"), (0x13, b"\xe9"), (0x1E, b"a"), (0x1C, b"abc"))
    ),
]


@pytest.mark.parametrize(("read", "tag", "content"), MALFORMED)
def test_content_that_does_not_fit_its_type_is_malformed(read, tag, content):
    data = der.write_element(tag, content)
    assert refusal(data, read, whole(data)).code == "der.malformed"


def test_deep_nesting_is_read_without_recursion():
    data = b""
    for _ in range(15_000):
        data = der.write_sequence(data)
    element, depth = whole(data), 1
    while element.start < element.end:
        (element,) = der.read_children(data, element)
        depth += 1
    assert depth == 15_000
