"""The services of trusted lists that issued a certificate, found by name and proven by signature.

A service is known by the certificates of its key, which TS 119 612 clause 5.5.3 requires of its present state; a service without
any is ignored. Its history names the same key by subject and key identifier only, so a history is read as that of its service,
and each past state must name the service's key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit.certificates import DistinguishedName, EidasCertificate
from tppkit.certificates.names import Attribute
from tppkit.errors import FormatError
from tppkit.trust.path.links import read_key_bits
from tppkit.trust.path.strength import is_signed_by
from tppkit.trust.trusted_list.model import DigitalIdentity, Provider, Service, ServiceInstance, TrustedList
from tppkit.trust.trusted_list.uris import QUALIFIED_CA

MAX_DEPTH = 5
MAX_INTERMEDIATES = 16
MAX_SERVICES_OF_NAME = 256

NameKey = frozenset[frozenset[Attribute]]


@dataclass(frozen=True, slots=True)
class IssuingService:
    """A service that issued a certificate.

    Attributes:
        trusted_list: the list that contains it.
        provider: its provider.
        service: the service.
        issuer: the certificate of its key with which the signature was verified.
        key_ids: the identifiers of its key.
        between: authorities that may be between it and the certificate; empty if it issued the certificate itself.
    """

    trusted_list: TrustedList
    provider: Provider
    service: Service
    issuer: EidasCertificate
    key_ids: frozenset[bytes]
    between: tuple[EidasCertificate, ...] = ()

    @property
    def direct(self) -> bool:
        """Whether it issued the certificate itself; otherwise an authority below it did."""
        return not self.between

    def matched_by(self, instance: ServiceInstance) -> str | None:
        """How a state of the service identifies the issuer's key.

        Returns:
            `certificate`, `subject-and-key-id`, `key-id`, `subject`; `service` if the state identifies no key, so that it belongs
            to the service only by its place in the history; None if it identifies another key.
        """
        identity = instance.identity
        if identity.certificates_der:
            return "certificate" if _has_key(identity, self.issuer) else None
        subject = _names_subject(identity, self.issuer)
        if identity.key_ids:
            if not self.key_ids & set(identity.key_ids):
                return None
            return "subject-and-key-id" if subject else "key-id"
        if identity.subjects:
            return "subject" if subject else None
        return "service"


@dataclass(frozen=True, slots=True)
class _Entry:
    trusted_list: TrustedList
    provider: Provider
    service: Service
    issuer: EidasCertificate

    def issued(self, *, below: tuple[EidasCertificate, ...] = ()) -> IssuingService:
        """The service by this certificate of its key."""
        stated = self.issuer.extensions.subject_key_identifier
        ids = computed_key_ids(self.issuer) | ({stated} if stated else set())
        return IssuingService(self.trusted_list, self.provider, self.service, self.issuer, ids, below)


class ServiceIndex:
    """The services of lists that issue qualified certificates, by the name of their key."""

    def __init__(self, lists: Iterable[TrustedList]) -> None:
        self._entries: dict[NameKey, list[_Entry]] = {}
        for trusted_list in lists:
            for provider in trusted_list.providers:
                for service in provider.services:
                    if any(instance.type == QUALIFIED_CA for instance in service.instances):
                        self._add(trusted_list, provider, service)

    def _add(self, trusted_list: TrustedList, provider: Provider, service: Service) -> None:
        identities = [instance.identity for instance in service.instances]
        certificates = {c.der: c for identity in identities for c in identity.certificates}
        for certificate in certificates.values():
            entry = _Entry(trusted_list, provider, service, certificate)
            self._entries.setdefault(name_key(certificate.subject), []).append(entry)

    def find(
        self, certificate: EidasCertificate, *, intermediates: Sequence[EidasCertificate] = ()
    ) -> tuple[IssuingService, ...]:
        """The services nearest above a certificate whose key's signature leads to it.

        Args:
            certificate: the certificate whose issuer is searched.
            intermediates: authorities that may be between.
        """
        below = [certificate]
        between: tuple[EidasCertificate, ...] = ()
        for _ in range(MAX_DEPTH):
            found = [match for one in below for match in self._issuers(one, between)]
            if found:
                return tuple({(id(match.service), match.issuer.der): match for match in found}.values())
            below = [
                authority
                for authority in intermediates[:MAX_INTERMEDIATES]
                if authority.extensions.is_ca
                and authority.is_valid_at(certificate.not_before)
                and any(is_signed_by(one, authority) for one in below)
            ]
            if not below:
                break
            between += tuple(below)
        return ()

    def authorities(self) -> Iterator[IssuingService]:
        """Every service by each certificate of its key that the lists give."""
        for entries in self._entries.values():
            for entry in entries:
                yield entry.issued()

    def is_named(self, name: DistinguishedName) -> bool:
        """Whether any service has this name."""
        return name_key(name) in self._entries

    def _issuers(
        self,
        certificate: EidasCertificate,
        between: tuple[EidasCertificate, ...],
    ) -> Iterator[IssuingService]:
        verified: dict[bytes, bool] = {}
        for entry in self._entries.get(name_key(certificate.issuer), ())[:MAX_SERVICES_OF_NAME]:
            issuer = entry.issuer
            if issuer.der not in verified:
                verified[issuer.der] = is_signed_by(certificate, issuer)
            if verified[issuer.der]:
                yield entry.issued(below=between)


def name_key(name: DistinguishedName) -> NameKey:
    """The parts of a name in any order: lists write names from either end."""
    return frozenset(name.comparable)


def computed_key_ids(certificate: EidasCertificate) -> frozenset[bytes]:
    """The identifiers that are hashes of a certificate's key; none if the key cannot be read.

    Source: RFC 5280 section 4.2.1.2 method 1, RFC 7093 section 2 methods 1 to 4.
    """
    try:
        key = certificate.public_key
        content = read_key_bits(certificate)
    except FormatError:
        return frozenset()
    sha1 = x509.SubjectKeyIdentifier.from_public_key(key).digest
    whole = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    hashed = [hashlib.new(name, content).digest() for name in ("sha256", "sha384", "sha512")]
    return frozenset({sha1, *(one[:20] for one in hashed), *hashed, hashlib.sha256(whole).digest()})


def _has_key(identity: DigitalIdentity, issuer: EidasCertificate) -> bool:
    if issuer.der in identity.certificates_der:
        return True
    ids = computed_key_ids(issuer)
    return any(ids & computed_key_ids(one) for one in identity.certificates)


def _names_subject(identity: DigitalIdentity, issuer: EidasCertificate) -> bool:
    wanted = name_key(issuer.subject)
    return any(name_key(name) == wanted for name in identity.subjects)
