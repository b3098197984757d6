"""pkilint, an independent linter, finds no error in what the test PKI makes."""

from __future__ import annotations

import warnings

import pytest

from tppkit.testpki import Issued, Pki, make_provider

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of libraries that pkilint imports; the tests' own warnings stay errors
    from pkilint import etsi, finding_filter, loader
    from pkilint.pkix import certificate, extension, name
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
def test_the_linter_has_nothing_to_say_of_any_certificate(kind, request):
    made: Pki = request.getfixturevalue(kind)
    assert {finding for issued in made.issued for finding in linted(issued)} == LOCALHOST


@pytest.mark.parametrize("identifier", ["VATLT-123456789", "NTRDE-HRB78770", "LEIXG-AEYE00EKXESVZUUEBP67"])
def test_nor_of_providers_with_another_registered_identifier(pki, identifier):
    provider = make_provider(organization_identifier=identifier, country="LT", name="Kredītiestāde Ė TEST")
    for issued in (pki.issue_qwac(provider, label="a"), pki.issue_qseal(provider, label="b")):
        assert linted(issued) == set()


def test_the_linter_sees_a_fault(pki):
    # So that the tests above can fail.
    provider = make_provider(organization_identifier="PSDZZ-BL-1", country="LT")
    assert linted(pki.issue_qwac(provider, label="a")) != set()
