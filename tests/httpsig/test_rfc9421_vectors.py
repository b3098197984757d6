"""RFC 9421's own examples, each with what it says of itself.

A request is verified whole. Of answers, and of examples in the running text, the message is not at hand or no request: there
the signature base is rebuilt from the printed lines, and the signature verified over it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from vectors import Vector, load

from refusals import refused
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig import Message
from tppkit.httpsig.algorithms import RFC9421, make_verifiers, verify_signature
from tppkit.httpsig.components import Origin
from tppkit.httpsig.rfc9421 import (
    SignatureInput,
    make_signature_base,
    make_signature_fields,
    parse_signature_fields,
    request_values,
    verify_message_signature,
)

pytestmark = pytest.mark.shared

AT = datetime.fromtimestamp(1618884500, UTC)
# The names of RFC 9421 for what the vectors call otherwise.
NAMES = {"rsa-sha256": "rsa-v1_5-sha256"}


def fields_of(vector: Vector) -> tuple[str, str, str]:
    """Label, Signature-Input and Signature."""
    label, separator, _ = vector["signature_input"].partition("=(")
    if not separator:
        label = "sig"
    signature_input = vector["signature_input"] if separator else f"sig={vector['signature_input']}"
    return label, signature_input, f"{label}=:{vector['expected_signature']}:"


def request_of(vector: Vector) -> Message:
    method, target, _ = vector["first_line"].split(" ")
    _, signature_input, signature = fields_of(vector)
    headers = [(name, value) for name, value in vector["headers"] if name not in ("Signature-Input", "Signature")]
    headers += [("Signature-Input", signature_input), ("Signature", signature)]
    return Message(method, target, tuple(headers), (vector["body"] or "").encode())


def origin_of(vector: Vector) -> Origin:
    """Where the example says that the request went; the attack on Host in example 4 goes where the others went."""
    host = next(value for name, value in vector["headers"] if name == "Host")
    return Origin("https", host)


def verify_request(vector: Vector) -> None:
    message = request_of(vector)
    key = load_pem_public_key(vector["keys"]["public_pem"].encode())
    verified = verify_message_signature(
        message,
        verifiers=make_verifiers(key, names=RFC9421),
        at=AT,
        label=fields_of(vector)[0],
        origin=origin_of(vector),
        algorithm=NAMES.get(vector["algorithm"], vector["algorithm"]),
    )
    assert verified.base.decode() == vector["expected_signature_base"]


def printed_lines(vector: Vector) -> tuple[SignatureInput, bytes, bytes]:
    """What is signed, the base made of the printed values, and the signature."""
    lines = dict(line.split(": ", 1) for line in vector["expected_signature_base"].split("\n"))
    label, signature_input, signature = fields_of(vector)
    parameters, raw = parse_signature_fields(signature_input, signature, label=label)
    return parameters, make_signature_base(parameters, lambda component: lines[str(component)]), raw


def check_printed(vector: Vector) -> None:
    _, base, raw = printed_lines(vector)
    assert base.decode() == vector["expected_signature_base"]
    key = load_pem_public_key(vector["keys"]["public_pem"].encode())
    verify_signature(make_verifiers(key, names=RFC9421), NAMES.get(vector["algorithm"], vector["algorithm"]), raw, base)


def check_hmac(vector: Vector) -> None:
    """Its base is ours, and with every key that there is it is refused."""
    message = request_of(vector)
    parameters, _ = parse_signature_fields(*fields_of(vector)[1:])
    base = make_signature_base(parameters, request_values(message, origin=origin_of(vector)))
    assert base.decode() == vector["expected_signature_base"]
    assert "hmac-sha256" not in RFC9421


def is_request(vector: Vector) -> bool:
    return bool(vector["headers"]) and not vector["first_line"].startswith("HTTP/")


def test_every_vector_does_what_it_says(shared_data: Path) -> None:
    faults = []
    for vector in load(shared_data, "rfc9421.json"):
        if vector["algorithm"] == "hmac-sha256":
            check = check_hmac
        else:
            check = verify_request if is_request(vector) else check_printed
        try:
            check(vector)
            holds = True
        except SignatureRejected as e:
            holds = False
            if e.code != "signature.invalid":
                faults.append(f"{vector['id']}: refused for another reason, {e}")
        if holds is not (vector["expect"] == "valid"):
            faults.append(f"{vector['id']}: expected {vector['expect']}")
    assert faults == []


def test_every_vector_is_written_as_it_was_read(shared_data: Path) -> None:
    for vector in load(shared_data, "rfc9421.json"):
        label, signature_input, signature = fields_of(vector)
        parameters, raw = parse_signature_fields(signature_input, signature, label=label)
        assert make_signature_fields(parameters, raw, label=label) == (signature_input, signature)


def test_what_belongs_to_answers_is_refused_for_a_request(shared_data: Path) -> None:
    found = []
    for vector in load(shared_data, "rfc9421.json"):
        parameters, _ = parse_signature_fields(*fields_of(vector)[1:])
        if '"@status"' in parameters.text:
            with refused(FormatError, "signature.unsupported-component"):
                make_signature_base(parameters, request_values(Message("GET", "/")))
            found.append(vector["id"])
    assert found == ["rfc9421-b24", "rfc9421-intext-1", "rfc9421-intext-2"]
