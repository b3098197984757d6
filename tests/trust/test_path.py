"""Which chains are trusted, at a time when every certificate is valid."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from refusals import refused
from tppkit.certificates import EidasCertificate, Use, oids
from tppkit.errors import CertificateRejected, ConfigurationError, Severity
from tppkit.testpki.profiles import authority_extensions, key_usage
from tppkit.trust import Anchors, PathVerifier, TrustMaterial, check_trust, make_anchors
from tppkit.trust.path.candidates import MAX_CHAIN_DEPTH
from tppkit.trust.path.links import read_link
from tppkit.trust.path.strength import check_signatures

AT = datetime(2026, 6, 1, tzinfo=UTC)
UNKNOWN = x509.UnrecognizedExtension(x509.ObjectIdentifier("2.999.1"), b"\x05\x00")


def verifier(*trusted) -> PathVerifier:
    return PathVerifier(make_anchors(one.certificate for one in trusted))


def refusal(paths: PathVerifier, leaf, *, at: datetime = AT, intermediates=()) -> CertificateRejected:
    with pytest.raises(CertificateRejected) as refused:
        paths.verify(leaf.certificate, at=at, intermediates=[one.certificate for one in intermediates])
    return refused.value


@pytest.fixture(scope="module")
def root(certify):
    return certify("Root")


@pytest.fixture(scope="module")
def issuing(certify, root):
    return certify("Issuing", root, path_length=0)


@pytest.fixture(scope="module")
def leaf(certify, issuing):
    return certify("leaf", issuing, ca=False)


def test_a_chain_to_the_root_holds_and_is_returned_from_leaf_to_root(root, issuing, leaf):
    path = verifier(root, issuing).verify(leaf.certificate, at=AT)
    assert path.chain == (leaf.certificate, issuing.certificate, root.certificate)


def test_every_leaf_of_the_test_pki_is_trusted(pki, paths):
    for issued in (pki.qwac, pki.qseal, pki.server):
        assert paths.verify(issued.certificate, at=AT).chain == (
            issued.certificate,
            *issued.chain,
            pki.root.certificate,
        )


def test_an_issuing_authority_can_be_the_anchor(issuing, leaf):
    paths = PathVerifier(Anchors((issuing.certificate,)))
    assert paths.verify(leaf.certificate, at=AT).chain == (leaf.certificate, issuing.certificate)


def test_a_chain_that_leads_to_no_anchor_is_refused(certify, root, issuing, leaf):
    theirs, namesake = certify("Their root"), certify("Root")
    of_theirs = certify("leaf", theirs, ca=False)
    among_others = PathVerifier(Anchors((root.certificate,), (theirs.certificate,)))
    for paths, end, sent in (
        (verifier(certify("Other root")), leaf, []),
        (verifier(root), leaf, []),  # without its intermediate
        (verifier(root), of_theirs, [theirs]),  # a root that the peer sent
        (among_others, of_theirs, []),  # a root among the intermediates
        (verifier(namesake, issuing), leaf, []),  # a root of the same name with another key
    ):
        found = refusal(paths, end, intermediates=sent)
        assert (found.code, "CN=leaf" in found.message) == ("trust.no-path", True)


def test_an_intermediate_that_the_peer_sent_completes_the_chain(certify, root, issuing, leaf):
    sent = [certify("Unrelated").certificate, issuing.certificate]
    path = verifier(root).verify(leaf.certificate, at=AT, intermediates=sent)
    assert path.chain == (leaf.certificate, issuing.certificate, root.certificate)


def test_among_roots_of_the_same_name_the_right_one_is_found(certify, root, issuing, leaf):
    path = verifier(certify("Root"), root, certify("Root"), issuing).verify(leaf.certificate, at=AT)
    assert path.chain[-1] == root.certificate


def test_signatures_that_hold_along_another_chain_prove_nothing_for_this_one(certify, root):
    first = certify("A", root)
    between = certify("B", first)
    leaf, second = certify("leaf", first, ca=False), certify("A", between)
    chain = [read_link(one.certificate) for one in (leaf, second, between, first, root)]
    with refused(CertificateRejected, "path.signature"):
        check_signatures(chain, AT)


def test_the_signature_of_the_anchor_is_checked_before_those_of_keys_that_anyone_can_make(certify, root):
    stranger = certify("A", certify("Root"))
    chain = [read_link(one.certificate) for one in (certify("leaf", certify("A"), ca=False), stranger, root)]
    with pytest.raises(CertificateRejected, match=r"CN=A.* is not signed with the key of .*CN=Root"):
        check_signatures(chain, AT)


def test_a_leaf_cannot_issue(certify, root, issuing, leaf):
    assert (
        refusal(verifier(root, issuing), certify("second", leaf, ca=False), intermediates=[leaf]).code
        == "path.no-authority"
    )


def test_more_authorities_than_are_followed_between_leaf_and_root_are_refused(certify, root):
    chain = [root]
    for number in range(MAX_CHAIN_DEPTH + 1):
        chain.append(certify(f"Authority {number}", chain[-1]))
    paths = verifier(*chain)
    assert paths.verify(certify("leaf", chain[-2], ca=False).certificate, at=AT)
    assert refusal(paths, certify("leaf", chain[-1], ca=False)).code == "trust.no-path"


def test_a_certificate_fit_for_its_use_gives_its_path(pki, paths):
    assert paths.verify_use(pki.qwac.certificate, as_=Use.QWAC, at=AT).chain[-1] == pki.root.certificate
    assert paths.verify_use(pki.qseal.certificate, as_=Use.QSEALC, at=AT).chain[-1] == pki.root.certificate


@pytest.mark.parametrize(
    ("label", "use", "days", "code"),
    [
        ("qseal", Use.QWAC, 0, "qcstatements.not-web"),
        ("qwac", Use.QSEALC, 0, "qcstatements.not-eseal"),
        ("root", Use.QWAC, 0, "certificate.is-ca"),
        ("server", Use.QWAC, 0, "qcstatements.no-compliance"),
        ("qwac", Use.QWAC, -1, "certificate.not-yet-valid"),
        ("qseal", Use.QSEALC, 366, "certificate.expired"),
    ],
)
def test_a_certificate_unfit_for_its_use_is_refused_with_all_findings(pki, paths, label, use, days, code):
    (certificate,) = (issued.certificate for issued in pki.issued if issued.label == label)
    with pytest.raises(CertificateRejected) as refused:
        paths.verify_use(certificate, as_=use, at=AT + timedelta(days=days))
    assert refused.value.code == refused.value.findings[0].code == code


def test_a_fit_certificate_of_another_authority_is_refused(rsa_pki, paths):
    with refused(CertificateRejected, "trust.no-path"):
        paths.verify_use(rsa_pki.qwac.certificate, as_=Use.QWAC, at=AT, intermediates=rsa_pki.authorities)


def test_a_time_without_zone_is_refused(pki, paths):
    for verify in (
        lambda: paths.verify(pki.qwac.certificate, at=datetime(2026, 6, 1)),
        lambda: paths.verify_use(pki.qwac.certificate, as_=Use.QWAC, at=datetime(2026, 6, 1)),
    ):
        with refused(ConfigurationError, "time.naive"):
            verify()


@pytest.mark.shared
def test_production_certificates_chain_to_their_issuers(shared_data):
    folder = shared_data / "certificates"
    with (folder / "index.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["issuer_file"]]
    trusted = {}
    for row in rows:
        certificate, issuer = (
            EidasCertificate.from_der((folder / name).read_bytes()) for name in (row["file"], row["issuer_file"])
        )
        poison = "1.3.6.1.4.1.11129.2.4.3" in certificate.extensions.critical  # a pre-certificate is not to be trusted
        try:
            path = PathVerifier(Anchors((issuer,))).verify(certificate, at=certificate.not_before)
            trusted[row["file"]] = path.chain == (certificate, issuer) and not poison
        except CertificateRejected as e:
            trusted[row["file"]] = poison and e.code == (
                "path.extension-malformed" if "bad-bc" in row["file"] else "path.pre-certificate"
            )
    assert len(trusted) >= 7
    assert [file for file, right in trusted.items() if not right] == []


@pytest.mark.parametrize(
    "extension",
    [
        x509.CertificatePolicies([x509.PolicyInformation(x509.ObjectIdentifier("0.4.0.194112.1.6"), None)]),
        x509.UnrecognizedExtension(x509.ObjectIdentifier(oids.QC_STATEMENTS), b"\x30\x00"),
    ],
    ids=["policies", "statements"],
)
def test_an_end_entity_may_have_critical_what_is_processed_elsewhere(certify, extension):
    root = certify("Root")
    leaf = certify("Leaf", root, ca=False, extensions=((extension, True),))
    path = PathVerifier(Anchors((root.certificate,))).verify(leaf.certificate, at=leaf.certificate.not_before)
    assert path.chain == (leaf.certificate, root.certificate)


def test_names_are_those_of_the_certificates_bytes(pki):
    for certificate in (pki.qwac.certificate, pki.root.certificate):
        assert certificate.subject_der == certificate.x509.subject.public_bytes()
        assert certificate.issuer_der == certificate.x509.issuer.public_bytes()


PURPOSES = ExtendedKeyUsageOID


@pytest.mark.parametrize(
    ("allowed", "critical", "purposes", "expected"),
    [
        ([PURPOSES.CLIENT_AUTH], True, [PURPOSES.CLIENT_AUTH], None),
        ([PURPOSES.SERVER_AUTH], True, [PURPOSES.CLIENT_AUTH], "path.purpose"),
        ([PURPOSES.SERVER_AUTH], False, [PURPOSES.CLIENT_AUTH], None),
        ([PURPOSES.ANY_EXTENDED_KEY_USAGE], True, [PURPOSES.CLIENT_AUTH], None),
        ([PURPOSES.ANY_EXTENDED_KEY_USAGE], True, [], None),
        ([PURPOSES.CLIENT_AUTH], True, [], "path.purpose"),
        ([PURPOSES.CLIENT_AUTH], True, [PURPOSES.CLIENT_AUTH, PURPOSES.SERVER_AUTH], "path.purpose"),
    ],
)
def test_a_critical_extended_key_usage_of_an_authority_limits_what_it_certifies(
    certify, root, allowed, critical, purposes, expected
):
    usage = (x509.ExtendedKeyUsage(allowed), critical)
    between = certify("Between", root, extensions=(*authority_extensions(path_length=0), usage))
    own = ((x509.ExtendedKeyUsage(purposes), True),) if purposes else ()
    leaf = certify("leaf", between, extensions=(key_usage("digital_signature"), *own))
    paths = verifier(root)
    if expected is None:
        assert paths.verify(leaf.certificate, at=AT, intermediates=[between.certificate])
    else:
        assert refusal(paths, leaf, intermediates=[between]).code == expected


BOTH = [PURPOSES.SERVER_AUTH, PURPOSES.CLIENT_AUTH]


@pytest.mark.parametrize(
    ("allowed", "purposes", "lacking"),
    [
        ([PURPOSES.SERVER_AUTH], [PURPOSES.CLIENT_AUTH], "clientAuth"), ([PURPOSES.SERVER_AUTH], BOTH, "clientAuth"),
        (BOTH, BOTH, None), ([PURPOSES.ANY_EXTENDED_KEY_USAGE], BOTH, None), ([PURPOSES.SERVER_AUTH], [], None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("of_root", [False, True])
def test_a_purpose_that_an_authority_lacks_is_a_warning_if_not_critical(certify, allowed, purposes, lacking, of_root):
    usage = (x509.ExtendedKeyUsage(allowed), False)
    root = certify("Root", extensions=(*authority_extensions(path_length=1), *([usage] if of_root else [])))
    between = certify("Between", root, extensions=(*authority_extensions(path_length=0), *([] if of_root else [usage])))
    own = ((x509.ExtendedKeyUsage(purposes), False),) if purposes else ()
    leaf = certify("leaf", between, extensions=(key_usage("digital_signature"), *own))
    material = TrustMaterial(make_anchors([root.certificate, between.certificate]))
    for findings in (
        PathVerifier(material.anchors).verify(leaf.certificate, at=AT).findings,
        check_trust(leaf.certificate, as_=Use.QWAC, at=AT, material=material).findings,
    ):
        findings = [finding for finding in findings if finding.code.startswith("path.")]
        assert [(f.code, f.severity) for f in findings] == ([("path.purpose", Severity.WARNING)] if lacking else [])
        assert all(f"is for {lacking}, which" in f.message and "OpenSSL" in f.message for f in findings)


def test_basic_constraints_of_an_authority_need_not_be_critical(certify, root):
    basic, usage = authority_extensions(path_length=0)
    between = certify("Between", root, extensions=((basic[0], False), usage))
    leaf = certify("leaf", between, ca=False)
    assert verifier(root).verify(leaf.certificate, at=AT, intermediates=[between.certificate])


def named(text: str, kind: _ASN1Type) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text, kind)])


@pytest.mark.parametrize(
    ("issuer", "expected"),
    [
        (named("Issuing", _ASN1Type.PrintableString), None),
        (named(" ISSUING", _ASN1Type.UTF8String), None),
        (named("Issuing 2", _ASN1Type.UTF8String), "trust.no-path"),
    ],
    ids=["another kind of string", "another spelling", "another name"],
)
def test_a_name_is_the_same_in_another_encoding(certify, root, issuing, issuer, expected):
    key = ec.generate_private_key(ec.SECP256R1())
    for signing_key, outcome in ((issuing.key, expected), (key, expected or "path.signature")):
        leaf = (
            x509.CertificateBuilder(issuer, named("leaf", _ASN1Type.UTF8String), key.public_key(), 7, AT, AT)
            .add_extension(*key_usage("digital_signature"))
            .sign(signing_key, hashes.SHA256())
        )
        certificate = EidasCertificate.from_der(leaf.public_bytes(Encoding.DER))
        paths = verifier(root)
        if outcome is None:
            assert paths.verify(certificate, at=AT, intermediates=[issuing.certificate])
        else:
            assert refusal(paths, issuing._replace(certificate=certificate), intermediates=[issuing]).code == outcome


def test_messages_about_a_name_of_any_length_are_short(root):
    kind = x509.ObjectIdentifier(oids.ORGANIZATION_IDENTIFIER)
    name = x509.Name([x509.NameAttribute(kind, "PSDLT-BL-\n" + "x" * 20) for _ in range(500)])
    own, other = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    def made(key: ec.EllipticCurvePrivateKey, *extensions: tuple[x509.ExtensionType, bool]) -> EidasCertificate:
        builder = x509.CertificateBuilder(name, name, key.public_key(), 7, AT, AT)
        for extension, is_critical in extensions:
            builder = builder.add_extension(extension, is_critical)
        return EidasCertificate.from_der(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER))

    stranger = made(own, key_usage("digital_signature"))
    same_name = PathVerifier(make_anchors([made(other, *authority_extensions(path_length=0))]))
    found = []
    for judge in (
        lambda: verifier(root).verify(stranger, at=AT),
        lambda: verifier(root).verify(stranger, at=AT + timedelta(days=1)),
        lambda: verifier(root).verify_use(stranger, as_=Use.QWAC, at=AT),
        lambda: same_name.verify(stranger, at=AT),
    ):
        with pytest.raises(CertificateRejected) as caught:
            judge()
        found.append(caught.value.code)
        assert len(str(caught.value)) < 2000
        assert all(len(finding.message) < 2000 for finding in caught.value.findings)
    assert found == ["trust.no-path", "certificate.expired", "organization-identifier.missing", "path.signature"]
