"""A payment, and how a bank answers its initiation."""

from __future__ import annotations

from tppkit.protocol.psd2 import PaymentInitiation

PAYMENT = PaymentInitiation.from_wire(
    b'{"instructedAmount":{"currency":"EUR","amount":"12.50"},"creditorAccount":{"iban":"DE89370400440532013000"},'
    b'"creditorName":"Caf\\u00e9","remittanceInformationUnstructured":"Order 4711"}'
)
# The fields of the form that approves, in the sandbox.
APPROVE = {"action": "approve", "customer": "customer-1", "iban": "LT029999900000000001"}
LINKS = {name: {"href": "https://bank.example/x"} for name in ("scaRedirect", "self", "status")}
INITIATED = {"transactionStatus": "RCVD", "paymentId": "p-1", "_links": LINKS}
