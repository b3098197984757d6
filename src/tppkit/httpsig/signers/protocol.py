"""The protocol of signers, and the choice of their algorithm."""

from __future__ import annotations

from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from tppkit.errors import FormatError
from tppkit.httpsig.algorithms import ALGORITHMS, Algorithm, Names, algorithms_for


class Signer(Protocol):
    """Signs bytes with one key and one algorithm.

    Example:
        def make_seal(certificate: EidasCertificate, signer: Signer) -> Seal:
            return Seal(certificate, signer, verify_own=True)
    """

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm of every signature."""

    @property
    def public_key(self) -> CertificatePublicKeyTypes:
        """The key that verifies them."""

    def sign(self, data: bytes) -> bytes:
        """Return the signature over `data`, in the form of the algorithm's scheme."""

    async def sign_async(self, data: bytes) -> bytes:
        """Return the signature over `data` without blocking the event loop."""


def choose_algorithm(key: object, name: str | None, *, names: Names = ALGORITHMS) -> Algorithm:
    """Return the algorithm of this name, or the key's usual one.

    Args:
        key: public or private.
        name: a name of `httpsig.algorithms.ALGORITHMS`, or None.
        names: the algorithms that the signer supports.

    Raises:
        FormatError: `key.unsupported`, `key.weak`, `signature.algorithm`.
    """
    rows = algorithms_for(key, names=names)
    if name is not None and name not in rows:
        raise FormatError("signature.algorithm", f"this key can use {' or '.join(rows)}, not {name[:40]!r}")
    return rows[name] if name is not None else next(iter(rows.values()))
