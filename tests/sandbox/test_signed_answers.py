"""The sandbox signs the answers of its PSD2 host: successes, refusals and repetitions, in both forms, over the request as received."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path
from shlex import split
from typing import Any
from uuid import uuid4

import httpx
import pytest

from refusals import refused
from tppkit._clock import utc_now
from tppkit.client import Psd2Client
from tppkit.errors import (
    ConfigurationError,
    OutcomeUnknown,
    RemoteProtocolError,
    RequestRefused,
    SignatureRejected,
    TppkitError,
)
from tppkit.evidence import AuditPlan, EvidenceArchive, audit_archives, make_answer_record, make_sent_record
from tppkit.message import Answer, Message
from tppkit.protocol.psd2 import (
    ALL_ACCOUNTS,
    PSD2,
    Access,
    AccountReference,
    ConsentRequest,
    InstructedAmount,
    PaymentInitiation,
    parse_persona,
)
from tppkit.sandbox import Sandbox, SandboxServer, SandboxSettings, run_sandbox
from tppkit.sandbox.bank.zone import bank_day
from tppkit.seals import ANSWER_PROFILES, SealPolicy, VerifiedAnswer, sign_request, verify_answer
from tppkit.testpki import make_pki, write_pki
from tppkit.testpki.files import files_of
from tppkit.trust import PathVerifier, make_anchors

ORDER = PaymentInitiation(
    instructed_amount=InstructedAmount(currency="EUR", amount="12.50"), creditor_name="Bookshop",
    creditor_account=AccountReference(iban="LT121000011101001000"),
)  # fmt: skip
PAYMENTS = "/psd2/v1/payments/sepa-credit-transfers"
FORMS = tuple(ANSWER_PROFILES)


def persona(form: str) -> Any:
    return parse_persona(f'based_on = "document"\nname = "signs"\nsource = "x"\nanswers = "{form}"'.encode())


class Caller:
    """Sends requests of its own to a bank, and verifies each answer."""

    def __init__(self, bank: Sandbox, form: str) -> None:
        self._bank, self._identity = bank, bank.identity()
        self._http = httpx.Client(transport=bank.transport(self._identity))
        self.policy = SealPolicy(PathVerifier(make_anchors(bank.pki.authorities)), profile=ANSWER_PROFILES[form])

    def payment(self, request_id: str) -> Message:
        headers = (("X-Request-ID", request_id), ("Content-Type", "application/json"))
        assert self._identity.seal is not None
        return sign_request(Message("POST", PAYMENTS, headers, ORDER.to_wire()), seal=self._identity.seal)

    def send(self, message: Message) -> Answer:
        url = self._bank.addresses.psd2_url + message.target
        headers = [(name.encode(), value.encode("latin-1")) for name, value in message.headers]
        found = self._http.request(message.method, url, headers=headers, content=message.body)
        return Answer.from_wire(found.status_code, found.headers.raw, found.content)

    def ask(self, message: Message) -> VerifiedAnswer:
        return verify_answer(self.send(message), request=message, policy=self.policy, at=utc_now())


@pytest.fixture(params=FORMS)
def form(request) -> str:
    return request.param


@pytest.fixture
def caller(form, bank_pki):
    with Sandbox(pki=bank_pki, persona=persona(form)) as bank:
        yield Caller(bank, form)


def with_id(method: str, target: str, *headers: tuple[str, str]) -> Message:
    return Message(method, target, (("X-Request-ID", str(uuid4())), *headers))


def test_every_answer_is_signed_also_refusals_and_repetitions(caller):
    payment = caller.payment(str(uuid4()))
    first, again = caller.ask(payment), caller.ask(payment)
    assert (first.unverified_answer.status, first.body) == (201, again.body)
    assert first.organization_identifier == "PSDLT-BL-LB900000"
    no_seal = payment._replace(headers=payment.headers[:2])
    other = payment._replace(body=b"{}")
    asked = (
        (no_seal, 401), (other, 401), (with_id("GET", "/nothing"), 404),
        (with_id("PUT", PAYMENTS), 405), (with_id("HEAD", PAYMENTS), 405), (with_id("GET", f"{PAYMENTS}/x/status"), 403),
    )  # fmt: skip
    for message, status in asked:
        assert caller.ask(message).unverified_answer.status == status


def test_an_answer_fits_no_other_request(caller):
    payment = caller.payment(str(uuid4()))
    answer = caller.send(payment)
    with pytest.raises(SignatureRejected):
        verify_answer(answer, request=caller.payment(str(uuid4())), policy=caller.policy, at=utc_now())


def test_a_request_whose_covered_parts_are_malformed_gets_a_refusal(caller, form):
    latin = Message("GET", PAYMENTS, (("X-Request-ID", "é"), ("Digest", "é"), ("Content-Digest", "é")))
    for message in (latin, Message("GET", "/nothing", ())):
        answer = caller.send(message)
        assert answer.status >= 400
        # Without an X-Request-ID there is nothing to sign in draft-cavage.
        assert bool(answer.values("signature")) == ((form == "cavage") == bool(message.headers))


def test_a_fault_of_a_proxy_comes_after_the_signature(bank_pki):
    with Sandbox(pki=bank_pki, sign_answers=True) as bank:
        caller = Caller(bank, "rfc9421")
        for fault in ("no-body", "html", "status-503-after", "status-429", "status-500-before"):
            bank.fault(fault)
            with pytest.raises(TppkitError):
                caller.ask(with_id("GET", f"{PAYMENTS}/x/status"))
        for fault in ("late", "slow-body"):
            bank.fault(fault, delay_s=1)
            assert caller.ask(with_id("GET", f"{PAYMENTS}/x/status")).unverified_answer.status == 403


def test_every_call_of_the_client_passes_and_what_it_keeps_is_evidence(form, bank_pki, tmp_path):
    anchors = make_anchors(bank_pki.authorities)
    with (
        Sandbox(pki=bank_pki, persona=persona(form)) as bank,
        EvidenceArchive(tmp_path / "kept", stream_id="5a" * 16) as archive,
        Psd2Client(
            bank.addresses.psd2_url, identity=bank.identity(), answers="required", answer_anchors=anchors,
            http=httpx.Client(transport=bank.transport(bank.identity())),
            keep=lambda sent: archive.append(make_sent_record(sent)),
            keep_answer=lambda verified: archive.append(make_answer_record(verified)),
        ) as client,
    ):  # fmt: skip
        paid = client.initiate_payment(ORDER)
        client.payment_status(paid.payment_id)
        client.payment_details(paid.payment_id)
        client.cancel_payment(paid.payment_id)
        access = Access(all_psd2=ALL_ACCOUNTS)
        until = bank_day(bank.now()) + timedelta(days=100)
        agreed = client.create_consent(ConsentRequest(access=access, frequency_per_day=4, valid_until=until)).consent_id
        bank.approve_consent(agreed)
        client.consent(agreed)
        client.consent_status(agreed)
        account = client.accounts(agreed).accounts[0].resource_id
        client.balances(agreed, account)
        client.transactions(agreed, account, date_from=date(2020, 1, 1))
        client.delete_consent(agreed)
        with pytest.raises(RequestRefused):
            client.payment_status("unknown")
        answered = [PSD2.find(one["method"], one["target"]).row.name for one in bank.control("GET", "/requests")]
    assert set(answered) == {row.name for row in PSD2.endpoints}
    result = audit_archives([tmp_path / "kept"], AuditPlan(now=utc_now()), material=PathVerifier(anchors))
    assert (result.exit_code, result.by_code, result.records) == (0, {}, len(answered) + 2)  # two requests were sealed


def test_the_clients_of_a_bank_that_signs_require_it(bank_pki):
    with Sandbox(pki=bank_pki, sign_answers=True) as bank, bank.client() as client:
        paid = client.initiate_payment(ORDER)
        for fault in ("html", "no-body", "other-answer"):
            bank.fault(fault)
            with pytest.raises((OutcomeUnknown, RemoteProtocolError)):
                client.cancel_payment(paid.payment_id)


def test_over_sockets_the_signed_date_is_the_only_one(bank_pki_folder, bank_pki, tmp_path):
    settings = SandboxSettings(tmp_path / "bank", pki=bank_pki_folder, persona=persona("cavage"))
    with run_sandbox(settings) as server, httpx.Client(verify=trusting(server)) as http:
        message = with_id("GET", f"{PAYMENTS}/y/status")
        found = http.get(server.addresses.psd2_url + message.target, headers=dict(message.headers))
        policy = SealPolicy(PathVerifier(make_anchors(bank_pki.authorities)), profile=ANSWER_PROFILES["cavage"])
        answer = Answer.from_wire(found.status_code, found.headers.raw, found.content)
        assert verify_answer(answer, request=message, policy=policy, at=utc_now()).unverified_answer.status == 401
        assert len(answer.values("date")) == 1


def trusting(server: SandboxServer) -> Any:
    return ssl.create_default_context(cafile=f"{server.addresses.pki}/root.pem")


def test_a_key_for_which_the_form_has_no_algorithm_is_refused():
    pki = make_pki(at=utc_now(), key="p384", seed=1)
    with Sandbox(pki=pki, persona=persona("rfc9421")) as bank:
        assert Caller(bank, "rfc9421").ask(with_id("GET", "/nothing")).unverified_answer.status == 404
    with refused(ConfigurationError, "sandbox.bank-seal", match="P-384"):
        Sandbox(pki=pki, persona=persona("cavage"))


@pytest.mark.slow
def test_a_pki_without_the_seal_of_a_bank_is_enough_unless_answers_are_signed(bank_pki, tmp_path):
    write_pki(bank_pki, tmp_path / "pki")
    for file in files_of(bank_pki, bank_pki.bank_seal):
        (tmp_path / "pki" / file.name).unlink()
    manifest = tmp_path / "pki" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["files"] = [one for one in content["files"] if one["kind"] != "bank-seal"]
    manifest.write_text(json.dumps(content))
    with run_sandbox(SandboxSettings(tmp_path / "plain", pki=tmp_path / "pki")):
        pass
    signing = SandboxSettings(tmp_path / "signs", pki=tmp_path / "pki", sign_answers=True)
    with pytest.raises(ConfigurationError) as caught:
        SandboxServer(signing)
    assert caught.value.code == "sandbox.bank-seal"
    command = split(caught.value.message.partition("make one: ")[2])
    done = subprocess.run([Path(sys.executable).parent / command[0], *command[1:]], check=False, capture_output=True)
    assert done.returncode == 0
    with run_sandbox(signing):
        pass
