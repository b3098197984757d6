"""Type and size of a public key, read from its identifiers without loading the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tppkit.certificates import der
from tppkit.errors import FormatError


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """Type and size of a public key.

    Attributes:
        type: `rsa`, `rsa-pss` (an RSA key for PSS signatures only), `ec`, `ed25519`, `ed448`; `x25519`, `x448`, `ml-dsa`, `slh-dsa`,
            which no certificate here may have; or `unknown`.
        bits: size of modulus or field in bits, None if unknown.
        curve: `P-256`, `P-384`, … for `ec`, else None.
        oid: the dotted identifier of an unknown type or curve, else None.
    """

    type: str
    bits: int | None = None
    curve: str | None = None
    oid: str | None = None

    @property
    def name(self) -> str:
        """The curve, the identifier if it is unknown, or the type, for messages."""
        return self.curve or self.oid or self.type


# The keys that are strong enough, by type or curve, and the bits that they need: SOG-IS Agreed Cryptographic Mechanisms 1.3, as
# ETSI TS 119 312 adopts them.
STRONG_KEYS: Mapping[str, int] = MappingProxyType({
    "rsa": 2048, "rsa-pss": 2048, "P-256": 256, "P-384": 384, "P-521": 521, "brainpoolP256r1": 256,
    "brainpoolP384r1": 384, "brainpoolP512r1": 512, "ed25519": 256, "ed448": 448,
})  # fmt: skip
SIGNING_KEYS = frozenset({"rsa", "rsa-pss", "ec", "ed25519", "ed448"})  # the types that a certificate here may have
LEGACY_RSA_BITS = 1900  # "legacy" there; enough for signers of trusted lists, of which Norway's has 2032


def key_weakness(key: KeyFacts) -> str | None:
    """The code for a key that is not strong enough: `key.weak`, `key.unsupported`; None for a strong key."""
    needed = STRONG_KEYS.get(key.curve or key.type)
    if needed is None:
        return "key.unsupported"
    return "key.weak" if (key.bits or 0) < needed else None


_KEY_TYPES: Mapping[str, KeyFacts] = MappingProxyType({
    "1.2.840.113549.1.1.1": KeyFacts("rsa"),
    "1.2.840.113549.1.1.10": KeyFacts("rsa-pss"),  # RFC 4055
    "1.3.101.112": KeyFacts("ed25519", 256),
    "1.3.101.113": KeyFacts("ed448", 448),
    "1.3.101.110": KeyFacts("x25519", 255),
    "1.3.101.111": KeyFacts("x448", 448),
    **{f"2.16.840.1.101.3.4.3.{n}": KeyFacts("ml-dsa") for n in (17, 18, 19)},  # RFC 9881
    **{f"2.16.840.1.101.3.4.3.{n}": KeyFacts("slh-dsa") for n in range(20, 32)},  # RFC 9909
})  # fmt: skip
_CURVES: Mapping[str, KeyFacts] = MappingProxyType({
    "1.2.840.10045.3.1.7": KeyFacts("ec", 256, "P-256"),
    "1.3.132.0.34": KeyFacts("ec", 384, "P-384"),
    "1.3.132.0.35": KeyFacts("ec", 521, "P-521"),
    "1.3.132.0.10": KeyFacts("ec", 256, "secp256k1"),
    "1.3.36.3.3.2.8.1.1.7": KeyFacts("ec", 256, "brainpoolP256r1"),
    "1.3.36.3.3.2.8.1.1.11": KeyFacts("ec", 384, "brainpoolP384r1"),
    "1.3.36.3.3.2.8.1.1.13": KeyFacts("ec", 512, "brainpoolP512r1"),
})  # fmt: skip
_RSA, _EC = "1.2.840.113549.1.1.1", "1.2.840.10045.2.1"


def read_key_facts(data: bytes, key: der.Element) -> KeyFacts:
    """Read type and size of the key in a SubjectPublicKeyInfo, an element of `data`; `unknown` if it cannot be read.

    Source: RFC 3279, RFC 4055, RFC 5480, RFC 8410.
    """
    # Loading a key takes longer than parsing the rest of a certificate, because its point is checked to be on the curve.
    # `Subject.public_key` loads it on demand.
    try:
        algorithm = der.read_element(data, key.start, key.end)
        encoded = data[algorithm.offset : algorithm.end]
        facts = _read_algorithm(encoded)
        if facts.type not in ("rsa", "rsa-pss"):
            return facts
        bits = der.read_element(data, algorithm.end, key.end)
        modulus = der.read_element(data, der.read_element(data, bits.start + 1, bits.end).start, bits.end)
        return KeyFacts(facts.type, int.from_bytes(data[modulus.start : modulus.end], "big").bit_length())
    except (FormatError, ValueError, IndexError):
        return KeyFacts("unknown")


def _read_algorithm(encoded: bytes) -> KeyFacts:
    kind, *parameters = der.read_children(encoded, der.read_whole(encoded, tag=der.SEQUENCE))
    oid = der.read_oid(encoded, kind)
    if oid == _RSA and [encoded[one.offset : one.end] for one in parameters] != [b"\x05\x00"]:
        return KeyFacts("unknown", oid=oid)  # RFC 3279 section 2.3.1: NULL is required
    if oid == _EC and len(parameters) == 1:
        curve = der.read_oid(encoded, parameters[0])
        return _CURVES.get(curve) or KeyFacts("ec", oid=curve)
    return _KEY_TYPES.get(oid) or KeyFacts("unknown", oid=oid)
