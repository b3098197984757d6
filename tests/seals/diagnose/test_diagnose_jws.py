"""Mistakes in the form of a JSON Web Signature, each really made: it is named, it alone, and it is proven."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jws_signer import AT, CARRIER, JWS, REQUEST, compact, seal_jws, with_values, without
from wrong_signer import seal_wrongly

from tppkit._encoding import encode_base64, encode_base64url
from tppkit.certificates import EidasCertificate
from tppkit.httpsig import Message
from tppkit.seals import PROFILES
from tppkit.seals.diagnose import Diagnosis, Outcome, diagnose_request
from tppkit.testpki import Pki, certificate_pem

HTTP_HEADERS = "http://uri.etsi.org/19182/HttpHeaders"
PARS = ["(request-target)", "digest", "x-request-id"]


def explained(diagnosis: Diagnosis) -> list[str]:
    assert diagnosis.outcome is Outcome.EXPLAINED, diagnosis
    return [cause.name for cause in diagnosis.causes]


def names(diagnosis: Diagnosis) -> list[str]:
    return [cause.name for cause in diagnosis.causes]


def in_url_alphabet(text: str) -> str:
    return encode_base64url(text.encode("latin-1"))


def padded(raw: bytes) -> str:
    return urlsafe_b64encode(raw + b" " * (1 if len(raw) % 3 == 0 else 0)).decode()


def php(header: dict[str, Any]) -> bytes:
    return compact(header).replace(b"/", b"\\/")


def spaced(header: dict[str, Any]) -> bytes:
    return json.dumps(header).encode()


def turned(header: dict[str, Any]) -> dict[str, Any]:
    return dict(reversed(header.items()))


# (causes, steps)
CASES: list[tuple[list[str], dict[str, Any]]] = [
    (["jws-quoted"], {"form": lambda head, payload, signature: f'"{head}..{signature}"'}),
    (["jws-attached"], {"form": lambda head, payload, signature: f"{head}.{in_url_alphabet(payload)}.{signature}"}),
    (["jws-payload-encoded", "jws-attached"],
     {"lines": in_url_alphabet, "form": lambda head, payload, signature: f"{head}.{payload}.{signature}"}),
    (["jws-payload-other", "jws-attached"],
     {"lines": lambda text: in_url_alphabet('{"paid":"yes"}'), "form": lambda head, payload, signature: f"{head}.{payload}.{signature}"}),
    (["jws-form"], {"form": lambda head, payload, signature: f"{head}.{signature}"}),
    (["jws-base64"], {"encode": padded}),
    (["jws-base64"], {"encode": padded, "encode_signed": lambda raw: padded(raw).rstrip("=")}),
    (["jws-base64"], {"written": lambda raw: encode_base64(raw) if len(raw) % 3 else encode_base64(raw) + "="}),
    (["jws-critical"], {"header": without("crit")}),
    (["jws-critical"], {"header": with_values(crit=["sigT", "sigD"])}),
    (["jws-critical"], {"header": with_values(crit=["sigT", "sigD", "b64", "kid"])}),
    (["jws-b64"], {"header": with_values(b64="false")}),
    (["jws-b64"], {"header": without("b64")}),
    (["jws-b64", "jws-critical"], {"header": lambda header: without("b64")({**header, "crit": ["sigT", "sigD"]})}),
    (["jws-b64", "jws-critical", "jws-payload-encoded"],
     {"header": lambda header: without("b64")({**header, "crit": ["sigT", "sigD"]}), "lines": in_url_alphabet}),
    (["jws-time"], {"header": with_values(sigT="2026-06-01T12:00:00.123Z")}),
    (["jws-time"], {"header": with_values(sigT=1780315200)}),
    (["jws-time"], {"header": with_values(sigT="2026-06-01T14:00:00+02:00")}),
    (["jws-time"], {"header": with_values(sigT="this noon")}),
    (["jws-parameter"], {"header": lambda header: without("sigT")({**header, "crit": ["sigD", "b64"]})}),
    (["jws-parameter"], {"header": without("alg")}),
    (["jws-parameter"], {"header": with_values(alg=256)}),
    (["jws-parameter"], {"header": without("x5t#S256")}),
    (["jws-parameter"], {"header": with_values(**{"x5t#S256": "00" * 32})}),
    (["jws-signed-data"], {"header": without("sigD")}),
    (["jws-signed-data"], {"header": with_values(sigD={"pars": PARS})}),
    (["jws-signed-data"], {"header": with_values(sigD={"pars": PARS, "mId": "http://uri.etsi.org/19182/HttpHeader"})}),
    (["jws-signed-data"], {"header": with_values(sigD=PARS)}),
    (["jws-offered-key"], {"header": with_values(x5u="https://tpp.example/seal.pem")}),
    (["jws-header-not-encoded"], {"encode_signed": lambda raw: raw.decode()}),
    (["jws-header-serialised-again"], {"signed_header": turned}),
    (["jws-header-serialised-again"], {"serialise_signed": spaced}),
    (["jws-header-serialised-again"], {"serialise_signed": php}),
    (["jws-header-serialised-again", "string-newline-after"], {"serialise": php, "serialise_signed": compact, "lines": "{}\n".format}),
    (["jws-header-serialised-again", "jws-header-not-encoded"], {"serialise_signed": spaced, "encode_signed": lambda raw: raw.decode()}),
    (["jws-time", "target-without-query"],
     {"header": with_values(sigT=1780315200), "lines": lambda text: text.replace("?x=%2F1&b=2", "")}),
    (["der-for-raw"], {"written": lambda raw: encode_base64url(encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:])))}),
    (["jws-base64", "signature-hex"], {"encode": padded, "written": bytes.hex}),
]  # fmt: skip


@pytest.mark.parametrize("given_too", [False, True], ids=["sent", "given too"])
@pytest.mark.parametrize(("causes", "steps"), CASES)
def test_a_mistake_in_the_form_is_named_and_it_alone(
    pki: Pki, causes: list[str], steps: dict[str, Any], given_too: bool
) -> None:
    known = [pki.qseal.certificate] if given_too else []
    assert set(explained(diagnose_request(seal_jws(pki, **steps), profile=JWS, certificates=known))) == set(causes)


RSA_CASES = [
    case for case in CASES if case[0][0] in ("jws-attached", "jws-b64", "jws-header-serialised-again", "jws-time")
]


@pytest.mark.parametrize(("causes", "steps"), RSA_CASES)
def test_the_same_is_told_of_a_seal_with_an_rsa_key(rsa_pki: Pki, causes: list[str], steps: dict[str, Any]) -> None:
    assert set(explained(diagnose_request(seal_jws(rsa_pki, **steps), profile=JWS))) == set(causes)


def x5c_of(pki: Pki) -> dict[str, object]:
    der = pki.qseal.certificate.der
    return {
        "PEM": [certificate_pem(pki.qseal.certificate).decode()],
        "text": encode_base64(der),
        "url alphabet": [encode_base64url(der)],
        "in lines": [b64encode(der).decode()[:64] + "\n" + b64encode(der).decode()[64:]],
        "base64 of PEM": [encode_base64(certificate_pem(pki.qseal.certificate))],
    }


@pytest.mark.parametrize("form", ["PEM", "text", "url alphabet", "in lines", "base64 of PEM"])
def test_a_certificate_in_another_form_in_x5c_is_read_and_told(pki: Pki, form: str) -> None:
    message = seal_jws(pki, header=with_values(x5c=x5c_of(pki)[form]))
    assert explained(diagnose_request(message, profile=JWS)) == ["certificate-form"]


@pytest.mark.parametrize("given_too", [False, True], ids=["sent", "given too"])
def test_a_chain_in_the_wrong_order_in_x5c_is_told_as_that(pki: Pki, given_too: bool) -> None:
    chain = [encode_base64(one.certificate.der) for one in (pki.qseal, pki.qseal_ca)]
    message = seal_jws(pki, header=with_values(x5c=chain[::-1]))
    known = [pki.qseal.certificate] if given_too else []
    diagnosis = diagnose_request(message, profile=JWS, certificates=known)
    assert explained(diagnosis) == ["certificate-order"]
    assert diagnosis.causes[0].evidence == ("the seal's is number 2 of 2 in x5c",)
    assert diagnose_request(seal_jws(pki, header=with_values(x5c=chain)), profile=JWS).outcome is Outcome.VERIFIES


def test_a_certificate_that_is_not_in_x5c_is_told_with_a_mend_for_x5c(pki: Pki) -> None:
    message = seal_jws(pki, header=without("x5c"))
    diagnosis = diagnose_request(message, profile=JWS, certificates=[pki.qseal.certificate])
    assert explained(diagnosis) == ["certificate-missing"]
    assert "x5c" in diagnosis.causes[0].mend
    alone = diagnose_request(message, profile=JWS)
    assert (alone.outcome, names(alone)) == (Outcome.UNEXPLAINED, ["certificate-missing"])


def test_a_certificate_in_a_header_of_another_dialect_is_found(pki: Pki) -> None:
    message = seal_jws(pki, header=without("x5c"))
    message = message.with_headers(("TPP-Signature-Certificate", encode_base64(pki.qseal.certificate.der)))
    assert explained(diagnose_request(message, profile=JWS)) == ["certificate-header"]


def test_what_x5c_holds_is_not_told_as_missing_where_it_cannot_be_read(pki: Pki) -> None:
    message = seal_jws(pki, header=with_values(x5c=["MIIB"]))
    assert names(diagnose_request(message, profile=JWS)) == ["certificate-form"]
    unread = message._replace(headers=tuple((n, f"!{v}" if n == CARRIER else v) for n, v in message.headers))
    assert names(diagnose_request(unread, profile=JWS)) == ["jws-form"]


def test_a_certificate_whose_key_is_none_is_told_and_nothing_escapes(pki: Pki) -> None:
    der = pki.qseal.certificate.der
    point = pki.qseal.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    off_curve = der.replace(point, point[:-1] + bytes((point[-1] ^ 1,)))
    in_x5c = seal_jws(pki, header=with_values(x5c=[encode_base64(off_curve)]))
    known = [pki.qseal.certificate]
    for certificates in ([], known):
        assert names(diagnose_request(in_x5c, profile=JWS, certificates=certificates)) == ["certificate-form"]
    in_header = seal_wrongly(pki.qseal)
    text = encode_base64(off_curve)
    in_header = in_header._replace(
        headers=tuple((n, text if n == "TPP-Signature-Certificate" else v) for n, v in in_header.headers)
    )
    assert explained(diagnose_request(in_header, certificates=known)) == ["certificate-form"]


@pytest.mark.parametrize("role", ["certificates", "qwac"])
def test_a_given_certificate_whose_key_is_none_is_told_and_stops_nothing(pki: Pki, role: str) -> None:
    point = pki.qseal.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    der = pki.qseal.certificate.der.replace(point, point[:-1] + bytes((point[-1] ^ 1,)))
    bad = EidasCertificate.from_der(der)
    given: dict[str, Any] = {"certificates": [bad, pki.qseal.certificate]} if role == "certificates" else {"qwac": bad}
    outcomes = []
    for message in (seal_wrongly(pki.qseal), broken(seal_wrongly(pki.qseal))):
        diagnosis = diagnose_request(message, **given)
        outcomes.append(diagnosis.outcome)
        assert f"the public key of {bad.subject}, which was given, cannot be read" in diagnosis.notes[-1]
    assert outcomes == [Outcome.VERIFIES, Outcome.UNEXPLAINED]
    part = seal_jws(pki, form=lambda head, payload, signature: signature)
    assert names(diagnose_request(part, profile=JWS, **given))[-1] == "jws-form"


def test_a_key_that_the_dialect_has_no_algorithm_for_is_told_once(pki: Pki) -> None:
    profile = replace(PROFILES["ing-jws"], covered=JWS.covered, request_id="x-request-id")
    wrong = seal_jws(pki, lines="{}\n".format)
    assert names(diagnose_request(wrong, profile=profile)) == ["key-unusable", "string-newline-after"]


def test_what_the_verifier_refuses_besides_the_form_is_told_too(pki: Pki) -> None:
    steps = {"header": lambda header: {**header, "b64": "false", "sigD": {"pars": PARS[:2], "mId": HTTP_HEADERS}}}
    message = seal_jws(pki, lines=lambda text: text.rpartition("\n")[0], **steps)
    assert explained(diagnose_request(message, profile=JWS)) == ["jws-b64", "uncovered"]


def test_the_age_is_judged_by_a_time_in_another_form(pki: Pki) -> None:
    message = seal_jws(pki, header=with_values(sigT="2026-06-01T12:00:00.5Z"))
    later = datetime(2026, 7, 1, tzinfo=UTC)
    assert explained(diagnose_request(message, profile=JWS, at=AT)) == ["jws-time"]
    assert explained(diagnose_request(message, profile=JWS, at=later)) == ["jws-time", "signature.expired"]
    untimed = seal_jws(pki, header=with_values(sigT="this noon"))
    assert explained(diagnose_request(untimed, profile=JWS, at=later)) == ["jws-time"]


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:00"])
def test_a_time_that_its_offset_leads_out_of_the_calendar_is_told_as_one_that_cannot_be_read(
    pki: Pki, time: str
) -> None:
    for at in (None, AT):
        assert explained(diagnose_request(seal_jws(pki, header=with_values(sigT=time)), profile=JWS, at=at)) == [
            "jws-time"
        ]


def test_a_form_that_is_wrong_does_not_explain_a_string_that_is_not_known(pki: Pki) -> None:
    message = seal_jws(pki, header=without("b64"), lines=lambda text: text[::-1])
    diagnosis = diagnose_request(message, profile=JWS, max_work=60_000)
    assert (diagnosis.outcome, names(diagnosis)) == (Outcome.UNEXPLAINED, ["jws-b64"])


def test_another_value_in_the_header_is_not_told_as_another_serialisation(pki: Pki) -> None:
    message = seal_jws(pki, signed_header=with_values(sigT="2026-06-01T12:00:09Z"))
    diagnosis = diagnose_request(message, profile=JWS, max_work=60_000)
    assert (diagnosis.outcome, names(diagnosis)) == (Outcome.UNEXPLAINED, [])


def test_a_header_that_stands_in_the_wrong_place_or_twice_is_told(pki: Pki) -> None:
    message = seal_jws(pki)
    profile = replace(JWS, name="other-carrier", carrier="X-Other-Signature")
    diagnosis = diagnose_request(message, profile=profile)
    assert explained(diagnosis) == ["other-dialect"]
    assert "X-Other-Signature" in diagnosis.causes[0].evidence[-1]
    wrong = diagnose_request(seal_jws(pki, lines="{}\n".format), profile=profile)
    assert explained(wrong) == ["signature-carrier", "string-newline-after"]
    twice = message.with_headers((CARRIER, dict(message.headers)[CARRIER]))
    assert explained(diagnose_request(twice, profile=JWS)) == ["signature-twice"]


ALONE = ["{}", "..{}", '"{}"', "{}=="]


@pytest.mark.parametrize("form", ALONE)
def test_a_signature_that_was_sent_alone_is_told_where_its_padding_proves_by_whom(
    pkis: dict[str, Pki], form: str
) -> None:
    own, other = pkis["rsa"], pkis["ec"]
    message = seal_jws(own, form=lambda head, payload, signature: form.format(signature))
    known = [other.qwac.certificate, own.qseal.certificate]
    diagnosis = diagnose_request(message, profile=JWS, certificates=known)
    assert "jws-signature-alone" in explained(diagnosis)
    assert any(str(known[1].subject) in text for cause in diagnosis.causes for text in cause.evidence)
    for others in ([], known[:1], [own.qwac.certificate]):
        diagnosis = diagnose_request(message, profile=JWS, certificates=others)
        assert diagnosis.outcome is Outcome.UNEXPLAINED
        assert "jws-form" in names(diagnosis)


def test_a_protected_header_that_was_cut_off_is_told_as_that_wherever_it_ends(pki: Pki) -> None:
    message = seal_jws(pki)
    head = dict(message.headers)[CARRIER].partition(".")[0]
    for end in [8, *range(85, 95), len(head) // 2, len(head) - 2]:
        cut = message._replace(headers=tuple((n, head[:end] if n == CARRIER else v) for n, v in message.headers))
        for known in ([], [pki.qseal.certificate]):
            diagnosis = diagnose_request(cut, profile=JWS, certificates=known)
            assert (diagnosis.outcome, names(diagnosis)) == (Outcome.UNEXPLAINED, ["jws-cut"])


def in_carrier(message: Message, name: str) -> Message:
    return message._replace(headers=tuple((name if n == CARRIER else n, v) for n, v in message.headers))


@pytest.mark.parametrize("carrier", ["X-Own-JWS", "X-JWS-Signature"])
def test_a_dialect_with_another_carrier_is_judged_by_what_stands_there(pki: Pki, carrier: str) -> None:
    own = replace(JWS, name="own", carrier=carrier)
    right = in_carrier(seal_jws(pki), carrier)
    assert diagnose_request(right, profile=own).outcome is Outcome.VERIFIES
    attached = {"form": lambda head, payload, signature: f"{head}.{payload}.{signature}"}
    for steps, causes in (
        ({"lines": "{}\n".format}, ["string-newline-after"]),
        ({"header": without("x5c")}, ["certificate-missing"]),
        ({"lines": lambda text: in_url_alphabet('{"paid":"yes"}'), **attached}, ["jws-payload-other", "jws-attached"]),
    ):
        message = in_carrier(seal_jws(pki, **steps), carrier)
        diagnosis = diagnose_request(message, profile=own, certificates=[pki.qseal.certificate])
        assert set(explained(diagnosis)) == set(causes)


OTHERS = ["open-finance", "amazon", "ing-jws"]


@pytest.mark.parametrize("name", OTHERS)
def test_a_right_request_of_draft_cavage_is_told_as_another_dialect(rsa_pki: Pki, name: str) -> None:
    diagnosis = diagnose_request(seal_wrongly(rsa_pki.qseal), profile=PROFILES[name])
    assert explained(diagnosis) == ["other-dialect"]
    assert "psd2-v1" in diagnosis.causes[0].evidence[0]


def test_a_right_json_web_signature_is_told_as_another_dialect(pki: Pki) -> None:
    for known in ([], [pki.qseal.certificate]):
        diagnosis = diagnose_request(seal_jws(pki), certificates=known)
        assert explained(diagnosis) == ["other-dialect"]
        assert "open-finance" in diagnosis.causes[0].evidence[0]


def broken(message: Message) -> Message:
    return message._replace(body=b"else")


def test_a_broken_seal_of_another_format_is_not_told_as_missing(pki: Pki, rsa_pki: Pki) -> None:
    told = diagnose_request(broken(seal_jws(pki)))
    assert (told.outcome, names(told)) == (Outcome.UNEXPLAINED, ["certificate-header", "signature-format"])
    assert "x5c" in told.causes[0].evidence[0]
    assert "--profile" in told.advice[-1]
    for name in OTHERS:
        told = diagnose_request(broken(seal_wrongly(rsa_pki.qseal)), profile=PROFILES[name])
        assert told.outcome is Outcome.UNEXPLAINED
        assert names(told)[-1] == "signature-format"
        assert not any("carries none" in text for text in told.advice)


def test_a_broken_seal_of_rfc_9421_has_no_faults_of_a_signature_header(pki: Pki) -> None:
    fields = (("Signature-Input", 'x-amzn-psd2=("@method");created=1780315200'), ("Signature", "x-amzn-psd2=:AAAA:"))
    told = diagnose_request(REQUEST.with_headers(*fields), certificates=[pki.qseal.certificate])
    assert (told.outcome, names(told)) == (Outcome.UNEXPLAINED, ["certificate-missing", "signature-format"])


@pytest.mark.parametrize("name", ["psd2-v1", *OTHERS])
def test_a_request_without_any_signature_is_told_so_in_every_format(rsa_pki: Pki, name: str) -> None:
    diagnosis = diagnose_request(REQUEST, profile=PROFILES[name], certificates=[rsa_pki.qseal.certificate])
    assert "signature-missing" in explained(diagnosis)
