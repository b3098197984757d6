"""Checks of the PSD2 statement: roles, competent authority, and agreement with the organizationIdentifier."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from datetime import datetime

from tppkit._encoding import shown
from tppkit._iso_codes import COUNTRIES
from tppkit._text import hidden_character
from tppkit.certificates import oids
from tppkit.certificates.authorities import AUTHORITIES
from tppkit.certificates.certificate import Subject
from tppkit.certificates.qcstatements import Psd2Statement
from tppkit.certificates.rule import Fault, SubjectCheck

_NCA_ID = re.compile(r"([A-Z]{2})-[A-Z]{2,8}")
_LIKE_NCA_ID = re.compile(r"[A-Za-z]{2}[^A-Za-z]?[A-Za-z]{0,8}")  # such as lt-bl, LT_BL, LTBL
_MAX_NOTHING = 4  # letters of a placeholder such as N/A or none
_MAX_TEXT = 256  # characters of NCAName, NCAId and roleOfPspName (TS 119 495 annex A)
_NOT_APPLICABLE = "NA"
# Central banks and public authorities have no supervisor (GEN-5.2.3-1A, GEN-5.2.3-5).
_UNSUPERVISED = frozenset({oids.ROLE_OIDS["PSP_CB"], oids.ROLE_OIDS["PSP_PA"]})
_UNSPECIFIED = oids.ROLE_OIDS["Unspecified"]


def no_statement(certificate: Subject, at: datetime) -> Fault | None:
    """No PSD2 statement."""
    return None if certificate.qc.psd2 else ("no PSD2 QcStatement can be read", {})


def no_roles(certificate: Subject, at: datetime) -> Fault | None:
    """A PSD2 statement without roles."""
    psd2 = certificate.qc.psd2
    return ("the PSD2 QcStatement names no role", {}) if psd2 and not psd2.roles else None


def role_mismatch(certificate: Subject, at: datetime) -> Fault | None:
    """The name of a role does not fit its identifier."""
    for role in certificate.qc.psd2.roles if certificate.qc.psd2 else ():
        if role.oid in oids.PSP_ROLES and role.name != role.standard_name:
            message = f"role {role.oid} is {role.standard_name}, but is named {shown(role.name)}"
            return message, {"oid": role.oid, "name": role.name}
    return None


def unspecified_and_more(certificate: Subject, at: datetime) -> Fault | None:
    """The role Unspecified together with other roles."""
    psd2 = certificate.qc.psd2
    if psd2 is None or len(psd2.roles) < 2 or all(role.oid != _UNSPECIFIED for role in psd2.roles):
        return None
    stated = ", ".join(psd2.role_names)
    return f"the role Unspecified appears together with others ({shown(stated)})", {"roles": stated}


def role_repeated(certificate: Subject, at: datetime) -> Fault | None:
    """The same role twice."""
    found = Counter(role.oid for role in certificate.qc.psd2.roles if role.oid) if certificate.qc.psd2 else Counter()
    twice = sorted(oid for oid, times in found.items() if times > 1)
    return (f"a role appears more than once ({', '.join(twice)})", {"oids": ", ".join(twice)}) if twice else None


def role_unknown(certificate: Subject, at: datetime) -> Fault | None:
    """A role that TS 119 495 does not list. It grants nothing here, but may be registered elsewhere."""
    for role in certificate.qc.psd2.roles if certificate.qc.psd2 else ():
        if role.oid and role.oid not in oids.PSP_ROLES:
            message = f"the role {role.oid} ({shown(role.name)}) is not in TS 119 495, so it grants nothing here"
            return message, {"oid": role.oid, "name": role.name}
    return None


def role_of_later(*names: str) -> SubjectCheck:
    """One of the roles that only a later edition of the standard defines."""
    later = frozenset(oids.ROLE_OIDS[name] for name in names)

    def check(certificate: Subject, at: datetime) -> Fault | None:
        for role in certificate.qc.psd2.roles if certificate.qc.psd2 else ():
            if role.oid in later:
                message = (
                    f"the role {role.standard_name} is of a later edition than the one that this certificate follows"
                )
                return message, {"oid": role.oid, "name": role.name}
        return None

    return check


def text_size(certificate: Subject, at: datetime) -> Fault | None:
    """A text of the PSD2 statement is empty or too long."""
    psd2 = certificate.qc.psd2
    if psd2 is None:
        return None
    texts = [("NCAName", psd2.nca_name), ("NCAId", psd2.nca_id), *(("roleOfPspName", role.name) for role in psd2.roles)]
    for name, text in texts:
        if not 1 <= len(text) <= _MAX_TEXT:
            message = f"{name} has {len(text)} characters, not 1 to {_MAX_TEXT}"
            return message, {"field": name, "characters": str(len(text))}
    return None


def name_not_plain(certificate: Subject, at: datetime) -> Fault | None:
    """The authority's name has letters of another alphabet than Latin, or invisible characters.

    Accents and digits are Latin text too. A UTF8String may contain control characters; plain text does not.
    """
    name = certificate.qc.psd2.nca_name if certificate.qc.psd2 else ""
    hidden = hidden_character(name.replace("\u00a0", " "))  # a no-break space looks like a space
    if hidden is not None:
        message = f"NCAName {shown(name)} has an invisible character (U+{ord(hidden):04X}), so it is not plain text"
        return message, {"nca_name": name, "character": f"U+{ord(hidden):04X}"}
    if name.isascii():
        return None
    for character in name:
        if character.isalpha() and not unicodedata.name(character, "").startswith(("LATIN", "FULLWIDTH LATIN")):
            message = f"NCAName {shown(name)} has a letter ({shown(character)}) that is not Latin"
            return message, {"nca_name": name, "letter": character}
    return None


def name_not_applicable(certificate: Subject, at: datetime) -> Fault | None:
    """NCAName is `NA` (no authority), but NCAId names an authority."""
    psd2 = certificate.qc.psd2
    if psd2 is None or psd2.nca_name != _NOT_APPLICABLE or not _NCA_ID.fullmatch(psd2.nca_id):
        return None
    message = f"NCAName is NA (no authority), but NCAId names {psd2.nca_id}"
    return message, {"nca_name": psd2.nca_name, "nca_id": psd2.nca_id}


def nca_id_form(certificate: Subject, at: datetime) -> Fault | None:
    """The authority's identifier is not CC-AUTHORITY."""
    psd2 = certificate.qc.psd2
    if psd2 is None or not psd2.nca_id or _NCA_ID.fullmatch(psd2.nca_id) or _names_no_authority(certificate):
        return None
    if are_name_and_id_exchanged(psd2):  # reported by `name_is_identifier`
        return None
    return f"NCAId {shown(psd2.nca_id)} is not CC-AUTHORITY in 2 and 2 to 8 capital letters", {"nca_id": psd2.nca_id}


def name_is_identifier(certificate: Subject, at: datetime) -> Fault | None:
    """NCAName is an authority's identifier, whatever the NCAId is."""
    psd2 = certificate.qc.psd2
    if psd2 is None or not _NCA_ID.fullmatch(psd2.nca_name):
        return None
    message = f"NCAName {shown(psd2.nca_name)} is an identifier, not a name"
    if are_name_and_id_exchanged(psd2):
        message = f"{message}, and NCAId {shown(psd2.nca_id)} is a name: they are exchanged"
    return message, {"nca_name": psd2.nca_name, "nca_id": psd2.nca_id}


def are_name_and_id_exchanged(psd2: Psd2Statement) -> bool:
    """Whether NCAName is an identifier and NCAId a name: a known one, or a text that cannot be a misspelt identifier."""
    if not _NCA_ID.fullmatch(psd2.nca_name) or _NCA_ID.fullmatch(psd2.nca_id):
        return False
    if psd2.nca_id in AUTHORITIES.values():
        return True
    return not _LIKE_NCA_ID.fullmatch(psd2.nca_id) and sum(map(str.isalpha, psd2.nca_id)) > _MAX_NOTHING


def nca_country(certificate: Subject, at: datetime) -> Fault | None:
    """The authority's country is not in ISO 3166."""
    form = _NCA_ID.fullmatch(certificate.qc.psd2.nca_id) if certificate.qc.psd2 else None
    if form is None or form.group(1) in COUNTRIES:
        return None
    return f"the country {form.group(1)} of NCAId {form.group()} is not in ISO 3166-1", {"nca_id": form.group()}


def authority_where_none_is(certificate: Subject, at: datetime) -> Fault | None:
    """A central bank or public authority names an authority instead of `NA`."""
    psd2 = certificate.qc.psd2
    if psd2 is None or not _is_unsupervised(certificate) or psd2.nca_name == psd2.nca_id == _NOT_APPLICABLE:
        return None
    message = f"NCAName {shown(psd2.nca_name)} and NCAId {shown(psd2.nca_id)} of a central bank or authority are not NA"
    return message, {"nca_name": psd2.nca_name, "nca_id": psd2.nca_id}


def authority_mismatch(certificate: Subject, at: datetime) -> Fault | None:
    """The organizationIdentifier and the PSD2 statement name different authorities."""
    identifier, psd2 = certificate.organization_identifier, certificate.qc.psd2
    if identifier is None or identifier.nca_id is None or psd2 is None or not psd2.nca_id:
        return None
    if psd2.nca_id == identifier.nca_id or _names_no_authority(certificate):
        return None
    message = f"the organizationIdentifier names {identifier.nca_id}, NCAId is {shown(psd2.nca_id)}"
    return message, {"organization_identifier": identifier.text, "nca_id": psd2.nca_id}


def authority_unknown(certificate: Subject, at: datetime) -> Fault | None:
    """An authority that is not in the informative list."""
    nca_id = certificate.qc.psd2.nca_id if certificate.qc.psd2 else ""
    if nca_id in AUTHORITIES or not _NCA_ID.fullmatch(nca_id):
        return None
    return f"{nca_id} is not in the informative list of authorities", {"nca_id": nca_id}


def _is_unsupervised(certificate: Subject) -> bool:
    psd2 = certificate.qc.psd2
    return psd2 is not None and any(role.oid in _UNSUPERVISED for role in psd2.roles)


def _names_no_authority(certificate: Subject) -> bool:
    psd2 = certificate.qc.psd2
    return psd2 is not None and psd2.nca_id == _NOT_APPLICABLE and _is_unsupervised(certificate)
