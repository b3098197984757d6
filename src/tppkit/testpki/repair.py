"""Malformed certificate requests mended: what they meant, written as it should be, and what was changed for it.

Sources: ETSI TS 119 495 clause 5, RFC 2986 section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from cryptography import x509

from tppkit.certificates import (
    EidasRequest,
    OrganizationIdentifier,
    Psd2Statement,
    RoleOfPsp,
    check_statement,
    oids,
)
from tppkit.certificates.checks.psd2 import are_name_and_id_exchanged, is_nca_id
from tppkit.certificates.write_qcstatements import write_qc_statements
from tppkit.errors import ConfigurationError, Finding, Severity
from tppkit.testpki import profiles
from tppkit.testpki.differences import find_differences
from tppkit.testpki.draft import Attribute, Extension, attribute_of, attributes_of, extension_of
from tppkit.testpki.keys import KeySource, PrivateKey
from tppkit.testpki.provider import NOT_APPLICABLE, UNSUPERVISED, Corrections, authority_name_of, is_dns_name
from tppkit.testpki.request import (
    kind_of,
    named_host,
    require_common_name,
    require_country_code,
    require_profile_key,
    require_writable,
    write_request,
)

NONE = Corrections()
# What is no fault by any document, and yet maybe not what was meant.
_QUESTIONS = frozenset({"qcstatements.nca-name-absent"})


class Change(NamedTuple):
    """What was changed: the field's name as `cert show` has it, its text before, and after; empty where there was none."""

    field: str
    before: str
    after: str


def repair_request(
    request: EidasRequest, key: PrivateKey, *, kind: str | None = None, corrections: Corrections = NONE
) -> bytes:
    """DER of the request as it should be, signed with the same key.

    Args:
        request: the malformed one.
        key: the private key that it is for.
        kind: `qwac` or `qseal`; what the request says by default.
        corrections: what the holder says beside it.

    Raises:
        ConfigurationError: `pki.request`; `pki.foreign-key`, the key is not the request's.
    """
    if key.public_key() != request.public_key:
        raise ConfigurationError("pki.foreign-key", "the key is not the one that the request is for")
    return _write(request, key, kind or kind_of(request), corrections)


def openssl_config(request: EidasRequest, *, kind: str | None = None, corrections: Corrections = NONE) -> str:
    """An OpenSSL configuration with which the holder of the key makes the request as it should be.

    Use: `openssl req -new -config FILE -key KEY -out NEW.csr`. Arguments as for `repair_request`.

    Raises:
        ConfigurationError: `pki.request`.
    """
    kind = kind or kind_of(request)
    subject = "\n".join(
        f"{number}.{_OPENSSL_NAMES.get(oid, oid)} = {_config_value(text)}"
        for number, (oid, text, _) in enumerate(_repaired_subject(request, kind, corrections))
    )
    wanted = "\n".join(
        f"{e.oid} = {'critical, ' if e.critical else ''}DER:{e.value.hex()}"
        for e in _repaired_extensions(request, kind, corrections)
    )
    return _CONFIG.format(subject=subject, extensions=wanted)


def changes_of(
    request: EidasRequest, *, kind: str | None = None, corrections: Corrections = NONE
) -> tuple[Change, ...]:
    """Everything that a repair changes, field by field, and every encoding that it writes anew; arguments as above.

    Raises:
        ConfigurationError: `pki.request`.
    """
    differences = find_differences(request, _mended(request, kind or kind_of(request), corrections))
    changes = [Change(one.field, ", ".join(one.asked), ", ".join(one.made)) for one in differences]
    return (*changes, *(Change("encoding", finding.message, "written anew") for finding in request.findings))


def faults_left(
    request: EidasRequest, *, kind: str | None = None, corrections: Corrections = NONE
) -> tuple[Finding, ...]:
    """What is still wrong or open with the request as it is mended, and only who asks can say; arguments and errors as above.

    It is read again as it is written, and judged by the rules for requests. The key is judged as it is.
    """
    kind = kind or kind_of(request)
    mended = _mended(request, kind, corrections)
    found = (*mended.findings, *check_statement(mended))
    left = [finding for finding in found if finding.severity is Severity.ERROR or finding.code in _QUESTIONS]
    return (*left, *_unusable(request, mended, kind))


def _mended(request: EidasRequest, kind: str, corrections: Corrections) -> EidasRequest:
    """The request as it is mended, for another key: nothing but the key is the holder's."""
    return EidasRequest.from_der(_write(request, KeySource(seed=0).make_key("mended"), kind, corrections))


def _write(request: EidasRequest, key: PrivateKey, kind: str, corrections: Corrections) -> bytes:
    subject = _repaired_subject(request, kind, corrections)
    return write_request(subject, _repaired_extensions(request, kind, corrections), key)


def _repaired_subject(request: EidasRequest, kind: str, corrections: Corrections) -> tuple[Attribute, ...]:
    """The name without outer blanks, which OpenSSL's configuration cannot have, and with what the holder corrects, once each."""
    identifier = corrections.organization_identifier
    stated = {
        oids.COUNTRY: corrections.country,
        oids.ORGANIZATION: corrections.name,
        oids.ORGANIZATION_IDENTIFIER: identifier.text if identifier else None,
        oids.COMMON_NAME: corrections.dns_name if kind == "qwac" else None,
    }
    corrected = {oid: attribute_of(oid, text) for oid, text in stated.items() if text is not None}
    kept = (one._replace(text=one.text.strip(" ")) for one in attributes_of(request.subject))
    named = [corrected.get(one.oid, one) for one in kept]
    once = [one for number, one in enumerate(named) if one.oid not in corrected or one not in named[:number]]
    return require_writable((*once, *(one for one in corrected.values() if one not in named)))


def _unusable(request: EidasRequest, mended: EidasRequest, kind: str) -> Iterator[Finding]:
    """Why no certificate of the kind has the request's key, its country or its common name."""
    checks: tuple[Callable[[], None], ...] = (
        lambda: require_profile_key(request, kind=kind),
        lambda: require_country_code(mended.subject),
        lambda: require_common_name(mended.subject, mended.extensions.dns_names, kind=kind),
    )
    for check in checks:
        try:
            check()
        except ConfigurationError as e:
            yield Finding(e.code, Severity.ERROR, e.message, e.clause)


def _repaired_extensions(request: EidasRequest, kind: str, corrections: Corrections) -> list[Extension]:
    """The extensions that the request meant; what is absent is taken from the profile of the certificate's kind."""
    statements = Extension(oids.QC_STATEMENTS, _repaired_statements(request, kind, corrections))
    if kind == "qseal":
        return [extension_of(*profiles.key_usage("content_commitment")), statements]
    wanted = (corrections.dns_name,) if corrections.dns_name else request.extensions.dns_names or named_host(request)
    names = [x509.DNSName(name) for name in wanted if is_dns_name(name)]
    return [
        extension_of(*profiles.key_usage("digital_signature")),
        extension_of(*profiles.tls_purposes()),
        *([extension_of(x509.SubjectAlternativeName(names), False)] if names else []),
        statements,
    ]


def _repaired_statements(request: EidasRequest, kind: str, corrections: Corrections) -> bytes:
    """The roles are those that could be read by their identifiers, with their standard names."""
    qc, psd2 = request.qc, request.qc.psd2
    stated = [role.oid for role in psd2.roles] if psd2 else []
    wanted = stated if corrections.roles is None else [oids.ROLE_OIDS[role] for role in corrections.roles]
    roles = tuple(RoleOfPsp(oid, oids.PSP_ROLES[oid]) for oid in wanted if oid in oids.PSP_ROLES)
    nca_name, nca_id = _corrected_authority(request, corrections)
    if not roles or not nca_id:
        raise ConfigurationError(
            "pki.request", "no role, or no authority, can be read from the request: make a new one"
        )
    return write_qc_statements(
        qc_type="web" if kind == "qwac" else "eseal",
        psd2=Psd2Statement(tuple(dict.fromkeys(roles)), nca_name, nca_id),
        pds=tuple(place for place in qc.pds if place.url.isascii() and place.language.isascii()),
        sscd=qc.sscd and kind == "qseal",
        semantics=qc.semantics if qc.semantics == oids.SEMANTICS_EIDAS_LEGAL else oids.SEMANTICS_LEGAL,
        name_registration_authorities=tuple(filter(str.isascii, qc.name_registration_authorities)),
    )


def _corrected_authority(request: EidasRequest, corrections: Corrections) -> tuple[str, str]:
    """NCAName and NCAId as they were meant, or as the holder corrects them: an identifier of the scheme PSD says who it is."""
    psd2, holder = request.qc.psd2, corrections.organization_identifier
    nca_name, nca_id = _repaired_authority(psd2, holder or request.organization_identifier) if psd2 else ("", "")
    if holder is not None and holder.nca_id not in (None, nca_id):
        nca_id = holder.nca_id or nca_id
        nca_name = authority_name_of(nca_id)
    return corrections.nca_name or nca_name, nca_id


def _repaired_authority(psd2: Psd2Statement, holder: OrganizationIdentifier | None) -> tuple[str, str]:
    """NCAName and NCAId as they were meant.

    Exchanged texts are put back. Where only NCAName is an identifier, it is what NCAId is not; where neither is one, the
    organizationIdentifier says who the authority is. What is sound stays, also where it contradicts the organizationIdentifier:
    which of them is right is for the holder to say.
    """
    nca_name, nca_id = psd2.nca_name, psd2.nca_id
    if are_name_and_id_exchanged(psd2):
        return nca_id, nca_name
    if not is_nca_id(nca_id) and not _names_none(psd2):
        stated = nca_name if is_nca_id(nca_name) else None
        nca_id = stated or (holder.nca_id if holder else None) or nca_id
    if not nca_name or is_nca_id(nca_name):
        nca_name = authority_name_of(nca_id)
    return nca_name, nca_id


def _names_none(psd2: Psd2Statement) -> bool:
    """Whether it says that nobody supervises the holder, as for central banks and public authorities."""
    return psd2.nca_id == NOT_APPLICABLE and not UNSUPERVISED.isdisjoint(psd2.role_names)


def _config_value(text: str) -> str:
    for special in "\\$#\"'":
        text = text.replace(special, f"\\{special}")
    return text


_OPENSSL_NAMES = {"2.5.4.97": "organizationIdentifier"} | {
    oid: name for oid, name in oids.NAME_ATTRIBUTES.items() if name in ("C", "O", "OU", "CN", "L", "ST")
}
_CONFIG = """# openssl req -new -config THIS_FILE -key YOUR.key -out NEW.csr
[ req ]
prompt = no
utf8 = yes
string_mask = utf8only
distinguished_name = subject
req_extensions = extensions

[ subject ]
{subject}

[ extensions ]
{extensions}
"""
