"""Published vectors: what the right ones sign is found; the wrong ones are explained only where that can be proven."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_public_key
from cryptography.x509.oid import NameOID

from tppkit.certificates import EidasCertificate
from tppkit.message import Message
from tppkit.seals.diagnose import Diagnosis, DiagnosisOutcome, diagnose_request
from tppkit.seals.diagnose.bodies import explain_digest
from tppkit.seals.profiles import PSD2_V1

pytestmark = [pytest.mark.shared, pytest.mark.slow]

# The drafts' requests carry no certificate and cover what they like.
BARE = replace(PSD2_V1, name="bare", certificate_header=None)
AT = datetime(2026, 6, 1, tzinfo=UTC)
ISSUER = ec.derive_private_key(1234567, ec.SECP256R1())


def vectors(shared_data: Path, name: str) -> list[dict[str, Any]]:
    rows = json.loads((shared_data / "vectors" / name).read_text("utf-8"))
    assert rows
    return rows


def certificate_of(vector: dict[str, Any]) -> EidasCertificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "vector")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(1)
    builder = builder.not_valid_before(AT).not_valid_after(AT + timedelta(days=1))
    key: Any = load_pem_public_key(vector["keys"]["public_pem"].encode())
    return EidasCertificate.from_der(builder.public_key(key).sign(ISSUER, SHA256()).public_bytes(Encoding.DER))


def diagnosed(vector: dict[str, Any]) -> Diagnosis:
    request, value = vector["request"], vector["signature_header"]
    for prefix in ("Authorization: ", "Signature: ", "Signature "):
        value = value.removeprefix(prefix)
    headers = (*[tuple(header) for header in request["headers"]], ("Signature", value))
    message = Message(request["method"], request["target"], headers, (request["body"] or "").encode())
    return diagnose_request(message, certificates=[certificate_of(vector)], profile=BARE)


@pytest.mark.parametrize("prefix", ["cavage10-c-", "cavage12-c-default", "cavage12-c-basic"])
def test_the_signing_strings_of_the_drafts_are_found_to_be_signed(shared_data, prefix):
    for vector in vectors(shared_data, "cavage.json"):
        if vector["id"].startswith(prefix):
            diagnosis = diagnosed(vector)
            assert diagnosis.signed == vector["expected_signing_string"].encode()
            assert not {cause.part.value for cause in diagnosis.causes} & {"signing string", "signature", "body"}


def test_a_digest_with_padding_too_much_and_the_old_signatures_of_draft_12_are_explained(shared_data):
    found = [diagnosed(row) for row in vectors(shared_data, "cavage.json") if row["id"] == "cavage12-c-all-signature"]
    assert [("time-not-allowed" in [cause.name for cause in one.causes], one.outcome) for one in found] == [
        (True, DiagnosisOutcome.EXPLAINED)
    ]
    (row,) = (row for row in vectors(shared_data, "digest.json") if row["id"] == "rfc9530-bad-padding")
    finding = explain_digest(f"SHA-256={row['expected']}", b64decode(row["body_b64"]))
    assert finding is not None
    assert finding.mistakes == ("digest-wrong-padding",)


@pytest.mark.parametrize("name", ["ccg-rsa-signed", "ccg-ed25519-signed", "ccg-p256-signed", "ccg-ecdsa-signed"])
def test_vectors_over_an_unknown_text_are_not_explained(shared_data, name):
    (vector,) = (row for row in vectors(shared_data, "cavage.json") if row["id"] == name)
    diagnosis = diagnosed(vector)
    assert (diagnosis.outcome, diagnosis.signed) == (DiagnosisOutcome.UNEXPLAINED, None)
