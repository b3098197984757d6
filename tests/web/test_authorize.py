"""Roles of a certificate against the table of endpoints: denied, with the reason, unless both fit exactly."""

from __future__ import annotations

from typing import Any

import pytest

from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected
from tppkit.protocol.endpoint import Endpoint
from tppkit.protocol.psd2 import PSD2
from tppkit.protocol.psd2.endpoints import PAYMENT_DETAILS, PAYMENT_STATUS
from tppkit.testpki import Pki, make_provider
from tppkit.web import authorize, require_authorized

PAYMENTS = "/psd2/v1/payments/sepa-credit-transfers"
ROWS = list(PSD2.endpoints)


def path_of(row: Endpoint) -> str:
    return row.target(product="sepa-credit-transfers", payment_id="1234-abcd")


@pytest.fixture(scope="module")
def reader(pki: Pki) -> EidasCertificate:
    """The QWAC of a provider that may only read accounts."""
    return pki.issue_qwac(make_provider(roles=("PSP_AI",)), label="ai-qwac").certificate


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_endpoint_is_open_to_its_role(pki: Pki, row: Endpoint) -> None:
    answer = authorize(pki.qwac.certificate, row.method, path_of(row))
    assert (answer.allowed, answer.endpoint, answer.code) == (True, row, None)
    assert answer.required_roles == (row.role,)
    assert answer.roles == ("PSP_PI", "PSP_AI")
    assert answer.message == f"{row.method} {row.path} needs the role PSP_PI, and the certificate has it"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_endpoint_is_closed_to_another_role(reader: EidasCertificate, row: Endpoint) -> None:
    answer = authorize(reader, row.method, path_of(row))
    assert (answer.allowed, answer.endpoint, answer.code) == (False, row, "role.missing")
    assert "PSP_PI" in answer.message
    assert answer.roles == ("PSP_AI",)


def test_an_authorization_is_true_only_when_it_allows(pki: Pki, reader: EidasCertificate) -> None:
    assert authorize(pki.qwac.certificate, "POST", PAYMENTS)
    assert not authorize(reader, "POST", PAYMENTS)


@pytest.mark.parametrize(
    "path",
    [
        "", "/", "*", "psd2/v1/payments/sepa-credit-transfers", "/psd2/v1/payments", "/psd2/v1/payments/", PAYMENTS + "/",
        PAYMENTS + "#f", "https://bank.example" + PAYMENTS, "/bank" + PAYMENTS, "/" + PAYMENTS,
        PAYMENTS.upper(), PAYMENTS.replace("/v1/", "//v1/"), PAYMENTS.replace("/v1/", "/./v1/"), "/psd2/v1/../v1/payments/x",
        PAYMENTS.replace("/payments/", "/payments%2F"), PAYMENTS.replace("psd2", "psd%32"), PAYMENTS + "\n", "\n" + PAYMENTS,
        "/psd2/v1/payments/.", "/psd2/v1/payments/..", "/psd2/v1/payments/%2e%2E", "/psd2/v1/payments/a%2Fb",
        "/psd2/v1/payments/a%5Cb", "/psd2/v1/payments/a%00", "/psd2/v1/payments/a%zz", "/psd2/v1/payments/a%", "/psd2/v1/payments/a b",
        "/psd2/v1/payments/ž", "/psd2/v1/payments/%FF", "/psd2/v1/payments/a\\b", "/psd2/v1/payments/" + "a" * 5000,
        "/psd2/v1/payments/..;/consents", "/psd2/v1/payments/..;a", "/psd2/v1/payments/%252e%252e", PAYMENTS + "/..;/consents",
        PAYMENTS + "/1/status/", PAYMENTS + "/1/STATUS", PAYMENTS + "/1/status/x",
    ],
)  # fmt: skip
def test_a_path_that_is_not_exactly_an_endpoints_is_unknown(pki: Pki, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        answer = authorize(pki.qwac.certificate, method, path)
        assert (answer.allowed, answer.endpoint, answer.methods, answer.code) == (False, None, (), "endpoint.unknown")


@pytest.mark.parametrize(
    ("method", "row", "methods"),
    [
        ("PUT", PAYMENT_DETAILS, ("GET", "DELETE")),
        ("HEAD", PAYMENT_STATUS, ("GET",)),
        ("get", PAYMENT_STATUS, ("GET",)),
        ("", PAYMENT_STATUS, ("GET",)),
    ],
)
def test_another_method_is_denied_and_the_right_ones_are_named(
    pki: Pki, method: str, row: Endpoint[Any, Any], methods: tuple[str, ...]
) -> None:
    answer = authorize(pki.qwac.certificate, method, path_of(row))
    assert (answer.allowed, answer.endpoint, answer.methods, answer.code) == (False, None, methods, "endpoint.method")


def test_a_parameter_may_be_percent_encoded(pki: Pki) -> None:
    assert authorize(pki.qwac.certificate, "POST", PAYMENTS.replace("sepa", "sep%61")).allowed


def test_a_role_of_an_unknown_identifier_is_no_role_whatever_its_name(pki: Pki) -> None:
    # The last arc of PSP_PI's identifier, 0.4.0.19495.1.2, becomes 9.
    good = pki.qwac.certificate
    known = b"\x06\x07\x04\x00\x81\x98\x27\x01\x02"
    assert good.der.count(known) == 1
    forged = EidasCertificate.from_der(good.der.replace(known, known[:-1] + b"\x09"))
    assert [role.name for role in forged.qc.psd2.roles] == ["PSP_PI", "PSP_AI"]
    answer = authorize(forged, "POST", PAYMENTS)
    assert (answer.allowed, answer.code, answer.roles) == (False, "role.missing", ("0.4.0.19495.1.9", "PSP_AI"))


def test_roles_of_a_malformed_statement_are_no_roles(pki: Pki) -> None:
    # The role's name becomes a PrintableString where a UTF8String belongs.
    good = pki.qwac.certificate
    name = b"\x0c\x06PSP_PI"
    assert good.der.count(name) == 1
    malformed = EidasCertificate.from_der(good.der.replace(name, b"\x13" + name[1:]))
    assert malformed.roles == ("PSP_PI", "PSP_AI")
    answer = authorize(malformed, "POST", PAYMENTS)
    assert (answer.allowed, answer.code) == (False, "qcstatements.string-type")
    with pytest.raises(CertificateRejected) as refused:
        require_authorized(malformed, PAYMENT_DETAILS)
    assert refused.value.findings == malformed.findings


def test_a_certificate_without_a_psd2_statement_has_no_role(pki: Pki) -> None:
    answer = authorize(pki.server.certificate, "POST", PAYMENTS)
    assert (answer.allowed, answer.code, answer.roles) == (False, "role.missing", ())
