"""What sealing in a dialect writes, worked out once for a seal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tppkit.certificates import EidasCertificate
from tppkit.httpsig.cavage import CREATED, EXPIRES
from tppkit.httpsig.message import Header
from tppkit.seals.profile import EmptyBody, Format, Order, SealProfile


class Layout(NamedTuple):
    """What sealing in a dialect writes, worked out once; every name in lower case.

    Attributes:
        covered: always covered, in order.
        watched: the fields that are looked at, or None for all.
        written: the fields that sealing adds.
        if_present: fields that are covered where the request has them.
        prefixes: the same for every field whose name begins so.
        spellings: names that are written otherwise.
        certificate: the header with the certificate, or nothing.
        timed: a time is written.
        digest: the digest's header in lower case.
        plain: nothing depends on the request: always the same names, a digest, no time; the format is draft-cavage.
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
        """A name as the dialect writes it."""
        return self.spellings.get(name, name)


def make_layout(profile: SealProfile, certificate: EidasCertificate) -> Layout:
    """What sealing with this certificate in a dialect writes."""
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
