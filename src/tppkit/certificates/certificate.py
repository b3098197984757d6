"""The contents of an eIDAS certificate or certificate request.

This package parses names, extensions and QcStatements itself, because malformed ones are common and must become findings,
not errors. `cryptography` parses the structure, the dates and the key.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Self

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from tppkit._clock import as_utc
from tppkit._encoding import pem_fault, shown
from tppkit._locals import without_locals
from tppkit._text import printable
from tppkit.certificates import der, oids
from tppkit.certificates.extensions import (
    ExtensionFacts,
    certificate_extensions,
    read_extension_values,
    read_extensions,
    requested_extensions,
)
from tppkit.certificates.identifier import OrganizationIdentifier, read_organization_identifier
from tppkit.certificates.key_facts import SIGNING_KEYS, KeyFacts, read_key_facts
from tppkit.certificates.names import DistinguishedName, read_name
from tppkit.certificates.qcstatements import QcStatements
from tppkit.errors import Finding, FormatError, Severity

MAX_CERTIFICATE_BYTES = 64 * 1024
_REMEMBERED, _REMEMBERED_BYTES = 256, 4096


@dataclass(frozen=True, repr=False)
class Subject:
    """The common part of certificates and requests.

    Attributes:
        der: the bytes.
        subject: the name of the holder or applicant.
        organization_identifier: the subject's organizationIdentifier, or None.
        key: type and size of the public key.
        extensions: the contents of the extensions.
        x509: the object of `cryptography`.
    """

    der: bytes
    subject: DistinguishedName
    organization_identifier: OrganizationIdentifier | None
    key: KeyFacts
    extensions: ExtensionFacts
    x509: x509.Certificate | x509.CertificateSigningRequest

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown(str(self.subject), limit=160)}, sha256={self.sha256!r})"

    @property
    def signature_algorithm(self) -> str:
        """The signature algorithm, for example `ecdsa-with-SHA256`; an unknown algorithm as its dotted identifier."""
        oid = self.x509.signature_algorithm_oid.dotted_string
        return oids.SIGNATURE_ALGORITHMS.get(oid, oid)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the DER, lower-case hexadecimal."""
        return hashlib.sha256(self.der).hexdigest()

    @cached_property
    def organization(self) -> OrganizationIdentifier | None:
        """The organizationIdentifier, or None unless the subject has exactly one and it can name an organisation."""
        identifier = self.organization_identifier
        is_one = len(self.subject.values(oids.ORGANIZATION_IDENTIFIER)) == 1
        return identifier if is_one and identifier is not None and identifier.is_usable else None

    @cached_property
    def organization_name(self) -> str | None:
        """The first organizationName of the subject, with unprintable characters escaped; None if there is none."""
        names = self.subject.values(oids.ORGANIZATION)
        return printable(names[0]) if names else None

    @property
    def qc(self) -> QcStatements:
        """The QcStatements; empty without the extension."""
        return self.extensions.qc

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """The PSD2 roles as in TS 119 495, for example `("PSP_PI", "PSP_AI")`; empty without a PSD2 statement."""
        return self.qc.psd2.role_names if self.qc.psd2 else ()

    @cached_property
    def public_key(self) -> CertificatePublicKeyTypes:
        """The public key.

        Raises:
            FormatError: `certificate.key-unreadable`.
        """
        try:
            return self.x509.public_key()
        except (ValueError, UnsupportedAlgorithm) as e:
            message = f"the public key ({self.key.name}) of {self.subject} cannot be read"
            raise FormatError("certificate.key-unreadable", message) from e

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The malformed parts that the parser accepted."""
        return tuple(self._find())

    def _find(self) -> list[Finding]:
        found = [*self.extensions.findings, *self.extensions.qc.findings]
        identifier = self.organization_identifier
        if identifier is not None and identifier.scheme is None:
            found.append(
                Finding(
                    "organization-identifier.malformed", Severity.WARNING,
                    "the organizationIdentifier is in no known form",
                    "TS 119 495 GEN-5.2.1-3", MappingProxyType({"organization_identifier": identifier.text}),
                )
            )  # fmt: skip
        if self.key.type not in SIGNING_KEYS:
            found.append(
                Finding(
                    "certificate.key-unreadable", Severity.WARNING, f"the public key is of the type {self.key.name}"
                )
            )
        return found


@dataclass(frozen=True, repr=False)
class EidasCertificate(Subject):
    """A parsed certificate.

        qwac = EidasCertificate.from_pem(Path("qwac.pem").read_bytes())
        qwac.organization_identifier, qwac.roles, qwac.qc.types
        qwac.findings  # malformed parts that were read

    Attributes:
        der: the certificate's bytes.
        subject: the holder's name; `str()` gives RFC 4514 text.
        organization_identifier: the subject's organizationIdentifier, or None.
        key: type and size of the public key.
        extensions: the contents of the extensions.
        issuer: the issuer's name.
        serial: the serial number.
        not_before: first moment of validity, aware UTC.
        not_after: last moment of validity, aware UTC.
        x509: the same certificate as an object of `cryptography`.
    """

    issuer: DistinguishedName
    serial: int
    not_before: datetime
    not_after: datetime
    x509: x509.Certificate

    @classmethod
    @without_locals
    def from_der(cls, data: bytes) -> Self:
        """Parse one certificate from DER; recently parsed certificates are cached by their bytes.

        Raises:
            FormatError: `certificate.malformed`, `certificate.too-large`; `der.malformed`, `der.unexpected-tag` for a malformed
                name.
        """
        if len(data) > MAX_CERTIFICATE_BYTES:
            raise FormatError("certificate.too-large", f"{len(data)} bytes are too many for a certificate")
        return (cls._remembered if len(data) <= _REMEMBERED_BYTES else cls._read)(bytes(data))

    @classmethod
    @lru_cache(maxsize=_REMEMBERED)
    def _remembered(cls, data: bytes) -> Self:
        return cls._read(data)

    @classmethod
    def _read(cls, data: bytes) -> Self:
        parts = _parts(data, count=6)
        first = 1 if parts[0].tag == 0xA0 else 0  # version 1 certificates leave the version out
        stated = data[parts[first].start : parts[first].end]
        try:
            # A serial number that is not positive is a finding; `cryptography` warns about it.
            is_positive = stated[:1] < b"\x80" and stated != b"\0"
            with nullcontext() if is_positive else warnings.catch_warnings(action="ignore"):
                certificate = x509.load_der_x509_certificate(data)
                serial = certificate.serial_number
            not_before, not_after = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        except (ValueError, x509.InvalidVersion) as e:
            raise FormatError("certificate.malformed", f"the certificate cannot be read: {der.parse_failure(e)}") from e
        issuer, subject = read_name(data, parts[first + 2]), read_name(data, parts[first + 4])
        return cls(
            der=data,
            subject=subject,
            organization_identifier=_organization_identifier(subject),
            key=read_key_facts(data, parts[first + 5]),
            extensions=read_extensions(data, certificate_extensions(parts[-1])),
            issuer=issuer,
            serial=serial,
            not_before=not_before,
            not_after=not_after,
            x509=certificate,
        )

    @classmethod
    @without_locals
    def from_pem(cls, data: str | bytes) -> Self:
        """Parse the first certificate of a PEM text; other blocks (a chain, a key) are ignored.

        Raises:
            FormatError: `certificate.not-found`, `pem.malformed`, `pem.trust-settings` and those of `from_der`.
        """
        from tppkit.certificates.sources import read_pem_sources

        text = data.encode("utf-8", "replace") if isinstance(data, str) else data
        for source in read_pem_sources(text):
            if source.kind == "certificate":
                return cls.from_der(source.der)
        raise FormatError("certificate.not-found", f"this PEM text contains no certificate{pem_fault(text, '; ')}")

    @property
    def serial_hex(self) -> str:
        """The serial number in upper-case hexadecimal, without leading zeros (`9FA1`)."""
        return f"{self.serial:X}"

    @property
    def extension_values(self) -> Mapping[str, bytes]:
        """DER of the value of each extension, by its dotted identifier; the first one of a duplicate."""
        return read_extension_values(self.der, certificate_extensions(_parts(self.der, count=6)[-1]))

    @cached_property
    def issuer_der(self) -> bytes:
        """DER of the issuer's name, as in the certificate."""
        return self._part(2)

    @cached_property
    def subject_der(self) -> bytes:
        """DER of the holder's name, as in the certificate."""
        return self._part(4)

    @property
    def validity_der(self) -> bytes:
        """DER of the validity."""
        return self._part(3)

    @property
    def signature_algorithm_der(self) -> bytes:
        """DER of the signature's AlgorithmIdentifier inside the signed part."""
        return self._part(1)

    @property
    def has_one_signature_algorithm(self) -> bool:
        """Whether the AlgorithmIdentifier beside the signature is the one inside the signed part (RFC 5280 section 4.1.1.2)."""
        beside = der.read_children(self.der, der.read_whole(self.der, tag=der.SEQUENCE))[1]
        return self.der[beside.offset : beside.end] == self.signature_algorithm_der

    def _part(self, place: int) -> bytes:
        parts = _parts(self.der, count=6)
        part = parts[place + (parts[0].tag == 0xA0)]  # version 1 certificates leave the version out
        return self.der[part.offset : part.end]

    def is_valid_at(self, at: datetime) -> bool:
        """Whether `at` (aware) is within the certificate's validity, both ends included.

        Raises:
            ConfigurationError: `time.naive`.
        """
        return self.not_before <= as_utc(at) <= self.not_after

    def _find(self) -> list[Finding]:
        found = super()._find()
        if self.serial <= 0:
            message, clause = "the serial number is not positive", "RFC 5280 section 4.1.2.2"
            found.append(Finding("certificate.serial-not-positive", Severity.ERROR, message, clause))
        return found


@dataclass(frozen=True, repr=False)
class EidasRequest(Subject):
    """A parsed certificate signing request (PKCS#10): the name and the extensions that it requests, and its key."""

    x509: x509.CertificateSigningRequest

    @classmethod
    @without_locals
    def from_der(cls, data: bytes) -> Self:
        """Parse one request from DER.

        Raises:
            FormatError: `certificate.malformed`, `certificate.too-large`; `der.malformed`, `der.unexpected-tag` for a malformed
                name.
        """
        if len(data) > MAX_CERTIFICATE_BYTES:
            raise FormatError("certificate.too-large", f"{len(data)} bytes are too many for a request")
        parts = _parts(data, count=3)
        try:
            request = x509.load_der_x509_csr(data)
        except (ValueError, x509.InvalidVersion) as e:
            raise FormatError("certificate.malformed", f"the request cannot be read: {der.parse_failure(e)}") from e
        subject = read_name(data, parts[1])
        return cls(
            der=bytes(data),
            subject=subject,
            organization_identifier=_organization_identifier(subject),
            key=read_key_facts(data, parts[2]),
            extensions=read_extensions(data, requested_extensions(data, parts[-1])),
            x509=request,
        )

    @property
    def extension_values(self) -> Mapping[str, bytes]:
        """DER of the value of each requested extension, by its dotted identifier; the first one of a duplicate."""
        return read_extension_values(self.der, requested_extensions(self.der, _parts(self.der, count=3)[-1]))

    def _find(self) -> list[Finding]:
        found = super()._find()
        if not self._is_signed():
            message = "the request is not signed with its own key"
            found.append(Finding("request.signature", Severity.ERROR, message, "RFC 2986 section 3"))
        return found

    def _is_signed(self) -> bool:
        try:
            return self.x509.is_signature_valid
        except (ValueError, TypeError, UnsupportedAlgorithm):
            return False


def _parts(data: bytes, *, count: int) -> list[der.Element]:
    """Return the parts of the to-be-signed sequence (RFC 5280 section 4.1, RFC 2986 section 4.1): at least `count`.

    Raises:
        FormatError: `certificate.malformed`.
    """
    try:
        whole = der.read_children(data, der.read_whole(data, tag=der.SEQUENCE))
        parts = der.read_children(data, whole[0]) if whole else []
    except FormatError as e:
        raise FormatError("certificate.malformed", f"this is not a certificate: {e.message}", offset=e.offset) from e
    if len(parts) < count:
        raise FormatError("certificate.malformed", f"this is not a certificate: it has {len(parts)} parts")
    return parts


def _organization_identifier(subject: DistinguishedName) -> OrganizationIdentifier | None:
    values = subject.values(oids.ORGANIZATION_IDENTIFIER)
    return read_organization_identifier(values[0]) if values else None
