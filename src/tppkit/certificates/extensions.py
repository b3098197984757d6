"""What a certificate's extensions say, read as RFC 5280 has them.

An extension that cannot be read becomes a finding and does not hide the others; those that say nothing about a provider (key
identifiers, addresses of services) are left to the path verifier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from tppkit.certificates import der, oids
from tppkit.certificates.qcstatements import QcStatements, read_qc_statements
from tppkit.errors import Finding, FormatError, Severity

# RFC 5280 section 4.2.1.3, bit 0 first.
KEY_USAGES = (
    "digitalSignature", "nonRepudiation", "keyEncipherment", "dataEncipherment", "keyAgreement",
    "keyCertSign", "cRLSign", "encipherOnly", "decipherOnly",
)  # fmt: skip
_DNS_NAME = 0x82  # GeneralName, context tag 2 (RFC 5280 section 4.2.1.6)
_TRUE = b"\xff"
_NO_QC_STATEMENTS = QcStatements()


@dataclass(frozen=True, slots=True)
class ExtensionFacts:
    """What the extensions say; an absent extension gives the empty value.

    Attributes:
        key_usage: names of RFC 5280 in bit order, for example `("nonRepudiation",)`.
        extended_key_usage: names where known (`serverAuth`, `clientAuth`), else dotted identifiers.
        policies: dotted identifiers.
        dns_names: dNSName entries of the subject alternative name.
        is_ca: basicConstraints with cA true.
        qc: the QcStatements; without the extension, one that states nothing.
        critical: dotted identifiers of the critical extensions.
        findings: extensions that are malformed, each with its byte offset in the certificate.
    """

    key_usage: tuple[str, ...] = ()
    extended_key_usage: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    is_ca: bool = False
    qc: QcStatements = _NO_QC_STATEMENTS
    critical: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True)
class _Reading:
    """The extensions while they are read."""

    data: bytes
    facts: dict[str, Any] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    critical: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def malformed(self, message: str, offset: int) -> None:
        self.findings.append(
            Finding("certificate.extension-malformed", Severity.ERROR, message, "RFC 5280 section 4.2", offset=offset)
        )


def read_extensions(data: bytes, holder: der.Element | None) -> ExtensionFacts:
    """Read a SEQUENCE OF Extension; never raises, what cannot be read becomes a finding.

    Args:
        data: the certificate or request.
        holder: the element of `data` whose content is the sequence; None when there is none.
    """
    reading = _Reading(data)
    if holder is not None:
        try:
            extensions = der.expect(der.read_element(data, holder.start, holder.end), der.SEQUENCE)
            found = der.read_children(data, extensions)
        except FormatError as e:
            reading.malformed(f"the extensions cannot be read: {e.message}", e.offset or holder.offset)
            found = []
        for extension in found:
            try:
                _read_extension(reading, extension)
            except FormatError as e:
                reading.malformed(f"an extension cannot be read: {e.message}", e.offset or extension.offset)
    return ExtensionFacts(critical=tuple(reading.critical), findings=tuple(reading.findings), **reading.facts)


def _read_extension(reading: _Reading, extension: der.Element) -> None:
    data = reading.data
    if extension.tag != der.SEQUENCE:
        der.expect(extension, der.SEQUENCE)
    parts = der.read_children(data, extension)
    if not 2 <= len(parts) <= 3:
        raise FormatError("der.malformed", f"an extension has {len(parts)} parts", offset=extension.offset)
    oid, value = der.read_oid(data, parts[0]), parts[-1]
    if oid in reading.seen:
        reading.malformed(f"the extension {oid} stands twice; the first one is read", extension.offset)
        return
    reading.seen.add(oid)
    if len(parts) == 3:
        if data[parts[1].start : parts[1].end] != _TRUE:
            reading.malformed(f"the criticality of extension {oid} is not DER TRUE", parts[1].offset)
        reading.critical.append(oid)
    try:
        if value.tag != der.OCTET_STRING:
            der.expect(value, der.OCTET_STRING)
        _READERS.get(oid, _read_nothing)(reading, value)
    except FormatError as e:
        reading.malformed(f"extension {oid} cannot be read: {e.message}", e.offset or value.offset)


def _content(reading: _Reading, value: der.Element, tag: int) -> der.Element:
    """The one element of this tag that an extension's value consists of."""
    element = _read_nothing(reading, value)
    return element if element.tag == tag else der.expect(element, tag)


def _read_nothing(reading: _Reading, value: der.Element) -> der.Element:
    """The one element that an extension's value consists of, which is all that is asked of an extension not read further."""
    data, start, end = reading.data, value.start, value.end
    if (
        end - start >= 2
        and data[start + 1] < 0x80
        and start + 2 + data[start + 1] == end
        and data[start] & 0x1F != 0x1F
    ):
        return der.Element(data[start], start, start + 2, end)  # the short form, which nearly all have
    element = der.read_element(data, start, end)
    if element.end != value.end:
        raise FormatError("der.malformed", "bytes stand after its end", offset=element.end)
    return element


def _read_key_usage(reading: _Reading, value: der.Element) -> None:
    bits = _content(reading, value, der.BIT_STRING)
    content = reading.data[bits.start : bits.end]
    if not 1 <= len(content) <= 3 or content[0] > 7 or (len(content) == 1 and content[0]):
        raise FormatError("der.malformed", "its bit string is impossible", offset=bits.offset)
    reading.facts["key_usage"] = _key_usages(content[1:])


@lru_cache(maxsize=64)
def _key_usages(bits: bytes) -> tuple[str, ...]:
    number, length = int.from_bytes(bits, "big"), 8 * len(bits)
    return tuple(
        [name for place, name in enumerate(KEY_USAGES, 1) if place <= length and number >> (length - place) & 1]
    )


def _read_extended_key_usage(reading: _Reading, value: der.Element) -> None:
    data = reading.data
    usages = [der.read_oid(data, usage) for usage in der.read_children(data, _content(reading, value, der.SEQUENCE))]
    reading.facts["extended_key_usage"] = tuple([oids.EXTENDED_KEY_USAGES.get(oid, oid) for oid in usages])


def _read_policies(reading: _Reading, value: der.Element) -> None:
    data, found = reading.data, []
    for policy in der.read_children(data, _content(reading, value, der.SEQUENCE)):
        parts = der.read_children(data, der.expect(policy, der.SEQUENCE))
        if not parts:
            raise FormatError("der.malformed", "a policy is empty", offset=policy.offset)
        found.append(der.read_oid(data, parts[0]))
    reading.facts["policies"] = tuple(found)


def _read_subject_names(reading: _Reading, value: der.Element) -> None:
    data, found = reading.data, []
    for name in der.read_children(data, _content(reading, value, der.SEQUENCE)):
        if name.tag == _DNS_NAME:
            text = data[name.start : name.end]
            if not text.isascii():
                raise FormatError("der.malformed", "a dNSName is not ASCII", offset=name.offset)
            found.append(text.decode("ascii"))
    reading.facts["dns_names"] = tuple(found)


def _read_basic_constraints(reading: _Reading, value: der.Element) -> None:
    data = reading.data
    parts = der.read_children(data, _content(reading, value, der.SEQUENCE))
    if parts and parts[0].tag == der.BOOLEAN:
        stated = data[parts[0].start : parts[0].end]
        if stated != _TRUE:
            reading.malformed("basicConstraints writes its default, cA false, which DER leaves out", parts[0].offset)
        reading.facts["is_ca"] = stated not in (b"\x00", b"")


def _read_qc(reading: _Reading, value: der.Element) -> None:
    reading.facts["qc"] = read_qc_statements(reading.data[value.start : value.end])


_READERS: Mapping[str, Callable[[_Reading, der.Element], object]] = MappingProxyType(
    {
        "2.5.29.15": _read_key_usage,
        "2.5.29.37": _read_extended_key_usage,
        "2.5.29.32": _read_policies,
        "2.5.29.17": _read_subject_names,
        "2.5.29.19": _read_basic_constraints,
        oids.QC_STATEMENTS: _read_qc,
    }
)
