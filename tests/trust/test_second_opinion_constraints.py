"""Random chains with policies, name constraints and path lengths, judged by pyhanko-certvalidator, too."""

from __future__ import annotations

from typing import NamedTuple

from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st
from second_opinion import they_believe, we_believe

from tppkit.certificates import der
from tppkit.testpki.profiles import key_usage

ANY = "2.5.29.32.0"
POLICIES = ("2.999.1", "2.999.2", "2.999.3")


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


def make_chain(certify, authorities, leaf_extensions, leaf_name="leaf"):
    root = certify("Root")
    chain = [root]
    for number, authority in enumerate(authorities):
        chain.append(certify(f"Authority {number}", chain[-1], extensions=tuple(authority.extensions)))
    extensions = (key_usage("digital_signature"), *leaf_extensions)
    return [one.certificate for one in (*chain, certify(leaf_name, chain[-1], extensions=extensions))]


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
