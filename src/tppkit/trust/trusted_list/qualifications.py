"""Qualifications: which certificates of a service a trusted list speaks about, and what it says of them.

Source: ETSI TS 119 612 clause 5.5.9.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from tppkit.certificates import EidasCertificate, oids
from tppkit.trust.trusted_list.uris import QUALIFICATIONS, qualifier_name
from tppkit.trust.trusted_list.xml_document import Element

MAX_CRITERIA_DEPTH = 16

Assertion = Literal["all", "atLeastOne", "none"]
_ASSERTIONS: Mapping[str, Assertion] = MappingProxyType({"all": "all", "atLeastOne": "atLeastOne", "none": "none"})
_XADES = "{http://uri.etsi.org/01903/v1.3.2#}"
# The schema writes crlSign where RFC 5280 has cRLSign.
_KEY_USAGES: Mapping[str, str] = MappingProxyType({"crlSign": "cRLSign"})
_EXTENDED_KEY_USAGES: Mapping[str, str] = oids.EXTENDED_KEY_USAGES


@dataclass(frozen=True, slots=True)
class KeyUsageBits:
    """KeyUsage: bits that must be set or clear.

    Attributes:
        bits: (name of RFC 5280, whether it must be set).
    """

    bits: tuple[tuple[str, bool], ...]

    def holds(self, certificate: EidasCertificate) -> bool:
        """Whether every bit is as stated."""
        usage = certificate.extensions.key_usage
        return all((name in usage) is wanted for name, wanted in self.bits)


@dataclass(frozen=True, slots=True)
class PolicySet:
    """PolicySet: policies that must all stand in the certificate.

    Attributes:
        policies: dotted identifiers.
    """

    policies: tuple[str, ...]

    def holds(self, certificate: EidasCertificate) -> bool:
        """Whether all of them stand there."""
        return set(self.policies) <= set(certificate.extensions.policies)


@dataclass(frozen=True, slots=True)
class ExtendedKeyUsages:
    """ExtendedKeyUsage: key purposes that must all stand in the certificate.

    Attributes:
        purposes: names where known, else dotted identifiers, as in `ExtensionFacts.extended_key_usage`.
    """

    purposes: tuple[str, ...]

    def holds(self, certificate: EidasCertificate) -> bool:
        """Whether all of them stand there."""
        return set(self.purposes) <= set(certificate.extensions.extended_key_usage)


@dataclass(frozen=True, slots=True)
class SubjectAttributes:
    """CertSubjectDNAttribute: attributes that the subject's name must all have.

    Attributes:
        attributes: dotted identifiers.
    """

    attributes: tuple[str, ...]

    def holds(self, certificate: EidasCertificate) -> bool:
        """Whether all of them stand there."""
        return all(certificate.subject.values(oid) for oid in self.attributes)


@dataclass(frozen=True, slots=True)
class CriteriaList:
    """Criteria, and how many of them must hold.

    Attributes:
        assertion: `all`, `atLeastOne` or `none`.
        criteria: the criteria, nested lists among them.
    """

    assertion: Assertion
    criteria: tuple[KeyUsageBits | PolicySet | ExtendedKeyUsages | SubjectAttributes | CriteriaList, ...]

    def holds(self, certificate: EidasCertificate) -> bool:
        """Whether the criteria speak about this certificate."""
        results = [criterion.holds(certificate) for criterion in self.criteria]
        match self.assertion:
            case "all":
                return all(results)
            case "atLeastOne":
                return any(results)
            case "none":
                return not any(results)


@dataclass(frozen=True, slots=True)
class Qualification:
    """What the list says of the certificates that meet criteria.

    Attributes:
        qualifiers: last segments of the qualifiers' URIs (`QCForWSA`); whole URIs where the stem is not known.
        criteria: which certificates it speaks about; None where they could not be read, and then about none.
    """

    qualifiers: tuple[str, ...]
    criteria: CriteriaList | None

    def concerns(self, certificate: EidasCertificate) -> bool:
        """Whether it speaks about this certificate."""
        return self.criteria is not None and self.criteria.holds(certificate)


def read_qualifications(extension: Element) -> tuple[Qualification, ...]:
    """The elements of a Qualifications extension; criteria that cannot be read become None."""
    return tuple(
        Qualification(
            tuple(
                qualifier_name((qualifier.get("uri") or "").strip())
                for qualifier in element.findall(f"{QUALIFICATIONS}Qualifiers/{QUALIFICATIONS}Qualifier")
            ),
            _read_criteria(element.find(f"{QUALIFICATIONS}CriteriaList"), 0),
        )
        for element in extension.findall(f"{QUALIFICATIONS}QualificationElement")
    )


def _read_criteria(element: Element | None, depth: int) -> CriteriaList | None:
    if element is None or depth > MAX_CRITERIA_DEPTH:
        return None
    assertion = _ASSERTIONS.get((element.get("assert") or "all").strip())
    found: list[KeyUsageBits | PolicySet | ExtendedKeyUsages | SubjectAttributes | CriteriaList] = []
    for child in _criteria_of(element):
        criterion = _read_criterion(child, depth)
        if criterion is None:
            return None
        found.append(criterion)
    return CriteriaList(assertion, tuple(found)) if assertion and found else None


def _criteria_of(element: Element) -> Iterable[Element]:
    for child in element:
        name = _local_name(child)
        if name == "otherCriteriaList":
            yield from child
        elif name != "Description":
            yield child


def _read_criterion(
    element: Element, depth: int
) -> KeyUsageBits | PolicySet | ExtendedKeyUsages | SubjectAttributes | CriteriaList | None:
    match _local_name(element):
        case "KeyUsage":
            bits = tuple(
                (
                    _KEY_USAGES.get(bit.get("name") or "", bit.get("name") or ""),
                    (bit.text or "").strip() in ("true", "1"),
                )
                for bit in element
            )
            return KeyUsageBits(bits) if bits else None
        case "PolicySet":
            policies = _identifiers(element)
            return PolicySet(policies) if policies else None
        case "ExtendedKeyUsage":
            purposes = tuple(_EXTENDED_KEY_USAGES.get(oid, oid) for oid in _identifiers(element))
            return ExtendedKeyUsages(purposes) if purposes else None
        case "CertSubjectDNAttribute":
            attributes = _identifiers(element)
            return SubjectAttributes(attributes) if attributes else None
        case "CriteriaList":
            return _read_criteria(element, depth + 1)
        case _:
            return None


def _identifiers(element: Element) -> tuple[str, ...]:
    texts = ((found.text or "").strip() for found in element.iter(f"{_XADES}Identifier"))
    return tuple(text.removeprefix("urn:oid:") for text in texts)


def _local_name(element: Element) -> str:
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""
