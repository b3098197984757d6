"""Roles of a certificate against the table of endpoints: rejected, with the reason, unless both fit exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tppkit.certificates import EidasCertificate
from tppkit.certificates.qcstatements import RoleOfPsp
from tppkit.errors import CertificateRejected, FormatError, LocalProtocolError
from tppkit.protocol.endpoint import Endpoint
from tppkit.protocol.psd2 import PSD2
from tppkit.protocol.psd2.endpoints import PAYMENT_DETAILS, PAYMENT_STATUS
from tppkit.testpki import Pki, make_provider
from tppkit.web import authorize
from tppkit.web.gate import require_role

PAYMENTS = "/psd2/v1/payments/sepa-credit-transfers"
ROWS = list(PSD2.endpoints)


def path_of(row: Endpoint[Any, Any]) -> str:
    query = {wanted.name: "2026-01-01" for wanted in row.query if wanted.required}
    return row.target(query, product="sepa-credit-transfers", payment_id="1234-abcd", consent_id="1", resource_id="2")


@pytest.fixture(scope="module")
def reader(pki: Pki) -> EidasCertificate:
    """The QWAC of a provider that may only read accounts."""
    return pki.issue_qwac(make_provider(roles=("PSP_AI",)), label="ai-qwac").certificate


@pytest.fixture(scope="module")
def initiator(pki: Pki) -> EidasCertificate:
    """The QWAC of a provider that may only initiate payments."""
    return pki.issue_qwac(make_provider(roles=("PSP_PI",)), label="pi-qwac").certificate


def rejected(certificate: EidasCertificate, method: str, path: str) -> str:
    with pytest.raises((LocalProtocolError, FormatError, CertificateRejected)) as caught:
        authorize(certificate, PSD2, method, path)
    return caught.value.code


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_endpoint_is_open_to_its_role_and_closed_to_another(pki, reader, initiator, row):
    assert authorize(pki.qwac.certificate, PSD2, row.method, path_of(row)).row is row
    other, has = (reader, "PSP_AI") if row.role == "PSP_PI" else (initiator, "PSP_PI")
    with pytest.raises(
        CertificateRejected, match=f'needs the role {row.role}, but the certificate has "{has}"'
    ) as caught:
        authorize(other, PSD2, row.method, path_of(row))
    assert caught.value.code == "role.missing"


def test_the_role_comes_before_the_query_and_an_endpoint_without_one_is_open_to_every_certificate(reader, initiator):
    path = "/psd2/v1/accounts/1/transactions"
    assert (rejected(initiator, "GET", path), rejected(reader, "GET", path)) == ("role.missing", "query.missing")
    require_role(reader, replace(PAYMENT_STATUS, role=None))


def test_a_certificate_with_a_thousand_roles_is_refused_in_a_short_message(pki):
    good = pki.qwac.certificate
    assert good.qc.psd2
    roles = tuple(RoleOfPsp(f"1.2.{number}", f"PSP_{number}") for number in range(1000))
    qc = replace(good.qc, psd2=replace(good.qc.psd2, roles=roles))
    certificate = replace(good, extensions=replace(good.extensions, qc=qc))
    with pytest.raises(CertificateRejected) as caught:
        require_role(certificate, PAYMENT_STATUS)
    assert (caught.value.code, len(caught.value.message) < 400) == ("role.missing", True)


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
def test_a_path_that_is_not_exactly_an_endpoints_is_unknown(pki, path):
    for method in ("GET", "POST", "DELETE"):
        assert rejected(pki.qwac.certificate, method, path) == "endpoint.unknown"


@pytest.mark.parametrize(
    ("method", "row"),
    [("PUT", PAYMENT_DETAILS), ("HEAD", PAYMENT_STATUS), ("get", PAYMENT_STATUS), ("", PAYMENT_STATUS)],
)
def test_another_method_is_rejected(pki, method, row):
    assert rejected(pki.qwac.certificate, method, path_of(row)) == "endpoint.method"


def test_a_parameter_may_be_percent_encoded(pki):
    route = authorize(pki.qwac.certificate, PSD2, "POST", PAYMENTS.replace("sepa", "sep%61"))
    assert route.parameters == {"product": "sepa-credit-transfers"}


def test_what_is_not_exactly_a_role_in_a_statement_is_none(pki):
    # The last arc of PSP_PI's identifier, 0.4.0.19495.1.2, becomes 9.
    good = pki.qwac.certificate
    known = b"\x06\x07\x04\x00\x81\x98\x27\x01\x02"
    assert good.der.count(known) == 1
    forged = EidasCertificate.from_der(good.der.replace(known, known[:-1] + b"\x09"))
    assert [role.name for role in forged.qc.psd2.roles] == ["PSP_PI", "PSP_AI"]
    assert forged.roles == ("0.4.0.19495.1.9", "PSP_AI")
    assert rejected(forged, "POST", PAYMENTS) == "role.missing"
    # The role's name becomes a PrintableString where a UTF8String belongs.
    name = b"\x0c\x06PSP_PI"
    assert good.der.count(name) == 1
    malformed = EidasCertificate.from_der(good.der.replace(name, b"\x13" + name[1:]))
    assert malformed.roles == ("PSP_PI", "PSP_AI")
    assert rejected(malformed, "POST", PAYMENTS) == "qcstatements.string-type"
    with pytest.raises(CertificateRejected) as refused:
        require_role(malformed, PAYMENT_DETAILS)
    assert refused.value.findings == malformed.findings
    assert rejected(pki.server.certificate, "POST", PAYMENTS) == "role.missing"
