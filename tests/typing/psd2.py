"""The PSD2 interface as a provider and a bank write it: mypy and pyright read this file, nothing imports or runs it."""

from collections.abc import AsyncGenerator, Coroutine, Generator
from datetime import date, datetime
from pathlib import Path
from typing import Any, assert_type

from tppkit.certificates import EidasCertificate, Use, check_certificate, load_certificates
from tppkit.client import AsyncPsd2Client, Identity, Psd2Client
from tppkit.errors import OutcomeUnknown
from tppkit.httpsig import Message, Signer, load_private_key
from tppkit.protocol.psd2 import (
    PSD2,
    AccountEntry,
    AccountList,
    PaymentInitiated,
    PaymentInitiation,
    PaymentStatus,
    TransactionStatus,
)
from tppkit.seals import PROFILES, Seal, SealPolicy, VerifiedRequest, sign_request, verify_request
from tppkit.trust import PathVerifier, load_anchors
from tppkit.web import QwacPolicy, SealGate, SealMiddleware


def provider(client: Psd2Client, payment: PaymentInitiation) -> TransactionStatus:
    try:
        initiated: PaymentInitiated = client.initiate_payment(payment)
    except OutcomeUnknown as e:
        raise SystemExit(e.code) from e
    status: PaymentStatus = client.payment_status(initiated.payment_id)
    final: TransactionStatus = client.wait_for_payment(initiated.payment_id)
    accounts: AccountList = client.accounts("consent")
    for account in accounts.accounts:
        entries = client.iter_transactions("consent", str(account.resource_id), date_from=date(2026, 1, 1))
        assert_type(entries, Generator[AccountEntry, None, None])
    print(status.transaction_status)
    return final


async def provider_of_tasks(client: AsyncPsd2Client, payment: PaymentInitiation) -> None:
    initiated: PaymentInitiated = await client.initiate_payment(payment)
    await assert_type(client.payment_status(initiated.payment_id), Coroutine[Any, Any, PaymentStatus])
    entries = client.iter_transactions("consent", "account", date_from=date(2026, 1, 1))
    assert_type(entries, AsyncGenerator[AccountEntry, None])


def sealed(folder: Path, qwac: EidasCertificate, signer: Signer, at: datetime) -> VerifiedRequest:
    certificates: tuple[EidasCertificate, ...] = load_certificates(folder / "qseal.pem")
    codes = [finding.code for finding in check_certificate(certificates[0], as_=Use.QSEALC, at=at)]
    seal = Seal(certificates[0], signer, profile=PROFILES["wso2"])
    message = Message("POST", "https://psd2.bank.example/psd2/v1/payments/sepa-credit-transfers", (), b"{}")
    policy = SealPolicy(PathVerifier(load_anchors(folder)))
    verified = verify_request(sign_request(message, seal=seal), qwac=qwac, at=at, policy=policy)
    assert_type((verified.organization_identifier, codes), tuple[str, list[str]])
    return verified


def bank(app: Any, folder: Path) -> SealMiddleware:
    paths = PathVerifier(load_anchors(folder))
    return SealMiddleware(app, gate=SealGate(PSD2, qwacs=QwacPolicy(paths), seals=SealPolicy(paths)))


def identity(folder: Path, qwac: EidasCertificate, seal: Seal) -> Identity:
    key = load_private_key((folder / "qwac.key").read_bytes())
    return Identity(qwac, key, seal=seal, server_anchors=folder / "root.pem")


def mistakes(client: Psd2Client, tasks: AsyncPsd2Client, payment: PaymentInitiation) -> None:
    client.payment_status()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    client.initiate_payment("payment")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    print(tasks.initiate_payment(payment).payment_id)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
