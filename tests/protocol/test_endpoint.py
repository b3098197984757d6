"""Endpoint rows."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.protocol.endpoint import Endpoint
from tppkit.protocol.psd2 import ENDPOINTS
from tppkit.protocol.psd2.endpoints import PAYMENT_STATUS

# Parameters that every reader of the path takes for the same.
UNRESERVED = "".join(map(chr, range(0x21, 0x7F))).translate(dict.fromkeys(map(ord, "!\"#$%&'()*+,/:;<=>?@[\\]^`{|}")))
SAFE = st.text(st.sampled_from(UNRESERVED), min_size=1).filter(lambda text: text not in {".", ".."})
ROW = Endpoint("name", "GET", "/v1/{first}/x/{second_part}", False, None, 200, "nowhere")


def test_each_parameter_takes_its_place() -> None:
    assert ROW.target(first="a", second_part="b") == "/v1/a/x/b"


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("a/b", "a%2Fb"),
        ("a?b", "a%3Fb"),
        ("a#b", "a%23b"),
        ("50%", "50%25"),
        ("a b", "a%20b"),
        ("ž", "%C5%BE"),
        ("a\n", "a%0A"),
    ],
)
def test_a_parameter_is_percent_encoded_as_one_segment(value: str, encoded: str) -> None:
    assert ROW.target(first=value, second_part="b") == f"/v1/{encoded}/x/b"


def test_a_parameter_that_looks_like_a_place_is_not_replaced_again() -> None:
    assert ROW.target(first="{second_part}", second_part="b") == "/v1/%7Bsecond_part%7D/x/b"


def test_a_parameter_that_was_not_given_is_an_error() -> None:
    with pytest.raises(KeyError):
        ROW.target(first="a")


@given(first=st.text(min_size=1), second=st.text(min_size=1))
def test_whatever_the_parameters_they_are_read_back_from_their_segments(first: str, second: str) -> None:
    target = ROW.target(first=first, second_part=second)
    assert re.fullmatch(r"[A-Za-z0-9/._~%-]+", target)
    segments = target.split("/")
    assert (len(segments), unquote(segments[2]), unquote(segments[4])) == (5, first, second)


@given(first=SAFE, second=SAFE)
def test_a_target_matches_its_own_row_with_its_parameters(first: str, second: str) -> None:
    assert ROW.match(ROW.target(first=first, second_part=second)) == {"first": first, "second_part": second}


@given(st.text(max_size=40) | st.from_regex(r"/v1/[^?]{1,10}/x/.{1,10}", fullmatch=True))
def test_what_matches_has_exactly_the_rows_segments(path: str) -> None:
    found = ROW.match(path)
    if found is not None:
        assert path.split("/")[:2] + path.split("/")[3:4] == ["", "v1", "x"]
        assert [unquote(segment) for segment in path.split("/")[2::2]] == list(found.values())
        assert not {".", "..", ""} & {*found.values()}


@pytest.mark.parametrize(
    "value",
    [
        "..;", "..;a", ".;a", "a;b", "%2e%2e;a", "%252e%252e", "%252Fx", "a%25", "a%3Bb", "a:b", "a@b", "a=b", "a,b", "a+b", "(a)", "a!",
        "a'b", "%2e", ".%2E", "%C5%BE", "%C2%AD", "%EF%BC%8F", "a%0A", "a%20b",
    ],
)  # fmt: skip
def test_a_parameter_that_another_reader_might_take_otherwise_matches_nothing(value: str) -> None:
    assert ROW.match(f"/v1/{value}/x/b") is None
    assert ROW.match(f"/v1/a/x/{value}") is None


@pytest.mark.parametrize("value", ["...", "1234-abcd", "A.b_c~d", "2ad3f3c8-0d4a-4c4b-8c2a-7f2d0e9b6a11", "%61%2D"])
def test_a_parameter_of_unreserved_characters_is_read(value: str) -> None:
    assert ROW.match(f"/v1/{value}/x/b") == {"first": unquote(value), "second_part": "b"}


def test_a_long_path_matches_nothing() -> None:
    assert ROW.match("/v1/a/x/" + "b" * 4000) is not None
    assert ROW.match("/v1/a/x/" + "b" * 4096) is None


def test_what_stands_between_parameters_is_taken_as_it_is() -> None:
    row = Endpoint("name", "GET", "/v1.0/{first}", False, None, 200, "nowhere")
    assert row.match("/v1.0/a") == {"first": "a"}
    assert row.match("/v1x0/a") is None


def test_the_rows_of_the_psd2_interface_are_those_of_the_document() -> None:
    rows = {(row.method, row.path, row.signed, row.success) for row in ENDPOINTS.values()}
    assert rows == {
        ("POST", "/psd2/v1/payments/{product}", True, 201),
        ("GET", "/psd2/v1/payments/{product}/{payment_id}/status", False, 200),
        ("GET", "/psd2/v1/payments/{product}/{payment_id}", False, 200),
        ("DELETE", "/psd2/v1/payments/{product}/{payment_id}", False, 200),
    }


def test_every_payment_row_needs_the_payment_initiation_role() -> None:
    assert {row.role for row in ENDPOINTS.values()} == {"PSP_PI"}


def test_every_row_stands_under_its_name() -> None:
    assert all(row.name == name for name, row in ENDPOINTS.items())


def test_a_status_target_is_what_the_document_shows() -> None:
    target = PAYMENT_STATUS.target(product="sepa-credit-transfers", payment_id="1234-abcd")
    assert target == "/psd2/v1/payments/sepa-credit-transfers/1234-abcd/status"
