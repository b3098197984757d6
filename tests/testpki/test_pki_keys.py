"""Keys and serial numbers, random or from a seed."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from tppkit.errors import ConfigurationError, FormatError
from tppkit.testpki.keys import KEY_KINDS, KeySource, load_key

SIZES = {"p256": 256, "p384": 384, "rsa2048": 2048, "rsa3072": 3072, "rsa4096": 4096}


@pytest.mark.parametrize("kind", [kind for kind in KEY_KINDS if kind != "rsa4096"])  # which takes seconds
def test_a_key_has_the_size_of_its_kind(kind):
    assert KeySource(kind).make_key("a").key_size == SIZES[kind]


@pytest.mark.parametrize(
    ("kind", "private_value"),
    [
        ("p256", 0xF9482AA079373A306ECF8F38C022EC04E97DA854D3E245AEE0B29FAE6750E68C),
        ("p384", 0xF0B3276CD3E2AE3D7371953A19BE9AE961140450EA611DBFB20CD367C397FF1D18601C31D0AC4E103379C030F24C94B9),
    ],
)
def test_a_seed_gives_the_same_key_and_serial_in_every_version(kind, private_value):
    keys = KeySource(kind, seed=1)
    assert keys.make_key("qwac").private_numbers().private_value == private_value
    assert keys.make_serial("qwac") == 0x5810CE114A63ECBD88FCD366174D9158


def test_other_seeds_labels_and_kinds_give_other_keys():
    made = {
        KeySource(kind, seed=seed).make_key(label).private_numbers().private_value
        for kind in ("p256", "p384")
        for seed in (0, 1, -1)
        for label in ("a", "b", "")
    }
    assert len(made) == 18


@given(st.none() | st.integers(), st.text(max_size=5, alphabet="abc"))
def test_a_serial_number_is_positive_and_has_127_bits(seed, label):
    # RFC 5280 section 4.1.2.2: positive, at most 20 bytes; always 16 bytes of DER, so certificates are of equal length.
    assert KeySource(seed=seed).make_serial(label).bit_length() == 127


@pytest.mark.parametrize("kind", ["P256", "p521", "rsa1024", "ed25519", ""])
def test_an_unknown_kind_is_rejected(kind):
    with pytest.raises(ConfigurationError) as refused:
        KeySource(kind)
    assert refused.value.code == "pki.key-kind"


def test_a_seeded_rsa_key_is_reproducible_and_valid():
    first, again = KeySource("rsa2048", seed=0), KeySource("rsa2048", seed=0)
    key = first.make_key("a")
    assert key.private_numbers() == again.make_key("a").private_numbers()
    assert key.key_size == 2048
    key.public_key().verify(key.sign(b"data", PKCS1v15(), SHA256()), b"data", PKCS1v15(), SHA256())


def test_only_an_unencrypted_key_of_a_known_type_is_loaded():
    ours, theirs = ec.generate_private_key(ec.SECP256R1()), x25519.X25519PrivateKey.generate()
    encrypted = ours.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    agreement = theirs.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    malformed = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    for data in (b"", malformed, b"\x00\xff", encrypted, agreement):
        with pytest.raises(FormatError) as refused:
            load_key(data)
        assert refused.value.code == "pem.malformed"


def test_a_key_that_a_tool_has_damaged_is_named_as_such():
    plain = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for data, fault in ((plain.replace(b"\n", b"\\n"), "backslash and n"), (plain.decode().encode("utf-16"), "UTF-16")):
        with pytest.raises(FormatError, match=fault):
            load_key(data)
