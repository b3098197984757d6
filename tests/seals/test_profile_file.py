"""A dialect of one's own in a TOML file."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError
from tppkit.seals import PROFILES, EmptyBody, KeyIdForm, Radix, load_profile, parse_profile

OWN = b"""
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
    row, base = parse_profile(OWN), PROFILES["berlin-group"]
    assert (row.name, row.digest_algorithm, row.algorithms) == ("our-bank", "SHA-512", base.algorithms)
    assert (row.key_id.form, row.key_id.radix, row.key_id.percent) == (KeyIdForm.SERIAL, Radix.DECIMAL, True)
    (tmp_path / "own.toml").write_bytes(OWN)
    assert load_profile(tmp_path / "own.toml") == row


def test_what_is_said_of_a_source_is_not_said_of_another():
    base, with_source, without = (
        PROFILES["berlin-group"],
        parse_profile(OWN),
        parse_profile(OWN.replace(b"source", b"# source")),
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
        b"", b"\xff", b"name = ", b"[" * 5000, b"x = " + b"[" * 20000, b'name = "a"', OWN + b"unknown = 1", b"digset = 1\n" + OWN,
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
