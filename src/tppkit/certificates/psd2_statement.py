"""The PSD2 statement: the roles of a certificate's holder and the competent authority, read leniently.

    PSD2QcType   ::= SEQUENCE { rolesOfPSP RolesOfPSP, nCAName UTF8String, nCAId UTF8String }
    RolesOfPSP   ::= SEQUENCE OF SEQUENCE { roleOfPspOid OBJECT IDENTIFIER, roleOfPspName UTF8String }

Source: ETSI TS 119 495 clause 5.1 and annex A.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tppkit.certificates import der, oids
from tppkit.certificates.qc_reading import QcReading, read_string
from tppkit.errors import FormatError


@dataclass(frozen=True, slots=True)
class RoleOfPsp:
    """One PSD2 role.

    Attributes:
        oid: dotted object identifier; this decides. Empty when it cannot be read: then nobody has the role.
        name: the name written beside it.
    """

    oid: str
    name: str

    @property
    def standard_name(self) -> str:
        """The role's name in TS 119 495 by its object identifier, or that identifier when it is none of them.

        The written name never stands in: an unknown identifier named `PSP_PI` must not pass for that role.
        """
        return oids.PSP_ROLES.get(self.oid, self.oid)


@dataclass(frozen=True, slots=True)
class Psd2Statement:
    """The PSD2 statement (0.4.0.19495.2).

    Attributes:
        roles: in the order of the certificate.
        nca_name: name of the competent authority; empty when it cannot be read.
        nca_id: its identifier, `CC-AUTHORITY`; empty when it cannot be read.
    """

    roles: tuple[RoleOfPsp, ...]
    nca_name: str
    nca_id: str

    @property
    def role_names(self) -> tuple[str, ...]:
        """The roles by their identifiers, each once, as `("PSP_PI", "PSP_AI")`; one without identifier is left out."""
        return tuple(dict.fromkeys([role.standard_name for role in self.roles if role.oid]))


_PLAIN_TAGS = (der.SEQUENCE, der.UTF8_STRING, der.UTF8_STRING)
# Whole roles by their encoding.
_PLAIN_ROLES: Mapping[bytes, RoleOfPsp] = MappingProxyType(
    {
        der.write_element(der.SEQUENCE, der.write_oid(oid), der.write_text(name)): RoleOfPsp(oid, name)
        for oid, name in oids.PSP_ROLES.items()
    }
)


def read_psd2(reading: QcReading, info: der.Element) -> None:
    """Read the statementInfo of a PSD2 statement into the fact `psd2`.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`: nothing of it can be read.
    """
    children = der.read_children(reading.data, der.expect(info, der.SEQUENCE))
    reading.facts["psd2"] = _read_plain(reading.data, children) or _read_any(reading, info, children)


def _read_plain(data: bytes, parts: list[der.Element]) -> Psd2Statement | None:
    """The statement, when it consists of known roles with their own names and of two texts; else None."""
    if tuple([part.tag for part in parts]) != _PLAIN_TAGS:
        return None
    roles, name, identifier = parts
    try:
        known = [_PLAIN_ROLES[data[role.offset : role.end]] for role in der.read_children(data, roles)]
        nca_name, nca_id = data[name.start : name.end].decode(), data[identifier.start : identifier.end].decode()
        return Psd2Statement(tuple(known), nca_name, nca_id)
    except (KeyError, UnicodeDecodeError, FormatError):
        return None


def _read_any(reading: QcReading, info: der.Element, children: list[der.Element]) -> Psd2Statement:
    """The statement in whatever form, with a finding for everything that is not as it should be."""
    parts = [_untagged(reading, part) for part in children]
    # Whatever order and number the parts have, they are read; but only roles, NCAName, NCAId is a PSD2 statement.
    if [part.tag == der.SEQUENCE for part in parts] != [True, False, False]:
        message = "the PSD2 statement does not consist of roles, NCAName and NCAId, in this order"
        reading.note("qcstatements.malformed", message, info.offset)
    roles: list[RoleOfPsp] = []
    texts: list[str] = []
    for part in parts:
        if part.tag == der.SEQUENCE:
            roles += _read_roles(reading, part)
        else:
            what = "NCAId" if texts else "NCAName"
            texts.append(_read_text_or_nothing(reading, part, what, "qcstatements.malformed"))
    nca_name, nca_id, *_ = (*texts, "", "")
    return Psd2Statement(tuple(roles), nca_name, nca_id)


def _read_text_or_nothing(reading: QcReading, element: der.Element, what: str, code: str) -> str:
    try:
        return read_string(reading, element, der.UTF8_STRING, what)
    except FormatError as e:
        reading.note(code, f"{what} cannot be read: {e.message}", element.offset)
        return ""


def _untagged(reading: QcReading, element: der.Element) -> der.Element:
    """The element itself, or what stands alone inside the explicit tag that some encoders add."""
    if element.tag & 0xE0 != 0xA0:
        return element
    inner = der.read_children(reading.data, element)
    if len(inner) != 1:
        return element
    message = f"an explicit tag 0x{element.tag:02x} stands around a part of the PSD2 statement, which has none"
    reading.note("qcstatements.explicit-tag", message, element.offset)
    return inner[0]


def _read_roles(reading: QcReading, roles: der.Element) -> list[RoleOfPsp]:
    found: list[RoleOfPsp] = []
    try:
        children = der.read_children(reading.data, roles)
        if children and children[0].tag == der.OID:
            children = [roles]  # the SEQUENCE OF is missing; whoever reads one role says so
            message = "a RoleOfPSP stands where a SEQUENCE OF them belongs"
            reading.note("qcstatements.flattened-roles", message, roles.offset)
    except FormatError as e:
        reading.note("qcstatements.role-malformed", f"the roles cannot be read: {e.message}", e.offset or roles.offset)
        return found
    for child in children:
        try:
            _read_role(reading, _untagged(reading, child), found)
        except FormatError as e:
            reading.note("qcstatements.role-malformed", f"a role cannot be read: {e.message}", e.offset or child.offset)
    return found


def _read_role(reading: QcReading, role: der.Element, found: list[RoleOfPsp]) -> None:
    parts = [_untagged(reading, part) for part in der.read_children(reading.data, der.expect(role, der.SEQUENCE))]
    if len(parts) > 2:
        message = "several roles stand in one RoleOfPSP, as an OBIE OpenSSL profile writes them"
        reading.note("qcstatements.flattened-roles", message, role.offset)
    # Every identifier begins a role, and the text behind it is its name; what lacks the other is kept and named.
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
            reading.note("qcstatements.role-malformed", f"a role has no {lacking}", role.offset)
        text = _read_text_or_nothing(reading, name, "a role name", "qcstatements.role-malformed") if name else ""
        if oid or text:
            found.append(RoleOfPsp(der.read_oid(reading.data, oid) if oid else "", text))
