"""Which services of the trusted lists issued a certificate: found by name, proven by signature.

A service is known by the certificates of its key. Its history names the same key by subject and key identifier only, so a
history is read as that of its service, and each past state must name the service's key. A service that is never given
with a certificate is matched by subject and key identifier, when the caller brings the issuer's certificate.
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
        trusted_list: the list it stands in.
        provider: who runs it.
        service: the service.
        issuer: the certificate of its key with which the signature was verified.
        key_ids: the identifiers that its key is known by.
        between: authorities that may stand between it and the certificate; empty when it issued the certificate itself.
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
        """How a state of the service names the issuer's key.

        Returns:
            `certificate`, `subject-and-key-id`, `key-id`, `subject`; `service` when the state names no key at all, so that
            only its place in the service's history says whose it is; None when it names another key.
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
    certificate: EidasCertificate | None


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
        if not certificates:
            entry = _Entry(trusted_list, provider, service, None)
            for key in {name_key(name) for identity in identities for name in identity.subjects}:
                self._entries.setdefault(key, []).append(entry)

    def find(
        self, certificate: EidasCertificate, *, intermediates: Sequence[EidasCertificate] = ()
    ) -> tuple[IssuingService, ...]:
        """The services nearest above a certificate whose key's signature leads to it.

        Args:
            certificate: whose issuer is looked for.
            intermediates: authorities that may stand between, and certificates of services that the lists give without.
        """
        below = [certificate]
        between: tuple[EidasCertificate, ...] = ()
        for _ in range(MAX_DEPTH):
            found = [match for one in below for match in self._issuers(one, intermediates, between)]
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
                for issuer, ids in _keys_of(entry, ()):
                    yield IssuingService(entry.trusted_list, entry.provider, entry.service, issuer, ids)

    def is_named(self, name: DistinguishedName) -> bool:
        """Whether any service has this name."""
        return name_key(name) in self._entries

    def _issuers(
        self,
        certificate: EidasCertificate,
        intermediates: Sequence[EidasCertificate],
        between: tuple[EidasCertificate, ...],
    ) -> Iterator[IssuingService]:
        verified: dict[bytes, bool] = {}
        for entry in self._entries.get(name_key(certificate.issuer), ())[:MAX_SERVICES_OF_NAME]:
            for issuer, ids in _keys_of(entry, intermediates):
                if issuer.der not in verified:
                    verified[issuer.der] = is_signed_by(certificate, issuer)
                if verified[issuer.der]:
                    yield IssuingService(entry.trusted_list, entry.provider, entry.service, issuer, ids, between)


def _keys_of(
    entry: _Entry, intermediates: Sequence[EidasCertificate]
) -> Iterator[tuple[EidasCertificate, frozenset[bytes]]]:
    """The certificates that may be a service's, and the identifiers of their keys."""
    if entry.certificate is not None:
        stated = entry.certificate.extensions.subject_key_identifier
        yield entry.certificate, computed_key_ids(entry.certificate) | ({stated} if stated else set())
        return
    for candidate in intermediates[:MAX_INTERMEDIATES]:
        # What a certificate states itself proves nothing here: a stranger's may state the listed identifier.
        ids = computed_key_ids(candidate)
        if candidate.extensions.is_ca and _is_listed(entry.service, candidate, ids):
            yield candidate, ids


def name_key(name: DistinguishedName) -> NameKey:
    """The parts of a name in any order: lists write names from either end."""
    return frozenset(name.comparable)


def computed_key_ids(certificate: EidasCertificate) -> frozenset[bytes]:
    """The identifiers that hashes of a certificate's key give; none when the key cannot be read.

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


def _is_listed(service: Service, issuer: EidasCertificate, ids: frozenset[bytes]) -> bool:
    """Whether a service without certificates names this one by subject and key identifier."""
    return any(
        _names_subject(instance.identity, issuer) and bool(ids & set(instance.identity.key_ids))
        for instance in service.instances
    )
