"""Which certificates are taken for a seal, of which organizations, and until when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from sealing import (
    AT,
    ORGANIZATIONS,
    REQUEST,
    WITHOUT_STATEMENT,
    fresh_policy,
    issue_for,
    issue_seal,
    make_certificate,
    seal_by_hand,
    verdict,
    with_value,
)

from refusals import refused
from tppkit._encoding import encode_base64
from tppkit.certificates import OrganizationPolicy, oids
from tppkit.certificates.write_qcstatements import write_qc_statements
from tppkit.errors import CertificateRejected, ConfigurationError, FormatError
from tppkit.protocol.psd2 import PSD2
from tppkit.seals import SealPolicy, sign_request
from tppkit.seals.key_id import make_key_id
from tppkit.testpki import Issued, Pki, certificate_pem, make_pki, make_provider
from tppkit.testpki.profiles import key_usage, qseal_extensions
from tppkit.trust import PathVerifier, RevocationChecker, RevocationEvidence, RevocationScope, make_anchors
from tppkit.trust.revocation.revocation_list import parse_crl
from tppkit.web import PeerCertificate, QwacPolicy

HEADER = "TPP-Signature-Certificate"


def special(
    pki: Pki, extensions: list[tuple[x509.ExtensionType, bool]] | None = None, *, issuer: Issued | None = None,
    subject: x509.Name | None = None,
) -> Issued:  # fmt: skip
    """A certificate with a key of its own: a QSealC of the test PKI but for the parts that are given."""
    key, issuer = ec.generate_private_key(ec.SECP256R1()), issuer or pki.qseal_ca
    certificate = make_certificate(
        key.public_key(), issuer=issuer.certificate.x509.subject, issuer_key=issuer.key,
        subject=subject or pki.qseal.certificate.x509.subject, extensions=extensions or qseal_extensions(pki.provider),
    )  # fmt: skip
    return Issued("special", "qseal", certificate, key)


def self_signed(pki: Pki) -> Issued:
    key, name = ec.generate_private_key(ec.SECP256R1()), pki.qseal.certificate.x509.subject
    extensions = qseal_extensions(pki.provider)
    certificate = make_certificate(key.public_key(), issuer=name, issuer_key=key, subject=name, extensions=extensions)
    return Issued("special", "qseal", certificate, key)


def of_type(pki: Pki, qc_type: str) -> Issued:
    value = write_qc_statements(qc_type=qc_type, psd2=pki.qseal.certificate.qc.psd2, pds=())
    statements = x509.UnrecognizedExtension(x509.ObjectIdentifier(oids.QC_STATEMENTS), value)
    return special(pki, [*without_extension(pki, oids.QC_STATEMENTS), (statements, False)])


NOBODY = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nobody")])


def without_extension(pki: Pki, oid: str) -> list[tuple[x509.ExtensionType, bool]]:
    return [pair for pair in qseal_extensions(pki.provider) if pair[0].oid.dotted_string != oid]


NO_SEALS: dict[str, tuple[Callable[[Pki], Issued], str]] = {
    "a QWAC": (lambda pki: pki.qwac, "qcstatements.not-eseal"),
    "a server's": (lambda pki: pki.server, "qcstatements.no-compliance"),
    "an authority's": (lambda pki: pki.qseal_ca, "certificate.is-ca"),
    "no QCStatements": (
        lambda pki: special(pki, without_extension(pki, oids.QC_STATEMENTS)), "qcstatements.no-compliance"
    ),
    "for signatures": (lambda pki: of_type(pki, "esign"), "qcstatements.not-eseal"),
    "for websites": (lambda pki: of_type(pki, "web"), "qcstatements.not-eseal"),
    "for encipherment": (
        lambda pki: special(pki, [*without_extension(pki, "2.5.29.15"), key_usage("key_encipherment")]),
        "certificate.key-usage",
    ),
    "no organisation": (lambda pki: special(pki, subject=NOBODY), "organization-identifier.missing"),
    "of an untrusted authority": (lambda pki: make_pki(at=AT, seed=2).qseal, "trust.no-path"),
    "self-signed": (self_signed, "trust.no-path"),
    "issued by another seal": (lambda pki: special(pki, issuer=pki.qseal), "trust.no-path"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_SEALS)
def test_a_certificate_that_is_no_seal_of_a_trusted_authority_is_refused(name, pki, policy):
    make, code = NO_SEALS[name]
    sealed = seal_by_hand(REQUEST, make(pki))
    assert [verdict(sealed, policy) for _ in range(2)] == [code, code]  # nothing of it is remembered


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: rsa.generate_private_key(65537, 1024), "key.weak"),
        (lambda: ec.generate_private_key(ec.SECP521R1()), "profile.key"),
        (lambda: dsa.generate_private_key(1024), "key.unsupported"),
        (ed25519.Ed25519PrivateKey.generate, "profile.key"),
    ],
)
def test_a_seal_with_a_key_of_another_kind_is_refused(make, code, pki, policy):
    # From a believed authority; no signature of the key is ever looked at.
    certificate = issue_seal(pki, make().public_key())
    sealed = seal_by_hand(REQUEST, pki.qseal, key_id=make_key_id(certificate))
    assert verdict(with_value(sealed, HEADER, encode_base64(certificate.der)), policy) == code


def test_the_organisations_must_be_written_the_same(pki, policy, sealed):
    similar = make_provider(organization_identifier="PSDLT-BL-LB000000X")
    for qwac in (pki.issue_qwac(similar, label="similar"), special(pki, subject=NOBODY)):
        assert verdict(sealed, policy, qwac=qwac.certificate) == "seal.other-organisation"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", "certificate.malformed"),
        ("AAAA", "certificate.malformed"),
        ("A" * 20_000, "certificate.too-large"),
        ("not base64", "base64.malformed"),
        (":AAAA:", "base64.malformed"),
        (None, "certificate.malformed"),  # ours, with a byte after it
    ],
)
def test_what_is_not_a_certificate_is_refused(value, code, sealed, pki, policy):
    value = encode_base64(pki.qseal.certificate.der + b"\x00") if value is None else value
    assert verdict(with_value(sealed, HEADER, value), policy) == code


def test_a_name_that_only_a_lenient_reader_can_read_is_refused_as_the_peers_fault(sealed, pki, policy):
    der = pki.qseal.certificate.der
    place = der.index(b"tppkit TEST Trust Services") - 2
    # A tag of two bytes, one byte less of text: DER that `cryptography` reads and this project does not.
    spoilt = der[:place] + bytes([0x1F, 0x1F, der[place + 1] - 1]) + der[place + 3 :]
    code = verdict(with_value(sealed, HEADER, encode_base64(spoilt)), policy)
    assert code in {"der.malformed", "certificate.malformed"}
    assert PSD2.refusals.refusal_for(FormatError(code, "")).status == 401


@pytest.mark.parametrize(("identifier", "nca_id", "expected"), [*ORGANIZATIONS, *WITHOUT_STATEMENT])
def test_a_seal_is_judged_by_the_organization_that_it_names(identifier, nca_id, expected, pki):
    sealed, policy = seal_by_hand(REQUEST, issue_for(pki, "qseal", identifier, nca_id)), fresh_policy(pki)
    assert [verdict(sealed, policy), verdict(sealed, policy)] == [expected, expected]


@pytest.mark.parametrize(("identifier", "nca_id", "expected"), ORGANIZATIONS)
def test_the_website_certificate_beside_a_seal_is_judged_as_well(identifier, nca_id, expected, pki):
    qwac = issue_for(pki, "qwac", identifier, nca_id).certificate
    is_ours = identifier == pki.provider.organization_identifier.text
    sealed, code = seal_by_hand(REQUEST, pki.qseal), expected if is_ours else "seal.other-organisation"
    assert verdict(sealed, fresh_policy(pki), qwac=qwac) == code


UK = OrganizationPolicy(match_authority=False)
WITH_VAT = OrganizationPolicy(schemes=("PSD", "VAT"))


@pytest.mark.parametrize(
    ("organizations", "identifier", "nca_id", "expected"),
    [
        (UK, "PSDGB-OB-0015800001", "GB-FCA", "holds"),
        (UK, "PSDLT-OB-0015800001", "GB-FCA", "organization-identifier.authority-mismatch"),
        (UK, "VATGB-123456789", "GB-FCA", "organization-identifier.scheme"),
        (WITH_VAT, "VATLT-123456789", "LT-BL", "holds"),
        (WITH_VAT, "PSDLT-BL-LB000000", "LT-BL", "holds"),
        (WITH_VAT, "NTRLT-123456789", "LT-BL", "organization-identifier.scheme"),
        (WITH_VAT, "PSDLT-BOL-LB000000", "LT-BL", "organization-identifier.authority-mismatch"),
    ],
)
def test_a_setting_names_the_schemes_and_whether_the_authority_must_match(
    organizations, identifier, nca_id, expected, pki
):
    policy = SealPolicy(fresh_policy(pki).paths, organizations=organizations)
    qwac = issue_for(pki, "qwac", identifier, nca_id).certificate
    assert verdict(seal_by_hand(REQUEST, issue_for(pki, "qseal", identifier, nca_id)), policy, qwac=qwac) == expected


@pytest.mark.parametrize(
    ("identifier", "values"),
    [
        ("PSDLT-BOL-LB000000", ("PSDLT-BOL-LB000000", "LT-BOL", "LT-BL", "use a certificate")),
        ("VATLT-123456789", ("VATLT-123456789", "VAT", "PSDLT-BL-")),
    ],
)
def test_a_refusal_names_both_values_and_what_to_do(identifier, values, pki):
    with pytest.raises(CertificateRejected) as caught:
        OrganizationPolicy().require(issue_for(pki, "qwac", identifier, "LT-BL").certificate)
    assert all(value in caught.value.message for value in values)


@pytest.mark.parametrize("schemes", [(), ("psd",), ("PSD", "GOV"), "PSD", ("x:",), (1,)])
def test_a_setting_without_a_known_scheme_is_refused(schemes):
    with refused(ConfigurationError, "organization-policy.scheme"):
        OrganizationPolicy(schemes=schemes)  # type: ignore[arg-type]


HOUR = timedelta(hours=1)


def listing(issuer: Issued, *revoked: Issued, is_delta: bool = False) -> RevocationEvidence:
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.certificate.x509.subject)
        .last_update(AT - HOUR)
        .next_update(AT + HOUR)
    )
    if is_delta:
        builder = builder.add_extension(x509.DeltaCRLIndicator(1), critical=True)
    for one in revoked:
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder().serial_number(one.certificate.serial).revocation_date(AT - HOUR).build()
        )
    return RevocationEvidence(crls=(parse_crl(builder.sign(issuer.key, hashes.SHA256()).public_bytes(Encoding.DER)),))


@pytest.fixture
def checker(pki: Pki) -> RevocationChecker:
    return RevocationChecker(
        evidence=listing(pki.qseal_ca) + listing(pki.qwac_ca), scope=RevocationScope.LEAF, remember=24 * HOUR
    )


@pytest.fixture
def checked_paths(pki: Pki, checker: RevocationChecker) -> PathVerifier:
    return PathVerifier(make_anchors(pki.authorities), revocation=checker)


@pytest.mark.parametrize("is_delta", [False, True], ids=["complete", "delta"])
def test_a_known_seal_fails_once_a_revocation_is_known_or_its_evidence_is_over(
    seal, checked_paths, pki, checker, is_delta
):
    policy, message = SealPolicy(checked_paths), sign_request(REQUEST, seal=seal)
    assert verdict(message, policy) == "holds"
    assert verdict(message, policy, at=AT + HOUR) == "holds"
    assert verdict(message, policy, at=AT + 2 * HOUR) == "revocation.stale"
    assert [verdict(message, policy) for _ in range(2)] == ["holds", "holds"]
    checker.replace(listing(pki.qseal_ca, pki.qseal, is_delta=is_delta))
    assert [verdict(message, policy) for _ in range(2)] == ["revocation.revoked", "revocation.revoked"]


def test_a_known_qwac_fails_once_a_revocation_is_known(pki, checker, checked_paths):
    policy = QwacPolicy(checked_paths)
    peer = PeerCertificate((certificate_pem(pki.qwac.certificate).decode(),), None, "asgi-tls")
    assert policy.verify(peer, at=AT) is policy.verify(peer, at=AT)
    checker.replace(listing(pki.qwac_ca, pki.qwac))
    with refused(CertificateRejected, "revocation.revoked"):
        policy.verify(peer, at=AT)
