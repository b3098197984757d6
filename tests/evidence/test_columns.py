"""Deterministic CBOR against an independent encoder and the examples of the standard."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.evidence.columns import encode_cbor

SCALARS = (
    st.none() | st.booleans() | st.integers(-(1 << 64), (1 << 64) - 1) | st.binary(max_size=300) | st.text(max_size=300)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=40), inner, max_size=30)
)

# RFC 8949 appendix A: both sides of each length of a head, and each type that a record has.
EXAMPLES = [
    (23, "17"),
    (24, "1818"),
    (1000, "1903e8"),
    (1000000, "1a000f4240"),
    (18446744073709551615, "1bffffffffffffffff"),
    (-18446744073709551616, "3bffffffffffffffff"),
    (-1, "20"),
    (False, "f4"),
    (None, "f6"),
    (bytes.fromhex("01020304"), "4401020304"),
    ("\U00010151", "64f0908591"),
    (list(range(1, 26)), "98190102030405060708090a0b0c0d0e0f101112131415161718181819"),
    ({"a": 1, "b": [2, 3]}, "a26161016162820203"),
]


@pytest.mark.parametrize(("value", "encoded"), EXAMPLES, ids=[encoded[:20] for _, encoded in EXAMPLES])
def test_examples_of_the_standard(value, encoded):
    assert encode_cbor(value).hex() == encoded


@given(VALUES)
def test_an_independent_implementation_gives_the_same_bytes_and_reads_the_value_back(value):
    assert encode_cbor(value) == cbor2.dumps(value, canonical=True)
    assert cbor2.loads(encode_cbor(value)) == value


@pytest.mark.parametrize(
    ("value", "error"),
    [(1 << 64, OverflowError), (-(1 << 64) - 1, OverflowError), (1.5, TypeError), ([1.5], TypeError), ({"a": 1.5}, TypeError)],
)  # fmt: skip
def test_integers_beyond_64_bits_and_floating_point_numbers_are_refused(value, error):
    with pytest.raises(error):
        encode_cbor(value)
