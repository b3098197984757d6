"""Which certificates are taken for a seal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.x509.oid import NameOID
from sealing import AT, REQUEST, TEMPLATE, fresh_policy, issue_seal, make_certificate, seal_by_hand, verdict, with_value

from tppkit._encoding import encode_base64
from tppkit.certificates import EidasCertificate, oids
from tppkit.certificates.write_qcstatements import write_qc_statements
from tppkit.errors import FormatError
from tppkit.httpsig import Message
from tppkit.protocol.psd2 import PSD2
from tppkit.seals import SealPolicy
from tppkit.seals.key_id import make_key_id
from tppkit.testpki import Issued, Pki, make_pki, make_provider
from tppkit.testpki.profiles import key_usage, qseal_extensions

HEADER = "TPP-Signature-Certificate"


def issued_as_seal(certificate: EidasCertificate, key: object) -> Issued:
    return Issued("special", "qseal", certificate, key)  # type: ignore[arg-type]


def without_extension(pki: Pki, oid: str) -> list[tuple[x509.ExtensionType, bool]]:
    return [pair for pair in qseal_extensions(pki.provider) if pair[0].oid.dotted_string != oid]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("qwac", "qcstatements.not-eseal"),
        ("server", "qcstatements.no-compliance"),
        ("qseal_ca", "certificate.is-ca"),
    ],
)
def test_a_certificate_for_something_else_is_not_a_seal(kind: str, code: str, pki: Pki, policy: SealPolicy) -> None:
    assert verdict(seal_by_hand(REQUEST, getattr(pki, kind)), policy) == code


def test_a_certificate_without_qc_statements_is_not_a_seal(pki: Pki, policy: SealPolicy) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = issue_seal(pki, key.public_key(), extensions=without_extension(pki, oids.QC_STATEMENTS))
    sealed = seal_by_hand(REQUEST, issued_as_seal(certificate, key))
    assert verdict(sealed, policy) == "qcstatements.no-compliance"


@pytest.mark.parametrize("qc_type", ["esign", "web"])
def test_a_certificate_of_another_qualified_type_is_not_a_seal(qc_type: str, pki: Pki, policy: SealPolicy) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    value = write_qc_statements(qc_type=qc_type, psd2=pki.qseal.certificate.qc.psd2, pds=())
    statements = x509.UnrecognizedExtension(x509.ObjectIdentifier(oids.QC_STATEMENTS), value)
    extensions = [*without_extension(pki, oids.QC_STATEMENTS), (statements, False)]
    certificate = issue_seal(pki, key.public_key(), extensions=extensions)
    assert verdict(seal_by_hand(REQUEST, issued_as_seal(certificate, key)), policy) == "qcstatements.not-eseal"


def test_a_certificate_whose_key_may_not_sign_is_not_a_seal(pki: Pki, policy: SealPolicy) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    extensions = [*without_extension(pki, "2.5.29.15"), key_usage("key_encipherment")]
    certificate = issue_seal(pki, key.public_key(), extensions=extensions)
    assert verdict(seal_by_hand(REQUEST, issued_as_seal(certificate, key)), policy) == "certificate.key-usage"


def test_a_seal_of_an_untrusted_authority_is_refused(policy: SealPolicy) -> None:
    stranger = make_pki(at=AT, seed=2)
    assert verdict(seal_by_hand(REQUEST, stranger.qseal), policy) == "trust.no-path"


def test_a_self_signed_seal_is_refused(pki: Pki, policy: SealPolicy) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = pki.qseal.certificate.x509.subject
    certificate = make_certificate(
        key.public_key(), issuer=name, issuer_key=key, subject=name, extensions=qseal_extensions(pki.provider)
    )
    assert verdict(seal_by_hand(REQUEST, issued_as_seal(certificate, key)), policy) == "trust.no-path"


def test_a_seal_that_another_seal_issued_is_refused(pki: Pki, policy: SealPolicy) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = make_certificate(
        key.public_key(),
        issuer=pki.qseal.certificate.x509.subject,
        issuer_key=pki.qseal.key,
        subject=pki.qseal.certificate.x509.subject,
        extensions=qseal_extensions(pki.provider),
    )
    assert verdict(seal_by_hand(REQUEST, issued_as_seal(certificate, key)), policy) == "trust.no-path"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: rsa.generate_private_key(65537, 1024), "key.weak"),
        (lambda: ec.generate_private_key(ec.SECP521R1()), "key.unsupported"),
        (lambda: dsa.generate_private_key(1024), "key.unsupported"),
        (ed25519.Ed25519PrivateKey.generate, "profile.key"),
    ],
)
def test_a_seal_with_a_key_of_another_kind_is_refused(
    make: Callable[[], Any], code: str, pki: Pki, policy: SealPolicy
) -> None:
    # From a believed authority; no signature of the key is ever looked at.
    certificate = issue_seal(pki, make().public_key())
    sealed = seal_by_hand(REQUEST, pki.qseal, key_id=make_key_id(certificate))
    assert verdict(with_value(sealed, HEADER, encode_base64(certificate.der)), policy) == code


def test_the_seal_of_another_organisation_than_the_connections_is_refused(
    sealed: Message, pki: Pki, other_qseal: Issued, policy: SealPolicy
) -> None:
    ours = pki.qwac.certificate
    assert verdict(seal_by_hand(REQUEST, other_qseal), policy, qwac=ours) == "seal.other-organisation"
    assert verdict(sealed, policy, qwac=ours) == "holds"


def test_the_organisations_must_be_written_the_same(pki: Pki, policy: SealPolicy, sealed: Message) -> None:
    similar = make_provider(organization_identifier="PSDLT-BL-LB000000X")
    qwac = pki.issue_qwac(similar, label="similar").certificate
    assert verdict(sealed, policy, qwac=qwac) == "seal.other-organisation"


def without_organisation(pki: Pki, key: ec.EllipticCurvePrivateKey) -> EidasCertificate:
    nobody = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nobody")])
    return make_certificate(
        key.public_key(),
        issuer=pki.qseal_ca.certificate.x509.subject,
        issuer_key=pki.qseal_ca.key,
        subject=nobody,
        extensions=qseal_extensions(pki.provider),
    )


def test_a_seal_that_names_no_organisation_is_refused(pki: Pki, policy: SealPolicy) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    sealed = seal_by_hand(REQUEST, issued_as_seal(without_organisation(pki, key), key))
    assert verdict(sealed, policy) == "organization-identifier.missing"


def test_a_connection_whose_certificate_names_no_organisation_is_refused(
    pki: Pki, policy: SealPolicy, sealed: Message
) -> None:
    qwac = without_organisation(pki, ec.generate_private_key(ec.SECP256R1()))
    assert verdict(sealed, policy, qwac=qwac) == "seal.other-organisation"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", "certificate.malformed"),
        ("AAAA", "certificate.malformed"),
        ("A" * 20_000, "certificate.too-large"),
        ("not base64", "base64.malformed"),
        (":AAAA:", "base64.malformed"),
    ],
)
def test_what_is_not_a_certificate_is_refused(value: str, code: str, sealed: Message, policy: SealPolicy) -> None:
    assert verdict(with_value(sealed, HEADER, value), policy) == code


def test_a_certificate_with_something_after_it_is_refused(sealed: Message, pki: Pki, policy: SealPolicy) -> None:
    longer = encode_base64(pki.qseal.certificate.der + b"\x00")
    assert verdict(with_value(sealed, HEADER, longer), policy) == "certificate.malformed"


def test_a_name_that_only_a_lenient_reader_can_read_is_refused_as_the_peers_fault(
    sealed: Message, pki: Pki, policy: SealPolicy
) -> None:
    der = pki.qseal.certificate.der
    place = der.index(b"tppkit TEST Trust Services") - 2
    # A tag of two bytes, one byte less of text: DER that `cryptography` reads and this project does not.
    spoilt = der[:place] + bytes([0x1F, 0x1F, der[place + 1] - 1]) + der[place + 3 :]
    code = verdict(with_value(sealed, HEADER, encode_base64(spoilt)), policy)
    assert code in {"der.malformed", "certificate.malformed"}
    assert PSD2.refusals.refusal_for(FormatError(code, "")).status == 401


def test_nothing_is_remembered_of_a_refused_certificate(pki: Pki) -> None:
    stranger, policy = make_pki(at=AT, seed=2), fresh_policy(pki)
    for _ in range(2):
        assert verdict(seal_by_hand(REQUEST, stranger.qseal, template=TEMPLATE), policy) == "trust.no-path"
