"""A bank's interface on Django; see `bank`.

BANK_ANCHORS=pki gunicorn --forwarder-headers '' django_bank:application
"""

from __future__ import annotations

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

import bank
from tppkit.web import Answer, WsgiSealMiddleware, WsgiSource, verified_request


def response(answer: Answer) -> HttpResponse:
    """An answer in Django's form."""
    return HttpResponse(answer.body, status=answer.status, headers=dict(answer.headers))


def initiate(request: HttpRequest, product: str) -> HttpResponse:
    """A payment."""
    return response(bank.initiate(WsgiSource(request.environ), verified_request(request.environ), product))


def unknown(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Every other request."""
    return response(bank.unknown(WsgiSource(request.environ)))


settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"])
urlpatterns = [path("psd2/v1/payments/<product>", initiate)]
handler404 = unknown
application = WsgiSealMiddleware(get_wsgi_application(), gate=bank.gate)
