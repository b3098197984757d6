"""Where several chains are possible, one that holds is found; hostile bundles cost little."""

from __future__ import annotations

from datetime import timedelta

import pytest
from answering import AT, evidence, make_crl, make_ocsp, outcome, point
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from key_identifiers import key_identifiers
from refusals import refused
from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected
from tppkit.testpki.profiles import authority_extensions, key_usage
from tppkit.trust import Anchors, PathVerifier, RevocationChecker, RevocationEvidence, RevocationPolicy, State
from tppkit.trust.path.verifier import MAX_REVOCATION_CHECKS, MAX_SIGNED_CANDIDATES
from tppkit.trust.revocation.revocation_list import parse_crl


def verify(leaf, *, roots, between=(), sent=()):
    paths = PathVerifier(Anchors(tuple(r.certificate for r in roots), tuple(b.certificate for b in between)))
    return paths.verify(leaf.certificate, at=AT, intermediates=[one.certificate for one in sent])


def code(leaf, **options) -> str:
    with pytest.raises(CertificateRejected) as refused:
        verify(leaf, **options)
    return refused.value.code


def certify_again(authority, issuer, *, extensions, subject: str | None = None) -> EidasCertificate:
    """Another certificate for an authority's key and name."""
    key = authority.key.public_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(authority.certificate.x509.subject)
        .issuer_name(issuer.certificate.x509.subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(AT - timedelta(days=30))
        .not_valid_after(AT + timedelta(days=30))
    )
    for extension, critical in (*extensions, *key_identifiers(key, issuer.key.public_key())):
        builder = builder.add_extension(extension, critical)
    return EidasCertificate.from_der(builder.sign(issuer.key, hashes.SHA256()).public_bytes(Encoding.DER))


@pytest.mark.parametrize(
    "faulty",
    [
        (x509.NameConstraints(
            [x509.DirectoryName(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "other")]))], None), True),
        (x509.PolicyConstraints(0, None), True),  # and it states no policy
    ],
    ids=["name constraints", "policies"],
)  # fmt: skip
@pytest.mark.parametrize("faulty_first", [True, False])
def test_where_one_chain_fails_another_that_holds_is_found(certify, faulty, faulty_first):
    root, other = certify("Root"), certify("Other root")
    issuing = certify("Issuing", root)
    leaf = certify("leaf", issuing, ca=False)
    extensions = (*authority_extensions(path_length=None), faulty)
    bad = issuing._replace(certificate=certify_again(issuing, other, extensions=extensions))
    between = [bad, issuing] if faulty_first else [issuing, bad]
    path = verify(leaf, roots=[other, root], between=between)
    assert path.chain == (leaf.certificate, issuing.certificate, root.certificate)
    assert code(leaf, roots=[other], between=between) in ("path.name-constraints", "path.policy")


def test_another_certificate_of_its_authority_does_not_hide_the_list_that_revokes_a_leaf(certify):
    root = certify("Root")
    issuing = certify("Issuing", root)
    leaf = certify("leaf", issuing, ca=False)
    no_lists = (authority_extensions(path_length=None)[0], key_usage("key_cert_sign"))
    sent = certify_again(issuing, root, extensions=no_lists)
    answers = make_crl(issuing, leaf, at=AT), make_ocsp(leaf, issuing, at=AT), make_crl(root, at=AT)
    for between in ((), (issuing.certificate,)):
        paths = PathVerifier(
            Anchors((root.certificate,), between), revocation=RevocationChecker(evidence=evidence(*answers))
        )
        with refused(CertificateRejected, "revocation.revoked"):
            paths.verify(leaf.certificate, at=AT, intermediates=[sent])


@pytest.fixture
def crossed(certify):
    """Judge a leaf whose authority has certificates of two roots, with a list of the first root."""
    root, other = certify("Root"), certify("Other root")
    issuing = certify("Issuing", root)
    leaf = certify("leaf", issuing, ca=False)
    cross = certify_again(issuing, other, extensions=authority_extensions(path_length=None))

    def judge(of_root, **options) -> str | None:
        own = make_crl(issuing, at=AT - timedelta(days=3), lasts=timedelta(days=9))
        answers = of_root(root, issuing, leaf), own, make_crl(other, at=AT)
        checker = RevocationChecker(evidence=evidence(*answers), **options)
        anchors = Anchors((root.certificate, other.certificate), (issuing.certificate, cross))
        return outcome(PathVerifier(anchors, revocation=checker), leaf, AT)[0]

    return judge


STALE_HOLD = {"at": AT - timedelta(days=2), "reason": x509.ReasonFlags.certificate_hold}


@pytest.mark.parametrize("policy", RevocationPolicy)
@pytest.mark.parametrize(("entry", "code"), [({}, "revocation.revoked"), (STALE_HOLD, "revocation.stale")])
def test_a_leaf_that_one_chain_refuses_for_good_is_refused_though_another_proves_it_good(crossed, policy, entry, code):
    def indirect(root, issuing, leaf):
        named = x509.CertificateIssuer([x509.DirectoryName(issuing.certificate.x509.subject)]), True
        further = [named, (x509.CRLReason(entry.get("reason", x509.ReasonFlags.key_compromise)), False)]
        at = entry.get("at", AT)
        return make_crl(root, leaf, at=at, extensions=[point(indirect_crl=True)], entry_extensions=further)

    assert crossed(indirect, policy=policy) == code


def test_a_revoked_certificate_of_an_authority_does_not_end_the_chain_through_another(crossed):
    assert crossed(lambda root, issuing, leaf: make_crl(root, issuing, at=AT)) is None


def test_a_mesh_of_authorities_that_leads_nowhere_ends_soon(certify):
    names = [f"Mesh {n}" for n in range(8)]
    mesh = [certify(name) for name in names]
    crossed = [
        one._replace(certificate=certify_again(one, other, extensions=authority_extensions(path_length=None)))
        for one in mesh
        for other in mesh
        if one is not other
    ]
    leaf = certify("leaf", mesh[0], ca=False)
    assert code(leaf, roots=[certify("Root")], sent=crossed) == "path.too-complex"


def test_many_namesakes_do_not_hide_the_right_authority(certify):
    root = certify("Root")
    issuing = certify("Issuing", root)
    leaf = certify("leaf", issuing, ca=False)
    namesakes = [certify("Issuing", root) for _ in range(100)]
    assert verify(leaf, roots=[root], sent=[*namesakes, issuing]).chain[1] == issuing.certificate


@pytest.mark.parametrize(
    ("before", "expected"), [(MAX_SIGNED_CANDIDATES - 1, None), (MAX_SIGNED_CANDIDATES, "trust.no-path")]
)
def test_the_signatures_of_few_candidates_are_checked(certify, before, expected):
    root, namesake = certify("Root"), certify("Root")
    issuing = certify("Issuing", root)
    leaf = certify("leaf", issuing, ca=False)
    extensions = authority_extensions(path_length=None)
    wrong = [certify_again(issuing, namesake, extensions=extensions) for _ in range(before)]
    paths = PathVerifier(Anchors((root.certificate,), (*wrong, issuing.certificate)))
    assert outcome(paths, leaf, AT)[0] == expected


@pytest.mark.parametrize(
    ("before", "expected"), [(MAX_REVOCATION_CHECKS - 1, None), (MAX_REVOCATION_CHECKS, "revocation.revoked")]
)
def test_the_revocation_of_few_candidates_is_checked(certify, before, expected):
    root = certify("Root")
    issuing = certify("Issuing", root)
    leaf = certify("leaf", issuing, ca=False)
    extensions = authority_extensions(path_length=None)
    revoked = [issuing._replace(certificate=certify_again(issuing, root, extensions=extensions)) for _ in range(before)]
    checker = RevocationChecker(evidence=evidence(make_crl(root, *revoked, at=AT), make_crl(issuing, at=AT)))
    between = (*(one.certificate for one in revoked), issuing.certificate)
    paths = PathVerifier(Anchors((root.certificate,), between), revocation=checker)
    assert outcome(paths, leaf, AT)[0] == expected


def test_a_certificate_that_is_an_anchor_itself_is_trusted(certify):
    leaf = certify("leaf", ca=False)
    assert verify(leaf, roots=[leaf]).chain == (leaf.certificate,)


def sign(subject: str, key, issuer_key, algorithm, *, ca: bool, extra=(), rsa_padding=None) -> EidasCertificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Root")]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(AT - timedelta(days=30))
        .not_valid_after(AT + timedelta(days=30))
    )
    own = authority_extensions(path_length=None) if ca else (key_usage("digital_signature"),)
    for extension, critical in (*own, *extra, *key_identifiers(key.public_key(), issuer_key.public_key())):
        builder = builder.add_extension(extension, critical)
    signed = builder.sign(issuer_key, algorithm, rsa_padding=rsa_padding)
    return EidasCertificate.from_der(signed.public_bytes(Encoding.DER))


def judge(root_key, leaf_key, algorithm, extra=()) -> str | None:
    root = sign("Root", root_key, root_key, hashes.SHA256(), ca=True)
    leaf = sign("leaf", leaf_key, root_key, algorithm, ca=False, extra=extra)
    try:
        PathVerifier(Anchors((root,))).verify(leaf, at=AT)
    except CertificateRejected as e:
        return e.code
    return None


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1(), ec.BrainpoolP256R1()])
def test_chains_of_every_strong_curve_hold(curve):
    assert judge(ec.generate_private_key(curve), ec.generate_private_key(curve), hashes.SHA256()) is None


@pytest.mark.parametrize(
    ("make_key", "expected"),
    [
        (lambda: rsa.generate_private_key(65537, 1024), "key.weak"),
        (lambda: ec.generate_private_key(ec.SECP256K1()), "key.unsupported"),
        (lambda: ec.generate_private_key(ec.SECP224R1()), "key.unsupported"),
    ],
    ids=["RSA-1024", "secp256k1", "P-224"],
)
def test_weak_keys_are_refused_in_the_leaf_and_above(make_key, expected):
    strong, weak = ec.generate_private_key(ec.SECP256R1()), make_key()
    assert judge(strong, weak, hashes.SHA256()) == expected
    assert judge(weak, strong, hashes.SHA256()) == expected


def test_a_weak_signature_is_refused():
    keys = [rsa.generate_private_key(65537, 2048) for _ in range(2)]
    assert judge(*keys, hashes.SHA224()) == "path.weak-signature"


def test_a_critical_extended_key_usage_of_a_seal_is_not_an_obstacle():
    key = ec.generate_private_key(ec.SECP256R1())
    signing = x509.ExtendedKeyUsage([x509.ObjectIdentifier("1.3.6.1.4.1.311.10.3.12")])
    assert judge(key, key, hashes.SHA256(), [(signing, True)]) is None


def test_a_self_issued_authority_does_not_count_for_the_path_length(certify):
    root = certify("Root", path_length=0)
    rollover = certify("Root", root)  # the root's next key, under the old one
    leaf = certify("leaf", rollover, ca=False)
    assert len(verify(leaf, roots=[root], between=[rollover]).chain) == 3
    below = certify("Below", rollover)
    assert code(certify("leaf", below, ca=False), roots=[root], between=[rollover, below]) == "path.length"


@pytest.mark.parametrize("digest", [hashes.SHA256(), hashes.SHA512()], ids=lambda digest: digest.name)
def test_chains_and_lists_signed_with_rsassa_pss_hold(digest):
    root_key, leaf_key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    root = sign("Root", root_key, root_key, hashes.SHA256(), ca=True)
    pss = padding.PSS(padding.MGF1(digest), padding.PSS.DIGEST_LENGTH)
    leaf = sign("leaf", leaf_key, root_key, digest, ca=False, rsa_padding=pss)
    crl = x509.CertificateRevocationListBuilder().issuer_name(root.x509.subject).last_update(AT)
    der = crl.next_update(AT + timedelta(days=1)).sign(root_key, digest, rsa_padding=pss).public_bytes(Encoding.DER)
    checker = RevocationChecker(evidence=RevocationEvidence(crls=(parse_crl(der),)))
    assert PathVerifier(Anchors((root,)), revocation=checker).verify(leaf, at=AT).revocation[0].state is State.GOOD
