"""`tppkit demo`: the main task end to end, on this machine."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import click
import httpx

from tppkit._clock import utc_now
from tppkit._files import make_folder
from tppkit.certificates import EidasCertificate
from tppkit.cli.demo_steps import DemoStopped, Steps, expect
from tppkit.cli.output import DOES_NOT_HOLD, HOLDS, json_flag, print_json
from tppkit.client import Identity, LegacyClient, Psd2Client
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


Control = Callable[..., Any]  # calls the sandbox's control host with a path and a body


class _Account(NamedTuple):
    consent_id: str
    resource_id: str
    iban: str


@click.command()
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    help="A new folder for all files; a temporary folder by default.",
)
@json_flag
def demo(directory: Path | None, as_json: bool) -> int:
    """Read accounts and pay at a sandbox bank, see four refusals, receive callbacks, take a card payment, and audit the archive."""
    from tppkit.sandbox import SandboxSettings, run_sandbox

    folder = _folder(directory)
    bank = run_sandbox(SandboxSettings(folder, pki=folder / "pki"))
    steps = Steps(on_stderr=as_json)
    steps.print(
        "tppkit demo: account data and payments over mutual TLS, signed callbacks, cards, and seals that an auditor verifies again\n"
    )
    with suppress(DemoStopped):
        _run(steps, folder, bank)
    exit_code = _print_end(steps, folder)
    if as_json:
        kept = {name: str(folder / name.replace("_", "-")) for name in ("pki", "archive", "archive_altered")}
        print_json({"as_expected": steps.as_expected, "directory": str(folder), **kept, "steps": steps.done})
    return exit_code


def _folder(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="tppkit-demo-"))
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigurationError(
            "file.exists", f"{directory} exists and is not overwritten: give a new or empty folder"
        )
    make_folder(directory)
    return directory


def _run(steps: Steps, folder: Path, sandbox: AbstractContextManager[SandboxServer]) -> None:
    from tppkit.cli.demo_shop import open_shop, show_gateway, show_legacy

    pki, reader_qwac = _make_certificates(steps, folder)
    identity = _identity(pki.qwac, pki)
    with sandbox as server:
        at = server.addresses

        def control(path: str, body: Any = None) -> Any:
            return httpx.post(at.control_url + path, json=body, trust_env=False).raise_for_status().json()

        with Psd2Client(at.psd2_url, identity=identity) as client:
            account = _read_accounts(steps, client, control, at.psd2_url)
            initiated = _pay(steps, client)
            _show_refusals(steps, pki, identity, _identity(reader_qwac, pki), at.psd2_url)
            _settle(steps, client, control, account, initiated.payment_id)
        with (
            open_shop(server, pki, folder, control) as shop,
            LegacyClient(at.legacy_url, api_key=at.legacy_api_key, server_anchors=[pki.root.certificate]) as legacy,
        ):
            show_legacy(steps, shop, legacy)
            show_gateway(steps, shop)
    _audit(steps, folder)


def _make_certificates(steps: Steps, folder: Path) -> tuple[Pki, Issued]:
    """Make the PKI, and a QWAC of the same provider without the payment role."""
    with steps.step("Make a test PKI") as lines:
        pki = make_pki(at=utc_now())
        reader_qwac = pki.issue_qwac(make_provider(roles=["PSP_AI"]), label="reader-qwac")
        write_pki(pki, folder / "pki", further=(reader_qwac,))
        lines.append(
            "A root, issuing authorities for QWACs and QSealCs, and their certificates; pki/manifest.json lists the files."
        )
    with steps.step("Read the provider's certificates") as lines:
        for issued in (pki.qwac, pki.qseal):
            certificate = EidasCertificate.from_pem((folder / "pki" / f"{issued.label}.pem").read_bytes())
            lines.append(
                f"{certificate.subject}: QcType {', '.join(certificate.qc.types)}, {certificate.organization_identifier},"
                f" roles {', '.join(certificate.roles)}, {certificate.key.curve or certificate.key.bits} key."
            )
    return pki, reader_qwac


def _seal(issued: Issued) -> Seal:
    return Seal(issued.certificate, KeySigner(issued.key))


def _identity(qwac: Issued, pki: Pki) -> Identity:
    return Identity(
        qwac.certificate, qwac.key, chain=qwac.chain, seal=_seal(pki.qseal), server_anchors=[pki.root.certificate]
    )


def _read_accounts(steps: Steps, client: Psd2Client, control: Control, url: str) -> _Account:
    last_day = utc_now().date() + timedelta(days=90)
    request = ConsentRequest(access=Access(all_psd2=ALL_ACCOUNTS), valid_until=last_day, frequency_per_day=4)
    with steps.step("Create a sealed consent over mutual TLS, which the customer approves") as lines:
        lines.append(f"The sandbox bank listens at {url} and requires a client certificate.")
        created = client.create_consent(request)
        lines.append(f"201 {created.status}, consent {created.consent_id} until {last_day}.")
        lines.append(f"The customer approves at {created.links.sca_redirect and created.links.sca_redirect.href}")
        control(f"/consents/{created.consent_id}/approve")
        status = client.wait_for_consent(created.consent_id, wait_s=10)
        lines.append(f"The consent is {status}.")
        expect(status is ConsentStatus.VALID, "the consent is not valid")
    with steps.step("List the accounts of the consent, with balances") as lines:
        accounts = client.accounts(created.consent_id, with_balance=True).accounts
        expect(len(accounts) == 1, f"{len(accounts)} accounts")
        account = _Account(created.consent_id, accounts[0].resource_id, accounts[0].iban or "")
        balances = [one.balance_amount for one in accounts[0].balances or ()]
        amounts = ", ".join(f"{money.amount} {money.currency}" for money in balances)
        lines.append(f"{account.iban} of {accounts[0].owner_name}: {amounts}.")
        expect(bool(balances), "there are no balances")
    return account


def _pay(steps: Steps, client: Psd2Client) -> PaymentInitiated:
    with steps.step("Initiate a sealed payment") as lines:
        request_id = uuid4()
        initiated = client.initiate_payment(_PAYMENT, request_id=request_id)
        lines.append(f"201 {initiated.transaction_status}, payment {initiated.payment_id}.")
        lines.append(f"The payer approves at {initiated.links.sca_redirect and initiated.links.sca_redirect.href}")
        expect(initiated.transaction_status is TransactionStatus.RCVD, f"the status is {initiated.transaction_status}")
    with steps.step("Send the same request again, as after a lost answer") as lines:
        again = client.initiate_payment(_PAYMENT, request_id=request_id)
        lines.append(f"With the same X-Request-ID and body the answer is payment {again.payment_id} again.")
        expect(again.payment_id == initiated.payment_id, "the bank made a second payment")
    return initiated


def _show_refusals(steps: Steps, pki: Pki, identity: Identity, reader: Identity, url: str) -> None:
    headers = (("X-Request-ID", str(uuid4())), ("Content-Type", "application/json"))
    target = INITIATE_PAYMENT.target(product=PaymentProduct.SEPA.value)
    message = Message("POST", target, headers, _PAYMENT.to_wire())
    sealed = sign_request(message, seal=_seal(pki.qseal))
    changed = Message(sealed.method, sealed.target, sealed.headers, sealed.body.replace(b"12.50", b"99.50"))
    foreign = sign_request(message, seal=_seal(pki.other_qseal))
    cases = (
        ("A body changed after signing is refused", identity, changed, 401, "SIGNATURE_INVALID"),
        ("A request without a seal is refused", identity, message, 401, "SIGNATURE_MISSING"),
        ("A seal of another organisation is refused", identity, foreign, 401, "SIGNATURE_INVALID"),
        ("A certificate without the payment-initiation role is refused", reader, sealed, 403, "ROLE_INVALID"),
    )
    for title, sender, request, status, code in cases:
        with steps.step(title) as lines, httpx.Client(verify=sender.tls_context, trust_env=False) as http:
            answer = http.request(
                request.method, url + request.target, headers=list(request.headers), content=request.body
            )
            got, text = PSD2.refusals.read(answer.content)
            lines.append(f"{answer.status_code} {got}: {text}")
            expect((answer.status_code, got) == (status, code), f"expected {status} {code}")


def _settle(steps: Steps, client: Psd2Client, control: Control, account: _Account, payment_id: str) -> None:
    def listed(booking_status: BookingStatus) -> str | None:
        """Return the amount of the payment in the account's list; None if it is not listed."""
        entries = client.iter_transactions(
            account.consent_id, account.resource_id, date_from=utc_now().date(), booking_status=booking_status
        )
        ours = (one for one in entries if one.remittance_information_unstructured == _PURPOSE)
        return next((one.transaction_amount.amount for one in ours), None)

    with steps.step("The payer approves the payment, and the account lists it as pending") as lines:
        control(f"/payments/{payment_id}/approve", {"iban": account.iban})
        status, amount = client.payment_status(payment_id).transaction_status, listed(BookingStatus.PENDING)
        lines.append(f"The payment is {status}; pending: {amount} EUR, {_PURPOSE}.")
        expect((status, amount) == (TransactionStatus.ACSP, "-12.50"), "expected ACSP, and -12.50 in the list")
    with steps.step("Poll until the payment is settled, and the account lists it as booked") as lines:
        clock = control("/clock/advance", {"seconds": 10})
        lines.append(f"The sandbox's clock advances by the ten seconds of an instant transfer, to {clock['now']}.")
        final, amount = client.wait_for_payment(payment_id, wait_s=10), listed(BookingStatus.BOOKED)
        lines.append(f"The payment is {final}: settlement completed; booked: {amount} EUR, {_PURPOSE}.")
        expect((final, amount) == (TransactionStatus.ACSC, "-12.50"), "expected ACSC, and -12.50 in the list")


def _audit(steps: Steps, folder: Path) -> None:
    with steps.step("Audit the signatures in the bank's archive") as lines:
        summary = _run_audit(folder / "archive", folder / "pki")
        passed = summary.verdicts[Verdict.PASSED]
        lines.append(f"{summary.records} records, {passed} passed, each verified at its time of receipt.")
        lines.append("The repeated payment got the stored answer, so the bank kept no second record of it.")
        expect(
            (summary.records, summary.exit_code) == (2, 0), f"exit code {summary.exit_code}, {dict(summary.by_code)}"
        )
    altered = folder / "archive-altered"
    with steps.step("Audit a copy of the archive in which one byte is flipped") as lines:
        shutil.copytree(folder / "archive", altered)
        offset = _flip_one_byte(altered / RECORDS)
        summary = _run_audit(altered, folder / "pki")
        failed = summary.verdicts[Verdict.FAILED]
        lines.append(f"Byte {offset} of {RECORDS} flipped: {failed} failed.")
        lines += [f"Record {one.seq}: {one.message} [{one.code}]" for one in summary.first_failures]
        expect((failed, summary.exit_code) == (1, 1), f"the audit missed it: {dict(summary.by_code)}")


def _run_audit(archive: Path, trust: Path) -> AuditSummary:
    summary = AuditSummary()
    for row in audit_archive(archive, paths=PathVerifier(load_anchors(trust))):
        summary.add(row)
    return summary


def _flip_one_byte(records: Path) -> int:
    """Flip the lowest bit of one byte in the first record's body, so that it stays base64; return its offset."""
    data = bytearray(records.read_bytes())
    start = data.index(b'"body":"') + len(b'"body":"') + 8
    offset = next(offset for offset in range(start, len(data)) if chr(data[offset] ^ 1).isalnum())
    data[offset] ^= 1
    records.write_bytes(data)
    return offset


def _print_end(steps: Steps, folder: Path) -> int:
    started = sys.argv[0] if Path(sys.argv[0]).name != "__main__.py" else f"{sys.executable} -m tppkit"
    tppkit = "tppkit" if shutil.which("tppkit") else started
    steps.print(f"\nAll files are in {folder}: pki/, archive/, archive-altered/, sandbox.sqlite, inbox.sqlite. Try")
    steps.print(f"  {tppkit} cert show {folder}/pki/qwac.pem")
    steps.print(f"  {tppkit} audit verify {folder}/archive --trust {folder}/pki\n")
    if not steps.as_expected:
        steps.print(f"demo: {len(steps.done)} steps, 1 NOT as expected", fg="red", bold=True)
        return DOES_NOT_HOLD
    steps.print(f"demo: {len(steps.done)} steps, all as expected", fg="green", bold=True)
    return HOLDS
