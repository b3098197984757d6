"""Addresses that all programs read alike; the tests of codes and receivers have vectors for their own rules."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit._addresses import Address, parse_address, parse_signed_address
from tppkit.errors import FormatError


def test_host_and_port_are_normalised_and_the_rest_is_unchanged():
    assert parse_address("https://TPP.example:8443/%C5%BE?a=b", what="it") == Address(
        "tpp.example", 8443, "https://TPP.example:8443", "/%C5%BE?a=b"
    )


@pytest.mark.parametrize("host", ["my_tpp", "_tpp_.my_net.example"])
def test_names_of_containers_may_have_underscores(host):
    assert parse_signed_address(f"https://{host}:8443/cb/", what="it").host == host


@pytest.mark.parametrize(
    "url", ["https://tpp.example", "https://TPP.example/", "https://tpp.example/%25", "https://tpp.example/%20"]
)
def test_an_address_that_can_be_linked_to_is_not_always_one_that_can_be_signed(url):
    parse_address(url, what="it")
    with pytest.raises(FormatError):
        parse_signed_address(url, what="it")


def test_letters_outside_ascii_are_accepted_on_request():
    assert parse_signed_address("https://tpp.example/ž?ž", what="it", beyond_ascii=True).path == "/ž?ž"
    with refused(FormatError, "qr.address-malformed"):
        parse_signed_address("https://tpp.example/ž", what="it")


@pytest.mark.parametrize("path", ["/%ž41", "/%4ž1", "?%ž41", "/\u202e", "/\udcff"])
def test_a_letter_outside_ascii_completes_no_escape_and_is_visible(path):
    with pytest.raises(FormatError):
        parse_address(f"https://tpp.example{path}", what="it", beyond_ascii=True)


@given(st.text(), st.booleans())
def test_only_format_error_escapes(text, beyond_ascii):
    for url in (text, f"https://{text}", f"https://tpp.example/{text}"):
        with suppress(FormatError):
            parsed = parse_signed_address(url, what="it", beyond_ascii=beyond_ascii)
            assert parsed.origin + parsed.path == url
