"""The Content-Digest field."""

from __future__ import annotations

import hashlib
from contextlib import suppress

import pytest
from http_message_signatures import ContentDigest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError, SignatureRejected
from tppkit.httpsig.digest import make_content_digest, parse_content_digest, verify_content_digest

HELLO = b'{"hello": "world"}'
HELLO_256 = "X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE="


def fault(value: str) -> str:
    with pytest.raises((FormatError, SignatureRejected)) as caught:
        verify_content_digest(value, HELLO)
    return caught.value.code


def test_a_digest_is_made_of_the_raw_body() -> None:
    assert make_content_digest(HELLO) == f"sha-256=:{HELLO_256}:"


@pytest.mark.parametrize("algorithm", ["SHA-256", "sha-1", "md5", ""])
def test_an_algorithm_that_proves_nothing_is_not_written(algorithm: str) -> None:
    with refused(ConfigurationError, "digest.unknown-algorithm"):
        make_content_digest(HELLO, algorithm=algorithm)


@given(st.binary(), st.sampled_from(["sha-256", "sha-512"]))
def test_a_digest_we_make_verifies_and_reads_back(body: bytes, algorithm: str) -> None:
    value = make_content_digest(body, algorithm=algorithm)
    assert verify_content_digest(value, body) == (algorithm,)
    assert parse_content_digest(value) == {algorithm: hashlib.new(algorithm.replace("-", ""), body).digest()}


@given(st.binary(), st.binary())
def test_a_digest_fits_its_own_body_only(body: bytes, other: bytes) -> None:
    if body != other:
        with refused(SignatureRejected, "digest.mismatch"):
            verify_content_digest(make_content_digest(body), other)


def test_all_known_algorithms_are_compared_and_unknown_ones_skipped() -> None:
    value = f"{make_content_digest(HELLO, algorithm='sha-512')}, md5=:YQ==:, sha-256=:{HELLO_256}:"
    assert verify_content_digest(value, HELLO) == ("sha-512", "sha-256")


@pytest.mark.parametrize("wrong", ["sha-256", "sha-512"])
def test_one_digest_that_does_not_fit_is_enough_to_refuse(wrong: str) -> None:
    right = "sha-512" if wrong == "sha-256" else "sha-256"
    value = f"{make_content_digest(HELLO, algorithm=right)}, {make_content_digest(b'', algorithm=wrong)}"
    assert fault(value) == "digest.mismatch"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", "digest.unsupported"),
        ("md5=:YQ==:", "digest.unsupported"),
        ("sha=:YQ==:", "digest.unsupported"),
        ("sha-256=:YQ==:", "digest.malformed"),
        ("sha-256", "digest.malformed"),
        ("sha-256=1", "digest.malformed"),
        (f'sha-256="{HELLO_256}"', "digest.malformed"),
        (f"sha-256=(:{HELLO_256}:)", "digest.malformed"),
        (f"sha-256=:{HELLO_256}:;q=1", "digest.malformed"),
        (f"sha-512=:{HELLO_256}:", "digest.malformed"),
        (f"sha-256=:{HELLO_256}:, md5=1", "digest.malformed"),
        (f"SHA-256=:{HELLO_256}:", "structured.malformed"),
        (f"sha-256={HELLO_256}", "structured.malformed"),
        (f"sha-256=:{HELLO_256}:,", "structured.malformed"),
        (f"sha-256=:{HELLO_256}:, sha-256=:{HELLO_256}:", "structured.duplicate"),
        (f"sha-256=:{HELLO_256[:-1]}:", "base64.malformed"),
        (f"sha-256=:{HELLO_256.replace('PE=', 'PF=')}:", "base64.noncanonical"),
    ],
)
def test_what_proves_nothing_or_is_written_wrongly_is_refused(value: str, code: str) -> None:
    assert fault(value) == code


@given(st.text(max_size=120))
def test_only_format_error_escapes(value: str) -> None:
    with suppress(FormatError):
        parse_content_digest(value)


@given(st.binary())
def test_another_implementation_makes_and_accepts_the_same(body: bytes) -> None:
    ours = make_content_digest(body)
    assert ContentDigest.create(body) == ours
    ContentDigest.verify(ours, body)
