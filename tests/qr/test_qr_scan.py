"""Scan links, and texts that may be any code."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import parse_qsl, urlsplit

import pytest
from drawing import IBAN, PAYMENT
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import FormatError
from tppkit.qr import Login, ScanLink, parse_code, parse_scan_link

SERVICE = "https://legacy.example/tpp"
VISIBLE = st.text(st.characters(categories=("Lu", "Ll", "Nd", "P", "Sm", "Sc")), min_size=1, max_size=40)
CONTENTS = VISIBLE.filter(lambda text: not text.startswith(("TX:", "LOGIN:")))


@given(CONTENTS)
def test_round_trip(content):
    link = ScanLink(SERVICE, content)
    assert link.text.isascii()
    assert parse_scan_link(link.text) == link


@given(
    st.one_of(
        st.text(),
        st.text().map(f"{SERVICE}/scan?{{}}".format),
        st.text("%TX:+&=#A1", max_size=9).map(f"{SERVICE}/scan?{{}}".format),
    )
)
def test_only_format_error_escapes(text):
    with suppress(FormatError):
        link = parse_scan_link(text)
        assert parse_scan_link(link.text) == link


def test_a_payment_is_written_percent_encoded():
    link = ScanLink(SERVICE, PAYMENT.text)
    assert link.text == f"{SERVICE}/scan?TX%3A{IBAN}%3ABookshop%3AEUR%3A12.50%3A%3AOrder%204711"
    assert link.code == PAYMENT


def test_a_form_reader_sees_one_name_and_no_value():
    link = ScanLink(SERVICE, f"TX:{IBAN}:A & B=C + D:EUR:1::a%20b")
    assert parse_qsl(urlsplit(link.text).query, keep_blank_values=True) == [(link.content, "")]


def test_the_scheme_has_no_case():
    link = parse_code("HTTPS://legacy.example/scan?LOGIN:shop.example/x")
    assert link == ScanLink("https://legacy.example", "LOGIN:shop.example/x")


@pytest.mark.parametrize("text", ["BCD\n002\n1\nSCT", "BCD\r\n001\r\n1\r\nSCT"])
def test_an_epc_code_is_named(text):
    with refused(FormatError, "qr.unknown", match="EPC"):
        parse_code(text)


def test_a_login_code_may_be_in_it():
    assert ScanLink(SERVICE, "LOGIN:shop.example/x").code == Login("https://shop.example/x")


def test_a_code_of_another_format_is_kept_as_it_is():
    link = parse_scan_link(f"{SERVICE}/scan?https://tpp.example/callback")
    assert (link.content, link.code) == ("https://tpp.example/callback", None)


def test_encoding_is_undone_once():
    assert parse_scan_link(f"{SERVICE}/scan?a%2520b").content == "a%20b"


REFUSED = [
    (f"http://legacy.example/scan?{PAYMENT.text.replace(' ', '')}", "qr.address-scheme"),
    (PAYMENT.text, "qr.address-scheme"),
    (f"https://bank.example@evil.example/scan?{'TX'}", "qr.address-userinfo"),
    (f"{SERVICE}/scan?TX#x", "qr.address-fragment"),
    ("https://legacy..example/scan?TX", "qr.address-host"),
    (f"{SERVICE}/../scan?TX", "qr.address-malformed"),
    (f"{SERVICE}/scan?%ff", "qr.address-malformed"),
    (f"{SERVICE}/scan?ž", "qr.address-malformed"),
    (f"{SERVICE}/scan?a%E2%80%AEb", "qr.character"),
    (f"{SERVICE}/scan?a%00b", "qr.character"),
    (f"{SERVICE}/scan", "qr.scan-form"),
    (f"{SERVICE}/scan?", "qr.scan-form"),
    (f"{SERVICE}/scan/?TX", "qr.scan-form"),
    (f"{SERVICE}//scan?TX", "qr.scan-form"),
    (f"{SERVICE}/skan?TX", "qr.scan-form"),
    (f"{SERVICE}/scan?a+b", "qr.scan-form"),
    (f"{SERVICE}/scan?a=b", "qr.scan-form"),
    (f"{SERVICE}/scan?a&b", "qr.scan-form"),
    (f"{SERVICE}/scan?TX:{IBAN}:n:EUR:1:", "qr.fields"),
    (f"{SERVICE}/scan?TX%3A{IBAN}%3An%3AEUR%3A0%3A%3A", "qr.amount"),
    (f"{SERVICE}/scan?LOGIN:bank.example@evil.example", "qr.address-userinfo"),
    (f"{SERVICE}/scan?" + "a" * 2330, "qr.too-long"),
]


@pytest.mark.parametrize(("text", "code"), REFUSED)
def test_a_wrong_link_is_refused(text, code):
    with refused(FormatError, code):
        parse_scan_link(text)


WRONG_VALUES = [
    ("http://legacy.example", "x", "qr.address-scheme"),
    ("https://legacy.example/", "x", "qr.scan-form"),
    ("https://legacy.example?a", "x", "qr.scan-form"),
    ("https://legacy.example", "", "qr.scan-form"),
    ("https://legacy.example", "\u202e", "qr.character"),
    ("https://legacy.example", "TX:1", "qr.fields"),
    ("https://legacy.example", "ž" * 400, "qr.too-long"),
    ("https://legacy.example", "ž" * 40_000, "qr.too-long"),
]


@pytest.mark.parametrize(("service", "content", "code"), WRONG_VALUES)
def test_a_wrong_value_makes_no_link(service, content, code):
    with refused(FormatError, code):
        ScanLink(service, content)


def test_any_code_is_known_by_its_beginning(code):
    assert parse_code(code.text) == code


@pytest.mark.parametrize("text", ["", "hello", "login:shop.example", "http://legacy.example/scan?TX", "BCD\n002"])
def test_what_begins_as_no_code_is_refused(text):
    with pytest.raises(FormatError) as refused:
        parse_code(text)
    assert refused.value.code in ("qr.unknown", "qr.character")


@given(st.text())
def test_only_format_error_escapes_from_any_text(text):
    with suppress(FormatError):
        parse_code(text)
