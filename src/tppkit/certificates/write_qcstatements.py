"""Writer of QcStatements for test certificates and certificate requests."""

from __future__ import annotations

from tppkit.certificates import der, oids
from tppkit.certificates.qcstatements import PdsLocation, Psd2Statement


def write_qc_statements(
    *,
    qc_type: str,
    psd2: Psd2Statement | None,
    pds: tuple[PdsLocation, ...],
    compliance: bool = True,
    sscd: bool = False,
    semantics: str | None = oids.SEMANTICS_LEGAL,
    name_registration_authorities: tuple[str, ...] = (),
) -> bytes:
    """Return DER of a qcStatements extension value.

    Args:
        qc_type: `esign`, `eseal` or `web`.
        psd2: roles and authority; None: no such statement.
        pds: PKI disclosure statements; empty: no such statement.
        compliance: state EU qualification.
        sscd: state a qualified device.
        semantics: dotted identifier of the subject name's semantics, or None.
        name_registration_authorities: addresses of the registers of the subject's names.
    """
    type_oid = next(oid for oid, name in oids.QC_TYPES.items() if name == qc_type)
    statements = [
        _statement(oids.QC_COMPLIANCE) if compliance else b"",
        _statement(oids.QC_SSCD) if sscd else b"",
        _statement(oids.QC_PDS, write_pds(pds)) if pds else b"",
        _statement(oids.QC_TYPE, der.write_sequence(der.write_oid(type_oid))),
        _semantics(semantics, name_registration_authorities) if semantics or name_registration_authorities else b"",
        _statement(oids.QC_PSD2, write_psd2(psd2)) if psd2 else b"",
    ]
    return der.write_sequence(*statements)


def _statement(oid: str, *info: bytes) -> bytes:
    return der.write_sequence(der.write_oid(oid), *info)


def _semantics(identifier: str | None, authorities: tuple[str, ...]) -> bytes:
    names = [der.write_element(0x86, authority.encode("ascii")) for authority in authorities]  # GeneralName, a URI
    parts = [der.write_oid(identifier)] if identifier else []
    parts += [der.write_sequence(*names)] if names else []
    return _statement(oids.QCS_SYNTAX_V2, der.write_sequence(*parts))


def write_pds(locations: tuple[PdsLocation, ...]) -> bytes:
    """The DER of a list of PKI disclosure statements."""
    return der.write_sequence(*map(_pds, locations))


def _pds(location: PdsLocation) -> bytes:
    return der.write_sequence(
        der.write_text(location.url, tag=der.IA5_STRING), der.write_text(location.language, tag=der.PRINTABLE_STRING)
    )


def write_psd2(statement: Psd2Statement) -> bytes:
    """The DER of a PSD2QcType."""
    roles = (der.write_sequence(der.write_oid(role.oid), der.write_text(role.name)) for role in statement.roles)
    return der.write_sequence(
        der.write_sequence(*roles), der.write_text(statement.nca_name), der.write_text(statement.nca_id)
    )
