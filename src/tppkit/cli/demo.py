"""`tppkit demo`: the main job end to end, on this machine."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click
import httpx

from tppkit._clock import utc_now
from tppkit._files import make_folder
from tppkit.certificates import EidasCertificate
from tppkit.cli.output import DOES_NOT_HOLD, HOLDS, json_option, print_json
from tppkit.cli.story import Story, StoryOver, Surprise, expect
from tppkit.client import Identity, Psd2Client
from tppkit.errors import ConfigurationError
from tppkit.evidence import AuditSummary, Verdict, audit_archive
from tppkit.evidence.archive import RECORDS
from tppkit.protocol.psd2 import (
    ALL_ACCOUNTS,
    PSD2,
    Access,
    AccountReference,
    BookingStatus,
    ConsentRequest,
    ConsentStatus,
    PaymentInitiated,
    PaymentInitiation,
    PaymentProduct,
    TransactionStatus,
)
from tppkit.protocol.psd2.endpoints import INITIATE_PAYMENT
from tppkit.protocol.psd2.models import InstructedAmount
from tppkit.seals import KeySigner, Message, Seal, sign_request
from tppkit.testpki import Issued, Pki, make_pki, make_provider, write_pki
from tppkit.trust import PathVerifier, load_anchors

if TYPE_CHECKING:
    from tppkit.sandbox import SandboxServer

_PURPOSE = "Order 4711"
_PAYMENT = PaymentInitiation(
    instructed_amount=InstructedAmount(currency="EUR", amount="12.50"),
    creditor_account=AccountReference(iban="LT121000011101001000"),
    creditor_name="Bookshop Ąžuolas",
    remittance_information_unstructured=_PURPOSE,
)


@dataclass(frozen=True, slots=True)
class _Cast:
    """Who plays: our provider, another organisation's seal, and our provider without the payment role."""

    pki: Pki
    other_seal: Issued
    reader: Issued


class _Bank:
    """Our provider's client of the bank, the account that it may read, and what the customer does there."""

    def __init__(self, client: Psd2Client, control_url: str) -> None:
        self.client = client
        self.consent_id = self.resource_id = self.iban = ""
        self._control_url = control_url

    def control(self, path: str, body: Any = None) -> Any:
        """Decide for the customer, or move the clock."""
        with _http_errors():
            return httpx.post(self._control_url + path, json=body, trust_env=False).raise_for_status().json()

    def listed(self, booking_status: BookingStatus) -> str | None:
        """The amount of our payment in the account's list, None if it is not there."""
        entries = self.client.iter_transactions(
            self.consent_id, self.resource_id, date_from=utc_now().date(), booking_status=booking_status
        )
        ours = (one for one in entries if one.remittance_information_unstructured == _PURPOSE)
        return next((one.transaction_amount.amount for one in ours), None)


@click.command()
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    help="A new folder to keep everything in; a fresh temporary one by default.",
)
@json_option
def demo(directory: Path | None, as_json: bool) -> int:
    """Read accounts and pay at a sandbox bank, be refused four times, get callbacks, take a card payment, and audit what was kept."""
    from tppkit.sandbox import SandboxSettings, run_sandbox

    folder = _folder(directory)
    bank = run_sandbox(SandboxSettings(folder, pki=folder / "pki"))
    story = Story(on_stderr=as_json)
    story.say(
        "tppkit demo: account data and payments over mutual TLS, signed callbacks, cards, and seals that an auditor re-verifies"
    )
    story.say("")
    with suppress(StoryOver):
        _play(story, folder, bank)
    exit_code = _end(story, folder)
    if as_json:
        kept = {name: str(folder / name.replace("_", "-")) for name in ("pki", "archive", "archive_altered")}
        print_json({"as_expected": not story.surprises, "directory": str(folder), **kept, "steps": story.steps})
    return exit_code


def _play(story: Story, folder: Path, bank: AbstractContextManager[SandboxServer]) -> None:
    from tppkit.cli.demo_gateway import play_gateway
    from tppkit.cli.demo_legacy import play_legacy

    cast = _make_certificates(story, folder)
    with bank as server:
        identity = _identity(cast.pki.qwac, cast.pki)
        with Psd2Client(server.addresses.psd2_url, identity=identity) as client:
            ours = _Bank(client, server.addresses.control_url)
            _read_accounts(story, ours, server.addresses.psd2_url)
            initiated = _pay(story, client)
            _be_refused(story, cast, identity, server.addresses.psd2_url)
            _approve(story, ours, initiated)
        play_legacy(story, server, cast.pki, folder, ours.control)
        play_gateway(story, server, cast.pki, folder, ours.control)
    _audit(story, folder)


def _folder(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="tppkit-demo-"))
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigurationError("file.exists", f"{directory} exists and is not overwritten")
    make_folder(directory)
    return directory


def _make_certificates(story: Story, folder: Path) -> _Cast:
    with story.step("Make a test PKI") as told:
        pki = make_pki(at=utc_now())
        reader = make_provider(roles=["PSP_AI"])
        cast = _Cast(pki, pki.other_qseal, pki.issue_qwac(reader, label="reader-qwac"))
        write_pki(pki, folder / "pki", further=(cast.reader,))
        told.append(
            "A root, issuing authorities for QWACs and QSealCs, and what they issued: pki/manifest.json names each file."
        )
    with story.step("Read the provider's certificates") as told:
        for issued in (pki.qwac, pki.qseal):
            told.append(_introduce(EidasCertificate.from_pem((folder / "pki" / f"{issued.label}.pem").read_bytes())))
    return cast


def _introduce(certificate: EidasCertificate) -> str:
    key = certificate.key
    return (
        f"{certificate.subject}: QcType {', '.join(certificate.qc.types)}, {certificate.organization_identifier},"
        f" roles {', '.join(certificate.roles)}, {key.curve or key.bits} key."
    )


def _identity(qwac: Issued, pki: Pki) -> Identity:
    seal = Seal(pki.qseal.certificate, KeySigner(pki.qseal.key))
    return Identity(qwac.certificate, qwac.key, chain=qwac.chain, seal=seal, server_anchors=[pki.root.certificate])


def _read_accounts(story: Story, bank: _Bank, url: str) -> None:
    last_day = utc_now().date() + timedelta(days=90)
    request = ConsentRequest(access=Access(all_psd2=ALL_ACCOUNTS), valid_until=last_day, frequency_per_day=4)
    with story.step("Create a sealed consent over mutual TLS, which the customer approves") as told:
        told.append(f"The sandbox bank answers at {url} and asks for a client certificate.")
        created = bank.client.create_consent(request)
        bank.consent_id = created.consent_id
        told.append(f"201 {created.status}, consent {created.consent_id} until {last_day}.")
        told.append(f"The customer approves at {created.links.sca_redirect.href}")
        bank.control(f"/consents/{created.consent_id}/approve")
        status = bank.client.wait_for_consent(created.consent_id, wait_s=10)
        told.append(f"The consent is {status}.")
        expect(status is ConsentStatus.VALID, "the consent cannot be used")
    with story.step("List the accounts of the consent, with balances") as told:
        accounts = bank.client.accounts(created.consent_id, with_balance=True).accounts
        expect(len(accounts) == 1, f"{len(accounts)} accounts")
        bank.resource_id, bank.iban = accounts[0].resource_id, accounts[0].iban or ""
        held = [
            f"{money.amount} {money.currency}" for money in (one.balance_amount for one in accounts[0].balances or ())
        ]
        told.append(f"{bank.iban} of {accounts[0].owner_name}: {', '.join(held)}.")
        expect(bool(held), "there are no balances")


def _pay(story: Story, client: Psd2Client) -> PaymentInitiated:
    with story.step("Initiate a sealed payment") as told:
        request_id = uuid4()
        initiated = client.initiate_payment(_PAYMENT, request_id=request_id)
        told.append(f"201 {initiated.transaction_status}, payment {initiated.payment_id}.")
        told.append(f"The payer approves at {initiated.links.sca_redirect.href}")
        expect(initiated.transaction_status is TransactionStatus.RCVD, f"the state is {initiated.transaction_status}")
    with story.step("Send the same request again, as after a lost answer") as told:
        again = client.initiate_payment(_PAYMENT, request_id=request_id)
        told.append(f"The same X-Request-ID and body: payment {again.payment_id} again, not a second one.")
        expect(again.payment_id == initiated.payment_id, "a second payment was made")
    return initiated


def _be_refused(story: Story, cast: _Cast, identity: Identity, url: str) -> None:
    pki, ours = cast.pki, Seal(cast.pki.qseal.certificate, KeySigner(cast.pki.qseal.key))
    theirs = Seal(cast.other_seal.certificate, KeySigner(cast.other_seal.key))
    message = _payment_message()
    sealed = sign_request(message, seal=ours)
    changed = Message(sealed.method, sealed.target, sealed.headers, sealed.body.replace(b"12.50", b"99.50"))
    reader = _identity(cast.reader, pki)
    cases = (
        ("A body changed on the way is refused", identity, changed, 401, "SIGNATURE_INVALID"),
        ("A request without a seal is refused", identity, message, 401, "SIGNATURE_MISSING"),
        (
            "A seal of another organisation is refused",
            identity,
            sign_request(message, seal=theirs),
            401,
            "SIGNATURE_INVALID",
        ),
        ("A certificate without the payment-initiation role is refused", reader, sealed, 403, "ROLE_INVALID"),
    )
    for title, sender, request, status, code in cases:
        with story.step(title) as told:
            answer = _send(sender, url, request)
            got, text = PSD2.refusals.read(answer.content)
            told.append(f"{answer.status_code} {got}: {text}")
            expect((answer.status_code, got) == (status, code), f"expected {status} {code}")


def _payment_message() -> Message:
    headers = (("X-Request-ID", str(uuid4())), ("Content-Type", "application/json"))
    return Message("POST", INITIATE_PAYMENT.target(product=PaymentProduct.SEPA.value), headers, _PAYMENT.to_wire())


def _send(identity: Identity, url: str, message: Message) -> httpx.Response:
    with _http_errors(), httpx.Client(verify=identity.tls_context, trust_env=False) as http:
        return http.request(message.method, url + message.target, headers=list(message.headers), content=message.body)


@contextmanager
def _http_errors() -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as e:
        raise Surprise(f"no answer: {e}") from e


def _approve(story: Story, bank: _Bank, initiated: PaymentInitiated) -> None:
    with story.step("The payer approves the payment, and the account lists it as pending") as told:
        bank.control(f"/payments/{initiated.payment_id}/approve", {"iban": bank.iban})
        status = bank.client.payment_status(initiated.payment_id).transaction_status
        amount = bank.listed(BookingStatus.PENDING)
        told.append(f"The payment is {status}; pending: {amount} EUR, {_PURPOSE}.")
        expect(status is TransactionStatus.ACSP, "it is not on its way")
        expect(amount == "-12.50", "it is not listed")
    with story.step("Poll until the payment is settled, and the account lists it as booked") as told:
        clock = bank.control("/clock/advance", {"seconds": 10})
        told.append(f"The sandbox's clock is moved by the ten seconds of an instant transfer, to {clock['now']}.")
        final = bank.client.wait_for_payment(initiated.payment_id, wait_s=10)
        amount = bank.listed(BookingStatus.BOOKED)
        told.append(f"The payment is {final}: settlement completed; booked: {amount} EUR, {_PURPOSE}.")
        expect(final is TransactionStatus.ACSC, f"it ended as {final}")
        expect(amount == "-12.50", "it is not listed")


def _audit(story: Story, folder: Path) -> None:
    with story.step("Audit the signatures that the bank kept") as told:
        summary = _run_audit(folder / "archive", folder / "pki")
        told.append(
            f"{summary.records} records, {summary.verdicts[Verdict.PASSED]} passed, re-verified at their times of receipt."
        )
        told.append("The repeated payment got the first answer, so the bank counted it and kept no record of its own.")
        expect(
            summary.records == 2 and summary.exit_code == 0, f"exit code {summary.exit_code}, {dict(summary.by_code)}"
        )
    altered = folder / "archive-altered"
    with story.step("Audit a copy in which one byte of a kept record was flipped") as told:
        shutil.copytree(folder / "archive", altered)
        offset = _flip_one_byte(altered / RECORDS)
        summary = _run_audit(altered, folder / "pki")
        failure = summary.first_failures[0] if summary.first_failures else None
        told.append(f"Byte {offset} of {RECORDS} flipped: {summary.verdicts[Verdict.FAILED]} failed.")
        if failure:
            told.append(f"Record {failure.seq}: {failure.message} [{failure.code}]")
        expect(
            summary.verdicts[Verdict.FAILED] == 1 and summary.exit_code == 1,
            f"the audit did not see it: {dict(summary.by_code)}",
        )


def _run_audit(archive: Path, trust: Path) -> AuditSummary:
    summary = AuditSummary()
    for row in audit_archive(archive, paths=PathVerifier(load_anchors(trust))):
        summary.add(row)
    return summary


def _flip_one_byte(records: Path) -> int:
    """Flip the lowest bit of one byte in the first record's kept body, and give its offset."""
    data = bytearray(records.read_bytes())
    start = data.index(b'"body":"') + len(b'"body":"')
    readable: Callable[[int], bool] = lambda offset: chr(data[offset] ^ 1).isalnum()  # noqa: E731  # still base64
    offset = next(offset for offset in range(start + 8, len(data)) if readable(offset))
    data[offset] ^= 1
    records.write_bytes(data)
    return offset


def _end(story: Story, folder: Path) -> int:
    story.say("")
    story.say(
        f"Everything is in {folder}: pki/, archive/, archive-altered/, sandbox.sqlite, inbox.sqlite. Look again with"
    )
    program = "tppkit" if shutil.which("tppkit") else sys.argv[0]
    story.say(f"  {program} cert show {folder}/pki/qwac.pem")
    story.say(f"  {program} audit verify {folder}/archive --trust {folder}/pki")
    story.say("")
    if story.surprises:
        story.say(f"demo: {len(story.steps)} steps, {story.surprises} NOT as expected", style="bold red")
        return DOES_NOT_HOLD
    story.say(f"demo: {len(story.steps)} steps, all as expected", style="bold green")
    return HOLDS
