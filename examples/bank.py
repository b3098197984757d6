"""A bank's interface without a framework, as the four programs beside it mount it: the gate before it, and what it answers.

It stands behind nginx, which ends the TLS connection; every X-Request-ID counts once. BANK_ANCHORS names the folder of the anchors.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from tppkit.errors import LocalProtocolError, TppkitError
from tppkit.protocol.psd2 import PSD2
from tppkit.protocol.psd2.models import Href, PaymentInitiated, PaymentInitiation, PaymentLinks, PaymentProduct
from tppkit.protocol.psd2.payment import TransactionStatus
from tppkit.protocol.psd2.rules import require_json
from tppkit.seals import SealPolicy
from tppkit.trust import PathVerifier, load_anchors
from tppkit.web import (
    Answer,
    ProxyForm,
    QwacPolicy,
    ReplayGuard,
    SealGate,
    TrustedProxy,
    admitted_request,
    brief_refusal,
    psd2_requirement,
    verified_request,
)
from tppkit.web.replay_stores.memory import MemoryReplayStore

paths = PathVerifier(load_anchors(Path(os.environ["BANK_ANCHORS"])))
gate = SealGate(
    qwacs=QwacPolicy(paths),
    seals=SealPolicy(paths),
    requirement=psd2_requirement,
    trusted_proxies=[TrustedProxy("127.0.0.1", form=ProxyForm.NGINX)],
    replay=ReplayGuard(MemoryReplayStore()),  # for one process; several share one of the other stores
)
numbers = count(1)
Source = Mapping[str, Any]  # an ASGI scope or a WSGI environ


def initiate(source: Source, product: str) -> Answer:
    """A payment, from nothing but what was signed."""
    verified = verified_request(source)
    try:
        require_json(next(iter(verified.unverified_message.values("Content-Type")), None))
        if product not in list(PaymentProduct):
            raise LocalProtocolError("product.unknown", f"there is no product {product}")
        payment = PaymentInitiation.from_wire(verified.body)
    except TppkitError as e:
        return _refuse(source, e)
    payment_id = str(next(numbers))
    print(payment_id, verified.organization_identifier, payment.instructed_amount.amount)
    return _answer(source, 201, _initiated(f"/psd2/v1/payments/{product}/{payment_id}", payment_id))


def unknown(source: Source) -> Answer:
    """What is in the interface, and has no handler here."""
    return _refuse(source, LocalProtocolError("endpoint.unknown", "this bank does not offer it"))


def _initiated(path: str, payment_id: str) -> bytes:
    links = PaymentLinks(
        sca_redirect=Href(href=f"https://bank.example/approve/{payment_id}"),
        status=Href(href=f"{path}/status"),
        self_=Href(href=path),
    )
    answer = PaymentInitiated(transaction_status=TransactionStatus.RCVD, payment_id=payment_id, links=links)
    return answer.to_wire()


def _refuse(source: Source, error: TppkitError) -> Answer:
    refusal = brief_refusal(error)
    return _answer(source, refusal.status, PSD2.refusals.write(refusal))


def _answer(source: Source, status: int, body: bytes) -> Answer:
    (request_id,) = admitted_request(source).unverified_message.values("X-Request-ID")
    return Answer(status, (("Content-Type", "application/json"), ("X-Request-ID", request_id)), body)
