"""Vectors that others published: the drafts' own, other implementations', and those that must be refused.

What is compared with the drafts is the signing string and, under it, the published signature. Their RSA keys have 1024 bits
and some keys are of kinds that no algorithm here has, so those signatures are verified with `cryptography` itself.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig import (
    Message,
    make_digest,
    make_signing_string,
    message_components,
    parse_signature_header,
    verify_digest,
)
from tppkit.httpsig.algorithms import make_verifiers

pytestmark = pytest.mark.shared

Vector = Mapping[str, Any]

# Vectors whose signing string needs what this version does not have; each is seen to be refused for that reason.
NEEDS_CREATED = frozenset({"cavage12-c-all-authorization", "cavage12-c-all-signature", "cavage12-2.3-signing-string"})
# Why no algorithm here verifies with the key of a vector.
REFUSED_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "key.weak": ("cavage10-c-", "cavage12-c-", "httpsig-py-", "ccg-rsa-signed"),  # RSA of 1024 bits
        "key.unsupported": ("gofed-ed25519-", "ccg-ed25519-signed", "ccg-ecdsa-signed"),  # Ed25519, secp256k1
    }
)


def load(folder: Path, name: str) -> list[Vector]:
    vectors = json.loads((folder / "vectors" / name).read_text(encoding="utf-8"))
    assert vectors, f"{name} holds no vector"
    return vectors


def message_of(vector: Vector) -> Message:
    """The request; folded lines unfolded, as the HTTP library that receives them does (RFC 9112 section 5.2)."""
    request = vector["request"]
    headers = tuple((name, re.sub(r"\s*\n\s+", " ", value)) for name, value in request["headers"])
    return Message(request["method"], request["target"], headers, (request["body"] or "").encode())


def signing_string_of(vector: Vector) -> str:
    return make_signing_string(vector["covered"], message_components(message_of(vector))[0]).decode("latin-1")


def published_signature_holds(vector: Vector) -> bool:
    key = load_pem_public_key(vector["keys"]["public_pem"].encode())
    signature, data = b64decode(vector["expected_signature"]), vector["expected_signing_string"].encode()
    try:
        match key:
            case rsa.RSAPublicKey():
                key.verify(signature, data, padding.PKCS1v15(), SHA256())
            case ec.EllipticCurvePublicKey():
                key.verify(signature, data, ec.ECDSA(SHA256()))
            case ed25519.Ed25519PublicKey():
                key.verify(signature, data)
            case _:
                raise AssertionError(f"{vector['id']} has a key that this test cannot use")
    except InvalidSignature:
        return False
    return True


def check_string(vector: Vector) -> None:
    if vector["id"] in NEEDS_CREATED:
        with pytest.raises(FormatError) as caught:
            signing_string_of(vector)
        assert caught.value.code == "signature.covered-names"
    else:
        assert signing_string_of(vector) == vector["expected_signing_string"]


def check_key(vector: Vector) -> None:
    key = load_pem_public_key(vector["keys"]["public_pem"].encode())
    expected = next((code for code, ids in REFUSED_KEYS.items() if vector["id"].startswith(ids)), None)
    if expected is None:
        assert make_verifiers(key)
    else:
        with pytest.raises(FormatError) as caught:
            make_verifiers(key)
        assert caught.value.code == expected


def check_signature(vector: Vector) -> None:
    check_string(vector)
    check_key(vector)
    assert published_signature_holds(vector) is (vector["expect"] == "valid")


def check_refused(vector: Vector) -> None:
    (value,) = message_of(vector).values("Authorization")
    with pytest.raises(FormatError):
        parse_signature_header(value.removeprefix("Signature "))


CHECKS = MappingProxyType(
    {
        ("cavage", "valid"): check_signature,
        ("cavage", "spec-vector-wrong"): check_signature,
        ("cavage", "source-vector-wrong"): check_signature,
        ("cavage-signing-string", "string"): check_string,
        ("cavage-parse-negative", "reject (draft-12 rules)"): check_refused,
    }
)


def test_every_cavage_vector_is_checked_and_does_what_it_says(shared_data: Path) -> None:
    faults = []
    for vector in load(shared_data, "cavage.json"):
        check = CHECKS.get((vector["scheme"], vector["expect"]))
        if check is None:
            faults.append(f"{vector['id']}: nothing checks {vector['scheme']} {vector['expect']}")
            continue
        try:
            check(vector)
        except (AssertionError, FormatError, SignatureRejected, pytest.fail.Exception) as e:
            faults.append(f"{vector['id']}: {e}")
    assert faults == []


def test_the_vectors_that_need_created_are_among_them(shared_data: Path) -> None:
    assert {vector["id"] for vector in load(shared_data, "cavage.json")} >= NEEDS_CREATED


def test_a_header_that_covers_created_is_refused(shared_data: Path) -> None:
    headers = {
        vector["id"]: vector["signature_header"]
        for vector in load(shared_data, "cavage.json")
        if vector["id"] in NEEDS_CREATED and "signature_header" in vector
    }
    assert headers
    for value in headers.values():
        with pytest.raises(FormatError) as caught:
            parse_signature_header(re.sub(r"^(Authorization|Signature): (Signature )?", "", value))
        assert caught.value.code == "signature.covered-names"


def test_a_folded_line_that_nobody_unfolded_is_refused(shared_data: Path) -> None:
    (vector,) = (row for row in load(shared_data, "cavage.json") if row["id"] == "cavage10-2.3-signing-string")
    request = vector["request"]
    message = Message(request["method"], request["target"], tuple(map(tuple, request["headers"])), b"")
    with pytest.raises(FormatError) as caught:
        make_signing_string(vector["covered"], message_components(message)[0])
    assert caught.value.code == "header.control-character"


def test_every_digest_vector_does_what_it_says(shared_data: Path) -> None:
    faults = []
    for vector in load(shared_data, "digest.json"):
        algorithm, body = vector["algorithm"].upper(), b64decode(vector["body_b64"])
        assert algorithm in {"SHA-256", "SHA-512"}, f"{vector['id']}: nothing checks {algorithm}"
        assert vector["expect"] in {"valid", "invalid", "source-vector-wrong"}, vector["id"]
        # RFC 9530 writes the same base64 between colons in another field; here it stands as RFC 3230 has it.
        value = f"{algorithm}={vector['expected']}"
        try:
            verify_digest(value, body)
            holds = make_digest(body, algorithm=algorithm) == value
        except (FormatError, SignatureRejected):
            holds = False
        if holds is not (vector["expect"] == "valid"):
            faults.append(f"{vector['id']}: expected {vector['expect']}")
    assert faults == []


def parameters_that_can_be_read(vector: Vector) -> str:
    """The header with what is refused in it replaced: placeholder for a signature, upper case, (created), (expires)."""
    covered = vector["expected_params"]["headers"]
    header = vector["header"].replace(covered, covered.lower().replace("(created) (expires) ", ""))
    return header.replace(vector["expected_params"]["signature"], "AAAA")


def test_every_header_vector_is_refused_as_it_stands_and_reads_as_it_says_once_mended(shared_data: Path) -> None:
    for vector in load(shared_data, "parse.json"):
        with pytest.raises(FormatError) as caught:
            parse_signature_header(vector["header"])
        assert caught.value.code == "signature.covered-names"
        parameters = parse_signature_header(parameters_that_can_be_read(vector))
        expected = vector["expected_params"]
        assert (parameters.key_id, parameters.algorithm) == (expected["keyId"], expected["algorithm"])
