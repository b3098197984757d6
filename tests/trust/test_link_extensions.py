"""Extensions of links: long names in other scripts, under the strictest handling of warnings, and malformed ones."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace

import pytest
from answering import point
from cryptography import x509
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.certificates import EidasCertificate, der, oids
from tppkit.certificates.extensions import KEY_USAGES
from tppkit.errors import CertificateRejected, FormatError
from tppkit.testpki.certificate import Attribute, Draft, Extension, Issued, write_name
from tppkit.trust import Anchors, PathVerifier
from tppkit.trust.path.link_extensions import (
    PolicyConstraints,
    read_inhibit_any_policy,
    read_issuing_point,
    read_name_constraints,
    read_points,
    read_policy_constraints,
)
from tppkit.trust.path.links import read_link

LONG = ["Ελληνικές Πληρωμές και Υπηρεσίες Πιστοποίησης Ηλεκτρονικών", "Български доставчик на платежни услуги"]
COUNTRY = Attribute(oids.COUNTRY, "LT", der.PRINTABLE_STRING)
READERS = [read_name_constraints, read_policy_constraints, read_inhibit_any_policy, read_points, read_issuing_point]


def directory(common_name: str) -> bytes:
    name = write_name((COUNTRY, Attribute(oids.COMMON_NAME, common_name)))
    return der.write_element(0xA4, name)


def subtrees(*bases: bytes, tag: int = 0xA0) -> bytes:
    return der.write_element(tag, *(der.write_sequence(base) for base in bases))


def verify(pki, *, authority: tuple[Extension, ...], leaf: tuple[Extension, ...] = (), common_name: str) -> object:
    """Verify a seal with further extensions below an authority with others."""
    above, below = Draft.of(pki.qseal_ca.certificate), Draft.of(pki.qseal.certificate)
    for extension in authority:
        above = above.with_extension(extension)
    others = tuple(a for a in below.subject if a.oid not in (oids.COUNTRY, oids.COMMON_NAME))
    below = replace(below, subject=(COUNTRY, Attribute(oids.COMMON_NAME, common_name), *others))
    for extension in leaf:
        below = below.with_extension(extension)
    certificates = [
        EidasCertificate.from_der(draft.sign(issuer.key))
        for draft, issuer in ((above, pki.root), (below, pki.qseal_ca))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verifier = PathVerifier(Anchors((pki.root.certificate,), ()))
        return verifier.verify(certificates[1], at=pki.not_before, intermediates=certificates[:1])


@pytest.mark.parametrize("name", LONG)
def test_a_long_name_in_another_script_is_judged_in_every_place_without_a_warning(pki, name):
    with pytest.warns(UserWarning, match="64"):  # which readers that check lengths in bytes give
        x509.NameAttribute(NameOID.COMMON_NAME, name, _validate=False)
    permitted = der.write_sequence(subtrees(directory(name)))
    excluded = der.write_sequence(subtrees(directory(name), tag=0xA1))
    alternative = Extension(oids.SUBJECT_ALTERNATIVE_NAME, der.write_sequence(directory(name)))
    issuer = der.write_element(0xA1, directory(name))
    key_id = der.write_element(0x80, pki.root.certificate.extensions.subject_key_identifier)
    named = Extension(oids.AUTHORITY_KEY_IDENTIFIER, der.write_sequence(key_id, issuer, b"\x82\x01\x07"))
    point = der.write_sequence(der.write_element(0xA0, der.write_element(0xA0, directory(name))))
    points = Extension(oids.CRL_DISTRIBUTION_POINTS, der.write_sequence(point))
    constraints = Extension(oids.NAME_CONSTRAINTS, permitted, critical=True)
    assert verify(pki, authority=(), leaf=(alternative,), common_name="Short")
    assert verify(pki, authority=(constraints, named), leaf=(alternative, named, points), common_name=name)
    for outside in (
        {"authority": (constraints,), "common_name": "Other"},
        {"authority": (replace_value(constraints, excluded),), "leaf": (alternative,), "common_name": "Other"},
    ):
        with refused(CertificateRejected, "path.name-constraints"):
            verify(pki, **outside)


def replace_value(extension: Extension, value: bytes) -> Extension:
    return extension._replace(value=value)


MALFORMED = [
    (oids.NAME_CONSTRAINTS, "3005a1033001"), (oids.NAME_CONSTRAINTS, "3002a200"), (oids.NAME_CONSTRAINTS, "3004a0023000"),
    (oids.NAME_CONSTRAINTS, "3006a0043002a400"), (oids.NAME_CONSTRAINTS, "300aa0083006870401020304"),
    (oids.SUBJECT_ALTERNATIVE_NAME, "3004a4023100"), (oids.SUBJECT_ALTERNATIVE_NAME, "300387010a"),
    (oids.POLICY_CONSTRAINTS, "30038001ff"), (oids.POLICY_CONSTRAINTS, "3006810100800100"), (oids.INHIBIT_ANY_POLICY, "0201ff"),
    (oids.CRL_DISTRIBUTION_POINTS, "3100"), (oids.KEY_USAGE, "0500"), (oids.BASIC_CONSTRAINTS, "0500"),
    (oids.EXTENDED_KEY_USAGE, "30020500"), (oids.CERTIFICATE_POLICIES, "30023000"), (oids.SUBJECT_KEY_IDENTIFIER, "0500"),
    (oids.AUTHORITY_KEY_IDENTIFIER, "0500"), (oids.KEY_USAGE, "030207ff"), (oids.KEY_USAGE, "0303040108"),
    (oids.NAME_CONSTRAINTS, "3000"), (oids.NAME_CONSTRAINTS, "3002a000"), (oids.NAME_CONSTRAINTS, "3002a100"),
    (oids.NAME_CONSTRAINTS, "300ea000a10a30088206622e74657374"), (oids.EXTENDED_KEY_USAGE, "3000"),
    (oids.BASIC_CONSTRAINTS, "30090101ff020100020105"), (oids.BASIC_CONSTRAINTS, "30060101ff0201ff"),
]  # fmt: skip


@pytest.mark.parametrize(("oid", "value"), MALFORMED)
def test_a_malformed_extension_is_refused(pki, oid, value):
    draft = Draft.of(pki.qseal.certificate).with_extension(Extension(oid, bytes.fromhex(value)))
    with refused(CertificateRejected, "path.extension-malformed"):
        read_link(EidasCertificate.from_der(draft.sign(pki.qseal_ca.key)))


# Each malformed value with a sound one next to it.
OF_AUTHORITIES = [
    (oids.KEY_USAGE, "030207ff", "trust.no-path"), (oids.KEY_USAGE, "03020204", ""),
    (oids.NAME_CONSTRAINTS, "300ea000a10a30088206622e74657374", "trust.no-path"),
    (oids.NAME_CONSTRAINTS, "300ca10a30088206622e74657374", ""),
    (oids.EXTENDED_KEY_USAGE, "3000", "trust.no-path"), (oids.EXTENDED_KEY_USAGE, "30060604551d2500", ""),
    (oids.BASIC_CONSTRAINTS, "30090101ff020100020105", "trust.no-path"),
    (oids.BASIC_CONSTRAINTS, "30060101ff0201ff", "trust.no-path"), (oids.BASIC_CONSTRAINTS, "30060101ff020100", ""),
]  # fmt: skip


@pytest.mark.parametrize(("oid", "value", "code"), OF_AUTHORITIES)
def test_an_authority_with_a_malformed_extension_certifies_no_certificate(pki, oid, value, code):
    extension = Extension(oid, bytes.fromhex(value), critical=True)
    authority = Draft.of(pki.qseal_ca.certificate).with_extension(extension).sign(pki.root.key)
    refused = ""
    try:
        verify(pki, authority=(extension,), common_name="Short")
    except CertificateRejected as e:
        refused = e.code
        with pytest.raises(ValueError):  # of another reader
            list(x509.load_der_x509_certificate(authority).extensions)
    assert refused == code


@pytest.mark.parametrize(("oid", "value", "field", "read"), [
    (oids.KEY_USAGE, "030206ff", "key_usage", KEY_USAGES[:8]), (oids.EXTENDED_KEY_USAGE, "3000", "extended_key_usage", ()),
    (oids.BASIC_CONSTRAINTS, "30090101ff020100020105", "path_length", 0),
    (oids.BASIC_CONSTRAINTS, "30060101ff0201ff", "path_length", -1),
])  # fmt: skip
def test_what_makes_a_chain_unreadable_is_shown_with_a_finding(pki, oid, value, field, read):
    draft = Draft.of(pki.qseal.certificate).with_extension(Extension(oid, bytes.fromhex(value)))
    facts = EidasCertificate.from_der(draft.sign(pki.qseal_ca.key)).extensions
    assert getattr(facts, field) == read
    assert [finding.code for finding in facts.findings] == ["certificate.extension-malformed"]


@pytest.mark.parametrize("oid", [oids.QC_STATEMENTS, "2.999.7"])
def test_an_extension_that_is_not_processed_makes_no_chain_unreadable(pki, oid):
    draft = Draft.of(pki.qseal.certificate).with_extension(Extension(oid, b"\x30\x09"))
    certificate = EidasCertificate.from_der(draft.sign(pki.qseal_ca.key))
    assert certificate.extensions.findings
    assert read_link(certificate).certificate == certificate


def test_policy_constraints_are_read():
    assert read_policy_constraints(bytes.fromhex("3006800100810105")) == PolicyConstraints(0, 5)
    assert read_policy_constraints(bytes.fromhex("3003810105")) == PolicyConstraints(None, 5)
    assert read_inhibit_any_policy(bytes.fromhex("020103")) == 3


@pytest.mark.parametrize("usages", [("digitalSignature",), ("keyCertSign", "digitalSignature")])
def test_a_key_may_do_what_its_usage_says_and_without_one_all(pki, usages):
    seal: Issued = pki.qseal
    assert read_link(pki.qseal_ca.certificate).may("keyCertSign")
    assert not read_link(seal.certificate).may(*usages)
    without = Draft.of(seal.certificate).without_extension(oids.KEY_USAGE).sign(pki.qseal_ca.key)
    assert read_link(EidasCertificate.from_der(without)).may(*usages)


@pytest.mark.parametrize(
    "part",
    [
        {"full_name": [x509.DNSName("a"), x509.DNSName("b")]},
        {"relative_name": x509.RelativeDistinguishedName([x509.NameAttribute(NameOID.COMMON_NAME, "part 1")])},
        {"only_some_reasons": frozenset(x509.ReasonFlags) - {x509.ReasonFlags.unspecified, x509.ReasonFlags.remove_from_crl}},
        {"only_contains_user_certs": True},
        {"only_contains_ca_certs": True},
        {"only_contains_attribute_certs": True},
        {"indirect_crl": True, "only_contains_user_certs": True, "full_name": [x509.DNSName("a")]},
    ],
    ids=lambda part: next(iter(part)),
)  # fmt: skip
def test_the_part_that_a_list_covers_is_read(part):
    whole, _ = point(**part)
    said = read_issuing_point(whole.public_bytes())
    assert [name.value for name in said.full_name or ()] == [name.value for name in whole.full_name or ()]
    assert said.has_relative_name is (whole.relative_name is not None)
    assert set(said.only_some_reasons or ()) == {reason.name for reason in whole.only_some_reasons or ()}
    for flag in ("indirect_crl", "only_contains_user_certs", "only_contains_ca_certs", "only_contains_attribute_certs"):
        assert getattr(said, flag) is getattr(whole, flag)


@pytest.mark.parametrize("part", [b"\x81\x01\x00", b"\x82\x01\xff\x81\x01\xff", b"\x86\x01\xff"], ids=bytes.hex)
def test_a_malformed_part_of_an_issuing_point_is_refused(part):
    with refused(FormatError, "der.malformed"):
        read_issuing_point(der.write_sequence(part))


@given(st.sampled_from(READERS), st.binary(max_size=60))
def test_only_format_errors_escape(read, raw):
    for data in (raw, der.write_sequence(raw)):
        with suppress(FormatError):
            read(data)
