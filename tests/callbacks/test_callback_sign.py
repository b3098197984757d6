"""Signing callbacks as the service does."""

from __future__ import annotations

from calling import ACCESS, ACCESS_URL, LIVE

from tppkit.callbacks import sign_callback
from tppkit.callbacks.signature import make_signature


def test_a_deterministic_signature_is_the_same_again():
    one, two = (make_signature(LIVE, b"data", deterministic=True) for _ in range(2))
    assert one == two
    assert make_signature(LIVE, b"data") != make_signature(LIVE, b"data")


def test_a_signature_is_der_in_lower_case_hexadecimal():
    signature = make_signature(LIVE, b"data")
    assert bytes.fromhex(signature).hex() == signature
    assert signature.startswith("30")


def test_the_headers_are_requestid_and_signature():
    headers = sign_callback(LIVE, request_id="r1", method="POST", url=ACCESS_URL, body=ACCESS)
    assert [name for name, _ in headers] == ["requestid", "signature"]
    assert headers[0][1] == "r1"
