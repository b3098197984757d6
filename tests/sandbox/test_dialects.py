"""`--profile`: a sandbox accepts the seals of every dialect, and their records pass the audit."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from raw_provider import PAYMENT, RawProvider, assert_refused, checked_sandbox, tls_context

from tppkit._clock import utc_now
from tppkit.certificates import load_certificates
from tppkit.evidence import AuditPlan, audit_archives
from tppkit.httpsig.algorithms import ALGORITHMS
from tppkit.httpsig.http_date import format_http_date
from tppkit.sandbox import SandboxSettings
from tppkit.sandbox.dialect import key_id_of
from tppkit.seals import PROFILES, Message, Seal, SealProfile, sign_request
from tppkit.testpki import Issued, Pki, make_pki, write_pki

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rsa_sealed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pki, Path]:
    """A PKI whose seals have RSA keys, and its folder."""
    pki = make_pki(at=utc_now(), seed=12, seal_key="rsa2048")
    folder = tmp_path_factory.mktemp("rsa") / "pki"
    write_pki(pki, folder)
    return pki, folder


def sealed_payment(profile: SealProfile, qseal: Issued) -> Message:
    now = utc_now()
    key_id = key_id_of(profile, qseal.certificate)
    seal = Seal.for_key(qseal.certificate, qseal.key, profile=profile, key_id=key_id)
    message = RawProvider(httpx.Client()).message(PAYMENT)
    headers = {
        "Content-Type": "application/json", "Content-Length": str(len(message.body)), "Date": format_http_date(now),
        "X-Amz-Access-Token": "token", (profile.request_id or "x-request-id").title(): str(uuid4()),
    }  # fmt: skip
    return sign_request(message._replace(headers=tuple(headers.items())), seal=seal, at=now)


@pytest.mark.parametrize("name", PROFILES)
def test_every_dialect_can_pay(name, bank_pki, bank_pki_folder, rsa_sealed, tmp_path):
    profile = PROFILES[name]
    has_p256 = any(ALGORITHMS[row].key == "P-256" for _, row in profile.algorithms)
    pki, folder = (bank_pki, bank_pki_folder) if has_p256 else rsa_sealed
    with checked_sandbox(SandboxSettings(tmp_path, pki=folder, profile=profile)) as server:
        url = server.addresses.psd2_url
        with httpx.Client(base_url=url, verify=tls_context(pki.qwac, pki), trust_env=False) as http:
            first, second = (sealed_payment(profile, pki.qseal) for _ in range(2))
            caller = RawProvider(http)
            answers = [caller.send(message) for message in (first, first, second)]
            assert [answer.status_code for answer in answers] == [201] * 3, answers[0].text
            ids = [answer.json()["paymentId"] for answer in answers]
            assert ids[0] == ids[1] != ids[2]
            refused = caller.send(caller.message(PAYMENT))
            assert refused.status_code == 401 or refused.json()["tppMessages"][0]["code"] == "FORMAT_ERROR"
    summary = audit_archives([tmp_path / "archive"], AuditPlan(now=utc_now(), trust=str(folder)))
    assert (summary.exit_code, summary.records) == (0, 2)


def test_without_a_profile_only_the_documents_seals_are_accepted(tpp, bank_pki):
    assert_refused(tpp.send(sealed_payment(PROFILES["berlin-group"], bank_pki.qseal)), 401, "SIGNATURE_INVALID")


def test_a_request_whose_seal_covers_no_id_needs_one_all_the_same(bank_pki, bank_pki_folder, tmp_path):
    profile = PROFILES["bng"]
    with checked_sandbox(SandboxSettings(tmp_path, pki=bank_pki_folder, profile=profile)) as server:
        url = server.addresses.psd2_url
        with httpx.Client(base_url=url, verify=tls_context(bank_pki.qwac, bank_pki), trust_env=False) as http:
            sealed = sealed_payment(profile, bank_pki.qseal)
            without = tuple(header for header in sealed.headers if header[0] != "X-Request-Id")
            refused = RawProvider(http).send(sealed._replace(headers=without))
    assert (refused.status_code, refused.json()["tppMessages"][0]["code"]) == (400, "FORMAT_ERROR")


def test_a_new_pki_has_seals_with_a_key_that_the_dialect_accepts(tmp_path):
    with checked_sandbox(SandboxSettings(tmp_path, profile=PROFILES["rabobank"])):
        pass
    assert load_certificates(tmp_path / "pki" / "qseal.pem")[0].key.type == "rsa"
