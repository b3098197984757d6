"""Whether a certificate chains to a believed authority at a time.

`cryptography`'s verifier builds and checks the chain (signatures, validity, CA flags, path lengths, name constraints, key
sizes). Its policy for end entities is a browser's, which no seal meets (no subject alternative name, no clientAuth), so
the end entity is judged by `tppkit.certificates.rules` instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.verification import ExtensionPolicy, PolicyBuilder, Store
from cryptography.x509.verification import VerificationError as PathError

from tppkit._clock import as_utc, format_time
from tppkit.certificates import EidasCertificate, Use, check_certificate
from tppkit.certificates.rules import first_error
from tppkit.errors import CertificateRejected
from tppkit.trust.anchors import Anchors

MAX_CHAIN_DEPTH = 5
_REMEMBERED = 512


@dataclass(frozen=True, slots=True)
class TrustedPath:
    """A chain that holds.

    Attributes:
        chain: the certificate first, the root last.
        not_before: first moment at which every certificate of the chain is valid, aware UTC.
        not_after: last such moment, aware UTC.
    """

    chain: tuple[EidasCertificate, ...]
    not_before: datetime
    not_after: datetime


class PathVerifier:
    """Checks chains to fixed anchors, and remembers the ones that hold.

    Without revocation a chain's verdict depends on the time only through the validity of its certificates, so a chain
    found once is good for every moment within all of them. At most 512 chains are remembered.
    """

    def __init__(self, anchors: Anchors) -> None:
        self.anchors = anchors
        self._store = Store([root.x509 for root in anchors.roots])
        self._remembered: dict[bytes, TrustedPath] = {}

    def verify(
        self, certificate: EidasCertificate, *, at: datetime, intermediates: Sequence[EidasCertificate] = ()
    ) -> TrustedPath:
        """Build a chain from `certificate` to an anchor, valid at a time.

        Args:
            certificate: the end entity.
            at: the time to judge at, aware.
            intermediates: further authorities, for example those the peer sent; believed only through an anchor.

        Raises:
            CertificateRejected: `certificate.not-yet-valid`, `certificate.expired`, `trust.no-path`.
        """
        at = as_utc(at)
        known = self._remembered.get(certificate.der)
        if known is not None and known.not_before <= at <= known.not_after:
            return known
        _check_validity(certificate, at)
        path = self._build(certificate, at, intermediates)
        if len(self._remembered) >= _REMEMBERED:
            self._remembered.pop(next(iter(self._remembered)), None)
        self._remembered[certificate.der] = path
        return path

    def verify_use(
        self, certificate: EidasCertificate, *, as_: Use, at: datetime, intermediates: Sequence[EidasCertificate] = ()
    ) -> TrustedPath:
        """Check that a certificate fits its use and chains to an anchor, at a time.

        Args:
            certificate: the end entity.
            as_: what it is used as.
            at: the time to judge at, aware.
            intermediates: further authorities, as for `verify`.

        Raises:
            CertificateRejected: the code of the first broken rule of `certificates.rules`, with all findings; or as `verify`.
        """
        findings = check_certificate(certificate, as_=as_, at=at, essential_only=True)
        error = first_error(findings)
        if error is not None:
            message = f"the {as_} certificate of {certificate.subject}: {error.message}"
            raise CertificateRejected(error.code, message, clause=error.clause, findings=findings)
        return self.verify(certificate, at=at, intermediates=intermediates)

    def _build(
        self, certificate: EidasCertificate, at: datetime, intermediates: Sequence[EidasCertificate]
    ) -> TrustedPath:
        verifier = (
            PolicyBuilder()
            .store(self._store)
            .time(at)
            .max_chain_depth(MAX_CHAIN_DEPTH)
            .extension_policies(ca_policy=ExtensionPolicy.webpki_defaults_ca(), ee_policy=ExtensionPolicy.permit_all())
            .build_client_verifier()
        )
        between = [c.x509 for c in (*self.anchors.intermediates, *intermediates)]
        try:
            chain = verifier.verify(certificate.x509, between).chain
            not_after = min(link.not_valid_after_utc for link in chain)
            if at > not_after:  # by less than a second, which the verifier does not see
                raise ValueError(f"an authority expired on {format_time(not_after)}")
        except (PathError, ValueError) as e:
            raise CertificateRejected(
                "trust.no-path",
                f"no chain leads from {certificate.subject} (issued by {certificate.issuer}) to a trusted authority"
                f" at {format_time(at)}: {_reason(e)}",
                clause="RFC 5280 section 6",
            ) from e
        return TrustedPath(
            chain=(certificate, *(self._read(link) for link in chain[1:])),
            not_before=max(link.not_valid_before_utc for link in chain),
            not_after=not_after,
        )

    def _read(self, link: x509.Certificate) -> EidasCertificate:
        known = (*self.anchors.roots, *self.anchors.intermediates)
        found = next((authority for authority in known if authority.x509 == link), None)
        return found or EidasCertificate.from_der(link.public_bytes(Encoding.DER))


def _reason(error: Exception) -> str:
    # The library appends a printout of the certificate that it was processing.
    return str(error).partition(" (encountered processing")[0][:160] or type(error).__name__


def _check_validity(certificate: EidasCertificate, at: datetime) -> None:
    if at < certificate.not_before:
        begins = format_time(certificate.not_before)
        raise CertificateRejected("certificate.not-yet-valid", f"{certificate.subject} is not valid before {begins}")
    if at > certificate.not_after:
        ended = format_time(certificate.not_after)
        raise CertificateRejected(
            "certificate.expired", f"{certificate.subject} expired on {ended}, before {format_time(at)}"
        )
