"""Lists of the European Union of autumn 2023, and production certificates."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime

import pytest

from refusals import refused
from tppkit.certificates import EidasCertificate, load_certificates
from tppkit.errors import TppkitError, VerificationError
from tppkit.trust import TrustedLists, load_trusted_lists
from tppkit.trust.trusted_list.folder import pointers_to
from tppkit.trust.trusted_list.lotl_signers import LOTL_SIGNERS
from tppkit.trust.trusted_list.reader import UnverifiedList
from tppkit.trust.trusted_list.services import IssuingService

pytestmark = [pytest.mark.shared, pytest.mark.slow]

IN_2023 = datetime(2023, 10, 20, tzinfo=UTC)
MULTICERT, BUYPASS = "eidas-psd2-sdk__multicert-psd2-eidas__e6a46847", "openbanking-aspsp__QWac__09995cb9"


@pytest.fixture(scope="module")
def folder(shared_data):
    return shared_data / "certificates" / "trusted-lists"


@pytest.fixture(scope="module")
def lists(folder) -> TrustedLists:
    return load_trusted_lists(folder)


@pytest.fixture(scope="module")
def qwac(shared_data):
    def load(name: str) -> EidasCertificate:
        return load_certificates(shared_data / "certificates" / "psd2" / f"{name}.der")[0]

    return load


def test_all_seven_lists_verify(lists):
    assert lists.failures == ()
    assert lists.list_of_lists.sequence_number == 332
    assert sorted((one.territory, one.sequence_number) for one in lists.lists) == [
        ("CZ", 141),
        ("FI", 45),
        ("LI", 40),
        ("NL", 65),
        ("NO", 71),
        ("PT", 79),
    ]


def test_every_service_and_its_history_reads(lists):
    findings = [(one.territory, finding.code) for one in lists.lists for finding in one.findings]
    assert findings == [("FI", "trusted-list.operator")]
    counts = {
        one.territory: (
            sum(len(provider.services) for provider in one.providers),
            sum(len(service.instances) - 1 for provider in one.providers for service in provider.services),
        )
        for one in lists.lists
    }
    assert counts == {
        "CZ": (340, 75), "FI": (19, 9), "LI": (9, 20), "NL": (74, 125), "NO": (46, 49), "PT": (88, 72),
    }  # fmt: skip


def test_every_qualification_and_critical_extension_is_understood(lists):
    states = [i for one in lists.lists for p in one.providers for s in p.services for i in s.instances]
    found = [qualification for state in states for qualification in state.qualifications]
    assert len(found) == 266
    assert [q for q in found if q.criteria is None] == []
    assert [state.unknown_critical for state in states if state.unknown_critical] == []


def test_history_names_the_key_of_its_service(lists):
    """By its identifier, as the standard has it; two states of Portugal name no key at all."""
    matched = [
        IssuingService(one, provider, service, service.current.identity.certificates[0]).matched_by(state)
        for one in lists.lists
        for provider in one.providers
        for service in provider.services
        if service.current.identity.certificates
        for state in service.instances[1:]
    ]
    assert {how: matched.count(how) for how in set(matched)} == {"key-id": 348, "service": 2}


@pytest.mark.parametrize(
    ("name", "service", "provider", "territory", "sequence_number"),
    [
        (MULTICERT, "MULTICERT SSL Certification Authority 001", "MULTICERT - Serviços de Certificação Electrónica S.A.", "PT", 79),
        (BUYPASS, "Qualified certificates for website authentication (Buypass Class 3 CA 2)", "Buypass AS", "NO", 71),
    ],
)  # fmt: skip
def test_production_qwacs_are_qualified_for_the_web_at_issuance(
    lists, qwac, name, service, provider, territory, sequence_number
):
    certificate = qwac(name)
    found = lists.status(certificate, at=certificate.not_before)
    assert (found.code, found.qualified_for) == (None, ("web",))
    listing = found.at_issuance.listing
    assert (listing.instance.name, listing.issuer.provider.name) == (service, provider)
    assert listing.instance.status_name == "granted"
    trusted_list = listing.issuer.trusted_list
    assert (trusted_list.territory, trusted_list.sequence_number) == (territory, sequence_number)


def test_a_production_qwac_is_not_qualified_today_for_the_lists_have_expired(lists, qwac):
    found = lists.status(qwac(BUYPASS), at=datetime(2026, 1, 1, tzinfo=UTC))
    assert (found.code, found.qualified_for, found.at_issuance.qualified_for) == ("trusted-list.expired", (), ("web",))


def test_certificates_of_absent_lists_get_that_reason(lists, shared_data):
    certificate = load_certificates(
        shared_data / "certificates" / "qc_other" / "pkilint__queulimitvalue__160cbc4f.der"
    )[0]
    found = lists.status(certificate, at=certificate.not_before)
    assert found.code == "trusted-list.missing"
    assert "HU" in found.findings[0].message


def test_authorities_for_websites_are_anchors(lists, qwac):
    anchors = lists.make_anchors(purpose="web", at=IN_2023)
    assert qwac(BUYPASS).issuer in [root.subject for root in anchors.roots]


@pytest.mark.parametrize("name", ["EU-LOTL", "FI", "LI", "PT", "NO", "NL", "CZ"])
def test_one_byte_changed_anywhere_is_detected(folder, lists, name):
    data = (folder / f"{name}.xml").read_bytes()
    for place in range(1000, len(data) - 1, len(data) // 12):
        while not (data[place : place + 1].isalnum() and data[place - 1 : place].isalnum()):
            place -= 1
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        signers = LOTL_SIGNERS.keys() if name == "EU-LOTL" else pointers_to(lists.list_of_lists, name)[0].signers
        with pytest.raises(TppkitError) as refused:
            UnverifiedList(changed, source=name).verify(signers=signers)
        assert refused.value.code.startswith("trusted-list.")


def test_a_list_is_not_trusted_by_the_signer_of_another(folder, lists):
    with refused(VerificationError, "trusted-list.signer"):
        UnverifiedList((folder / "PT.xml").read_bytes(), source="PT.xml").verify(
            signers=pointers_to(lists.list_of_lists, "NO")[0].signers
        )


def test_a_list_under_the_name_of_another_is_still_that_list(folder, tmp_path, qwac):
    for name, copy in (("EU-LOTL", "1"), ("NO", "PT"), ("PT", "NO")):
        shutil.copyfile(folder / f"{name}.xml", tmp_path / f"{copy}.xml")
    certificate = qwac(BUYPASS)
    listing = load_trusted_lists(tmp_path).status(certificate, at=certificate.not_before).listing
    assert (listing.issuer.trusted_list.territory, listing.issuer.trusted_list.source) == ("NO", "PT.xml")
