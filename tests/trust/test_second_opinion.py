"""The same chains judged by an independent implementation of RFC 5280: pyhanko-certvalidator; some, and random ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from asn1crypto import x509 as asn1_x509
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st
from pyhanko_certvalidator import CertificateValidator, ValidationContext
from pyhanko_certvalidator.errors import InvalidCertificateError, PathBuildingError, PathValidationError

from tppkit.certificates import EidasCertificate, der
from tppkit.errors import CertificateRejected
from tppkit.testpki.profiles import key_usage
from tppkit.trust import Anchors, PathVerifier

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
ANY = "2.5.29.32.0"
POLICIES = ("2.999.1", "2.999.2", "2.999.3")


def we_believe(chain: Sequence[EidasCertificate]) -> bool:
    root, *between, leaf = chain
    try:
        PathVerifier(Anchors((root,), tuple(between))).verify(leaf, at=AT)
    except CertificateRejected:
        return False
    return True


def they_believe(chain: Sequence[EidasCertificate]) -> bool:
    root, *between, leaf = (asn1_x509.Certificate.load(one.der) for one in chain)
    context = ValidationContext(trust_roots=[root], other_certs=between, moment=AT, allow_fetching=False)
    validator = CertificateValidator(leaf, validation_context=context)
    try:
        asyncio.run(validator.async_validate_path())
    except (PathBuildingError, PathValidationError, InvalidCertificateError):
        return False
    return True


@pytest.fixture(scope="module")
def chains(certify) -> dict[str, tuple[bool, list[EidasCertificate]]]:
    """What a chain is, whether it holds, and its certificates from the root to the leaf."""
    early = {"ends": AT - timedelta(days=1)}
    root, other, namesake = certify("Root"), certify("Other"), certify("Root")
    issuing, expired = certify("Issuing", root, path_length=0), certify("Issuing", root, **early)
    below = certify("Below", issuing)
    no_authority = certify("Between", root, extensions=(key_usage("digital_signature"),))

    def chain(issuer, *between, root=root, **leaf):
        return [one.certificate for one in (root, *between, certify("leaf", issuer, ca=False, **leaf))]

    return {
        "direct": (True, chain(root)),
        "through an authority": (True, chain(issuing, issuing)),
        "other root": (False, chain(issuing, issuing, root=other)),
        "namesake of the root": (False, chain(issuing, issuing, root=namesake)),
        "intermediate missing": (False, chain(issuing)),
        "intermediate expired": (False, chain(expired, expired)),
        "intermediate is no authority": (False, chain(no_authority, no_authority)),
        "path too long": (False, chain(below, below, issuing)),
        "leaf expired": (False, chain(issuing, issuing, **early)),
        "leaf not yet valid": (False, chain(issuing, issuing, starts=AT + timedelta(days=1))),
        "last moment": (True, chain(issuing, issuing, ends=AT)),
        "first moment": (True, chain(issuing, issuing, starts=AT)),
    }


def test_both_give_the_same_verdict(chains):
    expected = {name: (holds, holds) for name, (holds, _) in chains.items()}
    assert {name: (we_believe(chain), they_believe(chain)) for name, (_, chain) in chains.items()} == expected


class Authority(NamedTuple):
    """What one authority of a random chain says."""

    policies: frozenset[str]
    mappings: tuple[tuple[str, str], ...] = ()
    explicit: int | None = None
    no_mapping: int | None = None
    no_any: int | None = None
    path_length: int | None = None
    permitted: tuple[x509.GeneralName, ...] = ()
    excluded: tuple[x509.GeneralName, ...] = ()

    @property
    def extensions(self) -> list[tuple[x509.ExtensionType, bool]]:
        found: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(ca=True, path_length=self.path_length), True),
            key_usage("key_cert_sign", "crl_sign"),
            *policies(self.policies),
        ]
        if self.mappings:
            found.append((mapping_extension(self.mappings), True))
        if (self.explicit, self.no_mapping) != (None, None):
            found.append((x509.PolicyConstraints(self.explicit, self.no_mapping), True))
        if self.no_any is not None:
            found.append((x509.InhibitAnyPolicy(self.no_any), True))
        if self.permitted or self.excluded:
            found.append((x509.NameConstraints(self.permitted or None, self.excluded or None), True))
        return found


def policies(stated: frozenset[str]) -> list[tuple[x509.ExtensionType, bool]]:
    if not stated:
        return []
    return [(x509.CertificatePolicies([x509.PolicyInformation(x509.ObjectIdentifier(p), None) for p in stated]), False)]


def mapping_extension(mappings: tuple[tuple[str, str], ...]) -> x509.UnrecognizedExtension:
    pairs = (der.write_sequence(der.write_oid(a), der.write_oid(b)) for a, b in mappings)
    return x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.33"), der.write_sequence(*pairs))


def make_chain(certify, authorities, leaf_extensions):
    root = certify("Root")
    chain = [root]
    for number, authority in enumerate(authorities):
        chain.append(certify(f"Authority {number}", chain[-1], extensions=tuple(authority.extensions)))
    extensions = (key_usage("digital_signature"), *leaf_extensions)
    return [one.certificate for one in (*chain, certify("leaf", chain[-1], extensions=extensions))]


stated = st.frozensets(st.sampled_from((*POLICIES, *POLICIES, ANY)), max_size=3)
counts = st.one_of(st.none(), st.none(), st.integers(0, 2))
pairs = st.tuples(st.sampled_from(POLICIES), st.sampled_from(POLICIES))
authorities = st.builds(
    Authority,
    policies=stated,
    mappings=st.lists(pairs, max_size=2, unique=True).map(tuple),
    explicit=counts,
    no_mapping=counts,
    no_any=counts,
    path_length=st.sampled_from((None, None, None, 0, 1, 2)),
    permitted=st.just(()),
    excluded=st.just(()),
)


@settings(max_examples=80)
@given(above=st.lists(authorities, min_size=1, max_size=3), leaf=stated)
def test_both_judge_policies_and_path_lengths_alike(certify, above, leaf):
    chain = make_chain(certify, above, policies(leaf))
    assert we_believe(chain) == they_believe(chain)


HOSTS = ("a.example", "b.a.example", "example", "c.example", "xa.example")
names = st.one_of(
    st.sampled_from(HOSTS).map(x509.DNSName),
    st.sampled_from(HOSTS).map(lambda host: x509.RFC822Name(f"me@{host}")),
    st.sampled_from(HOSTS).map(lambda host: x509.UniformResourceIdentifier(f"https://{host}/path")),
)
bases = st.one_of(
    st.sampled_from(HOSTS).map(x509.DNSName),
    st.sampled_from((*HOSTS, ".a.example", "me@a.example")).map(x509.RFC822Name),
    st.sampled_from((*HOSTS, ".a.example")).map(x509.UniformResourceIdentifier),
    st.sampled_from(("leaf", "Authority 1", "other")).map(
        lambda name: x509.DirectoryName(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
    ),
)
some_bases = st.lists(bases, max_size=2).map(tuple)
constrained = st.tuples(some_bases, some_bases).map(
    lambda both: Authority(frozenset(), permitted=both[0], excluded=both[1])
)


@settings(max_examples=80)
@given(
    above=st.lists(constrained, min_size=1, max_size=2),
    alternative=st.lists(names, max_size=2),
)
def test_both_judge_names_alike(certify, above, alternative):
    extensions = [(x509.SubjectAlternativeName(alternative), False)] if alternative else []
    chain = make_chain(certify, above, extensions)
    assert we_believe(chain) == they_believe(chain)
