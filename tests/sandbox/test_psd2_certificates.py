"""Client certificates, verified by the application (soft) or in the handshake (strict)."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from raw_provider import PAYMENTS, SEPA, OpenBank, RawProvider, advance, assert_refused
from sealing import ORGANIZATIONS, WITHOUT_STATEMENT, issue_for

from tppkit._clock import utc_now
from tppkit.protocol.psd2 import PSD2
from tppkit.sandbox import SandboxServer
from tppkit.testpki import Issued, Pki, make_pki, make_provider, write_pki
from tppkit.testpki.folder import open_pki

ROWS = {row.name: row for row in PSD2.endpoints}
PLACE = {"product": SEPA, "payment_id": "any", "consent_id": "any", "resource_id": "any"}

TARGET = f"{PAYMENTS}/unknown/status"


@pytest.fixture
def strict_bank(open_bank: OpenBank) -> Iterator[SandboxServer]:
    with open_bank(strict=True) as server:
        yield server


@pytest.fixture(scope="module")
def expired_qwac(bank_pki: Pki) -> Issued:
    """A QWAC of the bank's own PKI that ended three weeks ago."""
    before = replace(bank_pki, not_before=bank_pki.not_before - timedelta(days=31), days=10)
    return before.issue_qwac(bank_pki.provider, label="expired-qwac")


@pytest.fixture
def anonymous(bank: SandboxServer, bank_pki_folder: Path) -> Iterator[RawProvider]:
    """A caller without a client certificate."""
    context = ssl.create_default_context(cafile=bank_pki_folder / "root.pem")
    with httpx.Client(base_url=bank.addresses.psd2_url, verify=context, trust_env=False) as http:
        yield RawProvider(http)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_endpoint_requires_a_client_certificate(name, anonymous):
    refused = anonymous.request(ROWS[name].method, ROWS[name].target(**PLACE))
    assert_refused(refused, 401, "CERTIFICATE_MISSING")


def test_a_qwac_that_is_expired_or_of_an_unknown_authority_is_refused_with_the_reason(bank, connect, expired_qwac):
    expired, unknown = (
        connect(bank, qwac=qwac).request("GET", TARGET) for qwac in (expired_qwac, make_pki(at=utc_now(), seed=12).qwac)
    )
    assert_refused(expired, 401, "CERTIFICATE_EXPIRED")
    assert "certificate.expired" in expired.text
    assert_refused(unknown, 401, "CERTIFICATE_INVALID")


def test_certificates_are_verified_at_real_time(caller, fresh_bank):
    advance(fresh_bank, 410 * 86_400)
    assert caller.initiate().status_code == 201
    assert_refused(caller.request("GET", TARGET), 403, "RESOURCE_UNKNOWN")


@pytest.mark.parametrize(("identifier", "nca_id", "expected"), ORGANIZATIONS)
def test_the_organizations_authorization_number_is_required(identifier, nca_id, expected, bank, bank_pki, connect):
    qwac, qseal = (issue_for(bank_pki, kind, identifier, nca_id) for kind in ("qwac", "qseal"))
    caller, sealing = connect(bank, qwac=qwac, qseal=qseal), connect(bank, qseal=qseal)
    if expected == "holds":
        assert caller.initiate().status_code == 201
        return
    for refused in (caller.request("GET", TARGET), caller.initiate(), sealing.initiate()):
        assert_refused(refused, 401, "CERTIFICATE_INVALID")
        assert expected in refused.text


@pytest.mark.parametrize(("identifier", "nca_id", "expected"), WITHOUT_STATEMENT)
def test_a_seal_without_a_psd2_statement_is_verified_by_its_identifier(
    identifier, nca_id, expected, bank, bank_pki, connect
):
    response = connect(bank, qseal=issue_for(bank_pki, "qseal", identifier, nca_id)).initiate()
    assert response.status_code == (201 if expected == "holds" else 401)
    assert expected == "holds" or expected in response.text


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_endpoint_checks_its_role_before_its_query(name, bank, bank_pki, connect):
    row = ROWS[name]
    provider = make_provider(roles=({"PSP_PI": "PSP_AI", "PSP_AI": "PSP_PI"}[row.role or ""],))
    caller = connect(bank, qwac=bank_pki.issue_qwac(provider, label="other-role"))
    assert_refused(caller.request(row.method, row.target(**PLACE)), 403, "ROLE_INVALID")


@pytest.mark.parametrize("fault", ["revoked", "no QWAC", "organisation"])
def test_strict_mode_leaves_what_tls_does_not_know_to_the_application(fault, open_bank, bank_pki, connect, tmp_path):
    write_pki(bank_pki, tmp_path / "pki")
    refused = {"no QWAC": WITHOUT_STATEMENT[0], "organisation": next(row for row in ORGANIZATIONS if row[2] != "holds")}
    qwac = issue_for(bank_pki, "qwac", *refused[fault][:2]) if fault in refused else bank_pki.qwac
    if fault == "revoked":
        open_pki(tmp_path / "pki").revoke(bank_pki.qwac.certificate, at=utc_now())
    with open_bank(strict=True, pki=tmp_path / "pki") as server:
        response = connect(server, qwac=qwac).request("GET", TARGET)
    assert_refused(response, 401, "CERTIFICATE_REVOKED" if fault == "revoked" else "CERTIFICATE_INVALID")


def test_strict_mode_refuses_an_expired_certificate_in_the_handshake_and_leaves_the_profile_to_the_application(
    strict_bank, bank_pki, connect, expired_qwac
):
    assert connect(strict_bank).initiate().status_code == 201
    with pytest.raises(httpx.TransportError, match="CERTIFICATE_EXPIRED"):
        connect(strict_bank, qwac=expired_qwac).request("GET", TARGET)
    caller = connect(strict_bank, qwac=bank_pki.issue_qwac(make_provider(roles=("PSP_AI",)), label="ai-qwac"))
    assert_refused(caller.request("GET", TARGET), 403, "ROLE_INVALID")
