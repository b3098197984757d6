"""Which services of the trusted lists issued a certificate: found by name, proven by signature.

A service is known by the certificates of its key. Its history names the same key by subject and key identifier only, so a
history is read as that of its service, and each past state must name the service's key. A service that is never given
with a certificate is matched by subject and key identifier, when the caller brings the issuer's certificate.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from tppkit.certificates import DistinguishedName, EidasCertificate
from tppkit.errors import FormatError
from tppkit.trust.trusted_list import DigitalIdentity, Provider, Service, ServiceInstance, TrustedList
from tppkit.trust.trusted_list_uris import QUALIFIED_CA

MAX_DEPTH = 5
MAX_CANDIDATES = 64

NameKey = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class IssuingService:
    """A service that issued a certificate.

    Attributes:
        trusted_list: the list it stands in.
        provider: who runs it.
        service: the service.
        issuer: the certificate of its key with which the signature was verified.
        direct: whether it issued the certificate itself; otherwise an authority below it did.
    """

    trusted_list: TrustedList
    provider: Provider
    service: Service
    issuer: EidasCertificate
    direct: bool

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
            if not set(identity.key_ids) & key_ids(self.issuer):
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
        for depth in range(MAX_DEPTH):
            found = [match for one in below for match in self._issuers(one, intermediates, direct=depth == 0)]
            if found:
                return tuple({(id(match.service), match.issuer.der): match for match in found}.values())
            below = [
                authority
                for authority in intermediates[:MAX_CANDIDATES]
                if authority.extensions.is_ca and any(is_issued_by(one, authority) for one in below)
            ]
            if not below:
                break
        return ()

    def is_named(self, name: DistinguishedName) -> bool:
        """Whether any service has this name."""
        return name_key(name) in self._entries

    def _issuers(
        self, certificate: EidasCertificate, intermediates: Sequence[EidasCertificate], *, direct: bool
    ) -> Iterator[IssuingService]:
        verified: dict[bytes, bool] = {}
        for entry in self._entries.get(name_key(certificate.issuer), ())[: 4 * MAX_CANDIDATES]:
            candidates = (entry.certificate,) if entry.certificate else intermediates[:MAX_CANDIDATES]
            for issuer in candidates:
                if entry.certificate is None and not _is_listed(entry.service, issuer):
                    continue
                if issuer.der not in verified:
                    verified[issuer.der] = is_issued_by(certificate, issuer)
                if verified[issuer.der]:
                    yield IssuingService(entry.trusted_list, entry.provider, entry.service, issuer, direct)


def name_key(name: DistinguishedName) -> NameKey:
    """A name's attributes, whatever their order, case and spacing: equal for names that match."""
    return frozenset([(oid, " ".join(value.split()).casefold()) for rdn in name.rdns for oid, value in rdn])


def is_issued_by(certificate: EidasCertificate, issuer: EidasCertificate) -> bool:
    """Whether `issuer`'s name and key are those that `certificate` was issued with."""
    if name_key(certificate.issuer) != name_key(issuer.subject):
        return False
    try:
        certificate.x509.verify_directly_issued_by(issuer.x509)
    except (InvalidSignature, ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True


def key_ids(certificate: EidasCertificate) -> frozenset[bytes]:
    """The key identifiers that a certificate's key goes by: the one it states, and method 1 of RFC 5280 section 4.2.1.2."""
    stated = certificate.extensions.subject_key_identifier
    found = {stated} if stated else set()
    with contextlib.suppress(FormatError):
        found.add(x509.SubjectKeyIdentifier.from_public_key(certificate.public_key).digest)
    return frozenset(found)


def _has_key(identity: DigitalIdentity, issuer: EidasCertificate) -> bool:
    return any(
        one.der == issuer.der or (one.x509.public_key_algorithm_oid == issuer.x509.public_key_algorithm_oid
        and key_ids(one) & key_ids(issuer) and one.public_key == issuer.public_key)
        for one in identity.certificates
    )  # fmt: skip


def _names_subject(identity: DigitalIdentity, issuer: EidasCertificate) -> bool:
    wanted = name_key(issuer.subject)
    return any(name_key(name) == wanted for name in identity.subjects)


def _is_listed(service: Service, issuer: EidasCertificate) -> bool:
    """Whether a service without certificates names this one by subject and key identifier."""
    ids = key_ids(issuer)
    return issuer.extensions.is_ca and any(
        _names_subject(instance.identity, issuer) and bool(ids & set(instance.identity.key_ids))
        for instance in service.instances
    )
