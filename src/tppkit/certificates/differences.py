"""Differences between two certificates as rows of a table: what is compared, and the finding if it differs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit._encoding import shown
from tppkit.certificates import oids
from tppkit.certificates.certificate import EidasCertificate
from tppkit.certificates.identifier import Likeness, compare_organizations
from tppkit.errors import Finding, FormatError, Severity

_LIMIT = 240
_MAX_LISTED = 20
# The two values and, where the message needs it, a detail; None if the row does not apply.
Values = tuple[str, str] | tuple[str, str, str]
Find = Callable[[EidasCertificate, EidasCertificate], Values | None]
Read = Callable[[EidasCertificate], str | None]
ReadAll = Callable[[EidasCertificate], Collection[str]]


class Difference(NamedTuple):
    """One row.

    Attributes:
        code: the finding's code.
        severity: its severity.
        topic: in a renewal, by what a bank identifies the provider; in a pair, the clause that requires equality.
        message: what breaks; `{one}` and `{other}` are the quoted values, `{detail}` is the third value of `find`.
        find: returns the values if the row applies.
    """

    code: str
    severity: Severity
    topic: str | None
    message: str
    find: Find


def find_differences(
    rows: Iterable[Difference],
    one: EidasCertificate,
    other: EidasCertificate,
    *,
    names: tuple[str, str],
    is_renewal: bool,
) -> Iterator[Finding]:
    """Yield a finding for each row that applies, in the order of the rows.

    Args:
        rows: the table.
        one: the first certificate.
        other: the second one.
        names: the keys of the two values in `Finding.values`.
        is_renewal: put the topic into `Finding.values["strategy"]` instead of `Finding.clause`.
    """
    for row in rows:
        values = row.find(one, other)
        if values is None:
            continue
        first, second, detail = (*values, "")[:3]
        message = row.message.format(one=shown(first, limit=_LIMIT), other=shown(second, limit=_LIMIT), detail=detail)
        compared = {"strategy": row.topic or ""} if is_renewal else {}
        compared |= {names[0]: first, names[1]: second}
        yield Finding(row.code, row.severity, message, None if is_renewal else row.topic, MappingProxyType(compared))


def differs(read: Read, *, detail: Callable[[EidasCertificate, EidasCertificate], str] | None = None) -> Find:
    """Applies if both certificates have the value and it differs."""

    def find(one: EidasCertificate, other: EidasCertificate) -> Values | None:
        first, second = read(one), read(other)
        if first is None or second is None or first == second:
            return None
        return first, second, detail(one, other) if detail else ""

    return find


def lists_are(read: ReadAll, applies: Callable[[set[str], set[str]], bool]) -> Find:
    """Compares sets by `is_lost`, `is_new` or `operator.ne`; the detail lists the lost values, for `is_new` the new ones."""

    def find(one: EidasCertificate, other: EidasCertificate) -> Values | None:
        before, after = read(one), read(other)
        if not applies(set(before), set(after)):
            return None
        gone, new = (
            [value for value in some if value not in rest] for some, rest in ((before, after), (after, before))
        )
        return listed(before), listed(after), listed(new if applies is is_new else gone)

    return find


def is_lost(before: set[str], after: set[str]) -> bool:
    """Whether a value is gone."""
    return not before <= after


def is_new(before: set[str], after: set[str]) -> bool:
    """Whether a value is new."""
    return not after <= before


def organizations_are(likeness: Likeness) -> Find:
    """Applies if both organizationIdentifiers can be used and have this much in common."""

    def find(one: EidasCertificate, other: EidasCertificate) -> Values | None:
        ours, theirs = one.organization, other.organization
        if ours is None or theirs is None or compare_organizations(ours, theirs) is not likeness:
            return None
        return ours.text, theirs.text

    return find


def no_organization(one: EidasCertificate, other: EidasCertificate) -> Values | None:
    """Applies if one of the certificates has no organizationIdentifier that names an organisation."""
    if one.organization is not None and other.organization is not None:
        return None
    identifier = attribute(oids.ORGANIZATION_IDENTIFIER)
    return identifier(one) or "none", identifier(other) or "none"


def attribute(oid: str) -> Read:
    """Reads the values of an attribute of the subject; `none` without one."""
    return lambda certificate: listed(certificate.subject.values(oid))


def nca_id(certificate: EidasCertificate) -> str | None:
    """The NCAId of the PSD2 statement, or None."""
    return None if certificate.qc.psd2 is None else certificate.qc.psd2.nca_id


def nca_name(certificate: EidasCertificate) -> str | None:
    """The NCAName of the PSD2 statement, or None."""
    return None if certificate.qc.psd2 is None else certificate.qc.psd2.nca_name


def malformations(certificate: EidasCertificate) -> tuple[str, ...]:
    """The codes of the certificate's malformed parts, sorted, each once."""
    return tuple(sorted({finding.code for finding in certificate.findings}))


def listed(values: Collection[str]) -> str:
    """Join values: `none` if there are none; of more than 20, the first 20 and the number of others."""
    more = [f"{len(values) - _MAX_LISTED} more"] if len(values) > _MAX_LISTED else []
    return ", ".join([*islice(values, _MAX_LISTED), *more]) or "none"


def public_key_info(certificate: EidasCertificate) -> bytes | None:
    """DER of the SubjectPublicKeyInfo, which key pins hash; None if the key cannot be read."""
    try:
        return certificate.public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except FormatError:
        return None


def key_ids(one: EidasCertificate, other: EidasCertificate) -> Values:
    """The subject key identifiers."""
    first, second = ((c.extensions.subject_key_identifier or b"").hex() or "none" for c in (one, other))
    return first, second


def roles(certificate: EidasCertificate) -> tuple[str, ...]:
    """The PSD2 roles by their identifiers, in order: names where known, else dotted."""
    psd2 = certificate.qc.psd2
    identifiers = {role.oid for role in psd2.roles if role.oid} if psd2 else set[str]()
    ordered = sorted(identifiers, key=lambda oid: tuple(int(arc) for arc in oid.split(".")))
    return tuple(oids.PSP_ROLES.get(oid, oid) for oid in ordered)
