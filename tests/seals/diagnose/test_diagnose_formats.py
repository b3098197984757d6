"""Seals of RFC 9421 and JSON Web Signatures: what is valid is told as valid, and single mistakes by their names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tppkit._encoding import encode_base64url
from tppkit.httpsig import KeySigner, Message
from tppkit.httpsig.algorithms import key_kind
from tppkit.httpsig.components import parse_origin
from tppkit.seals import PROFILES, KeyIdForm, Seal, SealProfile, prepare_request
from tppkit.seals.diagnose import Diagnosis, Outcome, diagnose_request
from tppkit.testpki import Pki

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
JWS = PROFILES["open-finance"]
AMAZON = PROFILES["amazon"]
URI = replace(
    AMAZON,
    name="uri",
    covered=("@method", "@target-uri", "@authority", "@scheme", "content-digest"),
    digest_field="Content-Digest",
)
PARTS = replace(
    AMAZON, name="parts", covered=("@method", "@path", "@query", "content-digest"), digest_field="Content-Digest"
)
TARGET = replace(
    AMAZON, name="target", covered=("@method", "@request-target", "content-digest"), digest_field="Content-Digest"
)
REQUEST = Message(
    "POST",
    "/psd2/v1/pay%20ments?x=%2F1&b=2",
    (
        ("Host", "bank.example"), ("X-Request-ID", "7f9c24e8-3b12-4f6b-9d3a-0c1f1e9b6a55"), ("X-Amz-Access-Token", "t"),
        ("Content-Type", "application/json"),
    ),
    b'{"a":1}',
)  # fmt: skip


def sealed(
    pki: Pki, profile: SealProfile, wrong: Callable[[str], str] = lambda text: text, *, message: Message = REQUEST
) -> Message:
    """Sealed over a signing string that is changed before it is signed."""
    algorithm = next(iter(profile.algorithms_of(key_kind(pki.qseal.key)).values()))
    signer = KeySigner(pki.qseal.key, algorithm=algorithm.name)
    key_id = "client-4711" if profile.key_id.form is KeyIdForm.CLIENT_ID else None
    seal = Seal(
        pki.qseal.certificate, signer, profile=profile, key_id=key_id, origin=parse_origin("https://bank.example")
    )
    prepared = prepare_request(message, seal=seal, at=AT)
    return prepared.finish(signer.sign(wrong(prepared.signing_string.decode("latin-1")).encode("latin-1")))


def names(diagnosis: Diagnosis) -> list[str]:
    assert diagnosis.outcome is Outcome.EXPLAINED, diagnosis
    return [cause.name for cause in diagnosis.causes]


@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_a_jws_with_its_certificate_verifies_at_its_own_time(pkis: dict[str, Pki], kind: str) -> None:
    assert diagnose_request(sealed(pkis[kind], JWS), profile=JWS).outcome is Outcome.VERIFIES


@pytest.mark.parametrize("profile", [AMAZON, URI, PARTS, TARGET], ids=lambda row: row.name)
def test_an_rfc_9421_seal_verifies_where_its_host_says(pki: Pki, profile: SealProfile) -> None:
    message = sealed(pki, profile)
    known = [pki.qseal.certificate]
    assert diagnose_request(message, profile=profile, certificates=known).outcome is Outcome.VERIFIES
    origin = parse_origin("https://bank.example")
    assert diagnose_request(message, profile=profile, certificates=known, origin=origin).outcome is Outcome.VERIFIES


def replaced(old: str, new: str) -> Callable[[str], str]:
    def wrong(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return wrong


def as_rfc_3230(text: str) -> str:
    return re.sub(r"sha-256=:([^:]*):", r"SHA-256=\1", text)


@pytest.mark.parametrize(
    ("signed", "causes"), [(as_rfc_3230, ["digest-rfc-3230"]), (str, ["digest-rfc-3230", "digest-replaced"])]
)
def test_a_value_of_digest_in_content_digest_is_told(pki: Pki, signed: Callable[[str], str], causes: list[str]) -> None:
    message = sealed(pki, URI, signed)
    headers = tuple(
        (name, as_rfc_3230(value) if name == "Content-Digest" else value) for name, value in message.headers
    )
    known = [pki.qseal.certificate]
    assert names(diagnose_request(message._replace(headers=headers), profile=URI, certificates=known)) == causes


JWS_CASES = [
    ("target-without-query", replaced("?x=%2F1&b=2", "")),
    ("target-base-path-stripped", replaced(" /psd2/v1/", " /")),
    ("target-full-url", replaced(" /psd2", " https://bank.example/psd2")),
    ("target-decoded", replaced("pay%20ments", "pay ments")),
    ("target-escape-case", replaced("%2F", "%2f")),
    ("target-query-order", replaced("x=%2F1&b=2", "b=2&x=%2F1")),
    ("target-slash", replaced("ments?", "ments/?")),
    ("method-upper-case", replaced(" post ", " POST ")),
    ("method-missing", replaced("post ", "")),
    ("target-name", replaced("(request-target)", "request-target")),
    ("value-upper-case", replaced("7f9c24e8-3b12-4f6b-9d3a-0c1f1e9b6a55", "7F9C24E8-3B12-4F6B-9D3A-0C1F1E9B6A55")),
    ("names-not-lower-case", lambda text: text.replace("x-request-id", "X-Request-ID").replace("\ndigest", "\nDigest")),
    ("string-crlf", replaced("\n", "\r\n")),
    ("string-newline-before", lambda text: text.replace(".", ".\n", 1)),
    ("colon-no-space", replaced(": ", ":")),
    ("signed-body", lambda text: text.partition(".")[0] + '.{"a":1}'),
    ("jws-header-not-signed", lambda text: text.partition(".")[2]),
    ("jws-payload-encoded", lambda text: text.partition(".")[0] + "." + encode_base64url(text.partition(".")[2].encode())),
]  # fmt: skip


@pytest.mark.parametrize(("name", "wrong"), JWS_CASES, ids=lambda case: case if isinstance(case, str) else "")
def test_a_single_mistake_in_a_jws_is_named(rsa_pki: Pki, name: str, wrong: Callable[[str], str]) -> None:
    assert names(diagnose_request(sealed(rsa_pki, JWS, wrong), profile=JWS)) == [name]


@pytest.mark.parametrize("name", ["psd2-v1", "cavage-12"])
def test_a_removed_base_path_is_found_whichever_hash_the_dialect_has(pki: Pki, name: str) -> None:
    message = sealed(pki, PROFILES[name], replaced(" /psd2/", " /gateway/berlingroup/v1/psd2/"))
    assert names(diagnose_request(message, profile=PROFILES[name])) == ["target-base-path-removed"]


def test_two_mistakes_in_a_jws_are_both_named(rsa_pki: Pki) -> None:
    message = sealed(rsa_pki, JWS, lambda text: text.replace(" /psd2/v1/", " /") + "\n")
    assert set(names(diagnose_request(message, profile=JWS))) == {"target-base-path-stripped", "string-newline-after"}


def without_query(text: str) -> str:
    return text.replace("?x=%2F1&b=2", "")


COMPONENT_CASES = [
    (URI, "target-without-query", without_query),
    (URI, "target-base-path-stripped", replaced(".example/psd2/v1/", ".example/")),
    (URI, "target-decoded", replaced("pay%20ments", "pay ments")),
    (URI, "component-target-uri", replaced('target-uri": https://bank.example', 'target-uri": ')),
    (URI, "component-target-uri", replaced('target-uri": https://bank.example/', 'target-uri": https://bank.example:443/')),
    (URI, "component-authority", replaced('authority": bank.example', 'authority": bank.example:443')),
    (URI, "component-authority", replaced('authority": bank.example', 'authority": https://bank.example')),
    (URI, "component-scheme", replaced('scheme": https', 'scheme": http')),
    (URI, "component-method", replaced('method": POST', 'method": post')),
    (URI, "component-parameters", replaced('signature-params": ', 'signature-params": x-amzn-psd2=')),
    (TARGET, "component-target-of-draft", replaced('"@method": POST\n"@request-target": ', "(request-target): post ")),
    (URI, "component-names-unquoted", lambda text: "\n".join(line.replace('"', "", 2) for line in text.split("\n"))),
    (URI, "value-time-near", replaced(";created=1780315200", ";created=1780315201")),
    (URI, "header-missing", lambda text: text.rpartition("\n")[0]),
    (PARTS, "target-without-query", replaced('query": ?x=%2F1&b=2', 'query": ')),
    (PARTS, "component-query", replaced('query": ?x', 'query": x')),
    (PARTS, "component-path", replaced("pay%20ments\n", "pay%20ments?x=%2F1&b=2\n")),
    (PARTS, "target-base-path-stripped", replaced(" /psd2/v1/", " /")),
    (PARTS, "target-decoded", lambda text: text.replace("pay%20ments", "pay ments").replace("?x=%2F1", "?x=/1")),
    (PARTS, "target-query-order", replaced("?x=%2F1&b=2", "?b=2&x=%2F1")),
    (PARTS, "string-newline-after", lambda text: f"{text}\n"),
    (TARGET, "target-without-query", without_query),
    (TARGET, "component-request-target", replaced('request-target": /', 'request-target": post /')),
    (TARGET, "target-full-url", replaced('request-target": /', 'request-target": https://bank.example/')),
]  # fmt: skip


@pytest.mark.parametrize(("profile", "name", "wrong"), COMPONENT_CASES)
def test_a_single_mistake_in_a_base_of_rfc_9421_is_named(
    pki: Pki, profile: SealProfile, name: str, wrong: Callable[[str], str]
) -> None:
    diagnosis = diagnose_request(sealed(pki, profile, wrong), profile=profile, certificates=[pki.qseal.certificate])
    assert names(diagnosis) == [name]


def test_a_target_without_query_has_a_question_mark_in_rfc_9421(pki: Pki) -> None:
    message = sealed(pki, PARTS, replaced('query": ?', 'query": '), message=REQUEST._replace(target="/a"))
    assert names(diagnose_request(message, profile=PARTS, certificates=[pki.qseal.certificate])) == ["component-query"]


def test_a_header_that_was_signed_besides_is_named_in_rfc_9421(pki: Pki) -> None:
    message = sealed(pki, URI, replaced('"@signature-params"', '"content-type": application/json\n"@signature-params"'))
    assert names(diagnose_request(message, profile=URI, certificates=[pki.qseal.certificate])) == ["header-added"]


@pytest.mark.parametrize("profile", [JWS, URI], ids=lambda row: row.name)
def test_a_digest_that_was_replaced_after_signing_is_told_so(pki: Pki, profile: SealProfile) -> None:
    other = sealed(pki, profile, message=REQUEST._replace(body=b"else"))
    foreign = {n: v for n, v in other.headers if n.lower() == profile.digest_name}
    message = sealed(pki, profile)
    message = message._replace(headers=tuple((n, foreign.get(n, v)) for n, v in message.headers))
    assert names(diagnose_request(message, profile=profile, certificates=[pki.qseal.certificate])) == [
        "digest-replaced"
    ]


def test_an_rfc_9421_seal_of_plain_http_verifies_by_its_host(pki: Pki) -> None:
    signer = KeySigner(pki.qseal.key, algorithm="ecdsa-p256-sha256")
    origin = parse_origin("http://bank.example:8080")
    seal = Seal(pki.qseal.certificate, signer, profile=URI, key_id="client-4711", origin=origin)
    message = REQUEST._replace(headers=(("Host", "bank.example:8080"), *REQUEST.headers[1:]))
    prepared = prepare_request(message, seal=seal, at=AT)
    message = prepared.finish(signer.sign(prepared.signing_string))
    assert diagnose_request(message, profile=URI, certificates=[pki.qseal.certificate]).outcome is Outcome.VERIFIES
