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
    sign_callback,
    verify_callback,
)
from tppkit.callbacks.signature import signed_bytes
from tppkit.message import Message

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
ORIGIN = "https://tpp.example"
HEADERS = (("host", "tpp.example"), ("accept", "*/*"), ("content-type", "application/json"), ("content-length", "170"))
GRANT = b'{"token":"4fZ0aB94fZ0aB94fZ0aB94fZ0aB9","exp":"2026-09-01 12:00:00"}'
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
    """Callbacks with their events, the shortest and the longest, against the bare signature operation."""
    yield _line("callback verify P-256, grant", "/cb/", GRANT, at_most=1.2)
    yield _line("callback verify P-256, transaction", "/cb/" + "4fZ0aB9" * 4, TRANSACTION, at_most=1.4)


def _line(name: str, path: str, body: bytes, *, at_most: float) -> Line:
    key = ec.generate_private_key(ec.SECP256R1())
    public, ecdsa = key.public_key(), ec.ECDSA(hashes.SHA256())
    receiver = CallbackReceiver(ADDRESSES, keys=[CallbackKey("live", public)])
    request_id = "99391c7e-ad88-49ec-a2ad-99ddcb1f7721"
    headers = sign_callback(key, request_id=request_id, method="POST", url=ORIGIN + path, body=body)
    received = Message("POST", path, (*HEADERS, *headers), body)
    signature, data = bytes.fromhex(headers[1][1]), signed_bytes(request_id, "POST", ORIGIN + path, body)

    def raw() -> None:
        public.verify(signature, data, ecdsa)

    subject = partial(verify_callback, received, at=AT, receiver=receiver)
    return against(name, subject, raw, what="of raw P-256 verify", at_most=at_most)
