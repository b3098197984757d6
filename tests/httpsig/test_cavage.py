"""The Signature header and the signing string."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit._encoding import encode_base64
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig import make_signing_string, message_components
from tppkit.httpsig.cavage import (
    DRAFT_10,
    DRAFT_12,
    Reading,
    SignatureParameters,
    parse_covered_names,
    parse_signature_header,
    time_components,
)
from tppkit.message import Message

GOOD = 'keyId="SN=9FA1,CA=CN=A,C=DE",algorithm="rsa-sha256",headers="digest x-request-id (request-target)",signature="AAAA"'


TIMED = (
    'keyId="k",algorithm="hs2019",created=1402170695,expires=1402170995,headers="(created) (expires)",signature="AAAA"'
)
NO_FORMS = ("a b", "'", "'a'", "`", "a;b", "a(b)", "a@b", 'a"b"', "é", "a\tb")
NO_TIMES = ('"1402170695"', "1402170695.5", "-1", "x", "", "1e9", "1" * 21, "0x10")


def fault(value: str) -> str:
    with pytest.raises(FormatError) as caught:
        parse_signature_header(value)
    return caught.value.code


def test_a_header_is_read():
    assert parse_signature_header(GOOD) == SignatureParameters(
        "SN=9FA1,CA=CN=A,C=DE", "rsa-sha256", ("digest", "x-request-id", "(request-target)"), b"\x00\x00\x00"
    )


@pytest.mark.parametrize(
    "value",
    [
        GOOD.replace(",algorithm", ", algorithm"),
        GOOD.replace(",algorithm", ",\talgorithm"),
        GOOD + ',opaque="x, y=z"',
        'signature="AAAA",headers="digest x-request-id (request-target)",algorithm="rsa-sha256",keyId="SN=9FA1,CA=CN=A,C=DE"',
    ],
    ids=["space after comma", "tab after comma", "unknown parameter", "other order"],
)
def test_what_the_draft_allows_is_read_the_same(value):
    assert parse_signature_header(value) == parse_signature_header(GOOD)


REPLACED = (
    (",algorithm", ",,algorithm"), ('",algorithm', '"algorithm'), ('",algorithm', '" ,algorithm'), ('",algorithm', '";algorithm'),
    (",algorithm", ",\nalgorithm"), (",algorithm", "," + " " * 9 + "algorithm"), ('"rsa-sha256"', "rsa-sha256"),
    ('"rsa-sha256"', "'rsa-sha256'"), ('"rsa-sha256"', '"rsa-sha256'), ('"rsa-sha256"', "256"), ('"AAAA"', "1234"),
    ('algorithm="', 'algorithm ="'), ('algorithm="', 'algorithm= "'), ("rsa-sha256", 'rsa\\"sha256'),
    ("rsa-sha256", "rsa\x00sha256"), ("rsa-sha256", "rsa\nsha256"), ("rsa-sha256", "rsa\x7fsha256"),
)  # fmt: skip
ENDS = (
    " ", ",", ", ", ";", "\n", "\r\nX-Evil: 1", ",created=-1", ",created=1.5", ",created=" + "1" * 21, ",=1", ",created", ',ä="x"',
    ',1x="x"', f',{"n" * 33}="x"', f',note="{"x" * 8192}"', *(f",foo={form}" for form in NO_FORMS),
)  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", ","),
        *(begin + GOOD for begin in ("Signature ", " ", ",", *(f"foo={form}," for form in NO_FORMS))),
        *(GOOD + end for end in ENDS),
        *(GOOD.replace(old, new) for old, new in REPLACED),
        *(re.sub(r"created=\d+", f"created={form}", TIMED) for form in NO_TIMES),
        *(re.sub(r"expires=\d+", f"expires={form}", TIMED) for form in NO_TIMES),
    ],
)
def test_what_is_not_exactly_in_the_form_is_malformed(value):
    assert fault(value) == "signature.malformed"


@pytest.mark.parametrize("name", ["keyId", "algorithm", "headers", "signature", "KEYID", "Signature"])
def test_a_parameter_that_appears_twice_is_refused(name):
    assert fault(f'{GOOD},{name}="AAAA"') == "signature.duplicate-parameter"
    assert fault(f'{name}="AAAA",{GOOD}') == "signature.duplicate-parameter"


@pytest.mark.parametrize("name", ["keyId", "algorithm", "headers", "signature"])
def test_each_parameter_is_needed(name):
    assert fault(GOOD.replace(f"{name}=", "x=")) == "signature.missing-parameter"
    assert fault(GOOD.replace(f"{name}=", "x=").replace("AAAA", "?")) == "signature.missing-parameter"


@pytest.mark.parametrize(
    "names",
    [
        "",
        " ",
        "digest ",
        " digest",
        "digest  x-request-id",
        "digest\tx-request-id",
        "Digest X-Request-ID",
        "digest digest",
        "digest,x-request-id",
        "digest: x",
        "(status)",
        "(Created)",
        "(request-target",
        "(Request-Target)",
        "()",
        "é",
        "x" * 65,
    ],
)
def test_covered_names_are_lower_case_with_one_space_between_and_each_once(names):
    with refused(FormatError, "signature.covered-names"):
        parse_covered_names(names)
    with pytest.raises(FormatError) as caught:
        parse_covered_names("digest \x1b[31m\n")
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("text", "code"), [("AAA", "base64.malformed"), ("A-_A", "base64.malformed"), ("AB==", "base64.noncanonical")]
)
def test_a_signature_in_another_spelling_of_base64_is_refused(text, code):
    assert fault(GOOD.replace('"AAAA"', f'"{text}"')) == code


QUOTED = st.text(alphabet=st.characters(exclude_characters='"', exclude_categories=["Cc", "Cs"]), max_size=60)
NAMES = st.from_regex(r"[a-z0-9-]{1,20}|\(request-target\)", fullmatch=True)
PARAMETERS = st.builds(
    SignatureParameters,
    QUOTED,
    QUOTED,
    st.lists(NAMES, min_size=1, max_size=6, unique=True).map(tuple),
    st.binary(max_size=300),
    st.none(),
    st.none(),
)


@given(PARAMETERS, st.permutations(["keyId", "algorithm", "headers", "signature"]), st.sampled_from([",", ", ", ",\t"]))
def test_what_is_written_reads_back(parameters, order, comma):
    assert (parameters.created, parameters.expires) == (None, None)
    values = {
        "keyId": parameters.key_id,
        "algorithm": parameters.algorithm,
        "headers": " ".join(parameters.headers),
        "signature": encode_base64(parameters.signature),
    }
    assert parse_signature_header(comma.join(f'{name}="{values[name]}"' for name in order)) == parameters


@given(
    st.sampled_from(("SN=9FA1,CA", "rsa-sha256", "digest x", "AAAA")),
    st.integers(0, 12),
    st.characters() | st.sampled_from('"=+,\t\n'),
)
def test_the_usual_form_is_judged_like_every_other(part, position, character):
    place = GOOD.index(part) + min(position, len(part))
    usual = GOOD[:place] + character + GOOD[place:]
    assert outcome(usual) == outcome(usual + ",x=1")


def outcome(value: str) -> object:
    try:
        return parse_signature_header(value)
    except FormatError as e:
        return e.code


@given(st.text() | st.text(alphabet='",= \t\nkeyId1') | st.lists(st.sampled_from(GOOD.split('"'))).map('"'.join))
def test_only_format_error_escapes_the_reader_of_the_header(value):
    with suppress(FormatError):
        parse_signature_header(value)


@given(st.text() | st.text(alphabet=" ()ab-D"))
def test_only_format_error_escapes_the_reader_of_covered_names(text):
    with suppress(FormatError):
        assert " ".join(parse_covered_names(text)) == text


def test_the_times_of_draft_12_are_bare_numbers_and_go_with_any_algorithm_uncovered():
    parameters = parse_signature_header(TIMED)
    assert (parameters.created, parameters.expires) == (1402170695, 1402170995)
    assert time_components(parameters) == {"(created)": "1402170695", "(expires)": "1402170995"}
    assert make_signing_string(parameters.headers, time_components(parameters)) == (
        b"(created): 1402170695\n(expires): 1402170995"
    )
    value = TIMED.replace("hs2019", "rsa-sha256").replace('"(created) (expires)"', '"digest"')
    assert parse_signature_header(value).created == 1402170695


@pytest.mark.parametrize("name", ["created", "expires"])
def test_a_covered_time_must_be_there(name):
    assert fault(re.sub(rf"{name}=\d+,", "", TIMED)) == "signature.missing-parameter"


@pytest.mark.parametrize("algorithm", ["rsa-sha256", "rsa", "hmac-sha256", "ecdsa-sha256", "ecdsa"])
@pytest.mark.parametrize("name", ["(created)", "(expires)"])
def test_signatures_of_the_older_drafts_cover_no_time(name, algorithm):
    value = TIMED.replace("hs2019", algorithm).replace('"(created) (expires)"', f'"{name}"')
    assert fault(value) == "signature.time-not-allowed"


@pytest.mark.parametrize(("reading", "covered"), [(DRAFT_10, ("date",)), (DRAFT_12, ("(created)",))])
def test_the_draft_defines_what_an_absent_parameter_means_but_not_an_empty_list(reading, covered):
    value = 'keyId="k",created=1,signature="AAAA"'
    assert fault(value) == "signature.missing-parameter"
    parameters = parse_signature_header(value, reading=reading)
    assert (parameters.headers, parameters.algorithm) == (covered, "")
    with refused(FormatError, "signature.covered-names"):
        parse_signature_header('keyId="k",headers="",signature="AAAA"', reading=DRAFT_10)


def test_capital_letters_and_bare_signatures_are_read_only_where_a_dialect_writes_them():
    value = GOOD.replace("digest x-request-id", "Digest X-Request-ID")
    assert fault(value) == "signature.covered-names"
    assert parse_signature_header(value, reading=Reading(any_case=True)) == parse_signature_header(GOOD)
    with pytest.raises(FormatError):
        parse_signature_header(GOOD.replace("digest x-", "digest Digest x-"), reading=Reading(any_case=True))
    for text in ("AAAA", "AAA=", "1234", "A+/A"):
        bare = GOOD.replace('"AAAA"', text)
        assert fault(bare) == "signature.malformed"
        read = parse_signature_header(bare, reading=Reading(bare_signature=True))
        assert read == parse_signature_header(GOOD.replace('"AAAA"', f'"{text}"'))
    with pytest.raises(FormatError):
        parse_signature_header(GOOD.replace('"rsa-sha256"', "rsa"), reading=Reading(bare_signature=True))


@pytest.mark.parametrize("form", ["bar", "1", "a.b~c", '"a, b"', '""', "YWI="])
def test_an_unknown_parameter_is_ignored_in_every_form(form):
    # -10 section 2.2 and RFC 9110 section 11.2: a parameter's value is a token or between quotes.
    for value in (f"foo={form},{GOOD}", f"{GOOD},foo={form}"):
        assert parse_signature_header(value) == parse_signature_header(GOOD)
        assert fault(f"{value},Foo={form}") == "signature.duplicate-parameter"


def signing_string(covered: tuple[str, ...], *headers: tuple[str, str], target: str = "/a?b=%2F") -> bytes:
    return make_signing_string(covered, message_components(Message("POST", target, headers))[0])


def test_the_signing_string_has_a_line_a_name_in_order_and_no_last_line_feed():
    made = signing_string(("x-b", "(request-target)", "x-a"), ("X-A", "1"), ("x-B", "2"))
    assert made == b"x-b: 2\n(request-target): post /a?b=%2F\nx-a: 1"
    assert signing_string(("x-a",), ("X-A", "2"), ("x-a", " 1"), ("X-a", "3\t ")) == b"x-a: 2, 1, 3"


@pytest.mark.parametrize(
    ("value", "signed"),
    [("  ", b""), (" a \t b ", b"a \t b"), ("\xc3\xa9", b"\xc3\xa9")],
    ids=["empty", "inner space", "not ASCII"],
)
def test_a_field_is_signed_as_it_is_on_the_wire_but_for_the_space_around_it(value, signed):
    assert signing_string(("x-a",), ("X-A", value)) == b"x-a: " + signed


@pytest.mark.parametrize(
    ("covered", "headers", "kind", "code"),
    [
        ("x-a", (), SignatureRejected, "signature.header-absent"),
        ("(created)", (), FormatError, "signature.covered-names"),  # of a later draft
        *(("x-a", (("X-A", value),), FormatError, "header.control-character")
          for value in ("a\nx-b: 2", "a\rb", "a\x00b", "a\x7fb", "Ā")),
    ],
)  # fmt: skip
def test_a_covered_field_that_is_absent_or_could_forge_a_line_is_an_error(covered, headers, kind, code):
    with refused(kind, code):
        signing_string((covered,), *headers)
