"""Which of several certificates is the seal's: no foreign header decides over the dialect's own, and no form hides one."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import quote

import pytest
from jws_signer import AT, CARRIER, JWS, seal_jws, with_values
from sealing import issue_seal
from test_diagnose_places import moved
from wrong_signer import seal_wrongly

from tppkit.certificates import EidasCertificate
from tppkit.httpsig import Message
from tppkit.seals import PSD2_V1
from tppkit.seals.diagnose import Diagnosis, Outcome, diagnose_request
from tppkit.seals.key_id import KeyIdForm, KeyIdStyle
from tppkit.testpki import Pki, make_pki

NEEDED = ("digest", "x-request-id", "(request-target)")
OWN = str(PSD2_V1.certificate_header)
UNNAMED = replace(PSD2_V1, name="unnamed", key_id=KeyIdStyle(form=KeyIdForm.CLIENT_ID))
UNNAMED_JWS = replace(JWS, name="unnamed", key_id=KeyIdStyle(form=KeyIdForm.CLIENT_ID))
FORM = "certificate-form"


def names(diagnosis: Diagnosis) -> list[str]:
    return [cause.name for cause in diagnosis.causes]


def explained(diagnosis: Diagnosis) -> list[str]:
    assert diagnosis.outcome is Outcome.EXPLAINED, diagnosis
    return names(diagnosis)


def encoded(certificate: EidasCertificate) -> str:
    return b64encode(certificate.der).decode()


def with_own(message: Message, *values: str) -> Message:
    """The same with these values in the dialect's header."""
    others = [header for header in message.headers if header[0] != OWN]
    return message._replace(headers=(*others, *[(OWN, value) for value in values]))


@pytest.fixture(scope="module")
def gateway_jws() -> str:
    """A JSON Web Signature by somebody else, whose certificate says that it is for seals."""
    return seal_jws(make_pki(at=AT, seed=2)).values(CARRIER)[0]


def garbage_jws(pki: Pki) -> str:
    return seal_jws(pki, header=with_values(x5c=["AAAA"])).values(CARRIER)[0]


def test_the_signature_of_a_gateway_decides_nothing(pki: Pki, gateway_jws: str) -> None:
    plain = encoded(issue_seal(pki, pki.qseal.key.public_key(), extensions=[]))
    for chain in ([plain], [encoded(pki.qseal.certificate)]):
        header = {"header": with_values(kid="client-1", x5c=chain)}
        for foreign in (gateway_jws, garbage_jws(pki)):
            right = seal_jws(pki, **header).with_headers(("X-Gateway-Signature", foreign))
            assert diagnose_request(right, profile=UNNAMED_JWS).outcome is Outcome.VERIFIES
            wrong = seal_jws(pki, **header, lines="{}\n".format).with_headers(("X-Gateway-Signature", foreign))
            assert explained(diagnose_request(wrong, profile=UNNAMED_JWS)) == ["string-newline-after"]


@pytest.mark.parametrize("place", ["Signature", "Authorization", "X-Seal"])
def test_a_moved_signature_is_judged_by_its_own_certificate(pki: Pki, gateway_jws: str, place: str) -> None:
    message = moved(seal_jws(pki), CARRIER, place, str)
    foreign = ("X-Gateway-Signature", gateway_jws)
    both = message._replace(headers=(foreign, *message.headers)) if place != "X-Seal" else message.with_headers(foreign)
    assert explained(diagnose_request(both, profile=JWS)) == ["signature-carrier"]


@pytest.mark.parametrize("own", [["AAAA"], ["qwac", "AAAA"], ["AAAA", "qwac"]], ids=" and ".join)
def test_what_cannot_be_read_in_its_place_is_not_made_up_for_elsewhere(pki: Pki, own: Sequence[str]) -> None:
    qwac = encoded(pki.qwac.certificate)
    message = seal_wrongly(pki.qseal, covered=NEEDED, key_id="client-1")
    message = with_own(message, ",".join(own).replace("qwac", qwac)).with_headers(("TPP-Signing-Certificate", qwac))
    diagnosis = diagnose_request(message, profile=UNNAMED)
    assert (diagnosis.outcome, names(diagnosis)) == (Outcome.UNEXPLAINED, [FORM])


def hidden(certificate: EidasCertificate) -> dict[str, str]:
    """The certificate in forms that are not read."""
    text = encoded(certificate)
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    armoured = {
        label: f"-----BEGIN {label}-----{text}-----END {label}-----"
        for label in ("PKCS7", "TRUSTED CERTIFICATE", "X509 CERTIFICATE")
    }
    return armoured | {
        "percent escapes": quote(text, safe=""),
        "a parameter": f"cert%3D{text}",
        "JSON": f'{{"certificate":"{text}"}}',
        "lines parted by %0A": "%0A".join(lines),
        "lines parted by two characters": "\\n".join(lines),
        "lines parted by two spaces": "  ".join(lines),
        "lines parted by a tab": "\t".join(lines),
        "base64 of base64": b64encode(text.encode()).decode(),
        "hexadecimal": certificate.der.hex(),
        "hexadecimal in pairs": certificate.der.hex(":"),
    }


@pytest.mark.parametrize("name", ["X-Seal", "Cookie"])
def test_no_form_of_a_certificate_is_told_as_missing(pki: Pki, name: str) -> None:
    bare = with_own(seal_wrongly(pki.qseal, covered=NEEDED))
    known = [pki.qseal.certificate]
    for form, text in hidden(pki.qseal.certificate).items():
        diagnosis = diagnose_request(bare.with_headers((name, text)), certificates=known)
        assert explained(diagnosis) == ["signature.missing"], form  # the verifier's own words
    short = bare.with_headers(
        (name, "A" * 200), ("Authorization", f"Bearer eyJhbGciOiJub25lIn0.eyJpc3MiOiIifQ.{'A' * 400}")
    )
    assert explained(diagnose_request(short, certificates=known)) == ["certificate-missing"]
