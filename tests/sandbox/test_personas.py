"""Personas and dialects of the sandbox in process: the client of the bank speaks each, and the bank's answers follow."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest

from tppkit.client import Psd2Client
from tppkit.errors import ConfigurationError, FormatError, RequestRefused
from tppkit.protocol.psd2 import (
    ALL_ACCOUNTS,
    Access,
    AccountReference,
    BankRules,
    ConsentRequest,
    InstructedAmount,
    PaymentInitiation,
    TransactionStatus,
    parse_persona,
)
from tppkit.sandbox import Sandbox
from tppkit.sandbox.bank.zone import bank_day
from tppkit.seals import PROFILES

ORDER = PaymentInitiation(
    instructed_amount=InstructedAmount(currency="EUR", amount="12.50"), creditor_name="Bookshop",
    creditor_account=AccountReference(iban="LT121000011101001000"),
)  # fmt: skip


def persona(text: str) -> Any:
    return parse_persona(f'based_on = "document"\nname = "our-bank"\nsource = "a letter"\n{text}'.encode())


def consent(bank: Sandbox, **fields: Any) -> ConsentRequest:
    last = bank_day(bank.now()) + timedelta(days=100)
    return ConsentRequest(
        **{"access": Access(all_psd2=ALL_ACCOUNTS), "frequency_per_day": 4, "valid_until": last, **fields}
    )


# Of each way to name the certificate and the id, one runs always.
@pytest.mark.parametrize(
    "name",
    [
        name if name in ("ing", "berlin-group", "amazon") else pytest.param(name, marks=pytest.mark.slow)
        for name in PROFILES
    ],
)
def test_every_dialect_pays_and_reads(name, bank_pki):
    with Sandbox(pki=bank_pki, profile=PROFILES[name]) as bank, bank.client() as client:
        made = client.initiate_payment(ORDER)
        bank.approve(made.payment_id)
        assert client.wait_for_payment(made.payment_id) == TransactionStatus.ACSC
        agreed = client.create_consent(consent(bank))
        bank.approve_consent(agreed.consent_id)
        assert client.accounts(agreed.consent_id).accounts
        assert [record.payment_ref for record in bank.evidence()] == [made.payment_id, None]


def test_what_the_bank_requires_is_sent_by_its_client_and_demanded_of_others(bank_pki):
    ours = persona(
        '[endpoints.all]\ndefault_headers = { X-Channel = "web" }\n[endpoints.accounts]\ndefault_query = { usage = "PRIV" }'
    )
    with Sandbox(pki=bank_pki, persona=ours) as bank, bank.client() as client:
        agreed = client.create_consent(consent(bank))
        bank.approve_consent(agreed.consent_id)
        assert client.accounts(agreed.consent_id).accounts
        identity = bank.identity()
        http = httpx.Client(transport=bank.transport(identity))
        with (
            Psd2Client(bank.addresses.psd2_url, identity=identity, http=http) as other,
            pytest.raises(RequestRefused) as caught,
        ):
            other.consent_status(agreed.consent_id)
        assert (caught.value.status, caught.value.peer_code) == (400, "FORMAT_ERROR")
        assert "X-Channel" in (caught.value.peer_text or "")


def test_a_field_that_the_bank_requires_is_refused_on_both_sides(bank_pki):
    ours = persona('[endpoints.initiate_payment]\nrequired_fields = ["debtorAccount"]')
    with Sandbox(pki=bank_pki, persona=ours) as bank, bank.client() as client:
        with pytest.raises(FormatError, match="requires debtorAccount"):
            client.initiate_payment(ORDER)
        identity = bank.identity()
        http = httpx.Client(transport=bank.transport(identity))
        other = Psd2Client(bank.addresses.psd2_url, identity=identity, http=http)
        with pytest.raises(RequestRefused, match="requires debtorAccount"):
            other.initiate_payment(ORDER)


def test_statuses_codes_and_names_are_those_of_the_bank(bank_pki):
    ours = persona(
        'approval_link = "startAuthorisation"\n[refusals]\n"role.missing" = [401, "ROLE_INVALID"]\n'
        '[payment_status]\nACSC = "ACCC"\n[endpoints.cancel_payment]\nsuccess = 202\n[endpoints.initiate_payment]\nsuccess = 200'
    )
    with Sandbox(pki=bank_pki, persona=ours) as bank, bank.client() as client:
        made = client.initiate_payment(ORDER)
        assert made.links.sca_redirect is None
        assert made.links.unknown["startAuthorisation"] == {"href": f"{made.links.self_.href}/authorisations"}
        assert client.cancel_payment(made.payment_id).transaction_status == TransactionStatus.CANC
        paid = client.initiate_payment(ORDER).payment_id
        bank.approve(paid)
        assert client.wait_for_payment(paid) == TransactionStatus.ACSC
        http = httpx.Client(transport=bank.transport(bank.identity()))
        plain = Psd2Client(bank.addresses.psd2_url, identity=bank.identity(), http=http)
        assert plain.payment_status(paid).transaction_status == "ACCC"
        with pytest.raises(RequestRefused) as caught:
            bank.client(roles=["PSP_AI"]).payment_status(paid)
        assert caught.value.status == 401


def test_rules_and_prefix_replace_those_of_the_persona(bank_pki):
    rules = BankRules(consent_days=10, reads_per_day=1, page_size=7)
    with Sandbox(pki=bank_pki, persona="berlin-group", rules=rules, prefix="/psd2/bg") as bank, bank.client() as client:
        agreed = client.create_consent(consent(bank), psu_ip_address="192.0.2.1").consent_id
        bank.approve_consent(agreed)
        kept = client.consent(agreed)
        assert (kept.valid_until - bank_day(bank.now()), kept.frequency_per_day) == (timedelta(days=10), 1)
        assert kept.links.self_.href == f"/psd2/bg/consents/{agreed}"
        (account,) = client.accounts(agreed, psu_ip_address="192.0.2.1").accounts
        begin = bank_day(bank.now()) - timedelta(days=60)
        page = client.transactions(agreed, account.resource_id, date_from=begin, psu_ip_address="192.0.2.1")
        assert len(page.transactions.booked) == 7
        client.accounts(agreed)
        with pytest.raises(RequestRefused, match="ACCESS_EXCEEDED"):
            client.accounts(agreed)


@pytest.mark.parametrize("settings", [{"persona": "berlin"}, {"prefix": "v1"}, {"prefix": "/v1/../x"}])
def test_wrong_settings_are_refused(settings):
    with pytest.raises(ConfigurationError):
        Sandbox(**settings)
