"""Seals of banks' answers: what they prove, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import http_message_signatures as other
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sealing import AT, REQUEST, REQUEST_ID, flips

from refusals import refused
from tppkit._clock import utc_now
from tppkit.errors import CertificateRejected, ConfigurationError, FormatError, LocalProtocolError, SignatureRejected
from tppkit.httpsig import KeySigner
from tppkit.httpsig.components import component_of
from tppkit.httpsig.digest import make_content_digest
from tppkit.httpsig.rfc9421 import answer_values, make_signature_base, make_signature_fields, make_signature_input
from tppkit.seals import (
    ANSWER_PROFILES,
    PROFILES,
    Answer,
    EmptyBody,
    Message,
    Seal,
    SealPolicy,
    VerifiedAnswer,
    prepare_answer,
    sign_answer,
    sign_answer_async,
    sign_request,
    verify_answer,
)
from tppkit.testpki import Issued, Pki, make_provider
from tppkit.trust import PathVerifier, make_anchors

ANSWER = Answer(
    201, (("Content-Type", "application/json"), ("X-Request-ID", REQUEST_ID)), b'{"transactionStatus":"RCVD"}'
)
NAMES = ("rfc9421", "cavage")
FORMS = pytest.mark.parametrize("name", NAMES)
REFUSALS = (FormatError, SignatureRejected, CertificateRejected)
BANK = make_provider(organization_identifier="PSDLT-BL-112233", name="Bank TEST", roles=["PSP_AS"])


@pytest.fixture(scope="module")
def bank(pki: Pki) -> Issued:
    assert pki.bank_seal is not None
    return pki.bank_seal


@pytest.fixture(scope="module")
def sealed_request(pki: Pki) -> Message:
    return sign_request(REQUEST, seal=Seal(pki.qseal.certificate, KeySigner(pki.qseal.key)))


def seal_in(name: str, issued: Issued, **options: Any) -> Seal:
    return Seal.for_key(issued.certificate, issued.key, profile=ANSWER_PROFILES[name], **options)


@pytest.fixture
def verify(pki: Pki, sealed_request: Message) -> Callable[..., VerifiedAnswer]:
    policies = {n: SealPolicy(PathVerifier(make_anchors(pki.authorities)), profile=ANSWER_PROFILES[n]) for n in NAMES}

    def verified(name: str, answer: Answer, *, request: Message = sealed_request, at: Any = AT) -> VerifiedAnswer:
        return verify_answer(answer, request=request, policy=policies[name], at=at)

    return verified


@pytest.fixture
def sign(bank: Issued, sealed_request: Message) -> Callable[..., Answer]:
    def signed(
        name: str, answer: Answer = ANSWER, *, request: Message = sealed_request, by: Issued = bank, at: Any = AT
    ) -> Answer:
        return sign_answer(answer, request=request, seal=seal_in(name, by), at=at)

    return signed


def changed(answer: Answer, name: str, value: str | None) -> Answer:
    """The answer with another value in a header, or without it."""
    fields = [(field, old if field.lower() != name.lower() else value) for field, old in answer.headers]
    return answer._replace(headers=tuple((field, new) for field, new in fields if new is not None))


@FORMS
def test_a_sealed_answer_proves_what_it_says(name, sign, verify, bank, sealed_request):
    for _ in range(2):  # the second time from memory
        verified = verify(name, sign(name))
    assert (verified.body, verified.request) == (ANSWER.body, sealed_request)
    assert verified.organization_identifier == "PSDLT-BL-LB900000"
    assert verified.seal == bank.certificate == verified.chain[0]
    assert (verified.covers_status, verified.covers_target) == ((True, True) if name == "rfc9421" else (False, False))
    covered = {"rfc9421": {"content-digest", "content-type"}, "cavage": {"digest", "x-request-id", "date"}}
    assert verified.covered.keys() == covered[name]


@FORMS
def test_signing_elsewhere_and_with_await_gives_the_same_seal(name, bank, sealed_request, verify):
    seal = seal_in(name, bank, verify_own=True)
    prepared = prepare_answer(ANSWER, request=sealed_request, seal=seal, at=AT)
    for sealed in (
        prepared.finish(seal.sign(prepared.signing_string)),
        asyncio.run(sign_answer_async(ANSWER, request=sealed_request, seal=seal, at=AT)),
    ):
        assert verify(name, sealed).signing_string == prepared.signing_string
    with refused(ConfigurationError, "seal.own-signature"):
        prepared.finish(seal.sign(b"else"))


CHANGES: tuple[tuple[str, dict[str, str], Callable[[Answer], Answer]], ...] = (
    ("unsealed", dict.fromkeys(NAMES, "signature.missing"), lambda _: ANSWER),
    ("status", {"rfc9421": "signature.invalid", "cavage": "holds"}, lambda a: a._replace(status=200)),
    ("body", dict.fromkeys(NAMES, "digest.mismatch"), lambda a: a._replace(body=b"{}")),
    ("no body", dict.fromkeys(NAMES, "digest.mismatch"), lambda a: a._replace(body=b"")),
    ("type", {"rfc9421": "signature.invalid", "cavage": "holds"}, lambda a: changed(a, "content-type", "text/html")),
    ("no type", {"rfc9421": "signature.header-absent", "cavage": "holds"}, lambda a: changed(a, "content-type", None)),
    ("location", {"rfc9421": "signature.uncovered", "cavage": "holds"}, lambda a: a.with_headers(("Location", "/x"))),
    ("id", {"rfc9421": "holds", "cavage": "signature.invalid"}, lambda a: changed(a, "x-request-id", "another")),
    ("two types", {"rfc9421": "header.duplicate", "cavage": "header.duplicate"}, lambda a: a.with_headers(("content-type", "x"))),
    ("two dates", {"rfc9421": "holds", "cavage": "header.duplicate"}, lambda a: a.with_headers(("Date", "x"), ("date", "y"))),
    ("two digests", dict.fromkeys(NAMES, "header.duplicate"),
     lambda a: a.with_headers(*((n, v) for n, v in a.headers if n.lower().endswith("digest")))),
    ("two certificates", dict.fromkeys(NAMES, "header.duplicate"), lambda a: a.with_headers(("aspsp-signature-certificate", "x"))),
    ("two signatures", {"rfc9421": "structured.duplicate", "cavage": "header.duplicate"},
     lambda a: a.with_headers(*((n, v) for n, v in a.headers if n == "Signature"))),
    ("no certificate", dict.fromkeys(NAMES, "signature.missing"), lambda a: changed(a, "aspsp-signature-certificate", None)),
    ("no signature", dict.fromkeys(NAMES, "signature.missing"), lambda a: changed(a, "signature", None)),
    ("other form", {"rfc9421": "structured.malformed", "cavage": "signature.malformed"}, lambda a: changed(a, "signature", "?")),
)  # fmt: skip


@FORMS
@pytest.mark.parametrize(("codes", "change"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_a_changed_answer_is_refused(name, codes, change, sign, verify):
    answer, code = change(sign(name)), codes[name]
    if code == "holds":
        verify(name, answer)
        return
    with refused(REFUSALS, code):
        verify(name, answer)


@FORMS
def test_an_answer_to_another_request_is_refused(name, sign, verify, sealed_request, pki):
    answer = sign(name)
    other_id = REQUEST._replace(headers=(("X-Request-ID", "0" + REQUEST_ID[1:]), *REQUEST.headers[1:]))
    again = sign_request(REQUEST, seal=Seal(pki.qseal.certificate, KeySigner(pki.qseal.key)))  # ECDSA signs differently
    expected = {"rfc9421": "signature.invalid", "cavage": "answer.request-id"}[name]
    with refused(REFUSALS, expected):
        verify(name, answer, request=other_id.with_headers(*sealed_request.headers[3:]))
    for request in (
        again, sealed_request._replace(method="PUT"), sealed_request._replace(target="/psd2/v1/payments?x=1"),
        sealed_request._replace(target=REQUEST.target.partition("?")[0]),
    ):  # fmt: skip
        if name == "cavage":  # it does not prove them
            verify(name, answer, request=request)
        else:
            with refused(REFUSALS, "signature.invalid", row=request.target):
                verify(name, answer, request=request)


@FORMS
def test_an_answer_of_another_time_is_refused(name, sign, verify):
    for seconds, code in ((-700, "signature.created"), (700, "signature.expired")):
        with refused(REFUSALS, code):
            verify(name, sign(name), at=AT + timedelta(seconds=seconds))
    verify(name, sign(name), at=AT + timedelta(seconds=290))


@FORMS
def test_only_a_bank_of_the_anchors_can_seal_an_answer(name, sign, verify, pki, rsa_pki):
    with refused(REFUSALS, "role.missing"):
        verify(name, sign(name, by=pki.qseal))
    stranger = rsa_pki.issue_qseal(BANK, label="stranger")
    with refused(REFUSALS, "trust.no-path"):
        verify(name, sign(name, by=stranger))
    both = make_provider(organization_identifier="PSDLT-BL-112233", name="Bank TEST", roles=["PSP_AS", "PSP_PI"])
    verify(name, sign(name, by=pki.issue_qseal(both, label="both")))


@FORMS
def test_a_request_without_a_seal_has_a_sealed_answer_too(name, sign, verify):
    bare = Message("GET", "/psd2/v1/accounts", (("X-Request-ID", REQUEST_ID),))
    verified = verify(name, sign(name, request=bare), request=bare)
    assert not any(covered.startswith("signature") for covered in verified.parameters.headers)


@FORMS
@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("DELETE", 204), ("GET", 304)])
def test_what_is_not_sent_is_not_signed(name, method, status, sign, verify):
    request = Message(method, "/psd2/v1/accounts", (("X-Request-ID", REQUEST_ID),))
    sealed = sign(name, ANSWER._replace(status=status), request=request)
    verify(name, sealed._replace(body=b""), request=request)


def test_cavage_writes_date_and_request_id_if_they_are_absent(sign, verify):
    sealed = sign("cavage", Answer(200, (), b"{}"))
    assert sealed.values("x-request-id") == (REQUEST_ID,)
    assert sealed.values("date") == ("Mon, 01 Jun 2026 12:00:00 GMT",)
    own = Answer(200, (("Date", "Mon, 01 Jun 2026 12:00:09 GMT"),), b"{}")
    assert verify("cavage", sign("cavage", own)).covered["date"] == "Mon, 01 Jun 2026 12:00:09 GMT"


def test_what_cannot_be_signed_is_refused(sign, bank, pki, sealed_request):
    for name, answer, request, code in (
        ("rfc9421", ANSWER.with_headers(("Content-Digest", "x")), sealed_request, "seal.header-present"),
        ("rfc9421", ANSWER.with_headers(("content-type", "x")), sealed_request, "seal.header-present"),
        ("rfc9421", ANSWER.with_headers(("Location", "/\r\nx")), sealed_request, "header.control-character"),
        ("rfc9421", ANSWER.with_headers(("X-Other", "a\nSet-Cookie: b")), sealed_request, "header.control-character"),
        *(
            (name, answer, sealed_request, "message.malformed")
            for name in NAMES
            for answer in (ANSWER._replace(body="text"), *(ANSWER._replace(status=one) for one in (0, 99, 600, "200")))
        ),
        ("rfc9421", ANSWER, sealed_request._replace(target="*"), "signature.unsupported-component"),
        ("cavage", ANSWER.with_headers(("Date", "x"), ("date", "y")), sealed_request, "seal.header-present"),
        ("cavage", changed(ANSWER, "x-request-id", "another"), sealed_request, "answer.request-id"),
        ("cavage", ANSWER, Message("GET", "/"), "answer.request-id"),
    ):
        with refused((*REFUSALS, LocalProtocolError), code, row=(name, answer.headers)):
            sign(name, answer, request=request)
    with refused(ConfigurationError, "seal.for-answers"):
        sign_answer(ANSWER, request=sealed_request, seal=Seal.for_key(bank.certificate, bank.key), at=AT)
    with refused(ConfigurationError, "seal.for-answers"):
        sign_request(REQUEST, seal=seal_in("cavage", bank), at=AT)
    with refused(ConfigurationError, "seal.for-answers"):
        policy = SealPolicy(PathVerifier(make_anchors(pki.authorities)), profile=PROFILES["wso2"])
        verify_answer(ANSWER, request=sealed_request, policy=policy, at=AT)


def test_an_answer_that_lost_a_covered_header_is_named_so(sign, verify):
    sealed = sign("cavage", ANSWER)
    with pytest.raises(SignatureRejected, match="covers date, which the message does not have"):
        verify("cavage", sealed._replace(headers=tuple(one for one in sealed.headers if one[0] != "Date")))


def by_hand(bank: Issued, request: Message, covered: tuple[str, ...], **parameters: Any) -> Answer:
    """An answer whose seal covers what it is told to, under a good signature."""
    seal = seal_in("rfc9421", bank)
    answer = ANSWER.with_headers(("Content-Digest", make_content_digest(ANSWER.body)), *seal.certificate_headers)
    fixed = {"created": AT, "algorithm": seal.algorithm, "key_id": seal.key_id}
    written = make_signature_input([component_of(name) for name in covered], **(fixed | parameters))
    lines = answer_values(answer, request=request)
    base = make_signature_base(written, lambda one: "POST" if str(one) == '"@method"' else lines(one))
    fields = make_signature_fields(written, seal.sign(base), label="answer")
    return answer.with_headers(("Signature-Input", fields[0]), ("Signature", fields[1]))


ALL = (
    "@status", "content-digest", "@method;req", "@path;req", "@query;req", "content-type", "x-request-id;req", "digest;req",
    "signature;req",
)  # fmt: skip


def test_every_required_component_is_required(bank, sealed_request, verify):
    verify("rfc9421", by_hand(bank, sealed_request, ALL))
    for absent in ALL:
        covered = tuple(name for name in ALL if name != absent)
        with refused(REFUSALS, "signature.uncovered", row=absent):
            verify("rfc9421", by_hand(bank, sealed_request, covered))
        if absent.endswith(";req"):  # claimed as a part of the answer itself
            own = tuple(name.removesuffix(";req") if name == absent else name for name in ALL)
            with pytest.raises(REFUSALS) as caught:
                verify("rfc9421", by_hand(bank, sealed_request, own))
            assert caught.value.code in (
                "signature.unsupported-component",
                "signature.uncovered",
                "signature.header-absent",
            )


def test_a_seal_states_algorithm_and_time(bank, sealed_request, verify):
    for parameters, code in (
        ({"algorithm": None}, "signature.algorithm"), ({"algorithm": "ed25519"}, "signature.algorithm"),
        ({"created": None}, "signature.created"), ({"expires": AT - timedelta(hours=1)}, "signature.expired"),
        ({"key_id": "SN=1,CA=CN=x"}, "key-id.mismatch"),
    ):  # fmt: skip
        with refused(REFUSALS, code, row=parameters):
            verify("rfc9421", by_hand(bank, sealed_request, ALL, **parameters))


def test_no_changed_character_of_a_seal_passes(sign, verify):
    sealed = sign("rfc9421")
    for field in ("signature", "signature-input"):
        for text in flips(*sealed.values(field)):
            with pytest.raises(REFUSALS):
                verify("rfc9421", changed(sealed, field, text))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(NAMES), field=st.sampled_from(["signature", "signature-input", "digest", "content-digest", "date"]),
    value=st.text(st.characters(max_codepoint=255), max_size=60),
)  # fmt: skip
def test_only_typed_errors_escape(name, field, value, sign, verify):
    sealed = sign(name)
    if sealed.values(field):
        with pytest.raises(REFUSALS) as caught:
            verify(name, changed(sealed, field, value))
        assert "RCVD" not in str(caught.value)


class Key(other.HTTPSignatureKeyResolver):
    def __init__(self, issued: Issued) -> None:
        self._key = issued.key

    def resolve_public_key(self, key_id: str) -> Any:
        return self._key.public_key()

    def resolve_private_key(self, key_id: str) -> Any:
        return self._key


def as_theirs(answer: Answer, request: Message) -> Any:
    """An answer and its request as the other library takes them."""
    asked = SimpleNamespace(
        method=request.method, url=f"https://bank.example{request.target}", headers=dict(request.headers)
    )
    return SimpleNamespace(status_code=answer.status, headers=dict(answer.headers), request=asked)


def test_another_library_verifies_our_answers(sign, bank, sealed_request):
    for request in (sealed_request, Message("GET", "/psd2/v1/accounts", (("X-Request-ID", REQUEST_ID),))):
        theirs = other.HTTPMessageVerifier(
            signature_algorithm=other.algorithms.ECDSA_P256_SHA256, key_resolver=Key(bank)
        )
        sealed = sign("rfc9421", request=request, at=utc_now())
        (result,) = theirs.verify(as_theirs(sealed, request))
        assert result.label == "answer"
        with pytest.raises(other.InvalidSignature):
            theirs.verify(as_theirs(sealed._replace(status=200), request))


def test_we_verify_answers_of_another_library(bank, sealed_request, verify):
    now, seal = utc_now(), seal_in("rfc9421", bank)
    answer = ANSWER.with_headers(("Content-Digest", make_content_digest(ANSWER.body)), *seal.certificate_headers)
    theirs = as_theirs(answer, sealed_request)
    signer = other.HTTPMessageSigner(signature_algorithm=other.algorithms.ECDSA_P256_SHA256, key_resolver=Key(bank))
    signer.sign(
        theirs, key_id=seal.key_id, created=now, label="answer", use_existing_digest=True,
        covered_component_ids=[str(component_of(name)) for name in ALL],
    )  # fmt: skip
    verified = verify("rfc9421", Answer(201, tuple(theirs.headers.items()), ANSWER.body), at=now)
    assert verified.covers_target
    assert verified.covers_status


def test_a_dialect_of_answers_binds_them_to_their_requests():
    rfc9421, cavage = ANSWER_PROFILES["rfc9421"], ANSWER_PROFILES["cavage"]
    for row, change, code in (
        (cavage, {"covered": ("digest", "date"), "request_id": None}, "profile.coverage"),
        (cavage, {"required": ("digest", "date")}, "profile.coverage"),
        (cavage, {"covered": ("digest", "x-request-id", "(request-target)")}, "profile.malformed"),
        (cavage, {"empty_body": EmptyBody.BRACES}, "profile.malformed"),
        (cavage, {"carrier": "Authorization"}, "profile.malformed"),
        (rfc9421, {"covered": ("content-digest", "@method;req")}, "profile.coverage"),
        (rfc9421, {"covered": ("content-digest", "@status")}, "profile.coverage"),
        (rfc9421, {"covered": ("content-digest", "@status", "@method")}, "profile.malformed"),
        (rfc9421, {"covered": ("content-digest", "@status", "@status;req")}, "profile.malformed"),
        (rfc9421, {"for_answers": False}, "profile.malformed"),
        (PROFILES["ukob"], {"for_answers": True}, "profile.malformed"),
    ):
        with refused(ConfigurationError, code, row=change):
            replace(row, **change)


def test_a_bank_may_name_the_request_id_otherwise(bank, pki):
    row = replace(ANSWER_PROFILES["cavage"], covered=("digest", "date", "tpp-request-id"), request_id="tpp-request-id")
    request = Message("GET", "/accounts", (("TPP-Request-ID", REQUEST_ID),))
    seal = Seal.for_key(bank.certificate, bank.key, profile=row)
    sealed = sign_answer(Answer(200, (), b"{}"), request=request, seal=seal, at=AT)
    policy = SealPolicy(PathVerifier(make_anchors(pki.authorities)), profile=row)
    assert verify_answer(sealed, request=request, policy=policy, at=AT).covered["tpp-request-id"] == REQUEST_ID
    with refused(SignatureRejected, "answer.request-id"):
        verify_answer(sealed, request=request._replace(headers=()), policy=policy, at=AT)
