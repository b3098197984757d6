"""The headers that sealing reads and writes in a dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tppkit.certificates import EidasCertificate
from tppkit.httpsig.cavage import CREATED, EXPIRES
from tppkit.httpsig.message import Header
from tppkit.seals.profile import EmptyBody, Format, Order, SealProfile


class Layout(NamedTuple):
    """The headers that sealing reads and writes in a dialect, computed once; all names are in lower case.

    Attributes:
        covered: names that are always covered, in order.
        watched: the fields to read, or None for all.
        written: the fields that sealing adds.
        if_present: fields that are covered if the request has them.
        prefixes: like `if_present`, for every field whose name begins with a prefix.
        spellings: the spelling of names that are not written in lower case.
        certificate: the header with the certificate, or nothing.
        timed: the seal has a time.
        digest: the header with the digest.
        plain: the seal is of draft-cavage and always has the same names, a digest and no time.
    """

    covered: tuple[str, ...]
    watched: frozenset[str] | None
    written: frozenset[str]
    if_present: tuple[str, ...]
    prefixes: tuple[str, ...]
    spellings: Mapping[str, str]
    certificate: tuple[Header, ...]
    timed: bool
    digest: str
    plain: bool

    def spell(self, name: str) -> str:
        """The dialect's spelling of a name."""
        return self.spellings.get(name, name)


def make_layout(profile: SealProfile, certificate: EidasCertificate) -> Layout:
    """Compute the layout of a dialect for a certificate."""
    names = (*profile.covered, *profile.covered_if_present)
    conditional = [name.lower() for name in profile.covered_if_present]
    prefixes = tuple([name[:-1] for name in conditional if name.endswith("*")])
    covered = tuple([name.lower() for name in profile.covered])
    certificate_header = profile.certificate_headers(certificate)
    written = profile.carriers | {profile.digest_name, *(name.lower() for name, _ in certificate_header)}
    timed = not {CREATED, EXPIRES}.isdisjoint(covered) or profile.format is not Format.CAVAGE
    return Layout(
        covered=covered if profile.order is Order.LISTED else tuple(sorted(covered)),
        watched=None if prefixes else written.union(covered, conditional),
        written=written,
        if_present=tuple([name for name in conditional if not name.endswith("*")]),
        prefixes=prefixes,
        spellings={name.lower(): name for name in names if name != name.lower()},
        certificate=certificate_header,
        timed=timed,
        digest=profile.digest_name,
        plain=not conditional and not timed and profile.empty_body is EmptyBody.HASHED,
    )
