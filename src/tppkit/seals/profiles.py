"""How a bank wants requests sealed: one row a dialect.

A row says what is covered and in which order it is written, how `keyId` names the certificate, and which header carries
it. `psd2-v1` is the PSD2 document's own; users can make a row of their own with `dataclasses.replace`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tppkit.errors import ConfigurationError

_ALWAYS_COVERED = ("digest", "x-request-id", "(request-target)")


@dataclass(frozen=True, slots=True)
class SealProfile:
    """One dialect of sealing.

    Attributes:
        name: short name, as the command line takes it.
        covered: the fields that a signature must cover, in the order in which we write them.
        digest_algorithm: the Digest we write, `SHA-256` or `SHA-512`; both are read.
        certificate_header: the header that carries base64 of the seal certificate's DER.
        source: where the row comes from.

    Raises:
        ConfigurationError: `profile.coverage`, a seal without these would prove neither the body nor where it was sent.
    """

    name: str
    covered: tuple[str, ...]
    digest_algorithm: str
    certificate_header: str
    source: str

    def __post_init__(self) -> None:
        missing = [name for name in _ALWAYS_COVERED if name not in self.covered]
        if missing:
            raise ConfigurationError(
                "profile.coverage", f"the profile {self.name!r} does not cover {', '.join(missing)}"
            )


PSD2_V1 = SealProfile(
    name="psd2-v1",
    covered=("digest", "x-request-id", "(request-target)"),
    digest_algorithm="SHA-256",
    certificate_header="TPP-Signature-Certificate",
    source="PSD2 document, part A sections 4 (payment initiation headers) and 5 rule 4",
)

PROFILES: Mapping[str, SealProfile] = MappingProxyType({row.name: row for row in (PSD2_V1,)})
