"""pkilint, an independent linter, finds no error in what the test PKI makes."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import OCSPNonce
from cryptography.x509.ocsp import OCSPRequestBuilder

from tppkit.testpki import Issued, Pki, make_pki, make_provider
from tppkit.testpki.crl import REASONS, Revocation
from tppkit.testpki.faults.catalogue import FAULTS
from tppkit.testpki.faults.valid_pki import ValidPki
from tppkit.testpki.ocsp import answer_ocsp

pytestmark = pytest.mark.slow

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of libraries that pkilint imports; the tests' own warnings stay errors
    from pkilint import etsi, finding_filter, loader, pkix
    from pkilint.pkix import certificate, crl, extension, name, ocsp
    from pkilint.validation import ValidationFindingSeverity as Weight
    from pkilint.validation import ValidationResult

# What this machine is called is no public name, and that is what a server certificate for this machine says.
LOCALHOST = {("server", "pkix.invalid_domain_name_syntax")}


def pkix_results(der: bytes) -> list[ValidationResult]:
    """By RFC 5280, for whatever certificate."""
    container = certificate.create_pkix_certificate_validator_container(
        certificate.create_decoding_validators(name.ATTRIBUTE_TYPE_MAPPINGS, extension.EXTENSION_MAPPINGS),
        [
            certificate.create_issuer_validator_container([]),
            certificate.create_validity_validator_container(),
            certificate.create_subject_validator_container([]),
            certificate.create_extensions_validator_container([]),
        ],
    )
    return container.validate(loader.load_certificate(der, "certificate").root)


def etsi_results(der: bytes) -> list[ValidationResult]:
    """By the ETSI profile that pkilint takes the certificate for."""
    document = loader.load_certificate(der, "certificate")
    kind = etsi.determine_certificate_type(document)
    container = certificate.create_pkix_certificate_validator_container(
        etsi.create_decoding_validators(kind), etsi.create_validators(kind)
    )
    return finding_filter.filter_results(etsi.create_etsi_finding_filters(kind), container.validate(document.root))[0]


def crl_results(der: bytes) -> list[ValidationResult]:
    """By RFC 5280, for a revocation list."""
    validity = crl.create_validity_validator_container()
    container = crl.create_pkix_crl_validator_container(
        certificate.create_decoding_validators(name.ATTRIBUTE_TYPE_MAPPINGS, extension.EXTENSION_MAPPINGS),
        [crl.create_issuer_validator_container([]), validity, crl.create_extensions_validator_container([])],
    )
    return container.validate(loader.load_crl(der, "crl").root)


def ocsp_results(der: bytes) -> list[ValidationResult]:
    """By RFC 6960, for an OCSP answer."""
    decoding = [
        ocsp.create_response_decoder(),
        pkix.create_attribute_decoder(name.ATTRIBUTE_TYPE_MAPPINGS),
        pkix.create_extension_decoder(extension.EXTENSION_MAPPINGS),
    ]
    container = ocsp.create_pkix_ocsp_response_validator_container(decoding, [])
    return container.validate(loader.load_ocsp_response(der, "answer").root)


def above_info(results: list[ValidationResult]) -> set[str]:
    return {
        d.finding.code
        for result in results
        for d in result.finding_descriptions
        if d.finding.severity not in (Weight.INFO, Weight.DEBUG)
    }


def linted(issued: Issued) -> set[tuple[str, str]]:
    found = above_info(pkix_results(issued.certificate.der))
    if issued.kind in ("qwac", "qseal"):
        found |= above_info(etsi_results(issued.certificate.der))
    return {(issued.kind, code) for code in found}


@pytest.mark.parametrize("kind", ["pki", "rsa_pki"])
def test_the_linter_finds_nothing_in_any_certificate(kind, request):
    made: Pki = request.getfixturevalue(kind)
    assert {finding for issued in made.issued for finding in linted(issued)} == LOCALHOST


@pytest.mark.parametrize("identifier", ["VATLT-123456789", "NTRDE-HRB78770", "LEIXG-AEYE00EKXESVZUUEBP67"])
def test_the_linter_finds_nothing_in_certificates_of_providers_with_another_registered_identifier(pki, identifier):
    provider = make_provider(organization_identifier=identifier, country="LT", name="Kredītiestāde Ė TEST")
    for issued in (pki.issue_qwac(provider, label="a"), pki.issue_qseal(provider, label="b")):
        assert linted(issued) == set()


def test_the_linter_finds_a_fault(pki):
    # So that the tests above can fail.
    case = FAULTS["unknown-country"].make(pki)
    assert above_info(etsi_results(case.leaf)) != set()


# What the linter would rather not see and ETSI's profiles want, Ed25519, which was asked for, and the notice that says TEST.
DISCOURAGED = {
    ("qwac", "cabf.serverauth.subscriber.unknown_extension_present"),
    ("qwac", "cabf.serverauth.subscriber.subject_key_identifier_extension_present"),
    ("qwac", "cabf.ev_guidelines.common_name_attribute_present"),
    ("qseal", "etsi.en_319_412_2.gen-4.2.5-1.discouraged_public_key_type"),
    ("qseal", "pkix.certificate_policies_policy_has_qualifier"),
}


REAL_NAME = make_provider(name="Real Bank")


@pytest.mark.parametrize(
    "options", [{"policy": "ev", "provider": REAL_NAME}, {"qscd": True}, {"seal_key": "ed25519"}, {"key": "p384"}]
)
def test_the_linter_finds_nothing_in_certificates_with_other_options(pki, options):
    made = make_pki(at=pki.not_before, seed=1, days=90, **options)
    assert {finding for issued in made.issued for finding in linted(issued)} - DISCOURAGED == LOCALHOST


def with_every_reason(pki: Pki) -> Pki:
    """The same PKI with a certificate revoked for each reason, two of them real."""
    reasons = [reason for reason in REASONS if reason != "removeFromCRL"]
    serials = [pki.qwac.certificate.serial, pki.other_qwac.certificate.serial, *range(3, 2 + len(reasons))]
    revoked = tuple(
        Revocation(serial, pki.not_before, reason) for serial, reason in zip(serials, reasons, strict=False)
    )
    return replace(pki, revocations={"issuing-ca-qwac": revoked})


@pytest.mark.parametrize("kind", ["pki", "rsa_pki"])
def test_the_linter_finds_nothing_in_revocation_lists(kind, request):
    made = with_every_reason(request.getfixturevalue(kind))
    for issuer in made.issuers:
        for at in (made.not_before, made.not_before.replace(year=2055)):  # GeneralizedTime from 2050 on
            assert above_info(crl_results(made.crl(issuer, at=at))) == set()


@pytest.mark.parametrize("kind", ["pki", "rsa_pki"])
def test_the_linter_finds_nothing_in_ocsp_answers(kind, request):
    made = with_every_reason(request.getfixturevalue(kind))
    stranger = Issued("stranger", "qwac", made.qseal.certificate, made.qseal.key)  # unknown to the QWACs' authority
    asked = [
        (made.qwac, made.qwac_ca),
        (made.server, made.qwac_ca),
        (stranger, made.qwac_ca),
        (made.qwac_ca, made.root),
    ]
    for issued, issuer in asked:
        for hash_ in (hashes.SHA1(), hashes.SHA256()):
            question = OCSPRequestBuilder().add_certificate(issued.certificate.x509, issuer.certificate.x509, hash_)
            for nonced in (question, question.add_extension(OCSPNonce(b"0123456789"), critical=False)):
                answer = answer_ocsp(made, nonced.build().public_bytes(Encoding.DER), at=made.not_before)
                assert above_info(ocsp_results(answer)) == set()


def test_the_linter_sees_a_fault_of_lists_and_answers(pki):
    sound = ValidPki(pki, "linted")
    assert above_info(crl_results(sound.crl(next_update=None))) != set()
    late = sound.single(next_update=sound.start.replace(year=2000))
    assert above_info(ocsp_results(sound.ocsp(late))) != set()
