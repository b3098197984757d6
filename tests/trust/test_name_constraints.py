"""Each form of name against permitted and excluded subtrees."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from asn1crypto import x509 as asn1_x509
from cryptography import x509

from refusals import refused
from tppkit.certificates import EidasCertificate, oids
from tppkit.errors import CertificateRejected
from tppkit.testpki.certificate import Attribute, Draft, extension_of
from tppkit.testpki.profiles import authority_extensions, key_usage
from tppkit.trust import Anchors, PathVerifier

AT = datetime(2026, 6, 1, tzinfo=UTC)
DNS, EMAIL, URI, IP = x509.DNSName, x509.RFC822Name, x509.UniformResourceIdentifier, x509.IPAddress


def directory(**attributes: str) -> x509.DirectoryName:
    oids = {"C": x509.NameOID.COUNTRY_NAME, "CN": x509.NameOID.COMMON_NAME}
    return x509.DirectoryName(x509.Name([x509.NameAttribute(oids[k], v) for k, v in attributes.items()]))


@pytest.fixture(scope="module")
def root(certify):
    return certify("Root")


def judge(certify, root, constraints, alternative, name="leaf") -> str | None:
    between = certify("Between", root, extensions=(*authority_extensions(path_length=0), (constraints, True)))
    names = ((x509.SubjectAlternativeName(alternative), False),) if alternative else ()
    leaf = certify(name, between, extensions=(key_usage("digital_signature"), *names))
    try:
        PathVerifier(Anchors((root.certificate,), (between.certificate,))).verify(leaf.certificate, at=AT)
    except CertificateRejected as e:
        return e.code
    return None


NETWORK = IP(ipaddress.ip_network("192.0.2.0/24"))
CASES = [
    (DNS("good.example"), DNS("good.example"), True),
    (DNS("good.example"), DNS("a.b.GOOD.example"), True),
    (DNS("good.example"), DNS("notgood.example"), False),
    (DNS("good.example"), DNS("*.good.example"), True),
    (DNS("secret.good.example"), DNS("*.other.example"), False),
    (DNS(""), DNS("any.example"), True),
    (EMAIL("good.example"), EMAIL("me@good.example"), True),
    (EMAIL("good.example"), EMAIL("me@sub.good.example"), False),
    (EMAIL(".good.example"), EMAIL("me@sub.good.example"), True),
    (EMAIL(".good.example"), EMAIL("me@good.example"), False),
    (EMAIL("me@good.example"), EMAIL("me@Good.example"), True),
    (EMAIL("me@good.example"), EMAIL("you@good.example"), False),
    (EMAIL("me@good.example"), EMAIL("me@bad.example"), False),
    (URI("good.example"), URI("https://good.example:8443/x?y"), True),
    (URI("good.example"), URI("https://sub.good.example/"), False),
    (URI(".good.example"), URI("https://sub.good.example/"), True),
    (URI("good.example"), URI("https://bad.example/good.example"), False),
    (URI("good.example"), URI("https://good.example@bad.example/"), False),
    (NETWORK, IP(ipaddress.ip_address("192.0.2.77")), True),
    (NETWORK, IP(ipaddress.ip_address("192.0.3.1")), False),
    (NETWORK, IP(ipaddress.ip_address("2001:db8::1")), False),
    (directory(C="DE"), directory(C="DE", CN="x"), True),
    (directory(C="DE"), directory(C="FR", CN="x"), False),
]


@pytest.mark.parametrize(("base", "name", "within"), CASES, ids=lambda v: str(getattr(v, "value", v)))
def test_a_name_is_within_a_subtree_or_not(certify, root, base, name, within):
    own = [directory(CN="leaf")] if isinstance(base, x509.DirectoryName) else []
    permitted = x509.NameConstraints([base, *own], None)
    excluded = x509.NameConstraints(None, [base])
    assert judge(certify, root, permitted, [name]) == (None if within else "path.name-constraints")
    assert judge(certify, root, excluded, [name]) == ("path.name-constraints" if within else None)


@pytest.mark.parametrize(
    "name",
    [
        EMAIL._init_without_validation("a@b@bad.example"),
        EMAIL._init_without_validation("bad.example"),
        EMAIL._init_without_validation("a@bad..example"),
        URI("urn:isbn:1"),
        URI("https://192.0.2.1/"),
        DNS._init_without_validation("bad..example"),
    ],
    ids=lambda name: name.value,
)
def test_a_name_that_cannot_be_placed_is_refused_where_its_form_is_constrained(certify, root, name):
    base = type(name)("good.example")
    assert judge(certify, root, x509.NameConstraints([base], None), [name]) == "path.name-constraints"
    assert judge(certify, root, x509.NameConstraints(None, [base]), [name]) == "path.name-constraints"


def at_a_distance(**distance: int) -> x509.UnrecognizedExtension:
    subtree = {"base": asn1_x509.GeneralName(name="dns_name", value="good.example")} | distance
    value = asn1_x509.NameConstraints({"permitted_subtrees": [subtree]}).dump()
    return x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.30"), value)


def either(base: x509.GeneralName) -> tuple[x509.NameConstraints, x509.NameConstraints]:
    return x509.NameConstraints(None, [base]), x509.NameConstraints([base], None)


# The constraints, each of which refuses the alternative name and the common name of the leaf.
REFUSED = {
    "wildcard above the base": (either(DNS("secret.good.example")), DNS("*.good.example"), "leaf"),
    "subject that is the name of its authority": ([x509.NameConstraints(None, [directory(CN="Between")])], None, "Between"),
    **{
        f"excluded subject as {name!r}": ([x509.NameConstraints(None, [directory(CN="Leaf")])], None, name)
        for name in ("LEAF", "  leaf ", "leaf")
    },
    **{
        f"base {base} that is no host name": (either(DNS._init_without_validation(base)), DNS("other.example"), "leaf")
        for base in (".good.example", "good..example")
    },
    "subtrees at a distance": ([at_a_distance(minimum=1), at_a_distance(maximum=2)], DNS("good.example"), "leaf"),
}  # fmt: skip


@pytest.mark.parametrize(("constraints", "alternative", "name"), REFUSED.values(), ids=REFUSED)
def test_constraints_refuse_what_might_escape_them(certify, root, constraints, alternative, name):
    for one in constraints:
        assert judge(certify, root, one, [alternative] if alternative else [], name) == "path.name-constraints"


def verify_below(pki, constraints, leaf):
    """Judge a leaf below its authority with name constraints added."""
    draft = Draft.of(pki.qseal_ca.certificate).with_extension(extension_of(constraints, True))
    authority = EidasCertificate.from_der(draft.sign(pki.root.key))
    return PathVerifier(Anchors((pki.root.certificate,), ())).verify(
        leaf, at=leaf.not_before, intermediates=[authority]
    )


@pytest.mark.parametrize("tag", [0x0C, 0x13, 0x14, 0x1E], ids=["UTF8", "Printable", "Teletex", "BMP"])
def test_no_kind_of_string_hides_an_excluded_subject(pki, tag):
    draft = Draft.of(pki.qseal.certificate)
    others = tuple(a for a in draft.subject if a.oid != oids.ORGANIZATION)
    named = replace(draft, subject=(Attribute(oids.ORGANIZATION, "Excluded", tag), *others))
    leaf = EidasCertificate.from_der(named.sign(pki.qseal_ca.key))
    base = x509.DirectoryName(x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "Excluded")]))
    with refused(CertificateRejected, "path.name-constraints"):
        verify_below(pki, x509.NameConstraints(None, [base]), leaf)


@pytest.mark.parametrize("alternative", [[], [DNS("good.example")]])
def test_the_subject_is_within_permitted_directory_names(certify, root, alternative):
    assert judge(certify, root, x509.NameConstraints([directory(CN="leaf")], None), alternative) is None
    refused = judge(certify, root, x509.NameConstraints([directory(CN="other")], None), alternative)
    assert refused == "path.name-constraints"


def test_a_form_that_is_not_processed_is_refused_where_it_is_constrained(certify, root):
    other = x509.RegisteredID(x509.ObjectIdentifier("2.999.1"))
    constraints = x509.NameConstraints([other], None)
    assert judge(certify, root, constraints, [other]) == "path.name-constraints"
    assert judge(certify, root, constraints, [DNS("a.example")]) is None


def test_the_constraints_of_the_anchor_count(certify):
    constraints = (x509.NameConstraints([DNS("good.example")], None), True)
    anchor = certify("Root", extensions=(*authority_extensions(path_length=None), constraints))
    names = (x509.SubjectAlternativeName([DNS("bad.example")]), False)
    leaf = certify("leaf", anchor, extensions=(key_usage("digital_signature"), names))
    with refused(CertificateRejected, "path.name-constraints"):
        PathVerifier(Anchors((anchor.certificate,))).verify(leaf.certificate, at=AT)


def test_more_names_than_are_compared_are_refused(certify, root):
    bases = [DNS(f"n{n}.example") for n in range(400)]
    names = [DNS("n399.example") for n in range(400)]
    assert judge(certify, root, x509.NameConstraints(bases, None), names) == "path.too-complex"
