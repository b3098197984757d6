"""Reader of QcStatements: what a qualified certificate states about itself, and the PSD2 roles of its holder.

The reader is lenient and reports each malformation as a finding, because three malformed encodings are common in sandboxes
and a role must never be dropped silently. In `rules.py`, each of these findings is an error.

    QCStatements ::= SEQUENCE OF QCStatement
    QCStatement  ::= SEQUENCE { statementId OBJECT IDENTIFIER, statementInfo ANY OPTIONAL }

Sources: RFC 3739 section 3.2.6, ETSI EN 319 412-5 clauses 4.2 and 4.3, ETSI TS 119 495 clause 5.1 and annex A.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

from tppkit._text import shortened
from tppkit.certificates import der, oids
from tppkit.certificates.psd2_statement import Psd2Statement, read_psd2
from tppkit.certificates.qc_reading import QcReading, read_string
from tppkit.errors import Finding, FormatError

MAX_EXTENSION_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class PdsLocation:
    """The location of a PKI disclosure statement.

    Attributes:
        url: its address.
        language: two letters.
    """

    url: str
    language: str


@dataclass(frozen=True, slots=True)
class LimitValue:
    """The highest amount of a transaction with the certificate: `amount` times ten to the power of `exponent`.

    Attributes:
        currency: ISO 4217, three letters or a number as text.
        amount: a whole number.
        exponent: the power of ten.
    """

    currency: str
    amount: int
    exponent: int


@dataclass(frozen=True, slots=True)
class QcStatements:
    """The contents of the qcStatements extension.

    Attributes:
        statement_oids: dotted identifier of each statement, in order.
        compliance: whether QcCompliance is stated (EU qualified certificate).
        types: `esign`, `eseal`, `web`; an unknown type as its dotted identifier.
        sscd: whether the private key is in a qualified device.
        limit_value: QcLimitValue, or None.
        retention_years: QcRetentionPeriod, or None.
        pds: PKI disclosure statements.
        cc_legislation: countries of QcCClegislation.
        identification_methods: methods of QcIdentMethod: `eIDAS1-ab`, `eIDAS1-cd`, `eIDAS2-acd`, `eIDAS2-b`; an unknown one as
            its dotted identifier.
        qscd_legislation: countries of QcQSCDlegislation.
        semantics: dotted identifier of the subject name's semantics (RFC 3739 syntax v2), or None.
        name_registration_authorities: addresses (URIs) of the registers of the subject's names (RFC 3739).
        psd2: roles and authority, None if the statement is absent or no part of it can be read.
        unknown: statements that are not parsed: (dotted identifier, DER of the statementInfo).
        findings: the malformations, each with its byte offset in the certificate, or in the value if that was read alone.
    """

    statement_oids: tuple[str, ...] = ()
    compliance: bool = False
    types: tuple[str, ...] = ()
    sscd: bool = False
    limit_value: LimitValue | None = None
    retention_years: int | None = None
    pds: tuple[PdsLocation, ...] = ()
    cc_legislation: tuple[str, ...] = ()
    identification_methods: tuple[str, ...] = ()
    qscd_legislation: tuple[str, ...] = ()
    semantics: str | None = None
    name_registration_authorities: tuple[str, ...] = ()
    psd2: Psd2Statement | None = None
    unknown: tuple[tuple[str, bytes], ...] = ()
    findings: tuple[Finding, ...] = ()


_Reader = Callable[[QcReading, der.Element], None]


def read_qc_statements(value: bytes) -> QcStatements:
    """Read the value of a qcStatements extension. Never raises: malformed parts become findings.

    Args:
        value: DER of the extension value (`1.3.6.1.5.5.7.1.3`).
    """
    try:
        return read_qc_statements_at(value, der.read_whole(value, tag=der.SEQUENCE))
    except FormatError as e:
        reading = QcReading(value)
        reading.report("qcstatements.malformed", f"qcStatements cannot be read: {e.message}", e.offset or 0)
        return _done(reading)


def read_qc_statements_at(data: bytes, whole: der.Element) -> QcStatements:
    """Read the extension's content, an element of `data`. Never raises; offsets are into `data`."""
    reading = QcReading(data)
    try:
        statements = _statements(reading, whole)
    except FormatError as e:
        reading.report("qcstatements.malformed", f"qcStatements cannot be read: {e.message}", e.offset or whole.offset)
        return _done(reading)
    for statement in statements:
        _read_statement(reading, statement)
    return _done(reading)


def _done(reading: QcReading) -> QcStatements:
    return QcStatements(
        statement_oids=tuple(reading.statement_oids),
        unknown=tuple(reading.unknown),
        findings=tuple(reading.findings),
        **reading.facts,  # type: ignore[arg-type]  # each reader below stores a field of this name and type
    )


def _statements(reading: QcReading, whole: der.Element) -> list[der.Element]:
    if whole.end - whole.offset > MAX_EXTENSION_BYTES:
        raise FormatError("qcstatements.malformed", f"{whole.end - whole.offset} bytes of qcStatements")
    children = der.read_children(reading.data, der.expect(whole, der.SEQUENCE))
    if children and children[0].tag == der.OID:
        reading.report(
            "qcstatements.bare-statement",
            "the content is one QCStatement, not a SEQUENCE OF QCStatement, as adorsys' and Indice's generators write it",
            whole.offset,
        )
        return [whole]
    return children


def _read_statement(reading: QcReading, statement: der.Element) -> None:
    data, oid = reading.data, ""
    try:
        parts = der.read_children(data, der.expect(statement, der.SEQUENCE))
        if not 1 <= len(parts) <= 2:
            raise FormatError("der.malformed", f"it has {len(parts)} parts", offset=statement.offset)
        oid = der.read_oid(data, parts[0])
        reading.statement_oids.append(oid)
        if oid in reading.seen:
            message = f"the statement {oid} appears twice; the first one is read{_ignored_roles(data, oid, parts)}"
            reading.report("qcstatements.duplicate", message, statement.offset)
            return
        reading.seen.add(oid)
        if oid in _FLAGS:
            _read_flag(reading, _FLAGS[oid], parts)
        elif oid not in _READERS:
            reading.unknown.append((oid, data[parts[1].offset : parts[1].end] if len(parts) == 2 else b""))
        elif len(parts) == 2:
            _READERS[oid](reading, parts[1])
        elif oid not in _OPTIONAL_INFO:
            raise FormatError("der.malformed", "its statementInfo is absent", offset=statement.offset)
    except FormatError as e:
        name = f"statement {oid}" if oid else "a statement"
        reading.report("qcstatements.malformed", f"{name} cannot be read: {e.message}", e.offset or statement.offset)


def _ignored_roles(data: bytes, oid: str, parts: list[der.Element]) -> str:
    """Return the roles of a second PSD2 statement for the message, so that none is dropped silently."""
    if oid != oids.QC_PSD2 or len(parts) != 2:
        return ""
    other = QcReading(data)
    with suppress(FormatError):
        read_psd2(other, parts[1])
    further = other.facts.get("psd2")
    names = further.role_names[:9] if isinstance(further, Psd2Statement) else ()
    return f"; the other one names {shortened(', '.join(names), 200) or 'no role'}"


def _read_flag(reading: QcReading, name: str, parts: list[der.Element]) -> None:
    reading.facts[name] = True
    if len(parts) == 2:
        known = " (NULL, as ING's example certificates have it)" if parts[1].tag == der.NULL else ""
        message = f"the {name} statement has a statementInfo{known}"
        reading.report("qcstatements.unexpected-info", message, parts[1].offset)


def _oids(reading: QcReading, info: der.Element) -> list[str]:
    return [der.read_oid(reading.data, oid) for oid in der.read_children(reading.data, der.expect(info, der.SEQUENCE))]


def _read_types(reading: QcReading, info: der.Element) -> None:
    reading.facts["types"] = tuple([oids.QC_TYPES.get(oid, oid) for oid in _oids(reading, info)])


def _read_identification_methods(reading: QcReading, info: der.Element) -> None:
    methods = [oids.IDENTIFICATION_METHODS.get(oid, oid) for oid in _oids(reading, info)]
    reading.facts["identification_methods"] = tuple(methods)


def _read_pds(reading: QcReading, info: der.Element) -> None:
    locations: list[PdsLocation] = []
    for location in der.read_children(reading.data, der.expect(info, der.SEQUENCE)):
        try:
            parts = der.read_children(reading.data, der.expect(location, der.SEQUENCE))
            if len(parts) != 2:
                raise FormatError("der.malformed", "it is not a pair", offset=location.offset)
            url = read_string(reading, parts[0], der.IA5_STRING, "a PDS address")
            language = read_string(reading, parts[1], der.PRINTABLE_STRING, "a PDS language")
            locations.append(PdsLocation(url, language))
        except FormatError as e:
            reading.report(
                "qcstatements.malformed", f"a PDS location cannot be read: {e.message}", e.offset or location.offset
            )
    reading.facts["pds"] = tuple(locations)


def _read_limit_value(reading: QcReading, info: der.Element) -> None:
    parts = der.read_children(reading.data, der.expect(info, der.SEQUENCE))
    if len(parts) != 3:
        raise FormatError("der.malformed", f"a MonetaryValue has {len(parts)} parts, not 3", offset=info.offset)
    currency, *numbers = parts
    numeric = currency.tag == der.INTEGER
    text = (
        str(der.read_integer(reading.data, currency))
        if numeric
        else read_string(reading, currency, der.PRINTABLE_STRING, "a currency")
    )
    amount, exponent = (der.read_integer(reading.data, number) for number in numbers)
    reading.facts["limit_value"] = LimitValue(text, amount, exponent)


def _read_retention(reading: QcReading, info: der.Element) -> None:
    reading.facts["retention_years"] = der.read_integer(reading.data, info)


def _countries(name: str) -> _Reader:
    def read(reading: QcReading, info: der.Element) -> None:
        countries = der.read_children(reading.data, der.expect(info, der.SEQUENCE))
        reading.facts[name] = tuple(
            [read_string(reading, country, der.PRINTABLE_STRING, "a country") for country in countries]
        )

    return read


def _read_semantics(reading: QcReading, info: der.Element) -> None:
    # SemanticsInformation ::= SEQUENCE { semanticsIdentifier OID OPTIONAL, nameRegistrationAuthorities GeneralNames OPTIONAL }
    data = reading.data
    for part in der.read_children(data, der.expect(info, der.SEQUENCE)):
        fact = "semantics" if part.tag == der.OID else "name_registration_authorities"
        if fact in reading.facts:  # in one statement, or by both syntaxes
            message = f"the {fact.replace('_', ' ')} of the subject's name are stated twice; the first are read"
            reading.report("qcstatements.duplicate", message, part.offset)
        elif part.tag == der.OID:
            reading.facts[fact] = der.read_oid(data, part)
        else:
            names = der.read_children(data, der.expect(part, der.SEQUENCE))
            uris = [data[name.start : name.end].decode("ascii", "replace") for name in names if name.tag == _URI]
            reading.facts[fact] = tuple(uris)


_URI = 0x86  # GeneralName, context tag 6 (RFC 5280 section 4.2.1.6)
_FLAGS: Mapping[str, str] = MappingProxyType({oids.QC_COMPLIANCE: "compliance", oids.QC_SSCD: "sscd"})
_OPTIONAL_INFO = frozenset({oids.QCS_SYNTAX_V1, oids.QCS_SYNTAX_V2})
_READERS: Mapping[str, _Reader] = MappingProxyType(
    {
        oids.QC_TYPE: _read_types,
        oids.QC_LIMIT_VALUE: _read_limit_value,
        oids.QC_RETENTION_PERIOD: _read_retention,
        oids.QC_PDS: _read_pds,
        oids.QC_CC_LEGISLATION: _countries("cc_legislation"),
        oids.QC_IDENTIFICATION_METHOD: _read_identification_methods,
        oids.QC_QSCD_LEGISLATION: _countries("qscd_legislation"),
        oids.QCS_SYNTAX_V1: _read_semantics,
        oids.QCS_SYNTAX_V2: _read_semantics,
        oids.QC_PSD2: read_psd2,
    }
)
