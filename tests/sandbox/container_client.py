"""Tests of an application, in a container beside the sandbox: by service names, with the token, and with a reset before each test.

Runs in the folder of the sandbox, which both have at the same path; TPPKIT_CONTROL_TOKEN is set.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import time
from pathlib import Path

import httpx

from tppkit.client import GatewayClient, Identity, Psd2Client
from tppkit.errors import RequestRefused
from tppkit.protocol.gateway import OrderRequest
from tppkit.protocol.psd2 import PaymentInitiation, TransactionStatus

PAYMENT = PaymentInitiation.from_wire(
    b'{"instructedAmount":{"currency":"EUR","amount":"12.50"},"creditorAccount":{"iban":"LT121000011101001000"},'
    b'"creditorName":"Bookshop"}'
)
CONTROL, TOKEN = "http://sandbox:8446", os.environ["TPPKIT_CONTROL_TOKEN"]
ready = json.loads(Path("ready.json").read_bytes())
pki = Path(ready["pki"])
root = pki / "root.pem"
identity = Identity.from_pkcs12(qwac=pki / "qwac.p12", qseal=pki / "qseal.p12", password="test", server_anchors=root)


def control(path: str, token: str | None = TOKEN, **headers: str) -> httpx.Response:
    """POST to the control host."""
    sent = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.post(CONTROL + path, headers={**sent, **headers}, trust_env=False)


def refused(answer: httpx.Response, status: int, code: str) -> bool:
    """Whether a control call was refused so."""
    return (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_control_needs_the_token_and_a_name_of_the_sandbox() -> None:
    assert refused(control("/clock/next", None), 401, "control.unauthorized")
    assert refused(control("/clock/next", TOKEN + "x"), 401, "control.unauthorized")
    assert refused(control("/clock/next", Host="evil.example"), 421, "control.host")
    assert refused(control("/clock/next", Origin="https://evil.example"), 403, "control.origin")
    assert control("/clock/next").status_code == 200


def test_a_customer_pays_and_the_shop_delivers() -> list[str]:
    with Psd2Client(ready["psd2_url"], identity=identity) as client:
        payment = client.initiate_payment(PAYMENT).payment_id
        assert control(f"/payments/{payment}/approve").status_code == 200
        assert control("/clock/next").status_code == 200
        assert client.payment_status(payment).transaction_status == TransactionStatus.ACSC
    with GatewayClient(ready["gateway_url"], api_key=ready["api_key"], server_anchors=root) as gateway:
        order = gateway.create_order(OrderRequest(currency="EUR", amount=1250)).id
    paid = httpx.post(
        f"{CONTROL}/gateway/orders/{order}/pay", json={"outcome": "approved"}, headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False
    )  # fmt: skip
    assert paid.status_code == 200
    deadline, trusted = time.monotonic() + 20, ssl.create_default_context(cafile=root)
    while order not in httpx.get("https://shop:8443/delivered", verify=trusted, trust_env=False).json():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return [payment, order]


def reset() -> None:
    """Before each test, as a test suite in a container does it."""
    subprocess.run(["tppkit", "sandbox", "reset", "--control", CONTROL], check=True, timeout=60)


reset()
test_control_needs_the_token_and_a_name_of_the_sandbox()
reset()
first = test_a_customer_pays_and_the_shop_delivers()
reset()
with Psd2Client(ready["psd2_url"], identity=identity) as again:
    try:
        again.payment_status(first[0])
    except RequestRefused as e:
        print(json.dumps({"after a reset": e.peer_code}))
