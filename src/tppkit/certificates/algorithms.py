"""Until when signature algorithms are accepted: the rows of `algorithms.toml`."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

from tppkit.certificates.certificate import EidasCertificate

_FILE = files("tppkit.certificates").joinpath("algorithms.toml")
NEVER = datetime.max.replace(tzinfo=UTC)
ALREADY = datetime.min.replace(tzinfo=UTC)
"""The end of what no row accepts."""


class AlgorithmRow(NamedTuple):
    """One row of the policy.

    Attributes:
        scheme: the signature scheme.
        min_bits: the smallest key, the bits of its modulus or field.
        end: the first moment at which it is not accepted, aware UTC; `NEVER` without a planned end.
        source: where this is from.
    """

    scheme: str
    min_bits: int
    end: datetime
    source: str


@lru_cache(maxsize=1)
def policy() -> tuple[AlgorithmRow, ...]:
    """Return the rows."""
    return tuple(
        AlgorithmRow(row["scheme"], row["min_bits"], row.get("end", NEVER), row["source"])
        for row in tomllib.loads(_FILE.read_text("utf-8"))["algorithm"]
    )


def policy_digest(at: datetime) -> str:
    """Return a hash of the rows and of which have ended at a time."""
    ended = [row.end <= at for row in policy()]
    return hashlib.sha256(_FILE.read_bytes() + repr(ended).encode()).hexdigest()


@lru_cache(maxsize=256)
def end_of(scheme: str, bits: int) -> datetime:
    """Return when a scheme with a key of this size ends; `ALREADY` if no row accepts it."""
    rows = [row for row in policy() if scheme.startswith(row.scheme) and row.min_bits <= bits]
    return max(rows, key=lambda row: row.min_bits).end if rows else ALREADY


def scheme_of(name: str) -> str:
    """Return the scheme of a certificate's signature algorithm, as `EidasCertificate.signature_algorithm` names it."""
    if name == "rsassaPss":
        return "RSASSA-PSS"
    if name.endswith("WithRSAEncryption"):
        return "RSASSA-PKCS1-v1_5"
    return "ECDSA" if name.startswith("ecdsa") else "EdDSA" if name.startswith("ed") else name


def end_of_chain(chain: Sequence[EidasCertificate]) -> datetime:
    """Return when the first signature in a chain ends; that of the anchor itself does not count, as it is trusted as it is."""
    return min(
        (end_of(scheme_of(one.signature_algorithm), issuer.key.bits or 0) for one, issuer in pairwise(chain)),
        default=NEVER,
    )


def end_of_stamp(authority: EidasCertificate) -> datetime:
    """Return when the signature of a time stamp ends. A token with an RSA key counts as PKCS#1 v1.5, as almost all are."""
    scheme = {"rsa": "RSASSA-PKCS1-v1_5", "rsa-pss": "RSASSA-PSS", "ec": "ECDSA"}.get(authority.key.type, "EdDSA")
    return end_of(scheme, authority.key.bits or 0)
