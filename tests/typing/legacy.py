"""The legacy interface as a provider writes it: mypy and pyright read this file, nothing imports or runs it."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, assert_type

from tppkit.callbacks import (
    CallbackAddress,
    CallbackKind,
    CallbackReceiver,
    CallbackRejected,
    Inbox,
    VerifiedCallback,
    load_callback_key,
    verify_callback,
)
from tppkit.client import AsyncLegacyClient, LegacyClient, Unauthorized
from tppkit.inbox.store import InboxStore
from tppkit.message import Message
from tppkit.protocol.legacy import AccessGranted, LoginPermission, LoginRequest, PaymentOrder, Transaction
from tppkit.web import CallbackGate, CallbackMiddleware


def provider(client: LegacyClient, order: PaymentOrder) -> None:
    try:
        assert_type(client.balance("token"), Mapping[str, Decimal])
    except Unauthorized as e:
        print(e.code)
    assert_type(client.pay("token", order), str)


async def provider_of_tasks(client: AsyncLegacyClient) -> None:
    assert_type(await client.balance("token"), Mapping[str, Decimal])


def receiver(key: bytes) -> CallbackReceiver:
    addresses = [CallbackAddress("https://tpp.example/cb/", CallbackKind.ACCESS)]
    return CallbackReceiver(addresses, keys=[load_callback_key(key, name="live-2026")])


def verified(message: Message, receiver: CallbackReceiver, at: datetime) -> str:
    try:
        callback: VerifiedCallback = verify_callback(message, at=at, receiver=receiver)
    except CallbackRejected as e:
        return e.code
    match callback.event:
        case AccessGranted() as granted:
            return granted.token
        case Transaction() as transaction:
            return transaction.id
        case _:
            return callback.key_name


def login(callback: VerifiedCallback) -> LoginRequest:
    return LoginRequest(name="Bookshop", perm=(LoginPermission.NAME,))


def handled(callback: VerifiedCallback, connection: Any) -> None:
    print(callback.url)


def server(app: Any, receiver: CallbackReceiver) -> CallbackMiddleware:
    inbox = Inbox(receiver, InboxStore("sqlite:///tpp.sqlite"))
    return CallbackMiddleware(app, gate=CallbackGate(inbox, handler=handled, login=login))
