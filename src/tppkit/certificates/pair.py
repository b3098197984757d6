"""Whether a QWAC and a QSealC belong to one provider, and which of their differences matter.

A bank takes the roles from the QWAC of the connection and requires the seal to be of the same organisation; many also compare
authority and roles. Each finding says what its difference breaks.
"""

from __future__ import annotations

from datetime import datetime

from tppkit._clock import format_time
from tppkit._locals import without_locals
from tppkit.certificates import oids
from tppkit.certificates.certificate import EidasCertificate
from tppkit.certificates.differences import (
    Difference,
    Find,
    Values,
    attribute,
    differs,
    find_differences,
    key_ids,
    listed,
    malformations,
    nca_id,
    nca_name,
    no_organization,
    organizations_are,
    public_key_info,
    roles,
)
from tppkit.certificates.identifier import Likeness
from tppkit.errors import Finding, Severity


@without_locals
def check_pair(qwac: EidasCertificate, qsealc: EidasCertificate) -> tuple[Finding, ...]:
    """Every difference between a QWAC and a QSealC that matters; never raises on their content.

    Whether each fits its own profile is checked by `check_certificate`, whether it is trusted by `tppkit.trust`.

    Args:
        qwac: the website certificate.
        qsealc: the seal certificate.

    Returns:
        No error among them: both are of one provider, from one authority, with the same roles, and valid together at some time.

    Source: PSD2 document, part A section 5 rules 2 and 4; TS 119 495 GEN-5.3-2, -3 and GEN-5.4-2, -3.
    """
    return tuple(find_differences(_DIFFERENCES, qwac, qsealc, names=("qwac", "qseal"), is_renewal=False))


def valid_together(one: EidasCertificate, other: EidasCertificate) -> tuple[datetime, datetime] | None:
    """First and last moment at which both certificates are valid, aware UTC; None if there is none."""
    begins, ends = max(one.not_before, other.not_before), min(one.not_after, other.not_after)
    return (begins, ends) if begins <= ends else None


def _types(*certificates: EidasCertificate) -> tuple[str, ...]:
    return tuple(", ".join(certificate.qc.types) or "none" for certificate in certificates)


def _same(one: EidasCertificate, other: EidasCertificate) -> Values | None:
    return (one.sha256, other.sha256) if one.sha256 == other.sha256 else None


def _swapped(one: EidasCertificate, other: EidasCertificate) -> Values | None:
    return ("eseal", "web") if _types(one, other) == ("eseal", "web") else None


def _not_of_kind(place: int, kind: str) -> Find:
    def find(one: EidasCertificate, other: EidasCertificate) -> Values | None:
        types = _types(one, other)
        return (types[0], types[1]) if types[place] != kind and not _swapped(one, other) else None

    return find


def _no_statement(one: EidasCertificate, other: EidasCertificate) -> Values | None:
    stated = ["present" if certificate.qc.psd2 else "absent" for certificate in (one, other)]
    lacking = [name for name, state in zip(("the QWAC", "the seal"), stated, strict=True) if state == "absent"]
    return (stated[0], stated[1], " and ".join(lacking)) if lacking else None


def _roles(one: EidasCertificate, other: EidasCertificate) -> Values | None:
    ours, theirs = roles(one), roles(other)
    if ours == theirs or one.qc.psd2 is None or other.qc.psd2 is None:
        return None
    qwac, seal = ([role for role in some if role not in rest] for some, rest in ((ours, theirs), (theirs, ours)))
    breaks = [f"{listed(qwac)} only in the QWAC: a bank that asks the seal too denies those calls"] if qwac else []
    breaks += [f"{listed(seal)} only in the seal: every bank denies those calls, the QWAC decides"] if seal else []
    return listed(ours), listed(theirs), "; ".join(breaks)


def _authority_name(one: EidasCertificate, other: EidasCertificate) -> Values | None:
    return (
        differs(nca_name, detail=lambda one, _: nca_id(one) or "")(one, other) if nca_id(one) == nca_id(other) else None
    )


def _validity(*, ever: bool) -> Find:
    def find(one: EidasCertificate, other: EidasCertificate) -> Values | None:
        periods = [f"{format_time(c.not_before)} to {format_time(c.not_after)}" for c in (one, other)]
        together = valid_together(one, other)
        if periods[0] == periods[1] or (together is not None) is not ever:
            return None
        return periods[0], periods[1], "" if together is None else " to ".join(map(format_time, together))

    return find


def _same_key(one: EidasCertificate, other: EidasCertificate) -> Values | None:
    key = public_key_info(one)
    if key is None or key != public_key_info(other) or one.sha256 == other.sha256:
        return None
    return key_ids(one, other)


def _malformed(one: EidasCertificate, other: EidasCertificate) -> Values | None:
    faults = [", ".join(malformations(certificate)) for certificate in (one, other)]
    stated = [f"{name}: {codes}" for name, codes in zip(("QWAC", "seal"), faults, strict=True) if codes]
    return (faults[0], faults[1], "; ".join(stated)) if stated else None


_ERROR, _WARNING, _NOTICE = Severity.ERROR, Severity.WARNING, Severity.NOTICE
_SAME_PROVIDER, _QC_TYPE = "PSD2 document A.5 rule 4", "EN 319 412-5 clause 4.2.3"
_IN_BOTH = "{one} in the QWAC, {other} in the seal"
# fmt: off
_DIFFERENCES = (
    Difference("pair.same-certificate", _ERROR, None,
               "both are the same certificate; a website certificate and a seal certificate are two", _same),
    Difference("pair.swapped", _ERROR, _QC_TYPE,
               "they are interchanged: the first is the seal certificate, the second the website certificate", _swapped),
    Difference("pair.kind", _ERROR, _QC_TYPE,
               "the first certificate is no QWAC: its QcType is {one}, not web", _not_of_kind(0, "web")),
    Difference("pair.kind", _ERROR, _QC_TYPE,
               "the second certificate is no QSealC: its QcType is {other}, not eseal", _not_of_kind(1, "eseal")),
    Difference("pair.no-organisation", _ERROR, None,
               f"organizationIdentifiers: {_IN_BOTH}; each must have one that names an organisation, or nothing shows that they"
               " belong to one provider", no_organization),
    Difference("pair.other-organisation", _ERROR, _SAME_PROVIDER,
               f"two organisations: {_IN_BOTH}; a bank rejects the seal", organizations_are(Likeness.OTHER)),
    Difference("pair.organisation-text", _ERROR, _SAME_PROVIDER,
               f"perhaps one organisation written in two ways: {_IN_BOTH}; a bank that compares the text rejects the seal",
               organizations_are(Likeness.WRITTEN_OTHERWISE)),
    Difference("pair.organisation-scheme", _ERROR, _SAME_PROVIDER,
               f"the same number under two schemes or authorities: {_IN_BOTH}; probably one organisation, but a bank that compares"
               " the identifier rejects the seal", organizations_are(Likeness.SAME_NUMBER)),
    Difference("pair.no-psd2", _ERROR, "TS 119 495 GEN-5.3-2, GEN-5.4-2",
               "{detail} has no PSD2 statement, so authority and roles cannot be compared", _no_statement),
    Difference("pair.other-authority", _ERROR, "TS 119 495 GEN-5.2.3-2",
               f"two competent authorities: {_IN_BOTH}", differs(nca_id)),
    Difference("pair.authority-name", _NOTICE, None,
               "one competent authority ({detail}) by two names: {one} and {other}", _authority_name),
    Difference("pair.other-roles", _ERROR, "PSD2 document A.5 rule 2", "the roles differ: {detail}", _roles),
    Difference("pair.organisation-name", _WARNING, None,
               f"the organizationName differs: {_IN_BOTH}", differs(attribute(oids.ORGANIZATION))),
    Difference("pair.country", _WARNING, None, f"the countryName differs: {_IN_BOTH}", differs(attribute(oids.COUNTRY))),
    Difference("pair.never-together", _ERROR, "RFC 5280 section 4.1.2.5",
               "they are never valid together: the QWAC from {one}, the seal from {other}", _validity(ever=False)),
    Difference("pair.validity", _NOTICE, None,
               "both are valid only from {detail}; replace the one that ends first before that", _validity(ever=True)),
    Difference("pair.same-key", _WARNING, "NIST SP 800-57 part 1 section 5.2",
               "both certify one key: software that can open TLS connections can also seal; make a key for each", _same_key),
    Difference("pair.other-issuer", _NOTICE, None,
               "two issuers: the QWAC is from {one}, the seal from {other}; a bank must trust both",
               differs(lambda certificate: str(certificate.issuer))),
    Difference("pair.malformed", _WARNING, None,
               "only what could be read of malformed certificates was compared ({detail}); a strict bank rejects them", _malformed),
)
