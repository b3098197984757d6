"""Extensions and times in a CRL, in the one form that is read."""

from __future__ import annotations

import pytest
from answering import AT

from refusals import refused
from tppkit.certificates import der
from tppkit.errors import FormatError
from tppkit.trust.revocation.crl_entries import read_crl_extensions, read_time


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        (b"\x18\x0f20260601000000Z", AT),
        (b"\x17\x0d260601000000Z", AT),
        (b"\x17\x0d500601000000Z", AT.replace(year=1950)),
        (b"\x04\x0f20260601000000Z", None),
        (b"\x18\x0f20260601000000Z0", None),
        (b"\x18\x0f202606010000000", None),
        (b"\x18\x0f2026-W23000000Z", None),
        (b"\x18\x0f20260631000000Z", None),
    ],
    ids=["GeneralizedTime", "UTCTime", "of 1950", "another type", "longer", "no zone", "a week", "no such day"],
)
def test_a_time_is_read_in_one_form_only(encoded, expected):
    assert read_time(encoded) == expected


@pytest.mark.parametrize("count", [0, 4])
def test_an_extension_has_two_or_three_parts(count):
    parts = [der.write_oid("2.5.29.21"), b"\x01\x01\xff", b"\x01\x01\xff", der.write_element(der.OCTET_STRING)][:count]
    data = der.write_sequence(der.write_sequence(*parts))
    with refused(FormatError, "crl.malformed"):
        read_crl_extensions(data, der.read_whole(data, tag=der.SEQUENCE))
