"""Whether the certificate policies of a chain hold together where an authority requires it, with mappings and prohibitions.

The tree of RFC 5280 section 6.1 grows exponentially with hostile certificates. By RFC 9618 one node for each policy at each depth
gives the same answers. Which policies hold is not asked, only whether one does, so the nodes of one depth are enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from tppkit.certificates import der, oids
from tppkit.errors import CertificateRejected, FormatError
from tppkit.trust.path.links import Link

ANY_POLICY = "2.5.29.32.0"
_CLAUSE = "RFC 5280 section 6.1; RFC 9618"


class _Processing:
    """The counters of section 6.1.2, and the policies that hold down to one certificate.

    `level` has each of these policies with those that fulfil it one certificate further down.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.level: dict[str, set[str]] = {ANY_POLICY: {ANY_POLICY}}
        self.explicit = self.inhibit_any = self.mapping = count + 1

    def add(self, link: Link, number: int) -> None:
        """Section 6.1.3 (d) and (e), for the certificate of this number, from 1 below the anchor.

        `check_policies` judges (f) at the end: an empty level stays empty, and `explicit` never grows.
        """
        stated = frozenset(link.facts.policies)
        expected = frozenset[str]().union(*self.level.values())
        held = stated - {ANY_POLICY} if ANY_POLICY in self.level else stated & expected - {ANY_POLICY}
        if ANY_POLICY in stated and (self.inhibit_any > 0 or (number < self.count and link.is_self_issued)):
            held |= expected
        self.level = {policy: {policy} for policy in held}

    def prepare(self, link: Link) -> None:
        """Section 6.1.4 (a), (b) and (h) to (j): the requirements of an authority for the certificates below it."""
        for policy, mapped in mappings_of(link).items():
            if self.mapping <= 0:
                self.level.pop(policy, None)
            elif policy in self.level or ANY_POLICY in self.level:
                self.level[policy] = mapped
        if not link.is_self_issued:
            self.explicit = max(self.explicit - 1, 0)
            self.mapping = max(self.mapping - 1, 0)
            self.inhibit_any = max(self.inhibit_any - 1, 0)
        constraints, inhibit = link.policy_constraints, link.inhibit_any_policy
        if constraints is not None and constraints.require_explicit_policy is not None:
            self.explicit = min(self.explicit, constraints.require_explicit_policy)
        if constraints is not None and constraints.inhibit_policy_mapping is not None:
            self.mapping = min(self.mapping, constraints.inhibit_policy_mapping)
        if inhibit is not None:
            self.inhibit_any = min(self.inhibit_any, inhibit)

    def finish(self, leaf: Link) -> None:
        """Section 6.1.5 (a) and (b)."""
        self.explicit = max(self.explicit - 1, 0)
        constraints = leaf.policy_constraints
        if constraints is not None and constraints.require_explicit_policy == 0:
            self.explicit = 0


def check_policies(chain: Sequence[Link], at: datetime) -> None:
    """Process the certificate policies of a chain, of which any may hold (the user-initial-policy-set is any-policy).

    Args:
        chain: the leaf first, the anchor last; the anchor's own policies are not processed.
        at: not used.

    Raises:
        CertificateRejected: `path.policy`, an authority requires a policy and none holds for the whole chain, or anyPolicy is
            mapped; `path.extension-malformed`.
    """
    below = chain[-2::-1]
    processing = _Processing(len(below))
    for number, link in enumerate(below, 1):
        processing.add(link, number)
        if number < len(below):
            processing.prepare(link)
        else:
            processing.finish(link)
    if processing.explicit <= 0 and not processing.level:
        raise _refused(chain[0], "is not issued under any policy, by every authority above it")


def mappings_of(link: Link) -> dict[str, set[str]]:
    """The policies of the subject's domain that are equivalent to each policy of the issuer's domain.

    Raises:
        CertificateRejected: `path.extension-malformed`; `path.policy`, anyPolicy is mapped.
    """
    data = link.values.get(oids.POLICY_MAPPINGS)
    if data is None:
        return {}
    mapped: dict[str, set[str]] = defaultdict(set)
    try:
        for pair in der.read_children(data, der.read_whole(data, tag=der.SEQUENCE)):
            issuers, subjects = der.read_children(data, der.expect(pair, der.SEQUENCE))
            mapped[der.read_oid(data, issuers)].add(der.read_oid(data, subjects))
    except (FormatError, ValueError) as e:
        raise CertificateRejected(
            "path.extension-malformed", f"the policy mappings of {link} cannot be read: {e}", clause=_CLAUSE
        ) from e
    if ANY_POLICY in mapped or any(ANY_POLICY in policies for policies in mapped.values()):
        raise _refused(link, "maps anyPolicy")
    return dict(mapped)


def _refused(link: Link, what: str) -> CertificateRejected:
    return CertificateRejected("path.policy", f"{link} {what}", clause=_CLAUSE)
