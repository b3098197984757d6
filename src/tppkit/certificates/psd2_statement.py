"""Lenient reader of the PSD2 statement: the roles of a certificate's holder and the competent authority.

    PSD2QcType   ::= SEQUENCE { rolesOfPSP RolesOfPSP, nCAName UTF8String, nCAId UTF8String }
    RolesOfPSP   ::= SEQUENCE OF SEQUENCE { roleOfPspOid OBJECT IDENTIFIER, roleOfPspName UTF8String }

Source: ETSI TS 119 495 clause 5.1 and annex A.
"""

from __future__ import annotations

from dataclasses import dataclass

from tppkit.certificates import der, oids
from tppkit.certificates.qc_reading import QcReading, read_string
from tppkit.errors import FormatError


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


def read_psd2(reading: QcReading, info: der.Element) -> None:
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


def _read_text_or_nothing(reading: QcReading, element: der.Element, what: str, code: str) -> str:
    try:
        return read_string(reading, element, der.UTF8_STRING, what)
    except FormatError as e:
        reading.report(code, f"{what} cannot be read: {e.message}", element.offset)
        return ""


def _untagged(reading: QcReading, element: der.Element) -> der.Element:
    """Return the element without the explicit tag that some encoders add around it."""
    if element.tag & 0xE0 != 0xA0:
        return element
    inner = der.read_children(reading.data, element)
    if len(inner) != 1:
        return element
    message = f"a part of the PSD2 statement has an explicit tag 0x{element.tag:02x}, which is not allowed"
    reading.report("qcstatements.explicit-tag", message, element.offset)
    return inner[0]


def _read_roles(reading: QcReading, roles: der.Element) -> list[RoleOfPsp]:
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


def _read_role(reading: QcReading, role: der.Element, found: list[RoleOfPsp]) -> None:
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
