"""Candidate chains from a certificate to an anchor, the likely ones first, within fixed limits.

Links are joined by names. Key identifiers only order the candidates, as RFC 5280 section 4.2.1.1 defines them as a help for the
search. Signatures are checked later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from tppkit.certificates.names import ComparableName
from tppkit.errors import CertificateRejected
from tppkit.trust.path.links import Link

MAX_CHAIN_DEPTH = 5
MAX_STEPS = 512


@dataclass(frozen=True, slots=True)
class Authorities:
    """The authorities that may be part of a chain.

    Attributes:
        anchors: DER of the trusted ones.
        by_name: every authority by its name, the caller's own before those that a peer sent.
    """

    anchors: frozenset[bytes]
    by_name: Mapping[ComparableName, Sequence[Link]]

    def with_more(self, links: Iterable[Link]) -> Authorities:
        """These authorities and further, untrusted ones."""
        by_name = {name: list(found) for name, found in self.by_name.items()}
        for link in links:
            known = by_name.setdefault(link.subject, [])
            if all(link.certificate.der != other.certificate.der for other in known):
                known.append(link)
        return Authorities(self.anchors, by_name)

    def issuers_of(self, link: Link, at: datetime) -> Sequence[Link]:
        """Possible issuers: those with the right key identifier first, then anchors, then those valid at the time."""
        named = self.by_name.get(link.issuer, ())
        if len(named) < 2:
            return named
        return sorted(named, key=lambda issuer: self._unlikeliness(issuer, link, at))

    def _unlikeliness(self, issuer: Link, link: Link, at: datetime) -> tuple[bool, bool, bool]:
        return (
            not may_be_key_of(issuer, link),
            issuer.certificate.der not in self.anchors,
            not issuer.certificate.is_valid_at(at),
        )


def make_authorities(anchors: Iterable[Link], between: Iterable[Link]) -> Authorities:
    """The authorities of these anchors and intermediates."""
    trusted = list(anchors)
    empty = Authorities(frozenset(link.certificate.der for link in trusted), {})
    return empty.with_more([*trusted, *between])


def may_be_key_of(issuer: Link, link: Link) -> bool:
    """Whether the key identifiers do not contradict each other."""
    return None in (issuer.key_id, link.authority_key_id) or issuer.key_id == link.authority_key_id


def find_chains(authorities: Authorities, leaf: Link, at: datetime) -> Iterator[tuple[Link, ...]]:
    """Yield each chain by names from `leaf` to an anchor, both included, with at most 5 authorities in between; search depth first.

    Args:
        authorities: the authorities that may be part of a chain.
        leaf: the end entity.
        at: the time to judge at, aware UTC.

    Raises:
        CertificateRejected: `path.too-complex`, more than 512 links were tried.
    """
    steps = count(1)

    def extend(chain: tuple[Link, ...]) -> Iterator[tuple[Link, ...]]:
        for issuer in authorities.issuers_of(chain[-1], at):
            if next(steps) > MAX_STEPS:
                message = f"more than {MAX_STEPS} authorities were tried above {leaf}"
                raise CertificateRejected("path.too-complex", message)
            if issuer.certificate.der in authorities.anchors:
                yield (*chain, issuer)
            elif len(chain) <= MAX_CHAIN_DEPTH and not _is_in(issuer, chain):
                yield from extend((*chain, issuer))

    if leaf.certificate.der in authorities.anchors:
        yield (leaf,)
    else:
        yield from extend((leaf,))


def _is_in(link: Link, chain: tuple[Link, ...]) -> bool:
    """Whether the chain already has the authority, by name and key (RFC 4158 section 2.4.1)."""
    return any(
        link.certificate.der == other.certificate.der
        or (link.subject == other.subject and link.key_id is not None and link.key_id == other.key_id)
        for other in chain
    )
