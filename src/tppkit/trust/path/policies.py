"""Certificate policies that hold for a whole chain, with mappings and prohibitions.

The tree of RFC 5280 section 6.1 grows exponentially with hostile certificates. RFC 9618, which this module follows, gives the same
answers in linear size, with one node for each policy at each depth.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tppkit.certificates import der
from tppkit.errors import CertificateRejected, FormatError
from tppkit.trust.path.links import Link

ANY_POLICY = "2.5.29.32.0"
POLICY_MAPPINGS = "2.5.29.33"
_CLAUSE = "RFC 5280 section 6.1; RFC 9618"


@dataclass(slots=True)
class _Node:
    """A policy at a depth: the policies that fulfil it one level down, and those above that lead to it."""

    expected: set[str]
    parents: set[str] = field(default_factory=set)


_Level = dict[str, _Node]


class _Processing:
    def __init__(self, count: int) -> None:
        self.count = count
        self.levels: list[_Level] = [{ANY_POLICY: _Node({ANY_POLICY})}]
        self.explicit = self.inhibit_any = self.mapping = count + 1

    @property
    def is_empty(self) -> bool:
        return not self.levels[-1]

    def add(self, link: Link, number: int) -> None:
        """Section 6.1.3 (d) and (e), for the certificate of this number, from 1 below the anchor.

        `check_policies` judges (f) at the end: an empty level stays empty, and `explicit` never grows.
        """
        stated = policies_of(link)
        level: _Level = {}
        if stated and not self.is_empty:
            above = self.levels[-1]
            fulfilled: dict[str, set[str]] = defaultdict(set)
            for policy, node in above.items():
                for expected in node.expected:
                    fulfilled[expected].add(policy)
            for policy in stated - {ANY_POLICY}:
                parents = fulfilled.get(policy) or ({ANY_POLICY} if ANY_POLICY in above else set())
                if parents:
                    level[policy] = _Node({policy}, set(parents))
            if ANY_POLICY in stated and (self.inhibit_any > 0 or (number < self.count and link.is_self_issued)):
                for policy, parents in fulfilled.items():
                    if policy not in level:
                        level[policy] = _Node({policy}, set(parents))
        self.levels.append(level)

    def prepare(self, link: Link) -> None:
        """Section 6.1.4 (a), (b) and (h) to (j): the requirements of an authority for the certificates below it."""
        mappings = mappings_of(link)
        if mappings:
            self._map(mappings)
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

    def _map(self, mappings: Mapping[str, set[str]]) -> None:
        level = self.levels[-1]
        for policy, mapped in mappings.items():
            if self.mapping <= 0:
                level.pop(policy, None)
            elif policy in level:
                level[policy].expected = set(mapped)
            elif ANY_POLICY in level:
                level[policy] = _Node(set(mapped), {ANY_POLICY})

    def finish(self, leaf: Link) -> None:
        """Section 6.1.5 (a) and (b)."""
        self.explicit = max(self.explicit - 1, 0)
        constraints = leaf.policy_constraints
        if constraints is not None and constraints.require_explicit_policy == 0:
            self.explicit = 0

    def authorised(self) -> frozenset[str]:
        """The authorities' policies that lead to the leaf, in the names of the anchor's domain; section 6.1.5 (g)."""
        reached, found = set(self.levels[-1]), set()
        if ANY_POLICY in reached:
            found.add(ANY_POLICY)
        for level in reversed(self.levels[1:]):
            above: set[str] = set()
            for policy in reached:
                parents = level[policy].parents
                above |= parents
                if policy != ANY_POLICY and ANY_POLICY in parents:
                    found.add(policy)
            reached = above
        return frozenset(found)


def check_policies(chain: Sequence[Link], *, required: frozenset[str]) -> frozenset[str]:
    """Process the certificate policies of a chain.

    Args:
        chain: the leaf first, the anchor last; the anchor's own policies are not processed.
        required: the user-initial-policy-set, dotted identifiers, of which one must hold for the whole chain; empty for any.

    Returns:
        The policies that hold for the whole chain: those of `required`, or of the authorities where `required` is empty;
        `2.5.29.32.0` where all do.

    Raises:
        CertificateRejected: `path.policy`, `path.extension-malformed`.
    """
    below = chain[-2::-1]
    if not required and not any(_is_about_policies(link) for link in below):
        return frozenset()
    processing = _Processing(len(below))
    if required:
        processing.explicit = 0
    for number, link in enumerate(below, 1):
        processing.add(link, number)
        if number < len(below):
            processing.prepare(link)
    if below:
        processing.finish(below[-1])
    authorised = processing.authorised() if below else frozenset({ANY_POLICY})
    held = authorised if not required else required if ANY_POLICY in authorised else authorised & required
    if processing.explicit <= 0 and not held:
        wanted = " or ".join(sorted(required)) or "any policy"
        raise _refused(chain[0], f"is not issued under {wanted[:200]}, by every authority above it")
    return held


def policies_of(link: Link) -> set[str]:
    """Dotted identifiers of the policies that a certificate states."""
    return set(link.facts.policies)


def mappings_of(link: Link) -> dict[str, set[str]]:
    """The policies of the subject's domain that are equivalent to each policy of the issuer's domain.

    Raises:
        CertificateRejected: `path.extension-malformed`; `path.policy`, anyPolicy is mapped.
    """
    data = link.values.get(POLICY_MAPPINGS)
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


def _is_about_policies(link: Link) -> bool:
    return not _POLICY_EXTENSIONS.isdisjoint(link.facts.present)


_POLICY_EXTENSIONS = frozenset({"2.5.29.32", POLICY_MAPPINGS, "2.5.29.36", "2.5.29.54"})


def _refused(link: Link, what: str) -> CertificateRejected:
    return CertificateRejected("path.policy", f"{link} {what}", clause=_CLAUSE)
