"""Deterministic RSA keys, for seeded test PKIs only: the same bytes give the same key.

`cryptography` generates RSA keys only from the randomness of the machine, so the primes are searched here.
"""

from __future__ import annotations

import math
from functools import cache

from cryptography.hazmat.primitives.asymmetric import rsa

PUBLIC_EXPONENT = 65537
_DIVISOR_LIMIT = 1 << 14


def make_rsa_key(bits: int, random: bytes) -> rsa.RSAPrivateKey:
    """Return the RSA key that belongs to these bytes.

    Args:
        bits: Size of the modulus, even.
        random: At least `bits // 8` bytes.
    """
    half = bits // 16
    p = _next_prime(random[:half])
    q = _next_prime(random[half : 2 * half])
    if p < q:
        p, q = q, p
    d = pow(PUBLIC_EXPONENT, -1, (p - 1) * (q - 1))
    public = rsa.RSAPublicNumbers(PUBLIC_EXPONENT, p * q)
    return rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), public).private_key()


@cache
def _odd_product() -> int:
    return math.prod(range(3, _DIVISOR_LIMIT, 2))


def _next_prime(random: bytes) -> int:
    """Return the first usable prime from these bytes on; its two highest bits are set, so the product has full size."""
    size = 8 * len(random)
    candidate = int.from_bytes(random, "big") | 3 << (size - 2) | 1
    while (
        math.gcd(_odd_product() % candidate, candidate) != 1
        or candidate % PUBLIC_EXPONENT == 1
        # Fermat's test suffices: no attacker chooses the candidates, and `private_key` accepts primes only.
        or pow(2, candidate - 1, candidate) != 1
    ):
        candidate += 2
    return candidate
