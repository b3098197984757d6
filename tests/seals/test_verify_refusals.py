"""Refusals of a sealed request by its headers, coverage, digest, method or target."""

from __future__ import annotations

import pytest
from sealing import (
    COVERED,
    REQUEST,
    TARGET,
    changed,
    header,
    seal_by_hand,
    verdict,
    with_value,
    without,
)

from tppkit.httpsig import Message, make_digest
from tppkit.seals import Seal, SealPolicy, sign_request
from tppkit.testpki import Pki

SINGLETONS = (
    "digest", "signature", "x-request-id", "content-type", "content-length", "host", "date", "authorization",
    "tpp-signature-certificate",
)  # fmt: skip


@pytest.fixture(scope="module")
def sealed(seal: Seal) -> Message:
    return sign_request(REQUEST, seal=seal)


@pytest.mark.parametrize("name", ["Digest", "Signature", "TPP-Signature-Certificate"])
def test_a_request_without_a_header_of_the_seal_is_not_sealed(name: str, sealed: Message, policy: SealPolicy) -> None:
    assert verdict(without(sealed, name), policy) == "signature.missing"


@pytest.mark.parametrize("name", SINGLETONS)
def test_a_header_that_must_be_single_is_refused_twice(name: str, sealed: Message, policy: SealPolicy) -> None:
    value = (sealed.values(name) or ("x",))[0]
    first = without(sealed, name).with_headers((name.upper(), value))
    assert verdict(first.with_headers((name, value)), policy) == "header.duplicate"


def test_another_header_may_appear_twice(sealed: Message, policy: SealPolicy) -> None:
    assert verdict(sealed.with_headers(("PSU-Accept", "a"), ("PSU-Accept", "b")), policy) == "holds"


@pytest.mark.parametrize("name", COVERED)
def test_a_signature_that_leaves_out_what_must_be_covered_is_refused(name: str, pki: Pki, policy: SealPolicy) -> None:
    covered = [other for other in COVERED if other != name]
    assert verdict(seal_by_hand(REQUEST, pki.qseal, covered=covered), policy) == "signature.uncovered"


def test_a_covered_header_that_is_absent_is_refused(pki: Pki, policy: SealPolicy) -> None:
    sealed = seal_by_hand(REQUEST, pki.qseal, covered=(*COVERED, "psu-id"))
    assert verdict(sealed, policy) == "signature.header-absent"


def test_a_covered_header_that_was_removed_is_refused(sealed: Message, policy: SealPolicy) -> None:
    assert verdict(without(sealed, "X-Request-ID"), policy) == "signature.header-absent"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("(status)", "signature.covered-names"), ("()", "signature.covered-names"),
        ("(created)", "signature.missing-parameter"), ("(expires)", "signature.missing-parameter"),
    ],
)  # fmt: skip
def test_a_pseudo_header_that_is_not_known_is_refused(name: str, code: str, pki: Pki, policy: SealPolicy) -> None:
    request = REQUEST.with_headers((name, "1402170695"))
    assert verdict(seal_by_hand(request, pki.qseal, covered=(*COVERED, name)), policy) == code


def test_a_header_named_as_the_request_target_is_refused(pki: Pki, policy: SealPolicy) -> None:
    sealed = seal_by_hand(REQUEST, pki.qseal)
    forged = changed(sealed, target="/elsewhere").with_headers(("(request-target)", f"post {TARGET}"))
    assert verdict(forged, policy) == "header.duplicate"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", "digest.malformed"),
        ("SHA-256", "digest.malformed"),
        ("SHA-256=AAAA", "digest.malformed"),
        ("SHA-256=" + "A" * 2000, "digest.malformed"),
        ("MD5=HUXZLQLMuI/KZ5KDcJPcOA==", "digest.algorithm"),
        ("sha-1=thvDyvhfIqlvFe+A9MYgxAfm1q5=", "digest.algorithm"),
        ("SHA-512={long}", "digest.algorithm"),
        ("SHA-256X={good},SHA-512={long}", "digest.algorithm"),
        ("SHA-512={long}, sha-256={good}", "holds"),
        ("SHA-256={good},SHA-256={good}", "digest.duplicate-algorithm"),
        ("SHA-256={good},sha-256={good}", "digest.duplicate-algorithm"),
        ("SHA-256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "digest.mismatch"),
        ("SHA-256={good},SHA-512=" + "A" * 86 + "==", "digest.mismatch"),
        ("sha-256=:{good}:", "base64.malformed"),
        ("SHA-256={stray}", "base64.noncanonical"),
        ("SHA-256={good} ", "holds"),
    ],
)
def test_a_digest_under_a_good_signature_is_judged_for_itself(
    value: str, code: str, pki: Pki, policy: SealPolicy
) -> None:
    good = header(seal_by_hand(REQUEST, pki.qseal), "Digest").removeprefix("SHA-256=")
    long = make_digest(REQUEST.body, algorithm="SHA-512").removeprefix("SHA-512=")
    stray = good[:-2] + chr(ord(good[-2]) + 1) + "="
    sealed = seal_by_hand(REQUEST, pki.qseal, digest=value.format(good=good, long=long, stray=stray))
    assert verdict(sealed, policy) == code


@pytest.mark.parametrize(
    "body",
    [
        b"",
        REQUEST.body + b"\n",
        REQUEST.body.replace(b":", b": "),
        REQUEST.body.replace(b"12", b"13"),
        b"{}",
        b"\xef\xbb\xbf",
    ],
)
def test_another_body_does_not_fit_the_digest(body: bytes, sealed: Message, policy: SealPolicy) -> None:
    assert verdict(changed(sealed, body=body), policy) == "digest.mismatch"


def test_line_ends_that_were_changed_in_transit_do_not_fit_the_digest(seal: Seal, policy: SealPolicy) -> None:
    sealed = sign_request(changed(REQUEST, body=b'{\r\n "a": 1\r\n}'), seal=seal)
    assert verdict(changed(sealed, body=sealed.body.replace(b"\r\n", b"\n")), policy) == "digest.mismatch"


def test_the_digest_of_the_body_as_sent_does_not_help_where_another_was_signed(
    sealed: Message, seal: Seal, policy: SealPolicy
) -> None:
    other = sign_request(changed(REQUEST, body=b"{}"), seal=seal)
    swapped = changed(with_value(sealed, "Digest", header(other, "Digest")), body=b"{}")
    assert verdict(swapped, policy) == "signature.invalid"


@pytest.mark.parametrize("control", ["\x00", "\n", "\r", "\x1b", "\x7f", "Ā"])
def test_a_control_character_in_a_covered_header_is_refused(control: str, pki: Pki, policy: SealPolicy) -> None:
    request = changed(REQUEST, headers=[("X-Request-ID", f"7f9c{control}24e8")])
    sealed = seal_by_hand(request, pki.qseal)
    assert verdict(sealed, policy) == "header.control-character"


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/a b"),
        ("POST", "/a\nb"),
        ("POST", ""),
        ("POST", "/a\x7f"),
        ("POST", "/é"),
        ("PO ST", "/a"),
        ("", "/a"),
        ("POST\n", "/a"),
        ("post", "/a"),
        ("Post", "/a"),
    ],
)
def test_a_start_line_that_could_not_be_one_is_refused(method: str, target: str, pki: Pki, policy: SealPolicy) -> None:
    sealed = seal_by_hand(changed(REQUEST, method=method, target=target), pki.qseal)
    assert verdict(sealed, policy) == "message.malformed"


def test_the_path_as_decoded_is_not_the_path_that_was_signed(sealed: Message, policy: SealPolicy) -> None:
    assert verdict(changed(sealed, target=TARGET.replace("%2F", "/")), policy) == "signature.invalid"


def test_the_query_is_part_of_what_was_signed(sealed: Message, policy: SealPolicy) -> None:
    assert verdict(changed(sealed, target=TARGET.partition("?")[0]), policy) == "signature.invalid"
