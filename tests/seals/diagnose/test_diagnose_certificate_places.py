"""Which of several certificates is the seal's: no foreign header decides over the dialect's own, and no form hides one."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import BasicConstraints, Name, NameAttribute
from cryptography.x509.oid import NameOID
from jws_signer import AT, CARRIER, JWS, seal_jws, with_values, without
from sealing import issue_seal, make_certificate
from test_diagnose_places import moved
from wrong_signer import seal_wrongly

from tppkit.certificates import EidasCertificate
from tppkit.httpsig import Message
from tppkit.seals import PROFILES, PSD2_V1, SealProfile
from tppkit.seals.diagnose import Diagnosis, Outcome, diagnose_request
from tppkit.seals.key_id import KeyIdForm, KeyIdStyle, Radix, make_key_id
from tppkit.testpki import Pki, certificate_pem, make_pki

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


def test_the_certificate_in_the_signature_of_a_gateway_is_not_taken_unnamed(pki: Pki, gateway_jws: str) -> None:
    message = seal_jws(pki, header=without("x5c")).with_headers(("X-Gateway-Signature", gateway_jws))
    told = diagnose_request(message, profile=JWS, certificates=[pki.qseal.certificate])
    assert {"certificate-header", "certificate-order", "certificate-missing", "key-of-other"}.isdisjoint(names(told))


@pytest.mark.parametrize("place", ["Signature", "Authorization", "X-Seal"])
def test_a_moved_signature_is_judged_by_its_own_certificate(pki: Pki, gateway_jws: str, place: str) -> None:
    message = moved(seal_jws(pki), CARRIER, place, str)
    foreign = ("X-Gateway-Signature", gateway_jws)
    both = message._replace(headers=(foreign, *message.headers)) if place != "X-Seal" else message.with_headers(foreign)
    assert explained(diagnose_request(both, profile=JWS)) == ["signature-carrier"]


def test_of_two_values_of_its_header_the_first_counts_where_none_is_named(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal, covered=NEEDED, key_id="client-1")
    own = encoded(pki.qseal.certificate)
    for second in ("zz", own[:400]):
        assert explained(diagnose_request(with_own(message, own, second), profile=UNNAMED)) == ["header-doubled"]
    behind = diagnose_request(with_own(message, "zz", encoded(pki.qwac.certificate)), profile=UNNAMED)
    assert (behind.outcome, names(behind)) == (Outcome.UNEXPLAINED, [FORM])


def test_one_that_was_cut_behind_the_first_leaves_the_first_the_seal_s(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal, covered=NEEDED, key_id="client-1")
    chain = f"{encoded(pki.qseal.certificate)},{encoded(pki.qseal_ca.certificate)[:300]}"
    cut = with_own(message, chain)
    beside = cut.with_headers(("TPP-Signing-Certificate", encoded(pki.qwac.certificate)))
    for one in (cut, beside):
        diagnosis = diagnose_request(one, profile=UNNAMED)
        assert explained(diagnosis) == [FORM]
        assert diagnosis.causes[0].evidence[0] == f"{OWN} holds a certificate that cannot be read"
        assert "a chain, parted by ," in diagnosis.causes[0].evidence[1]
        assert explained(diagnose_request(one)) == [FORM, "key-id-form"]
    x5c = with_values(kid="client-1", x5c=[encoded(pki.qseal.certificate), "AAAA"])
    assert explained(diagnose_request(seal_jws(pki, header=x5c), profile=UNNAMED_JWS)) == [FORM]


@pytest.mark.parametrize("own", [["AAAA"], ["qwac", "AAAA"], ["AAAA", "qwac"]], ids=" and ".join)
def test_what_cannot_be_read_in_its_place_is_not_made_up_for_elsewhere(pki: Pki, own: Sequence[str]) -> None:
    qwac = encoded(pki.qwac.certificate)
    message = seal_wrongly(pki.qseal, covered=NEEDED, key_id="client-1")
    message = with_own(message, ",".join(own).replace("qwac", qwac)).with_headers(("TPP-Signing-Certificate", qwac))
    diagnosis = diagnose_request(message, profile=UNNAMED)
    assert (diagnosis.outcome, names(diagnosis)) == (Outcome.UNEXPLAINED, [FORM])


def test_the_named_one_is_found_elsewhere_where_its_place_holds_an_authority_s(pki: Pki) -> None:
    message = with_own(seal_wrongly(pki.qseal, covered=NEEDED), encoded(pki.qseal_ca.certificate))
    message = message.with_headers(("TPP-Signing-Certificate", encoded(pki.qseal.certificate)))
    assert explained(diagnose_request(message)) == ["certificate-header"]


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


def test_a_self_signed_one_that_is_named_is_the_seal_s_though_it_may_issue(pki: Pki) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = Name([NameAttribute(NameOID.COMMON_NAME, "Sandbox TPP")])
    may_issue = [(BasicConstraints(ca=True, path_length=None), True)]
    own = make_certificate(key.public_key(), issuer=name, issuer_key=key, subject=name, extensions=may_issue)
    message = seal_wrongly(SimpleNamespace(certificate=own, key=key), covered=NEEDED)
    assert diagnose_request(message).outcome is Outcome.VERIFIES
    moved = with_own(message).with_headers(("X-Seal", encoded(own)))
    assert explained(diagnose_request(moved)) == ["certificate-header"]
    chain = with_own(message, f"{encoded(own)},{encoded(pki.qwac.certificate)}")
    assert explained(diagnose_request(chain)) == [FORM]


def test_an_authority_s_that_keyid_names_is_not_taken_behind_the_seal_s(pki: Pki) -> None:
    key_id = make_key_id(pki.qseal_ca.certificate)
    chain = f"{encoded(pki.qseal.certificate)},{encoded(pki.qseal_ca.certificate)}"
    message = with_own(seal_wrongly(pki.qseal, covered=NEEDED, key_id=key_id), chain)
    assert explained(diagnose_request(message)) == [FORM, "key-id-other"]


@pytest.mark.parametrize("header", [OWN.lower(), OWN.upper()])
@pytest.mark.parametrize("base", ["psd2-v1", "salt-edge"])
def test_a_row_that_writes_the_header_in_another_case_has_it_in_its_place(pki: Pki, header: str, base: str) -> None:
    row = replace(PROFILES[base], name="mine", certificate_header=header)
    message = with_own(seal_wrongly(pki.qseal, covered=NEEDED, string=lambda data: data + b"\n"))
    form = certificate_pem(pki.qseal.certificate) if base == "salt-edge" else pki.qseal.certificate.der
    diagnosis = diagnose_request(message.with_headers((OWN, b64encode(form).decode())), profile=row)
    assert "string-newline-after" in names(diagnosis)
    assert {"certificate-header", FORM}.isdisjoint(names(diagnosis))


def of_style(style: KeyIdStyle) -> SealProfile:
    return replace(PSD2_V1, name="mine", key_id=style)


def test_a_decimal_serial_beside_an_issuer_without_its_line_breaks_names_its_certificate(pki: Pki) -> None:
    issuer = Name([NameAttribute(NameOID.COMMON_NAME, "Big\nBank CA")])
    subject = pki.qseal.certificate.x509.subject
    own = make_certificate(pki.qseal.key.public_key(), issuer=issuer, issuer_key=pki.qseal_ca.key, subject=subject)
    style = KeyIdStyle(radix=Radix.DECIMAL, drops_newlines=True)
    message = seal_wrongly(
        SimpleNamespace(certificate=own, key=pki.qseal.key), covered=NEEDED, key_id=make_key_id(own, style=style)
    )
    moved = with_own(message).with_headers(("X-Seal", encoded(own)))
    assert explained(diagnose_request(moved, profile=of_style(style))) == ["certificate-header"]
    chain = with_own(message, f"{encoded(pki.qseal.certificate)},{encoded(own)}")
    assert explained(diagnose_request(chain, profile=of_style(style))) == [FORM]
    for other in (KeyIdStyle(drops_newlines=True), KeyIdStyle()):
        diagnosis = diagnose_request(message, profile=of_style(other))
        assert explained(diagnosis) == ["key-id-form"]
        assert "with the serial in decimal" in diagnosis.causes[0].evidence[0]
