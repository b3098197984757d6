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
    without,
)

from tppkit.httpsig import make_digest
from tppkit.message import Message

SINGLETONS = (
    "digest", "signature", "x-request-id", "content-type", "content-length", "host", "date", "authorization",
    "tpp-signature-certificate",
)  # fmt: skip


def twice(message: Message, name: str) -> Message:
    value = (message.values(name) or ("x",))[0]
    return without(message, name).with_headers((name.upper(), value), (name, value))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        *((lambda sealed, name=name: without(sealed, name), "signature.missing")
          for name in ("Digest", "Signature", "TPP-Signature-Certificate")),
        *((lambda sealed, name=name: twice(sealed, name), "header.duplicate") for name in SINGLETONS),
        (lambda sealed: changed(sealed, target="/elsewhere").with_headers(("(request-target)", f"post {TARGET}")), "header.duplicate"),
    ],
)  # fmt: skip
def test_a_header_of_the_seal_is_there_once(change, code, sealed, policy):
    assert verdict(change(sealed), policy) == code


UNKNOWN = {
    "(status)": "covered-names",
    "()": "covered-names",
    "(created)": "missing-parameter",
    "(expires)": "missing-parameter",
}


@pytest.mark.parametrize(
    ("request_", "covered", "code"),
    [
        *((REQUEST, [other for other in COVERED if other != name], "signature.uncovered") for name in COVERED),
        *((REQUEST.with_headers((name, "1402170695")), (*COVERED, name), f"signature.{code}") for name, code in UNKNOWN.items()),
        (changed(REQUEST, target="/a\nb"), COVERED, "message.malformed"),
        (changed(REQUEST, method="post", target="/a"), COVERED, "message.malformed"),
    ],
)  # fmt: skip
def test_a_signature_covers_neither_too_little_nor_what_could_not_be_there(request_, covered, code, pki, policy):
    assert verdict(seal_by_hand(request_, pki.qseal, covered=covered), policy) == code


@pytest.mark.parametrize(
    ("value", "code"),
    [
        *((value, "digest.malformed") for value in ("", "SHA-256", "SHA-256=AAAA", "SHA-256=" + "A" * 2000)),
        *(
            (value, "holds")
            for value in ("MD5=AAAA,SHA-256={good}", "SHA-512={long}, sha-256={good}", "SHA-256={good} ")
        ),
        ("id-sha-256={good}", "digest.algorithm"),
        ("MD5=HUXZLQLMuI/KZ5KDcJPcOA==", "digest.algorithm"),
        ("sha-1=thvDyvhfIqlvFe+A9MYgxAfm1q5=", "digest.algorithm"),
        *((value, "digest.algorithm") for value in ("SHA-512={long}", "SHA-256X={good},SHA-512={long}")),
        *((f"SHA-256={{good}},{name}={{good}}", "digest.duplicate-algorithm") for name in ("SHA-256", "sha-256")),
        ("SHA-256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "digest.mismatch"),
        ("SHA-256={good},SHA-512=" + "A" * 86 + "==", "digest.mismatch"),
        ("sha-256=:{good}:", "base64.malformed"),
        ("SHA-256={stray}", "base64.noncanonical"),
    ],
)
def test_a_digest_under_a_good_signature_is_judged_for_itself(value, code, pki, policy):
    good = header(seal_by_hand(REQUEST, pki.qseal), "Digest").removeprefix("SHA-256=")
    long = make_digest(REQUEST.body, algorithm="SHA-512").removeprefix("SHA-512=")
    stray = good[:-2] + chr(ord(good[-2]) + 1) + "="
    sealed = seal_by_hand(REQUEST, pki.qseal, digest=value.format(good=good, long=long, stray=stray))
    assert verdict(sealed, policy) == code
