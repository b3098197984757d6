"""What shell lines and template texts make of a digest or signing string: each is told, and told as what was done."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from wrong_signer import Key, Lines, joined, padded, seal_wrongly

from tppkit.seals.diagnose import Diagnosis, Outcome, diagnose_request
from tppkit.testpki import Pki


def names(diagnosis: Diagnosis) -> list[str]:
    assert (diagnosis.outcome is Outcome.EXPLAINED) is bool(diagnosis.causes)
    return [cause.name for cause in diagnosis.causes]


# How the tools of a shell print a hash in hexadecimal.
PRINTED = [
    "{}\n", "{}  -\n", "{}  body.json\n", "{} *body.json\n", "SHA2-256(body.json)= {}\n", "SHA256(body.json)= {}\n", "(stdin)= {}\n",
    "SHA256 (body.json) = {}\n",
]  # fmt: skip


@pytest.mark.parametrize("printed", PRINTED)
def test_what_a_tool_prints_in_place_of_a_hash_is_told(pki: Pki, printed: str) -> None:
    def text(body: bytes) -> str:
        return printed.format(hashlib.sha256(body).hexdigest())

    coded = seal_wrongly(pki.qseal, digest=lambda body: f"SHA-256={b64encode(text(body).encode()).decode()}")
    assert names(diagnose_request(coded)) == ["digest-base64-of-hex"]
    pasted = seal_wrongly(pki.qseal, digest=lambda body: f"SHA-256={text(body).strip()}")
    assert names(diagnose_request(pasted)) == ["digest-hex"]
    other = seal_wrongly(pki.qseal, digest=lambda body: f"SHA-256={b64encode(text(body + b'!').encode()).decode()}")
    assert names(diagnose_request(other)) == []


def test_the_line_of_openssl_as_the_whole_digest_is_told(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal, digest=lambda body: f"SHA2-256(body.json)= {hashlib.sha256(body).hexdigest()}")
    assert names(diagnose_request(message)) == ["digest-bare", "digest-hex"]


def test_the_hexadecimal_signature_of_openssl_is_told(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal, written=lambda raw: f"ECDSA-SHA2-256(stdin)= {raw.hex()}")
    assert names(diagnose_request(message)) == ["signature-hex"]


def test_a_signature_in_lines_of_base64_that_was_encoded_again_is_told(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal, written=lambda raw: b64encode(b64encode(raw) + b"\n").decode())
    assert names(diagnose_request(message)) == ["signature-base64-twice"]


HASHED = [
    "{}\n", "{}  -\n", "SHA2-256(stdin)= {}\n", "SHA256(stdin)= {}\n", "(stdin)= {}\n",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["ec", "rsa"])
@pytest.mark.parametrize("printed", HASHED)
def test_a_signature_over_what_a_tool_prints_of_the_hash_is_told(pkis: dict[str, Pki], kind: str, printed: str) -> None:
    def string(data: bytes) -> bytes:
        return printed.format(hashlib.sha256(data).hexdigest()).encode()

    assert names(diagnose_request(seal_wrongly(pkis[kind].qseal, string=string))) == ["hashed-first-as-hex"]
    other = seal_wrongly(pkis[kind].qseal, string=lambda data: string(data + b"!"))
    assert names(diagnose_request(other, max_work=60_000)) == []


@pytest.mark.parametrize("printed", ["{}", *HASHED, "SHA2-256(/tmp/in.txt)= {}\n", "SHA256(in)= {}\n"])
def test_a_hash_as_text_that_was_padded_without_being_hashed_is_told(rsa_pki: Pki, printed: str) -> None:
    def signer(key: Key, data: bytes) -> bytes:
        return padded(key, printed.format(hashlib.sha256(data).hexdigest()).encode())

    assert names(diagnose_request(seal_wrongly(rsa_pki.qseal, signer=signer))) == ["not-hashed", "hashed-first-as-hex"]
    other = seal_wrongly(rsa_pki.qseal, signer=lambda key, data: signer(key, data + b"!"))
    assert diagnose_request(other, max_work=60_000).outcome is Outcome.UNEXPLAINED


def template(blanks: str, *, before: str = "", after: str = "") -> Callable[[Lines], bytes]:
    return joined(f"\n{blanks}", before=before, after=after)


STRINGS: list[tuple[str, dict[str, Any]]] = [
    *[("lines-indented", {"assemble": template(blanks)}) for blanks in ("    ", "  ", "\t", " " * 12)],
    ("lines-indented", {"assemble": template("    ", before="    ")}),
    ("lines-indented", {"assemble": template("    ", before="\n    ", after="\n")}),
    ("lines-indented", {"assemble": template("    ", before="\n    ", after="\n  ")}),
    *[
        ("string-json", {"assemble": lambda lines, options=options: json.dumps(dict(lines), **options).encode()})
        for options in ({}, {"separators": (",", ":")}, {"indent": 2})
    ],
    ("string-json", {"assemble": lambda lines: str(dict(lines)).encode()}),
    ("string-upper-case", {"string": bytes.upper}),
    ("names-quoted", {"assemble": lambda lines: "\n".join(f'"{name}": {value}' for name, value in lines).encode()}),
    ("string-and-body", {"body": b'{"a":1}', "string": lambda data: data + b'\n{"a":1}'}),
    ("string-and-body", {"body": b'{"a":1}', "string": lambda data: data + b'{"a":1}'}),
]


@pytest.mark.parametrize("kind", ["ec", "rsa"])
@pytest.mark.parametrize(("name", "steps"), STRINGS)
def test_a_signing_string_in_another_shape_is_told(
    pkis: dict[str, Pki], kind: str, name: str, steps: dict[str, Any]
) -> None:
    assert names(diagnose_request(seal_wrongly(pkis[kind].qseal, **steps))) == [name]


def test_a_body_that_was_signed_behind_the_string_is_not_shown(pki: Pki) -> None:
    secret = b'{"pan":"S3CRET"}'
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, body=secret, string=lambda data: data + b"\n" + secret))
    assert names(diagnosis) == ["string-and-body"]
    assert "S3CRET" not in str(diagnosis.to_object())
