"""Listed authorities as the end of a chain: the ones between must be allowed, and one bad entry must not disable the others."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from asn1crypto import core
from asn1crypto import x509 as asn1_x509
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from list_builder import AT, QWAC, ROOT, SEALS, WEB, Listed, State, verified_lists

from refusals import refused
from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected, ConfigurationError, Severity
from tppkit.testpki.profiles import authority_extensions, key_usage
from tppkit.trust import Anchors, PathVerifier
from tppkit.trust.path.strength import is_signed_by

SINCE = datetime(2020, 1, 1, tzinfo=UTC)
GRANTED = State("granted", SINCE)
POISON = x509.PrecertPoison()


@pytest.fixture(scope="module")
def root(certify):
    return certify("Listed root", starts=SINCE, path_length=1)


@pytest.fixture
def ask(operator, root, certify):
    """The status of a QWAC of an authority that stands below a listed root."""

    def ask(between, *, at: datetime = AT, below=root):
        leaf = certify("qwac", between, **QWAC).certificate
        lists = verified_lists(operator, Listed(below.certificate, [State("granted", SINCE, (WEB, ROOT))]))
        return lists.status(leaf, at=at, intermediates=[between.certificate])

    return ask


def test_an_allowed_authority_may_be_below_a_listed_root(ask, root, certify):
    assert ask(certify("Between", root)).qualified_for == ("web",)


@pytest.mark.parametrize(
    ("extensions", "code"),
    [
        (((x509.BasicConstraints(True, None), True), key_usage("digital_signature")), "path.key-usage"),
        (
            (
                *authority_extensions(path_length=0),
                (x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3"), b"\x05\x00"), True),
            ),
            "path.critical-extension",
        ),
    ],
)
def test_a_forbidden_authority_below_a_listed_root_qualifies_nothing(ask, root, certify, extensions, code):
    found = ask(certify("Between", root, extensions=extensions))
    assert (found.code, found.qualified_for, found.at_issuance.qualified_for) == (code, (), ())


def test_a_listed_root_that_allows_no_authority_below_it_qualifies_nothing(ask, certify):
    alone = certify("Root alone", starts=SINCE, path_length=0)
    assert ask(certify("Between", alone), below=alone).code == "path.length"


def test_an_authority_between_must_be_valid_at_the_time_as_well(ask, root, certify):
    between = certify("Between", root, ends=AT - timedelta(days=1))
    found = ask(between)
    assert (found.code, found.at_issuance.qualified_for) == ("path.expired", ("web",))


def test_forbidden_authorities_do_not_spoil_the_answer_for_allowed_ones(operator, root, certify):
    between = certify("Between", root)
    forged = x509.CertificateBuilder(
        root.certificate.x509.subject,
        between.certificate.x509.subject,
        between.key.public_key(),
        7,
        SINCE,
        root.certificate.not_after,
    ).add_extension(x509.BasicConstraints(True, None), critical=True)
    usage, critical = key_usage("digital_signature")
    forbidden = forged.add_extension(usage, critical).sign(root.key, hashes.SHA256()).public_bytes(Encoding.DER)
    leaf = certify("qwac", between, **QWAC).certificate
    lists = verified_lists(operator, Listed(root.certificate, [State("granted", SINCE, (WEB, ROOT))]))
    refused = lists.status(leaf, at=AT, intermediates=[EidasCertificate.from_der(forbidden)])
    assert refused.code == "path.key-usage"
    assert lists.status(leaf, at=AT, intermediates=[between.certificate]).qualified_for == ("web",)


def test_a_pre_certificate_is_not_qualified(operator, root, certify):
    poisoned = certify("qwac", root, **QWAC | {"extensions": (*QWAC["extensions"], (POISON, True))}).certificate
    found = verified_lists(operator, Listed(root.certificate, [GRANTED])).status(poisoned, at=AT)
    assert (found.code, found.at_issuance.qualified_for) == ("certificate.precertificate", ())


def test_a_key_for_pss_only_makes_no_other_signatures():
    """RFC 4055 section 1.2; the rule is one for paths and for lists."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "PSS only")])

    def issue(**arguments) -> bytes:
        builder = x509.CertificateBuilder(name, name, key.public_key(), 1, SINCE, AT)
        return builder.sign(key, hashes.SHA256(), **arguments).public_bytes(Encoding.DER)

    plain = asn1_x509.Certificate.load(issue())
    plain["tbs_certificate"]["subject_public_key_info"]["algorithm"] = {"algorithm": "rsassa_pss"}
    issuer = EidasCertificate.from_der(plain.dump(force=True))
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), 32)
    assert is_signed_by(EidasCertificate.from_der(issue(rsa_padding=pss)), issuer)
    assert not is_signed_by(EidasCertificate.from_der(issue()), issuer)


def unreadable(authority) -> EidasCertificate:
    """The authority with its first extension twice, which path validation refuses to read."""
    certificate = asn1_x509.Certificate.load(authority.certificate.der)
    extensions = certificate["tbs_certificate"]["extensions"]
    extensions.append(extensions[0].copy())
    signed = authority.key.sign(certificate["tbs_certificate"].dump(force=True), ec.ECDSA(hashes.SHA256()))
    certificate["signature_value"] = core.OctetBitString(signed)
    return EidasCertificate.from_der(certificate.dump(force=True))


def test_an_unreadable_authority_is_skipped_and_reported(operator, root, certify):
    bad = unreadable(certify("Bad authority"))
    lists = verified_lists(operator, Listed(bad, [GRANTED]), Listed(root.certificate, [GRANTED]))
    anchors = lists.make_anchors(purpose="web", at=AT)
    assert anchors.roots == (root.certificate,)
    assert [(f.code, f.severity) for f in anchors.findings] == [("path.extension-malformed", Severity.WARNING)]


def test_a_certificate_of_a_service_that_cannot_be_read_is_reported(operator, root):
    broken = base64.b64encode(b"\x30\x03\x02\x01\x01").decode()
    whole = base64.b64encode(root.certificate.der).decode()

    def add(text: str) -> str:
        service = text[text.index("<TSPService>") : text.index("</TSPServices>")]
        return text.replace(
            "</TSPServices>", service.replace(whole, broken).replace("Web CA", "Broken CA") + "</TSPServices>"
        )

    lists = verified_lists(operator, Listed(root.certificate, [GRANTED]), edit=add)
    assert lists.make_anchors(purpose="web", at=AT).roots == (root.certificate,)
    (finding,) = lists.lists[0].findings
    assert (finding.code, finding.severity) == ("trusted-list.unreadable-part", Severity.WARNING)
    assert 'the service "Broken CA" cannot be read' in finding.message


def test_an_authority_outside_its_validity_is_skipped_and_reported(operator, root, certify):
    ended, coming = certify("Ended", ends=AT - timedelta(days=1)), certify("Coming", starts=AT + timedelta(days=1))
    lists = verified_lists(operator, *(Listed(one.certificate, [GRANTED]) for one in (ended, coming, root)))
    anchors = lists.make_anchors(purpose="web", at=AT)
    assert anchors.roots == (root.certificate,)
    assert [f.code for f in anchors.findings] == ["path.expired", "path.not-yet-valid"]
    with pytest.raises(ConfigurationError) as refused:
        verified_lists(operator, Listed(ended.certificate, [GRANTED])).make_anchors(purpose="web", at=AT)
    assert refused.value.code == "trust.no-anchors"
    assert "1 that cannot be used" in refused.value.message


def test_one_unreadable_anchor_does_not_disable_the_others(root, certify):
    bad = unreadable(certify("Bad authority"))
    leaf = certify("leaf", root, ca=False).certificate
    assert PathVerifier(Anchors((bad, root.certificate))).verify(leaf, at=AT).chain == (leaf, root.certificate)
    with refused(CertificateRejected, "trust.no-path"):
        PathVerifier(Anchors((bad, certify("Other").certificate))).verify(leaf, at=AT)
    with refused(ConfigurationError, "trust.unreadable"):
        PathVerifier(Anchors((bad,)))


def test_an_authority_is_not_an_anchor_for_a_time_whose_state_names_another_key(operator, root, certify):
    earlier = certify("Listed root", starts=SINCE).certificate
    states = [State("granted", AT), State("granted", SINCE, key=earlier)]
    lists = verified_lists(operator, Listed(root.certificate, states))
    assert lists.make_anchors(purpose="web", at=AT).roots == (root.certificate,)
    with refused(ConfigurationError, "trust.no-anchors"):
        lists.make_anchors(purpose="web", at=AT - timedelta(days=1))


@pytest.mark.parametrize(
    ("information", "purposes"), [((), {"esign"}), ((WEB,), {"web"}), ((WEB, SEALS), {"web", "eseal"})]
)
def test_anchors_are_for_what_their_service_is_listed_for(operator, root, information, purposes):
    lists = verified_lists(operator, Listed(root.certificate, [State("granted", SINCE, information)]))
    for purpose in ("esign", "eseal", "web"):
        if purpose in purposes:
            assert lists.make_anchors(purpose=purpose, at=AT).roots == (root.certificate,)
        else:
            with pytest.raises(ConfigurationError):
                lists.make_anchors(purpose=purpose, at=AT)
