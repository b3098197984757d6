"""In what a certificate, or a mended request, differs from what a request asks for: told field by field, never dropped in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tppkit.certificates import EidasCertificate, EidasRequest, ExtensionFacts, oids
from tppkit.certificates.extension_values import EXTENSION_REQUESTS
from tppkit.certificates.general_names import DNS_NAME, IP_ADDRESS
from tppkit.testpki.request import alternative_names

_Tell = Callable[[ExtensionFacts], tuple[str, ...]]


class Difference(NamedTuple):
    """A field, by its name in `cert show --json`: the values that are asked for, and those that were made of them."""

    field: str
    asked: tuple[str, ...]
    made: tuple[str, ...] = ()

    @property
    def lacking(self) -> tuple[str, ...]:
        """The values that are asked for and were not made."""
        return tuple(value for value in dict.fromkeys(self.asked) if value not in self.made)


def find_differences(request: EidasRequest, made: EidasCertificate | EidasRequest) -> tuple[Difference, ...]:
    """Every field in which they differ, whether something is lacking or was added.

    Args:
        request: what was asked for.
        made: the certificate that was issued for it, or the request that was mended.
    """
    facts = [Difference(field, tell(request.extensions), tell(made.extensions)) for field, tell in _FIELDS.items()]
    differ = (fact for fact in facts if fact.asked != fact.made)
    return (*differ, *_values(request, made), *_names(request), *_attributes(request), *_subject(request, made))


def _values(request: EidasRequest, made: EidasCertificate | EidasRequest) -> Iterator[Difference]:
    """Extensions that no field is read of, and that stand in both with other values."""
    asked, known = request.extension_values, made.extension_values
    for oid in sorted((asked.keys() & known.keys()) - _READ):
        if asked[oid] != known[oid]:
            yield Difference("extension_values", (f"{oid} {asked[oid].hex()}",), (f"{oid} {known[oid].hex()}",))


def _names(request: EidasRequest) -> Iterator[Difference]:
    """Alternative names of other forms than `cert show` has, none of which is made."""
    for form, value in alternative_names(request):
        if form not in (DNS_NAME, IP_ADDRESS):
            yield Difference(
                "subject_alternative_names", (f"{form} {value if isinstance(value, str) else ''}".strip(),)
            )


def _attributes(request: EidasRequest) -> Iterator[Difference]:
    """Attributes beside the first request for extensions; never their values, as one may be a password."""
    is_first = True
    for oid, _ in request.attributes:
        if oid in EXTENSION_REQUESTS and is_first:
            is_first = False
        else:
            yield Difference("attributes", (oid,))


def _subject(request: EidasRequest, made: EidasCertificate | EidasRequest) -> Iterator[Difference]:
    """Attributes with other values, or a name that is only written in another way."""
    asked, known = _attribute_texts(request), _attribute_texts(made)
    for oid in dict.fromkeys((*asked, *known)):
        if asked.get(oid) != known.get(oid):
            yield Difference("subject", asked.get(oid, ()), known.get(oid, ()))
    if asked == known and request.subject_der != made.subject_der:
        written = "UTF8String, PrintableString or IA5String, each attribute alone"
        yield Difference("subject", ("other string types or sets",), (written,))


def _attribute_texts(subject: EidasCertificate | EidasRequest) -> dict[str, tuple[str, ...]]:
    """What the name says, by the attribute's identifier: `C=LT`; in quotes where blanks stand outside."""
    texts: dict[str, tuple[str, ...]] = {}
    for oid, text in (attribute for rdn in subject.subject.rdns for attribute in rdn):
        told = text if text == text.strip() else f'"{text}"'
        texts[oid] = (*texts.get(oid, ()), f"{oids.NAME_ATTRIBUTES.get(oid, oid)}={told}")
    return texts


def _roles(facts: ExtensionFacts) -> tuple[str, ...]:
    return tuple(f"{role.oid} {role.name}" for role in facts.qc.psd2.roles) if facts.qc.psd2 else ()


def _one(text: str | None) -> tuple[str, ...]:
    return (text,) if text else ()


def _yes(fact: bool) -> tuple[str, ...]:
    return ("yes",) if fact else ()


_FIELDS: dict[str, _Tell] = {
    "roles": _roles,
    "nca_name": lambda facts: _one(facts.qc.psd2.nca_name if facts.qc.psd2 else None),
    "nca_id": lambda facts: _one(facts.qc.psd2.nca_id if facts.qc.psd2 else None),
    "qc_types": lambda facts: facts.qc.types,
    "qc_compliance": lambda facts: _yes(facts.qc.compliance),
    "qc_sscd": lambda facts: _yes(facts.qc.sscd),
    "qc_pds": lambda facts: tuple(f"{place.url} ({place.language})" for place in facts.qc.pds),
    "qc_semantics": lambda facts: _one(facts.qc.semantics),
    "qc_name_registration_authorities": lambda facts: facts.qc.name_registration_authorities,
    "qc_statements": lambda facts: tuple(sorted(set(facts.qc.statement_oids))),
    "key_usage": lambda facts: facts.key_usage,
    "extended_key_usage": lambda facts: facts.extended_key_usage,
    "is_ca": lambda facts: _yes(facts.is_ca),
    "dns_names": lambda facts: facts.dns_names,
    "ip_addresses": lambda facts: facts.ip_addresses,
    "policies": lambda facts: facts.policies,
    "ocsp_urls": lambda facts: facts.ocsp_urls,
    "ca_issuers_urls": lambda facts: facts.ca_issuers_urls,
    "crl_urls": lambda facts: facts.crl_urls,
    "extensions": lambda facts: tuple(sorted(set(facts.present))),
    "critical_extensions": lambda facts: tuple(sorted(facts.critical)),
}
# Extensions whose values the fields above tell; key identifiers are the issuer's to choose.
_READ = frozenset({
    oids.KEY_USAGE, oids.EXTENDED_KEY_USAGE, oids.SUBJECT_ALTERNATIVE_NAME, oids.BASIC_CONSTRAINTS, oids.CERTIFICATE_POLICIES,
    oids.AUTHORITY_INFORMATION_ACCESS, oids.CRL_DISTRIBUTION_POINTS, oids.QC_STATEMENTS, oids.SUBJECT_KEY_IDENTIFIER,
    oids.AUTHORITY_KEY_IDENTIFIER,
})  # fmt: skip
