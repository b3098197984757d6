"""Reader of the extensions of RFC 5280.

A malformed extension becomes a finding and does not hide the others.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from tppkit._encoding import shown
from tppkit.certificates import der, oids
from tppkit.certificates.general_names import read_general_name
from tppkit.certificates.qcstatements import QcStatements, read_qc_statements_at
from tppkit.errors import Finding, FormatError, Severity

# RFC 5280 section 4.2.1.3, bit 0 first.
KEY_USAGES = (
    "digitalSignature", "nonRepudiation", "keyEncipherment", "dataEncipherment", "keyAgreement",
    "keyCertSign", "cRLSign", "encipherOnly", "decipherOnly",
)  # fmt: skip
_KEY_USAGE_BITS = tuple((name, 0x8000 >> place) for place, name in enumerate(KEY_USAGES))
# GeneralName choices (RFC 5280 section 4.2.1.6).
_DNS_NAME, _URI, _IP_ADDRESS = 0x82, 0x86, 0x87
# RFC 2985 section 5.4.2, and Microsoft's own.
EXTENSION_REQUESTS = frozenset({"1.2.840.113549.1.9.14", "1.3.6.1.4.1.311.2.1.14"})
_MAX_ADDRESSES = 16  # that are reported
_TRUE = b"\xff"
_NO_QC_STATEMENTS = QcStatements()
Facts = Mapping[str, Any]  # fields of ExtensionFacts


@dataclass(frozen=True, slots=True)
class ExtensionFacts:
    """The contents of the extensions; an absent extension gives the empty value.

    Attributes:
        key_usage: names of RFC 5280 in bit order, for example `("nonRepudiation",)`.
        extended_key_usage: names where known (`serverAuth`, `clientAuth`), else dotted identifiers.
        policies: dotted identifiers.
        dns_names: dNSName entries of the subject alternative name.
        ip_addresses: iPAddress entries of the subject alternative name, as text.
        is_ca: whether basicConstraints has cA true.
        path_length: basicConstraints' pathLenConstraint, or None.
        subject_key_identifier: the key identifier, or None.
        authority_key_identifier: keyIdentifier of the authority key identifier, or None.
        ocsp_urls: addresses of OCSP responders, from the authority information access.
        ca_issuers_urls: addresses of the issuer's certificate, from the authority information access.
        crl_urls: addresses of the CRL.
        qc: the QcStatements; empty without the extension.
        present: dotted identifiers of all extensions, in order.
        critical: dotted identifiers of the critical extensions.
        findings: malformed extensions, each with its byte offset in the certificate.
    """

    key_usage: tuple[str, ...] = ()
    extended_key_usage: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    ip_addresses: tuple[str, ...] = ()
    is_ca: bool = False
    path_length: int | None = None
    subject_key_identifier: bytes | None = None
    authority_key_identifier: bytes | None = None
    ocsp_urls: tuple[str, ...] = ()
    ca_issuers_urls: tuple[str, ...] = ()
    crl_urls: tuple[str, ...] = ()
    qc: QcStatements = _NO_QC_STATEMENTS
    present: tuple[str, ...] = ()
    critical: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def is_public_tls(self) -> bool:
        """Whether a policy of the CA/Browser Forum is present, so that an authority trusted by browsers issued it."""
        return not oids.PUBLIC_TLS_POLICIES.isdisjoint(self.policies)

    @property
    def is_precertificate(self) -> bool:
        """Whether the poison of certificate transparency is present, so that it must not be trusted (RFC 6962 section 3.1)."""
        return oids.PRECERTIFICATE_POISON in self.present


def read_extensions(data: bytes, holder: der.Element | None) -> ExtensionFacts:
    """Read a SEQUENCE OF Extension. Never raises: malformed parts become findings.

    Args:
        data: the certificate or request.
        holder: the element of `data` whose content is the sequence; None if there is none.
    """
    if holder is None:
        return ExtensionFacts()
    try:
        extensions = der.expect(der.read_element(data, holder.start, holder.end), der.SEQUENCE)
        found = der.read_children(data, extensions)
    except FormatError as e:
        return ExtensionFacts(
            findings=(_malformed(f"the extensions cannot be read: {e.message}", e.offset or holder.offset),)
        )
    facts: dict[str, Any] = {}
    present: dict[str, None] = {}  # an ordered set
    critical: list[str] = []
    findings: list[Finding] = []
    for element in found:
        oid, is_critical, said = _read_extension(data, element, findings)
        if oid in present:
            findings.append(_malformed(f"the extension {oid} appears twice; the first one is read", element.offset))
        elif oid:
            present[oid] = None
            if is_critical:
                critical.append(oid)
            facts.update(said)
    return ExtensionFacts(present=tuple(present), critical=tuple(critical), findings=tuple(findings), **facts)


def certificate_extensions(last: der.Element) -> der.Element | None:
    """Return the element that contains the extensions of a certificate (explicit context tag 3, the last part), or None."""
    return last if last.tag == 0xA3 else None


def requested_extensions(data: bytes, last: der.Element) -> der.Element | None:
    """Return the element that contains the extensions requested in a request's attributes (context tag 0), or None.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    for attribute in der.read_children(data, last) if last.tag == 0xA0 else ():
        parts = der.read_children(data, attribute)
        if len(parts) == 2 and der.read_oid(data, parts[0]) in EXTENSION_REQUESTS:
            return parts[1]
    return None


def read_extension_values(data: bytes, holder: der.Element | None) -> Mapping[str, bytes]:
    """Return DER of the value of each extension by its dotted identifier, without malformed ones and later duplicates.

    Args:
        data: the certificate or request.
        holder: the element of `data` whose content is the sequence of extensions; None if there is none.
    """
    found: dict[str, bytes] = {}
    for extension in _extensions(data, holder):
        with suppress(FormatError, ValueError):  # reported by `read_extensions`
            identifier, *_, value = der.read_children(data, extension)
            found.setdefault(der.read_oid(data, identifier), data[value.start : value.end])
    return MappingProxyType(found)


def _extensions(data: bytes, holder: der.Element | None) -> list[der.Element]:
    if holder is None:
        return []
    try:
        return der.read_children(data, der.read_element(data, holder.start, holder.end))
    except FormatError:
        return []


def _malformed(message: str, offset: int) -> Finding:
    return Finding("certificate.extension-malformed", Severity.ERROR, message, "RFC 5280 section 4.2", offset=offset)


def _read_extension(data: bytes, element: der.Element, findings: list[Finding]) -> tuple[str, bool, Facts]:
    """Read an extension: its identifier (empty if it cannot be read), criticality and facts."""
    noted: list[Finding] = []
    oid, critical = "", False
    facts: Facts = {}
    try:
        parts = der.read_children(data, der.expect(element, der.SEQUENCE))
        if not 2 <= len(parts) <= 3:
            raise FormatError("der.malformed", f"an extension has {len(parts)} parts", offset=element.offset)
        oid = der.read_oid(data, parts[0])
        if len(parts) == 3:
            critical = True
            if data[parts[1].start : parts[1].end] != _TRUE:
                noted.append(_malformed(f"the criticality of extension {oid} is not DER TRUE", parts[1].offset))
        value = der.expect(parts[-1], der.OCTET_STRING)
        content = der.read_element(data, value.start, value.end)
        if content.end != value.end:
            raise FormatError("der.malformed", "bytes follow after its end", offset=content.end)
        reader = _READERS.get(oid)
        if reader:
            facts = reader(data, content, noted)
    except FormatError as e:
        name = f"extension {oid}" if oid else "an extension"
        noted.append(_malformed(f"{name} cannot be read: {e.message}", e.offset or element.offset))
    if noted:
        findings += [replace(finding, values=MappingProxyType({"extension": oid})) for finding in noted]
    return oid, critical, facts


def _read_key_usage(data: bytes, bits: der.Element, findings: list[Finding]) -> Facts:
    der.expect(bits, der.BIT_STRING)
    content = data[bits.start : bits.end]
    if not 1 <= len(content) <= 3 or content[0] > 7 or (len(content) == 1 and content[0]):
        raise FormatError("der.malformed", "its bit string is invalid", offset=bits.offset)
    if len(content) > 1 and content[-1] & ((1 << content[0]) - 1):
        findings.append(_malformed("keyUsage sets bits that it declares unused", bits.offset))
    number = int.from_bytes(content[1:], "big") << 8 * (3 - len(content))
    return {"key_usage": tuple([name for name, bit in _KEY_USAGE_BITS if number & bit])}


def _read_extended_key_usage(data: bytes, usages: der.Element, findings: list[Finding]) -> Facts:
    named = [der.read_oid(data, usage) for usage in der.read_children(data, der.expect(usages, der.SEQUENCE))]
    if not named:
        findings.append(_malformed("extendedKeyUsage names no purpose", usages.offset))
    return {"extended_key_usage": tuple([oids.EXTENDED_KEY_USAGES.get(oid, oid) for oid in named])}


def _read_policies(data: bytes, policies: der.Element, findings: list[Finding]) -> Facts:
    found = []
    for policy in der.read_children(data, der.expect(policies, der.SEQUENCE)):
        parts = der.read_children(data, der.expect(policy, der.SEQUENCE))
        if not parts:
            raise FormatError("der.malformed", "a policy is empty", offset=policy.offset)
        found.append(der.read_oid(data, parts[0]))
    return {"policies": tuple(found)}


def _read_subject_names(data: bytes, names: der.Element, findings: list[Finding]) -> Facts:
    dns_names, addresses = [], []
    for tag, offset, start, end in der.read_children(data, der.expect(names, der.SEQUENCE)):
        if tag == _DNS_NAME:
            name = _visible(data[start:end])
            if name:
                dns_names.append(name)
            else:
                findings.append(_malformed("a dNSName is not visible ASCII", offset))
        elif tag == _IP_ADDRESS:
            if end - start in (4, 16):
                addresses.append(str(ipaddress.ip_address(data[start:end])))
            else:
                findings.append(_malformed(f"an iPAddress has {end - start} bytes, not 4 or 16", offset))
    return {"dns_names": tuple(dns_names), "ip_addresses": tuple(addresses)}


def _read_uri(data: bytes, name: der.Element, findings: list[Finding]) -> list[str]:
    """Return the address, or none with a finding: LDAP addresses often have blanks."""
    content = data[name.start : name.end]
    text = _visible(content)
    if not text and len(findings) < _MAX_ADDRESSES:
        code = "certificate.address-malformed"
        message = f"an address is not used, because it is not visible ASCII: {shown(content)}"
        findings.append(Finding(code, Severity.WARNING, message, "RFC 5280 section 4.2.1.6", offset=name.offset))
    return [text] if text else []


def _visible(content: bytes) -> str:
    """Return the text, empty if it has white space or control characters: some programs end a name at a NUL byte."""
    text = content.decode("ascii", "replace")
    return text if text.isprintable() and " " not in text and content.isascii() else ""


def _read_basic_constraints(data: bytes, constraints: der.Element, findings: list[Finding]) -> Facts:
    parts = der.read_children(data, der.expect(constraints, der.SEQUENCE))
    is_ca = False
    if parts and parts[0].tag == der.BOOLEAN:
        stated = data[parts[0].start : parts[0].end]
        if stated != _TRUE:
            findings.append(
                _malformed("basicConstraints encodes the default, cA false, which DER omits", parts[0].offset)
            )
        is_ca = stated not in (b"\x00", b"")  # any other byte is TRUE in BER
        del parts[0]
    path_length = der.read_integer(data, parts[0]) if parts else None
    if path_length is not None and not 0 <= path_length < 1 << 63:
        findings.append(_malformed(f"basicConstraints has the impossible path length {path_length}", parts[0].offset))
    if len(parts) > 1:
        findings.append(_malformed("basicConstraints contains more than cA and a path length", parts[1].offset))
    return {"is_ca": is_ca, "path_length": path_length}


def _read_subject_key(data: bytes, key: der.Element, findings: list[Finding]) -> Facts:
    der.expect(key, der.OCTET_STRING)
    return {"subject_key_identifier": data[key.start : key.end]}


def _read_authority_key(data: bytes, identifier: der.Element, findings: list[Finding]) -> Facts:
    parts = der.read_children(data, der.expect(identifier, der.SEQUENCE))
    tags = [part.tag for part in parts]
    # keyIdentifier [0], authorityCertIssuer [1], authorityCertSerialNumber [2], each at most once and in this order
    if tags != sorted(set(tags) & {0x80, 0xA1, 0x82}, key=lambda tag: tag & 0x1F):
        raise FormatError("der.malformed", "an authority key identifier has other parts", offset=identifier.offset)
    return {"authority_key_identifier": data[parts[0].start : parts[0].end]} if tags[:1] == [0x80] else {}


def _read_information_access(data: bytes, access: der.Element, findings: list[Finding]) -> Facts:
    urls: dict[str, list[str]] = {oids.ACCESS_OCSP: [], oids.ACCESS_CA_ISSUERS: []}
    for description in der.read_children(data, der.expect(access, der.SEQUENCE)):
        parts = der.read_children(data, der.expect(description, der.SEQUENCE))
        if len(parts) != 2:
            raise FormatError("der.malformed", "an access description is not a pair", offset=description.offset)
        method, location = der.read_oid(data, parts[0]), parts[1]
        if location.tag == _URI:
            urls.get(method, []).extend(_read_uri(data, location, findings))
        else:
            read_general_name(data, location)  # other forms of address are not used, but must be well formed
    return {"ocsp_urls": tuple(urls[oids.ACCESS_OCSP]), "ca_issuers_urls": tuple(urls[oids.ACCESS_CA_ISSUERS])}


def _read_distribution_points(data: bytes, points: der.Element, findings: list[Finding]) -> Facts:
    # DistributionPoint ::= SEQUENCE { distributionPoint [0] { fullName [0] GeneralNames } … } (RFC 5280 section 4.2.1.13)
    urls = []
    for point in der.read_children(data, der.expect(points, der.SEQUENCE)):
        for part in der.read_children(data, der.expect(point, der.SEQUENCE)):
            for name in der.read_children(data, part) if part.tag == 0xA0 else ():
                names = der.read_children(data, name) if name.tag == 0xA0 else ()
                urls += [url for one in names if one.tag == _URI for url in _read_uri(data, one, findings)]
    return {"crl_urls": tuple(urls)}


def _read_qc(data: bytes, statements: der.Element, findings: list[Finding]) -> Facts:
    return {"qc": read_qc_statements_at(data, statements)}


_READERS: Mapping[str, Callable[[bytes, der.Element, list[Finding]], Facts]] = MappingProxyType(
    {
        oids.SUBJECT_KEY_IDENTIFIER: _read_subject_key,
        oids.KEY_USAGE: _read_key_usage,
        oids.SUBJECT_ALTERNATIVE_NAME: _read_subject_names,
        oids.BASIC_CONSTRAINTS: _read_basic_constraints,
        oids.CRL_DISTRIBUTION_POINTS: _read_distribution_points,
        oids.CERTIFICATE_POLICIES: _read_policies,
        oids.AUTHORITY_KEY_IDENTIFIER: _read_authority_key,
        oids.EXTENDED_KEY_USAGE: _read_extended_key_usage,
        oids.AUTHORITY_INFORMATION_ACCESS: _read_information_access,
        oids.QC_STATEMENTS: _read_qc,
    }
)
