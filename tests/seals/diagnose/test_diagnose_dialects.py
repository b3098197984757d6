"""Requests sealed in one bank's dialect and judged by another's."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives import hashes
from wrong_signer import joined, seal_wrongly, with_hash

from tppkit.httpsig import KeySigner, Message
from tppkit.httpsig.algorithms import key_kind
from tppkit.seals import PROFILES, PSD2_V1, Format, KeyIdForm, Seal, prepare_request, sign_request
from tppkit.seals.diagnose import Outcome, diagnose_request
from tppkit.testpki import Pki

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
REQUEST = Message(
    "POST",
    "/psd2/v1/payments?x=1",
    (
        ("Host", "bank.example"), ("X-Request-ID", "7f9c24e8-3b12-4f6b-9d3a-0c1f1e9b6a55"), ("TPP-Request-ID", "4711"),
        ("X-ING-ReqID", "4711"), ("X-Amz-Access-Token", "t"), ("Date", "Mon, 01 Jun 2026 12:00:00 GMT"), ("Content-Type",
         "application/json"),
    ),
    b'{"a":1}',
)  # fmt: skip


def sealed(pki: Pki, name: str) -> Message:
    profile = PROFILES[name]
    algorithm = next(iter(profile.algorithms_of(key_kind(pki.qseal.key)).values()))
    texts = {KeyIdForm.CLIENT_ID: "client-4711", KeyIdForm.URL: "https://tpp.example/seal.pem"}
    signer = KeySigner(pki.qseal.key, algorithm=algorithm.name)
    seal = Seal(pki.qseal.certificate, signer, profile=profile, key_id=texts.get(profile.key_id.form))
    return sign_request(REQUEST, seal=seal, at=AT)


@pytest.mark.parametrize("name", PROFILES)
def test_a_request_verifies_in_its_own_dialect(rsa_pki: Pki, name: str) -> None:
    diagnosis = diagnose_request(
        sealed(rsa_pki, name), certificates=[rsa_pki.qseal.certificate], profile=PROFILES[name], at=AT
    )
    assert diagnosis.outcome is Outcome.VERIFIES


@pytest.mark.parametrize("name", [name for name in PROFILES if name != PSD2_V1.name])
def test_another_dialect_is_named(rsa_pki: Pki, name: str) -> None:
    diagnosis = diagnose_request(sealed(rsa_pki, name), certificates=[rsa_pki.qseal.certificate], at=AT)
    assert diagnosis.outcome is Outcome.EXPLAINED
    assert [cause.name for cause in diagnosis.causes] == ["other-dialect"]
    assert name in diagnosis.causes[0].evidence[0]


def test_a_seal_of_another_format_that_does_not_hold_is_told_and_not_explained(rsa_pki: Pki) -> None:
    message = sealed(rsa_pki, "amazon")._replace(body=b"{}")
    diagnosis = diagnose_request(message, certificates=[rsa_pki.qseal.certificate], profile=PROFILES["amazon"], at=AT)
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert "digest.mismatch" in diagnosis.advice[0]


def test_too_much_coverage_is_named_beside_what_else_is_wrong(pki: Pki) -> None:
    covered = ("digest", "x-request-id", "content-type")
    message = seal_wrongly(pki.qseal, covered=covered, assemble=joined("\r\n"))
    diagnosis = diagnose_request(message, profile=PROFILES["berlin-group"])
    assert [cause.name for cause in diagnosis.causes] == ["uncovered", "covered-too-much", "string-crlf"]


def test_an_old_seal_is_refused_for_its_age_only_when_a_time_is_given(rsa_pki: Pki) -> None:
    message = sealed(rsa_pki, "bng")
    later = datetime(2026, 7, 1, tzinfo=UTC)
    assert diagnose_request(message, profile=PROFILES["bng"]).outcome is Outcome.VERIFIES
    diagnosis = diagnose_request(message, profile=PROFILES["bng"], at=later)
    assert [cause.name for cause in diagnosis.causes] == ["signature.expired"]


def test_an_expired_seal_with_a_mistake_in_its_string_is_told_both(rsa_pki: Pki) -> None:
    covered = ("(request-target)", "date", "digest")
    message = seal_wrongly(rsa_pki.qseal, covered=covered, assemble=joined(after="\n"))
    at, known = datetime(2027, 6, 1, tzinfo=UTC), [rsa_pki.qseal.certificate]
    diagnosis = diagnose_request(message, profile=PROFILES["ing"], at=at, certificates=known)
    assert {"string-newline-after", "signature.expired"} <= {cause.name for cause in diagnosis.causes}


def test_what_another_dialect_lacks_for_the_one_asked_is_said(rsa_pki: Pki) -> None:
    diagnosis = diagnose_request(sealed(rsa_pki, "berlin-group"))
    (cause,) = diagnosis.causes
    assert "(request-target)" in " ".join(cause.evidence)
    assert "Cover it" in cause.mend


@pytest.mark.parametrize("system", [0, 3, 255], ids=["Java 15", "gzip", "Java 16"])
def test_a_body_that_was_hashed_compressed_is_found_whichever_writer_compressed_it(system: int, pki: Pki) -> None:
    def compressed(body: bytes) -> bytes:
        whole = gzip.compress(body, compresslevel=6, mtime=0)
        return whole[:8] + bytes((0, system)) + whole[10:]

    diagnosis = diagnose_request(seal_wrongly(pki.qseal, hashed=compressed))
    assert [cause.name for cause in diagnosis.causes] == ["body-gzipped"]


OTHERS = [row.name for row in PROFILES.values() if row.format is not Format.CAVAGE]


@pytest.mark.parametrize("name", OTHERS)
def test_a_changed_body_of_another_format_is_explained(rsa_pki: Pki, name: str) -> None:
    message = sealed(rsa_pki, name)
    diagnosis = diagnose_request(
        message._replace(body=message.body + b"\n"),
        certificates=[rsa_pki.qseal.certificate],
        profile=PROFILES[name],
        at=AT,
    )
    assert [cause.name for cause in diagnosis.causes] == ["body-newline-dropped"]
    assert diagnosis.outcome is Outcome.EXPLAINED
    assert diagnosis.expected is not None


@pytest.mark.parametrize("name", OTHERS)
def test_a_line_feed_after_the_signing_string_of_another_format_is_explained(rsa_pki: Pki, name: str) -> None:
    profile = PROFILES[name]
    algorithm = next(iter(profile.algorithms_of(key_kind(rsa_pki.qseal.key)).values()))
    signer = KeySigner(rsa_pki.qseal.key, algorithm=algorithm.name)
    texts = {KeyIdForm.CLIENT_ID: "client-4711", KeyIdForm.URL: "https://tpp.example/seal.pem"}
    seal = Seal(rsa_pki.qseal.certificate, signer, profile=profile, key_id=texts.get(profile.key_id.form))
    prepared = prepare_request(REQUEST, seal=seal, at=AT)
    message = prepared.finish(signer.sign(prepared.signing_string + b"\n"))
    diagnosis = diagnose_request(message, certificates=[rsa_pki.qseal.certificate], profile=profile, at=AT)
    assert [cause.name for cause in diagnosis.causes] == ["string-newline-after"]
    assert diagnosis.outcome is Outcome.EXPLAINED


def mend_of(pki: Pki, sent: str, asked: str) -> tuple[str, str]:
    """What is said of a right request of one dialect by another: the evidence, and the mend."""
    known = [pki.qseal.certificate]
    (cause,) = diagnose_request(sealed(pki, sent), profile=PROFILES[asked], certificates=known, at=AT).causes
    assert cause.name == "other-dialect"
    return " ".join(cause.evidence), cause.mend


def test_everything_that_another_dialect_lacks_for_the_one_asked_is_said(rsa_pki: Pki) -> None:
    evidence, mend = mend_of(rsa_pki, "psd2-v1", "meo")
    assert "it stands in TPP-Signature-Certificate, not in TPP-Signing-Certificate" in evidence
    assert "Cover what the dialect names, and nothing else." in mend
    evidence, mend = mend_of(rsa_pki, "psd2-v1", "ing-token")
    assert "it stands in Signature, the dialect has it in Authorization" in evidence
    assert "it is base64 of DER, the dialect has PEM" in evidence
    assert {"in the dialect's form", "in the header that the dialect names", "Cover it"} == {
        text for text in ("in the dialect's form", "in the header that the dialect names", "Cover it") if text in mend
    }
    evidence, mend = mend_of(rsa_pki, "psd2-v1", "rabobank")
    assert 'the Digest header is by "SHA-256"; the profile rabobank takes only sha-512' in evidence
    assert "Hash with the algorithm that the dialect names" in mend
    evidence, _ = mend_of(rsa_pki, "cavage-12", "psd2-v1")
    assert "RSASSA-PSS where PKCS#1 is due" in evidence
    assert "cannot cover (created)" in evidence


def test_nothing_is_said_to_lack_that_both_dialects_have(rsa_pki: Pki) -> None:
    evidence, mend = mend_of(rsa_pki, "berlin-group", "psd2-v1")
    assert evidence.count("for psd2-v1:") == 1
    assert mend.startswith("For psd2-v1: Cover it: ")
    evidence, _ = mend_of(rsa_pki, "berlin-group", "meo")
    assert evidence.count("for meo:") == 1


def test_a_dialect_of_another_rule_for_empty_bodies_is_told_with_its_rule(rsa_pki: Pki) -> None:
    profile = PROFILES["wso2"]
    signer = KeySigner(rsa_pki.qseal.key, algorithm="rsa-sha256")
    seal = Seal(rsa_pki.qseal.certificate, signer, profile=profile)
    message = sign_request(REQUEST._replace(method="GET", body=b""), seal=seal, at=AT)
    triodos = diagnose_request(message, profile=PROFILES["triodos"], at=AT)
    (cause,) = triodos.causes
    assert cause.name == "other-dialect"
    assert "{}" in " ".join(cause.evidence)


def test_a_digest_by_another_algorithm_than_the_dialect_has_is_told(rsa_pki: Pki) -> None:
    covered = ("date", "digest", "x-request-id", "tpp-redirect-uri")
    message = seal_wrongly(
        rsa_pki.qseal, covered=covered, assemble=joined("\r\n"), algorithm="rsa-sha512", signer=with_hash(hashes.SHA512()),
        key_id=str(rsa_pki.qseal.certificate.serial),
    )  # fmt: skip
    diagnosis = diagnose_request(message, profile=PROFILES["rabobank"])
    assert diagnosis.outcome is Outcome.EXPLAINED
    assert [cause.name for cause in diagnosis.causes] == ["digest-algorithm", "string-crlf"]
