"""What every signer is, and the choice of its algorithm."""

from __future__ import annotations

from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from tppkit.errors import FormatError
from tppkit.httpsig.algorithms import ALGORITHMS, Algorithm, Names, algorithms_for


class Signer(Protocol):
    """Signs bytes with one key and one algorithm."""

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm of every signature."""

    @property
    def public_key(self) -> CertificatePublicKeyTypes:
        """The key that verifies them."""

    def sign(self, data: bytes) -> bytes:
        """The signature over `data`, in the form of the algorithm's scheme."""

    async def sign_async(self, data: bytes) -> bytes:
        """The same without holding up the event loop."""


def choose_algorithm(key: object, name: str | None, *, names: Names = ALGORITHMS) -> Algorithm:
    """The algorithm of this name, or the usual one of the key.

    Args:
        key: public or private.
        name: a name of `httpsig.ALGORITHMS`.
        names: those that the signer can have.

    Raises:
        FormatError: `key.unsupported`, `key.weak`, `signature.algorithm`.
    """
    rows = algorithms_for(key, names=names)
    if name is not None and name not in rows:
        raise FormatError("signature.algorithm", f"this key signs with {' or '.join(rows)}, not with {name[:40]!r}")
    return rows[name] if name is not None else next(iter(rows.values()))
