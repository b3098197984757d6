"""Nothing is explained that is not proven, and nothing of a request makes the diagnosis fail or last."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Sequence

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import given, settings
from hypothesis import strategies as st
from wrong_signer import BY_NAME, SINGLE, pair, seal_wrongly

from tppkit._encoding import encode_base64
from tppkit.httpsig import Message
from tppkit.seals import PSD2_V1
from tppkit.seals.diagnose import Diagnosis, Outcome, diagnose_request
from tppkit.seals.diagnose.search import find_signed
from tppkit.testpki import Pki

UNKNOWN = ec.derive_private_key(987654321, ec.SECP256R1())
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
QUICK = 60_000  # work; the answer of a bounded search is never "explained" either


@settings(max_examples=40)
@given(case=st.sampled_from(SINGLE), data=st.binary(max_size=40))
def test_a_signature_by_an_unknown_key_is_never_explained(pki: Pki, case, data: bytes) -> None:
    steps = {name: step for name, step in case.steps.items() if name != "signer"}
    body = {} if "hashed" in steps else {"body": data or b"x"}  # what is done to a body may ask for a text or JSON
    message = seal_wrongly(pki.qseal, **body | steps, key=UNKNOWN)
    diagnosis = diagnose_request(message, certificates=[pki.qwac.certificate], max_work=QUICK)
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert diagnosis.signed is None


@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_an_unknown_string_is_not_explained(pkis: dict[str, Pki], kind: str) -> None:
    message = seal_wrongly(pkis[kind].qseal, string=lambda data: data[::-1])
    diagnosis = diagnose_request(message, max_work=QUICK)
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert diagnosis.signed is None
    assert diagnosis.causes == ()


def test_a_body_that_no_known_change_leads_to_is_not_explained_and_the_signature_excluded(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal)
    diagnosis = diagnose_request(message._replace(body=message.body.replace(b"12.50", b"99.50")))
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert any(text.startswith("the signature") for text in diagnosis.excluded)
    assert any("body" in text for text in diagnosis.advice)


def test_a_mistake_in_the_digest_does_not_explain_a_signature_that_fits_nothing(pki: Pki) -> None:
    steps = BY_NAME["json-python"].steps
    message = seal_wrongly(pki.qseal, string=lambda data: data[::-1], **steps)
    diagnosis = diagnose_request(message, max_work=QUICK)
    assert [cause.name for cause in diagnosis.causes] == ["json-python"]
    assert diagnosis.outcome is Outcome.UNEXPLAINED


def test_a_digest_of_something_else_does_not_explain_a_request_whose_string_is_wrong(pki: Pki) -> None:
    message = seal_wrongly(
        pki.qseal,
        hashed=lambda body: b"else",
        assemble=lambda lines: b"\r\n".join(f"{n}: {v}".encode() for n, v in lines),
    )
    diagnosis = diagnose_request(message)
    assert [cause.name for cause in diagnosis.causes] == ["string-crlf"]
    assert diagnosis.outcome is Outcome.UNEXPLAINED


@settings(max_examples=60)
@given(data=st.data())
def test_any_change_of_a_sealed_request_is_told_and_never_raises(pki: Pki, data: st.DataObject) -> None:
    message = seal_wrongly(pki.qseal)
    number = data.draw(st.integers(0, len(message.headers) - 1))
    name, value = message.headers[number]
    start = data.draw(st.integers(0, len(value)))
    end = data.draw(st.integers(start, len(value)))
    text = data.draw(st.text(st.characters(max_codepoint=255), max_size=12))
    changed = (name, value[:start] + text + value[end:])
    headers = (*message.headers[:number], changed, *message.headers[number + 1 :])
    diagnosis = diagnose_request(
        message._replace(headers=headers), certificates=[pki.qseal.certificate], max_work=QUICK
    )
    assert isinstance(diagnosis, Diagnosis)
    assert diagnosis.to_object()["outcome"] in ("verifies", "explained", "unexplained")


headers_of_anything = st.lists(
    st.tuples(st.sampled_from(["Signature", "Authorization", "Digest", "Date", "X", "TPP-Signature-Certificate"]),
    st.text(st.characters(max_codepoint=255), max_size=60)),
    max_size=6,
)  # fmt: skip


@settings(max_examples=100)
@given(
    method=st.text(max_size=6), target=st.text(max_size=20), headers=headers_of_anything, body=st.binary(max_size=60)
)
def test_a_request_of_anything_is_told_and_never_raises(
    pki: Pki, method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes
) -> None:
    message = Message(method, target, tuple(headers), body)
    diagnosis = diagnose_request(message, certificates=[pki.qseal.certificate], max_work=QUICK)
    assert diagnosis.outcome is not Outcome.VERIFIES


@pytest.mark.parametrize(
    "value",
    [
        'keyId="a",algorithm="rsa-sha256",headers="' + "a " * 2000 + '",signature="AAAA"',
        'keyId="' + "a" * 8000 + '"',
        "=" * 8192, 'a="' * 2000, ",".join(f"p{number}=1" for number in range(1000)),
    ],
)  # fmt: skip
def test_a_hostile_signature_header_costs_bounded_work(pki: Pki, value: str) -> None:
    message = Message(
        "POST", "/" + "a/" * 4000, (("Signature", value), ("Digest", "SHA-256=" + "A" * 5000)), b"[" * 20000
    )
    diagnosis = diagnose_request(message, certificates=[pki.qseal.certificate], max_work=QUICK)
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert diagnosis.tried <= QUICK


def test_a_long_body_and_a_long_list_of_headers_cost_bounded_work(pki: Pki) -> None:
    names = tuple(f"x-{number}" for number in range(400))
    headers = tuple((name, "v") for name in names)
    message = seal_wrongly(
        pki.qseal,
        headers=headers,
        covered=("digest", *names),
        body=b'{"a":[' + b"1, " * 1_000_000 + b"1]}",
        assemble=lambda lines: b"else",
    )
    diagnosis = diagnose_request(message._replace(body=message.body + b" "), certificates=[pki.qseal.certificate])
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert diagnosis.tried < 10


def test_the_search_stops_at_its_bound(pki: Pki) -> None:
    signature = random.Random(1).randbytes(64).hex()
    search = find_signed([], text=signature, certificates=[pki.qseal.certificate], profile=PSD2_V1, max_work=100)
    assert search.signed is None
    assert search.complete


def test_the_first_difference_and_white_space_are_shown(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal, **BY_NAME["string-crlf"].steps)
    diagnosis = diagnose_request(message)
    shown = diagnosis.to_object()
    assert diagnosis.expected is not None
    assert diagnosis.first_difference == diagnosis.expected.index(b"\n")
    assert "␍␊\n" in shown["signed_string"]
    assert "digest:·SHA-256=" in shown["signing_string"]
    assert all(character.isprintable() or character == "\n" for character in shown["signed_string"])


BLANKS = [" ", "\t", "\r", "\n", "\v", "\f", "\0"]


def seconds_of(message: Message, pki: Pki) -> float:
    started = time.process_time()
    diagnose_request(message, certificates=[pki.qseal.certificate], max_work=2_000)
    return time.process_time() - started


@pytest.mark.parametrize("blank", BLANKS, ids=repr)
def test_a_body_of_a_long_run_of_blanks_is_read_in_linear_time(pki: Pki, blank: str) -> None:
    message = seal_wrongly(pki.qseal)
    assert seconds_of(message._replace(body=blank.encode() * 500_000 + b"x"), pki) < 5


@pytest.mark.parametrize("blank", BLANKS, ids=repr)
@pytest.mark.parametrize("value", ['a={}"x', "signature='{}", 'keyId="a",headers="{}",signature="AAAA"', "{}a", "a{}"])
def test_a_signature_header_of_a_long_run_of_blanks_is_read_in_linear_time(pki: Pki, blank: str, value: str) -> None:
    message = Message("POST", "/", (("Signature", value.format(blank * 8000)),))
    assert seconds_of(message, pki) < 5


@pytest.mark.parametrize("blank", BLANKS, ids=repr)
def test_values_and_a_target_of_long_runs_of_blanks_are_read_in_linear_time(pki: Pki, blank: str) -> None:
    value = f"x{blank * 20_000}x"
    headers = (("Host", value), ("X-Request-ID", value), ("Date", value), ("X-Words", value))
    message = seal_wrongly(
        pki.qseal,
        target=f"/{value}",
        headers=headers,
        covered=("digest", "x-request-id", "(request-target)", "date", "host", "x-words"),
        string=lambda data: data[::-1],
    )
    assert seconds_of(message, pki) < 5


def both_algorithms(first: bytes, second: bytes) -> str:
    hashes = (hashlib.sha256(first).digest(), hashlib.sha512(second).digest())
    return ",".join(f"{name}={encode_base64(raw)}" for name, raw in zip(("SHA-256", "SHA-512"), hashes, strict=True))


@pytest.mark.parametrize("mistake", ["string-newline-after", None])
def test_each_algorithm_of_a_digest_is_judged_by_itself(pki: Pki, mistake: str | None) -> None:
    steps = BY_NAME[mistake].steps if mistake else {}
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, digest=lambda body: both_algorithms(body, b"else"), **steps))
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert any("SHA-512" in text for text in diagnosis.advice)
    explained = diagnose_request(
        seal_wrongly(pki.qseal, digest=lambda body: both_algorithms(body, body + b"\n"), **steps)
    )
    assert explained.outcome is Outcome.EXPLAINED
    assert "body-newline-added" in [cause.name for cause in explained.causes]


def test_each_cause_has_its_own_evidence(pki: Pki) -> None:
    message = seal_wrongly(pki.qseal, **pair("target-without-query", "string-newline-after").steps)
    diagnosis = diagnose_request(message)
    texts = [cause.evidence for cause in diagnosis.causes]
    assert len(set(texts)) == 2
    assert all(cause.evidence for cause in diagnosis.causes)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (lambda raw: "", "empty"),
        (lambda raw: "!!!!", "neither base64 nor hexadecimal"),
        (lambda raw: encode_base64(raw[:-1]), "255 bytes; an RSA-2048 key makes 256"),
        (lambda raw: encode_base64(raw[:32]), "HMAC with SHA-256"),
        (lambda raw: encode_base64(b"\xff" * 256), "smaller number than its modulus"),
    ],
)
def test_what_is_wrong_with_a_malformed_signature_is_told(rsa_pki: Pki, written, told: str) -> None:
    diagnosis = diagnose_request(seal_wrongly(rsa_pki.qseal, written=written), max_work=QUICK)
    assert diagnosis.outcome is Outcome.UNEXPLAINED
    assert told in " ".join(diagnosis.advice)
    assert diagnosis.tried == 0


@pytest.mark.parametrize("numbers", [(0, 0), (0, 1), (1, 0), (P256_ORDER, 1), (1, P256_ORDER), (2**4000, 2**4000)])
def test_numbers_that_no_signature_has_are_not_searched_for(pki: Pki, numbers: tuple[int, int]) -> None:
    message = seal_wrongly(pki.qseal, signer=lambda key, data: encode_dss_signature(*numbers))
    diagnosis = diagnose_request(message, max_work=QUICK)
    assert diagnosis.tried == 0
    assert "integers from 1 to below its order" in " ".join(diagnosis.advice)


@pytest.mark.parametrize("shape", ["\r\n", "\n"])
def test_further_certificates_of_one_curve_do_not_shorten_the_search(pki: Pki, shape: str) -> None:
    covered = ("digest", "x-request-id", "(request-target)")
    message = seal_wrongly(
        pki.qseal,
        covered=covered,
        lines=lambda lines: [lines[1], lines[2], lines[0]],
        assemble=lambda lines: "".join(f"{name}: {value}{shape}" for name, value in lines).encode(),
    )
    message = message._replace(headers=tuple(row for row in message.headers if not row[0].startswith("TPP-Sig")))
    own, others = pki.qseal.certificate, [pki.qwac.certificate]
    alone = diagnose_request(message, certificates=[own])
    together = diagnose_request(message, certificates=[own, *others])
    assert alone.tried == together.tried
    assert "order" in [cause.name for cause in together.causes]
    assert together.outcome is Outcome.EXPLAINED
