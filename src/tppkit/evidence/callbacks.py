"""Callbacks and login GETs as records, which are signed by a key of the service without a certificate.

A record contains the key that verified it, so it is verified again after the service has renewed its key. Who had that key is not
proven: the audit lists the name and the SHA-256 of each key, to be compared with those that the service published.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit.callbacks.addresses import TOKEN, CallbackKind
from tppkit.callbacks.signature import CallbackKey, CallbackRejected, load_callback_key, require_body, signed_bytes
from tppkit.callbacks.verify import CallbackReceiver, VerifiedCallback, read_signature, require_der
from tppkit.errors import ConfigurationError, FormatError, SignatureRejected
from tppkit.evidence.columns import SCHEMA
from tppkit.evidence.record import SOFTWARE, UNPLACED, EvidenceRecord, Kind, body_columns

if TYPE_CHECKING:
    from tppkit.evidence.table import Entry

_PROFILES = frozenset(f"callback-{kind}" for kind in CallbackKind)
_URL_FORMS = frozenset({"configured", "decoded", "received"})


def make_callback_record(
    callback: VerifiedCallback,
    *,
    receiver: CallbackReceiver,
    http_status: int = 200,
    payment_ref: str | None = None,
    clock_source: str = "system",
) -> EvidenceRecord:
    """Make the record of a callback or login GET, without a place in a stream.

        def keep(receipt):
            archive.append(make_callback_record(receipt.callback, receiver=receiver))

        gate = CallbackGate(Inbox(receiver, store), on_payment=paid, keep=keep)

    Args:
        callback: what was verified; its `received_at` becomes the time of receipt.
        receiver: the receiver that verified it, for the key.
        http_status: the status of the answer.
        payment_ref: the payment that it is about.
        clock_source: the clock of the time of receipt.

    Raises:
        ConfigurationError: `callback-key.setting`, the receiver does not have the key.
    """
    key = next((one for one in receiver.keys if one.name == callback.key_name), None)
    if key is None:
        raise ConfigurationError("callback-key.setting", f"the receiver has no key {callback.key_name}")
    body = callback.body
    signed = signed_bytes(callback.request_id, callback.method, callback.url, body)
    return EvidenceRecord(
        v=SCHEMA,
        kind=int(Kind.LOGIN if callback.method == "GET" else Kind.CALLBACK),
        **UNPLACED,
        received_at=callback.received_at,
        clock_source=clock_source,
        session_id=None,
        x_request_id=callback.request_id,
        payment_ref=payment_ref,
        method=callback.method,
        target=callback.url,
        header_block=_header_block(callback.request_id),
        signature_raw=callback.signature.encode("ascii"),
        signing_input_sha256=hashlib.sha256(signed).hexdigest(),
        **body_columns(body),
        seal_cert=None,
        qwac_cert=None,
        chain=(),
        profile=f"callback-{callback.address.kind}",
        verdict="holds",
        software=SOFTWARE,
        http_status=http_status,
        error_code=None,
        key_name=key.name,
        public_key=key.public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        url_form=_url_form(callback),
    )


def verify_callback_record(record: Entry | EvidenceRecord) -> CallbackKey:
    """Check the columns and the signature of a callback's record. Its body must be the one that was hashed.

    Returns:
        The key that signed it.

    Raises:
        FormatError: `record.malformed`, `record.unknown-profile`.
        ConfigurationError: `callback-key.*`, the stored key is not one of the service's kind.
        CallbackRejected: `callback.body`, `callback.signature-form`, `callback.signature-range`, `callback.signature`.
        SignatureRejected: `record.signing-input`.
    """
    # 1. The columns are those of a callback, and follow the rules without which its bytes are ambiguous.
    # 2. The key of the record made the signature over requestid, method, URL and body.
    # 3. These bytes are the ones that were recorded.
    request_id, url, body = record.x_request_id, record.target, record.body or b""
    if record.profile not in _PROFILES:
        raise FormatError("record.unknown-profile", f"the record names the profile {record.profile[:40]!r}")
    is_login = record.kind == Kind.LOGIN
    if (
        record.key_name is None or record.public_key is None or record.url_form not in _URL_FORMS
        or record.seal_cert is not None or record.qwac_cert is not None or record.chain
        or record.header_block != _header_block(request_id) or record.method != ("GET" if is_login else "POST")
        or not request_id or set(request_id) & {":", "/"} or not url.startswith("https://") or "{" in url
    ):  # fmt: skip  # 1
        raise FormatError("record.malformed", "the columns of the record are not those of a callback")
    require_body(record.method, body)
    key = _load_key(record.public_key, record.key_name)
    signature = read_signature(record.signature_raw.decode("latin-1"))
    signed = signed_bytes(request_id, record.method, url, body)
    if not key.has_signed(signed, signature):  # 2
        require_der(signature)
        raise CallbackRejected("callback.signature", "the signature is not one of the record's key")
    if hashlib.sha256(signed).hexdigest() != record.signing_input_sha256:  # 3
        raise SignatureRejected("record.signing-input", "the signed bytes are not those that were recorded")
    return key


def key_label(record: Entry | EvidenceRecord) -> str:
    """Return the name and the SHA-256 of the key of a record, to compare it with the key that the service published."""
    return f"{(record.key_name or '')[:100]} {hashlib.sha256(record.public_key or b'').hexdigest()}"


@lru_cache(maxsize=64)
def _load_key(der: bytes, name: str) -> CallbackKey:
    return load_callback_key(der, name=name)


def _header_block(request_id: str) -> bytes:
    return f"requestid: {request_id}\r\n".encode()


def _url_form(callback: VerifiedCallback) -> str:
    """Return which form of the address was signed: as it is configured, percent-decoded, or another one that was received."""
    address = callback.address
    configured = address.url.removesuffix(TOKEN) + callback.token
    if callback.url == configured:
        return "configured"
    return "decoded" if callback.url == unquote(address.origin + address.path) + callback.token else "received"
