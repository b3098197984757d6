"""Every endpoint row by curl over mutual TLS, with the files of the PKI; `tppkit seal sign` gives the headers of sealed requests."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from uuid import uuid4

import pytest
from account_reader import ALL, Reader, request
from raw_provider import PAYMENT, RawProvider, curl

from programs import TPPKIT
from tppkit.protocol.endpoint import Auth
from tppkit.protocol.psd2 import PSD2
from tppkit.sandbox import SandboxServer

pytestmark = pytest.mark.slow

BODIES = {"initiate_payment": PAYMENT, "create_consent": request(ALL)}
QUERIES = {"accounts": {"withBalance": "true"}, "transactions": {"dateFrom": "2020-01-01", "bookingStatus": "both"}}
# The names of the answer's fields.
ANSWERS: Mapping[str, set[str]] = {
    "initiate_payment": {"transactionStatus", "paymentId", "_links"},
    "payment_status": {"transactionStatus"},
    "payment_details": {*PAYMENT, "paymentId", "transactionStatus"},
    "cancel_payment": {"transactionStatus"},
    "create_consent": {"status", "consentId", "_links"},
    "consent": {
        "consentId", "status", "access", "validUntil", "frequencyPerDay", "recurringIndicator", "_links",
    },
    "consent_status": {"status"},
    "delete_consent": set(),
    "accounts": {"accounts"},
    "balances": {"account", "balances"},
    "transactions": {"account", "transactions"},
}  # fmt: skip


@pytest.fixture
def place(bank: SandboxServer, tpp: RawProvider) -> Mapping[str, str]:
    """The parameters of every path: a payment, a valid consent and its account."""
    reader = Reader(tpp, bank)
    consent = reader.approved()
    made = {"payment_id": tpp.new_payment()["paymentId"], "product": "sepa-credit-transfers"}
    return {**made, "consent_id": consent, "resource_id": reader.place(consent).rpartition("/")[2]}


@pytest.mark.parametrize("row", PSD2.endpoints, ids=lambda row: row.name)
def test_curl_drives_the_row(row, place, bank, bank_pki_folder, tmp_path):
    pki, body = bank_pki_folder, tmp_path / "body.json"
    url = bank.addresses.psd2_url + row.target(QUERIES.get(row.name), **place)
    command = ["-i", "-X", row.method, url, "--cert", pki / "qwac-chain.pem", "--key", pki / "qwac.key"]
    if row.auth is Auth.SEAL:
        body.write_text(json.dumps(BODIES[row.name]))
        seal = ["--key", pki / "qseal.key", "--cert", pki / "qseal.pem", "--method", row.method, "--url", url]
        sign = [TPPKIT, "seal", "sign", *seal, "--body", body]
        signed = subprocess.run(sign, capture_output=True, text=True, timeout=30, check=True).stdout
        headers = [*signed.splitlines(), "Content-Type: application/json"]
        command += ["--data-binary", f"@{body}"]
    else:
        headers = [f"X-Request-ID: {uuid4()}", f"Consent-ID: {place['consent_id']}", "PSU-IP-Address: 192.0.2.7"]
    command += [part for header in headers for part in ("-H", header)]
    status, answer, _ = curl(pki / "root.pem", *command)
    head, _, content = answer.partition("\n\n")
    assert status == row.success, answer
    request_id = next(header for header in headers if header.lower().startswith("x-request-id"))
    assert request_id.lower() in head.lower()
    assert set(json.loads(content) if content else ()) == ANSWERS[row.name]
