"""A bank's interface on Django, behind nginx, which ends the TLS connection; every X-Request-ID counts once.

BANK_ANCHORS=pki gunicorn django_bank:application
"""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path

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
from tppkit.web.replay_stores.memory import MemoryReplayStore

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"])
numbers = count(1)


def initiate(request: HttpRequest, product: str) -> JsonResponse:
    """A payment, from nothing but what was signed."""
    verified = verified_request(request.environ)
    creditor = json.loads(verified.body)["creditorName"]
    answer = {"paymentId": str(next(numbers)), "from": verified.organization_identifier, "to": creditor}
    return JsonResponse(answer, status=201)


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
