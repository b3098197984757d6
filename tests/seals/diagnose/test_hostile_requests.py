"""Nothing is explained without proof, nothing in a request raises, and nothing makes a diagnosis long."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import given, settings
from hypothesis import strategies as st
from sealing import REQUEST
from wrong_signer import SINGLE, seal_wrongly

from tppkit._encoding import encode_base64
from tppkit.message import Header, Message
from tppkit.seals import sign_request
from tppkit.seals.diagnose import DiagnosisOutcome, diagnose_request
from tppkit.testpki import Pki

pytestmark = pytest.mark.slow

UNKNOWN = ec.derive_private_key(987654321, ec.SECP256R1())
QUICK = 20_000  # work; the answer of a bounded search is never "explained" either
OTHERS = {"signature-missing"}  # without a signature there is nothing that another key could have made


@settings(max_examples=40)
@given(case=st.sampled_from([case for case in SINGLE if case.name not in OTHERS]), data=st.binary(max_size=40))
def test_a_signature_by_an_unknown_key_is_never_explained(pki, case, data):
    steps = {name: step for name, step in case.steps.items() if name != "signer"}
    body = {} if "hashed" in steps else {"body": data or b"x"}
    message = seal_wrongly(pki.qseal, **body | steps, key=UNKNOWN)
    diagnosis = diagnose_request(message, certificates=[pki.qwac.certificate], max_work=QUICK)
    assert (diagnosis.outcome, diagnosis.signed) == (DiagnosisOutcome.UNEXPLAINED, None)


@pytest.fixture(scope="module")
def sealed(pki: Pki) -> Message:
    """One for all examples: the length of a signature is random."""
    return seal_wrongly(pki.qseal)


@settings(max_examples=60)
@given(data=st.data())
def test_any_change_of_a_sealed_request_is_reported_and_never_raises(pki, sealed, data):
    message = sealed
    number = data.draw(st.integers(0, len(message.headers) - 1))
    name, value = message.headers[number]
    start = data.draw(st.integers(0, len(value)))
    end = data.draw(st.integers(start, len(value)))
    text = data.draw(st.text(st.characters(max_codepoint=255), max_size=12))
    headers = list(message.headers)
    headers[number] = (name, value[:start] + text + value[end:])
    message = message._replace(headers=tuple(headers))
    diagnosis = diagnose_request(message, certificates=[pki.qseal.certificate], max_work=QUICK)
    assert diagnosis.to_object()["outcome"] in ("verifies", "explained", "unexplained")


header_names = st.sampled_from(["Signature", "Authorization", "Digest", "Date", "X", "TPP-Signature-Certificate"])
header_values = st.text(st.characters(max_codepoint=255), max_size=60)


@settings(max_examples=100)
@given(
    method=st.text(max_size=6),
    target=st.text(max_size=20),
    headers=st.lists(st.tuples(header_names, header_values), max_size=6),
    body=st.binary(max_size=60),
)
def test_a_request_of_anything_is_reported_and_never_raises(pki, method, target, headers, body):
    message = Message(method, target, tuple(headers), body)
    diagnosis = diagnose_request(message, certificates=[pki.qseal.certificate], max_work=QUICK)
    assert diagnosis.outcome is not DiagnosisOutcome.VERIFIES


@pytest.mark.parametrize("written", ["", "!!!!", "A" * 20_000, encode_base64(b"x" * 63), encode_base64(encode_dss_signature(0, 0)),
    encode_base64(encode_dss_signature(2**4000, 2**4000))])  # fmt: skip
def test_a_malformed_signature_is_searched_for_within_the_bound(pki, written):
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, written=lambda raw: written), max_work=QUICK)
    assert diagnosis.outcome is DiagnosisOutcome.UNEXPLAINED
    assert diagnosis.tried <= QUICK


def seconds_of(message: Message, pki: Pki) -> float:
    started = time.process_time()
    assert (
        diagnose_request(message, certificates=[pki.qseal.certificate], max_work=2_000).outcome
        is not DiagnosisOutcome.VERIFIES
    )
    return time.process_time() - started


@pytest.mark.parametrize("blank", [" ", "\t", "\r", "\n", "\v", "\0"], ids=repr)
def test_long_runs_of_blanks_are_read_in_linear_time(pki, blank):
    message = seal_wrongly(pki.qseal)
    assert seconds_of(message._replace(body=blank.encode() * 500_000 + b"x"), pki) < 5
    for value in ('a={}"x', "signature='{}", 'keyId="a",headers="{}",signature="AAAA"', "{}a", "a{}"):
        assert seconds_of(Message("POST", "/", (("Signature", value.format(blank * 8000)),)), pki) < 5
    value = f"x{blank * 20_000}x"
    headers = (("Host", value), ("X-Request-ID", value), ("Date", value))
    covered = ("digest", "x-request-id", "(request-target)", "date", "host")
    assert seconds_of(seal_wrongly(pki.qseal, target=f"/{value}", headers=headers, covered=covered), pki) < 5


@pytest.mark.parametrize(
    "value",
    ['keyId="a",algorithm="rsa-sha256",headers="' + "a " * 2000 + '",signature="AAAA"', 'keyId="' + "a" * 8000 + '"', "=" * 8192,
     'a="' * 2000, ",".join(f"p{number}=1" for number in range(1000))],
)  # fmt: skip
def test_a_hostile_signature_header_costs_bounded_work(pki, value):
    headers = (("Signature", value), ("Digest", "SHA-256=" + "A" * 5000), ("TPP-Signature-Certificate", "%25" * 5000))
    diagnosis = diagnose_request(
        Message("POST", "/" + "a/" * 4000, headers, b"[" * 20_000), certificates=[pki.qseal.certificate]
    )
    assert diagnosis.outcome is DiagnosisOutcome.UNEXPLAINED


def test_a_long_body_and_many_covered_headers_cost_bounded_work(pki):
    covered = ("digest", *[f"x-{number}" for number in range(400)])
    headers = tuple((name, "v") for name in covered[1:])
    body = b'{"a":[' + b"1, " * 1_000_000 + b"1]}"
    message = seal_wrongly(pki.qseal, headers=headers, covered=covered, body=body, assemble=lambda lines: b"else")
    diagnosis = diagnose_request(message._replace(body=message.body + b" "), certificates=[pki.qseal.certificate])
    assert diagnosis.outcome is DiagnosisOutcome.UNEXPLAINED
    assert diagnosis.tried < 10


class Walked(tuple[Header, ...]):
    """Headers that count how often all of them are walked through."""

    walks = 0

    def __iter__(self) -> Iterator[Header]:
        type(self).walks += 1
        return super().__iter__()


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [[(f"X-{n}", "v") for n in range(5000)], [("X-Same", "v")] * 5000], ids=["many names", "one name"]
)
def test_the_headers_are_scanned_a_few_times_whatever_is_tried(seal, more):
    sealed = sign_request(REQUEST._replace(headers=(*REQUEST.headers, *more)), seal=seal)
    Walked.walks = 0
    diagnosis = diagnose_request(Message("POST", "/elsewhere", Walked(sealed.headers), sealed.body), max_work=200_000)
    assert (diagnosis.outcome, diagnosis.tried > 100) == (DiagnosisOutcome.UNEXPLAINED, True)
    assert Walked.walks < 150


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", ["/a" + "/b%2Fc" * 10_000, "/a?" + "&".join(f"key{n}=v%20{n}" for n in range(4500)), "/" + "%25" * 21_000]
)
def test_a_long_target_is_tried_in_fewer_ways(seal, target):
    sealed = sign_request(REQUEST._replace(target=target), seal=seal)
    diagnosis = diagnose_request(sealed._replace(target=f"/z{target[2:]}"), max_work=200_000)
    assert diagnosis.outcome is DiagnosisOutcome.UNEXPLAINED
    assert diagnosis.tried * (len(target) >> 7) < 2 * 200_000
    assert [cause.name for cause in diagnose_request(sealed._replace(target=f"/base{target}")).causes] == [
        "target-base-path-stripped"
    ]
