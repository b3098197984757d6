"""Edits that break one thing of a certificate before it is signed.

broken = roles((PI, "PSP_AI"))(Draft.of(pki.qwac.certificate))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cryptography import x509

from tppkit.certificates import Psd2Statement, der, oids
from tppkit.certificates.qcstatements import read_qc_statements
from tppkit.testpki.certificate import Attribute, Draft, Extension, extension_of
from tppkit.testpki.keys import public_key_der
from tppkit.testpki.profiles import key_usage
from tppkit.testpki.seeded_rsa import make_rsa_key

Edit = Callable[[Draft], Draft]

PI, AI, CB, UNSPECIFIED = "0.4.0.19495.1.2", "0.4.0.19495.1.3", "0.4.0.19495.1.5", "0.4.0.19495.1.0"


def all_of(*edits: Edit) -> Edit:
    """Apply several edits, the first one first."""

    def edit(draft: Draft) -> Draft:
        for one in edits:
            draft = one(draft)
        return draft

    return edit


def changed(**fields: Any) -> Edit:
    """Replace fields of the draft."""
    return lambda draft: replace(draft, **fields)


# The subject.


def attribute(oid: str, text: str) -> Edit:
    """Change the text of a subject attribute."""
    return lambda draft: replace(
        draft, subject=tuple(one._replace(text=text) if one.oid == oid else one for one in draft.subject)
    )


def no_attribute(oid: str) -> Edit:
    """Remove a subject attribute."""
    return lambda draft: replace(draft, subject=tuple(one for one in draft.subject if one.oid != oid))


def second_attribute(oid: str, text: str) -> Edit:
    """Add an attribute to the subject."""
    return lambda draft: replace(draft, subject=(*draft.subject, Attribute(oid, text)))


# The key.


def weak_key(draft: Draft) -> Draft:
    """Put an RSA key of 1024 bits in the place of the key."""
    key = make_rsa_key(1024, draft.public_key + draft.issuer + draft.public_key)
    return replace(draft, public_key=public_key_der(key))


# Extensions.


def value_of(draft: Draft, oid: str) -> bytes:
    """Return DER of an extension's value."""
    return next(one.value for one in draft.extensions if one.oid == oid)


def extension(value: x509.ExtensionType, *, critical: bool = False) -> Edit:
    """Replace or add an extension."""
    return lambda draft: draft.with_extension(extension_of(value, critical))


def raw_extension(oid: str, value: bytes, critical: bool = False) -> Edit:
    """Replace or add an extension with any value, which may be no DER."""
    return lambda draft: draft.with_extension(Extension(oid, value, critical))


def no_extension(oid: str) -> Edit:
    """Remove an extension."""
    return lambda draft: draft.without_extension(oid)


def critical_extension(oid: str) -> Edit:
    """Make an extension critical."""
    return lambda draft: draft.with_extension(Extension(oid, value_of(draft, oid), critical=True))


def usage(*names: str) -> Edit:
    """Replace the key usage."""
    return extension(key_usage(*names)[0], critical=True)


def purposes(*oids_: x509.ObjectIdentifier) -> Edit:
    """Replace the extended key usage."""
    return extension(x509.ExtendedKeyUsage(list(oids_)))


def policies(*stated: str) -> Edit:
    """Replace the certificate policies."""
    information = [x509.PolicyInformation(x509.ObjectIdentifier(policy), None) for policy in stated]
    return extension(x509.CertificatePolicies(information))


# QcStatements.


def statements_of(draft: Draft) -> list[bytes]:
    """Return DER of each QCStatement."""
    value = value_of(draft, oids.QC_STATEMENTS)
    return [value[s.offset : s.end] for s in der.read_children(value, der.read_whole(value, tag=der.SEQUENCE))]


def qc_statements(write: Callable[[Draft], bytes]) -> Edit:
    """Replace the value of QcStatements by other DER, or by other bytes."""
    return lambda draft: draft.with_extension(Extension(oids.QC_STATEMENTS, write(draft)))


def no_statement(oid: str) -> Edit:
    """Remove the statements of an identifier."""
    return qc_statements(lambda draft: der.write_sequence(*_others(draft, oid)))


def statement(oid: str, *info: bytes) -> Edit:
    """Replace or add a statement."""
    return qc_statements(
        lambda draft: der.write_sequence(*_others(draft, oid), der.write_sequence(der.write_oid(oid), *info))
    )


def second_statement(oid: str, *info: bytes) -> Edit:
    """Add a statement beside those of the same identifier."""
    return qc_statements(
        lambda draft: der.write_sequence(*statements_of(draft), der.write_sequence(der.write_oid(oid), *info))
    )


def _others(draft: Draft, oid: str) -> list[bytes]:
    def oid_of(one: bytes) -> str:
        return der.read_oid(one, der.read_children(one, der.read_whole(one, tag=der.SEQUENCE))[0])

    return [one for one in statements_of(draft) if oid_of(one) != oid]


def qc_types(*types: str) -> Edit:
    """Replace the QcType."""
    return statement(oids.QC_TYPE, der.write_sequence(*map(der.write_oid, types)))


# The PSD2 statement.


def psd2_of(draft: Draft) -> Psd2Statement:
    """Return the PSD2 statement."""
    stated = read_qc_statements(value_of(draft, oids.QC_STATEMENTS)).psd2
    if stated is None:
        raise LookupError("the draft has no PSD2 statement")
    return stated


def psd2(*, roles: bytes | None = None, nca_name: str | bytes | None = None, nca_id: str | bytes | None = None) -> Edit:
    """Change parts of the PSD2 statement; a part that is not given stays.

    Args:
        roles: DER in the place of the roles.
        nca_name: The authority's name, or DER in its place.
        nca_id: The authority's identifier, or DER in its place.
    """

    def text(part: str | bytes | None, valid: str) -> bytes:
        return part if isinstance(part, bytes) else der.write_text(valid if part is None else part)

    def edit(draft: Draft) -> Draft:
        stated = psd2_of(draft)
        valid = der.write_sequence(*(role(one.oid, one.name) for one in stated.roles))
        parts = (roles if roles is not None else valid, text(nca_name, stated.nca_name), text(nca_id, stated.nca_id))
        return statement(oids.QC_PSD2, der.write_sequence(*parts))(draft)

    return edit


def role(oid: str, name: str) -> bytes:
    """Write a RoleOfPSP."""
    return der.write_sequence(der.write_oid(oid), der.write_text(name))


def roles(*stated: tuple[str, str]) -> Edit:
    """Replace the roles: dotted identifier and name of each."""
    return psd2(roles=der.write_sequence(*(role(*one) for one in stated)))


def flattened_roles(draft: Draft) -> Draft:
    """Write all roles into one RoleOfPSP."""
    parts = b"".join(der.write_oid(one.oid) + der.write_text(one.name) for one in psd2_of(draft).roles)
    return psd2(roles=der.write_sequence(der.write_sequence(parts)))(draft)


def exchanged_authority(draft: Draft) -> Draft:
    """Exchange the name and the identifier of the authority."""
    stated = psd2_of(draft)
    return psd2(nca_name=stated.nca_id, nca_id=stated.nca_name)(draft)


def printable_authority(draft: Draft) -> Draft:
    """Write the identifier of the authority as a PrintableString."""
    return psd2(nca_id=der.write_text(psd2_of(draft).nca_id, tag=der.PRINTABLE_STRING))(draft)


def another_authority(draft: Draft) -> Draft:
    """Name another authority in the organizationIdentifier than in the PSD2 statement."""
    other = "FI-FINFSA" if psd2_of(draft).nca_id == "DE-BAFIN" else "DE-BAFIN"
    return attribute(oids.ORGANIZATION_IDENTIFIER, f"PSD{other}-LB000000")(draft)
