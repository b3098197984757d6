"""Verified trusted lists, and the qualified status of certificates by them.

lists = load_trusted_lists(Path("lists"))
lists.status(certificate, at=utc_now()).qualified_for
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

from tppkit._cache import Cache
from tppkit._clock import as_utc, format_time, shift
from tppkit.certificates import EidasCertificate, oids
from tppkit.errors import CertificateRejected, ConfigurationError, Finding, Severity
from tppkit.trust.anchors import Anchors
from tppkit.trust.path.chain_rules import require_validity
from tppkit.trust.path.links import read_link
from tppkit.trust.trusted_list.model import TrustedList
from tppkit.trust.trusted_list.qualified_status import Judgement, Listing, Purpose, check_freshness, is_granted, judge
from tppkit.trust.trusted_list.services import ServiceIndex
from tppkit.trust.trusted_list.uris import EIDAS_STARTS, TERRITORIES_OF_COUNTRIES

_REMEMBERED_ANCHORS = 64
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class ListFailure:
    """A list that is not used.

    Attributes:
        source: its file or address.
        territory: of which it claims, or should have been, the list; None if not stated.
        code: why, a row of `tppkit.codes.CODES`.
        message: why, for people.
        sha256: of its bytes, lower-case hexadecimal; None if they were not read.
    """

    source: str
    territory: str | None
    code: str
    message: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class QualifiedStatus:
    """Whether a certificate is qualified at a time.

    Attributes:
        certificate: the certificate.
        at: the time, aware UTC.
        qualified_for: of `esign`, `eseal`, `web`, at its issuance and at the time; empty if it is not qualified.
        with_device: whether the key is in a qualified device, at the time.
        code: None if it is qualified, else the reason.
        at_issuance: the judgement for the beginning of the certificate's validity.
        at_time: the judgement for the time.
        findings: all findings of both, and missing lists.
    """

    certificate: EidasCertificate
    at: datetime
    qualified_for: tuple[Purpose, ...]
    with_device: bool
    code: str | None
    at_issuance: Judgement
    at_time: Judgement
    findings: tuple[Finding, ...]

    @property
    def listing(self) -> Listing | None:
        """The service and its state that decide at the time, or at issuance if none does then."""
        return self.at_time.listing or self.at_issuance.listing

    def require_purpose(self, purpose: Purpose) -> None:
        """Require that the certificate is qualified for a purpose.

        Raises:
            CertificateRejected: `trusted-list.*`, `certificate.expired`, `certificate.not-yet-valid`, with all findings.
        """
        name = self.certificate.subject
        if self.code is not None:
            decisive = next((f for f in self.findings if f.code == self.code), None)
            message = f"{name} is not qualified: {decisive.message if decisive else 'the list grants no purpose'}"
            raise CertificateRejected(self.code, message, findings=self.findings)
        if purpose not in self.qualified_for:
            message = f"{name} is qualified for {', '.join(self.qualified_for)}, not for {purpose}"
            raise CertificateRejected("trusted-list.purpose", message, findings=self.findings)


class TrustedLists:
    """Trusted lists whose signatures were verified.

        lists = load_trusted_lists("lists")
        lists.status(certificate, at=received_at).qualified_for
        lists.verify_qualified(certificate, purpose="eseal", at=received_at)

    Attributes:
        list_of_lists: the list that names the signers of the others, or None if the caller named them.
        lists: the national lists.
        failures: lists that are not used, and why.
    """

    def __init__(
        self,
        lists: Iterable[TrustedList],
        *,
        list_of_lists: TrustedList | None = None,
        failures: Iterable[ListFailure] = (),
    ) -> None:
        self.list_of_lists = list_of_lists
        self.lists = tuple(lists)
        self.failures = tuple(failures)
        self._index = ServiceIndex(self.lists)
        self._anchors = Cache[tuple[Purpose, tuple[datetime, datetime]], Anchors](_REMEMBERED_ANCHORS)

    def status(
        self, certificate: EidasCertificate, *, at: datetime, intermediates: Sequence[EidasCertificate] = ()
    ) -> QualifiedStatus:
        """Whether a certificate is qualified at a time, for what, and by which service; never raises on content.

        Args:
            certificate: the end entity.
            at: the time to judge at, aware.
            intermediates: authorities that may be between it and a listed one.

        Raises:
            ConfigurationError: `time.naive`, `time.out-of-range`.

        Source: ETSI TS 119 615 clause 4.4.
        """
        at = as_utc(at)
        services = self._index.find(certificate, intermediates=intermediates)
        at_issuance, at_time = (
            judge(certificate, services, at=moment, list_of_lists=self.list_of_lists)
            for moment in (certificate.not_before, at)
        )
        if not services:
            findings = tuple(self._why_unlisted(certificate))
            return QualifiedStatus(certificate, at, (), False, findings[0].code, at_issuance, at_time, findings)
        both = tuple(p for p in at_issuance.qualified_for if p in at_time.qualified_for)
        findings = tuple(dict.fromkeys((*at_issuance.findings, *at_time.findings)))
        code = _first_code(at_issuance) or _first_code(at_time)
        if code is None and not both:
            code = "trusted-list.purpose"
        validity = _check_validity(certificate, at)
        if validity is not None:
            code, findings = code or validity.code, tuple(dict.fromkeys((*findings, validity)))
        if code is not None:
            return QualifiedStatus(certificate, at, (), False, code, at_issuance, at_time, findings)
        return QualifiedStatus(certificate, at, both, at_time.with_device, None, at_issuance, at_time, findings)

    def verify_qualified(
        self,
        certificate: EidasCertificate,
        *,
        purpose: Purpose,
        at: datetime,
        intermediates: Sequence[EidasCertificate] = (),
    ) -> QualifiedStatus:
        """Require that a certificate is qualified for a purpose at a time.

        Args:
            certificate: the end entity.
            purpose: `web` for a QWAC, `eseal` for a QSealC.
            at: the time to judge at, aware.
            intermediates: as for `status`.

        Raises:
            CertificateRejected: `trusted-list.*`, `certificate.expired`, `certificate.not-yet-valid`, with all findings.
            ConfigurationError: `time.naive`, `time.out-of-range`.
        """
        status = self.status(certificate, at=at, intermediates=intermediates)
        status.require_purpose(purpose)
        return status

    def make_anchors(self, *, purpose: Purpose, at: datetime) -> Anchors:
        """The authorities that the lists grant for a purpose at a time, to build chains to.

        One that cannot be read or is not valid then is left out, and reported in the findings of the anchors.

        Args:
            purpose: `web`, `eseal` or `esign`.
            at: the time, aware.

        Raises:
            ConfigurationError: `trust.no-anchors`, no list in force at the time grants one; `time.naive`.
        """
        at = as_utc(at)
        stale = self.list_of_lists and check_freshness(self.list_of_lists, at)
        if stale:
            raise ConfigurationError("trust.no-anchors", stale.message, clause=stale.clause)
        key = purpose, self.steady_around(at)
        anchors = self._anchors.get(key)
        if anchors is None:
            anchors = self._find_anchors(purpose, at)
            self._anchors.put(key, anchors)
        if not anchors.roots:
            but = f", but {len(anchors.findings)} that cannot be used then" if anchors.findings else ""
            raise ConfigurationError(
                "trust.no-anchors", f"no list in force at {format_time(at)} grants an authority for {purpose}{but}"
            )
        return anchors

    def _find_anchors(self, purpose: Purpose, at: datetime) -> Anchors:
        granted = (service.issuer for service in self._index.authorities() if is_granted(service, purpose, at))
        refusals = {certificate: _why_no_anchor(certificate, at) for certificate in dict.fromkeys(granted)}
        roots = tuple(certificate for certificate, refusal in refusals.items() if refusal is None)
        return Anchors(roots, findings=tuple(refusal for refusal in refusals.values() if refusal))

    def steady_around(self, at: datetime) -> tuple[datetime, datetime]:
        """The first and the last moment, around `at` (aware UTC), between which no list, state or authority begins or ends."""
        place = bisect_right(self._changes, at)
        begins = self._changes[place - 1] if place else datetime.min.replace(tzinfo=UTC)
        last = place == len(self._changes)
        return begins, datetime.max.replace(tzinfo=UTC) if last else shift(self._changes[place], -_INSTANT)

    @cached_property
    def _changes(self) -> tuple[datetime, ...]:
        """The moments from which the lists may answer otherwise, in order."""
        begins: set[datetime | None] = {EIDAS_STARTS}
        ends: set[datetime | None] = set()
        for one in (*self.lists, *([self.list_of_lists] if self.list_of_lists else [])):
            ends |= {one.issued, one.next_update, one.signer_until}
        for listed in self._index.authorities():
            begins |= {listed.issuer.not_before, *(state.since for state in listed.service.instances)}
            begins.add(listed.service.complete_since)
            ends.add(listed.issuer.not_after)
        changes = begins | {shift(end, _INSTANT) for end in ends if end is not None}
        return tuple(sorted(change for change in changes if change is not None))

    def _why_unlisted(self, certificate: EidasCertificate) -> Iterable[Finding]:
        """The reasons for no service: first a list that failed or is missing, then the fact itself."""
        countries = certificate.issuer.values(oids.COUNTRY)
        territory = TERRITORIES_OF_COUNTRIES.get(countries[0].upper(), countries[0].upper()) if countries else None
        clause = "TS 119 615 clause 4.3"
        is_missing = territory is not None and not self._has_list(territory) and self._points_to(territory)
        for failure in self.failures:
            # A file that cannot be read names no territory: it may be the missing list.
            if failure.territory == territory or (is_missing and failure.territory is None):
                yield Finding(failure.code, Severity.ERROR, failure.message, clause)
        if is_missing:
            message = f"the trusted list of {territory}, where the issuer is established, is not among the lists"
            yield Finding("trusted-list.missing", Severity.ERROR, message, clause)
        if self._index.is_named(certificate.issuer):
            message = f"services named {certificate.issuer} are listed, but none with a certificate whose key made the signature"
        else:
            message = f"no service of the lists issued it, nor an authority between: its issuer is {certificate.issuer}"
        yield Finding("trusted-list.no-service", Severity.ERROR, message, "TS 119 615 clause 4.4.4")

    def _has_list(self, territory: str) -> bool:
        failed = (failure.territory for failure in self.failures)
        return territory in failed or any(one.territory == territory for one in self.lists)

    def _points_to(self, territory: str) -> bool:
        pointers = self.list_of_lists.pointers if self.list_of_lists else ()
        return any(pointer.territory == territory for pointer in pointers)


def _first_code(judgement: Judgement) -> str | None:
    if judgement.qualified_for:
        return None
    return next((f.code for f in judgement.findings if f.severity is Severity.ERROR), "trusted-list.no-service")


def _check_validity(certificate: EidasCertificate, at: datetime) -> Finding | None:
    try:
        require_validity(certificate, at)
    except CertificateRejected as e:
        return Finding(e.code, Severity.ERROR, e.message, e.clause)
    return None


def _why_no_anchor(certificate: EidasCertificate, at: datetime) -> Finding | None:
    """Why path validation cannot use an authority at a moment, or None."""
    try:
        read_link(certificate)
    except CertificateRejected as e:
        return Finding(e.code, Severity.WARNING, f"left out: {e.message}", e.clause)
    if not certificate.extensions.is_ca:
        message = f"left out: the listed {certificate.subject} is no certification authority"
        return Finding("path.no-authority", Severity.WARNING, message, "RFC 5280 section 6.1.4 (k)")
    if certificate.is_valid_at(at):
        return None
    ends = f"{format_time(certificate.not_before)} to {format_time(certificate.not_after)}"
    return Finding("path.expired" if at > certificate.not_after else "path.not-yet-valid", Severity.NOTICE,
        f"left out: the listed authority {certificate.subject} is valid from {ends}")  # fmt: skip
