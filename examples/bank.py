"""A bank's interface without a framework, for the four programs in this folder: the gate, and the answers.

It runs behind nginx, which ends the TLS connection. A repeated X-Request-ID gets the first answer again. BANK_ANCHORS names the
folder of the anchors.
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from tppkit.errors import LocalProtocolError, TppkitError
from tppkit.protocol.psd2 import PSD2
from tppkit.protocol.psd2.models import ApprovalLinks, Href, PaymentInitiated, PaymentInitiation, PaymentProduct
from tppkit.protocol.psd2.payment import TransactionStatus
from tppkit.protocol.wire import require_media_type
from tppkit.seals import SealPolicy, VerifiedRequest
from tppkit.trust import PathVerifier, load_anchors
from tppkit.web import Answer, ProxyForm, QwacPolicy, ReplayGuard, SealGate, Source, TrustedProxy
from tppkit.web.replay_stores.memory import MemoryReplayStore

paths = PathVerifier(load_anchors(Path(os.environ["BANK_ANCHORS"])))
gate = SealGate(
    PSD2,
    qwacs=QwacPolicy(paths),
    seals=SealPolicy(paths),
    trusted_proxies=[TrustedProxy("127.0.0.1", form=ProxyForm.NGINX, forwarded_for=True)],
    address_is_raw=True,  # the server reads no address from a header: uvicorn --no-proxy-headers
    replay=ReplayGuard(MemoryReplayStore()),  # for one process; several share a TableReplayStore
)
numbers = count(1)


def initiate(source: Source, verified: VerifiedRequest, product: str) -> Answer:
    """Make a payment from what was signed."""
    try:
        require_media_type(next(iter(verified.unverified_message.values("Content-Type")), None), "application/json")
        if product not in list(PaymentProduct):
            raise LocalProtocolError("product.unknown", f"there is no product {product}")
        payment = PaymentInitiation.from_wire(verified.body, unknown_fields=True)
    except TppkitError as e:
        return gate.refuse(source, e)
    payment_id = str(next(numbers))
    print(payment_id, verified.organization_identifier, payment.instructed_amount.amount)
    headers = (("Content-Type", "application/json"), ("X-Request-ID", verified.request_id))
    return Answer(201, headers, _initiated(f"/psd2/v1/payments/{product}/{payment_id}", payment_id))


def unknown(source: Source) -> Answer:
    """An endpoint of the interface that has no handler here."""
    return gate.refuse(source, LocalProtocolError("endpoint.unknown", "this bank does not offer it"))


def _initiated(path: str, payment_id: str) -> bytes:
    links = ApprovalLinks(
        sca_redirect=Href(href=f"https://bank.example/approve/{payment_id}"),
        status=Href(href=f"{path}/status"),
        self_=Href(href=path),
    )
    answer = PaymentInitiated(transaction_status=TransactionStatus.RCVD, payment_id=payment_id, links=links)
    return answer.to_wire()
