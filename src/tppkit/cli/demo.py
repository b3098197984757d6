"""`tppkit demo`: the main task end to end, on this machine."""

from __future__ import annotations

import logging
import re
import secrets
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import click
import httpx

from tppkit._clock import utc_now
from tppkit._files import make_folder
from tppkit._text import printable
from tppkit.certificates import EidasCertificate
from tppkit.cli.audit_exhibit import ENDPOINTS
from tppkit.cli.output import DOES_NOT_HOLD, HOLDS, json_flag, print_json
from tppkit.client import AccessKind, Identity, LegacyClient, Psd2Client, is_paid
from tppkit.errors import ConfigurationError, TppkitError
from tppkit.evidence import AuditPlan, AuditResult, Verdict, audit_archives
from tppkit.evidence.archive import RECORDS
from tppkit.protocol.gateway import Order, OrderRequest, TransactionRequest
from tppkit.protocol.legacy import PaymentOrder
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

if TYPE_CHECKING:
    from tppkit.cli.demo_shop import Control, Shop
    from tppkit.sandbox import SandboxServer

_REPORT = "audit.html"
_PURPOSE = "Order 4711"
_PAYMENT = PaymentInitiation(
    instructed_amount=InstructedAmount(currency="EUR", amount="12.50"),
    creditor_account=AccountReference(iban="LT121000011101001000"),
    creditor_name="Bookshop Ąžuolas",
    remittance_information_unstructured=_PURPOSE,
)
_PHONE = "+37060000001"
_ORDER = PaymentOrder(
    acc="LT121000011101001000", amts={"EUR": Decimal("12.50")}, name="Bookshop Ąžuolas", street="Pilies g. 1", city="Vilnius",
    country="LTU", msg="Order 4712",
)  # fmt: skip
_HOUR_S = 3600
# The issuer of this card asks its holder.
CARD = {"number": "4000 0027 6000 3184", "expiry": "12/39", "cvc": "123", "name": "Ona Kazlauskienė"}
_PAID, _SHIPPED, _SENT_BACK = 2500, 1500, 500
_HIDDEN = re.compile('<input type="hidden" name="([a-z]+)" value="([^"]*)">')
_WIDTH, _INDENT = 100, " " * 7  # of what a step prints


class UnexpectedResult(Exception):
    """A step had another result than expected."""


class DemoStopped(Exception):
    """A step failed, and the later steps depend on it."""


class Steps:
    """Steps with their results.

    Args:
        on_stderr: Print to stderr, so that stdout holds only JSON.

    Attributes:
        done: The steps so far, as JSON objects.

    Example:
        with steps.step("Read the certificate") as lines:
            lines.append(str(certificate.subject))
    """

    def __init__(self, *, on_stderr: bool = False) -> None:
        self.done: list[dict[str, Any]] = []
        self._on_stderr = on_stderr

    @property
    def as_expected(self) -> bool:
        """Whether no step had an unexpected result; such a step is the last one."""
        return all(step["as_expected"] for step in self.done)

    @contextmanager
    def step(self, title: str) -> Iterator[list[str]]:
        """Run one step; its body appends the lines to print.

        Raises:
            DemoStopped: The body raised `UnexpectedResult`, or a call failed.
        """
        lines: list[str] = []
        try:
            yield lines
        except (UnexpectedResult, TppkitError, httpx.HTTPError) as e:
            self._add(title, [*lines, f"unexpected: {e}"], as_expected=False)
            raise DemoStopped from e
        self._add(title, lines, as_expected=True)

    def print(self, text: str = "", **style: Any) -> None:
        """Print a line between the steps; `style` as for `click.style`."""
        click.secho(text, err=self._on_stderr, **style)

    def _add(self, title: str, lines: list[str], *, as_expected: bool) -> None:
        self.done.append({"title": title, "as_expected": as_expected, "lines": lines})
        state = click.style("ok", fg="green", bold=True) if as_expected else click.style("!!", fg="red", bold=True)
        self.print(f"{len(self.done):>2} {state}  {click.style(title, bold=True)}")
        for line in lines:
            self.print(
                textwrap.fill(
                    printable(line), _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT,
                    break_on_hyphens=False, break_long_words=False,
                ), dim=True,
            )  # fmt: skip


def expect(condition: bool, otherwise: str) -> None:
    """Raise `UnexpectedResult` with a text unless a condition holds."""
    if not condition:
        raise UnexpectedResult(otherwise)


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

    # Without a handler, Python would print the log lines of the bank's refusals between the steps, which show the same.
    logging.getLogger("tppkit.sandbox.host").addHandler(logging.NullHandler())
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
        kept["report"] = str(folder / _REPORT)
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
    from tppkit.cli.demo_shop import open_shop

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
            _show_legacy(steps, shop, legacy)
            _show_gateway(steps, shop)
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


def _show_legacy(steps: Steps, shop: Shop, client: LegacyClient) -> None:
    from tppkit.callbacks.login_codes import digest_session_id

    with steps.step("Log a customer in with a code on the shop's page") as lines:
        shop.control("/legacy/provider", {"callback_url": f"{shop.origin}/cb"})
        session_id = secrets.token_urlsafe()
        code = shop.codes.make(session_id, at=utc_now())
        lines.append(f"The page shows {code.text} and {code.code}.")
        asked = shop.control("/legacy/login", {"code": code.text})["asked"]
        lines.append(
            f"The customer scans it; a signed GET asks who we are: {asked['name']}, {' '.join(asked['perm'])}."
        )
        login, session = _delivered(shop)
        lines.append(f"A signed POST logs in {login.name}, {login.email}, in the session of that page only.")
        expect(session == digest_session_id(session_id), "the login belongs to no session")
    with steps.step("Request access to payments, which a callback grants") as lines:
        token = client.request_access(AccessKind.PAYMENTS, _PHONE)
        lines.append("POST /pis/<access token> with an API key; the customer approves.")
        shop.control(f"/legacy/access/{token}/approve")
        grant, _ = _delivered(shop)
        expect(grant.token == token, "the callback names another access")
        lines.append(f"A signed POST gives the end of the access: {grant.exp}.")
    with steps.step("Pay, and receive the outcome by callbacks") as lines:
        uuid = client.pay(token, _ORDER)
        lines.append(f"POST /pis/<access token>/TX/{uuid}; the customer approves.")
        shop.control(f"/legacy/payments/{uuid}/approve")
        for state, after_s in (("posted", 0), ("executed", _HOUR_S)):
            record, name = _delivered(shop, after_s=after_s)
            found = f"{record.tlc}, version {record.ver}, {' '.join(map(str, record.amounts))}"
            lines.append(f"A signed POST to /cb/{name}: {found}.")
            as_paid = (name, record.tlc, str(record.amounts[0])) == (uuid, state, "EUR-12.50")
            expect(as_paid, f"expected {state} of {uuid}")


def _delivered(shop: Shop, *, after_s: float = 0) -> tuple[Any, str | None]:
    received = shop.deliver(after_s=after_s)
    expect(len(received) == 1, f"{len(received)} callbacks arrived")
    return received[0]


def _show_gateway(steps: Steps, shop: Shop) -> None:
    order = _pay_order(steps, shop)
    with steps.step("Receive a webhook about the order, and fetch the order to see that it is paid") as lines:
        orders = shop.changed_orders()
        lines.append("An unsigned POST to an unguessable path names the order; it is stored and answered 200.")
        expect([*orders] == [order.id], "the webhooks name other orders")
        paid = orders[order.id]
        lines.append(f"The order is fetched and handled once: {paid.status}, {_money(paid)}.")
        expect(is_paid(paid, own_checkout=False), "the order is not paid")
    with steps.step("Capture a part when the first parcel ships") as lines:
        capture = shop.gateway.capture_amount(order.id, order.transactions[0].id, _SHIPPED, description="First parcel")
        lines.append(f"Captured {_money(capture)} of {_money(order)}; the rest is released.")
        made = shop.changed_orders().get(capture.id)
        lines.append(f"A webhook names the capture, order {capture.id}.")
        as_made = made is not None and (made.capture_of_order_id, made.amount) == (order.id, _SHIPPED)
        expect(as_made, "no webhook names the capture")
    with steps.step("Refund a book that was returned") as lines:
        refund = shop.gateway.create_refund(order.id, _SENT_BACK, description="Returned book")
        lines.append(f"Refunded {_money(refund)} of {_money(capture)}.")
        made = shop.changed_orders().get(refund.id)
        lines.append(f"A webhook names the refund, order {refund.id}.")
        as_made = made is not None and (made.refund_of_order_id, made.amount) == (order.id, _SENT_BACK)
        expect(as_made, "no webhook names the refund")
        now = shop.gateway.order(order.id)
        expect(now.refunded_amount == _SENT_BACK, f"the order's refunded amount is {now.refunded_amount}")


def _pay_order(steps: Steps, shop: Shop) -> Order:
    with steps.step("A customer pays an order by card on the hosted page") as lines:
        payment = TransactionRequest(payment_method="credit-card", capture_mode="manual")
        order = shop.gateway.create_order(OrderRequest(
            currency="EUR", amount=_PAID, merchant_order_id="4713", merchant_name="Bookshop Ąžuolas", transactions=(payment,),
            return_url=f"{shop.origin}/thanks", webhook_url=shop.webhook_url,
        ))  # fmt: skip
        lines.append(f"201 {order.status}, order {order.id}: {_money(order)}, to be captured later.")
        url = str(order.transactions[0].payment_url)
        lines.append(f"The customer pays at {url}")
        with httpx.Client(trust_env=False) as browser:
            for fields in ({"action": "pay", **CARD}, {"action": "approve"}):
                page = browser.get(url, follow_redirects=True).raise_for_status()
                answer = browser.post(page.url, data={**dict(_HIDDEN.findall(page.text)), **fields})
                expect(answer.status_code == 303, f"the answer to the form is {answer.status_code}")
                url = str(page.url.join(answer.headers["location"]))
        lines.append(f"The issuer asks, the customer confirms, and the page redirects to {url}. That proves nothing.")
        expect(url == order.return_url, "the customer does not return to the shop")
    return order


def _money(order: Order) -> str:
    return f"{order.amount / 100:.2f} {order.currency}"


def _audit(steps: Steps, folder: Path) -> None:
    with steps.step("Audit the signatures in the bank's archive") as lines:
        summary = _run_audit(folder / "archive", folder / "pki", report=folder / _REPORT)
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
        lines += [f"Record {one['seq']}: {one['message']} [{one['code']}]" for one in summary.first_failures]
        expect((failed, summary.exit_code) == (1, 1), f"the audit missed it: {dict(summary.by_code)}")


def _run_audit(archive: Path, trust: Path, *, report: Path | None = None) -> AuditResult:
    return audit_archives([archive], AuditPlan(now=utc_now(), trust=str(trust), endpoints=ENDPOINTS), report=report)


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
    steps.print(f"  {tppkit} audit verify {folder}/archive --trust {folder}/pki")
    steps.print(f"The report of the audit is {folder / _REPORT}\n")
    if not steps.as_expected:
        steps.print(f"demo: {len(steps.done)} steps, 1 NOT as expected", fg="red", bold=True)
        return DOES_NOT_HOLD
    steps.print(f"demo: {len(steps.done)} steps, all as expected", fg="green", bold=True)
    return HOLDS
