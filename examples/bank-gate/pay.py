"""A provider pays at the bank: python pay.py [URL [QWAC]]. QWAC names another certificate in certs, such as reader."""

from __future__ import annotations

import sys
from decimal import Decimal

from tppkit.client import Identity, Psd2Client
from tppkit.errors import RequestRefused
from tppkit.protocol.psd2 import AccountReference, InstructedAmount, PaymentInitiation

PAYMENT = PaymentInitiation(
    instructed_amount=InstructedAmount(currency="EUR", amount=Decimal("12.50")),
    creditor_account=AccountReference(iban="LT121000011101001000"),
    creditor_name="Bookshop",
)


def main(url: str = "https://localhost:8443", qwac: str = "qwac") -> int:
    """Pay, ask for the status, and print both or the refusal."""
    identity = Identity.from_pkcs12(
        qwac=f"certs/{qwac}.p12",
        qseal="certs/qseal.p12",
        password="test",  # noqa: S106  # of every test PKI
        server_anchors="certs/root.pem",
    )
    with Psd2Client(url, identity=identity) as client:
        try:
            initiated = client.initiate_payment(PAYMENT)
            status = client.payment_status(initiated.payment_id).transaction_status
        except RequestRefused as e:
            print("refused", e.status, e.peer_code)
            return 1
    print("payment", initiated.payment_id, status)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
