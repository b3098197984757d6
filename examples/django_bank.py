"""A bank's interface on Django, behind nginx, which ends the TLS connection; every X-Request-ID counts once.

BANK_ANCHORS=pki gunicorn django_bank:application
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

from tppkit.errors import TppkitError
from tppkit.protocol.psd2.models import Href, PaymentInitiated, PaymentInitiation, PaymentLinks
from tppkit.protocol.psd2.payment import TransactionStatus
from tppkit.seals import SealPolicy
from tppkit.trust import PathVerifier, load_anchors
from tppkit.web import (
    ProxyForm,
    QwacPolicy,
    ReplayGuard,
    SealGate,
    TrustedProxy,
    WsgiSealMiddleware,
    psd2_requirement,
    verified_request,
)
from tppkit.web.refusing import brief_refusal
from tppkit.web.replay_stores.memory import MemoryReplayStore

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"])
numbers = count(1)


def initiated(product: str, payment_id: str) -> bytes:
    """The answer to an initiation."""
    path = f"/psd2/v1/payments/{product}/{payment_id}"
    links = PaymentLinks(
        sca_redirect=Href(href=f"https://bank.example/approve/{payment_id}"),
        status=Href(href=f"{path}/status"),
        self_=Href(href=path),
    )
    answer = PaymentInitiated(transaction_status=TransactionStatus.RCVD, payment_id=payment_id, links=links)
    return answer.to_wire()


def initiate(request: HttpRequest, product: str) -> HttpResponse:
    """A payment, from nothing but what was signed; what is no payment is refused in the interface's form."""
    verified = verified_request(request.environ)
    try:
        payment = PaymentInitiation.from_wire(verified.body)
    except TppkitError as e:
        refusal = brief_refusal(e)
        return HttpResponse(refusal.body(), status=refusal.status, content_type="application/json")
    payment_id = str(next(numbers))
    print(payment_id, verified.organization_identifier, payment.instructed_amount.amount)
    return HttpResponse(initiated(product, payment_id), status=201, content_type="application/json")


urlpatterns = [path("psd2/v1/payments/<product>", initiate)]
paths = PathVerifier(load_anchors(Path(os.environ["BANK_ANCHORS"])))
gate = SealGate(
    qwacs=QwacPolicy(paths),
    seals=SealPolicy(paths),
    requirement=psd2_requirement,
    trusted_proxies=[TrustedProxy("127.0.0.1", form=ProxyForm.NGINX)],
    replay=ReplayGuard(MemoryReplayStore()),  # for one process; several share one of the other stores
)
application = WsgiSealMiddleware(get_wsgi_application(), gate=gate)
