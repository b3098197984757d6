"""What a test PKI certifies of a request, and what it refuses.

Sources: ETSI TS 119 495 clause 5, ETSI EN 319 412-4 clause 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit._encoding import shown
from tppkit.certificates import EidasCertificate, EidasRequest, check_statement, oids
from tppkit.certificates.general_names import DNS_NAME
from tppkit.certificates.rules import first_error
from tppkit.errors import ConfigurationError, Finding
from tppkit.testpki import profiles
from tppkit.testpki.authority import Pki
from tppkit.testpki.differences import find_differences
from tppkit.testpki.keys import KEY_KINDS, SEAL_KEY_KINDS, PrivateKey, kind_of_public_key
from tppkit.testpki.provider import Provider, is_dns_name, provider_of
from tppkit.testpki.repair import faults_left
from tppkit.testpki.request import (
    alternative_names,
    kind_of,
    kind_of_type,
    named_host,
    requested_subject,
    require_common_name,
    require_profile_key,
)


class Dropped(NamedTuple):
    """Something that a request asks for and its certificate lacks: the field's name in `cert show --json`, and the value."""

    field: str
    value: str


def find_dropped(request: EidasRequest, certificate: EidasCertificate) -> tuple[Dropped, ...]:
    """What of a request the certificate that was issued for it lacks, field by field."""
    differences = find_differences(request, certificate)
    return tuple(Dropped(one.field, value) for one in differences for value in one.lacking)


def requested_kind(request: EidasRequest, stated: str | None) -> str:
    """The kind of certificate: what the request says, or where it says nothing, what is stated beside it.

    Args:
        request: the request.
        stated: `qwac` or `qseal`; None where nothing is stated.

    Raises:
        ConfigurationError: `pki.request`: neither says it, or they contradict each other.
    """
    if stated is None:
        return kind_of(request)
    other = kind_of_type(request)
    if other not in (None, stated):
        raise ConfigurationError("pki.request", f"the request is for a {other} by its QcType, not for a {stated}")
    return stated


def certify(pki: Pki, request: EidasRequest, *, kind: str, label: str) -> EidasCertificate:
    """The certificate that a request asks for.

    Args:
        pki: with the validity that it has.
        request: the request.
        kind: `qwac` or `qseal`.
        label: short name.

    Raises:
        ConfigurationError: as `PkiFolder.issue_requested`.
    """
    provider, names = provider_of_request(request, kind=kind), requested_dns_names(request, kind=kind)
    known = {issued.label: issued.key for issued in pki.issued} | dict(pki.callback_keys)
    public_key = require_new_key(request, kind=kind, known=known)
    return pki.issue_requested(
        provider, kind=kind, label=label, subject=requested_subject(request), names=names, public_key=public_key
    )


def asks_for_ev(request: EidasRequest) -> bool:
    """Whether it asks for a website certificate that browsers believe: by policy, or by what only such a one says."""
    asked = {*request.extensions.policies, *request.extensions.present}
    stated = {oid for rdn in request.subject.rdns for oid, _ in rdn}
    return not asked.isdisjoint(
        (*profiles.QWAC_POLICIES["ev"], oids.CABF_ORGANIZATION_IDENTIFIER)
    ) or not stated.isdisjoint(profiles.EV_ATTRIBUTES)


def requested_dns_names(request: EidasRequest, *, kind: str) -> tuple[str, ...]:
    """The DNS names that a QWAC is asked for; none for a QSealC.

    Raises:
        ConfigurationError: `pki.request`: names of other forms are asked for, which a QWAC of this PKI has not, or none that
            can be read, or what such a certificate never has, or none that is the common name; `pki.dns-name`.
    """
    names = alternative_names(request)
    if (request.qc.sscd and kind == "qwac") or (names and kind == "qseal"):
        odd = "a qualified device" if kind == "qwac" else "alternative names"
        raise ConfigurationError("pki.request", f"the request for a {kind} asks for {odd}: make a new one without")
    for name in names:
        if name.form != DNS_NAME:
            message = f"the request asks for an alternative name that is no DNS name ({name.form})"
            raise ConfigurationError("pki.request", f"{message}: make a new one without it")
    if not names and oids.SUBJECT_ALTERNATIVE_NAME in request.extensions.present:
        raise ConfigurationError("pki.request", "the alternative names of the request cannot be read: make a new one")
    for text in request.extensions.dns_names:
        if not is_dns_name(text):
            raise ConfigurationError("pki.dns-name", f"{shown(text)} is not a DNS name in lower case")
    if kind == "qseal":
        return ()
    wanted = request.extensions.dns_names or named_host(request)
    require_common_name(request.subject, wanted, kind=kind)
    if not wanted:
        raise ConfigurationError("pki.request", "the request for a qwac has no DNS name: make a new one")
    return wanted


def require_new_key(request: EidasRequest, *, kind: str, known: Mapping[str, PrivateKey]) -> bytes:
    """DER of the request's SubjectPublicKeyInfo, when its key is of a kind that such certificates have, and nobody else's.

    Args:
        request: the request.
        kind: `qwac` or `qseal`.
        known: keys of others by their labels.

    Raises:
        ConfigurationError: `pki.key-kind`; `pki.foreign-key`, another has the key.
    """
    key, kinds = request.public_key, SEAL_KEY_KINDS if kind == "qseal" else KEY_KINDS
    require_profile_key(request, kind=kind)
    if kind_of_public_key(key) not in kinds:
        what = f"{request.key.type}, {request.key.bits or request.key.curve}"
        raise ConfigurationError("pki.key-kind", f"the request's key ({what}) is none of {', '.join(kinds)}")
    owner = next((label for label, other in known.items() if other.public_key() == key), None)
    if owner is not None:
        message = f"the request's key is that of {owner}: make one for this request"
        raise ConfigurationError("pki.foreign-key", message)
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def provider_of_request(request: EidasRequest, *, kind: str) -> Provider:
    """The provider that asks.

    Raises:
        ConfigurationError: as `make_provider`; `pki.request`, the request is malformed.
    """
    fault = first_error((*request.findings, *check_statement(request)))
    if fault is not None:
        raise ConfigurationError(
            "pki.request", f"the request is malformed, {_what_mends(request, kind)}: {fault.message}"
        )
    return provider_of(request)


def _what_mends(request: EidasRequest, kind: str) -> str:
    try:
        left: tuple[Finding, ...] = faults_left(request, kind=kind)
    except ConfigurationError:
        return "and no repair can tell what it means (make a new one: pki csr)"
    if left:
        return f"and no repair can tell what is meant ({left[0].message}; make a new one: pki csr)"
    return "mend it first (pki csr --repair)"
