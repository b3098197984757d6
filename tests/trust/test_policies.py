"""Certificate policies along a chain, rule by rule; random chains are judged in the second opinion."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cryptography import x509

from tppkit.certificates import der
from tppkit.errors import CertificateRejected
from tppkit.testpki.profiles import authority_extensions, key_usage
from tppkit.trust import Anchors, PathVerifier

AT = datetime(2026, 6, 1, tzinfo=UTC)
ANY, A, B = "2.5.29.32.0", "2.999.1", "2.999.2"


def stating(*policies: str):
    return (x509.CertificatePolicies([x509.PolicyInformation(x509.ObjectIdentifier(p), None) for p in policies]), False)


def mapping(*pairs: tuple[str, str]):
    content = [der.write_sequence(der.write_oid(a), der.write_oid(b)) for a, b in pairs]
    value = der.write_sequence(*content)
    return (x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.33"), value), True)


def constraining(explicit: int | None = None, no_mapping: int | None = None):
    return (x509.PolicyConstraints(explicit, no_mapping), True)


NO_ANY = (x509.InhibitAnyPolicy(0), True)


DEMAND = constraining(explicit=0)


def judge(certify, *authorities, leaf=(), name="CA {}") -> str | None:
    """The code of the refusal, or None."""
    chain = [certify("Root")]
    for number, extensions in enumerate(authorities):
        own = (*authority_extensions(path_length=None), *extensions)
        chain.append(certify(name.format(number), chain[-1], extensions=own))
    end = certify("leaf", chain[-1], extensions=(key_usage("digital_signature"), *leaf)).certificate
    root, *between = (one.certificate for one in chain)
    try:
        PathVerifier(Anchors((root,), tuple(between))).verify(end, at=AT)
    except CertificateRejected as e:
        return e.code
    return None


REFUSED = "path.policy"
CASES = {
    "none stated": (([],), (), None),
    "none stated, one demanded": (([DEMAND],), (), REFUSED),
    "the same all along": (([stating(A), DEMAND],), (stating(A),), None),
    "any above, one below": (([stating(ANY), DEMAND],), (stating(A),), None),
    "one above, any below": (([stating(A), DEMAND],), (stating(ANY),), None),
    "different ones": (([stating(A)],), (stating(B),), None),
    "different ones, one demanded": (([stating(A), DEMAND],), (stating(B),), REFUSED),
    "a demand that begins later": (([stating(A), constraining(explicit=3)],), (stating(B),), None),
    "a demand of the leaf": (([stating(A)],), (stating(B), DEMAND), REFUSED),
    "any, forbidden": (([stating(A), NO_ANY, DEMAND],), (stating(ANY),), REFUSED),
    "mapped": (([stating(A), mapping((A, B)), DEMAND],), (stating(B),), None),
    "mapped, and the old name below": (([stating(A), mapping((A, B)), DEMAND],), (stating(A),), REFUSED),
    "any mapped from, one below": (([stating(ANY), mapping((A, B)), DEMAND],), (stating(B),), None),
    "mapped where it is forbidden": (
        ([stating(A), constraining(0, 0)], [stating(A), mapping((A, B))]), (stating(B),), REFUSED,
    ),
    "anyPolicy mapped": (([stating(A), mapping((ANY, B))],), (stating(B),), REFUSED),
    "mapped to anyPolicy": (([stating(A), mapping((A, ANY))],), (stating(B),), REFUSED),
    "mappings that cannot be read": (
        ([(x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.33"), b"\x30\x02\x30\x00"), True)],), (),
        "path.extension-malformed",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("authorities", "leaf", "expected"), CASES.values(), ids=CASES)
def test_policies_hold_together_or_not(certify, authorities, leaf, expected):
    assert judge(certify, *authorities, leaf=leaf) == expected


@pytest.mark.parametrize(("name", "expected"), [("CA {}", REFUSED), ("CA", None)], ids=["another", "self-issued"])
def test_a_self_issued_authority_does_not_bring_a_demand_nearer(certify, name, expected):
    authorities = [stating(A), constraining(explicit=2)], [stating(A)]
    assert judge(certify, *authorities, leaf=(stating(B),), name=name) == expected


def test_many_policies_and_mappings_cost_little(certify):
    many = [f"2.999.{n}" for n in range(300)]
    crossed = mapping(*((a, b) for a in many[:30] for b in many[:30]))
    authorities = [[stating(*many), crossed, DEMAND]] * 4
    assert judge(certify, *authorities, leaf=(stating(*many),)) is None
