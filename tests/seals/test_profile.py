"""A row of one's own, in Python or in a file: what it says is done, and what would prove too little is refused."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sealing import (
    AT,
    REQUEST,
    header,
    policy_of,
    seal_of,
    verdict,
    with_value,
)

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig import KeySigner, make_digest
from tppkit.message import Message
from tppkit.seals import (
    PROFILES,
    EmptyBody,
    KeyIdForm,
    KeyIdStyle,
    Radix,
    Seal,
    SealPolicy,
    SealProfile,
    load_profile,
    parse_profile,
    sign_request,
    verify_request,
)
from tppkit.seals.profiles import PSD2_V1
from tppkit.testpki import Pki

OWN = replace(
    PSD2_V1,
    name="own",
    covered=("(request-target)", "digest", "x-request-id", "tpp-redirect-uri"),
    digest_algorithm="SHA-512",
    certificate_header="TPP-Signing-Certificate",
)


@pytest.fixture
def own_seal(pki: Pki) -> Seal:
    return Seal(pki.qseal.certificate, KeySigner(pki.qseal.key), profile=OWN)


@pytest.fixture
def request_with_redirect() -> Message:
    return REQUEST.with_headers(("TPP-Redirect-URI", "https://tpp.example/back"))


def test_a_custom_row_states_digest_coverage_and_header_and_its_requests_verify_under_it(
    own_seal, request_with_redirect, paths
):
    sealed = sign_request(request_with_redirect, seal=own_seal)
    assert header(sealed, "Digest").startswith("SHA-512=")
    assert ',headers="(request-target) digest x-request-id tpp-redirect-uri",' in header(sealed, "Signature")
    assert header(sealed, "TPP-Signing-Certificate")
    policy = SealPolicy(paths, profile=OWN)
    verified = verify_request(sealed, qwac=None, at=AT, policy=policy)
    assert (verified.profile.name, verified.covered["tpp-redirect-uri"]) == ("own", "https://tpp.example/back")
    assert verdict(with_value(sealed, "TPP-Redirect-URI", "https://x"), policy) == "signature.invalid"


TARGET, NEEDED, MINUTE = "(request-target)", ("digest", "x-request-id"), timedelta(minutes=1)
NO_ALGORITHMS = (
    (("rsa-sha1", "rsa-sha1"),),
    (("hmac-sha256", "hmac-sha256"),),
    (("hs2019", "rsa-sha512"), ("hs2019", "rsa-pss-sha512")),
    (('rsa",headers="', "rsa-sha256"),),
)
NO_HEADERS = ("Bad\r\nX: y", "Digest", "signature", "X-Request-ID")
# What cannot be covered beside the digest and the id.
NO_NAMES = (
    *(
        (name,)
        for name in ("dig est", "", "*", "psu-*", "Digest", "(target)", "signature", "tpp-signature-certificate")
    ),
    ("@method", "@request-target"),
)


# What no dialect of draft-cavage can be.
NO_ROWS: tuple[tuple[dict[str, Any], str], ...] = (
    *(({"covered": covered}, "profile.coverage") for covered in (("x-request-id", TARGET), ("digest", TARGET))),
    *(({"required": required}, "profile.coverage") for required in (("digest",), ("x-request-id",))),
    ({"request_id": None}, "profile.coverage"),
    (
        {"covered": ("x-request-id",), "covered_if_present": ("digest",), "required": ("digest", "x-request-id")},
        "profile.coverage",
    ),
    ({"required": ("digest", "x-request-id", "host")}, "profile.malformed"),
    ({"carrier": "X-Signature"}, "profile.malformed"),
    *(({"algorithms": algorithms}, "profile.malformed") for algorithms in NO_ALGORITHMS),
    ({"expires_after": MINUTE}, "profile.malformed"),
    ({"max_age": MINUTE}, "profile.malformed"),
    ({"covered": (*NEEDED, "(expires)"), "required": NEEDED}, "profile.malformed"),
    ({"covered": (*NEEDED, "(created)")}, "profile.malformed"),  # by rsa and ecdsa names no time can be covered
    ({"digest_algorithm": "MD5"}, "digest.unknown-algorithm"),
    ({"digest_algorithms": ("SHA-512",)}, "profile.malformed"),
    ({"digest_algorithms": ("SHA-256", "MD5")}, "digest.unknown-algorithm"),
    *(({"certificate_header": name}, "profile.malformed") for name in NO_HEADERS),
    ({"digest_field": "Signature", "covered": ("signature", "x-request-id")}, "profile.malformed"),
    ({"digest_field": "Dig est"}, "profile.malformed"),
    ({"request_id": "x request"}, "profile.malformed"),
    *(({"covered": (*NEEDED, *names)}, "profile.malformed") for names in NO_NAMES),
    *(({"covered_if_present": (name,)}, "profile.malformed") for name in ("*", "x-request-id")),
    ({"sends_x5c": True}, "profile.malformed"),
    ({"label": "sig1"}, "profile.malformed"),
)
AMAZON, OPEN_FINANCE = PROFILES["amazon"], PROFILES["open-finance"]
BY_AGE = replace(
    PROFILES["cavage-12"], covered=("(request-target)", "(created)", "digest"), request_id=None, expires_after=None, max_age=MINUTE
)  # fmt: skip
NO_COMPONENTS = ("(request-target)", "X-Amz-Access-Token", "@query-param", "@unknown", "signature-input")


@pytest.mark.parametrize(
    ("row", "fields", "code"),
    [
        *((PSD2_V1, *no_row) for no_row in NO_ROWS),
        (BY_AGE, {"max_age": None}, "profile.coverage"),
        (BY_AGE, {"covered": ("digest", "(expires)"), "expires_after": MINUTE}, "profile.malformed"),
        *((AMAZON, {"label": label}, "profile.malformed") for label in ("", "Not A Key")),
        *((AMAZON, {"covered": (*AMAZON.covered, name)}, "profile.malformed") for name in NO_COMPONENTS),
        (AMAZON, {"carrier": "x-jws-signature"}, "profile.malformed"),
        (AMAZON, {"sends_x5c": True}, "profile.malformed"),
        (AMAZON, {"digest_algorithm": "SHA-256"}, "digest.unknown-algorithm"),
        (AMAZON, {"covered": ("@method", "@query")}, "profile.coverage"),
        (AMAZON, {"max_age": None}, "profile.coverage"),
        *((OPEN_FINANCE, {name: "bad name"}, "profile.malformed") for name in ("carrier", "digest_field")),
        (OPEN_FINANCE, {"expires_after": MINUTE}, "profile.malformed"),
        (OPEN_FINANCE, {"max_age": timedelta()}, "profile.malformed"),
        (OPEN_FINANCE, {"label": "sig1"}, "profile.malformed"),
        (OPEN_FINANCE, {"covered": ("(request-target)", "x-request-id")}, "profile.coverage"),
        (PROFILES["ing-jws"], {"covered": ("(request-target)",)}, "profile.coverage"),
    ],
)
def test_a_row_that_would_prove_too_little_or_contradicts_itself_is_refused(row, fields, code):
    with refused(ConfigurationError, code):
        replace(row, **fields)


def require_refused(row: SealProfile | KeyIdStyle, **fields: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        replace(row, **fields)
    (name,) = fields
    assert caught.value.code == "profile.malformed"
    assert f"{type(row).__name__}.{name} is a " in caught.value.message


@pytest.mark.parametrize("value", [object, 5, b"x", ["digest"], {"digest"}, ((1, 2, 3),), (("a", "b", "c"),)], ids=repr)
def test_a_field_of_another_type_is_refused(value):
    for row in (PSD2_V1, PSD2_V1.key_id):
        for field in fields(row):
            require_refused(row, **{field.name: value})


def test_a_text_where_names_belong_is_not_accepted_letter_by_letter():
    for name in [field.name for field in fields(PSD2_V1) if "tuple" in str(field.type)]:
        require_refused(PSD2_V1, **{name: "psu-id"})
        require_refused(PSD2_V1, **{name: ("digest", None)})
    assert replace(PSD2_V1, request_id="X-Request-ID") == PSD2_V1  # whose name is read in any case


NOT_VALUES = {
    "max_age": 60, "key_id": "x", "format": "CAVAGE", "order": "LISTED", "empty_body": "HASHED", "only_these": "no",
    "certificate_form": "DER", "algorithms": ("rsa-sha256", "rsa-sha256"), "name": None,
}  # fmt: skip


def test_a_name_of_a_value_is_not_the_value():
    for name, value in NOT_VALUES.items():
        require_refused(PSD2_V1, **{name: value})
    require_refused(PSD2_V1, algorithms=(("rsa-sha256",),))
    require_refused(PSD2_V1.key_id, form="serial")
    require_refused(PSD2_V1.key_id, radix="X")


@pytest.mark.parametrize(
    ("allowed", "sent", "expected"),
    [
        (("SHA-256", "SHA-512"), "SHA-256", "holds"),
        (("SHA-256", "SHA-512"), "SHA-512", "holds"),
        (("SHA-256", "SHA-512"), "sha-256", "digest.algorithm"),
        (("SHA-256",), "SHA-512", "digest.algorithm"),
        (("SHA-256",), "SHA-256,SHA-512", "digest.algorithm"),
        ((), "sha-512", "holds"),
    ],
)
def test_a_digest_is_read_as_the_row_spells_it_and_both_of_two_must_fit(allowed, sent, expected, pki):
    base = replace(PSD2_V1, digest_required=False)
    sealed = sign_request(REQUEST, seal=seal_of(replace(base, digest_algorithm=sent), pki.qseal))
    policy = policy_of(replace(base, digest_algorithms=allowed), pki)
    assert [verdict(sealed, policy), verdict(sealed, policy)] == [expected, expected]
    row = replace(PSD2_V1, digest_algorithm="SHA-256,SHA-512")
    sealed = sign_request(REQUEST, seal=seal_of(row, pki.qseal))
    assert header(sealed, "Digest") == f"{make_digest(REQUEST.body)},{make_digest(REQUEST.body, algorithm='SHA-512')}"
    assert verdict(sealed, policy_of(PSD2_V1, pki)) == "holds"


FILE = b"""
based_on = "berlin-group"
name = "our-bank"
covered = ["(request-target)", "date", "digest", "x-request-id"]
digest_algorithm = "SHA-512"
source = "letter from the bank, 2026-05-04"
[key_id]
form = "serial"
radix = "decimal"
"""
FULL = b"""
name = "times"
format = "cavage"
covered = ["(request-target)", "(created)", "digest"]
request_id = false
algorithms = [["hs2019", "ecdsa-p256-sha512"]]
empty_body = "absent"
max_age = 60
source = "here"
"""


def test_a_row_based_on_another_has_what_the_file_says_and_the_rest_from_there(tmp_path):
    row, base = parse_profile(FILE), PROFILES["berlin-group"]
    assert (row.name, row.digest_algorithm, row.algorithms) == ("our-bank", "SHA-512", base.algorithms)
    assert (row.key_id.form, row.key_id.radix, row.key_id.percent) == (KeyIdForm.SERIAL, Radix.DECIMAL, True)
    (tmp_path / "own.toml").write_bytes(FILE)
    assert load_profile(tmp_path / "own.toml") == row


def test_what_is_said_of_a_source_is_not_said_of_another():
    base, with_source, without = (
        PROFILES["berlin-group"],
        parse_profile(FILE),
        parse_profile(FILE.replace(b"source", b"# source")),
    )
    assert (with_source.as_of, with_source.read_on, with_source.assumed) == ("", "", "")
    assert (without.source, without.as_of, without.assumed) == (base.source, base.as_of, base.assumed)


def test_false_means_none_where_a_field_can_be_absent():
    row = parse_profile(
        b'based_on = "cavage-12"\nname = "a"\ncovered = ["date", "digest", "x-request-id"]\nexpires_after = false'
    )
    assert row.expires_after is None


def test_a_row_of_its_own_needs_no_other_and_is_refused_if_it_proves_too_little():
    row = parse_profile(FULL)
    assert (row.max_age, row.request_id, row.empty_body) == (timedelta(seconds=60), None, EmptyBody.ABSENT)
    with refused(ConfigurationError, "profile.coverage"):
        parse_profile(FULL.replace(b"max_age = 60", b""))


@pytest.mark.parametrize(
    "text",
    [
        b"", b"\xff", b"name = ", b"[" * 5000, b"x = " + b"[" * 20000, b'name = "a"', FILE + b"unknown = 1", b"digset = 1\n" + FILE,
        b"max_age = 0\n" + FULL, b"signature_quoted = 1\n" + FULL, b'based_on = "nobody"\n' + FULL, b"based_on = 1\n" + FULL,
        b'key_id = "x"\n' + FULL, FULL.replace(b"60", b"true"), FULL.replace(b"60", b"99999999999"), FULL.replace(b"false", b"1"),
        FULL.replace(b'"absent"', b'"gone"'), FULL.replace(b'"absent"', b"1"), FULL.replace(b', "ecdsa-p256-sha512"', b""),
        FULL.replace(b'"here"', b"[]"), FULL.replace(b'"digest"]', b"1]"), b'based_on = "ing"\n', b"# " + b"x" * 70000,
    ],
)  # fmt: skip
def test_what_is_not_a_profile_is_refused(text):
    with refused(FormatError, "profile.file"):
        parse_profile(text)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: FULL + text.encode("utf-8", "surrogatepass")))
def test_only_errors_of_this_package_escape(raw):
    with suppress(FormatError, ConfigurationError):
        parse_profile(raw)
