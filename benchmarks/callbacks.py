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
UUID = "4fZ0aB9" * 4
HEADERS = (("host", "tpp.example"), ("accept", "*/*"), ("content-type", "application/json"), ("content-length", "170"))
ACCESS = b'{"token":"abcdefghijklmnopqrstuvwxyz","exp":"2026-12-01 12:00:00"}'
TRANSACTION = (
    b'{"id":"T-4711","ver":3,"timeStamp":833000000,"tlc":"posted","acc":"LT121000011101001000","name":"Bookshop",'
    b'"msg":"Order 4711","tcc":"SHOP","amount":["EUR-12.50"]}'
)
ADDRESSES = (
    CallbackAddress(f"{ORIGIN}/cb/", CallbackKind.ACCESS),
    CallbackAddress(f"{ORIGIN}/cb/{{token}}", CallbackKind.PAYMENT),
    CallbackAddress(f"{ORIGIN}/login/{{token}}", CallbackKind.LOGIN),
)


def receiving(*, rounds: int = 6000) -> Iterator[Line]:
    """A login GET, and callbacks with their events, against the bare signature operation."""
    for name, method, path, body in (
        ("callback verify, login GET", "GET", f"/login/{UUID}", b""),
        ("callback verify, access granted", "POST", "/cb/", ACCESS),
        ("callback verify, <TRAN>", "POST", f"/cb/{UUID}", TRANSACTION),
    ):
        yield verifying(name, method, path, body, rounds)


def verifying(name: str, method: str, path: str, body: bytes, rounds: int) -> Line:
    """One callback."""
    key = ec.generate_private_key(ec.SECP256R1())
    public, ecdsa = key.public_key(), ec.ECDSA(hashes.SHA256())
    receiver = CallbackReceiver(ADDRESSES, keys=[CallbackKey("live", public)])
    request_id, url = "99391c7e-ad88-49ec-a2ad-99ddcb1f7721", ORIGIN + path
    headers = sign_callback(key, request_id=request_id, method=method, url=url, body=body)
    received = ReceivedCallback(method, path, (*HEADERS, *headers), body)
    signature, data = bytes.fromhex(headers[1][1]), signed_bytes(request_id, method, url, body)

    def raw() -> None:
        public.verify(signature, data, ecdsa)

    subject = partial(verify_callback, received, at=AT, receiver=receiver)
    return against(name, subject, raw, what="raw P-256 verify", limit=1.15, rounds=rounds)
