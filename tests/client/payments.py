"""A payment, and how a bank answers its initiation."""

from __future__ import annotations

from tppkit.protocol.psd2 import PaymentInitiation

PAYMENT = PaymentInitiation.from_wire(
    b'{"instructedAmount":{"currency":"EUR","amount":"12.50"},"creditorAccount":{"iban":"DE89370400440532013000"},'
    b'"creditorName":"Caf\\u00e9","remittanceInformationUnstructured":"Order 4711"}'
)
LINKS = {name: {"href": "https://bank.example/x"} for name in ("scaRedirect", "self", "status")}
INITIATED = {"transactionStatus": "RCVD", "paymentId": "p-1", "_links": LINKS}
