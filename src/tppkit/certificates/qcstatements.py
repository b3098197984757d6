"""Reader of QcStatements: what a qualified certificate states about itself, and the PSD2 roles of its holder.

The reader is lenient and reports each malformation as a finding, because three malformed encodings are common in sandboxes
and a role must never be dropped silently. In `rules.py`, each of these findings is an error.

    QCStatements ::= SEQUENCE OF QCStatement
    QCStatement  ::= SEQUENCE { statementId OBJECT IDENTIFIER, statementInfo ANY OPTIONAL }
    PSD2QcType   ::= SEQUENCE { rolesOfPSP RolesOfPSP, nCAName UTF8String, nCAId UTF8String }
    RolesOfPSP   ::= SEQUENCE OF SEQUENCE { roleOfPspOid OBJECT IDENTIFIER, roleOfPspName UTF8String }

Sources: RFC 3739 section 3.2.6, ETSI EN 319 412-5 clauses 4.2 and 4.3, ETSI TS 119 495 clause 5.1 and annex A.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType

from tppkit._text import shortened
from tppkit.certificates import der, oids
from tppkit.errors import Finding, FormatError, Severity

MAX_EXTENSION_BYTES = 64 * 1024
_STRING_TYPES = {der.UTF8_STRING: "UTF8String", der.IA5_STRING: "IA5String", der.PRINTABLE_STRING: "PrintableString"}


@dataclass(frozen=True, slots=True)
class RoleOfPsp:
    """One PSD2 role.

    Attributes:
        oid: dotted object identifier, which decides the role. Empty if it cannot be read; then the role grants nothing.
        name: the name next to it.
    """

    oid: str
    name: str

    @property
    def standard_name(self) -> str:
        """The role's name in TS 119 495, or its object identifier if TS 119 495 does not list it.

        The name in the certificate is not used: an unknown identifier with the name `PSP_PI` must not pass as that role.
        """
        return oids.PSP_ROLES.get(self.oid, self.oid)


@dataclass(frozen=True, slots=True)
class Psd2Statement:
    """The PSD2 statement (0.4.0.19495.2).

    Attributes:
        roles: in the order of the certificate.
        nca_name: name of the competent authority; empty if it cannot be read.
        nca_id: its identifier, `CC-AUTHORITY`; empty if it cannot be read.
    """

    roles: tuple[RoleOfPsp, ...]
    nca_name: str
    nca_id: str

    @property
    def role_names(self) -> tuple[str, ...]:
        """The standard names of the roles, each once, as `("PSP_PI", "PSP_AI")`; roles without identifier are left out."""
        return tuple(dict.fromkeys([role.standard_name for role in self.roles if role.oid]))


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


@dataclass(slots=True)
class _Reading:
    """The state of reading one qcStatements extension.

    Attributes:
        data: the bytes that contain it; offsets are into these.
        statement_oids: identifiers of the statements, in order.
        seen: the same identifiers as a set.
        facts: fields of `QcStatements`.
        unknown: statements that are not parsed.
        findings: the accepted malformations.
    """

    data: bytes
    statement_oids: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    facts: dict[str, object] = field(default_factory=dict)
    unknown: list[tuple[str, bytes]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def report(self, code: str, message: str, offset: int) -> None:
        """Add a finding for an accepted malformation."""
        self.findings.append(Finding(code, Severity.ERROR, message, "TS 119 495 annex A", offset=offset))


_Reader = Callable[[_Reading, der.Element], None]


def read_qc_statements(value: bytes) -> QcStatements:
    """Read the value of a qcStatements extension. Never raises: malformed parts become findings.

    Args:
        value: DER of the extension value (`1.3.6.1.5.5.7.1.3`).
    """
    try:
        return read_qc_statements_at(value, der.read_whole(value, tag=der.SEQUENCE))
    except FormatError as e:
        reading = _Reading(value)
        reading.report("qcstatements.malformed", f"qcStatements cannot be read: {e.message}", e.offset or 0)
        return _done(reading)


def read_qc_statements_at(data: bytes, whole: der.Element) -> QcStatements:
    """Read the extension's content, an element of `data`. Never raises; offsets are into `data`."""
    reading = _Reading(data)
    try:
        statements = _statements(reading, whole)
    except FormatError as e:
        reading.report("qcstatements.malformed", f"qcStatements cannot be read: {e.message}", e.offset or whole.offset)
        return _done(reading)
    for statement in statements:
        _read_statement(reading, statement)
    return _done(reading)


def _done(reading: _Reading) -> QcStatements:
    return QcStatements(
        statement_oids=tuple(reading.statement_oids),
        unknown=tuple(reading.unknown),
        findings=tuple(reading.findings),
        **reading.facts,  # type: ignore[arg-type]  # each reader below stores a field of this name and type
    )


def _statements(reading: _Reading, whole: der.Element) -> list[der.Element]:
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


def _read_statement(reading: _Reading, statement: der.Element) -> None:
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
    other = _Reading(data)
    with suppress(FormatError):
        _read_psd2(other, parts[1])
    further = other.facts.get("psd2")
    names = further.role_names[:9] if isinstance(further, Psd2Statement) else ()
    return f"; the other one names {shortened(', '.join(names), 200) or 'no role'}"


def _read_flag(reading: _Reading, name: str, parts: list[der.Element]) -> None:
    reading.facts[name] = True
    if len(parts) == 2:
        known = " (NULL, as ING's example certificates have it)" if parts[1].tag == der.NULL else ""
        message = f"the {name} statement has a statementInfo{known}"
        reading.report("qcstatements.unexpected-info", message, parts[1].offset)


def _oids(reading: _Reading, info: der.Element) -> list[str]:
    return [der.read_oid(reading.data, oid) for oid in der.read_children(reading.data, der.expect(info, der.SEQUENCE))]


def _read_types(reading: _Reading, info: der.Element) -> None:
    reading.facts["types"] = tuple([oids.QC_TYPES.get(oid, oid) for oid in _oids(reading, info)])


def _read_identification_methods(reading: _Reading, info: der.Element) -> None:
    methods = [oids.IDENTIFICATION_METHODS.get(oid, oid) for oid in _oids(reading, info)]
    reading.facts["identification_methods"] = tuple(methods)


def _read_pds(reading: _Reading, info: der.Element) -> None:
    locations: list[PdsLocation] = []
    for location in der.read_children(reading.data, der.expect(info, der.SEQUENCE)):
        try:
            parts = der.read_children(reading.data, der.expect(location, der.SEQUENCE))
            if len(parts) != 2:
                raise FormatError("der.malformed", "it is not a pair", offset=location.offset)
            url = _read_string(reading, parts[0], der.IA5_STRING, "a PDS address")
            language = _read_string(reading, parts[1], der.PRINTABLE_STRING, "a PDS language")
            locations.append(PdsLocation(url, language))
        except FormatError as e:
            reading.report(
                "qcstatements.malformed", f"a PDS location cannot be read: {e.message}", e.offset or location.offset
            )
    reading.facts["pds"] = tuple(locations)


def _read_limit_value(reading: _Reading, info: der.Element) -> None:
    parts = der.read_children(reading.data, der.expect(info, der.SEQUENCE))
    if len(parts) != 3:
        raise FormatError("der.malformed", f"a MonetaryValue has {len(parts)} parts, not 3", offset=info.offset)
    currency, *numbers = parts
    numeric = currency.tag == der.INTEGER
    text = (
        str(der.read_integer(reading.data, currency))
        if numeric
        else _read_string(reading, currency, der.PRINTABLE_STRING, "a currency")
    )
    amount, exponent = (der.read_integer(reading.data, number) for number in numbers)
    reading.facts["limit_value"] = LimitValue(text, amount, exponent)


def _read_retention(reading: _Reading, info: der.Element) -> None:
    reading.facts["retention_years"] = der.read_integer(reading.data, info)


def _countries(name: str) -> _Reader:
    def read(reading: _Reading, info: der.Element) -> None:
        countries = der.read_children(reading.data, der.expect(info, der.SEQUENCE))
        reading.facts[name] = tuple(
            [_read_string(reading, country, der.PRINTABLE_STRING, "a country") for country in countries]
        )

    return read


def _read_semantics(reading: _Reading, info: der.Element) -> None:
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


def _read_string(reading: _Reading, element: der.Element, tag: int, what: str) -> str:
    """Read the text of an element; another string type than `tag` is accepted with a finding.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    text = der.read_text(reading.data, element)
    if element.tag != tag:
        message = f"{what} has tag 0x{element.tag:02x}, not {_STRING_TYPES[tag]}"
        reading.report("qcstatements.string-type", message, element.offset)
    return text


def _read_psd2(reading: _Reading, info: der.Element) -> None:
    """Read the statementInfo of a PSD2 statement into the fact `psd2`, with a finding for each deviation from the standard.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`, if no part of it can be read.
    """
    parts = [_untagged(reading, part) for part in der.read_children(reading.data, der.expect(info, der.SEQUENCE))]
    if [part.tag == der.SEQUENCE for part in parts] != [True, False, False]:
        message = "the PSD2 statement does not consist of roles, NCAName and NCAId, in this order"
        reading.report("qcstatements.malformed", message, info.offset)
    roles: list[RoleOfPsp] = []
    texts: list[str] = []
    for part in parts:
        if part.tag == der.SEQUENCE:
            roles += _read_roles(reading, part)
        else:
            what = "NCAId" if texts else "NCAName"
            texts.append(_read_text_or_nothing(reading, part, what, "qcstatements.malformed"))
    nca_name, nca_id, *_ = (*texts, "", "")
    reading.facts["psd2"] = Psd2Statement(tuple(roles), nca_name, nca_id)


def _read_text_or_nothing(reading: _Reading, element: der.Element, what: str, code: str) -> str:
    try:
        return _read_string(reading, element, der.UTF8_STRING, what)
    except FormatError as e:
        reading.report(code, f"{what} cannot be read: {e.message}", element.offset)
        return ""


def _untagged(reading: _Reading, element: der.Element) -> der.Element:
    """Return the element without the explicit tag that some encoders add around it."""
    if element.tag & 0xE0 != 0xA0:
        return element
    inner = der.read_children(reading.data, element)
    if len(inner) != 1:
        return element
    message = f"a part of the PSD2 statement has an explicit tag 0x{element.tag:02x}, which is not allowed"
    reading.report("qcstatements.explicit-tag", message, element.offset)
    return inner[0]


def _read_roles(reading: _Reading, roles: der.Element) -> list[RoleOfPsp]:
    found: list[RoleOfPsp] = []
    try:
        children = der.read_children(reading.data, roles)
        if children and children[0].tag == der.OID:
            children = [roles]
            message = "the roles are a RoleOfPSP, not a SEQUENCE OF RoleOfPSP"
            reading.report("qcstatements.flattened-roles", message, roles.offset)
    except FormatError as e:
        reading.report(
            "qcstatements.role-malformed", f"the roles cannot be read: {e.message}", e.offset or roles.offset
        )
        return found
    for child in children:
        try:
            _read_role(reading, _untagged(reading, child), found)
        except FormatError as e:
            reading.report(
                "qcstatements.role-malformed", f"a role cannot be read: {e.message}", e.offset or child.offset
            )
    return found


def _read_role(reading: _Reading, role: der.Element, found: list[RoleOfPsp]) -> None:
    parts = [_untagged(reading, part) for part in der.read_children(reading.data, der.expect(role, der.SEQUENCE))]
    if len(parts) > 2:
        message = "one RoleOfPSP contains several roles, as in an OBIE OpenSSL profile"
        reading.report("qcstatements.flattened-roles", message, role.offset)
    # Each identifier begins a role, and the text after it is its name. A role that lacks one of them is kept and reported.
    pairs: list[tuple[der.Element | None, der.Element | None]] = []
    for part in parts:
        if part.tag == der.OID:
            pairs.append((part, None))
        elif pairs and pairs[-1][1] is None:
            pairs[-1] = (pairs[-1][0], part)
        else:
            pairs.append((None, part))
    for oid, name in pairs or [(None, None)]:
        if oid is None or name is None:
            lacking = "object identifier" if oid is None else "name"
            reading.report("qcstatements.role-malformed", f"a role has no {lacking}", role.offset)
        text = _read_text_or_nothing(reading, name, "a role name", "qcstatements.role-malformed") if name else ""
        if oid or text:
            found.append(RoleOfPsp(der.read_oid(reading.data, oid) if oid else "", text))


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
        oids.QC_PSD2: _read_psd2,
    }
)
