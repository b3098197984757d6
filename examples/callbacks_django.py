"""Callbacks in front of a Django application, with their effects written by Django's models, in Django's transaction.

    waitress-serve callbacks_django:application

Needs `service.pub`, the public key of the service, in the folder it is started in.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, connection, models, transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path

from tppkit.callbacks import (
    CallbackAddress,
    CallbackKind,
    CallbackReceiver,
    Inbox,
    VerifiedCallback,
    load_callback_key,
)
from tppkit.inbox.store import InboxStore
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, LoginPermission, LoginRequest, Transaction
from tppkit.web import CallbackGate, WsgiCallbackMiddleware

DATABASE = Path("tpp.sqlite")

settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATABASE,
            "OPTIONS": {"transaction_mode": "IMMEDIATE"},
        }
    },
    ROOT_URLCONF=__name__,
)
django.setup()


class Effect(models.Model):
    """What a callback has done."""

    what = models.TextField()

    class Meta:
        """Where it stands."""

        app_label = "tpp"
        db_table = "effects"


receiver = CallbackReceiver(
    [
        CallbackAddress("https://tpp.example/cb/", CallbackKind.ACCESS),
        CallbackAddress("https://tpp.example/cb/{token}", CallbackKind.PAYMENT),
        CallbackAddress("https://tpp.example/login/{token}", CallbackKind.LOGIN),
    ],
    keys=[load_callback_key(Path("service.pub"), name="live-2026")],
)
store = InboxStore(f"sqlite:///{DATABASE}")
store.create_tables()
if Effect._meta.db_table not in connection.introspection.table_names():
    with connection.schema_editor() as editor:
        editor.create_model(Effect)


@contextmanager
def transaction_of_django() -> Iterator[Any]:
    """A transaction of Django's, with the driver's connection that the inbox's mark is written by."""
    close_old_connections()
    with transaction.atomic():
        yield connection.connection


def granted(event: AccessGranted, callback: VerifiedCallback, _: Any) -> None:
    """Has the effect of a grant; committed together with the mark that it is done, or not at all."""
    Effect.objects.create(what="access")


def paid(event: Transaction, callback: VerifiedCallback, _: Any) -> None:
    """Has the effect of the outcome of a payment."""
    Effect.objects.create(what=f"{event.id} {event.ver} {event.tlc}")


def logged_in(event: LoginConfirmed, callback: VerifiedCallback, _: Any) -> None:
    """Has the effect of a confirmed login."""
    Effect.objects.create(what="login")


def ask_login(callback: VerifiedCallback) -> LoginRequest:
    """Answer the scan of our login code with who asks, and for what."""
    return LoginRequest(name="Bookshop", perm=(LoginPermission.NAME, LoginPermission.EMAIL))


def effects(request: HttpRequest) -> JsonResponse:
    """What callbacks have done."""
    return JsonResponse(list(Effect.objects.order_by("pk").values_list("what", flat=True)), safe=False)


urlpatterns = [path("effects", effects)]
gate = CallbackGate(
    Inbox(receiver, store),
    on_access=granted,
    on_payment=paid,
    on_login=logged_in,
    within=transaction_of_django,
    login=ask_login,
)
application = WsgiCallbackMiddleware(get_wsgi_application(), gate=gate)
