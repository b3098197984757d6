"""What a diagnosis names beyond the rows: keys, certificates, dialects, the parsers' findings; and what it leaves unexplained."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from wrong_signer import BODY, BY_NAME, CERTIFICATE, HEADERS, NEEDED, form, joined, renamed, seal_wrongly

from tppkit._encoding import decode_base64url, encode_base64, encode_base64url
from tppkit.certificates import EidasCertificate
from tppkit.httpsig import KeySigner, make_digest
from tppkit.httpsig.algorithms import key_kind
from tppkit.httpsig.components import parse_origin
from tppkit.message import Message
from tppkit.seals import PROFILES, Format, KeyIdForm, Seal, SealProfile, prepare_request
from tppkit.seals.certificate_header import CertificateForm, write_certificate
from tppkit.seals.diagnose import Diagnosis, DiagnosisOutcome, diagnose_request
from tppkit.seals.profiles import PSD2_V1
from tppkit.testpki import Pki, certificate_pem

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
QUICK = 60_000  # work; what no known mistake explains is searched for no longer
JWS, AMAZON = PROFILES["open-finance"], PROFILES["amazon"]
URI = replace(
    AMAZON,
    name="uri",
    covered=("@method", "@target-uri", "@authority", "content-digest"),
    digest_field="Content-Digest",
)
PARTS = replace(
    AMAZON, name="parts", covered=("@method", "@path", "@query", "content-digest"), digest_field="Content-Digest"
)
REQUEST = Message(
    "POST",
    "/psd2/v1/pay%20ments?x=%2F1&b=2",
    (
        ("Host", "bank.example"), ("X-Request-ID", "7f9c24e8-3b12-4f6b-9d3a-0c1f1e9b6a55"), ("TPP-Request-ID", "4711"),
        ("X-ING-ReqID", "4711"), ("X-Amz-Access-Token", "t"), ("Date", "Mon, 01 Jun 2026 12:00:00 GMT"),
        ("Content-Type", "application/json"),
    ),
    b'{"a":1}',
)  # fmt: skip


def names(diagnosis: Diagnosis) -> list[str]:
    return [cause.name for cause in diagnosis.causes]


def explained(diagnosis: Diagnosis) -> list[str]:
    assert diagnosis.outcome is DiagnosisOutcome.EXPLAINED, diagnosis
    return names(diagnosis)


def sealed(pki: Pki, profile: SealProfile, wrong: Callable[[str], str] = str, *, message: Message = REQUEST) -> Message:
    """Sealed in a dialect over a signing string that is changed before it is signed."""
    algorithm = next(iter(profile.algorithms_of(key_kind(pki.qseal.key)).values()))
    signer = KeySigner(pki.qseal.key, algorithm=algorithm.name)
    texts = {KeyIdForm.CLIENT_ID: "client-4711", KeyIdForm.URL: "https://tpp.example/seal.pem"}
    origin = parse_origin("https://bank.example")
    seal = Seal(pki.qseal.certificate, signer, profile=profile, key_id=texts.get(profile.key_id.form), origin=origin)
    prepared = prepare_request(message, seal=seal, at=AT)
    return prepared.finish(signer.sign(wrong(prepared.signing_string.decode("latin-1")).encode("latin-1")))


# ---- keys


@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_the_key_of_the_qwac_is_named(pkis, kind):
    own = pkis[kind]
    message = seal_wrongly(own.qseal, key=own.qwac.key)
    assert explained(diagnose_request(message, certificates=[own.qwac.certificate])) == ["key-of-qwac"]
    unknown = diagnose_request(message, max_work=QUICK)
    assert (unknown.outcome, names(unknown), unknown.signed) == (DiagnosisOutcome.UNEXPLAINED, [], None)
    assert "--qwac" in unknown.advice[0]


def test_a_certificate_that_is_for_no_seal_is_named(pki):
    assert explained(diagnose_request(seal_wrongly(pki.qwac))) == ["certificate-not-seal"]


def test_where_the_qwacs_key_does_not_fit_either_other_certificates_are_requested(pki, other_qseal):
    message = seal_wrongly(pki.qseal, key=other_qseal.key)
    unknown = diagnose_request(message, qwac=pki.qwac.certificate, max_work=QUICK)
    assert (unknown.outcome, names(unknown)) == (DiagnosisOutcome.UNEXPLAINED, [])
    assert "--cert" in unknown.advice[0]
    assert explained(diagnose_request(message, certificates=[other_qseal.certificate])) == ["key-of-other"]


def test_a_qwac_that_was_given_is_not_mistaken_for_a_missing_seal_certificate(pki):
    message = seal_wrongly(pki.qseal, key=pki.qwac.key, covered=NEEDED, finish=renamed(CERTIFICATE, ""))
    alone = diagnose_request(message, qwac=pki.qwac.certificate)
    assert (alone.outcome, names(alone)) == (DiagnosisOutcome.UNEXPLAINED, ["certificate-missing"])
    both = diagnose_request(message, qwac=pki.qwac.certificate, certificates=[pki.qseal.certificate])
    assert explained(both) == ["certificate-missing", "key-of-qwac"]


def test_the_recovered_hash_is_given_if_the_text_is_not_found(rsa_pki):
    text = b"something that no mistake leads to"
    diagnosis = diagnose_request(seal_wrongly(rsa_pki.qseal, string=lambda data: text), max_work=QUICK)
    assert (diagnosis.outcome, names(diagnosis), diagnosis.made) == (
        DiagnosisOutcome.UNEXPLAINED,
        [],
        "PKCS#1, SHA-256",
    )
    assert diagnosis.recovered_hash == hashlib.sha256(text).hexdigest()
    assert any(diagnosis.recovered_hash in advice for advice in diagnosis.advice)
    assert not any("QWAC" in advice for advice in diagnosis.advice)


# ---- certificates


FORMS: dict[str, Callable[[EidasCertificate, str], str]] = {
    "PEM": lambda own, pem: write_certificate(own, CertificateForm.PEM),
    "base64 of PEM": lambda own, pem: write_certificate(own, CertificateForm.BASE64_PEM),
    "doubly encoded": lambda own, pem: b64encode(encode_base64(own.der).encode()).decode(),
    "percent-encoded": lambda own, pem: quote(pem),
    "line breaks": lambda own, pem: pem.replace("\n", "\\n"),
    "quotes": lambda own, pem: f'"{encode_base64(own.der)}"',
    "colons": lambda own, pem: f":{encode_base64(own.der)}:",
    "other alphabet": lambda own, pem: urlsafe_b64encode(own.der).decode().rstrip("="),
    "percent-encoded twice": lambda own, pem: quote(quote(pem)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_certificate_in_another_form_is_read_and_named(pki, form):
    text = FORMS[form](pki.qseal.certificate, certificate_pem(pki.qseal.certificate).decode())
    change = renamed(CERTIFICATE, CERTIFICATE, lambda _: text)
    message = seal_wrongly(pki.qseal, covered=NEEDED, finish=change)
    assert explained(diagnose_request(message)) == ["certificate-form"]


def test_the_seal_is_found_in_a_chain_and_one_certificate_is_not_called_one(pki):
    chain = (pki.qseal_ca.certificate, pki.qseal.certificate)
    in_der = ", ".join(encode_base64(one.der) for one in chain)
    for text in (in_der, b64encode(b"".join(certificate_pem(one) for one in chain)).decode()):
        change = renamed(CERTIFICATE, CERTIFICATE, lambda _, text=text: text)
        assert explained(diagnose_request(seal_wrongly(pki.qseal, covered=NEEDED, finish=change))) == [
            "certificate-form"
        ]
    escaped = quote(certificate_pem(pki.qseal.certificate).decode(), safe="")
    finish = renamed(CERTIFICATE, CERTIFICATE, lambda text: escaped)
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, covered=NEEDED, finish=finish))
    assert diagnosis.causes[0].evidence == ("it is PEM, percent-encoded; the dialect has base64 of DER",)


def test_a_text_that_is_not_a_certificate_is_named_and_the_given_one_used(pki):
    for text in ("MIIB-_x", "MIIBx,MIIBy", "%%%", "A" * 20_000):
        message = seal_wrongly(
            pki.qseal, covered=NEEDED, finish=renamed(CERTIFICATE, CERTIFICATE, lambda _, text=text: text)
        )
        diagnosis = diagnose_request(message, certificates=[pki.qseal.certificate])
        assert explained(diagnosis) == ["certificate-form"]
        assert "holds no certificate" in diagnosis.causes[0].evidence[0]
        alone = diagnose_request(message)
        assert (alone.outcome, "--cert" in alone.advice[0]) == (DiagnosisOutcome.UNEXPLAINED, True)


# ---- the verifier's own refusals


BG, RABOBANK = PROFILES["berlin-group"], PROFILES["rabobank"]
TUESDAY = tuple((name, value.replace("Mon,", "Tue,") if name == "Date" else value) for name, value in HEADERS)
# (what was done besides, the code of the refusal, the dialect)
REFUSALS: list[tuple[dict[str, Any], str, SealProfile]] = [
    ({"key_id": "SN=1,CA=CN=Another CA"}, "key-id.mismatch", PSD2_V1), ({"key_id": "my-seal"}, "key-id.malformed", PSD2_V1),
    ({"algorithm": "SHA256withSOMETHING"}, "signature.algorithm", PSD2_V1), ({}, "signature.other-coverage", BG),
    ({"covered": ("date", *NEEDED[:2], "tpp-redirect-uri")}, "digest.algorithm", RABOBANK),
    ({"covered": NEEDED[1:], "finish": renamed("Digest", "")}, "signature.missing", PSD2_V1),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "code", "profile"), REFUSALS, ids=[code for _, code, _ in REFUSALS])
def test_what_no_row_names_is_reported_by_the_verifiers_refusal(pki, steps, code, profile):
    message = seal_wrongly(pki.qseal, **steps, assemble=joined("\r\n"))
    assert explained(diagnose_request(message, profile=profile)) == ["string-crlf", code]


@pytest.mark.parametrize("code", ["header.date", "seal.other-organisation"])
def test_what_is_refused_after_the_signature_is_reported_once_that_is_right(pki, other_qseal, code):
    steps, issued = ({"headers": TUESDAY}, pki.qseal) if code == "header.date" else ({}, other_qseal)
    for more, causes in (({"assemble": joined("\r\n")}, ["string-crlf"]), ({}, [code])):
        message = seal_wrongly(issued, **steps, **more)
        assert explained(diagnose_request(message, qwac=pki.qwac.certificate)) == causes


UNREADABLE: list[tuple[dict[str, Any], str]] = [
    (form('keyId="{key_id}",algorithm="{algorithm}",keyId="2"'), "signature.duplicate-parameter"),
    ({"finish": renamed("X-Words", "")}, "signature.header-absent"),
    ({"finish": lambda message: message._replace(method="post")}, "message.malformed"),
]


@pytest.mark.parametrize(("steps", "code"), UNREADABLE, ids=[code for _, code in UNREADABLE])
def test_a_seal_that_cannot_be_read_is_reported_by_the_verifiers_refusal(pki, steps, code):
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, **steps))
    assert (diagnosis.outcome, names(diagnosis)) == (DiagnosisOutcome.UNEXPLAINED, [code])
    assert "until the signature can be read" in diagnosis.advice[0]


@pytest.mark.parametrize(
    ("name", "outcome"), [("X-Request-ID", DiagnosisOutcome.UNEXPLAINED), (CERTIFICATE, DiagnosisOutcome.EXPLAINED)]
)
def test_a_header_that_appears_twice_is_refused(pki, name, outcome):
    message = seal_wrongly(pki.qseal, covered=NEEDED).with_headers((name, "another"))
    diagnosis = diagnose_request(message, max_work=QUICK)
    assert (diagnosis.outcome, names(diagnosis)) == (outcome, ["header.duplicate"])


def test_a_whole_address_in_the_start_line_or_another_base_path_is_not_explained_by_a_path_that_was_never_used(
    pki, rsa_pki
):
    absolute = "https://api.bank.example/a?x"
    assert diagnose_request(seal_wrongly(pki.qseal, target=absolute)).outcome is DiagnosisOutcome.VERIFIES
    other = [
        seal_wrongly(rsa_pki.qseal, target=path, signed_target=lambda value: value.replace("v2", "v1"))
        for path in ("/v2/payments", "/psd2/v2/payments")
    ]
    for message in (seal_wrongly(pki.qseal, target="/a?x")._replace(target=absolute), *other):
        diagnosis = diagnose_request(message, max_work=QUICK)
        assert (diagnosis.outcome, names(diagnosis)) == (DiagnosisOutcome.UNEXPLAINED, [])
        assert message.target == absolute or not any(".." in text for text in diagnosis.advice)


def test_an_old_seal_is_refused_for_its_age_only_if_a_time_is_given(rsa_pki):
    message, profile = sealed(rsa_pki, PROFILES["bng"]), PROFILES["bng"]
    assert diagnose_request(message, profile=profile).outcome is DiagnosisOutcome.VERIFIES
    later = diagnose_request(message, profile=profile, at=datetime(2026, 7, 1, tzinfo=UTC))
    assert explained(later) == ["signature.expired"]


def test_another_length_than_the_bodys_is_noted(pki):
    for field in (("Content-Length", "9"), ("Transfer-Encoding", "chunked")):
        valid = diagnose_request(seal_wrongly(pki.qseal, headers=(*HEADERS, field)))
        assert (valid.outcome, field[0] in valid.notes[0]) == (DiagnosisOutcome.VERIFIES, True)


# ---- dialects and formats


@pytest.mark.parametrize("name", PROFILES)
def test_a_request_verifies_in_its_own_dialect_and_is_named_in_another(rsa_pki, name):
    message, known = sealed(rsa_pki, PROFILES[name]), [rsa_pki.qseal.certificate]
    assert (
        diagnose_request(message, certificates=known, profile=PROFILES[name], at=AT).outcome
        is DiagnosisOutcome.VERIFIES
    )
    if name != PSD2_V1.name:
        diagnosis = diagnose_request(message, certificates=known, at=AT)
        assert explained(diagnosis) == ["other-dialect"]
        assert name in diagnosis.causes[0].evidence[0]


WRONG: list[tuple[str, Callable[[str], str]]] = [
    ("target-without-query", lambda text: text.replace("?x=%2F1&b=2", "")),
    ("target-base-path-stripped", lambda text: text.replace("/psd2/v1/", "/")),
    ("target-decoded", lambda text: text.replace("pay%20ments", "pay ments").replace("?x=%2F1&b=2", "?x=/1&b=2")),
    ("string-crlf", lambda text: text.replace("\n", "\r\n")),
    ("string-newline-after", lambda text: f"{text}\n"),
    ("colon-no-space", lambda text: text.replace(": ", ":")),
]


@pytest.mark.parametrize("profile", [JWS, URI, PARTS], ids=lambda row: row.name)
@pytest.mark.parametrize(("name", "wrong"), WRONG, ids=[name for name, _ in WRONG])
def test_a_mistake_in_the_signing_string_of_another_format_is_named(rsa_pki, profile, name, wrong):
    message = sealed(rsa_pki, profile, wrong)
    assert explained(diagnose_request(message, profile=profile, certificates=[rsa_pki.qseal.certificate])) == [name]


def test_a_mistake_that_no_row_names_is_not_named_as_another(pki):
    bare = sealed(pki, PARTS, lambda text: text.replace('query": ?', 'query": '), message=REQUEST._replace(target="/a"))
    port = sealed(pki, URI, lambda text: text.replace("bank.example/", "bank.example:443/"))
    for message, profile in ((bare, PARTS), (port, URI)):
        diagnosis = diagnose_request(message, profile=profile, certificates=[pki.qseal.certificate], max_work=QUICK)
        assert (diagnosis.outcome, names(diagnosis)) == (DiagnosisOutcome.UNEXPLAINED, [])
    template = 'keyId="{key_id}",algorithm="{algorithm}",signature="{signature}"'
    message = seal_wrongly(pki.qseal, covered=NEEDED, template=template)
    diagnosis = diagnose_request(message, max_work=QUICK)
    assert (diagnosis.outcome, names(diagnosis)) == (DiagnosisOutcome.UNEXPLAINED, ["parameter-missing"])


@pytest.mark.parametrize(
    "profile", [row for row in PROFILES.values() if row.format is not Format.CAVAGE], ids=lambda row: row.name
)
def test_a_changed_body_and_a_replaced_digest_of_another_format_are_named(rsa_pki, profile):
    known, message = [rsa_pki.qseal.certificate], sealed(rsa_pki, profile)
    longer = diagnose_request(message._replace(body=message.body + b"\n"), certificates=known, profile=profile, at=AT)
    assert explained(longer) == ["body-newline-dropped"]
    if profile.covers_body:
        other = message._replace(body=b"else")
        assert names(diagnose_request(other, certificates=known, profile=profile, at=AT)) == []
        return
    foreign = dict(sealed(rsa_pki, profile, message=REQUEST._replace(body=b"else")).headers)[profile.digest_field]
    finish = renamed(profile.digest_field, profile.digest_field, lambda value: foreign)
    assert explained(diagnose_request(finish(message), certificates=known, profile=profile)) == ["digest-replaced"]


def jws_with(message: Message, **changes: object) -> Message:
    def write(value: str) -> str:
        encoded, _, signature = value.partition("..")
        header = json.loads(decode_base64url(encoded, what="it")) | changes
        return f"{encode_base64url(json.dumps(header).encode())}..{signature}"

    return renamed(JWS.carrier, JWS.carrier, write)(message)


def test_a_json_web_signature_reports_what_its_parser_refuses(rsa_pki):
    message = sealed(rsa_pki, JWS)
    for known in ([], [rsa_pki.qseal.certificate]):
        for changes, code in (
            ({"b64": True}, "jws.encoded-payload"), ({"jwk": {}}, "jws.offered-key"), ({"crit": []}, "jws.critical"),
        ):  # fmt: skip
            refused = diagnose_request(jws_with(message, **changes), profile=JWS, certificates=known)
            assert (refused.outcome, names(refused)) == (DiagnosisOutcome.UNEXPLAINED, [code])
        attached = renamed(JWS.carrier, JWS.carrier, lambda value: value.replace("..", ".e30."))(message)
        assert names(diagnose_request(attached, profile=JWS, certificates=known)) == ["jws.attached"]
    assert explained(diagnose_request(renamed(JWS.carrier, "")(message), profile=JWS)) == ["signature-missing"]
    without_x5c = sealed(rsa_pki, replace(JWS, sends_x5c=False))
    assert explained(diagnose_request(without_x5c, profile=JWS, certificates=known)) == ["signature.missing"]


def test_rfc_9421_reports_what_its_parser_finds(pki):
    for write, code in (
        (lambda value: value.replace("=(", "(", 1), "structured.malformed"),
        (lambda value: value.replace('"content-digest"', '"x-absent"'), "signature.header-absent"),
        (lambda value: value.replace("x-amzn-psd2", "other"), "signature.label"),
    ):
        message = renamed("Signature-Input", "Signature-Input", write)(sealed(pki, URI))
        diagnosis = diagnose_request(message, profile=URI, certificates=[pki.qseal.certificate])
        assert (diagnosis.outcome, [name[:11] for name in names(diagnosis)]) == (
            DiagnosisOutcome.UNEXPLAINED,
            [code[:11]],
        )


# ---- what stays unexplained


def test_a_body_or_digest_that_no_known_mistake_leads_to_is_not_explained(pki):
    message = seal_wrongly(pki.qseal)
    diagnosis = diagnose_request(message._replace(body=message.body.replace(b"12.50", b"99.50")))
    assert (diagnosis.outcome, names(diagnosis)) == (DiagnosisOutcome.UNEXPLAINED, [])
    assert any(text.startswith("the signature") for text in diagnosis.excluded)
    assert any("proxy that rewrites bodies" in text for text in diagnosis.advice)
    wrong = {"string": lambda data: data[::-1]}
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, **wrong, **BY_NAME["json-python"].steps), max_work=QUICK)
    assert (diagnosis.outcome, names(diagnosis)) == (DiagnosisOutcome.UNEXPLAINED, ["json-python"])
    body = diagnose_request(seal_wrongly(pki.qseal, hashed=lambda body: b"else", assemble=joined("\r\n")))
    assert (body.outcome, names(body)) == (DiagnosisOutcome.UNEXPLAINED, ["string-crlf"])
    right = diagnose_request(seal_wrongly(pki.qseal, **wrong), max_work=QUICK)
    assert any("its digest is" in text for text in right.excluded)


def test_the_algorithms_of_a_digest_are_explained_by_the_same_bytes(pki):
    def both(first: bytes, second: bytes) -> Diagnosis:
        digest = f"{make_digest(first)},{make_digest(second, algorithm='SHA-512')}"
        return diagnose_request(seal_wrongly(pki.qseal, digest=lambda body: digest))

    longer = BODY + b"\n"
    assert explained(both(longer, longer)) == ["body-newline-added"]
    assert both(BODY, b"else").outcome is DiagnosisOutcome.UNEXPLAINED


def test_the_first_difference_and_white_space_are_shown(pki):
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, assemble=joined("\r\n")))
    shown = diagnosis.to_object()
    assert diagnosis.expected is not None
    assert diagnosis.first_difference == diagnosis.expected.index(b"\n")
    assert "␍␊\n" in shown["signed_string"]
    assert "digest:·SHA-256=" in shown["signing_string"]
    assert shown["causes"][0].keys() == {"name", "part", "cause", "evidence", "mend"}
