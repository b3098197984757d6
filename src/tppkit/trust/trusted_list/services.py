"""The services of trusted lists that issued a certificate, found by name and proven by signature.

A service is known by the certificates of its key, which TS 119 612 clause 5.5.3 requires of its present state; a service without
any is ignored. Its history identifies the key by subject and key identifier, so a history is read as that of its service, and each
past state must have an identifier of the service's key. The subject is not compared, as authorities keep their name with a new key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit.certificates import DistinguishedName, EidasCertificate
from tppkit.certificates.names import ComparableName
from tppkit.errors import FormatError
from tppkit.trust.path.links import read_key_bits
from tppkit.trust.path.strength import is_signed_by
from tppkit.trust.trusted_list.model import DigitalIdentity, Provider, Service, ServiceInstance, TrustedList
from tppkit.trust.trusted_list.uris import QUALIFIED_CA

MAX_DEPTH = 5
MAX_INTERMEDIATES = 16
MAX_SERVICES_OF_NAME = 256


@dataclass(frozen=True, slots=True)
class IssuingService:
    """A service that issued a certificate.

    Attributes:
        trusted_list: the list that contains it.
        provider: its provider.
        service: the service.
        issuer: the certificate of its key with which the signature was verified.
        between: authorities that may be between it and the certificate; empty if it issued the certificate itself.
    """

    trusted_list: TrustedList
    provider: Provider
    service: Service
    issuer: EidasCertificate
    between: tuple[EidasCertificate, ...] = ()

    @property
    def direct(self) -> bool:
        """Whether it issued the certificate itself; otherwise an authority below it did."""
        return not self.between

    def matched_by(self, instance: ServiceInstance) -> str | None:
        """How a state of the service identifies the issuer's key.

        Returns:
            `certificate`, `key-id`; `service` if the state identifies no key, so that it belongs to the service only by its place
            in the history; None if it identifies another key, or states a name only.
        """
        identity = instance.identity
        if identity.certificates_der:
            return "certificate" if _has_key(identity, self.issuer) else None
        if identity.key_ids:
            ids = computed_key_ids(self.issuer) | {self.issuer.extensions.subject_key_identifier}
            return None if ids.isdisjoint(identity.key_ids) else "key-id"
        return None if identity.has_subject else "service"


class ServiceIndex:
    """The services of lists that issue qualified certificates, by the name of their key."""

    def __init__(self, lists: Iterable[TrustedList]) -> None:
        self._services: dict[ComparableName, list[IssuingService]] = {}
        for trusted_list in lists:
            for provider in trusted_list.providers:
                for service in provider.services:
                    if any(instance.type == QUALIFIED_CA for instance in service.instances):
                        self._add(trusted_list, provider, service)

    def _add(self, trusted_list: TrustedList, provider: Provider, service: Service) -> None:
        identities = [instance.identity for instance in service.instances]
        certificates = {c.der: c for identity in identities for c in identity.certificates}
        for certificate in certificates.values():
            known = self._services.setdefault(certificate.subject.comparable, [])
            known.append(IssuingService(trusted_list, provider, service, certificate))

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
            names = {one.issuer.comparable for one in below}
            named = [authority for authority in intermediates if authority.subject.comparable in names]
            below = [
                authority
                for authority in named[:MAX_INTERMEDIATES]
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
        return chain.from_iterable(self._services.values())

    def is_named(self, name: DistinguishedName) -> bool:
        """Whether any service has this name."""
        return name.comparable in self._services

    def _issuers(
        self, certificate: EidasCertificate, between: tuple[EidasCertificate, ...]
    ) -> Iterator[IssuingService]:
        verified: dict[bytes, bool] = {}
        for service in self._services.get(certificate.issuer.comparable, ())[:MAX_SERVICES_OF_NAME]:
            issuer = service.issuer
            if issuer.der not in verified:
                verified[issuer.der] = is_signed_by(certificate, issuer)
            if verified[issuer.der]:
                yield replace(service, between=between)


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
