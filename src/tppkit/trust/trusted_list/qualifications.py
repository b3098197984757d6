"""Qualifications: what a trusted list states about those certificates of a service that meet criteria.

Source: ETSI TS 119 612 clause 5.5.9.2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tppkit.certificates import EidasCertificate, oids
from tppkit.trust.trusted_list.uris import QUALIFICATIONS, qualifier_name
from tppkit.trust.trusted_list.xml_document import Element

MAX_CRITERIA_DEPTH = 16

Criteria = Callable[[EidasCertificate], bool]
_ASSERTIONS: Mapping[str, Callable[[Iterable[bool]], bool]] = MappingProxyType(
    {"all": all, "atLeastOne": any, "none": lambda results: not any(results)}
)
_XADES = "{http://uri.etsi.org/01903/v1.3.2#}"
# The schema writes crlSign where RFC 5280 has cRLSign.
_KEY_USAGES: Mapping[str, str] = MappingProxyType({"crlSign": "cRLSign"})
_PURPOSES = {name: oid for oid, name in oids.EXTENDED_KEY_USAGES.items()}
# The identifiers that a certificate states, of which a criterion names some that must all be there.
_STATED: Mapping[str, Callable[[EidasCertificate], Collection[str]]] = MappingProxyType({
    "PolicySet": lambda certificate: certificate.extensions.policies,
    "ExtendedKeyUsage": lambda c: [_PURPOSES.get(usage, usage) for usage in c.extensions.extended_key_usage],
    "CertSubjectDNAttribute": lambda certificate: [oid for rdn in certificate.subject.rdns for oid, _ in rdn],
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Qualification:
    """What the list states about the certificates that meet criteria.

    Attributes:
        qualifiers: last segments of the qualifiers' URIs (`QCForWSA`); whole URIs if the stem is unknown.
        criteria: whether a certificate meets the criteria; None if they could not be read, so that no certificate does.
    """

    qualifiers: tuple[str, ...]
    criteria: Criteria | None

    def concerns(self, certificate: EidasCertificate) -> bool:
        """Whether the certificate meets the criteria."""
        return self.criteria is not None and self.criteria(certificate)


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


def _read_criteria(element: Element | None, depth: int) -> Criteria | None:
    if element is None or depth > MAX_CRITERIA_DEPTH:
        return None
    holds = _ASSERTIONS.get((element.get("assert") or "all").strip())
    found = [_read_criterion(child, depth) for child in _criteria_of(element)]
    criteria = [criterion for criterion in found if criterion is not None]
    if holds is None or not found or len(criteria) < len(found):
        return None
    return lambda certificate: holds([criterion(certificate) for criterion in criteria])


def _criteria_of(element: Element) -> Iterable[Element]:
    for child in element:
        name = _local_name(child)
        if name == "otherCriteriaList":
            yield from child
        elif name != "Description":
            yield child


def _read_criterion(element: Element, depth: int) -> Criteria | None:
    kind = _local_name(element)
    if kind == "CriteriaList":
        return _read_criteria(element, depth + 1)
    if kind == "KeyUsage":
        bits = [(bit.get("name") or "", (bit.text or "").strip() in ("true", "1")) for bit in element]
        return _uses_key(bits) if bits else None
    names = _identifiers(element)
    stated = _STATED.get(kind)
    if stated is None or not names:
        return None
    return lambda certificate: set(names).issubset(stated(certificate))


def _uses_key(bits: list[tuple[str, bool]]) -> Criteria:
    def holds(certificate: EidasCertificate) -> bool:
        usage = certificate.extensions.key_usage
        return all((_KEY_USAGES.get(name, name) in usage) is wanted for name, wanted in bits)

    return holds


def _identifiers(element: Element) -> tuple[str, ...]:
    texts = ((found.text or "").strip() for found in element.iter(f"{_XADES}Identifier"))
    return tuple(text.removeprefix("urn:oid:") for text in texts)


def _local_name(element: Element) -> str:
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""
