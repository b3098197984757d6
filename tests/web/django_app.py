"""Django that builds its links below /bank, behind the middleware, for a server in a process of its own."""

from __future__ import annotations

import os
from pathlib import Path

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path
from wsgi_app import make_gate

from tppkit.web import WsgiSealMiddleware, verified_request


def show(request: HttpRequest) -> HttpResponse:
    assert verified_request(request.environ).body == request.body
    return HttpResponse(request.path)


urlpatterns = [path("psd2/v1/payments", show)]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], FORCE_SCRIPT_NAME="/bank")
application = WsgiSealMiddleware(get_wsgi_application(), gate=make_gate(Path(os.environ["TPPKIT_ANCHORS"])))
