"""What a signature tells about what was signed, given the public key.

An RSA signature gives back what was padded: for PKCS#1 the very hash that was signed, for PSS a salted check of it. So
whether the key made the signature, by which scheme and hash, is known before anything is guessed, and a guess costs one hash.
An ECDSA or Ed25519 signature tells nothing by itself: each guess costs a verification.
Source: RFC 8017 sections 8.1.2, 9.1.2 and 9.2; RFC 3279 section 2.2.3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature, encode_dss_signature

from tppkit.seals.diagnose.hashes import BY_SIZE, KNOWN, SIGNED, KnownHash

_OF_FILE = re.compile(rb"^([A-Z0-9-]*)\([^\n()]{1,128}\)= ")
# Bits of the modulus, and their square times the bits of the exponent, by which the time grows; with more it would take minutes. All
# that OpenSSL takes is below: 16,384 bits with an exponent of 64, and 3,072 with any.
_MAX_RSA, _MAX_POWER = 16_384, 128 * 16_384**2
_PRIMES = {
    "secp256r1": 2**256 - 2**224 + 2**192 + 2**96 - 1,
    "secp384r1": 2**384 - 2**128 - 2**96 + 2**32 - 1,
    "secp521r1": 2**521 - 1,
    "secp256k1": 2**256 - 2**32 - 977,
}
_ORDERS = {
    "secp256r1": 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    "secp384r1": 2**384 - 0x389CB27E0BC8D220A7E5F24DB74F58851313E695333AD68D,
    "secp521r1": 2**521 - 0x5AE79787C40D069948033FEB708F65A2FC44A36477663B851449048E16EC79BF7,
    "secp256k1": 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141,
}


class Made(NamedTuple):
    """How a signature was made, as far as it is known.

    Attributes:
        scheme: `PKCS#1`, `PKCS#1 without DigestInfo`, `PSS`, `ECDSA, DER`, `ECDSA, r and s bare`, `Ed25519`.
        hash: name of the hash; empty where nothing was hashed, or where it is not known yet.
        recovered: the hash (or, for PSS, the salted check) that the signature holds; empty when it holds none.
        salt_length: of PSS, in bytes.
        mgf_hash: of PSS.
        certain: the padding alone proves that this key made the signature: `_proves`.
    """

    scheme: str
    hash: str
    recovered: bytes = b""
    salt_length: int | None = None
    mgf_hash: str = ""
    certain: bool = False


_ED25519 = Made("Ed25519", "SHA-512")


Points = dict[tuple[str, str], int | None]
"""By curve and hash: where the hash of the bytes that are asked about leads; oracles that are asked together share it."""


class Oracle(Protocol):
    """Says whether a signature is over given bytes."""

    made: Made
    cost: int  # of one answer, in units of a hash
    shares: str  # with which other oracles nearly all of the cost is shared

    def match(self, data: bytes, *, other_hashes: bool = False, points: Points | None = None) -> Made | None:
        """How the signature was made, when it is over these bytes.

        Args:
            data: the bytes.
            other_hashes: try the hashes that are not usual for the key, in place of the usual one.
            points: what other oracles worked out for these bytes.
        """


@dataclass
class Pkcs1Oracle:
    """A PKCS#1 signature whose content was recovered."""

    made: Made
    cost: int = 1
    shares: str = ""

    def match(self, data: bytes, *, other_hashes: bool = False, points: Points | None = None) -> Made | None:
        """Compare the recovered hash with that of the bytes."""
        if self.made.hash:
            return self.made if KNOWN[self.made.hash].digest(data) == self.made.recovered else None
        return self.made if _of_any_file(data) == _of_any_file(self.made.recovered) else None


def _of_any_file(text: bytes) -> bytes:
    """What `openssl dgst` prints of a file, without the name of the file."""
    return _OF_FILE.sub(rb"\1()= ", text, count=1)


@dataclass
class PssOracle:
    """A PSS signature whose salt was recovered."""

    made: Made
    salt: bytes
    cost: int = 2
    shares: str = ""

    def match(self, data: bytes, *, other_hashes: bool = False, points: Points | None = None) -> Made | None:
        """Repeat the salted check over the hash of the bytes."""
        hasher = KNOWN[self.made.hash]
        return self.made if hasher.digest(b"\0" * 8 + hasher.digest(data) + self.salt) == self.made.recovered else None


@dataclass
class EcOracle:
    """An ECDSA signature: a guess is compared with the point that its hash must lead to, and what fits is verified.

    From R = (e G + r Q) / s follows e G = s R - r Q. The right side is known but for the sign of R, so a guess costs a
    multiplication of the base point, about half of a verification.
    """

    key: ec.EllipticCurvePublicKey
    der: bytes
    made: Made
    usual: str
    cost: int = 18
    shares: str = ""

    def __post_init__(self) -> None:
        self.shares = self.key.curve.name
        self._wanted = _points_of_hash(self.key, self.der)

    def match(self, data: bytes, *, other_hashes: bool = False, points: Points | None = None) -> Made | None:
        """Compare, with the usual hash of the key or with the others."""
        points = {} if points is None else points
        for row in SIGNED:
            if (row.name == self.usual) is other_hashes:
                continue
            digest = row.digest(data)
            place = self.shares, row.name
            if place not in points:
                points[place] = _times_base(self.key, digest)
            if points[place] in self._wanted and self._verifies(digest, row):
                return self.made._replace(hash=row.name)
        return None

    def _verifies(self, digest: bytes, row: KnownHash) -> bool:
        if row.signed is None:
            return False
        try:
            self.key.verify(self.der, digest, ec.ECDSA(Prehashed(row.signed)))
        except InvalidSignature:
            return False
        return True


def _times_base(key: ec.EllipticCurvePublicKey, digest: bytes) -> int | None:
    """The x coordinate of the base point times a hash; None for the one hash in 2^256 that is no scalar."""
    number = int.from_bytes(digest, "big") >> max(0, 8 * len(digest) - key.key_size)
    try:
        return ec.derive_private_key(number, key.curve).public_key().public_numbers().x
    except ValueError:
        return None


def _points_of_hash(key: ec.EllipticCurvePublicKey, der: bytes) -> frozenset[int | None]:
    """The x coordinates of s R + r Q and s R - r Q, one of which is that of e G; none for a curve that is not known here."""
    prime = _PRIMES.get(key.curve.name)
    r, s = decode_dss_signature(der)
    if prime is None:
        return frozenset()
    try:
        point = ec.EllipticCurvePublicKey.from_encoded_point(
            key.curve, b"\2" + r.to_bytes((key.key_size + 7) // 8, "big")
        )
        first, second = _multiplied(s, point), _multiplied(r, key)
    except (
        ValueError,
        OverflowError,
    ):  # r or s is out of range, or no point has that coordinate: no signature of anything
        return frozenset()
    (x1, y1), (x2, y2) = first, second
    if x1 == x2:
        return frozenset()
    return frozenset(_added(x1, y1, x2, y, prime) for y in (y2, prime - y2))


def _multiplied(scalar: int, point: ec.EllipticCurvePublicKey) -> tuple[int, int]:
    """A multiple of a point; which of the two with its x coordinate is all the same here."""
    x = ec.derive_private_key(scalar, point.curve).exchange(ec.ECDH(), point)
    numbers = ec.EllipticCurvePublicKey.from_encoded_point(point.curve, b"\2" + x).public_numbers()
    return numbers.x, numbers.y


def _added(x1: int, y1: int, x2: int, y2: int, prime: int) -> int:
    """The x coordinate of the sum of two points."""
    slope = (y2 - y1) * pow(x2 - x1, -1, prime)
    return (slope * slope - x1 - x2) % prime


@dataclass
class Ed25519Oracle:
    """An Ed25519 signature: every guess is verified."""

    key: ed25519.Ed25519PublicKey
    signature: bytes
    made: Made = _ED25519
    cost: int = 40
    shares: str = ""

    def match(self, data: bytes, *, other_hashes: bool = False, points: Points | None = None) -> Made | None:
        """Verify."""
        try:
            self.key.verify(self.signature, data)
        except InvalidSignature:
            return None
        return self.made


def make_oracles(key: object, signature: bytes, *, usual_hash: str | None = None) -> Sequence[Oracle]:
    """What can judge a signature under a key; none when the key cannot have made it.

    Args:
        key: a public key; of any other kind than RSA, EC and Ed25519 there is no oracle.
        signature: the raw bytes.
        usual_hash: the hash to try first with an EC key, such as `SHA-512`; by default the one that suits the curve.
    """
    match key:
        case rsa.RSAPublicKey():
            return _rsa_oracles(key, signature)
        case ec.EllipticCurvePublicKey():
            return _ec_oracles(key, signature, usual_hash or ("SHA-384" if key.key_size > 256 else "SHA-256"))
        case ed25519.Ed25519PublicKey() if len(signature) == 64:
            return (Ed25519Oracle(key, signature),)
    return ()


def _rsa_oracles(key: rsa.RSAPublicKey, signature: bytes) -> Sequence[Oracle]:
    numbers, size = key.public_numbers(), (key.key_size + 7) // 8
    value = int.from_bytes(signature, "big")
    power = numbers.e.bit_length() * key.key_size**2
    if len(signature) != size or value >= numbers.n or key.key_size > _MAX_RSA or power > _MAX_POWER:
        return ()
    block = pow(value, numbers.e, numbers.n).to_bytes(size, "big")
    padded = _unpad_pkcs1(block)
    if padded is not None:
        made = _read_digest_info(padded)
        return (Pkcs1Oracle(made._replace(certain=_proves(key, 8 * (size - len(made.recovered))))),)
    return _read_pss(block, key)


def _proves(key: rsa.RSAPublicKey, fixed: int) -> bool:
    """Whether so many bits that are as the padding has them prove that the private key made the block.

    Without it one has as many as the modulus has, divided by the exponent (of a root of whole numbers with e = 3 a third), and
    more by chance alone, which 64 leave none.
    """
    return (fixed - 64) * key.public_numbers().e >= key.key_size


def _unpad_pkcs1(block: bytes) -> bytes | None:
    filling, separator, content = block[2:].partition(b"\0")
    if block[:2] != b"\0\1" or not separator or len(filling) < 8 or filling.strip(b"\xff"):
        return None
    return content


def _read_digest_info(content: bytes) -> Made:
    for name, row in KNOWN.items():
        start = row.digest_info
        if content.startswith(start) and len(content) == len(start) + start[-1]:
            return Made("PKCS#1", name, content[len(start) :])
        bare = bytes([0x30, start[1] - 2, 0x30, start[3] - 2]) + start[4:-4] + start[-2:]
        if content.startswith(bare) and len(content) == len(bare) + bare[-1]:
            return Made("PKCS#1, DigestInfo without NULL", name, content[len(bare) :])
    # Without DigestInfo: the bare hash of some size, or the data themselves (NONEwithRSA), which are text.
    is_text = content.isascii() and content.decode("latin-1").rstrip("\r\n").isprintable()
    bare_hash = None if is_text else BY_SIZE.get(len(content))
    return Made("PKCS#1 without DigestInfo", bare_hash.name if bare_hash else "", content)


def _read_pss(block: bytes, key: rsa.RSAPublicKey) -> Sequence[Oracle]:
    """One oracle for each pair of hashes under which the block has the form of PSS; chance alone gives none."""
    found: list[Oracle] = []
    bits = key.key_size
    size = (bits + 6) // 8
    block = block[-size:]
    if block[-1] != 0xBC:
        return ()
    for row in SIGNED:
        if size < row.size + 10:
            continue
        masked, check = block[: -row.size - 1], block[-row.size - 1 : -1]
        for mgf in SIGNED:
            salt = _unmask(masked, check, mgf, unused_bits=8 * size - (bits - 1))
            if salt is not None:
                # Who chooses the salt has whatever check it gives: neither is as the padding has it.
                proof = _proves(key, 8 * (size - row.size - len(salt)))
                found.append(PssOracle(Made("PSS", row.name, check, len(salt), mgf.name, certain=proof), salt))
    return found


def _unmask(masked: bytes, seed: bytes, mgf: KnownHash, *, unused_bits: int) -> bytes | None:
    mask = b"".join([mgf.digest(seed + counter.to_bytes(4, "big")) for counter in range(len(masked) // mgf.size + 1)])
    number = int.from_bytes(masked, "big") ^ int.from_bytes(mask[: len(masked)], "big")
    number &= (1 << (8 * len(masked) - unused_bits)) - 1
    zeros, one, salt = number.to_bytes(len(masked), "big").partition(b"\1")
    # A salt that fills the block leaves no zeros to prove the form; then only a match proves anything, which is as good.
    return salt if one and not zeros.strip(b"\0") else None


def _ec_oracles(key: ec.EllipticCurvePublicKey, signature: bytes, usual: str) -> Sequence[Oracle]:
    size = (key.key_size + 7) // 8
    found: list[EcOracle] = []
    with suppress(ValueError):
        if _in_range(key, *decode_dss_signature(signature)):
            found.append(EcOracle(key, signature, Made("ECDSA, DER", ""), usual))
    if len(signature) == 2 * size:
        r, s = int.from_bytes(signature[:size], "big"), int.from_bytes(signature[size:], "big")
        if _in_range(key, r, s):
            found.append(EcOracle(key, encode_dss_signature(r, s), Made("ECDSA, r and s bare", ""), usual))
    return found


def _in_range(key: ec.EllipticCurvePublicKey, r: int, s: int) -> bool:
    order = _ORDERS.get(key.curve.name)
    return order is not None and 0 < r < order and 0 < s < order
