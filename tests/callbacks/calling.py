"""A service that signs callbacks, and a receiver of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tppkit.callbacks import (
    CallbackAddress,
    CallbackKey,
    CallbackKind,
    CallbackReceiver,
    CallbackRejected,
    sign_callback,
    verify_callback,
)
from tppkit.message import Message
from tppkit.testpki import make_pki

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
ORIGIN = "https://tpp.example"
UUID = "4fZ0aB9" * 4
REQUEST_ID = "99391c7e-ad88-49ec-a2ad-99ddcb1f7721"

ACCESS_URL = f"{ORIGIN}/cb/"
PAYMENT_URL = f"{ORIGIN}/cb/{UUID}"
LOGIN_URL = f"{ORIGIN}/login/{UUID}"
ACCESS = b'{"token":"abcdefghijklmnopqrstuvwxyz","exp":"2026-12-01 12:00:00"}'
TRANSACTION = (
    b'{"id":"T-1","ver":3,"timeStamp":833000000,"tlc":"posted","acc":"LT121000011101001000","name":"Bookshop",'
    b'"amount":["EUR-12.50","EUR-0.10"]}'
)
LOGIN = b'{"id":7,"token":"abcdefghijklmnopqrstuvwxyz","name":"Jonas"}'

ADDRESSES = (
    CallbackAddress(ACCESS_URL, CallbackKind.ACCESS),
    CallbackAddress(f"{ORIGIN}/cb/{{token}}", CallbackKind.PAYMENT),
    CallbackAddress(f"{ORIGIN}/login/{{token}}", CallbackKind.LOGIN),
    CallbackAddress(f"{ORIGIN}/a%2Fb/%C5%BEalias/", CallbackKind.OTHER),
)

_KEYS = make_pki(at=AT, seed=1).callback_keys


def private_key(name: str) -> ec.EllipticCurvePrivateKey:
    key = _KEYS[name]
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


LIVE = private_key("callback-live")
TEST = private_key("callback-test")
LIVE_KEY = CallbackKey("live", LIVE.public_key())
TEST_KEY = CallbackKey("test", TEST.public_key())
RECEIVER = CallbackReceiver(ADDRESSES, keys=[LIVE_KEY])


def target_of(url: str) -> str:
    return url.removeprefix(ORIGIN).encode().decode("latin-1")


def received(
    url: str = ACCESS_URL, body: bytes = ACCESS, *, method: str = "POST", key: ec.EllipticCurvePrivateKey = LIVE,
    request_id: str = REQUEST_ID, signed_url: str | None = None, target: str | None = None,
) -> Message:  # fmt: skip
    """A callback as it arrives; `signed_url` and `target` when they are not those of `url`."""
    headers = sign_callback(
        key, request_id=request_id, method=method, url=signed_url or url, body=body, deterministic=True
    )
    return Message(method, target_of(url) if target is None else target, (("Host", "10.0.0.7"), *headers), body)


def with_headers(callback: Message, **changed: str | None) -> Message:
    """The same callback with other values of headers; None leaves one out."""
    kept = [(name, changed.get(name, value)) for name, value in callback.headers]
    return callback._replace(headers=tuple([(name, value) for name, value in kept if value is not None]))


def header(callback: Message, name: str) -> str:
    return dict(callback.headers)[name]


def refusal(callback: Message, *, receiver: CallbackReceiver = RECEIVER, at: datetime = AT) -> str:
    """The code that a callback is refused with."""
    with pytest.raises(CallbackRejected) as refused:
        verify_callback(callback, at=at, receiver=receiver)
    return refused.value.code
