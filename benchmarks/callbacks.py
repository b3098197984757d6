"""Verifying callbacks against the bare signature operation of the same library."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from harness import Line, against
from tppkit.callbacks import (
    CallbackAddress,
    CallbackKey,
    CallbackKind,
    CallbackReceiver,
    ReceivedCallback,
    sign_callback,
    signed_bytes,
    verify_callback,
)

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
ORIGIN = "https://tpp.example"
HEADERS = (("host", "tpp.example"), ("accept", "*/*"), ("content-type", "application/json"), ("content-length", "170"))
TRANSACTION = (
    b'{"id":"T-4711","ver":3,"timeStamp":833000000,"tlc":"posted","acc":"LT121000011101001000","name":"Bookshop",'
    b'"msg":"Order 4711","tcc":"SHOP","amount":["EUR-12.50"]}'
)
ADDRESSES = (
    CallbackAddress(f"{ORIGIN}/cb/", CallbackKind.ACCESS),
    CallbackAddress(f"{ORIGIN}/cb/{{token}}", CallbackKind.PAYMENT),
    CallbackAddress(f"{ORIGIN}/login/{{token}}", CallbackKind.LOGIN),
)


def receiving() -> Iterator[Line]:
    """A callback with an event, which is the longest one, against the bare signature operation."""
    key = ec.generate_private_key(ec.SECP256R1())
    public, ecdsa = key.public_key(), ec.ECDSA(hashes.SHA256())
    receiver = CallbackReceiver(ADDRESSES, keys=[CallbackKey("live", public)])
    request_id, path = "99391c7e-ad88-49ec-a2ad-99ddcb1f7721", "/cb/" + "4fZ0aB9" * 4
    headers = sign_callback(key, request_id=request_id, method="POST", url=ORIGIN + path, body=TRANSACTION)
    received = ReceivedCallback("POST", path, (*HEADERS, *headers), TRANSACTION)
    signature, data = bytes.fromhex(headers[1][1]), signed_bytes(request_id, "POST", ORIGIN + path, TRANSACTION)

    def raw() -> None:
        public.verify(signature, data, ecdsa)

    subject = partial(verify_callback, received, at=AT, receiver=receiver)
    yield against("callback verify P-256", subject, raw, what="of raw P-256 verify", at_most=1.25)
