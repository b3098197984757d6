"""Edits of drafts that several faults share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tppkit.certificates import Psd2Statement, RoleOfPsp, der, oids
from tppkit.certificates.qcstatements import read_qc_statements
from tppkit.certificates.write_qcstatements import write_psd2
from tppkit.testpki.draft import Attribute, Draft, Extension


def seq(*parts: bytes) -> bytes:
    """A SEQUENCE."""
    return der.write_element(der.SEQUENCE, *parts)


def with_attribute(draft: Draft, oid: str, text: str, *, tag: int | None = None) -> Draft:
    """The subject's attribute with another text, and another string type if one is given."""
    changed = (Attribute(a.oid, text, tag or a.tag) if a.oid == oid else a for a in draft.subject)
    return replace(draft, subject=tuple(changed))


def without_attribute(draft: Draft, oid: str) -> Draft:
    """The subject without the attribute."""
    return replace(draft, subject=tuple(attribute for attribute in draft.subject if attribute.oid != oid))


def twice_attribute(draft: Draft, oid: str, text: str) -> Draft:
    """The subject with one more attribute of the kind."""
    return replace(draft, subject=(*draft.subject, Attribute(oid, text)))


def value_of(draft: Draft, oid: str) -> bytes:
    """DER of an extension's value."""
    return next(extension.value for extension in draft.extensions if extension.oid == oid)


def with_value(draft: Draft, oid: str, value: bytes) -> Draft:
    """The extension with another value, critical as before."""
    critical = any(extension.oid == oid and extension.critical for extension in draft.extensions)
    return draft.with_extension(Extension(oid, value, critical))


def with_criticality(draft: Draft, oid: str, critical: bool) -> Draft:
    """The extension with its criticality changed."""
    return draft.with_extension(Extension(oid, value_of(draft, oid), critical))


def statement(oid: str, *info: bytes) -> bytes:
    """A QCStatement."""
    return seq(der.write_oid(oid), *info)


def statements_of(draft: Draft) -> list[bytes]:
    """DER of each QCStatement."""
    value = value_of(draft, oids.QC_STATEMENTS)
    return [value[s.offset : s.end] for s in der.read_children(value, der.read_whole(value, tag=der.SEQUENCE))]


def with_statements(draft: Draft, statements: Sequence[bytes]) -> Draft:
    """The QcStatements replaced."""
    return with_value(draft, oids.QC_STATEMENTS, seq(*statements))


def without_statement(draft: Draft, oid: str) -> Draft:
    """The QcStatements without those of an identifier."""
    return with_statements(draft, [one for one in statements_of(draft) if _oid_of(one) != oid])


def with_statement(draft: Draft, oid: str, *info: bytes) -> Draft:
    """The QcStatements with this one in the place of the one with its identifier, or at the end."""
    others = [one for one in statements_of(draft) if _oid_of(one) != oid]
    return with_statements(draft, [*others, statement(oid, *info)])


def _oid_of(one: bytes) -> str:
    return der.read_oid(one, der.read_children(one, der.read_whole(one, tag=der.SEQUENCE))[0])


def psd2_of(draft: Draft) -> Psd2Statement:
    """The PSD2 statement."""
    stated = read_qc_statements(value_of(draft, oids.QC_STATEMENTS)).psd2
    if stated is None:
        raise LookupError("the draft has no PSD2 statement")
    return stated


def with_psd2(draft: Draft, statement_: Psd2Statement) -> Draft:
    """Another PSD2 statement, written as it should be."""
    return with_statement(draft, oids.QC_PSD2, write_psd2(statement_))


def with_authority(draft: Draft, nca_id: str) -> Draft:
    """Another authority, in the organizationIdentifier and in the PSD2 statement, under the same name."""
    named = with_attribute(draft, oids.ORGANIZATION_IDENTIFIER, f"PSD{nca_id}-LB000000")
    return with_psd2(named, replace(psd2_of(draft), nca_id=nca_id))


def with_roles(draft: Draft, *roles: tuple[str, str]) -> Draft:
    """Other roles: (dotted identifier, name) of each."""
    return with_psd2(draft, replace(psd2_of(draft), roles=tuple(RoleOfPsp(*role) for role in roles)))


def with_raw_psd2(
    draft: Draft, *, roles: bytes | None = None, nca_name: bytes | None = None, nca_id: bytes | None = None
) -> Draft:
    """The PSD2 statement of raw parts: the sound one where none is given."""
    stated = psd2_of(draft)
    parts = (
        seq(*(role_of(role.oid, role.name) for role in stated.roles)) if roles is None else roles,
        der.write_text(stated.nca_name) if nca_name is None else nca_name,
        der.write_text(stated.nca_id) if nca_id is None else nca_id,
    )
    return with_statement(draft, oids.QC_PSD2, seq(*parts))


def role_of(oid: str, name: str, *, tag: int = der.UTF8_STRING) -> bytes:
    """A RoleOfPSP."""
    return seq(der.write_oid(oid), der.write_text(name, tag=tag))
