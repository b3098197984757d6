"""A signature in another header than its own, or a little malformed: known by what it is, or nothing is said of its format."""

from __future__ import annotations

import re
from collections.abc import Callable
from time import process_time

import pytest
from jws_signer import CARRIER, JWS, REQUEST, compact, seal_jws, without
from test_diagnose_formats import AMAZON, sealed
from wrong_signer import seal_wrongly

from tppkit._encoding import decode_base64url, encode_base64url
from tppkit.httpsig import Message
from tppkit.seals import PROFILES, PSD2_V1
from tppkit.seals.diagnose import Diagnosis, Outcome, diagnose_request
from tppkit.testpki import Pki

NEEDED = ("digest", "x-request-id", "(request-target)")


def names(diagnosis: Diagnosis) -> list[str]:
    return [cause.name for cause in diagnosis.causes]


def explained(diagnosis: Diagnosis) -> list[str]:
    assert diagnosis.outcome is Outcome.EXPLAINED, diagnosis
    return names(diagnosis)


def moved(message: Message, old: str, new: str, write: Callable[[str], str] = str) -> Message:
    return message._replace(
        headers=tuple((new, write(v)) if n.lower() == old.lower() else (n, v) for n, v in message.headers)
    )


@pytest.mark.parametrize(
    ("place", "write"),
    [
        ("Authorization", "{}"), ("Authorization", "Bearer {}"), ("Authorization", "Signature {}"), ("Signature", "{}"),
        ("jws-signature", "{}"), ("X-Detached", 'sig="{}"'),
    ],
)  # fmt: skip
def test_a_json_web_signature_in_another_header_is_found_there(pki: Pki, place: str, write: str) -> None:
    for steps, more in (({}, []), ({"lines": "{}\n".format}, ["string-newline-after"])):
        message = moved(seal_jws(pki, **steps), CARRIER, place, write.format)
        assert [name for name in explained(diagnose_request(message, profile=JWS)) if name != "scheme-word"] == [
            "signature-carrier", *more
        ]  # fmt: skip
    told = diagnose_request(message, certificates=[pki.qseal.certificate])
    assert (told.outcome, names(told)) == (Outcome.UNEXPLAINED, ["certificate-header", "signature-format"])
    assert f"{place} is of the format detached JSON Web Signature" in told.causes[-1].evidence[0]


@pytest.mark.parametrize("place", ["X-Signature", CARRIER, "Authorization"])
def test_a_signature_of_the_draft_in_another_header_is_found_there(pki: Pki, place: str) -> None:
    message = moved(seal_wrongly(pki.qseal, covered=NEEDED), "Signature", place)
    assert explained(diagnose_request(message)) == ["signature-carrier"]
    told = diagnose_request(message, profile=JWS, certificates=[pki.qseal.certificate])
    assert (told.outcome, names(told)[-1]) == (Outcome.UNEXPLAINED, "signature-format")
    assert f"{place} is of the format draft-cavage" in told.causes[-1].evidence[0]
    assert "jws-attached" not in names(told)


@pytest.mark.parametrize(
    "write",
    [
        "jws={}", "sig={};x=1", "detached:{}", "({})", "[{}]", "Bearer:{}", "x.y.{}", '{{"jws":"{}"}}', "<{}>", "{}.", "e30..e30 {}",
    ],
)  # fmt: skip
def test_a_json_web_signature_is_read_whatever_stands_around_it(pki: Pki, write: str) -> None:
    message = moved(seal_jws(pki), CARRIER, "X-Seal", write.format)
    assert explained(diagnose_request(message, profile=JWS)) == ["signature-carrier"]


# What is left of a signature that nobody reads: it is there, so it is not told as missing, nor the x5c that it may hold.
UNREAD: list[Callable[[str], str]] = [
    lambda value: f"%22{value}%22",
    lambda value: f"1{value}",
    lambda value: value.replace("..", "%2E%2E"),
    lambda value: value.replace("..", ". ."),
    lambda value: value.replace("..", "."),
    lambda value: value.rpartition(".")[2],
    lambda value: decode_base64url(value.rpartition(".")[2], what="it").hex(),
    lambda value: decode_base64url(value.rpartition(".")[2], what="it").hex(":").upper(),
    lambda value: ", ".join(map(str, decode_base64url(value.rpartition(".")[2], what="it"))),
    lambda value: f'Seal keyId="1",signature="{value[-20:]}"',
    lambda value: f'{{"KeyId": "1", "Signature": "{value[-20:]}"}}',
]


@pytest.mark.parametrize("write", UNREAD)
@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_what_may_be_a_signature_and_cannot_be_read_is_not_told_as_missing(
    pkis: dict[str, Pki], write: Callable[[str], str], kind: str
) -> None:
    message = moved(seal_jws(pkis[kind]), CARRIER, "X-Seal", write)
    for profile in (JWS, PSD2_V1, AMAZON):
        may_hold_one = (
            len(dict(message.headers)["X-Seal"]) >= 256
        )  # what is so long, and is not read, may be a certificate
        header_missing = [] if may_hold_one or profile.certificate_header is None else ["certificate-missing"]
        for known in ([], [pkis[kind].qseal.certificate]):
            told = diagnose_request(message, profile=profile, certificates=known)
            assert (told.outcome, names(told)) == (Outcome.UNEXPLAINED, header_missing)
            assert any(text.startswith("X-Seal holds what may be a signature") for text in told.advice)


def test_a_certificate_is_not_told_as_missing_beside_what_may_hold_it(pki: Pki) -> None:
    whole, known = dict(seal_jws(pki).headers)[CARRIER], [pki.qseal.certificate]
    message = seal_jws(pki, header=without("x5c"), lines="{}\n".format)
    assert explained(diagnose_request(message, profile=JWS, certificates=known)) == [
        "certificate-missing", "string-newline-after"
    ]  # fmt: skip
    both = message.with_headers(("X-Seal", f"%22{whole}%22"))
    assert "certificate-missing" not in names(diagnose_request(both, profile=JWS, certificates=known))


def test_the_signatures_of_a_digest_or_a_certificate_are_none_of_the_request(pki: Pki) -> None:
    sealed_so = seal_wrongly(pki.qseal, covered=NEEDED)
    bare = sealed_so._replace(headers=tuple(one for one in sealed_so.headers if one[0] != "Signature"))
    more = [
        ("Repr-Digest", f"sha-512=:{'A' * 86}==:"),
        ("X-Client-Cert", dict(bare.headers)["TPP-Signature-Certificate"]),
    ]
    for headers in ([], more):
        assert explained(diagnose_request(bare.with_headers(*headers))) == ["signature-missing"]


NAMESAKES = [
    ("TPP-Redirect-URI", "https://tpp.example/back?keyId=7&signature=ab12"),
    ("Referer", 'https://tpp.example/back?keyId="7"&signature="ab12"'),
    ("Cookie", "keyId=a; signature=b"),
]


@pytest.mark.parametrize(("name", "value"), NAMESAKES)
def test_parameters_of_the_same_names_in_an_address_or_a_cookie_are_neither_a_signature_nor_the_lack_of_one(
    pki: Pki, name: str, value: str
) -> None:
    bare = REQUEST.with_headers((name, value))
    for profile in (PSD2_V1, JWS, AMAZON):
        told = diagnose_request(bare, profile=profile, certificates=[pki.qseal.certificate])
        assert told.outcome is Outcome.UNEXPLAINED
        assert {"signature-missing", "signature-carrier", "signature-format"}.isdisjoint(names(told))
        assert any(text.startswith(f"{name} holds what may be a signature") for text in told.advice)
    sealed_so = moved(seal_wrongly(pki.qseal, covered=NEEDED), "Signature", "Authorization", "Signature {}".format)
    first = sealed_so._replace(headers=((name, value), *sealed_so.headers))
    assert explained(diagnose_request(first)) == ["signature-carrier"]


@pytest.mark.parametrize(
    ("place", "write"),
    [
        ("X-Detached", "{}"), ("X-Authorization", "Signature {}"), ("X-Seal", "created=1780000000,{}"), ("Signature-Input", "{}"),
        ("Proxy-Authorization", "Signature created=1780000000, {}"), ("X-Seal", "version=\"1\", {}"),
    ],
)  # fmt: skip
def test_a_signature_in_its_whole_form_is_found_in_whatever_header(pki: Pki, place: str, write: str) -> None:
    message = moved(seal_wrongly(pki.qseal, covered=NEEDED), "Signature", place, write.format)
    assert "signature-carrier" in explained(diagnose_request(message))


def test_of_several_signatures_the_one_in_its_usual_place_is_judged(pki: Pki) -> None:
    message = moved(seal_wrongly(pki.qseal, covered=NEEDED), "Signature", "Authorization", "Signature {}".format)
    for place in ("X-Hub-Signature", "X-Copy"):
        first = message._replace(headers=((place, 'keyId="1",signature="MTIz"'), *message.headers))
        diagnosis = diagnose_request(first)
        assert explained(diagnosis) == ["signature-carrier"]
        assert "it stands in Authorization" in diagnosis.causes[0].evidence[0]


LABELS: list[tuple[Callable[[str], str], str]] = [
    (lambda value: value.replace("x-amzn", "X-amzn"), "structured.malformed"),
    (lambda value: value.replace("=:", " = :"), "structured.malformed"),
    (lambda value: value.replace(":", ""), "structured."),
    (lambda value: value.replace(":", chr(34)), "signature.malformed"),
    (lambda value: value.partition("=")[2], "structured.malformed"),
]


@pytest.mark.parametrize(("write", "code"), LABELS)
def test_of_a_malformed_member_of_rfc_9421_the_verifier_says_what_it_is(
    pki: Pki, write: Callable[[str], str], code: str
) -> None:
    message = moved(sealed(pki, AMAZON), "Signature", "Signature", write)
    known = [pki.qseal.certificate]
    told = diagnose_request(message, profile=AMAZON, certificates=known)
    assert (told.outcome, names(told)) == (Outcome.UNEXPLAINED, [])
    assert re.search(rf"The verifier says: .*\[{code}", told.advice[0])
    other = diagnose_request(message, certificates=known)
    assert other.causes[-1].evidence[0].startswith("Signature is of the format RFC 9421")
    assert "The verifier says: " in other.advice[0]


@pytest.mark.parametrize("place", ["X-Signature", "jws-signature", "Signature-Value"])
@pytest.mark.parametrize("profile", ["psd2-v1", "open-finance", "amazon"])
def test_what_may_be_a_signature_is_neither_told_as_none_nor_as_of_a_format(
    rsa_pki: Pki, place: str, profile: str
) -> None:
    message = moved(seal_wrongly(rsa_pki.qseal, covered=NEEDED), "Signature", place, lambda value: "bm8gZm9ybWF0")
    told = diagnose_request(message, profile=PROFILES[profile], certificates=[rsa_pki.qseal.certificate])
    assert told.outcome is Outcome.UNEXPLAINED
    assert {"signature-missing", "signature-format"}.isdisjoint(names(told))
    assert "The verifier says: " in told.advice[0]


def test_a_foreign_signature_does_not_hide_that_x5c_is_missing(pki: Pki) -> None:
    message = seal_jws(pki, header=without("x5c")).with_headers(("X-Hub-Signature", "sha256=00"))
    assert explained(diagnose_request(message, profile=JWS, certificates=[pki.qseal.certificate])) == [
        "certificate-missing"
    ]
    unread = moved(message, CARRIER, CARRIER, lambda value: f"!{value}")
    told = diagnose_request(unread, profile=JWS, certificates=[pki.qseal.certificate])
    assert (told.outcome, names(told)) == (Outcome.UNEXPLAINED, ["jws-form"])


def test_an_access_token_that_says_so_itself_is_no_signature(pki: Pki) -> None:
    head, _, signature = dict(seal_jws(pki, header=lambda _: {"alg": "ES256", "typ": "at+jwt"}).headers)[CARRIER].split(
        "."
    )
    claims = encode_base64url(compact({"iss": "https://bank.example", "exp": 1780315200, "sub": "tpp"}))
    told = {}
    for payload in (claims, "e30", encode_base64url(REQUEST.body)):
        token = f"Bearer {head}.{payload}.{signature}"
        message = REQUEST.with_headers(("Authorization", token))
        for profile in (PSD2_V1, JWS, AMAZON):
            diagnosis = diagnose_request(message, profile=profile, certificates=[pki.qseal.certificate])
            told.setdefault(payload, set()).add((diagnosis.outcome, "signature-missing" in names(diagnosis)))
    assert told.pop(claims) == {(Outcome.EXPLAINED, True)}
    assert set.union(*told.values()) == {(Outcome.UNEXPLAINED, False)}


def test_a_signature_is_found_among_many_words(pki: Pki) -> None:
    message = moved(seal_jws(pki), CARRIER, "X-Words", lambda value: f"{'e30..b ' * 500}{value}{' e30..b' * 500}")
    assert explained(diagnose_request(message, profile=JWS)) == ["signature-carrier"]


def test_many_headers_of_many_words_are_looked_through_soon(pki: Pki) -> None:
    hostile = tuple((f"X-Signature-{n}", text) for n in range(200) for text in ("keyid" + " " * 9000, "a..b " * 6000))
    hostile += tuple(
        ("X-Seal", text * (9000 // len(text))) for text in ("a" * 63 + " ", "a.", "keyid ", "ab, ", "=", "%", "a=")
    )
    begin = process_time()
    diagnosis = diagnose_request(seal_jws(pki)._replace(headers=hostile), certificates=[pki.qseal.certificate])
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert process_time() - begin < 8  # a tenth of that; a reader of every word takes twenty times as long
