"""Mistakes with keys and certificates."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from wrong_signer import HEADERS, Case, seal_wrongly

from tppkit.seals import PROFILES, PSD2_V1
from tppkit.seals.certificate_header import CertificateForm, write_certificate
from tppkit.seals.diagnose import Diagnosis, Outcome, diagnose_request
from tppkit.seals.key_id import make_key_id
from tppkit.testpki import Issued, Pki

QUICK = 60_000  # work; what no known mistake explains is searched for no longer
KINDS = pytest.mark.parametrize("kind", ["ec", "rsa"])


def names(diagnosis: Diagnosis) -> list[str]:
    assert diagnosis.outcome is Outcome.EXPLAINED
    return [cause.name for cause in diagnosis.causes]


@KINDS
def test_the_key_of_the_qwac_is_named(pkis: dict[str, Pki], kind: str) -> None:
    own = pkis[kind]
    message = seal_wrongly(own.qseal, key=own.qwac.key)
    assert names(diagnose_request(message, certificates=[own.qwac.certificate])) == ["key-of-qwac"]


@KINDS
def test_without_that_certificate_it_is_not_explained(pkis: dict[str, Pki], kind: str) -> None:
    diagnosis = diagnose_request(seal_wrongly(pkis[kind].qseal, key=pkis[kind].qwac.key), max_work=QUICK)
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert "sealed with the QWAC's key" in diagnosis.advice[0]
    assert "--qwac" in diagnosis.advice[0]


@KINDS
def test_where_the_qwac_s_key_does_not_fit_either_that_is_said_first(
    pkis: dict[str, Pki], kind: str, other_qseal: Issued
) -> None:
    own = pkis[kind]
    other = other_qseal if kind == "ec" else own.other_qseal
    diagnosis = diagnose_request(seal_wrongly(own.qseal, key=other.key), qwac=own.qwac.certificate, max_work=QUICK)
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert "the QWAC's" in diagnosis.advice[0]
    assert "--cert" in diagnosis.advice[0]


def test_where_the_key_is_right_nothing_is_said_of_the_qwac(rsa_pki: Pki) -> None:
    message = seal_wrongly(rsa_pki.qseal, signed_target=lambda value: "unheard of")
    diagnosis = diagnose_request(message, max_work=QUICK)
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert not any("QWAC" in text for text in diagnosis.advice)


def test_a_wrong_day_of_the_week_in_date_is_named(pki: Pki) -> None:
    headers = tuple((name, "Tue, 01 Jun 2026 12:00:00 GMT" if name == "Date" else value) for name, value in HEADERS)
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, headers=headers))
    assert names(diagnosis) == ["header.date"]
    assert "wrong day of the week: 01 Jun 2026 is a Mon" in diagnosis.causes[0].sentence


@KINDS
def test_the_key_of_the_qwac_together_with_a_mistake_in_the_string(pkis: dict[str, Pki], kind: str) -> None:
    own = pkis[kind]
    message = seal_wrongly(own.qseal, key=own.qwac.key, signed_target=lambda value: value.partition("?")[0])
    diagnosis = diagnose_request(message, certificates=[own.qwac.certificate])
    assert names(diagnosis) == ["key-of-qwac", "target-without-query"]


def test_the_key_from_before_a_renewal_is_named(pki: Pki, other_qseal: Issued) -> None:
    message = seal_wrongly(pki.qseal, key=other_qseal.key)
    assert names(diagnose_request(message, certificates=[other_qseal.certificate])) == ["key-of-other"]


def test_a_key_id_of_another_certificate_is_named(pki: Pki, other_qseal: Issued) -> None:
    message = seal_wrongly(pki.qseal, key_id=make_key_id(other_qseal.certificate))
    diagnosis = diagnose_request(message, certificates=[other_qseal.certificate])
    assert names(diagnosis) == ["key-id-other"]
    assert f"{other_qseal.certificate.serial:X}" in diagnosis.causes[0].evidence[0]


def test_a_key_id_in_the_spelling_of_another_dialect_is_named(pki: Pki) -> None:
    decimal = make_key_id(pki.qseal.certificate, style=PROFILES["rabobank"].key_id)
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, key_id=decimal))
    assert names(diagnosis) == ["key-id-form"]
    assert "rabobank" in diagnosis.causes[0].evidence[0]


def test_a_request_sealed_with_the_qwac_itself_is_told(pki: Pki) -> None:
    assert names(diagnose_request(seal_wrongly(pki.qwac))) == ["certificate-not-seal"]


@KINDS
def test_an_hmac_with_the_public_key_is_told(pkis: dict[str, Pki], kind: str) -> None:
    own = pkis[kind].qseal
    secret = own.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    message = seal_wrongly(own, signer=lambda key, data: hmac.digest(secret, data, "sha256"))
    assert names(diagnose_request(message)) == ["hmac-with-public-key"]


def test_an_algorithm_of_another_kind_of_key_is_named(pkis: dict[str, Pki]) -> None:
    message = seal_wrongly(pkis["rsa"].qseal, algorithm="ecdsa-sha256")
    assert names(diagnose_request(message)) == ["algorithm-other-key"]


@pytest.mark.parametrize("form", [CertificateForm.PEM, CertificateForm.BASE64_PEM])
def test_a_certificate_in_another_form_is_named(pki: Pki, form: CertificateForm) -> None:
    text = write_certificate(pki.qseal.certificate, form)
    message = seal_wrongly(pki.qseal, covered=("digest", "x-request-id", "(request-target)"))
    headers = tuple((n, text if n == PSD2_V1.certificate_header else v) for n, v in message.headers)
    assert names(diagnose_request(message._replace(headers=headers))) == ["certificate-form"]


def test_a_certificate_in_another_header_is_named(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal)
    headers = tuple(
        ("TPP-Signing-Certificate" if n == PSD2_V1.certificate_header else n, v) for n, v in message.headers
    )
    assert names(diagnose_request(message._replace(headers=headers))) == ["certificate-header"]


def test_a_doubled_header_and_its_signed_first_value_are_named(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal)
    doubled = message._replace(headers=(*message.headers, ("X-Request-ID", "another")))
    assert names(diagnose_request(doubled)) == ["header-doubled", "value-first"]


def test_a_covered_header_that_did_not_arrive_is_named(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal, lines=lambda lines: [line for line in lines if line[0] != "x-words"])
    lost = message._replace(headers=tuple(header for header in message.headers if header[0] != "X-Words"))
    assert names(diagnose_request(lost)) == ["covered-absent"]


@KINDS
def test_a_covered_header_that_did_not_arrive_and_was_signed_as_empty_is_named(pkis: dict[str, Pki], kind: str) -> None:
    message = seal_wrongly(
        pkis[kind].qseal, lines=lambda lines: [(name, "" if name == "x-words" else value) for name, value in lines]
    )
    lost = message._replace(headers=tuple(header for header in message.headers if header[0] != "X-Words"))
    assert names(diagnose_request(lost)) == ["covered-absent", "absent-as-empty"]


def test_without_a_certificate_and_without_a_signature_that_is_said(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal)
    bare = message._replace(headers=message.headers[:4])
    diagnosis = diagnose_request(bare, certificates=[pki.qseal.certificate])
    assert [cause.name for cause in diagnosis.causes] == ["certificate-missing", "signature-missing"]
    unknown = message._replace(headers=tuple(header for header in message.headers if not header[0].startswith("TPP-S")))
    assert diagnose_request(unknown).outcome is Outcome.UNEXPLAINED


def test_a_signature_of_another_size_of_key_is_said_to_be_no_one_s(pki: Pki, rsa_pki: Pki) -> None:
    message = seal_wrongly(pki.qseal, key=rsa_pki.qseal.key)
    diagnosis = diagnose_request(message)
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert any("length" in text for text in diagnosis.advice)


def test_the_recovered_hash_is_told_when_the_text_is_not_found(rsa_pki: Pki) -> None:
    case = Case("", {"string": lambda data: b"something that nobody guesses"})
    diagnosis = diagnose_request(seal_wrongly(rsa_pki.qseal, **case.steps), max_work=QUICK)
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert diagnosis.recovered_hash == hashlib.sha256(b"something that nobody guesses").hexdigest()
    assert any(diagnosis.recovered_hash in text for text in diagnosis.advice)
