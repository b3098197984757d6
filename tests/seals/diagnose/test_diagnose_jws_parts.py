"""What stands in place of a JSON Web Signature: parts of one, beside others or cut off, and nothing of the kind."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jws_signer import AT, CARRIER, JWS, REQUEST, compact, seal_jws
from test_diagnose_jws import ALONE, explained, names

from tppkit._encoding import encode_base64, encode_base64url
from tppkit.httpsig import Message
from tppkit.seals.diagnose import Outcome, diagnose_request
from tppkit.testpki import Pki, make_pki

BESIDE: list[tuple[str, Callable[[str], str], list[str]]] = [
    ("X-Signature", str, ["signature-carrier"]),
    ("X-Seal", "jws={}".format, ["signature-carrier"]),
    ("Signature", str, ["signature-carrier"]),
    (CARRIER, str, ["signature-twice"]),
    ("X-JWS-Header", lambda whole: whole.partition(".")[0], []),
    ("X-Head", lambda whole: whole.partition(".")[0], []),
    ("X-Seal", lambda whole: f"%22{whole}%22", []),
]


@pytest.mark.parametrize(("place", "write", "causes"), BESIDE)
def test_a_signature_is_not_told_as_alone_where_its_header_stands_elsewhere(
    rsa_pki: Pki, place: str, write: Callable[[str], str], causes: list[str]
) -> None:
    whole = dict(seal_jws(rsa_pki).headers)[CARRIER]
    known = [rsa_pki.qseal.certificate]
    alone = REQUEST.with_headers((CARRIER, whole.rpartition(".")[2]), *digest_of(seal_jws(rsa_pki)))
    assert "jws-signature-alone" in explained(diagnose_request(alone, profile=JWS, certificates=known))
    beside = alone.with_headers((place, write(whole)))
    for message in (beside, beside._replace(headers=beside.headers[::-1])):
        diagnosis = diagnose_request(message, profile=JWS, certificates=known)
        if causes:
            assert explained(diagnosis) == causes
        else:
            assert (diagnosis.outcome, names(diagnosis)) == (Outcome.UNEXPLAINED, ["jws-form"])


def digest_of(message: Message) -> list[tuple[str, str]]:
    return [one for one in message.headers if one[0] == "Digest"]


@pytest.mark.parametrize("form", ALONE)
@pytest.mark.parametrize("signed", [True, False], ids=["signature", "keyed hash"])
def test_of_other_keys_what_has_the_form_of_a_signature_is_told_as_by_nobody(
    pkis: dict[str, Pki], form: str, signed: bool
) -> None:
    own = pkis["ec"]
    keyed = encode_base64url(hmac.digest(b"shared", REQUEST.body, "sha512"))
    message = seal_jws(own, form=lambda head, payload, signature: form.format(signature if signed else keyed))
    known = [own.qwac.certificate, own.qseal.certificate]
    diagnosis = diagnose_request(message, profile=JWS, certificates=known)
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert "jws-signature-alone" not in names(diagnosis)
    (told,) = (cause.evidence for cause in diagnosis.causes if cause.name == "jws-form")
    assert told == ("its 64 bytes have the length and form of a signature without its header",)


@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_what_is_one_part_but_no_signature_is_not_told_as_one(pkis: dict[str, Pki], kind: str) -> None:
    own = pkis[kind]
    der = own.qseal.certificate.der
    for text in ("A" * 100, "A" * 86, "A" * 342, "placeholder-" * 10, encode_base64(der), encode_base64url(der)):
        message = seal_jws(own, form=lambda head, payload, signature, text=text: text)
        diagnosis = diagnose_request(message, profile=JWS, certificates=[own.qseal.certificate])
        assert (diagnosis.outcome, names(diagnosis)) == (Outcome.UNEXPLAINED, ["jws-form"])
        assert "jws.malformed" in diagnosis.advice[0]


def test_a_piece_of_a_header_is_told_as_cut_off_where_it_has_the_length_of_a_signature() -> None:
    known = [make_pki(at=AT, key="p384", seed=3).qseal.certificate]
    for number in range(8):  # about half of them have the form of a signature too
        head = encode_base64url(compact({"alg": "ES384", "kid": f"key-{number}-of-the-provider", "x5c": ["MIIC" * 20]}))
        diagnosis = diagnose_request(REQUEST.with_headers((CARRIER, head[:128])), profile=JWS, certificates=known)
        assert (diagnosis.outcome, names(diagnosis)) == (Outcome.UNEXPLAINED, ["jws-cut"])


WHOLE = [
    '{"alg":"ES256","alg":"ES256"}', '{"alg":"ES256",}', '{"alg":NaN}', '{"alg":"\\ud800"}', '{"alg":"ES256"} x', '{"alg":"ES256"}{',
    '{"alg":[[[[[[[[[1]]]]]]]]]}', '{"alg":01}', '{"a":"{[\\"","a":1}', '{"alg":"ES256"]', '{"alg":[}',
]  # fmt: skip


@pytest.mark.parametrize("text", WHOLE)
@pytest.mark.parametrize("blanks", [0, 1, 2])
def test_a_whole_header_that_no_reader_takes_is_not_told_as_cut_off(pki: Pki, text: str, blanks: int) -> None:
    head = encode_base64url((" " * blanks + text).encode())
    diagnosis = diagnose_request(
        REQUEST.with_headers((CARRIER, head)), profile=JWS, certificates=[pki.qseal.certificate]
    )
    assert (diagnosis.outcome, names(diagnosis)) == (Outcome.UNEXPLAINED, ["jws-form"])


@pytest.mark.parametrize(
    "text", ['{"alg":"ES256","alg":"ES', '{"a":"b\\', '{"a":"b\\"', '{"a":{}', '{"a":["}",', '{"a":1']
)
def test_a_header_that_ends_within_is_told_as_cut_off(pki: Pki, text: str) -> None:
    for blanks in range(3):
        head = encode_base64url((" " * blanks + text).encode())
        diagnosis = diagnose_request(REQUEST.with_headers((CARRIER, head)), profile=JWS)
        assert (diagnosis.outcome, names(diagnosis)) == (Outcome.UNEXPLAINED, ["jws-cut"])


@pytest.mark.parametrize(
    "value", ["", ".", "..", "a", '"', "....", "e30..", "e30.e30.e30", "bnVsbA..AA", "x" * 40_000, "[" * 9]
)
def test_what_is_no_signature_at_all_is_told_as_form(pki: Pki, value: str) -> None:
    message = REQUEST.with_headers((CARRIER, value))
    for known in ([], [pki.qseal.certificate]):
        diagnosis = diagnose_request(message, profile=JWS, certificates=known)
        assert diagnosis.outcome is Outcome.UNEXPLAINED
        assert any(name.startswith("jws-") for name in names(diagnosis))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
PARAMETERS = ["b64", "crit", "alg", "sigT", "iat", "sigD", "x5c", "x5t#S256", "kid", "jwk"]


@given(st.dictionaries(st.sampled_from(PARAMETERS), json_values), st.text(max_size=90))
def test_nothing_that_a_header_says_escapes(pki: Pki, header: dict[str, Any], signature: str) -> None:
    value = f"{encode_base64url(json.dumps(header).encode())}..{signature}"
    message = REQUEST.with_headers((CARRIER, value))
    diagnosis = diagnose_request(message, profile=JWS, certificates=[pki.qseal.certificate], max_work=2_000)
    assert diagnosis.outcome is Outcome.UNEXPLAINED
