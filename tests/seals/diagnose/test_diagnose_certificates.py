"""The seal certificate among others, and in containers: the one that sealed is taken, and nothing that is sent escapes."""

from __future__ import annotations

import json
import re
import warnings
from base64 import b64encode, encodebytes
from time import process_time
from typing import Any
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7
from cryptography.x509 import Name, load_der_x509_certificate
from hypothesis import given
from hypothesis import strategies as st
from jws_signer import CARRIER, JWS, seal_jws, with_values, without
from sealing import issue_seal, make_certificate
from wrong_signer import seal_wrongly

from tppkit.certificates import EidasCertificate, der
from tppkit.httpsig import Message
from tppkit.seals import PROFILES, PSD2_V1
from tppkit.seals.diagnose import Diagnosis, Outcome, diagnose_request
from tppkit.seals.diagnose.sent_certificate import find_certificates
from tppkit.seals.key_id import make_key_id
from tppkit.testpki import Issued, Pki, certificate_pem

NEEDED = ("digest", "x-request-id", "(request-target)")
DATA = "1.2.840.113549.1.7.1"
SIGNED_DATA = "1.2.840.113549.1.7.2"


def explained(diagnosis: Diagnosis) -> list[str]:
    assert diagnosis.outcome is Outcome.EXPLAINED, diagnosis
    return [cause.name for cause in diagnosis.causes]


def with_certificate(message: Message, text: str) -> Message:
    headers = tuple((n, text if n == PSD2_V1.certificate_header else v) for n, v in message.headers)
    return message._replace(headers=headers)


def sealed_with(pki: Pki, raw: bytes) -> Message:
    return with_certificate(seal_wrongly(pki.qseal, covered=NEEDED), b64encode(raw).decode())


def container(*certificates: bytes) -> bytes:
    """PKCS#7 as `openssl crl2pkcs7` writes it: the certificates in the order in which they were given."""
    data = der.write_element(der.SEQUENCE, der.write_oid(DATA))
    sets = [der.write_element(der.SET), data, der.write_element(0xA0, *certificates), der.write_element(der.SET)]
    signed = der.write_element(der.SEQUENCE, der.write_integer(1), *sets)
    return der.write_element(der.SEQUENCE, der.write_oid(SIGNED_DATA), der.write_element(0xA0, signed))


def test_a_container_without_certificates_is_told_and_nothing_escapes(pki: Pki) -> None:
    content = der.write_element(0xA0, der.write_element(der.OCTET_STRING, b"hi\n"))
    data = der.write_element(der.SEQUENCE, der.write_oid(DATA), content)  # what `openssl cms -data_create` writes
    for raw in (data, container(), der.write_element(der.SEQUENCE), der.write_element(der.SEQUENCE, data)):
        diagnosis = diagnose_request(sealed_with(pki, raw), certificates=[pki.qseal.certificate])
        assert explained(diagnosis) == ["certificate-form"]
        assert "holds no certificate" in diagnosis.causes[0].evidence[0]


def test_a_container_is_read_without_a_warning_whatever_its_order(pki: Pki) -> None:
    leaf, authority = pki.qseal.certificate.der, pki.qseal_ca.certificate.der
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diagnosis = diagnose_request(sealed_with(pki, container(leaf, authority)))
    assert explained(diagnosis) == ["certificate-form"]
    assert "PKCS#7" in diagnosis.causes[0].evidence[0]


@given(st.data())
def test_nothing_that_a_damaged_container_holds_escapes(pki: Pki, data: st.DataObject) -> None:
    raw = bytearray(pkcs7.serialize_certificates([load_der_x509_certificate(pki.qseal.certificate.der)], Encoding.DER))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, 60))] = data.draw(st.integers(0, 255))
    sent = find_certificates(sealed_with(pki, bytes(raw)), profile=PSD2_V1)
    assert sent.faults
    assert sent.seal is None or sent.seal.der


def chains(pki: Pki) -> dict[str, str]:
    """The authority's certificate before the seal's, in each form that can hold both."""
    leaf, authority = pki.qseal.certificate, pki.qseal_ca.certificate
    pem = certificate_pem(authority) + certificate_pem(leaf)
    parted = [b64encode(one.der).decode() for one in (authority, leaf)]
    return {
        "commas": ", ".join(parted),
        "colons": ", ".join(f":{one}:" for one in parted),
        "escaped": quote(pem.decode()),
        "base64 of PEM": b64encode(pem).decode(),
        "container": b64encode(container(authority.der, leaf.der)).decode(),
    }


@pytest.mark.parametrize("form", ["commas", "colons", "escaped", "base64 of PEM", "container"])
@pytest.mark.parametrize("given_too", [False, True], ids=["sent", "given too"])
def test_the_seal_s_certificate_is_found_behind_that_of_its_authority(pki: Pki, form: str, given_too: bool) -> None:
    message = with_certificate(seal_wrongly(pki.qseal, covered=NEEDED), chains(pki)[form])
    known = [pki.qseal.certificate] if given_too else []
    diagnosis = diagnose_request(message, certificates=known)
    assert explained(diagnosis) == ["certificate-form"]
    assert "number 2 of 2" in diagnosis.causes[0].evidence[0]


WRAPPED = {
    "base64 twice": (lambda raw: b64encode(b64encode(raw)).decode(), "base64 of DER, in base64 once more"),
    "base64 of PEM, twice": (lambda raw: b64encode(b64encode(pem(raw).encode())).decode(), "base64 of PEM, in base64 once more"),
    "escapes": (lambda raw: quote(b64encode(raw), safe=""), "base64 of DER, percent-encoded"),
    "escaped twice": (lambda raw: quote(quote(pem(raw))), "PEM in percent escapes, as proxies forward it, percent-encoded"),
    "literal line breaks": (lambda raw: pem(raw).replace("\n", r"\n"), r"PEM without its line breaks, .*, with line breaks written as \\n"),
    "quotes": (lambda raw: f'"{b64encode(raw).decode()}"', "base64 of DER, in quotes"),
    "single quotes": (lambda raw: f"'{b64encode(raw).decode()}' ", "base64 of DER, in quotes"),
    "a JSON string": (lambda raw: json.dumps(pem(raw).replace("\n", "\r\n")), r"PEM .*, with line breaks written as \\n, in quotes"),
    "base64 with literal line breaks": (lambda raw: encodebytes(raw).decode().replace("\n", r"\n"), r"base64 of DER, with line .* \\n"),
    "base64 of literal line breaks": (
        lambda raw: b64encode(pem(raw).replace("\n", r"\n").encode()).decode(),
        r"PEM .*, with line breaks written as \\n, in base64 once more",
    ),
}  # fmt: skip


def pem(raw: bytes) -> str:
    return certificate_pem(EidasCertificate.from_der(raw)).decode()


@pytest.mark.parametrize("name", WRAPPED)
def test_a_certificate_that_was_encoded_once_more_is_unwrapped_and_the_rest_is_diagnosed(pki: Pki, name: str) -> None:
    wrap, told = WRAPPED[name]
    text = wrap(pki.qseal.certificate.der)
    diagnosis = diagnose_request(with_certificate(seal_wrongly(pki.qseal, covered=NEEDED), text))
    assert explained(diagnosis) == ["certificate-form"]
    assert re.fullmatch(f"it is {told}, the dialect has base64 of DER", diagnosis.causes[0].evidence[0])
    wrong = seal_wrongly(pki.qseal, covered=NEEDED, signed_target=lambda value: value.partition("?")[0])
    assert explained(diagnose_request(with_certificate(wrong, text))) == ["certificate-form", "target-without-query"]


def test_what_a_cause_explains_is_not_repeated_as_advice(pki: Pki) -> None:
    text = WRAPPED["base64 twice"][0](pki.qseal.certificate.der)
    sealed = with_certificate(seal_wrongly(pki.qseal, covered=NEEDED), text)
    diagnosis = diagnose_request(sealed._replace(body=b'{"other":1}'))
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert [cause.name for cause in diagnosis.causes] == ["certificate-form"]
    assert diagnosis.advice[0].startswith("The body that arrived is not the one that was hashed")


def test_what_was_wrapped_more_often_than_is_looked_for_is_no_certificate(pki: Pki) -> None:
    raw = pki.qseal.certificate.der
    for _ in range(6):
        raw = b64encode(raw)
    diagnosis = diagnose_request(with_certificate(seal_wrongly(pki.qseal, covered=NEEDED), raw.decode()))
    assert [cause.name for cause in diagnosis.causes] == ["certificate-form"]
    assert "no certificate that can be read" in diagnosis.causes[0].evidence[0]


def x5c(*certificates: EidasCertificate) -> dict[str, Any]:
    return {"header": with_values(x5c=[b64encode(one.der).decode() for one in certificates])}


def test_of_several_certificates_the_one_that_the_signature_names_is_taken(pki: Pki, other_qseal: Issued) -> None:
    own, other = pki.qseal.certificate, other_qseal.certificate
    in_x5c = diagnose_request(seal_jws(pki, **x5c(other, own)), profile=JWS)
    assert explained(in_x5c) == ["certificate-order"]
    both = ",".join(b64encode(one.der).decode() for one in (other, own))
    message = with_certificate(seal_wrongly(pki.qseal, covered=NEEDED), both)
    assert explained(diagnose_request(message)) == ["certificate-form"]
    decimal = make_key_id(own, style=PROFILES["rabobank"].key_id)
    message = with_certificate(seal_wrongly(pki.qseal, covered=NEEDED, key_id=decimal), both)
    assert explained(diagnose_request(message)) == ["certificate-form", "key-id-form"]


@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_where_none_is_named_the_one_that_is_for_seals_is_taken(pkis: dict[str, Pki], kind: str) -> None:
    own = pkis[kind]
    chain = [b64encode(one.certificate.der).decode() for one in (own.qwac, own.qseal)]
    unnamed = {"header": lambda header: with_values(x5c=chain)(without("x5t#S256", "kid")(header))}
    for steps, more in (({}, []), ({"lines": "{}\n".format}, ["string-newline-after"])):
        diagnosis = diagnose_request(seal_jws(own, **unnamed, **steps), profile=JWS)
        assert sorted(explained(diagnosis)) == sorted(["certificate-order", "jws-parameter", *more])


@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_the_key_of_another_certificate_that_was_sent_may_have_signed(pkis: dict[str, Pki], kind: str) -> None:
    own = pkis[kind]
    both = ",".join(b64encode(one.certificate.der).decode() for one in (own.qwac, own.qseal))
    by_qwac = seal_wrongly(own.qseal, key=own.qwac.key, covered=NEEDED)
    assert "key-of-qwac" in explained(diagnose_request(with_certificate(by_qwac, both)))


def test_what_is_for_seals_is_taken_unnamed_only_where_everything_can_be_read(pki: Pki) -> None:
    qwac, qseal = (b64encode(one.certificate.der).decode() for one in (pki.qwac, pki.qseal))
    own, other = pki.qseal.certificate, pki.qwac.certificate
    for texts, taken in ((["AAAA", qwac, qseal], None), ([qwac, qseal, "AAAA"], None), ([qwac, qseal, qwac], own)):
        message = with_certificate(seal_wrongly(pki.qseal, covered=NEEDED), ",".join(texts))
        sent = find_certificates(message, profile=PSD2_V1)
        assert (sent.seal, sent.others) == (taken, (other,) if taken else (other, own))
        assert find_certificates(message, profile=PSD2_V1, key_ids=[make_key_id(own)]).seal == own


def test_another_certificate_is_not_taken_for_a_seal_s_that_cannot_be_read(pki: Pki, other_qseal: Issued) -> None:
    authority, other = (b64encode(one.der).decode() for one in (pki.qseal_ca.certificate, other_qseal.certificate))
    for chain in (["AAAA", authority], [authority, "AAAA"], ["AAAA", other]):
        message = with_certificate(seal_wrongly(pki.qseal, covered=NEEDED), ",".join(chain))
        for known in ([], [pki.qseal.certificate]):
            diagnosis = diagnose_request(message, certificates=known)
            assert [cause.name for cause in diagnosis.causes] == ["certificate-form"]
            assert diagnosis.causes[0].evidence[0].endswith("holds a certificate that cannot be read")


def test_an_object_in_x5c_is_not_told_as_nothing(pki: Pki) -> None:
    message = seal_jws(pki, header=with_values(x5c={"a": 1}))
    diagnosis = diagnose_request(message, profile=JWS, certificates=[pki.qseal.certificate])
    assert explained(diagnosis) == ["certificate-form"]


def elsewhere(message: Message, name: str, text: str) -> Message:
    """The same without the dialect's own header, and with another."""
    others = [header for header in message.headers if header[0] != PSD2_V1.certificate_header]
    return message._replace(headers=(*others, (name, text)))


HEADERS = ["X-Signature-Certificate", "Client-Cert", "X-SSL-Cert", "Signature-Certificate", "Cookie", "x5c"]


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("given_too", [False, True], ids=["sent", "given too"])
def test_the_named_certificate_is_found_in_whatever_header(pki: Pki, name: str, given_too: bool) -> None:
    own = pki.qseal.certificate
    known = [own] if given_too else []
    texts = (b64encode(own.der).decode(), quote(certificate_pem(own).decode()), *chains(pki).values())
    for steps, more in (({}, []), ({"signed_target": lambda value: value.partition("?")[0]}, ["target-without-query"])):
        for number, text in enumerate(texts):
            message = elsewhere(seal_wrongly(pki.qseal, covered=NEEDED, **steps), name, text)
            diagnosis = diagnose_request(message, certificates=known)
            form = ["certificate-form"] if number else []
            assert explained(diagnosis) == ["certificate-header", *form, *more]
            assert (
                diagnosis.causes[0].evidence[0] == f"it stands in the header {name}, not in TPP-Signature-Certificate"
            )
    jws = seal_jws(pki, header=without("x5c")).with_headers((name, texts[0]))
    assert explained(diagnose_request(jws, profile=JWS, certificates=known)) == ["certificate-header"]


def test_it_is_found_behind_two_values_of_its_own_header_that_cannot_be_read(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal, covered=NEEDED)
    own = str(PSD2_V1.certificate_header)
    thrice = message._replace(headers=((own, "x"), (own, "y"), *message.headers))
    assert explained(diagnose_request(thrice)) == ["certificate-order", "header-doubled"]


def test_one_for_websites_that_a_gateway_forwards_is_not_taken_for_it(pki: Pki) -> None:
    qwac = b64encode(pki.qwac.certificate.der).decode()
    message = elsewhere(seal_wrongly(pki.qseal, covered=NEEDED), "Client-Cert", qwac)
    assert explained(diagnose_request(message, certificates=[pki.qseal.certificate])) == ["signature.missing"]
    by_qwac = elsewhere(seal_wrongly(pki.qseal, key=pki.qwac.key, covered=NEEDED), "Client-Cert", qwac)
    told = explained(diagnose_request(by_qwac, certificates=[pki.qseal.certificate]))
    assert told == ["key-of-qwac", "signature.missing"]  # what the verifier says of the header


def test_nothing_is_told_as_missing_beside_what_may_be_it(pki: Pki, other_qseal: Issued) -> None:
    unnamed = seal_wrongly(pki.qseal, covered=NEEDED, key_id="a-client-id")
    own, other = (b64encode(one.der).decode() for one in (pki.qseal.certificate, other_qseal.certificate))
    plain = b64encode(issue_seal(pki, pki.qseal.key.public_key(), extensions=()).der).decode()
    for text in (own, other, plain, own[:-40], f"{own}=", f"-----BEGIN CERTIFICATE-----{own[:300]}", f'["{own}"]'):
        diagnosis = diagnose_request(elsewhere(unnamed, "X-Seal-Cert", text))
        assert diagnosis.outcome is Outcome.UNEXPLAINED
        assert diagnosis.causes == ()
    unread = seal_jws(pki, header=without("x5c")).with_headers(("X-Signature", "%" * 300))
    told = diagnose_request(unread, profile=JWS, certificates=[pki.qseal.certificate])
    assert "certificate-missing" not in [cause.name for cause in told.causes]


def test_an_unnamed_certificate_in_some_header_is_not_told_as_the_seal_s(pki: Pki, other_qseal: Issued) -> None:
    message = seal_wrongly(pki.qseal, covered=NEEDED)
    for other in (other_qseal.certificate, issue_seal(pki, other_qseal.key.public_key(), extensions=())):
        beside = elsewhere(message, "X-Other", b64encode(other.der).decode())
        diagnosis = diagnose_request(beside, certificates=[pki.qseal.certificate])
        assert {"certificate-header", "key-id-other", "key-of-other"}.isdisjoint(c.name for c in diagnosis.causes)


def test_of_more_certificates_than_are_tried_that_is_said(pki: Pki, other_qseal: Issued) -> None:
    message = seal_wrongly(pki.qseal, covered=NEEDED, string=lambda data: b"something else")
    several = [issue_seal(pki, other_qseal.key.public_key(), serial=number) for number in range(7, 12)]
    chain = ",".join(b64encode(one.der).decode() for one in (*several, pki.qseal.certificate))
    told = diagnose_request(with_certificate(message, chain), max_work=2000)
    assert told.notes == (
        "the request carries 5 certificates besides the seal's; the keys of no more than 3 are tried",
    )
    many = message._replace(headers=(*message.headers, *[(f"X-{n}", chain) for n in range(9)]))
    assert any("more values may hold certificates" in text for text in diagnose_request(many, max_work=2000).notes)
    bare = message._replace(headers=tuple(row for row in many.headers if row[0] != PSD2_V1.certificate_header))
    hidden = bare._replace(headers=tuple((n, "MII" + "A" * 300 if n.startswith("X-") else v) for n, v in bare.headers))
    told = diagnose_request(hidden, certificates=[pki.qseal.certificate], max_work=2000)
    assert [cause.name for cause in told.causes] == ["signature.missing"]  # what the verifier says of the header alone


def test_many_certificates_under_a_long_key_id_are_compared_soon(pki: Pki) -> None:
    key = ec.derive_private_key(1234567, ec.SECP256R1())
    names = [Name.from_rfc4514_string(f"CN={number}") for number in range(40)]
    made = [make_certificate(key.public_key(), issuer=name, issuer_key=key, subject=name, serial=5) for name in names]
    encoded = [b64encode(one.der).decode() for one in made]
    long = f"SN=5,CA={'/C=D' * 1020}"[:4000] + "\\x2C"
    message = with_certificate(seal_wrongly(pki.qseal, covered=NEEDED, key_id=long), ",".join(encoded))
    jws = seal_jws(pki, header=with_values(x5c=encoded))
    several = [(f"X-Signature-{number}", dict(jws.headers)[CARRIER]) for number in range(100)]
    begin = process_time()
    for one in (message, message._replace(headers=(*message.headers, *several))):
        assert diagnose_request(one, max_work=2000).outcome is Outcome.UNEXPLAINED
    assert (
        process_time() - begin < 6
    )  # a twentieth of that; one that reads the keyId for every certificate takes twice as long


def test_a_key_that_no_verifier_takes_is_not_raised_to_its_power(pki: Pki) -> None:
    size = 12_000
    public = RSAPublicNumbers(e=2**size - 189, n=2**size - 1).public_key()
    huge = issue_seal(pki, public)
    signature = b64encode(b"\1" * (size // 8)).decode()
    message = with_certificate(seal_wrongly(pki.qseal, written=lambda raw: signature), b64encode(huge.der).decode())
    begin = process_time()
    assert diagnose_request(message).outcome is Outcome.UNEXPLAINED
    assert process_time() - begin < 4  # milliseconds; the power takes some ten seconds
