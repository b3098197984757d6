"""The Digest header of RFC 3230, and the Content-Digest field of RFC 9530."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

import pytest
from http_message_signatures import ContentDigest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError, SignatureRejected
from tppkit.httpsig import make_digest, verify_digest
from tppkit.httpsig.digest import make_content_digest, parse_content_digest, parse_digest, verify_content_digest

EMPTY_256 = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
HELLO_256 = "X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE="  # draft-cavage-http-signatures appendix C
HELLO = b'{"hello": "world"}'


class Field(NamedTuple):
    """How a field is written and read, its two algorithms, and an algorithm that proves nothing."""

    make: Callable[..., str]
    parse: Callable[[str], Mapping[str, bytes]]
    verify: Callable[[str, bytes], tuple[str, ...]]
    names: tuple[str, str]
    unknown: str


FIELDS = {
    "Digest": Field(make_digest, parse_digest, verify_digest, ("SHA-256", "SHA-512"), "md5=x"),
    "Content-Digest": Field(
        make_content_digest, parse_content_digest, verify_content_digest, ("sha-256", "sha-512"), "md5=:YQ==:"
    ),
}
EACH = pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)


def test_a_digest_is_made_of_the_raw_body():
    assert (make_digest(HELLO), make_digest(b"")) == (f"SHA-256={HELLO_256}", f"SHA-256={EMPTY_256}")
    assert make_content_digest(HELLO) == f"sha-256=:{HELLO_256}:"


@pytest.mark.parametrize("algorithm", ["SHA-256", "sha-1", "md5", ""])
def test_an_algorithm_that_proves_nothing_is_not_written(algorithm):
    with refused(ConfigurationError, "digest.unknown-algorithm"):
        make_content_digest(HELLO, algorithm=algorithm)


@EACH
@given(body=st.binary(), number=st.integers(0, 1))
def test_a_digest_we_make_verifies_and_reads_back(field, body, number):
    name = field.names[number]
    value = field.make(body, algorithm=name)
    assert field.verify(value, body) == (name,)
    assert field.parse(value) == {name: hashlib.new(name.replace("-", "").lower(), body).digest()}


@EACH
@given(body=st.binary(), other=st.binary())
def test_a_digest_fits_its_own_body_only(field, body, other):
    if body != other:
        with refused(SignatureRejected, "digest.mismatch"):
            field.verify(field.make(body), other)


@pytest.mark.parametrize("name", ["sha-256", "Sha-256", "SHA-256"])
def test_the_name_of_the_algorithm_is_accepted_in_any_case(name):
    assert verify_digest(f"{name}={HELLO_256}", HELLO) == ("SHA-256",)


@EACH
def test_all_known_algorithms_are_compared_and_unknown_ones_skipped(field):
    both = [field.make(HELLO, algorithm=name) for name in field.names]
    assert set(field.verify(f"{both[1]}, {field.unknown},\t{both[0]}", HELLO)) == set(field.names)


@EACH
@pytest.mark.parametrize("wrong", [0, 1], ids=["SHA-256", "SHA-512"])
def test_one_digest_that_does_not_fit_is_enough_to_refuse(wrong, field):
    right = field.make(HELLO, algorithm=field.names[1 - wrong])
    with refused(SignatureRejected, "digest.mismatch"):
        field.verify(f"{right},{field.make(b'', algorithm=field.names[wrong])}", HELLO)


GOOD, CONTENT = f"SHA-256={HELLO_256}", f"sha-256=:{HELLO_256}:"
NO_DIGESTS: dict[str, tuple[str, ...]] = {
    "digest.malformed": (
        "", "SHA-256", f"={HELLO_256}", f"{GOOD},", f",{GOOD}", "SHA-256=", "SHA-256=AAAA", f"SHA-512={HELLO_256}",
        GOOD + " " * 1024, f"SHA-256 ={HELLO_256}",
    ),
    "digest.duplicate-algorithm": (f"{GOOD},{GOOD}", f"{GOOD},sha-256={EMPTY_256}", "MD5=x,md5=y"),
    "digest.unsupported": ("MD5=HUXZLQLMuI/KZ5KDcJPcOA==", f"SHA256={HELLO_256}"),
    "base64.malformed": (
        GOOD[:-1], f"{GOOD}=", f"SHA-256={HELLO_256[:9]} {HELLO_256[9:]}", f"SHA-256= {HELLO_256}", f'SHA-256="{HELLO_256}"',
        f"SHA-256=:{HELLO_256}:", "SHA-256=" + EMPTY_256.replace("+", "-").replace("/", "_"),
    ),
    "base64.noncanonical": (f"{GOOD[:-2]}F=",),
}  # fmt: skip
NO_CONTENT_DIGESTS: dict[str, tuple[str, ...]] = {
    "digest.unsupported": ("", "md5=:YQ==:", "sha=:YQ==:"),
    "digest.malformed": (
        "sha-256=:YQ==:", "sha-256", "sha-256=1", f'sha-256="{HELLO_256}"', f"sha-256=(:{HELLO_256}:)", f"{CONTENT};q=1",
        f"sha-512=:{HELLO_256}:", f"{CONTENT}, md5=1",
    ),
    "structured.malformed": (f"SHA-256=:{HELLO_256}:", f"sha-256={HELLO_256}", f"{CONTENT},"),
    "structured.duplicate": (f"{CONTENT}, {CONTENT}",),
    "base64.malformed": (f"sha-256=:{HELLO_256[:-1]}:",),
    "base64.noncanonical": (CONTENT.replace("PE=", "PF="),),
}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        *(("Digest", value, code) for code, values in NO_DIGESTS.items() for value in values),
        *(("Content-Digest", value, code) for code, values in NO_CONTENT_DIGESTS.items() for value in values),
    ],
)
def test_what_is_not_a_digest_of_the_field_is_refused(field, value, code):
    with refused(FormatError, code):
        parse_digest(value) if field == "Digest" else verify_content_digest(value, HELLO)


@pytest.mark.parametrize("value", ["\x1b[31m=x", "\x1b[31m=x,\x1b[31m=y", "\n", "A" * 900 + "=x"])
def test_a_fault_is_reported_in_printable_text_of_bounded_length(value):
    with pytest.raises(FormatError) as caught:
        parse_digest(value)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 200


@EACH
@given(
    value=st.text()
    | st.text(alphabet="SHA-256=,sha512 :\t")
    | st.binary().map(lambda raw: f"SHA-256={b64encode(raw).decode()}")
)
def test_only_format_error_escapes_the_reader(field, value):
    with suppress(FormatError):
        field.parse(value)


@EACH
@given(value=st.text(), body=st.binary())
def test_an_arbitrary_header_fits_no_body(field, value, body):
    with pytest.raises((FormatError, SignatureRejected)):
        field.verify(value, body)


@given(st.binary())
def test_another_implementation_makes_and_accepts_the_same(body):
    ours = make_content_digest(body)
    assert ContentDigest.create(body) == ours
    ContentDigest.verify(ours, body)
