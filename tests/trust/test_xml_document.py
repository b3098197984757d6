"""XML from strangers: what is refused, within bounds of time and memory."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.errors import FormatError
from tppkit.trust.trusted_list.xml_document import (
    MAX_ATTRIBUTES,
    MAX_ATTRIBUTES_OF_ELEMENT,
    MAX_MARKS,
    MAX_XML_BYTES,
    parse_xml,
)

SECONDS = 5.0


def refusal(data: bytes) -> FormatError:
    started = time.process_time()
    with pytest.raises(FormatError) as refused:
        parse_xml(data, what="the list")
    assert time.process_time() - started < SECONDS
    return refused.value


LAUGHS = b"".join(b'<!ENTITY l%d "%s">' % (n, b"&l%d;" % (n - 1) * 10) for n in range(1, 10))


@pytest.mark.parametrize(
    "data",
    [
        b'<!DOCTYPE a [<!ENTITY l0 "lol">' + LAUGHS + b"]><a>&l9;</a>",
        b'<!DOCTYPE a [<!ENTITY l0 "lol">' + LAUGHS + b']><a b="&l9;"/>',
        b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
        b'<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd"><a/>',
        b'<!DOCTYPE a PUBLIC "a" "http://127.0.0.1:9/a.dtd"><a/>',
        b'<!DOCTYPE a [<!ENTITY % p SYSTEM "http://127.0.0.1:9/p"> %p;]><a/>',
        b"<!DOCTYPE a><a/>",
        b'<?xml version="1.0"?>\n<!DOCTYPE a [<!ATTLIST a b CDATA "default">]><a/>',
        '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE a><a/>'.encode("utf-16"),
        b'<?xml version="1.0" encoding="UTF-7"?>+ADwAIQ-DOCTYPE a+AD4-<a/>',
        b'<?xml version="1.0" encoding="ISO-8859-1"?><a>\xe4</a>',
        b"<a>&undeclared;</a>",
        b"<a>\xff</a>",
        b"<a>\0</a>",
        b"<a>&#0;</a>",
        b"<a><b></a></b>",
        b"<a/><b/>",
        b"",
        b"\xef\xbb\xbf",
        b"%PDF-1.7",
    ],
)  # fmt: skip
def test_what_is_not_a_plain_document_is_refused(data):
    assert refusal(data).code == "trusted-list.malformed"


def test_a_document_with_a_byte_order_mark_is_read():
    assert parse_xml(b'\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?><a>\xc3\xa4</a>', what="the list").text == "ä"


@pytest.mark.parametrize("depth", [300, 10_000, 100_000])
def test_deep_nesting_is_refused(depth):
    assert refusal(b"<a>" * depth + b"</a>" * depth).code == "trusted-list.malformed"


TOO_LARGE = {
    "bytes": b"<a>" + b"x" * MAX_XML_BYTES + b"</a>",
    "elements": b"<a>" + b"<b/>" * MAX_MARKS + b"</a>",
    "attributes in all": b"<a>" + b'<b c="" d="" e=""/>' * (MAX_ATTRIBUTES // 2) + b"</a>",
    # Canonicalization sorts the attributes of an element in quadratic time.
    **{
        f"{count} attributes of one element": b"<a %s/>" % b" ".join(b'b%d=""' % n for n in range(count))
        for count in (MAX_ATTRIBUTES_OF_ELEMENT + 1, 50_000)
    },
    **{
        f"{count} namespaces in one scope": b"<a %s/>" % b" ".join(b'xmlns:b%d="u"' % n for n in range(count))
        for count in (65, 50_000)
    },
    "namespaces through nesting": b"".join(b'<a xmlns:b%d="u%d">' % (n, n) for n in range(100)) + b"</a>" * 100,
}


@pytest.mark.parametrize("data", TOO_LARGE.values(), ids=TOO_LARGE)
def test_too_much_of_anything_is_refused(data):
    assert refusal(data).code == "trusted-list.too-large"


def test_a_name_of_a_megabyte_is_refused():
    name = b"a" * 1_000_000
    assert refusal(b"<" + name + b"/>").code in ("trusted-list.malformed", "trusted-list.too-large")


def test_the_largest_allowed_breadth_is_read_in_bounded_time():
    started = time.process_time()
    assert len(parse_xml(b"<a>" + b"<b/>" * (MAX_MARKS - 2) + b"</a>", what="the list")) == MAX_MARKS - 2
    assert time.process_time() - started < SECONDS


@given(st.binary(max_size=200) | st.text(alphabet="<>&!?\"'[]=/ abxmlns:DOCTYPE;#0", max_size=80).map(str.encode))
def test_only_format_errors_escape(data):
    with suppress(FormatError):
        parse_xml(data, what="the list")
