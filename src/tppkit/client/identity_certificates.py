"""The certificates of an identity, and the checks that they fit each other, are valid, and may replace others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from tppkit.certificates import EidasCertificate
from tppkit.certificates.differences import public_key_info
from tppkit.errors import ConfigurationError, Finding, FormatError, Severity
from tppkit.trust.path.strength import is_signed_by


@dataclass(frozen=True, slots=True)
class IdentityCertificates:
    """The certificates of an identity, and the authorities that it trusts.

    Attributes:
        qwac: the website certificate.
        chain: authorities to send with it, the issuer first.
        qseal: the seal certificate; None without a seal.
        server_anchors: authorities of the bank's server certificate; None: the system's.
    """

    qwac: EidasCertificate
    chain: tuple[EidasCertificate, ...]
    qseal: EidasCertificate | None
    server_anchors: tuple[EidasCertificate, ...] | None

    def require_fit(self, qwac_key: PrivateKeyTypes) -> None:
        """Check that the key belongs to the QWAC, the QWAC has the right type, and the QSealC is of the same organisation.

        Raises:
            ConfigurationError: `identity.key-mismatch`, `identity.qc-type`, `identity.other-organisation`.
        """
        qwac, qseal = self.qwac, self.qseal
        if qwac_key.public_key() != qwac.public_key:
            raise ConfigurationError("identity.key-mismatch", f"the private key is not the key of {qwac.subject}")
        if qwac.qc.types and "web" not in qwac.qc.types:
            raise ConfigurationError(
                "identity.qc-type", f"{qwac.subject} is not a QWAC: its QcType is {', '.join(qwac.qc.types)}, not web"
            )
        if qseal is not None and qseal.organization_identifier != qwac.organization_identifier:
            raise ConfigurationError(
                "identity.other-organisation",
                f"the QWAC has the organizationIdentifier {qwac.organization_identifier or 'none'}, "
                f"the QSealC {qseal.organization_identifier or 'none'}",
            )

    def check_validity(self, at: datetime, ahead: timedelta) -> Iterator[Finding]:
        """Check the validity of QWAC, its chain and QSealC; warn if one expires within `ahead`."""
        named = [("QWAC", self.qwac), *(("QWAC's authority", authority) for authority in self.chain)]
        if self.qseal is not None:
            named.append(("QSealC", self.qseal))
        for name, certificate in named:
            left = certificate.not_after - at
            values = MappingProxyType(
                {"certificate": name, "not_after": certificate.not_after.isoformat(), "days": str(left.days)}
            )
            what = f"the {name} {certificate.subject}"
            if at < certificate.not_before:
                message = f"{what} is not valid before {certificate.not_before.isoformat()}"
                yield Finding("identity.not-yet-valid", Severity.ERROR, message, values=values)
            elif left < timedelta(0):
                message = f"{what} expired on {certificate.not_after.isoformat()}"
                yield Finding("identity.expired", Severity.ERROR, message, values=values)
            elif left < ahead:
                message = f"{what} expires on {certificate.not_after.isoformat()}, in {left.days} days"
                yield Finding("identity.expires", Severity.WARNING, message, values=values)

    def require_renewal_of(self, present: IdentityCertificates, at: datetime) -> None:
        """Check that these may replace the present certificates.

        Raises:
            ConfigurationError: `identity.not-valid`, `identity.other-organisation`, `identity.seal-lost`.
        """
        for finding in self.check_validity(at, timedelta(0)):
            raise ConfigurationError("identity.not-valid", finding.message)
        organisation, before = self.qwac.organization_identifier, present.qwac.organization_identifier
        if organisation != before:
            raise ConfigurationError(
                "identity.other-organisation", f"the renewed QWAC is of {organisation}, the present one of {before}"
            )
        if present.qseal is not None and self.qseal is None:
            raise ConfigurationError(
                "identity.seal-lost", f"the renewed identity of {organisation} has no seal, but the present one has"
            )


def order_chain(
    certificate: EidasCertificate, others: Iterable[EidasCertificate], *, at: datetime
) -> tuple[EidasCertificate, ...]:
    """Return the chain of a certificate, its issuer first, without the root (which the peer has) and unrelated certificates.

    If an authority has several certificates, prefer a valid one, then one that does not expire before the issued certificate, then
    the first.

    Args:
        certificate: the certificate at the start of the chain.
        others: certificates in any order.
        at: the present time, aware.

    Source: RFC 5246 section 7.4.2.
    """
    left = [other for other in dict.fromkeys(others) if not _is_issuer(other, other)]
    chain = []
    while issuers := [other for other in left if _is_issuer(other, certificate)]:
        named = [issuer for issuer in issuers if issuer.subject == certificate.issuer]
        certificate = max(named or issuers, key=partial(_fitness, certificate, at))
        chain.append(certificate)
        # Use each authority once, because authorities that signed for each other form a loop.
        left = [other for other in left if not _is_same_authority(other, certificate)]
    return tuple(chain)


def _fitness(certificate: EidasCertificate, at: datetime, issuer: EidasCertificate) -> tuple[bool, bool, bool]:
    """Return the sort key of a certificate of an authority; one whose key signed `certificate` comes first."""
    try:
        has_signed = is_signed_by(certificate, issuer)
    except FormatError:  # a key that cannot be read
        has_signed = False
    return has_signed, issuer.is_valid_at(at), certificate.not_after <= issuer.not_after


def _is_same_authority(one: EidasCertificate, other: EidasCertificate) -> bool:
    return one.subject == other.subject and public_key_info(one) == public_key_info(other)


def _is_issuer(authority: EidasCertificate, certificate: EidasCertificate) -> bool:
    """Compare key identifiers if both are present, else names, because the spelling of names may differ."""
    wanted = certificate.extensions.authority_key_identifier
    key_id = authority.extensions.subject_key_identifier
    return wanted == key_id if wanted and key_id else authority.subject == certificate.issuer
