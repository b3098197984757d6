"""Whose seals a bank takes: by organizationIdentifier and the authority that the PSD2 statement names."""

from __future__ import annotations

import pytest
from sealing import ORGANIZATIONS, REQUEST, WITHOUT_STATEMENT, fresh_policy, issue_for, seal_by_hand, verdict

from refusals import refused
from tppkit.certificates import OrganizationPolicy
from tppkit.errors import CertificateRejected, ConfigurationError
from tppkit.seals import SealPolicy
from tppkit.testpki import Pki


@pytest.mark.parametrize(("identifier", "nca_id", "expected"), [*ORGANIZATIONS, *WITHOUT_STATEMENT])
def test_a_seal_is_judged_by_the_organization_that_it_names(
    identifier: str, nca_id: str | None, expected: str, pki: Pki
) -> None:
    sealed, policy = seal_by_hand(REQUEST, issue_for(pki, "qseal", identifier, nca_id)), fresh_policy(pki)
    assert [verdict(sealed, policy), verdict(sealed, policy)] == [expected, expected]


@pytest.mark.parametrize(("identifier", "nca_id", "expected"), ORGANIZATIONS)
def test_the_website_certificate_beside_a_seal_is_judged_as_well(
    identifier: str, nca_id: str, expected: str, pki: Pki
) -> None:
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
    organizations: OrganizationPolicy, identifier: str, nca_id: str, expected: str, pki: Pki
) -> None:
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
def test_a_refusal_names_both_values_and_what_to_do(identifier: str, values: tuple[str, ...], pki: Pki) -> None:
    with pytest.raises(CertificateRejected) as caught:
        OrganizationPolicy().require(issue_for(pki, "qwac", identifier, "LT-BL").certificate)
    assert all(value in caught.value.message for value in values)


@pytest.mark.parametrize("schemes", [(), ("psd",), ("PSD", "GOV"), "PSD", ("x:",), (1,)])
def test_a_setting_without_a_known_scheme_is_refused(schemes: object) -> None:
    with refused(ConfigurationError, "organization-policy.scheme"):
        OrganizationPolicy(schemes=schemes)  # type: ignore[arg-type]
