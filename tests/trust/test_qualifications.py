"""Which certificates a qualification speaks about."""

from __future__ import annotations

import pytest
from list_builder import criteria, policies, qualifications
from lxml import etree

from tppkit.certificates import oids
from tppkit.trust.trusted_list.qualifications import MAX_CRITERIA_DEPTH, Qualification, read_qualifications

QCP_L, OTHER = oids.POLICY_QCP_L, "1.2.3.4"


def read(content: str, *names: str) -> Qualification:
    text = qualifications(names or ("QCStatement",), content)
    spaces = (
        'xmlns:q="http://uri.etsi.org/TrstSvc/SvcInfoExt/eSigDir-1999-93-EC-TrustedList/#"'
        ' xmlns:x="http://uri.etsi.org/01903/v1.3.2#"'
    )
    (found,) = read_qualifications(etree.fromstring(f"<r {spaces}>{text}</r>")[0][0])
    return found


def key_usage(**bits: bool) -> str:
    found = "".join(
        f'<q:KeyUsageBit name="{name}">{str(value).lower()}</q:KeyUsageBit>' for name, value in bits.items()
    )
    return f"<q:KeyUsage>{found}</q:KeyUsage>"


def other(name: str, *identifiers: str) -> str:
    found = "".join(f"<x:Identifier>{identifier}</x:Identifier>" for identifier in identifiers)
    return f"<q:otherCriteriaList><x:{name}>{found}</x:{name}></q:otherCriteriaList>"


@pytest.mark.parametrize(
    ("content", "speaks"),
    [
        (criteria(policies(QCP_L)), True),
        (criteria(policies(f"urn:oid:{QCP_L}")), True),
        (criteria(policies(OTHER)), False),
        (criteria(policies(QCP_L, OTHER)), False),
        (criteria(policies(QCP_L) + policies(OTHER)), False),
        (criteria(policies(QCP_L) + policies(OTHER), "atLeastOne"), True),
        (criteria(policies(OTHER), "atLeastOne"), False),
        (criteria(policies(OTHER), "none"), True),
        (criteria(policies(OTHER) + policies(QCP_L), "none"), False),
        (criteria(key_usage(nonRepudiation=True, crlSign=False)), True),
        (criteria(key_usage(nonRepudiation=True, digitalSignature=True)), False),
        (criteria(key_usage(nonRepudiation=False)), False),
        (criteria(criteria(policies(OTHER), "none") + policies(QCP_L)), True),
        (criteria(criteria(policies(QCP_L), "none") + policies(QCP_L)), False),
        (criteria("<q:Description>words</q:Description>" + policies(QCP_L)), True),
        (criteria(other("CertSubjectDNAttribute", "2.5.4.97", "2.5.4.10")), True),
        (criteria(other("CertSubjectDNAttribute", "2.5.4.97", "2.5.4.4")), False),
        (criteria(other("ExtendedKeyUsage", "1.3.6.1.5.5.7.3.1")), False),
    ],
)
def test_criteria_are_matched_against_a_seal(pki, content, speaks):
    assert read(content).concerns(pki.qseal.certificate) is speaks


def test_extended_key_usages_must_all_be_there(pki):
    assert read(criteria(other("ExtendedKeyUsage", "1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"))).concerns(
        pki.qwac.certificate
    )
    assert not read(criteria(other("ExtendedKeyUsage", "1.3.6.1.5.5.7.3.1", OTHER))).concerns(pki.qwac.certificate)


def nested(depth: int) -> str:
    return criteria(nested(depth - 1)) if depth else criteria(policies(QCP_L))


@pytest.mark.parametrize(
    "content",
    [
        "",
        criteria(""),
        criteria(policies(QCP_L), "most"),
        criteria(policies()),
        criteria("<q:KeyUsage/>"),
        criteria(policies(QCP_L) + "<q:Unheard/>"),
        criteria(other("Unheard", "1.2")),
        nested(MAX_CRITERIA_DEPTH + 1),
    ],
)
def test_criteria_that_are_not_understood_match_nothing_and_are_reported(pki, content):
    found = read(content)
    assert found.criteria is None
    assert not found.concerns(pki.qseal.certificate)


def test_criteria_as_deep_as_allowed_are_read(pki):
    assert read(nested(MAX_CRITERIA_DEPTH)).concerns(pki.qseal.certificate)


def test_qualifiers_are_reported_by_their_names(pki):
    assert read(criteria(policies(QCP_L)), "QCForESeal", "QCWithQSCD").qualifiers == ("QCForESeal", "QCWithQSCD")
