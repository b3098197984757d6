"""Qualified status: whether trusted lists make a certificate a qualified one, for what, and by which service, at a time.

A certificate is qualified at a time if the service that issued it had a granting status at its issuance and at that time, for the
purpose, and neither the certificate nor the list denies it. The statements of several services of one key are combined; a denial
prevails.

Source: ETSI TS 119 615 clause 4.4, ETSI TS 119 612 clause 5.5, Regulation (EU) No 910/2014.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from tppkit._clock import format_time
from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected, ConfigurationError, Finding, Severity
from tppkit.trust.anchors import Anchors
from tppkit.trust.path.verifier import PathVerifier
from tppkit.trust.trusted_list.model import Service, ServiceInstance, TrustedList
from tppkit.trust.trusted_list.services import IssuingService
from tppkit.trust.trusted_list.uris import (
    DEVICE_AS_IN_CERTIFICATE,
    EIDAS_STARTS,
    GRANTED,
    NOT_QUALIFIED,
    PURPOSE_QUALIFIERS,
    QUALIFIED_BY_LIST,
    QUALIFIED_CA,
    ROOT_CA_QC,
    SERVICE_PURPOSES,
    WITH_DEVICE,
    WITHOUT_DEVICE,
)

#: What a qualified certificate is for.
Purpose = Literal["esign", "eseal", "web"]
PURPOSES: tuple[Purpose, ...] = ("esign", "eseal", "web")
_CLAUSE = "TS 119 615 clause 4.4.4"
_DENIED = "trusted-list.not-qualified"


@dataclass(frozen=True, slots=True)
class Listing:
    """The state of a service that decided.

    Attributes:
        issuer: the service.
        instance: its state in force at the moment.
        matched_by: how that state identifies the key: `certificate`, `key-id`, `service`; else `none`.
    """

    issuer: IssuingService
    instance: ServiceInstance
    matched_by: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """The qualified status of a certificate at one moment, by one service or by several.

    Attributes:
        at: the moment, aware UTC.
        qualified_for: of `esign`, `eseal`, `web`; empty if it is not qualified.
        with_device: whether certificate and list state that the key is in a qualified device.
        listing: the service and state that decided; None if no service was found or none had begun.
        findings: the reasons for no qualification, and further warnings; the first error decides.
    """

    at: datetime
    qualified_for: tuple[Purpose, ...] = ()
    with_device: bool = False
    listing: Listing | None = None
    findings: tuple[Finding, ...] = ()


def judge(
    certificate: EidasCertificate,
    services: Iterable[IssuingService],
    *,
    at: datetime,
    list_of_lists: TrustedList | None,
) -> Judgement:
    """Judge a certificate at one moment; never raises.

    Args:
        certificate: the certificate.
        services: those that issued it.
        at: the moment, aware UTC.
        list_of_lists: the list that names the signers of the others; it must be in force at the moment as well.
    """
    opinions = [_opinion(certificate, service, at, list_of_lists) for service in services]
    granting = [opinion for opinion in opinions if opinion.qualified_for]
    denying = [opinion for opinion in opinions if any(f.code == _DENIED for f in opinion.findings)]
    if granting and not denying:
        purposes = frozenset[Purpose]().union(*(opinion.qualified_for for opinion in granting))
        best = max(granting, key=lambda opinion: len(opinion.qualified_for))
        with_device = all(opinion.with_device for opinion in granting)
        findings = (*best.findings, *_check_conflicts(opinions, purposes, at))
        return Judgement(at, _in_order(purposes), with_device, best.listing, findings)
    deciding = (denying or sorted(opinions, key=lambda opinion: opinion.listing is None) or [Judgement(at)])[0]
    findings = tuple(dict.fromkeys(finding for opinion in [deciding, *opinions] for finding in opinion.findings))
    return Judgement(at, listing=deciding.listing, findings=findings)


def _in_order(purposes: frozenset[Purpose]) -> tuple[Purpose, ...]:
    return tuple(p for p in PURPOSES if p in purposes)


def _check_conflicts(opinions: Iterable[Judgement], purposes: frozenset[Purpose], at: datetime) -> Iterable[Finding]:
    """A warning for each state that does not grant what another state of the same key grants."""
    for listing in (opinion.listing for opinion in opinions if opinion.listing):
        instance = listing.instance
        if instance.type == QUALIFIED_CA and not _grants(instance, at) and purposes & _allowed_purposes(instance):
            message = (
                f"{listing.issuer.trusted_list} names the key twice: the service {instance.name} is"
                f" {instance.status_name} since {format_time(instance.since)}, another is granted"
            )
            yield Finding("trusted-list.conflict", Severity.WARNING, message, _CLAUSE)


def _error(code: str, message: str, clause: str = _CLAUSE) -> Finding:
    return Finding(code, Severity.ERROR, message, clause)


def _opinion(
    certificate: EidasCertificate, service: IssuingService, at: datetime, list_of_lists: TrustedList | None
) -> Judgement:
    """The judgement by one service."""
    instance = service.service.at(at)
    if instance is None:
        return Judgement(at, findings=(_why_no_state(service.service, at),))
    matched_by = service.matched_by(instance)
    listing = Listing(service, instance, matched_by or "none")
    for one in (list_of_lists, service.trusted_list):
        finding = None if one is None else check_freshness(one, at)
        if finding is not None:
            return Judgement(at, listing=listing, findings=(finding,))
    finding = _check_instance(service, instance, at, matched_by) or _check_chain(certificate, service, at)
    return Judgement(at, listing=listing, findings=(finding,)) if finding else _apply(certificate, listing, at)


def _why_no_state(service: Service, at: datetime) -> Finding:
    name = service.current.name
    if service.complete_since is not None and at < service.complete_since:
        known = format_time(service.complete_since)
        message = (
            f"the history of the service {name} cannot be read before {known}, so it does not cover {format_time(at)}"
        )
        return _error("trusted-list.unreadable-history", message, "TS 119 612 clause 5.6")
    first = format_time(min(one.since for one in service.instances))
    message = f"the service {name} is listed since {first}, not yet at {format_time(at)}"
    return _error("trusted-list.not-yet-listed", message)


def is_granted(service: IssuingService, purpose: Purpose, at: datetime) -> bool:
    """Whether a list in force at a moment (aware UTC) grants a service for a purpose, and identifies its key."""
    instance = service.service.at(at)
    if instance is None or check_freshness(service.trusted_list, at) is not None:
        return False
    refusal = _check_instance(service, instance, at, service.matched_by(instance))
    return refusal is None and purpose in _allowed_purposes(instance)


def check_freshness(trusted_list: TrustedList, at: datetime) -> Finding | None:
    """The finding `trusted-list.expired` or `trusted-list.closed` if a list is not in force at a moment, else None."""
    clause = "TS 119 612 clause 5.3.15"
    if trusted_list.signer_until is not None and at > trusted_list.signer_until:
        ended = format_time(trusted_list.signer_until)
        message = f"the signer of {trusted_list} is trusted until {ended}, so it does not cover {format_time(at)}"
        return _error("trusted-list.expired", message, clause)
    if trusted_list.next_update is None:
        if at <= trusted_list.issued:
            return None
        message = (
            f"{trusted_list} was closed on {format_time(trusted_list.issued)} and does not cover {format_time(at)}"
        )
        return _error("trusted-list.closed", message, clause)
    if at <= trusted_list.next_update:
        return None
    message = f"{trusted_list} was in force until {format_time(trusted_list.next_update)} and does not cover {format_time(at)}"
    return _error("trusted-list.expired", message, clause)


def _check_instance(
    service: IssuingService, instance: ServiceInstance, at: datetime, matched_by: str | None
) -> Finding | None:
    name = f"the service {instance.name} of {service.provider.name}"
    if matched_by is None:
        return _error("trusted-list.other-key", f"the state of {name} at {format_time(at)} does not identify this key")
    if instance.type != QUALIFIED_CA:
        return _error(
            "trusted-list.other-type", f"{name} did not issue qualified certificates: its type was {instance.type}"
        )
    if instance.unknown_critical:
        extensions = ", ".join(instance.unknown_critical)
        return _error(
            "trusted-list.unknown-extension", f"{name} has critical extensions that are not processed: {extensions}"
        )
    if any(qualification.criteria is None for qualification in instance.qualifications):
        return _error("trusted-list.unknown-criteria", f"{name} has qualifications with criteria that cannot be read")
    if not _grants(instance, at):
        since = format_time(instance.since)
        return _error(
            "trusted-list.not-granted", f"{name} is {instance.status_name} since {since}, at {format_time(at)}"
        )
    if not service.direct and ROOT_CA_QC not in instance.information:
        return _error(
            "trusted-list.not-issuer", f"{name} did not issue the certificate itself and is not listed as a root"
        )
    return None


def _check_chain(certificate: EidasCertificate, service: IssuingService, at: datetime) -> Finding | None:
    """The fault of the chain from a certificate to a listed root at a moment, or None."""
    if service.direct:
        return None
    try:
        PathVerifier(Anchors((service.issuer,), service.between)).verify(certificate, at=at)
    except (CertificateRejected, ConfigurationError) as e:
        return Finding(e.code, Severity.ERROR, e.message, e.clause)
    return None


def _grants(instance: ServiceInstance, at: datetime) -> bool:
    return instance.status_name == GRANTED and at >= EIDAS_STARTS


def _apply(certificate: EidasCertificate, listing: Listing, at: datetime) -> Judgement:
    """Combine the claims of the certificate with the statements of the list."""
    qualifiers = {
        qualifier
        for qualification in listing.instance.qualifications
        if qualification.concerns(certificate)
        for qualifier in qualification.qualifiers
    }
    purposes, finding = _decide_purposes(certificate, qualifiers)
    allowed = _allowed_purposes(listing.instance)
    if finding is None and not purposes & allowed:
        message = f"the certificate is for {_listed(purposes)}, but the service {listing.instance.name} is listed for {_listed(allowed)}"
        finding = _error("trusted-list.purpose", message)
    finding = _check_claim(certificate, listing.instance, qualifiers) or finding
    if finding is not None:
        return Judgement(at, listing=listing, findings=(finding,))
    granted = _in_order(purposes & allowed)
    notices = (_taken_over(listing.instance),) if listing.instance.taken_over_by else ()
    return Judgement(at, granted, _with_device(certificate, qualifiers) and granted != ("web",), listing, notices)


def _check_claim(certificate: EidasCertificate, instance: ServiceInstance, qualifiers: set[str]) -> Finding | None:
    """Why a certificate is no qualified one, whatever it is for, or None."""
    if certificate.extensions.is_precertificate:
        message = f"{certificate.subject} is a pre-certificate, not a certificate"
        return _error("certificate.precertificate", message, "RFC 6962 section 3.1")
    if NOT_QUALIFIED in qualifiers:
        return _error(_DENIED, f"the list states that certificates like this one of {instance.name} are not qualified")
    if not claims_qualification(certificate) and QUALIFIED_BY_LIST not in qualifiers:
        message = (
            "the certificate does not state that it is qualified (QcCompliance), and the list does not state it instead"
        )
        return _error("trusted-list.not-claimed", message, "EN 319 412-5 clause 4.2.1")
    return None


def _listed(purposes: frozenset[Purpose]) -> str:
    return ", ".join(_in_order(purposes)) or "nothing"


def _taken_over(instance: ServiceInstance) -> Finding:
    return Finding(
        "trusted-list.taken-over", Severity.NOTICE,
        f"the service {instance.name} was taken over by {instance.taken_over_by}", "TS 119 612 clause 5.5.9.3",
    )  # fmt: skip


def claims_qualification(certificate: EidasCertificate) -> bool:
    """Whether a certificate states that it is qualified in the European Union; QcCClegislation names the law of other countries.

    Source: EN 319 412-5 clauses 4.2.1 and 4.2.4.
    """
    return certificate.qc.compliance and not certificate.qc.cc_legislation


def stated_purposes(certificate: EidasCertificate) -> frozenset[Purpose]:
    """What a certificate states to be for: its QcType, or signatures without one.

    Source: EN 319 412-5 clause 4.2.3.
    """
    return frozenset(p for p in PURPOSES if p in (certificate.qc.types or ("esign",)))


def _decide_purposes(certificate: EidasCertificate, qualifiers: set[str]) -> tuple[frozenset[Purpose], Finding | None]:
    """The purposes that the list states, if any, else those of the certificate."""
    by_itself = stated_purposes(certificate)
    by_list: frozenset[Purpose] = frozenset(p for p in PURPOSES for q in qualifiers if PURPOSE_QUALIFIERS.get(q) == p)
    if not by_list:
        return by_itself, None
    if len(by_list) == 1:
        return by_list, None
    if by_itself & by_list:
        return by_itself & by_list, None
    message = f"the list states that the certificate is for {_listed(by_list)} at once, and the certificate does not decide it"
    return frozenset(), _error("trusted-list.conflict", message)


def _allowed_purposes(instance: ServiceInstance) -> frozenset[Purpose]:
    """What the service is listed for; signatures if nothing is stated."""
    stated = {SERVICE_PURPOSES[uri] for uri in instance.information if uri in SERVICE_PURPOSES}
    return frozenset(p for p in PURPOSES if p in stated) or frozenset({"esign"})


def _with_device(certificate: EidasCertificate, qualifiers: set[str]) -> bool:
    if qualifiers & WITHOUT_DEVICE:  # prevails if a list states both
        return False
    if qualifiers & WITH_DEVICE and not qualifiers & DEVICE_AS_IN_CERTIFICATE:
        return True
    return certificate.qc.sscd
