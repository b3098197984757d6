"""A certificate as path validation reads it.

Extensions are read by our own reader, as `cryptography` warns about names of more than 64 bytes, which are 33 Greek letters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit.certificates import EidasCertificate, ExtensionFacts, der, oids
from tppkit.certificates.general_names import GeneralName, read_general_names
from tppkit.certificates.names import ComparableName
from tppkit.errors import CertificateRejected, FormatError, Severity
from tppkit.trust.path.link_extensions import (
    NameConstraints,
    PolicyConstraints,
    read_inhibit_any_policy,
    read_name_constraints,
    read_points,
    read_policy_constraints,
)

_T = TypeVar("_T")
# Extensions whose facts path validation uses as they were read; `read_link` reads further ones. All others may be malformed.
_TAKEN = frozenset({
    oids.SUBJECT_KEY_IDENTIFIER, oids.AUTHORITY_KEY_IDENTIFIER, oids.KEY_USAGE, oids.BASIC_CONSTRAINTS, oids.CERTIFICATE_POLICIES,
    oids.EXTENDED_KEY_USAGE, oids.AUTHORITY_INFORMATION_ACCESS,
})  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A certificate as one link of a chain.

    Attributes:
        certificate: the certificate.
        subject: the holder's name; equal for names that are the same (RFC 5280 section 7.1).
        issuer: the issuer's name, likewise.
        values: DER of the value of each extension, by its dotted identifier.
        alternative_names: of the holder.
        name_constraints: the names that an authority may certify, or None.
        policy_constraints: from which depth policies are required, or None.
        inhibit_any_policy: from which depth anyPolicy no longer counts, or None.
        crl_points: full names of its CRL distribution points.
    """

    certificate: EidasCertificate
    subject: ComparableName
    issuer: ComparableName
    values: Mapping[str, bytes]
    alternative_names: tuple[GeneralName, ...]
    name_constraints: NameConstraints | None
    policy_constraints: PolicyConstraints | None
    inhibit_any_policy: int | None
    crl_points: frozenset[GeneralName]

    @property
    def facts(self) -> ExtensionFacts:
        """The facts of the extensions."""
        return self.certificate.extensions

    @property
    def key_id(self) -> bytes | None:
        """The subjectKeyIdentifier, or None."""
        return self.facts.subject_key_identifier

    @property
    def authority_key_id(self) -> bytes | None:
        """The keyIdentifier of the authorityKeyIdentifier, or None."""
        return self.facts.authority_key_identifier

    @property
    def is_self_issued(self) -> bool:
        """Whether subject and issuer are the same name (RFC 5280 section 3.2), whatever key signed."""
        return self.subject == self.issuer

    def may(self, *usages: str) -> bool:
        """Whether key usage allows one of these (names of `KEY_USAGES`) or is absent."""
        return oids.KEY_USAGE not in self.values or not set(usages).isdisjoint(self.facts.key_usage)

    def __str__(self) -> str:
        return f"{self.certificate.subject}"  # shortened, unlike str


def read_link(certificate: EidasCertificate) -> Link:
    """Read a certificate as a link of a chain.

    Raises:
        CertificateRejected: `path.extension-malformed`.
    """
    for finding in certificate.extensions.findings:
        if finding.severity is Severity.ERROR and finding.values.get("extension", "") in _TAKEN | {""}:
            raise _malformed(certificate, finding.message)
    values = certificate.extension_values

    def read(oid: str, reader: Callable[[bytes], _T]) -> _T | None:
        return reader(values[oid]) if oid in values else None

    try:
        return Link(
            certificate=certificate,
            subject=certificate.subject.comparable,
            issuer=certificate.issuer.comparable,
            values=values,
            alternative_names=read(oids.SUBJECT_ALTERNATIVE_NAME, read_general_names) or (),
            name_constraints=read(oids.NAME_CONSTRAINTS, read_name_constraints),
            policy_constraints=read(oids.POLICY_CONSTRAINTS, read_policy_constraints),
            inhibit_any_policy=read(oids.INHIBIT_ANY_POLICY, read_inhibit_any_policy),
            crl_points=read(oids.CRL_DISTRIBUTION_POINTS, read_points) or frozenset(),
        )
    except FormatError as e:
        raise _malformed(certificate, e.message) from e


def _malformed(certificate: EidasCertificate, why: str) -> CertificateRejected:
    message = f"the extensions of {certificate.subject} cannot be read: {why[:120]}"
    return CertificateRejected("path.extension-malformed", message, clause="RFC 5280 section 4.2")


def read_key_bits(certificate: EidasCertificate) -> bytes:
    """The content of the BIT STRING of a certificate's public key, whose hash names the key.

    Raises:
        FormatError: `certificate.key-unreadable`.
    """
    whole = certificate.public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    bits = der.read_children(whole, der.read_whole(whole, tag=der.SEQUENCE))[1]
    return whole[bits.start + 1 : bits.end]
