"""What a signature tells about what was signed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from math import gcd

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from hypothesis import given
from hypothesis import strategies as st
from wrong_signer import bare_ecdsa, padded, pss, with_hash, without_digest_info

from tppkit.seals.diagnose.recover import Made, Oracle, make_oracles
from tppkit.testpki import Pki

Signer = Callable[[rsa.RSAPrivateKey, bytes], bytes]
DATA = b"what was signed"
HASHES = {"SHA-1": hashes.SHA1(), "SHA-256": hashes.SHA256(), "SHA-384": hashes.SHA384(), "SHA-512": hashes.SHA512()}


@pytest.fixture(scope="session")
def rsa_key(rsa_pki: Pki) -> rsa.RSAPrivateKey:
    key = rsa_pki.qseal.key
    assert isinstance(key, rsa.RSAPrivateKey)
    return key


@pytest.mark.parametrize("name", HASHES)
def test_the_hash_comes_back_out_of_a_pkcs1_signature(rsa_key: rsa.RSAPrivateKey, name: str) -> None:
    (oracle,) = make_oracles(rsa_key.public_key(), with_hash(HASHES[name])(rsa_key, DATA))
    assert (oracle.made.scheme, oracle.made.hash, oracle.made.certain) == ("PKCS#1", name, True)
    assert oracle.made.recovered == hashlib.new(name.replace("-", ""), DATA).digest()
    assert oracle.match(DATA) is not None
    assert oracle.match(DATA + b"\n") is None


def test_it_is_the_hash_that_the_library_recovers(rsa_key: rsa.RSAPrivateKey) -> None:
    signature = with_hash(hashes.SHA256())(rsa_key, DATA)
    (oracle,) = make_oracles(rsa_key.public_key(), signature)
    recovered = rsa_key.public_key().recover_data_from_signature(signature, padding.PKCS1v15(), hashes.SHA256())
    assert oracle.made.recovered == recovered


def test_a_bare_hash_without_digest_info_is_seen(rsa_key: rsa.RSAPrivateKey) -> None:
    (oracle,) = make_oracles(rsa_key.public_key(), without_digest_info(rsa_key, DATA))
    assert (oracle.made.scheme, oracle.made.hash) == ("PKCS#1 without DigestInfo", "SHA-256")
    assert oracle.match(DATA) is not None


@pytest.mark.parametrize(("salt", "certain"), [(0, True), (20, True), (32, True), (222, False)])
def test_the_salt_comes_back_out_of_a_pss_signature(rsa_key: rsa.RSAPrivateKey, salt: int, certain: bool) -> None:
    oracles = make_oracles(rsa_key.public_key(), pss(salt)(rsa_key, DATA))
    matching = [oracle for oracle in oracles if oracle.match(DATA)]
    assert [(oracle.made.salt_length, oracle.made.certain) for oracle in matching] == [(salt, certain)]
    assert not any(oracle.match(DATA + b"\n") for oracle in oracles)


def test_another_hash_in_the_mask_of_pss_is_seen(rsa_key: rsa.RSAPrivateKey) -> None:
    oracles = make_oracles(rsa_key.public_key(), pss(32, mgf=hashes.SHA1())(rsa_key, DATA))
    (oracle,) = [oracle for oracle in oracles if oracle.made.certain]
    assert (oracle.made.hash, oracle.made.mgf_hash) == ("SHA-256", "SHA-1")


def test_the_key_of_another_gives_nothing(rsa_key: rsa.RSAPrivateKey, rsa_pki: Pki) -> None:
    signature = with_hash(hashes.SHA256())(rsa_key, DATA)
    assert not make_oracles(rsa_pki.qwac.certificate.public_key, signature)


@pytest.mark.parametrize("exponent", [2**64 + 13, 2**200 + 235, 2**2040 + 9])
def test_an_exponent_of_any_size_that_the_verifier_takes_gives_the_hash_back(
    rsa_key: rsa.RSAPrivateKey, exponent: int
) -> None:
    numbers = rsa_key.private_numbers()
    order = (numbers.p - 1) * (numbers.q - 1)
    while gcd(exponent, order) != 1:
        exponent += 2
    public = rsa.RSAPublicNumbers(exponent, numbers.public_numbers.n).public_key()
    plain = pow(int.from_bytes(with_hash(hashes.SHA256())(rsa_key, DATA), "big"), 65537, numbers.public_numbers.n)
    signature = pow(plain, pow(exponent, -1, order), numbers.public_numbers.n).to_bytes(256, "big")
    public.verify(signature, DATA, padding.PKCS1v15(), hashes.SHA256())
    (oracle,) = make_oracles(public, signature)
    assert oracle.made.certain
    assert oracle.match(DATA)


@pytest.fixture(scope="module")
def cubic_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(3, 2048)


def cube_root(number: int) -> int:
    """The least whole number whose cube is no less."""
    low, high = 0, 1 << (number.bit_length() // 3 + 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if middle**3 >= number else (middle + 1, high)
    return low


@pytest.mark.parametrize(
    "beginning", [b"", b"\0" * 7, b"text", bytes.fromhex("3031300d060960864801650304020105000420") + bytes(32)]
)
def test_what_anybody_makes_of_a_key_with_a_small_exponent_proves_nothing(
    cubic_key: rsa.RSAPrivateKey, beginning: bytes
) -> None:
    start = b"\0\1" + b"\xff" * 8 + b"\0" + beginning
    forged = cube_root(int.from_bytes(start + bytes(256 - len(start)), "big")).to_bytes(256, "big")
    assert pow(int.from_bytes(forged, "big"), 3).to_bytes(256, "big").startswith(start)
    (oracle,) = make_oracles(cubic_key.public_key(), forged)
    assert not oracle.made.certain


@pytest.mark.parametrize("size", [20, 32, 64, 161, 164, 245])
def test_with_a_small_exponent_the_padding_is_proof_where_it_takes_more_than_a_root(
    cubic_key: rsa.RSAPrivateKey, rsa_key: rsa.RSAPrivateKey, size: int
) -> None:
    proofs = [make_oracles(key.public_key(), padded(key, b"a" * size))[0].made.certain for key in (cubic_key, rsa_key)]
    assert proofs == [size < 164, True]


@pytest.mark.parametrize(("salt", "certain"), [(0, True), (32, True), (128, True), (150, False), (213, False)])
def test_with_a_small_exponent_a_long_salt_leaves_too_little_to_prove_anything(
    cubic_key: rsa.RSAPrivateKey, rsa_key: rsa.RSAPrivateKey, salt: int, certain: bool
) -> None:
    for key, expected in ((cubic_key, certain), (rsa_key, True)):
        oracles = make_oracles(key.public_key(), pss(salt)(key, DATA))
        (oracle,) = [oracle for oracle in oracles if oracle.match(DATA)]
        assert oracle.made.certain is expected


@pytest.mark.parametrize("signer", [with_hash(hashes.SHA256()), with_hash(hashes.SHA512()), without_digest_info])
def test_a_whole_hash_is_proof_with_any_exponent(cubic_key: rsa.RSAPrivateKey, signer: Signer) -> None:
    (oracle,) = make_oracles(cubic_key.public_key(), signer(cubic_key, DATA))
    assert oracle.made.certain
    assert oracle.match(DATA)


def matched(oracle: Oracle, data: bytes) -> Made | None:
    """With whatever hash."""
    return oracle.match(data) or oracle.match(data, other_hashes=True)


@pytest.mark.parametrize(
    "curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1(), ec.SECP256K1()], ids=lambda curve: curve.name
)
@pytest.mark.parametrize("name", HASHES)
def test_an_ecdsa_signature_is_recognised_under_every_curve_and_hash(curve: ec.EllipticCurve, name: str) -> None:
    key = ec.generate_private_key(curve)
    (oracle,) = make_oracles(key.public_key(), key.sign(DATA, ec.ECDSA(HASHES[name])))
    made = matched(oracle, DATA)
    assert made is not None
    assert made.hash == name
    assert matched(oracle, DATA + b"\n") is None


@given(data=st.binary(max_size=100), other=st.binary(max_size=100))
def test_a_match_is_what_the_library_verifies(pki: Pki, data: bytes, other: bytes) -> None:
    signature = with_hash(hashes.SHA256())(pki.qseal.key, data)
    (oracle,) = make_oracles(pki.qseal.certificate.public_key, signature)
    assert (oracle.match(other) is not None) is (data == other)


def test_bare_r_and_s_are_told_from_der(pki: Pki) -> None:
    schemes = [
        oracle.made.scheme for oracle in make_oracles(pki.qseal.certificate.public_key, bare_ecdsa(pki.qseal.key, DATA))
    ]
    assert "ECDSA, r and s bare" in schemes


def test_ed25519_is_verified() -> None:
    key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
    (oracle,) = make_oracles(key.public_key(), key.sign(DATA))
    assert oracle.match(DATA) is not None
    assert oracle.match(b"") is None


@given(st.binary(max_size=300))
def test_any_bytes_are_taken_for_a_signature_or_not_and_nothing_raises(pki: Pki, rsa_pki: Pki, raw: bytes) -> None:
    for certificate in (pki.qseal.certificate, rsa_pki.qseal.certificate):
        for oracle in make_oracles(certificate.public_key, raw):
            assert matched(oracle, DATA) is None


@pytest.mark.parametrize(
    "raw",
    [
        bytes(64),
        b"\xff" * 64,
        b"\x30\x06\x02\x01\x00\x02\x01\x00",
        b"\x30\x06\x02\x01\x01\x02\x01\x01",
        b"\x30\x06\x02\x01\xff\x02\x01\xff",
    ],
)
def test_numbers_out_of_range_match_nothing(pki: Pki, raw: bytes) -> None:
    for oracle in make_oracles(pki.qseal.certificate.public_key, raw):
        assert matched(oracle, DATA) is None
