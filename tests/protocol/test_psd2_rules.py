"""Rules that both sides of the PSD2 interface hold."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.errors import FormatError, LocalProtocolError
from tppkit.protocol.psd2 import PSD2, PaymentInitiation, PaymentProduct
from tppkit.protocol.psd2.endpoints import PAYMENT_STATUS
from tppkit.protocol.psd2.models import AccountReference, InstructedAmount
from tppkit.protocol.psd2.rules import (
    parse_request_id,
    require_product,
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
def test_a_uuid_is_taken_and_given_back_as_it_came(text: str) -> None:
    assert parse_request_id(text) == text


def test_an_absent_request_id_is_refused() -> None:
    with pytest.raises(FormatError) as caught:
        parse_request_id(None)
    assert caught.value.code == "request-id.missing"


@pytest.mark.parametrize(
    "text",
    ["", REQUEST_ID[:-1], REQUEST_ID + "0", REQUEST_ID.replace("-", ""), f"{{{REQUEST_ID}}}", f"urn:uuid:{REQUEST_ID}",
     f" {REQUEST_ID}", f"{REQUEST_ID}\n", REQUEST_ID.replace("7", "g"), REQUEST_ID.replace("7", "７")],
)  # fmt: skip
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_request_id(text)
    assert caught.value.code == "request-id.malformed"
    assert caught.value.message.isprintable()


@given(st.text() | st.text(alphabet="0123456789abcdefABCDEF-", min_size=34, max_size=38))
def test_only_format_error_escapes_the_reader_of_request_ids(text: str) -> None:
    with suppress(FormatError):
        assert parse_request_id(text) == text


def test_the_endpoint_of_a_path_is_found_with_its_parameters() -> None:
    found = PSD2.find("GET", "/psd2/v1/payments/sepa-credit-transfers/a%2Db/status")
    assert found[:2] == (PAYMENT_STATUS, {"product": "sepa-credit-transfers", "payment_id": "a-b"})


@pytest.mark.parametrize(
    ("method", "path", "code", "methods"),
    [
        ("GET", "/psd2/v1/accounts", "endpoint.unknown", ()),
        ("GET", "/psd2/v1/payments/x", "endpoint.method", ("POST",)),
        ("POST", "/psd2/v1/payments/x/1", "endpoint.method", ("GET", "DELETE")),
    ],
)
def test_no_other_method_or_path_is_found(method: str, path: str, code: str, methods: tuple[str, ...]) -> None:
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


def product_fault(amount: str, product: PaymentProduct, *unreachable: str) -> str | None:
    try:
        require_product(payment(amount), product, cap=CAP, unreachable=unreachable)
    except LocalProtocolError as e:
        return e.code
    return None


@pytest.mark.parametrize("amount", ["0.01", "99999.99", "100000", "100000.0", "100000.00"])
def test_an_instant_payment_up_to_the_cap_is_taken(amount: str) -> None:
    assert product_fault(amount, PaymentProduct.INSTANT) is None


@pytest.mark.parametrize("amount", ["100000.01", "100001", "999999999.99"])
def test_an_instant_payment_above_the_cap_is_refused(amount: str) -> None:
    assert product_fault(amount, PaymentProduct.INSTANT) == "product.invalid"


def test_an_instant_payment_to_a_country_that_cannot_be_reached_is_refused() -> None:
    assert product_fault("1", PaymentProduct.INSTANT, "LT") == "product.invalid"
    assert product_fault("1", PaymentProduct.INSTANT, "LV", "EE") is None


def test_a_normal_transfer_is_never_refused_for_what_instant_cannot_do() -> None:
    assert product_fault("999999999.99", PaymentProduct.SEPA, "LT") is None
