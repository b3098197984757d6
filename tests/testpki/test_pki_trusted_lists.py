"""The trusted lists of a test PKI: verified by another XML library, and asked by our own reader."""

from __future__ import annotations

from datetime import timedelta

import pytest
from lxml import etree
from signxml import SignatureConfiguration, XMLVerifier
from signxml.exceptions import InvalidSignature

from tppkit.testpki import certificate_pem, make_pki, make_provider, write_pki
from tppkit.testpki.trusted_lists import LIST_FILES, make_trusted_lists
from tppkit.trust import load_trusted_lists

SIGNERS = dict(zip(LIST_FILES, ("lotl-signer", "list-signer"), strict=True))
PROVIDERS = [{}, {"name": 'Smith & <Sons> "Ž" TEST', "organization_identifier": "PSDDE-BAFIN-1"}]


def verified(content: bytes, signer) -> list[bytes]:
    known = certificate_pem(signer.certificate).decode()
    expected = SignatureConfiguration(expect_references=2, require_x509=True)
    results = XMLVerifier().verify(content, x509_cert=known, expect_config=expected)
    return [etree.QName(result.signed_xml).localname for result in results]


@pytest.mark.parametrize("key", ["p256", "p384", "rsa2048"])
@pytest.mark.parametrize("facts", PROVIDERS)
def test_another_library_verifies_both_lists(pki, key, facts):
    made = make_pki(at=pki.not_before, key=key, provider=make_provider(**facts))
    for name, content in make_trusted_lists(made, at=made.not_before).items():
        assert verified(content, made.members[SIGNERS[name]]) == ["TrustServiceStatusList", "SignedProperties"]
        with pytest.raises(InvalidSignature):
            verified(content.replace(b"Vilnius", b"Vilnjus", 1), made.members[SIGNERS[name]])


def test_both_authorities_are_granted(pki, tmp_path):
    write_pki(pki, tmp_path / "pki")
    lists = load_trusted_lists(tmp_path / "pki" / "trusted-lists")
    at = pki.not_before + timedelta(days=1)
    for issued, purpose in ((pki.qwac, "web"), (pki.other_qwac, "web"), (pki.qseal, "eseal")):
        status = lists.status(issued.certificate, at=at, intermediates=issued.chain)
        assert status.qualified_for == (purpose,)
        assert lists.verify_qualified(issued.certificate, purpose=purpose, at=at, intermediates=issued.chain)


def test_what_another_pki_issued_is_not_qualified(pki, rsa_pki, tmp_path):
    write_pki(pki, tmp_path / "pki")
    lists = load_trusted_lists(tmp_path / "pki" / "trusted-lists")
    other = rsa_pki.qwac
    assert lists.status(other.certificate, at=pki.not_before, intermediates=other.chain).qualified_for == ()
