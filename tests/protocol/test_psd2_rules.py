"""Rules that both sides of the PSD2 interface hold."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import FormatError, LocalProtocolError
from tppkit.protocol.psd2 import PSD2, PaymentInitiation
from tppkit.protocol.psd2.endpoints import PAYMENT_STATUS
from tppkit.protocol.psd2.models import AccountReference, InstructedAmount
from tppkit.protocol.psd2.rules import (
    instant_obstacle,
    is_attended,
    parse_consent_id,
    parse_psu_ip_address,
    parse_redirect_uri,
    parse_request_id,
    parse_transaction_query,
    parse_with_balance,
)

REQUEST_ID = "7f9c24e8-3b12-4f6b-9d3a-0c1f1e9b6a55"
START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
CAP = Decimal("100000.00")


UUIDS = (
    REQUEST_ID,
    REQUEST_ID.upper(),
    str(UUID(int=0)),
    str(uuid5(UUID(int=0), "version 5")),
    "c232ab00-9414-11ec-b3c8-9f6bdeced846",  # RFC 9562 appendix A.1, version 1
    "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",  # appendix A.6, version 7
)


@pytest.mark.parametrize("text", UUIDS)
def test_a_uuid_is_accepted_and_given_back_as_it_came(text):
    assert parse_request_id(text) == text


def test_an_absent_request_id_is_refused():
    with pytest.raises(FormatError) as caught:
        parse_request_id(None)
    assert caught.value.code == "request-id.missing"


@pytest.mark.parametrize(
    "text",
    ["", REQUEST_ID[:-1], REQUEST_ID + "0", REQUEST_ID.replace("-", ""), f"{{{REQUEST_ID}}}", f"urn:uuid:{REQUEST_ID}",
     f" {REQUEST_ID}", f"{REQUEST_ID}\n", REQUEST_ID.replace("7", "g"), REQUEST_ID.replace("7", "７")],
)  # fmt: skip
def test_what_is_not_a_uuid_is_refused(text):
    with pytest.raises(FormatError) as caught:
        parse_request_id(text)
    assert caught.value.code == "request-id.malformed"
    assert caught.value.message.isprintable()


@given(st.text() | st.text(alphabet="0123456789abcdefABCDEF-", min_size=34, max_size=38))
def test_only_format_error_escapes_the_reader_of_request_ids(text):
    with suppress(FormatError):
        assert parse_request_id(text) == text


def test_the_endpoint_of_a_path_is_found_with_its_parameters():
    found = PSD2.find("GET", "/psd2/v1/payments/sepa-credit-transfers/a%2Db/status")
    assert found[:2] == (PAYMENT_STATUS, {"product": "sepa-credit-transfers", "payment_id": "a-b"})


@pytest.mark.parametrize(
    ("method", "path", "code", "methods"),
    [
        ("GET", "/psd2/v1/cards", "endpoint.unknown", ()),
        ("GET", "/psd2/v1/payments/x", "endpoint.method", ("POST",)),
        ("POST", "/psd2/v1/payments/x/1", "endpoint.method", ("GET", "DELETE")),
    ],
)
def test_no_other_method_or_path_is_found(method, path, code, methods):
    with pytest.raises(LocalProtocolError) as caught:
        PSD2.find(method, path)
    assert caught.value.code == code
    assert PSD2.methods(path) == methods


def payment(amount: str, iban: str = "LT601010012345678901") -> PaymentInitiation:
    return PaymentInitiation(
        instructed_amount=InstructedAmount(currency="EUR", amount=amount),
        creditor_account=AccountReference(iban=iban),
        creditor_name="A",
    )


def test_an_instant_payment_is_up_to_the_cap_and_to_a_country_that_can_be_reached():
    for amount, unreachable, obstacle in (
        ("0.01", (), None), ("99999.99", (), None), ("100000", (), None), ("100000.0", (), None), ("100000.00", ("LV", "EE"), None),
        ("100000.01", (), "cap of"), ("100001", (), "cap of"), ("999999999.99", (), "cap of"), ("1", ("LT",), "cannot be reached"),
    ):  # fmt: skip
        found = instant_obstacle(payment(amount), cap=CAP, unreachable=unreachable)
        assert (found is None) if obstacle is None else (obstacle in (found or "")), (amount, found)


def fault(parse: Callable[..., Any], *args: Any, **options: Any) -> str | None:
    try:
        parse(*args, **options)
    except FormatError as e:
        return e.code if e.message.isprintable() else e.message
    return None


@pytest.mark.parametrize(
    "text",
    ["https://tpp.example/back?x=1#y", "HTTPS://tpp.example", "https://[2001:db8::1]:8443/", "http://localhost:8080/a", "http://[::1]/",
     "http://127.0.0.9?x", "com.example.app:/done", "com.example.app://done?x=%20",
     "https://[::1]:8443/a", "http://LOCALHOST:5000/back?x=1", "http://[0:0::1]:3000", "msapp:done", "myapp:done", "x-1+2.3:y"],
)  # fmt: skip
def test_a_browser_returns_to_web_pages_and_applications(text):
    assert parse_redirect_uri(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "https:", "https://", "https:///a", "https:a", "https://user@evil.example/", "http://tpp.example/",
     "http://localhost.evil.example/", "http://localhost@evil.example/", "http://localhost:80@evil.example/", "http://localhost\\@evil.example/",
     "http://127.0.0.1.evil.example/", "http://127.0.0.1:0x50/", "http://0.0.0.0/", "http://127.9.9.256/", "http://[127.0.0.1]/", "http://[::2]/",
     "javascript:alert(1)", "JavaScript:alert(1)",
     "java\tscript:alert(1)", " javascript:alert(1)",
     "data:text/html,x", "file:///etc/passwd", "blob:https://a/b", "about:blank", "vbscript:x", "view-source:https://a", "ftp://a",
     "ssh://a", "shell:x", "smb://a", "ldap://a", "telnet://a", "mhtml:x", "res://x", "hcp://x", "feed:x", "chrome-untrusted://x", "C:/x",
     "ws://a", "intent://a#Intent;end", "android-app://a", "chrome-extension://a", "moz-extension://a", "ms-settings:a", "search-ms:a",
     "livescript:a", "itms-services://?action=download-manifest&url=https://a", "itms-appss://a", "market://details?id=a", "urn:a:b",
     "ms-windows-store://a", "facetime-audio:a", "x-apple.systempreferences:a", "tel:1", "news:a", "content://a",
     "https://[", "https://[::1", "https://a:65536/", "com.app://[x", "com.app://a:b",
     "mailto:a@b", "/back", "//tpp.example", "tpp.example/back", "app:", "1app:x", "app:a b", "app:caf\u00e9",
     "app:x\r\nA: b", "app:" + "x" * 2045],
)  # fmt: skip
def test_a_browser_is_sent_nowhere_else(text):
    assert fault(parse_redirect_uri, text) == "header.redirect-uri"


def test_an_address_that_is_too_long_is_rejected_by_its_length():
    with refused(FormatError, "header.redirect-uri", match="longer than 2048 characters"):
        parse_redirect_uri("https://tpp.example/?state=" + "a" * 2048)


@pytest.mark.parametrize("text", ["192.0.2.7", "10.0.0.1", "2001:DB8::1", "::ffff:192.0.2.7"])
def test_an_ip_address_of_the_customer_is_accepted(text):
    assert (parse_psu_ip_address(text), is_attended(text)) == (text, True)


@pytest.mark.parametrize(
    "text",
    ["", "x", "1.2.3", "256.1.1.1", "01.2.3.4", "1.2.3.4:80", "[::1]", "fe80::1%eth0", "1.2.3.4, 5.6.7.8", " 1.2.3.4", "1.2.3.4\n",
    "１.2.3.4",
     "3221225991", "::1/64", "unknown"],
)  # fmt: skip
def test_nonsense_is_not_an_ip_address(text):
    assert fault(parse_psu_ip_address, text) == "header.psu-ip-address"


def test_the_headers_about_the_customer_may_be_absent():
    assert (parse_psu_ip_address(None), parse_redirect_uri(None)) == (None, None)


@pytest.mark.parametrize("text", ["0.0.0.0", "::", "127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
def test_an_address_that_no_customer_has_is_sent_and_shows_no_customer(text):
    assert (parse_psu_ip_address(text), is_attended(text)) == (text, False)


@pytest.mark.parametrize("text", [None, ""])
def test_account_data_needs_a_consent_id(text):
    assert fault(parse_consent_id, text) == "header.consent-id"
    assert parse_consent_id("c") == "c"


TODAY = date(2026, 6, 1)


@pytest.mark.parametrize(
    ("query", "last_day", "status"),
    [
        ({}, TODAY, "booked"),
        ({"dateTo": "2026-05-31"}, date(2026, 5, 31), "booked"),
        ({"dateTo": "2026-02-28", "bookingStatus": "pending"}, date(2026, 2, 28), "pending"),
        ({"dateTo": "9999-12-31", "bookingStatus": "both", "after": "t"}, TODAY, "both"),
    ],
)
def test_a_transactions_query_is_read(query, last_day, status):
    found = parse_transaction_query({"dateFrom": "2026-02-28", **query}, today=TODAY)
    assert found == (date(2026, 2, 28), last_day, status, query.get("after"))


def test_a_window_that_begins_tomorrow_is_empty():
    found = parse_transaction_query({"dateFrom": "2026-06-02"}, today=TODAY)
    assert found.last_day < found.first_day


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({}, "query.missing"),
        *[({"dateFrom": text}, "query.value") for text in ("", "2026-02-30", "2026-2-3", "20260203", "2026-02-03T00:00:00", "today")],
        ({"dateFrom": "2026-02-03", "dateTo": "2026-02-02"}, "query.value"),
        ({"dateFrom": "2026-02-03", "dateTo": "x"}, "query.value"),
        *[({"dateFrom": "2026-02-03", "bookingStatus": text}, "query.value") for text in ("all", "", "Booked")],
    ],
)  # fmt: skip
def test_another_transactions_query_is_refused(query, code):
    assert fault(parse_transaction_query, query, today=TODAY) == code


def test_balances_are_requested_by_true_or_false():
    assert [parse_with_balance(query) for query in ({}, {"withBalance": "false"}, {"withBalance": "true"})] == [
        False,
        False,
        True,
    ]
    assert {fault(parse_with_balance, {"withBalance": text}) for text in ("", "1", "True", "yes")} == {"query.value"}


@given(
    st.text() | st.text("0123456789abcdef.:%[]/ -htps"),
    st.dictionaries(st.sampled_from(["dateFrom", "dateTo", "bookingStatus"]), st.text()),
)
def test_only_format_error_escapes_the_readers_of_headers_and_queries(text, query):
    for parse in (parse_redirect_uri, parse_psu_ip_address, parse_consent_id):
        fault(parse, text)
    fault(parse_transaction_query, query, today=TODAY)
