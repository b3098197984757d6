"""The content of a trusted list as values: list, providers, services, and the states of a service through time.

Source: ETSI TS 119 612 clauses 5.3 to 5.6.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from tppkit.certificates import EidasCertificate
from tppkit.errors import Finding, FormatError
from tppkit.trust.trusted_list.qualifications import Qualification
from tppkit.trust.trusted_list.uris import LIST_OF_LISTS, status_name


@dataclass(frozen=True)
class DigitalIdentity:
    """The identification of a service's key.

    Attributes:
        certificates_der: certificates of the key, as in the list.
        key_ids: subject key identifiers.
        has_subject: whether a subject name is stated.
    """

    certificates_der: tuple[bytes, ...] = ()
    key_ids: tuple[bytes, ...] = ()
    has_subject: bool = False

    @cached_property
    def certificates(self) -> tuple[EidasCertificate, ...]:
        """The certificates, read at the first use; those that cannot be read are left out."""
        found = []
        for data in self.certificates_der:
            try:
                found.append(EidasCertificate.from_der(data))
            except FormatError:
                continue
        return tuple(found)


@dataclass(frozen=True, slots=True)
class ServiceInstance:
    """The state of a service from one moment on: the present one, or one before a change.

    Attributes:
        type: URI of the service's type.
        names: the service's names, the English one first.
        status: URI of the status.
        since: when the status began, aware UTC.
        identity: the key; history identifies it by subject and key identifier only.
        information: URIs of the additional service information.
        qualifications: statements about certain certificates.
        unknown_critical: critical extensions that this software does not process.
        taken_over_by: the provider that took the service over, or None.
    """

    type: str
    names: tuple[str, ...]
    status: str
    since: datetime
    identity: DigitalIdentity
    information: tuple[str, ...] = ()
    qualifications: tuple[Qualification, ...] = ()
    unknown_critical: tuple[str, ...] = ()
    taken_over_by: str | None = None

    @property
    def status_name(self) -> str:
        """The status without its stem, for example `granted`."""
        return status_name(self.status)

    @property
    def name(self) -> str:
        """The first of the names."""
        return self.names[0] if self.names else ""


@dataclass(frozen=True, slots=True)
class Service:
    """A trust service.

    Attributes:
        instances: the present one first, then its history, later ones first.
        complete_since: before this moment (aware UTC) a state may be missing, as one could not be read; None if all could.
    """

    instances: tuple[ServiceInstance, ...]
    complete_since: datetime | None = None

    @property
    def current(self) -> ServiceInstance:
        """The service as it is now."""
        return self.instances[0]

    def at(self, moment: datetime) -> ServiceInstance | None:
        """The instance in force at a moment (aware UTC); None before the first and in a gap of the history."""
        if self.complete_since is not None and moment < self.complete_since:
            return None
        begun = [instance for instance in self.instances if instance.since <= moment]
        return max(begun, key=lambda instance: instance.since, default=None)


@dataclass(frozen=True, slots=True)
class Provider:
    """A trust service provider.

    Attributes:
        names: its names, the English one first.
        services: its services.
    """

    names: tuple[str, ...]
    services: tuple[Service, ...]

    @property
    def name(self) -> str:
        """The first of the names."""
        return self.names[0] if self.names else ""


@dataclass(frozen=True, slots=True)
class Pointer:
    """The location and the signers of another list.

    Attributes:
        location: URL of the list.
        territory: country code as lists have it (`EL`, `UK`).
        type: URI of the list's type.
        media_type: `application/vnd.etsi.tsl+xml` for the lists that machines read.
        operators: names of the scheme operator.
        signers: SHA-256 (lower-case hexadecimal) of the certificates that may sign it.
    """

    location: str
    territory: str
    type: str
    media_type: str
    operators: tuple[str, ...]
    signers: frozenset[str]


@dataclass(frozen=True)
class TrustedList:
    """A trusted list, or the list of lists.

    Attributes:
        type: URI of its type.
        territory: country code as lists have it (`EL`, `UK`, `EU`).
        operators: names of the scheme operator, the English one first.
        sequence_number: increases with each issue.
        issued: when it was issued, aware UTC.
        next_update: until when it is in force, aware UTC; None if the scheme has closed.
        pointers: to other lists.
        providers: providers and their services.
        sha256: of the file, lower-case hexadecimal.
        source: its file or address, for messages.
        signer: the certificate that signed it.
        findings: parts that could not be read, and an operator of another name.
        signer_until: of a list of lists, until when its signer is trusted, aware UTC; else None.
        xml: the file, to keep as evidence.
    """

    type: str
    territory: str
    operators: tuple[str, ...]
    sequence_number: int
    issued: datetime
    next_update: datetime | None
    pointers: tuple[Pointer, ...]
    providers: tuple[Provider, ...]
    sha256: str
    source: str
    signer: EidasCertificate
    findings: tuple[Finding, ...] = ()
    signer_until: datetime | None = None
    xml: bytes = field(default=b"", compare=False, repr=False)

    @property
    def is_list_of_lists(self) -> bool:
        """Whether it is the list of lists."""
        return self.type == LIST_OF_LISTS

    def __str__(self) -> str:
        return f"the trusted list of {self.territory} number {self.sequence_number} ({self.source})"
