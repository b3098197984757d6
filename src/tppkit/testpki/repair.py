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
from tppkit.testpki.draft import Extension, extension_of
from tppkit.testpki.keys import KeySource, PrivateKey
from tppkit.testpki.provider import NOT_APPLICABLE, UNSUPERVISED, authority_name_of, is_dns_name
from tppkit.testpki.request import (
    kind_of,
    named_host,
    requested_subject,
    require_common_name,
    require_profile_key,
    write_request,
)

# What is no fault by any document, and yet maybe not what was meant.
_QUESTIONS = frozenset({"qcstatements.nca-name-absent"})


class Change(NamedTuple):
    """What was changed: the field's name as `cert show` has it, its text before, and after; empty where there was none."""

    field: str
    before: str
    after: str


def repair_request(request: EidasRequest, key: PrivateKey, *, kind: str | None = None) -> bytes:
    """DER of the request as it should be, signed with the same key.

    Args:
        request: the malformed one.
        key: the private key that it is for.
        kind: `qwac` or `qseal`; what the request says by default.

    Raises:
        ConfigurationError: `pki.request`; `pki.foreign-key`, the key is not the request's.
    """
    if key.public_key() != request.public_key:
        raise ConfigurationError("pki.foreign-key", "the key is not the one that the request is for")
    return write_request(requested_subject(request), _repaired_extensions(request, kind), key)


def openssl_config(request: EidasRequest, *, kind: str | None = None) -> str:
    """An OpenSSL configuration with which the holder of the key makes the request as it should be.

    Use: `openssl req -new -config FILE -key KEY -out NEW.csr`. Arguments as for `repair_request`.

    Raises:
        ConfigurationError: `pki.request`.
    """
    subject = "\n".join(
        f"{number}.{_OPENSSL_NAMES.get(oid, oid)} = {_config_value(text)}"
        for number, (oid, text, _) in enumerate(requested_subject(request))
    )
    wanted = "\n".join(
        f"{e.oid} = {'critical, ' if e.critical else ''}DER:{e.value.hex()}"
        for e in _repaired_extensions(request, kind)
    )
    return _CONFIG.format(subject=subject, extensions=wanted)


def changes_of(request: EidasRequest, *, kind: str | None = None) -> tuple[Change, ...]:
    """Everything that a repair changes, field by field, and every encoding that it writes anew; arguments as above.

    Raises:
        ConfigurationError: `pki.request`.
    """
    differences = find_differences(request, _mended(request, kind))
    changes = [Change(one.field, ", ".join(one.asked), ", ".join(one.made)) for one in differences]
    return (*changes, *(Change("encoding", finding.message, "written anew") for finding in request.findings))


def faults_left(request: EidasRequest, *, kind: str | None = None) -> tuple[Finding, ...]:
    """What is still wrong or open with the request as it is mended, and only who asks can say; arguments and errors as above.

    It is read again as it is written, and judged by the rules for requests. The key is judged as it is.
    """
    kind = kind or kind_of(request)
    mended = _mended(request, kind)
    found = (*mended.findings, *check_statement(mended))
    left = [finding for finding in found if finding.severity is Severity.ERROR or finding.code in _QUESTIONS]
    return (*left, *_unusable(request, mended, kind))


def _mended(request: EidasRequest, kind: str | None) -> EidasRequest:
    """The request as it is mended, for another key: nothing but the key is the holder's."""
    key = KeySource(seed=0).make_key("mended")
    return EidasRequest.from_der(write_request(requested_subject(request), _repaired_extensions(request, kind), key))


def _unusable(request: EidasRequest, mended: EidasRequest, kind: str) -> Iterator[Finding]:
    """Why no certificate of the kind has the request's key or its common name."""
    checks: tuple[Callable[[], None], ...] = (
        lambda: require_profile_key(request, kind=kind),
        lambda: require_common_name(mended.subject, mended.extensions.dns_names, kind=kind),
    )
    for check in checks:
        try:
            check()
        except ConfigurationError as e:
            yield Finding(e.code, Severity.ERROR, e.message, e.clause)


def _repaired_extensions(request: EidasRequest, kind: str | None) -> list[Extension]:
    """The extensions that the request meant; what is absent is taken from the profile of the certificate's kind."""
    kind = kind or kind_of(request)
    statements = Extension(oids.QC_STATEMENTS, _repaired_statements(request, kind))
    if kind == "qseal":
        return [extension_of(*profiles.key_usage("content_commitment")), statements]
    wanted = request.extensions.dns_names or named_host(request)
    names = [x509.DNSName(name) for name in wanted if is_dns_name(name)]
    return [
        extension_of(*profiles.key_usage("digital_signature")),
        extension_of(*profiles.tls_purposes()),
        *([extension_of(x509.SubjectAlternativeName(names), False)] if names else []),
        statements,
    ]


def _repaired_statements(request: EidasRequest, kind: str) -> bytes:
    """The roles are those that could be read by their identifiers, with their standard names."""
    qc, psd2 = request.qc, request.qc.psd2
    roles = tuple(
        RoleOfPsp(role.oid, oids.PSP_ROLES[role.oid])
        for role in (psd2.roles if psd2 else ())
        if role.oid in oids.PSP_ROLES
    )
    nca_name, nca_id = _repaired_authority(psd2, request.organization_identifier) if psd2 else ("", "")
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
