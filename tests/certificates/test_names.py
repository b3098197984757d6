"""Distinguished names: RFC 4514 text and DER."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refusals import refused
from tppkit.certificates import DistinguishedName, der, oids
from tppkit.certificates.names import MAX_NAME_LENGTH, parse_name, read_name
from tppkit.errors import FormatError

CN, ORG, ORG_ID = "2.5.4.3", "2.5.4.10", "2.5.4.97"
TYPES = st.sampled_from([*oids.NAME_ATTRIBUTES, "1.3.6.1.4.1.311.60.2.1.3", "2.999.1"])
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text(
    ' #,+"\\<>;=\n\r\t\x00\x7f\xa0aß', max_size=6
)
NAMES = st.lists(st.lists(st.tuples(TYPES, VALUES), min_size=1, max_size=3).map(tuple), max_size=4).map(
    lambda rdns: DistinguishedName(tuple(rdns))
)


def named(value: str, *, oid: str = CN) -> DistinguishedName:
    return DistinguishedName((((oid, value),),))


def in_der(name: DistinguishedName) -> bytes:
    def pair(oid: str, value: str) -> bytes:
        return der.write_sequence(der.write_oid(oid), der.write_text(value))

    return der.write_sequence(*(der.write_element(der.SET, *(pair(*a) for a in rdn)) for rdn in name.rdns))


def read(data: bytes) -> DistinguishedName:
    return read_name(data, der.read_element(data, 0, len(data)))


def test_a_message_has_a_usual_name_whole_and_a_long_one_shortened():
    usual, long = named("x" * 200), named("x" * 50_000)
    assert f"{usual}" == str(usual)
    assert f"{long}" == "CN=" + "x" * 396 + "…"
    assert len(str(long)) == 50_003


@given(NAMES)
@example(named(" "))
@example(named("\n"))
@example(named("#0c0161"))
@example(named("a\\ "))
@example(named("\x85\u2028\u00a0"))
def test_the_text_of_a_name_is_read_as_the_same_name(name):
    assert parse_name(str(name)) == name
    assert parse_name(str(name)).matches(name)


@given(NAMES)
@example(named(" #\n", oid=ORG_ID))
def test_the_strict_text_of_a_name_is_read_as_the_same_name(name):
    assert parse_name(name.rfc4514()) == name
    assert parse_name(name.rfc4514()).matches(name)


@given(NAMES)
@example(named("x" * 127))
@example(named("x" * 70_000))
def test_the_der_of_a_name_is_read_as_the_same_name(name):
    assert read(in_der(name)) == name


@given(NAMES)
def test_a_name_matches_itself_written_from_the_other_end(name):
    assert name.matches(DistinguishedName(name.rdns[::-1]))


@given(st.text(max_size=60) | st.text('CNO=,+#0cab1\\ "<>;2.54\n', max_size=30))
@example("CN=#0cff")
@example("CN=#0201ff")
@example("CN=\\ud8")
@example("CN=\ud800")
@example("CN=a" + ",CN=a" * 800)
def test_only_format_error_escapes_from_text(text):
    with suppress(FormatError) as _:
        name = parse_name(text)
        assert parse_name(str(name)) == name


@given(st.binary(max_size=40), NAMES, st.integers(0, 200), st.binary(max_size=2))
def test_only_format_error_escapes_from_der(raw, name, place, change):
    good = in_der(name)
    for data in (raw, good[:place] + change + good[place + len(change) :]):
        with suppress(FormatError):
            read(data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "CN=D-TRUST CA 2-1 2015,O=D-Trust GmbH,C=DE",
            ((("2.5.4.6", "DE"),), ((ORG, "D-Trust GmbH"),), ((CN, "D-TRUST CA 2-1 2015"),)),
        ),
        ("cn = a , o = b", (((ORG, "b"),), ((CN, "a"),))),
        ("CN=a+OU=b", (((CN, "a"), ("2.5.4.11", "b")),)),
        ("2.5.4.97=PSDLT-BL-1", (((ORG_ID, "PSDLT-BL-1"),),)),
        ("2.5.4.97=#0c0161 , CN=b", (((CN, "b"),), ((ORG_ID, "a"),))),
        ("CN=#130161", (((CN, "a"),),)),
        ("E=a,SURNAME=b,GIVENNAME=c,S=d", parse_name("emailAddress=a,SN=b,GN=c,ST=d").rdns),
        ("CN=\\C3\\A9", (((CN, "é"),),)),
        ("CN=a\\2Cb", (((CN, "a,b"),),)),
        ("CN=  a  b  ", (((CN, "a  b"),),)),
        ("CN=", (((CN, ""),),)),
        ('CN="a, b+c;<d>=#" , O = "e"', (((ORG, "e"),), ((CN, "a, b+c;<d>=#"),))),
        ('CN=" a "+OU="\\"b\\"\\\\\\C3\\A9"', (((CN, " a "), ("2.5.4.11", '"b"\\é')),)),
        ('CN=""', (((CN, ""),),)),
        ("", ()),
    ],
)
def test_rfc_4514_text_is_read(text, expected):
    assert parse_name(text).rdns == expected


@pytest.mark.parametrize(
    "text",
    [
        "CN", "=a", "CN=a,", "CN=a+", ",CN=a", " ", "XYZ=a", "CN=a\\", "CN=a\\x", "CN=\\FF", "CN=a;O=b", "CN=<a>",
        "CN=#", "CN=#0", "CN=#zz", "CN=#0c", "CN=#0c01", "CN=#0cff", "CN=#0c016161", "CN=#0c0161xO=b", "CN=#0c0161 x",
        'CN="', 'CN="a', 'CN="a"b', 'CN="a""b"', 'CN=a"b"', 'CN="a\\"', 'CN="\\x"', 'CN="\\FF"', 'CN="a",', 'CN="a";O=b',
        "CN=" + "a" * MAX_NAME_LENGTH,
    ],
)  # fmt: skip
def test_what_is_not_rfc_4514_text_is_malformed(text):
    with refused(FormatError, "name.malformed"):
        parse_name(text)


def test_a_value_that_is_not_a_string_is_kept_in_hexadecimal():
    data = der.write_sequence(
        der.write_element(der.SET, der.write_sequence(der.write_oid(CN), der.write_integer(7))),
    )
    assert read(data).values(CN) == ("#020107",)


def test_a_value_that_is_not_a_string_is_the_same_in_text_and_der():
    assert parse_name("CN=#020107") == named("#020107")


def test_names_are_compared_without_case_order_inside_an_rdn_and_runs_of_white_space():
    assert parse_name("CN=Example  Bank+OU=x,C=lt").matches(parse_name("OU=X+CN=example bank,C=LT"))


@pytest.mark.parametrize("other", ["CN=b,C=LT", "CN=a", "CN=a,C=LT,C=LT", "CN=a+C=LT", "O=a,C=LT", "CN=a,O=x,C=LT"])
def test_names_with_other_attributes_do_not_match(other):
    assert not parse_name("CN=a,C=LT").matches(parse_name(other))


def test_rdns_in_any_other_order_do_not_match():
    assert not parse_name("CN=a,O=b,C=LT").matches(parse_name("O=b,CN=a,C=LT"))


def test_only_the_names_of_the_rfc_are_written_in_strict_text():
    name = DistinguishedName((((ORG_ID, "PSDLT-BL-1"),), ((CN, "a"),)))
    assert str(name) == "CN=a,organizationIdentifier=PSDLT-BL-1"
    assert name.rfc4514() == "CN=a,2.5.4.97=#0c0a5053444c542d424c2d31"


def test_values_are_found_in_every_rdn():
    assert parse_name("CN=a+O=b,CN=c").values(CN) == ("c", "a")


@pytest.mark.parametrize(
    "data",
    [
        der.write_element(der.SET),
        der.write_sequence(der.write_sequence()),
        der.write_sequence(der.write_element(der.SET)),
        der.write_sequence(der.write_element(der.SET, der.write_sequence(der.write_oid(CN)))),
        der.write_sequence(der.write_element(der.SET, der.write_oid(CN))),
    ],
    ids=["no sequence", "rdn is no set", "empty rdn", "attribute without value", "attribute is no sequence"],
)
def test_what_is_not_a_name_is_refused(data):
    with pytest.raises(FormatError):
        read(data)
