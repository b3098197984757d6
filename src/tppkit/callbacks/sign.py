"""Sign callbacks as the service does: for tests, and for the sandbox."""

from __future__ import annotations

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from tppkit.callbacks.signed_bytes import signed_bytes
from tppkit.message import Header

_RANDOM = ec.ECDSA(hashes.SHA256())
_DETERMINISTIC = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)


def make_signature(key: ec.EllipticCurvePrivateKey, data: bytes, *, deterministic: bool = False) -> str:
    """Sign bytes with ECDSA and SHA-256; returns DER in lower-case hexadecimal.

    Args:
        key: on secp256r1.
        data: the bytes to sign.
        deterministic: the same key and bytes give the same signature (RFC 6979).
    """
    return key.sign(data, _DETERMINISTIC if deterministic else _RANDOM).hex()


def sign_callback(
    key: ec.EllipticCurvePrivateKey,
    *,
    request_id: str,
    method: str,
    url: str,
    body: bytes = b"",
    deterministic: bool = False,
) -> tuple[Header, ...]:
    """Return the headers `requestid` and `signature` of a callback.

    The values are not checked: tests of receivers need callbacks that break the rules.

    Args:
        key: on secp256r1.
        request_id: the id of this request.
        method: GET or POST.
        url: the whole address with `https://`.
        body: the raw bytes.
        deterministic: the same request gives the same signature (RFC 6979).

    Example:
        headers = sign_callback(key, request_id="r-1", method="POST", url="https://tpp.example/cb/", body=b"{}")

    Source: PSD2 document, part B section 5.
    """
    signature = make_signature(key, signed_bytes(request_id, method, url, body), deterministic=deterministic)
    return ("requestid", request_id), ("signature", signature)
