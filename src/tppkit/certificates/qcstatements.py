"""QcStatements: what a qualified certificate says about itself, and the PSD2 roles of its holder.

Reading is lenient and says what it forgave: three malformed encodings are common in sandboxes, and a role must never
be dropped in silence. Judging is elsewhere (`rules.py`): there, each of these findings is an error.

    QCStatements ::= SEQUENCE OF QCStatement
    QCStatement  ::= SEQUENCE { statementId OBJECT IDENTIFIER, statementInfo ANY OPTIONAL }
    PSD2QcType   ::= SEQUENCE { rolesOfPSP RolesOfPSP, nCAName UTF8String, nCAId UTF8String }
    RolesOfPSP   ::= SEQUENCE OF SEQUENCE { roleOfPspOid OBJECT IDENTIFIER, roleOfPspName UTF8String }

Sources: RFC 3739 section 3.2.6, ETSI EN 319 412-5, ETSI TS 119 495 clause 5.1 and annex A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tppkit.certificates import der, oids
from tppkit.errors import Finding, FormatError, Severity

MAX_EXTENSION_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class RoleOfPsp:
    """One PSD2 role.

    Attributes:
        oid: dotted object identifier; this decides.
        name: the name written beside it.
    """

    oid: str
    name: str

    @property
    def standard_name(self) -> str:
        """The role's name in TS 119 495 by its object identifier, or the written name when that is unknown."""
        return oids.PSP_ROLES.get(self.oid, self.name)


@dataclass(frozen=True, slots=True)
class Psd2Statement:
    """The PSD2 statement (0.4.0.19495.2).

    Attributes:
        roles: in the order of the certificate.
        nca_name: name of the competent authority.
        nca_id: its identifier, `CC-AUTHORITY`.
    """

    roles: tuple[RoleOfPsp, ...]
    nca_name: str
    nca_id: str

    @property
    def role_names(self) -> tuple[str, ...]:
        """The roles' names as in TS 119 495, for example `("PSP_PI", "PSP_AI")`."""
        return tuple(role.standard_name for role in self.roles)


@dataclass(frozen=True, slots=True)
class PdsLocation:
    """Where a PKI disclosure statement is.

    Attributes:
        url: its address.
        language: two letters.
    """

    url: str
    language: str


@dataclass(frozen=True, slots=True)
class QcStatements:
    """Everything that the qcStatements extension says.

    Attributes:
        statement_oids: dotted identifier of each statement, in order.
        compliance: QcCompliance is stated: an EU qualified certificate.
        types: of `esign`, `eseal`, `web`; an unknown type as its dotted identifier.
        sscd: the private key is in a qualified device.
        pds: PKI disclosure statements.
        psd2: roles and authority, None when there is no such statement or nothing of it can be read.
        semantics: dotted identifier of the subject name's semantics (RFC 3739 syntax v2), or None.
        retention_years: QcRetentionPeriod, or None.
        cc_legislation: countries of QcCClegislation.
        unknown: statements that are not read further: (dotted identifier, DER of the statementInfo).
        findings: what was malformed, each with its byte offset in the extension value.
    """

    statement_oids: tuple[str, ...] = ()
    compliance: bool = False
    types: tuple[str, ...] = ()
    sscd: bool = False
    pds: tuple[PdsLocation, ...] = ()
    psd2: Psd2Statement | None = None
    semantics: str | None = None
    retention_years: int | None = None
    cc_legislation: tuple[str, ...] = ()
    unknown: tuple[tuple[str, bytes], ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True)
class _Reading:
    """The extension while it is read."""

    data: bytes
    statement_oids: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    facts: dict[str, object] = field(default_factory=dict)
    unknown: list[tuple[str, bytes]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def note(self, code: str, message: str, offset: int) -> None:
        self.findings.append(Finding(code, Severity.ERROR, message, "TS 119 495 annex A", offset=offset))

    def done(self) -> QcStatements:
        return QcStatements(
            statement_oids=tuple(self.statement_oids),
            unknown=tuple(self.unknown),
            findings=tuple(self.findings),
            **self.facts,  # type: ignore[arg-type]  # each reader below stores a field of this name and type
        )


def read_qc_statements(value: bytes) -> QcStatements:
    """Read the value of a qcStatements extension; never raises, what cannot be read becomes a finding.

    Args:
        value: DER of the extension value (`1.3.6.1.5.5.7.1.3`).
    """
    reading = _Reading(value)
    try:
        if len(value) > MAX_EXTENSION_BYTES:
            raise FormatError("qcstatements.malformed", f"{len(value)} bytes of qcStatements", offset=0)
        statements = _statements(reading)
    except FormatError as e:
        reading.note("qcstatements.malformed", f"qcStatements cannot be read: {e.message}", e.offset or 0)
        return reading.done()
    for statement in statements:
        try:
            _read_statement(reading, statement)
        except FormatError as e:
            reading.note(
                "qcstatements.malformed", f"a statement cannot be read: {e.message}", e.offset or statement.offset
            )
    return reading.done()


def parse_qc_statements(value: bytes) -> QcStatements:
    """Read the value of a qcStatements extension strictly.

    Raises:
        FormatError: the code of the first malformation.
    """
    statements = read_qc_statements(value)
    if statements.findings:
        first = statements.findings[0]
        raise FormatError(first.code, first.message, clause=first.clause, offset=first.offset)
    return statements


def _statements(reading: _Reading) -> list[der.Element]:
    whole = der.read_whole(reading.data, tag=der.SEQUENCE)
    children = der.read_children(reading.data, whole)
    if children and children[0].tag == der.OID:
        reading.note(
            "qcstatements.bare-statement",
            "one QCStatement stands where a SEQUENCE OF them belongs, as adorsys' and Indice's generators write it",
            whole.offset,
        )
        return [whole]
    return children


def _read_statement(reading: _Reading, statement: der.Element) -> None:
    data = reading.data
    parts = der.read_children(data, der.expect(statement, der.SEQUENCE))
    if not parts or len(parts) > 2:
        reading.note("qcstatements.malformed", f"a statement has {len(parts)} parts", statement.offset)
        return
    oid = der.read_oid(data, parts[0])
    reading.statement_oids.append(oid)
    info = parts[1] if len(parts) == 2 else None
    if oid in reading.seen:
        reading.note(
            "qcstatements.duplicate", f"the statement {oid} stands twice; the first one is read", statement.offset
        )
        return
    reading.seen.add(oid)
    reader = _READERS.get(oid)
    if reader is None:
        reading.unknown.append((oid, data[info.offset : info.end] if info else b""))
        return
    try:
        reader(reading, info)
    except FormatError as e:
        reading.note(
            "qcstatements.malformed", f"statement {oid} cannot be read: {e.message}", e.offset or statement.offset
        )


def _required(info: der.Element | None) -> der.Element:
    if info is None:
        raise FormatError("der.malformed", "its statementInfo is absent")
    return info


def _flag(name: str) -> Callable[[_Reading, der.Element | None], None]:
    def read(reading: _Reading, info: der.Element | None) -> None:
        reading.facts[name] = True
        if info is not None:
            known = " (NULL, as ING's example certificates have it)" if info.tag == der.NULL else ""
            reading.note(
                "qcstatements.unexpected-info", f"the {name} statement carries a statementInfo{known}", info.offset
            )

    return read


def _read_types(reading: _Reading, info: der.Element | None) -> None:
    kinds = der.read_children(reading.data, der.expect(_required(info), der.SEQUENCE))
    names = (der.read_oid(reading.data, kind) for kind in kinds)
    reading.facts["types"] = tuple(oids.QC_TYPES.get(oid, oid) for oid in names)


def _read_pds(reading: _Reading, info: der.Element | None) -> None:
    locations = []
    for location in der.read_children(reading.data, der.expect(_required(info), der.SEQUENCE)):
        parts = der.read_children(reading.data, der.expect(location, der.SEQUENCE))
        if len(parts) != 2:
            raise FormatError("der.malformed", "a PDS location is not a pair", offset=location.offset)
        locations.append(PdsLocation(*(der.read_text(reading.data, part) for part in parts)))
    reading.facts["pds"] = tuple(locations)


def _read_semantics(reading: _Reading, info: der.Element | None) -> None:
    if info is not None:
        parts = der.read_children(reading.data, der.expect(info, der.SEQUENCE))
        if parts and parts[0].tag == der.OID:
            reading.facts["semantics"] = der.read_oid(reading.data, parts[0])


def _read_retention(reading: _Reading, info: der.Element | None) -> None:
    reading.facts["retention_years"] = der.read_integer(reading.data, _required(info))


def _read_countries(reading: _Reading, info: der.Element | None) -> None:
    countries = der.read_children(reading.data, der.expect(_required(info), der.SEQUENCE))
    reading.facts["cc_legislation"] = tuple(der.read_text(reading.data, country) for country in countries)


def _read_psd2(reading: _Reading, info: der.Element | None) -> None:
    parts = der.read_children(reading.data, der.expect(_required(info), der.SEQUENCE))
    if len(parts) != 3:
        raise FormatError(
            "der.malformed", f"the PSD2 statement has {len(parts)} parts, not 3", offset=_required(info).offset
        )
    roles: list[RoleOfPsp] = []
    for role in der.read_children(reading.data, der.expect(parts[0], der.SEQUENCE)):
        try:
            roles += _read_role(reading, role)
        except FormatError as e:
            reading.note("qcstatements.role-malformed", f"a role cannot be read: {e.message}", role.offset)
    nca_name = _read_utf8(reading, parts[1], "NCAName")
    nca_id = _read_utf8(reading, parts[2], "NCAId")
    reading.facts["psd2"] = Psd2Statement(tuple(roles), nca_name, nca_id)


def _read_role(reading: _Reading, role: der.Element) -> list[RoleOfPsp]:
    data = reading.data
    parts = der.read_children(data, der.expect(role, der.SEQUENCE))
    if len(parts) > 2 and len(parts) % 2 == 0:
        reading.note(
            "qcstatements.flattened-roles",
            f"{len(parts) // 2} roles stand in one RoleOfPSP, as an OBIE OpenSSL profile writes them",
            role.offset,
        )
    elif len(parts) != 2:
        raise FormatError("der.malformed", f"it has {len(parts)} parts, not 2", offset=role.offset)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [RoleOfPsp(der.read_oid(data, oid), _read_utf8(reading, name, "role name")) for oid, name in pairs]


def _read_utf8(reading: _Reading, element: der.Element, what: str) -> str:
    text = der.read_text(reading.data, element)
    if element.tag != der.UTF8_STRING:
        reading.note("qcstatements.string-type", f"{what} has tag 0x{element.tag:02x}, not UTF8String", element.offset)
    return text


_READERS: dict[str, Callable[[_Reading, der.Element | None], None]] = {
    oids.QC_COMPLIANCE: _flag("compliance"),
    oids.QC_SSCD: _flag("sscd"),
    oids.QC_TYPE: _read_types,
    oids.QC_PDS: _read_pds,
    oids.QCS_SYNTAX_V1: _read_semantics,
    oids.QCS_SYNTAX_V2: _read_semantics,
    oids.QC_RETENTION_PERIOD: _read_retention,
    oids.QC_CC_LEGISLATION: _read_countries,
    oids.QC_PSD2: _read_psd2,
}


def write_qc_statements(
    *,
    qc_type: str,
    psd2: Psd2Statement | None,
    pds: tuple[PdsLocation, ...],
    compliance: bool = True,
    sscd: bool = False,
    semantics: str | None = oids.SEMANTICS_LEGAL,
) -> bytes:
    """The DER of a qcStatements extension value.

    Args:
        qc_type: `esign`, `eseal` or `web`.
        psd2: roles and authority, or None for no such statement.
        pds: PKI disclosure statements; none writes no statement.
        compliance: state EU qualification.
        sscd: state a qualified device.
        semantics: dotted identifier of the subject name's semantics, or None.
    """
    type_oid = next(oid for oid, name in oids.QC_TYPES.items() if name == qc_type)
    statements = [
        _statement(oids.QC_COMPLIANCE) if compliance else b"",
        _statement(oids.QC_SSCD) if sscd else b"",
        _statement(oids.QC_PDS, der.write_element(der.SEQUENCE, *map(_pds, pds))) if pds else b"",
        _statement(oids.QC_TYPE, der.write_element(der.SEQUENCE, der.write_oid(type_oid))),
        _statement(oids.QCS_SYNTAX_V2, der.write_element(der.SEQUENCE, der.write_oid(semantics))) if semantics else b"",
        _statement(oids.QC_PSD2, _psd2(psd2)) if psd2 else b"",
    ]
    return der.write_element(der.SEQUENCE, *statements)


def _statement(oid: str, *info: bytes) -> bytes:
    return der.write_element(der.SEQUENCE, der.write_oid(oid), *info)


def _pds(location: PdsLocation) -> bytes:
    return der.write_element(
        der.SEQUENCE,
        der.write_text(location.url, tag=der.IA5_STRING),
        der.write_text(location.language, tag=der.PRINTABLE_STRING),
    )


def _psd2(statement: Psd2Statement) -> bytes:
    roles = (
        der.write_element(der.SEQUENCE, der.write_oid(role.oid), der.write_text(role.name)) for role in statement.roles
    )
    return der.write_element(
        der.SEQUENCE,
        der.write_element(der.SEQUENCE, *roles),
        der.write_text(statement.nca_name),
        der.write_text(statement.nca_id),
    )
