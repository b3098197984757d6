"""Endpoint rows."""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.errors import FormatError, LocalProtocolError
from tppkit.protocol.endpoint import Auth, Endpoint, Interface, Query
from tppkit.protocol.psd2 import PSD2
from tppkit.protocol.psd2.endpoints import ACCOUNT_INFORMATION, PAYMENT_STATUS, PAYMENTS
from tppkit.protocol.wire import Nothing

# Parameters that every reader of the path takes for the same.
UNRESERVED = "".join(map(chr, range(0x21, 0x7F))).translate(dict.fromkeys(map(ord, "!\"#$%&'()*+,/:;<=>?@[\\]^`{|}")))
SAFE = st.text(st.sampled_from(UNRESERVED), min_size=1).filter(lambda text: text not in {".", ".."})


def row(path: str, method: str = "GET", *query: Query) -> Endpoint[None, None]:
    return Endpoint(
        name="name", method=method, path=path, source="nowhere", auth=Auth.NONE, request=Nothing(), answer=Nothing(), query=query
    )  # fmt: skip


ROW = row("/v1/{first}/x/{second_part}")


def test_each_parameter_takes_its_place():
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
def test_a_parameter_is_percent_encoded_as_one_segment(value, encoded):
    assert ROW.target(first=value, second_part="b") == f"/v1/{encoded}/x/b"


def test_a_parameter_that_looks_like_a_placeholder_is_not_replaced_again():
    assert ROW.target(first="{second_part}", second_part="b") == "/v1/%7Bsecond_part%7D/x/b"


def test_a_parameter_that_was_not_given_is_an_error():
    with pytest.raises(KeyError):
        ROW.target(first="a")


@given(first=st.text(min_size=1), second=st.text(min_size=1))
def test_whatever_the_parameters_they_are_read_back_from_their_segments(first, second):
    target = ROW.target(first=first, second_part=second)
    assert re.fullmatch(r"[A-Za-z0-9/._~%-]+", target)
    segments = target.split("/")
    assert (len(segments), unquote(segments[2]), unquote(segments[4])) == (5, first, second)


@given(first=SAFE, second=SAFE)
def test_a_target_matches_its_own_row_with_its_parameters(first, second):
    assert ROW.match(ROW.target(first=first, second_part=second)) == {"first": first, "second_part": second}


@given(st.text(max_size=40) | st.from_regex(r"/v1/[^?]{1,10}/x/.{1,10}", fullmatch=True))
def test_what_matches_has_exactly_the_rows_segments(path):
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
def test_a_parameter_that_another_reader_might_take_otherwise_matches_nothing(value):
    assert ROW.match(f"/v1/{value}/x/b") is None
    assert ROW.match(f"/v1/a/x/{value}") is None


@pytest.mark.parametrize("value", ["...", "1234-abcd", "A.b_c~d", "2ad3f3c8-0d4a-4c4b-8c2a-7f2d0e9b6a11", "%61%2D"])
def test_a_parameter_of_unreserved_characters_is_read(value):
    assert ROW.match(f"/v1/{value}/x/b") == {"first": unquote(value), "second_part": "b"}


def test_a_long_path_matches_nothing():
    assert ROW.match("/v1/a/x/" + "b" * 4000) is not None
    assert ROW.match("/v1/a/x/" + "b" * 4096) is None


def test_what_is_between_parameters_is_kept_unchanged():
    assert row("/v1.0/{first}").match("/v1.0/a") == {"first": "a"}
    assert row("/v1.0/{first}").match("/v1x0/a") is None


ALL = PAYMENTS + ACCOUNT_INFORMATION


def test_the_rows_of_the_psd2_interface_are_those_of_the_document():
    rows = {(row.method, row.path, row.auth is Auth.SEAL, row.success) for row in ALL}
    assert rows == {
        ("POST", "/psd2/v1/payments/{product}", True, 201),
        ("GET", "/psd2/v1/payments/{product}/{payment_id}/status", False, 200),
        ("GET", "/psd2/v1/payments/{product}/{payment_id}", False, 200),
        ("DELETE", "/psd2/v1/payments/{product}/{payment_id}", False, 200),
        ("POST", "/psd2/v1/consents", True, 201),
        ("GET", "/psd2/v1/consents/{consent_id}", False, 200),
        ("GET", "/psd2/v1/consents/{consent_id}/status", False, 200),
        ("DELETE", "/psd2/v1/consents/{consent_id}", False, 204),
        ("GET", "/psd2/v1/accounts", False, 200),
        ("GET", "/psd2/v1/accounts/{resource_id}/balances", False, 200),
        ("GET", "/psd2/v1/accounts/{resource_id}/transactions", False, 200),
    }


def test_each_row_needs_the_role_of_its_service():
    assert {row.role for row in PAYMENTS} == {"PSP_PI"}
    assert {row.role for row in ACCOUNT_INFORMATION} == {"PSP_AI"}


def test_each_row_has_its_own_name():
    assert len({row.name for row in ALL}) == len(ALL)


LIST = row("/list/{id}", "GET", Query("from", required=True), Query("to"))
REPORT = row("/orders", "POST")
REPORT_CSV = row("/orders", "POST", Query("format", only="csv"))
ROWS = Interface(name="test", endpoints=(LIST, REPORT, REPORT_CSV), refusals=PSD2.refusals, default_auth=Auth.NONE)


def test_a_route_has_the_parameters_of_path_and_query_that_its_row_names():
    route = ROWS.find("GET", "/list/a%2Db?from=2026-01-01&to=%C5%BE&x=1")
    assert route == (LIST, {"id": "a-b"}, {"from": "2026-01-01", "to": "ž"})


@pytest.mark.parametrize(("target", "found"), [("/orders", REPORT), ("/orders?format=csv", REPORT_CSV)])
def test_a_constant_in_the_query_selects_the_row(target, found):
    assert ROWS.find("POST", target).row is found


@pytest.mark.parametrize(
    ("method", "target", "code"),
    [
        ("GET", "/unknown", "endpoint.unknown"),
        ("GET", "/orders", "endpoint.method"),
        ("POST", "/orders?format=json", "query.value"),
        ("GET", "/list/a", "query.missing"),
        ("GET", "/list/a?from=1&from=2", "query.duplicate"),
        ("GET", "/list/a?from=%FF", "query.malformed"),
        ("GET", "/list/a?from", "query.malformed"),
        ("GET", "/list/a?" + "&".join(f"{number}=" for number in range(33)), "query.malformed"),
    ],
)
def test_a_request_without_a_route_is_rejected(method, target, code):
    with pytest.raises((FormatError, LocalProtocolError)) as caught:
        ROWS.find(method, target)
    assert caught.value.code == code


@given(st.text(max_size=60))
def test_only_typed_errors_escape_the_search_for_a_route(query):
    with suppress(FormatError, LocalProtocolError):
        ROWS.find("GET", f"/list/a?{query}")


def test_a_status_target_is_what_the_document_shows():
    target = PAYMENT_STATUS.target(product="sepa-credit-transfers", payment_id="1234-abcd")
    assert target == "/psd2/v1/payments/sepa-credit-transfers/1234-abcd/status"
