"""The Digest header."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig import make_digest, parse_digest, verify_digest

EMPTY_256 = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
HELLO_256 = "X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE="  # draft-cavage-http-signatures appendix C
HELLO = b'{"hello": "world"}'


def test_a_digest_is_made_of_the_raw_body() -> None:
    assert (make_digest(HELLO), make_digest(b"")) == (f"SHA-256={HELLO_256}", f"SHA-256={EMPTY_256}")


@given(st.binary(), st.sampled_from(["SHA-256", "SHA-512"]))
def test_a_digest_we_make_verifies_and_reads_back(body: bytes, algorithm: str) -> None:
    value = make_digest(body, algorithm=algorithm)
    assert verify_digest(value, body) == (algorithm,)
    assert parse_digest(value) == {algorithm: hashlib.new(algorithm.replace("-", ""), body).digest()}


@given(st.binary(), st.binary())
def test_a_digest_fits_its_own_body_only(body: bytes, other: bytes) -> None:
    if body != other:
        with refused(SignatureRejected, "digest.mismatch"):
            verify_digest(make_digest(body), other)


@pytest.mark.parametrize("name", ["sha-256", "Sha-256", "SHA-256"])
def test_the_name_of_the_algorithm_is_accepted_in_any_case(name: str) -> None:
    assert verify_digest(f"{name}={HELLO_256}", HELLO) == ("SHA-256",)


def test_all_known_algorithms_are_compared_and_unknown_ones_skipped() -> None:
    value = f"{make_digest(HELLO, algorithm='SHA-512')}, md5=x,\tSHA-256={HELLO_256}"
    assert set(verify_digest(value, HELLO)) == {"SHA-256", "SHA-512"}


@pytest.mark.parametrize("wrong", ["SHA-256", "SHA-512"])
def test_one_digest_that_does_not_fit_is_enough_to_refuse(wrong: str) -> None:
    right = "SHA-512" if wrong == "SHA-256" else "SHA-256"
    value = f"{make_digest(HELLO, algorithm=right)},{make_digest(b'', algorithm=wrong)}"
    with refused(SignatureRejected, "digest.mismatch"):
        verify_digest(value, HELLO)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", "digest.malformed"),
        ("SHA-256", "digest.malformed"),
        (f"={HELLO_256}", "digest.malformed"),
        (f"SHA-256={HELLO_256},", "digest.malformed"),
        (f",SHA-256={HELLO_256}", "digest.malformed"),
        ("SHA-256=", "digest.malformed"),
        ("SHA-256=AAAA", "digest.malformed"),
        (f"SHA-512={HELLO_256}", "digest.malformed"),
        (f"SHA-256={HELLO_256}" + " " * 1024, "digest.malformed"),
        (f"SHA-256={HELLO_256},SHA-256={HELLO_256}", "digest.duplicate-algorithm"),
        (f"SHA-256={HELLO_256},sha-256={EMPTY_256}", "digest.duplicate-algorithm"),
        ("MD5=x,md5=y", "digest.duplicate-algorithm"),
        ("MD5=HUXZLQLMuI/KZ5KDcJPcOA==", "digest.unsupported"),
        (f"SHA256={HELLO_256}", "digest.unsupported"),
        (f"SHA-256 ={HELLO_256}", "digest.malformed"),
        (f"SHA-256={HELLO_256[:-1]}", "base64.malformed"),
        (f"SHA-256={HELLO_256}=", "base64.malformed"),
        (f"SHA-256={HELLO_256[:9]} {HELLO_256[9:]}", "base64.malformed"),
        (f"SHA-256= {HELLO_256}", "base64.malformed"),
        (f'SHA-256="{HELLO_256}"', "base64.malformed"),
        (f"SHA-256=:{HELLO_256}:", "base64.malformed"),
        ("SHA-256=" + EMPTY_256.replace("+", "-").replace("/", "_"), "base64.malformed"),
        (f"SHA-256={HELLO_256[:-2]}F=", "base64.noncanonical"),
    ],
)
def test_what_is_not_a_digest_is_refused(value: str, code: str) -> None:
    with refused(FormatError, code):
        parse_digest(value)


@pytest.mark.parametrize("value", ["\x1b[31m=x", "\x1b[31m=x,\x1b[31m=y", "\n", "A" * 900 + "=x"])
def test_a_fault_is_reported_in_printable_text_of_bounded_length(value: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_digest(value)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 200


@given(
    st.text()
    | st.text(alphabet="SHA-256=,sha512 :\t")
    | st.binary().map(lambda raw: f"SHA-256={b64encode(raw).decode()}")
)
def test_only_format_error_escapes_the_reader(value: str) -> None:
    with suppress(FormatError):
        parse_digest(value)


@given(st.text(), st.binary())
def test_an_arbitrary_header_fits_no_body(value: str, body: bytes) -> None:
    with pytest.raises((FormatError, SignatureRejected)):
        verify_digest(value, body)
