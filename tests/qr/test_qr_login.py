"""Login codes."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import FormatError
from tppkit.qr import Login, parse_login

PATHS = st.lists(st.text("abcXYZ019-_~!$&'()*+,;=:@", min_size=1, max_size=8), max_size=3).map("/".join)
HOSTS = st.sampled_from(["shop.example", "xn--bcher-kva.example", "192.0.2.1", "[2001:db8::1]", "localhost"])
PORTS = st.one_of(st.just(""), st.integers(1, 65535).map(":{}".format))
QUERIES = st.one_of(st.just(""), st.text("abc=&/?:%".replace("%", ""), max_size=8).map("?{}".format))


@st.composite
def addresses(draw):
    return f"https://{draw(HOSTS)}{draw(PORTS)}/{draw(PATHS)}{draw(QUERIES)}"


@given(addresses())
def test_round_trip(url):
    code = Login(url)
    assert parse_login(code.text) == code
    assert code.text == "LOGIN:" + url[len("https://") :]


@given(st.one_of(st.text(), st.text().map("LOGIN:{}".format), addresses().map("LOGIN:{}".format)))
def test_only_format_error_escapes(text):
    with suppress(FormatError):
        assert parse_login(text).text == text


def test_host_and_port_are_reported():
    code = parse_login("LOGIN:xn--bcher-kva.example:8443/login/7c1f?a=b")
    assert (code.host, code.port) == ("xn--bcher-kva.example", 8443)
    assert code.url == "https://xn--bcher-kva.example:8443/login/7c1f?a=b"
    assert parse_login("LOGIN:shop.example/").port == 443


def test_percent_encoded_letters_are_kept_as_they_are():
    assert parse_login("LOGIN:shop.example/%C5%BE%2F").url == "https://shop.example/%C5%BE%2F"


REFUSED = [
    ("login:shop.example/", "qr.unknown"),
    (" LOGIN:shop.example/", "qr.unknown"),
    ("TX:shop.example/", "qr.unknown"),
    ("", "qr.unknown"),
    ("LOGIN:", "qr.address-host"),
    ("LOGIN:https://shop.example/", "qr.address-host"),
    ("LOGIN:/shop.example", "qr.address-host"),
    ("LOGIN:shop.example:/", "qr.address-host"),
    ("LOGIN:shop.example:0/", "qr.address-host"),
    ("LOGIN:shop.example:080/", "qr.address-host"),
    ("LOGIN:shop.example:65536/", "qr.address-host"),
    ("LOGIN:shop.example:٨/", "qr.address-host"),
    ("LOGIN:shop..example/", "qr.address-host"),
    ("LOGIN:shop.example./", "qr.address-host"),
    ("LOGIN:-shop.example/", "qr.address-host"),
    ("LOGIN:shop-.example/", "qr.address-host"),
    (f"LOGIN:{'a' * 64}.example/", "qr.address-host"),
    (f"LOGIN:{'a.' * 127}example/", "qr.address-host"),
    ("LOGIN:Shop.example/", "qr.address-host"),
    ("LOGIN:[2001:DB8::1]/", "qr.address-host"),
    ("LOGIN:shop.example?a=b", "qr.address-malformed"),
    ("LOGIN:shop.example/%25x", "qr.address-malformed"),
    ("LOGIN:shop.example/%7B", "qr.address-malformed"),
    ("LOGIN:shop.example/a%20b", "qr.address-malformed"),
    ("LOGIN:bücher.example/", "qr.address-host"),
    ("LOGIN:shop%2eexample/", "qr.address-host"),
    ("LOGIN:shop.example\\@evil.example/", "qr.address-userinfo"),
    ("LOGIN:shop.example\\evil.example/", "qr.address-host"),
    ("LOGIN:127.1/", "qr.address-host"),
    ("LOGIN:2130706433/", "qr.address-host"),
    ("LOGIN:0x7f000001/", "qr.address-host"),
    ("LOGIN:0x7f.0.0.0x1/", "qr.address-host"),
    ("LOGIN:127.0.0.01/", "qr.address-host"),
    ("LOGIN:shop.123/", "qr.address-host"),
    ("LOGIN:[::1%25eth0]/", "qr.address-host"),
    ("LOGIN:[::g]/", "qr.address-host"),
    ("LOGIN:[1:2]/", "qr.address-host"),
    ("LOGIN:::1/", "qr.address-host"),
    ("LOGIN:bank.example@evil.example/", "qr.address-userinfo"),
    ("LOGIN:bank.example:443@evil.example/", "qr.address-userinfo"),
    ("LOGIN:shop.example/#", "qr.address-fragment"),
    ("LOGIN:shop.example#@bank.example", "qr.address-fragment"),
    ("LOGIN:shop.example/a b", "qr.address-malformed"),
    ("LOGIN:shop.example/ž", "qr.address-malformed"),
    ("LOGIN:shop.example/?ž", "qr.address-malformed"),
    ("LOGIN:shop.example/a\\b", "qr.address-malformed"),
    ("LOGIN:shop.example/%", "qr.address-malformed"),
    ("LOGIN:shop.example/%zz", "qr.address-malformed"),
    ("LOGIN:shop.example/%ff", "qr.address-malformed"),
    ("LOGIN:shop.example/?%ff", "qr.address-malformed"),
    ("LOGIN:shop.example/a/../b", "qr.address-malformed"),
    ("LOGIN:shop.example/a/%2e%2E/b", "qr.address-malformed"),
    ("LOGIN:shop.example/.", "qr.address-malformed"),
    ("LOGIN:shop.example/%0d%0aHost:evil", "qr.character"),
    ("LOGIN:shop.example/%00", "qr.character"),
    ("LOGIN:shop.example/?%E2%80%AE", "qr.character"),
    ("LOGIN:shop.example/\n", "qr.character"),
    ("LOGIN:shop.\u200bexample/", "qr.character"),
    ("LOGIN:shop.example/" + "a" * 2312, "qr.too-long"),
]


@pytest.mark.parametrize(("text", "code"), REFUSED)
def test_a_wrong_text_is_refused(text, code):
    with refused(FormatError, code):
        parse_login(text)


def test_the_longest_text_is_read():
    assert len(parse_login("LOGIN:shop.example/" + "a" * 2311).text) == 2330


def test_an_address_of_another_scheme_or_without_a_path_is_refused():
    for url in ("http://shop.example/", "shop.example", "HTTPS://shop.example/", "//shop.example/"):
        with refused(FormatError, "qr.address-scheme"):
            Login(url)
    with refused(FormatError, "qr.address-malformed"):
        Login("https://shop.example")


@pytest.mark.parametrize("text", [text for text, code in REFUSED if code.startswith("qr.address")])
def test_a_refusal_shows_no_path(text):
    secret = "s3cr3t"
    with pytest.raises(FormatError) as refused:
        parse_login(f"{text}/{secret}")
    assert secret not in refused.value.message


def test_a_refusal_shows_no_password():
    with pytest.raises(FormatError) as refused:
        parse_login("LOGIN:user:s3cr3t@evil.example/")
    assert "s3cr3t" not in refused.value.message
    assert "evil.example" in refused.value.message
