"""Addresses of a receiver, and which of them a target is."""

from __future__ import annotations

from contextlib import suppress

import pytest
from calling import ADDRESSES, ORIGIN, UUID
from hypothesis import example, given
from hypothesis import strategies as st

from refusals import refused
from tppkit.callbacks import CallbackAddress, CallbackKind
from tppkit.callbacks.addresses import AddressBook
from tppkit.errors import ConfigurationError, FormatError
from tppkit.protocol.legacy.rules import is_token
from tppkit.qr import Login

BOOK = AddressBook(ADDRESSES)


def address(url: str) -> CallbackAddress:
    return CallbackAddress(url, CallbackKind.OTHER)


@pytest.mark.parametrize(
    "url",
    [
        "", "http://tpp.example/", "tpp.example/", "https://", "https:///cb/", "https://tpp.example", "https://TPP.example/",
        "HTTPS://tpp.example/", "https://u@tpp.example/", "https://u:p@tpp.example/", "https://tpp.example:/", "https://tpp.example:x/",
        "https://žalias.example/", "https://tpp.example/#", "https://tpp.example/a b", "https://tpp.example/a%20b", "https://tpp.example/%0A",
        "https://tpp.example/%7B", "https://tpp.example/{", "https://tpp.example/{token}/", "https://tpp.example/x{token}",
        "https://tpp.example/%25", "https://tpp.example/%", "https://tpp.example/%zz", "https://tpp.example/%ff", "https://tpp.example\\/",
        "https://tpp.example/" + "a" * 2313, "https://tpp.example/\u202e", "https://tpp.example/\u3164",
        "https://tpp.example/a/../b", "https://tpp.example/%2e/{token}", "https://tpp.example:99999/", "https://tpp.example:080/",
        "https://tpp..example/", "https://[1:2]/", "https://127.1/", "https://tpp.example/a|b", "https://tpp.example?s={token}", "https://tpp.example/\udcff",
    ],
)  # fmt: skip
def test_an_address_that_could_be_misread_is_refused(url):
    with refused(ConfigurationError, "callback.address-unusable"):
        address(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://tpp.example/", "https://tpp.example:8443/cb", "https://[::1]:8443/cb/", "https://127.0.0.1/cb?tenant=1",
        "https://tpp.example/login?session={token}", "https://tpp.example/žalias/{token}", "https://xn--alias-hib.example/",
    ],
)  # fmt: skip
def test_what_a_provider_may_have_registered_is_accepted(url):
    match = AddressBook([address(url)]).find(address(url).path + (UUID if "{token}" in url else ""))
    assert match is not None
    assert match.urls[0].decode().startswith(address(url).origin)


def test_the_longest_address_that_a_login_code_can_hold_is_received():
    url = "https://tpp.example/" + "a" * 2312
    assert len(Login(url).text) == 2330
    book = AddressBook([address(url)])
    assert book.find(address(url).path) == book.find(url)
    assert book.find(url).urls == (url.encode(),)  # type: ignore[union-attr]
    with pytest.raises(FormatError):
        Login(url + "a")


def test_an_address_is_measured_as_it_arrives():
    with pytest.raises(ConfigurationError, match="percent-encoded it has 3020 characters, at most 2332"):
        address("https://tpp.example/" + "ž" * 500)


def test_an_address_with_a_token_in_its_query_is_found():
    match = AddressBook([address(f"{ORIGIN}/login?session={{token}}")]).find(f"/login?session={UUID}")
    assert match is not None
    assert (match.token, match.urls) == (UUID, (f"{ORIGIN}/login?session={UUID}".encode(),))


def test_a_plain_address_and_its_encoding_are_the_same():
    for url in (f"{ORIGIN}/ž/", f"{ORIGIN}/%C5%BE/"):  # whichever was configured, both may be signed
        match = AddressBook([address(url)]).find("/%C5%BE/")
        assert match is not None
        assert match.urls == (f"{ORIGIN}/%C5%BE/".encode(), f"{ORIGIN}/ž/".encode())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/cb/", "/cb/"), ("/ž/", "/%C5%BE/"), ("/a%2Fb/", "/a/b/"), ("/cb/{token}", "/cb/{token}"), ("/cb/{token}", f"/cb/{UUID}"),
        ("/%63b/{token}", f"/cb/{UUID}"), ("/login?s={token}", f"/login?s={UUID}"), ("/%63b/", "/cb/"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("turned", [False, True])
def test_two_addresses_that_one_request_fits_are_refused(one, other, turned):
    pair = (other, one) if turned else (one, other)
    with refused(ConfigurationError, "callback.addresses-ambiguous"):
        AddressBook([address(ORIGIN + path) for path in pair])


def test_one_path_at_two_hosts_is_refused():
    # The host of a request says nothing, so they could not be distinguished.
    with refused(ConfigurationError, "callback.addresses-ambiguous"):
        AddressBook([address("https://a.example/cb/"), address("https://b.example/cb/")])


@pytest.mark.parametrize("prefix", ["/app", "/cb/", "cb", "/c", "/", "/%63b", "/cb//", "/ž"])
def test_a_prefix_that_could_take_nothing_off_is_refused(prefix):
    with refused(ConfigurationError, "callback.address-unusable"):
        AddressBook([address(f"{ORIGIN}/cb/")], stripped_prefix=prefix)


PIECES = [
    *"/%=?{}ž:.",
    "/cb/",
    "/a%2Fb/",
    "/a/b/",
    "%C5%BE",
    "\xc5\xbe",
    "alias/",
    "%63b",
    "/login/",
    ORIGIN,
    UUID,
    "a" * 20,
]


@given(st.lists(st.sampled_from(PIECES), max_size=5).map("".join))
@example("https://tpp.example/cb/")
def test_a_match_is_an_address_in_another_spelling_and_nothing_else(target):
    match = BOOK.find(target)
    if match is not None:
        assert match.address in ADDRESSES
        decoded = match.urls[-1].decode()
        fixed = match.address.url.removesuffix("{token}").replace("%2F", "/").replace("%C5%BE", "ž")
        assert decoded == fixed + match.token
        assert all(b"{" not in url and url.startswith(ORIGIN.encode()) for url in match.urls)
        assert is_token(match.token) == match.address.has_token


def logins() -> st.SearchStrategy[str]:
    """Texts of which many are addresses, in unusual spellings."""
    pieces = [
        "/",
        "a",
        "ž",
        "..",
        ".",
        "%25",
        "%2F",
        "%7b",
        "%C5%BE",
        "%20",
        "?",
        "=",
        "&",
        "|",
        "@",
        ":8443",
        ":99999",
        "TPP",
        UUID,
    ]
    hosts = st.sampled_from(["tpp.example", "TPP.example", "tpp..example", "[::1]", "[1:2]", "127.0.0.1", "127.1"])
    return st.builds("https://{}{}".format, hosts, st.lists(st.sampled_from(pieces), max_size=5).map("".join))


@given(logins())
@example("https://tpp.example")
@example("https://TPP.example/login")
@example("https://tpp.example/%25x")
def test_a_login_code_names_an_address_that_can_be_received(url):
    try:
        login = Login(url)
    except FormatError:
        return
    match = AddressBook([address(login.url)]).find(login.url)
    assert match is not None
    assert match.urls[0] == url.encode()


@given(logins())
def test_an_address_in_ascii_can_be_a_login_code(url):
    try:
        address(url)
    except ConfigurationError:
        return
    if url.isascii():
        assert Login(url).url == url


@given(st.text())
def test_only_configuration_errors_escape_from_addresses(url):
    with suppress(ConfigurationError):
        address(url)
    with suppress(ConfigurationError):
        address("https://tpp.example/" + url)
