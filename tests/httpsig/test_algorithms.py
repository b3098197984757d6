"""A key decides what its signatures may be; OpenSSL's own command verifies what we sign and signs what we verify."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, padding, rsa, x25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from programs import needed
from refusals import refused
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig import KeySigner
from tppkit.httpsig.algorithms import (
    ALGORITHMS,
    CAVAGE,
    JWS,
    RFC9421,
    PrivateKey,
    Scheme,
    algorithms_for,
    der_from_raw,
    key_kind,
    make_sign,
    make_verifiers,
    raw_from_der,
    verify_signature,
)

DATA = b"(request-target): post /"
# The seeds make the same keys every time; RSA keys cannot be made so.
P256 = ec.derive_private_key(11, ec.SECP256R1())
P384 = ec.derive_private_key(12, ec.SECP384R1())
P521 = ec.generate_private_key(ec.SECP521R1())
ED25519 = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
Keys = Mapping[str, PrivateKey]


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def keys(rsa_key: rsa.RSAPrivateKey) -> Keys:
    return {"rsa": rsa_key, "P-256": P256, "P-384": P384, "P-521": P521, "ed25519": ED25519}


def verdict(key: object, algorithm: str, signature: bytes) -> str:
    try:
        verify_signature(make_verifiers(key.public_key(), names=ALGORITHMS), algorithm, signature, DATA)  # type: ignore[attr-defined]
    except SignatureRejected as e:
        return e.code
    return "holds"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_algorithm_verifies_what_it_signs_over_no_other_data_and_with_no_other_kind_of_key(name, keys):
    key = keys[ALGORITHMS[name].key]
    signature = make_sign(key, ALGORITHMS[name])(DATA)
    assert verdict(key, name, signature) == "holds"
    assert verdict(key, name, make_sign(key, ALGORITHMS[name])(DATA + b"\n")) == "signature.invalid"
    for kind, key in keys.items():
        if kind != ALGORITHMS[name].key:
            assert verdict(key, name, signature) == "signature.algorithm"


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(
    "signature", [b"", b"\x00", b"\x30\x00", b"\x30\x06\x02\x01\x00\x02\x01\x00", b"\xff" * 256, bytes(70)]
)
def test_what_is_not_a_signature_is_refused(signature, name, keys):
    assert verdict(keys[ALGORITHMS[name].key], name, signature) == "signature.invalid"


def test_a_key_has_its_kind_and_its_usual_algorithm_first_and_with_pss_alone_no_other(keys):
    usual = {kind: next(iter(algorithms_for(key))) for kind, key in keys.items()}
    assert usual == {
        "rsa": "rsa-sha256",
        "P-256": "ecdsa-sha256",
        "P-384": "ecdsa-sha384",
        "P-521": "ecdsa-p521-sha512",
        "ed25519": "ed25519",
    }
    assert {kind: key_kind(key.public_key()) for kind, key in keys.items()} == {kind: kind for kind in keys}
    assert list(algorithms_for(keys["rsa"], pss_only=True)) == ["rsa-pss-sha256", "rsa-pss-sha512"]
    with refused(FormatError, "key.unsupported"):
        make_verifiers(keys["rsa"].public_key(), names=CAVAGE, pss_only=True)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (CAVAGE, {"rsa": ["rsa-sha256", "rsa-sha512"], "P-256": ["ecdsa-sha256"], "P-384": ["ecdsa-sha384"]}),
        (
            RFC9421,
            {
                "rsa": ["rsa-v1_5-sha256", "rsa-pss-sha512"], "P-256": ["ecdsa-p256-sha256"],
                "P-384": ["ecdsa-p384-sha384"], "ed25519": ["ed25519"],
            },
        ),
        (
            JWS,
            {
                "rsa": ["PS256", "PS512", "RS256", "RS512"], "P-256": ["ES256"], "P-384": ["ES384"],
                "P-521": ["ES512"], "ed25519": ["Ed25519", "EdDSA"],
            },
        ),
    ],
    ids=["cavage", "RFC 9421", "JWS"],
)  # fmt: skip
def test_each_format_names_the_algorithms_of_a_key(names, expected, keys):
    for kind, key in keys.items():
        if kind in expected:
            assert list(algorithms_for(key, names=names)) == expected[kind]
        else:
            with refused(FormatError, "key.unsupported"):
                algorithms_for(key, names=names)


UNUSABLE: dict[str, tuple[Callable[[], Any], str]] = {
    "P-521, which has no name in draft-cavage": (lambda: ec.generate_private_key(ec.SECP521R1()), "key.unsupported"),
    "secp256k1": (lambda: ec.generate_private_key(ec.SECP256K1()), "key.unsupported"),
    "brainpoolP256r1": (lambda: ec.generate_private_key(ec.BrainpoolP256R1()), "key.unsupported"),
    "Ed448": (ed448.Ed448PrivateKey.generate, "key.unsupported"),
    "X25519": (x25519.X25519PrivateKey.generate, "key.unsupported"),
    "DSA": (lambda: dsa.generate_private_key(2048), "key.unsupported"),
    "Ed25519, which has no name in draft-cavage": (lambda: ED25519, "key.unsupported"),
    "RSA of 1024 bits": (lambda: rsa.generate_private_key(65537, 1024), "key.weak"),
    "RSA of 2047 bits": (lambda: rsa.generate_private_key(65537, 2047), "key.weak"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_key_of_another_kind_or_below_the_minimum_is_refused(name):
    make, code = UNUSABLE[name]
    key = make()
    for either in (key, key.public_key()):
        with refused(FormatError, code):
            make_verifiers(either)


@pytest.mark.parametrize("name", ["secp256k1", "brainpoolP256r1", "Ed448", "X25519"])
def test_the_kind_of_an_unsupported_key_is_named(name):
    with pytest.raises(FormatError, match=f"{name}.* is not supported; use P-256, P-384"):
        make_verifiers(UNUSABLE[name][0]().public_key())


def test_a_key_does_not_sign_with_an_algorithm_of_another_kind():
    with refused(FormatError, "signature.algorithm"):
        make_sign(P256, ALGORITHMS["ecdsa-sha384"])


def test_an_rsa_signature_of_another_padding_length_or_number_is_refused(rsa_key):
    signature = rsa_key.sign(DATA, padding.PSS(padding.MGF1(SHA256()), 32), SHA256())
    assert verdict(rsa_key, "rsa-sha256", signature) == "signature.invalid"
    signature = make_sign(rsa_key, ALGORITHMS["rsa-sha256"])(DATA)
    above = int.from_bytes(signature, "big") + rsa_key.public_key().public_numbers().n
    assert verdict(rsa_key, "rsa-sha256", above.to_bytes(257, "big")) == "signature.invalid"
    assert verdict(rsa_key, "rsa-sha256", b"\x00" + signature) == "signature.invalid"
    sign = make_sign(rsa_key, ALGORITHMS["rsa-sha256"])
    data = next(data for data in map(b"%d".__mod__, range(20_000)) if sign(data)[0] == 0)
    verify = make_verifiers(rsa_key.public_key(), names=ALGORITHMS)["rsa-sha256"]
    verify(sign(data), data)
    with pytest.raises(InvalidSignature):
        verify(sign(data)[1:], data)


_INFO = bytes.fromhex("3031300d060960864801650304020105000420")
_HASH = sha256(DATA).digest()
# RFC 8017 section 9.2, and what careless readers have taken for it.
PADDED = {
    "right": b"\x00\x01" + b"\xff" * 202 + b"\x00" + _INFO + _HASH,
    "bytes behind the hash": b"\x00\x01" + b"\xff" * 100 + b"\x00" + _INFO + _HASH + bytes(102),
    "bytes before the hash": b"\x00\x01" + b"\xff" * 100 + b"\x00" + bytes(102) + _INFO + _HASH,
    "no name of the hash": b"\x00\x01" + b"\xff" * 221 + b"\x00" + _HASH,
    "no NULL": b"\x00\x01" + b"\xff" * 204 + b"\x00" + bytes.fromhex("302f300b0609608648016503040201") + _INFO[-2:] + _HASH,
    "another hash's name": b"\x00\x01" + b"\xff" * 202 + b"\x00" + bytes.fromhex("3031300d060960864801650304020305000420") + _HASH,
    "a long form of a length": b"\x00\x01" + b"\xff" * 201 + b"\x00\x30\x81" + _INFO[1:] + _HASH,
    "padding of zeros": b"\x00\x01" + bytes(203) + _INFO + _HASH,
    "padding for encryption": b"\x00\x02" + b"\xff" * 202 + b"\x00" + _INFO + _HASH,
    "another byte in the padding": b"\x00\x01" + b"\xff" * 100 + b"\xfe" + b"\xff" * 101 + b"\x00" + _INFO + _HASH,
    "no end of the padding": b"\x00\x01" + b"\xff" * 203 + _INFO + _HASH,
}  # fmt: skip


@pytest.mark.parametrize("what", PADDED)
def test_pkcs_1_is_compared_whole(what, rsa_key):
    numbers = rsa_key.private_numbers()
    assert len(PADDED[what]) == 256
    signature = pow(int.from_bytes(PADDED[what], "big"), numbers.d, numbers.public_numbers.n).to_bytes(256, "big")
    assert verdict(rsa_key, "rsa-sha256", signature) == ("holds" if what == "right" else "signature.invalid")
    try:  # the library's own verification is of the same mind
        rsa_key.public_key().verify(signature, DATA, padding.PKCS1v15(), SHA256())
    except InvalidSignature:
        assert what != "right"
    else:
        assert what == "right"


@pytest.mark.parametrize("key", [P256, P384], ids=["P-256", "P-384"])
def test_ecdsa_takes_der_only_and_no_other_spelling_of_it(key):
    signer = KeySigner(key)
    der = signer.sign(DATA)
    size = key.key_size // 8
    raw = b"".join(number.to_bytes(size, "big") for number in decode_dss_signature(der))
    # The content's length as a long form, a zero before the first number, a byte after the end, r and s bare.
    r_size = der[3]
    long_form = b"\x30\x81" + der[1:]
    padded = bytes([0x30, der[1] + 1, 0x02, r_size + 1, 0x00]) + der[4:]
    for spelling in (raw, long_form, padded, der + b"\x00", der[:-1], b"\x31" + der[1:]):
        assert verdict(key, signer.algorithm.name, spelling) == "signature.invalid"
    assert verdict(key, signer.algorithm.name, der) == "holds"


@pytest.mark.parametrize("key", [P256, P384, P521], ids=["P-256", "P-384", "P-521"])
def test_bare_ecdsa_takes_two_numbers_of_its_size_only(key):
    name = next(row.name for row in JWS.values() if row.key == key_kind(key))
    raw = make_sign(key, ALGORITHMS[name])(DATA)
    size = (key.key_size + 7) // 8
    der = der_from_raw(raw, size=size)
    for spelling in (der, raw + b"\x00", b"\x00" + raw, raw[:-1], raw[size:] + raw[:size], bytes(2 * size)):
        assert verdict(key, name, spelling) == "signature.invalid"
    assert (verdict(key, name, raw), raw_from_der(der, size=size)) == ("holds", raw)


def test_a_number_longer_than_the_curve_has_no_bare_form():
    with pytest.raises(ValueError, match="does not fit in 32 bytes"):
        raw_from_der(encode_dss_signature(1 << 256, 1), size=32)


def test_the_message_of_a_wrong_algorithm_shows_no_control_character():
    with pytest.raises(SignatureRejected) as caught:
        verify_signature(make_verifiers(P256.public_key()), "\x1b[31m" + "x" * 500, b"", DATA)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 200


_PSS = ("-pkeyopt", "rsa_padding_mode:pss", "-pkeyopt", "rsa_pss_saltlen:digest")
# The options of `openssl pkeyutl` for each algorithm.
OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "rsa-sha256": ("-digest", "sha256"),
        "rsa-sha512": ("-digest", "sha512"),
        "rsa-pss-sha256": ("-digest", "sha256", *_PSS),
        "rsa-pss-sha512": ("-digest", "sha512", *_PSS),
        "ecdsa-sha256": ("-digest", "sha256"),
        "ecdsa-sha384": ("-digest", "sha384"),
        "ecdsa-p256-sha512": ("-digest", "sha512"),
        "ecdsa-p256-sha256": ("-digest", "sha256"),
        "ecdsa-p384-sha384": ("-digest", "sha384"),
        "ecdsa-p521-sha512": ("-digest", "sha512"),
        "ed25519": (),
    }
)


def openssl(name: str, *arguments: str | Path) -> str:
    command = [needed("openssl"), "pkeyutl", *arguments, "-rawin", *OPTIONS[name]]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def to_der(name: str, signature: bytes) -> bytes:
    """OpenSSL's command knows ECDSA as DER only."""
    raw = ALGORITHMS[name].scheme is Scheme.ECDSA_RAW
    return der_from_raw(signature, size=len(signature) // 2) if raw else signature


def from_der(name: str, signature: bytes) -> bytes:
    row = ALGORITHMS[name]
    return raw_from_der(signature, size=(int(row.key[2:]) + 7) // 8) if row.scheme is Scheme.ECDSA_RAW else signature


@pytest.mark.parametrize("name", ALGORITHMS)
def test_openssl_verifies_what_we_sign_and_signs_what_we_verify(name, keys, tmp_path):
    key = keys[ALGORITHMS[name].key]
    public, text, signature = tmp_path / "public.pem", tmp_path / "text", tmp_path / "signature"
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    text.write_bytes(DATA)
    signature.write_bytes(to_der(name, KeySigner(key, algorithm=name).sign(DATA)))
    printed = openssl(name, "-verify", "-pubin", "-inkey", public, "-sigfile", signature, "-in", text)
    assert printed == "Signature Verified Successfully\n"
    private, text, signature = tmp_path / "private.pem", tmp_path / "text", tmp_path / "signature"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    openssl(name, "-sign", "-inkey", private, "-out", signature, "-in", text)
    verifiers = make_verifiers(key.public_key(), names=ALGORITHMS)
    verify_signature(verifiers, name, from_der(name, signature.read_bytes()), DATA)
