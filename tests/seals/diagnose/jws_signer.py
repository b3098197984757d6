"""A sender of detached JSON Web Signatures that makes mistakes: each step can be replaced by a wrong one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from tppkit._encoding import decode_base64url, encode_base64url
from tppkit.httpsig import KeySigner, Message
from tppkit.httpsig.algorithms import key_kind
from tppkit.seals import PROFILES, Seal, prepare_request
from tppkit.testpki import Pki

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
JWS = PROFILES["open-finance"]
CARRIER = "x-jws-signature"
REQUEST = Message(
    "POST",
    "/psd2/v1/payments?x=%2F1&b=2",
    (("Host", "bank.example"), ("X-Request-ID", "7f9c24e8-3b12-4f6b-9d3a-0c1f1e9b6a55"), ("Content-Type", "application/json")),
    b'{"a":1}',
)  # fmt: skip

Header = dict[str, Any]


def compact(header: Mapping[str, Any]) -> bytes:
    return json.dumps(header, separators=(",", ":")).encode()


def without(*names: str) -> Callable[[Header], Header]:
    return lambda header: {name: value for name, value in header.items() if name not in names}


def with_values(**values: object) -> Callable[[Header], Header]:
    return lambda header: {**header, **values}


def seal_jws(
    pki: Pki,
    *,
    header: Callable[[Header], Header] = dict,
    signed_header: Callable[[Header], Header] = dict,
    serialise: Callable[[Header], bytes] = compact,
    serialise_signed: Callable[[Header], bytes] | None = None,
    encode: Callable[[bytes], str] = encode_base64url,
    encode_signed: Callable[[bytes], str] | None = None,
    lines: Callable[[str], str] = lambda text: text,
    written: Callable[[bytes], str] = encode_base64url,
    form: Callable[[str, str, str], str] = lambda head, payload, signature: f"{head}..{signature}",
    message: Message = REQUEST,
) -> Message:
    """A request sealed step by step.

    Args:
        header: changes the protected header before it is signed and sent.
        signed_header: changes besides what of it is signed.
        serialise: the header that is sent.
        serialise_signed: the header that is signed, where that is done otherwise.
        encode: the serialised header that is sent.
        encode_signed: the one that is signed, where that is done otherwise.
        lines: changes what is signed behind the header.
        written: encodes the signature.
        form: puts head, signed payload and signature together.
        message: what is sealed.
    """
    name = next(iter(JWS.algorithms_of(key_kind(pki.qseal.key)).values())).name
    signer = KeySigner(pki.qseal.key, algorithm=name)
    prepared = prepare_request(message, seal=Seal(pki.qseal.certificate, signer, profile=JWS), at=AT)
    right, _, text = prepared.signing_string.decode("latin-1").partition(".")
    sent = header(json.loads(decode_base64url(right, what="the header")))
    head = encode(serialise(sent))
    signed = (encode_signed or encode)((serialise_signed or serialise)(signed_header(sent)))
    payload = lines(text)
    signature = written(signer.sign(f"{signed}.{payload}".encode("latin-1")))
    sealed = prepared.finish(bytes(64))
    return sealed._replace(
        headers=tuple((n, form(head, payload, signature) if n == CARRIER else v) for n, v in sealed.headers)
    )
