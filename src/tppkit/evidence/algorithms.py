"""What a record's proof of time changes about the end of its algorithms.

A signature that was made before its algorithm ended stays good only if something proves that it existed before: a time stamp over
a head of its log. Source: ETSI EN 319 102-1 section 5.2.8 (cryptographic constraints at the time of a proof of existence).
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from tppkit._clock import format_time
from tppkit.certificates import EidasCertificate
from tppkit.certificates.algorithms import ALREADY, end_of
from tppkit.httpsig.algorithms import key_kind
from tppkit.seals import SealProfile


class Proof(NamedTuple):
    """What a time stamp proves about the records of a sealed part: that they existed.

    Attributes:
        at: the time of the stamp, aware UTC.
        end: when the algorithm of the stamp ends, aware UTC.
    """

    at: datetime
    end: datetime


def end_of_seal(profile: SealProfile, name: str, certificate: EidasCertificate) -> datetime:
    """Return when the signature of a seal ends.

    Args:
        profile: the dialect.
        name: the algorithm's name in the signature.
        certificate: the seal certificate.
    """
    algorithm = profile.algorithms_of(key_kind(certificate.public_key))[name]
    return end_of("EdDSA" if algorithm.key == "ed25519" else algorithm.scheme.value, certificate.key.bits or 0)


def ended_message(end: datetime, at: datetime) -> str:
    """Return why a record is not proven, in words."""
    if end == ALREADY:
        return "a signature has an algorithm or a key size that no row of the algorithm policy accepts"
    return (
        f"the algorithm of its seal, or of a certificate, ended on {format_time(end)[:10]}, and no time stamp proves that the record"
        f" existed before; judged at {format_time(at)}"
    )
