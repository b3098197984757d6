"""The organizationIdentifiers that a relying party accepts: authorization numbers issued by the stated authority.

Source: PSD2 document, part A section 5 rule 1 (assumption authorization-number); TS 119 495 GEN-5.2.1-3 and GEN-5.2.3-4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tppkit._encoding import shown
from tppkit.certificates.certificate import EidasCertificate
from tppkit.certificates.identifier import OrganizationIdentifier, parse_organization_identifier
from tppkit.certificates.qcstatements import Psd2Statement
from tppkit.errors import CertificateRejected, ConfigurationError, FormatError

_SCHEME = re.compile(r"PSD|VAT|NTR|LEI|[A-Za-z]{2}:")
_MAX_NCA_ID = 11  # CC, a hyphen and up to 8 letters


@dataclass(frozen=True, slots=True, kw_only=True)
class OrganizationPolicy:
    """The organizationIdentifiers that a relying party accepts; the defaults are the PSD2 document's.

    Pass the same policy to the gate and to the seals. Open Banking UK writes `PSDGB-OB-...` with the NCAId `GB-FCA`:

        uk = OrganizationPolicy(match_authority=False)
        gate = SealGate(PSD2, qwacs=QwacPolicy(paths, organizations=uk), seals=SealPolicy(paths, organizations=uk))

    Attributes:
        schemes: accepted schemes: `PSD`, `VAT`, `NTR`, `LEI` and national ones with their colon (`xx:`).
        match_authority: require identifiers of the scheme PSD to name country and authority of the certificate's PSD2 statement.
            If False, only the country must match. Without a PSD2 statement, only scheme and syntax are checked.

    Raises:
        ConfigurationError: `organization-policy.scheme`.
    """

    schemes: tuple[str, ...] = ("PSD",)
    match_authority: bool = True

    def __post_init__(self) -> None:
        if not self.schemes or not all(_SCHEME.fullmatch(str(scheme)) for scheme in self.schemes):
            raise ConfigurationError(
                "organization-policy.scheme",
                f"schemes must be one or more of PSD, VAT, NTR, LEI, xx:, not {self.schemes!r}",
            )

    def require(self, certificate: EidasCertificate) -> None:
        """Check the organizationIdentifier of a certificate.

        Raises:
            CertificateRejected: `organization-identifier.missing`, `organization-identifier.malformed`,
                `organization-identifier.lei-checksum`, `organization-identifier.country`, `organization-identifier.scheme`,
                `organization-identifier.authority-mismatch`.
        """
        fault = self._fault(certificate.organization, certificate.qc.psd2)
        if fault is not None:
            code, message = fault
            raise CertificateRejected(code, f"{message} ({certificate.subject})", clause="PSD2 document A.5 rule 1")

    def _fault(self, identifier: OrganizationIdentifier | None, psd2: Psd2Statement | None) -> tuple[str, str] | None:
        if identifier is None:
            return (
                "organization-identifier.missing",
                f"not exactly one usable organizationIdentifier; {self._advice(psd2)}",
            )
        text = shown(identifier.text)
        if identifier.scheme is None:
            try:
                parse_organization_identifier(identifier.text)
            except FormatError as e:
                return e.code, f"the organizationIdentifier {e.message}; {self._advice(psd2)}"
        if identifier.scheme not in self.schemes:
            found = f"the organizationIdentifier {text} has the scheme {identifier.scheme}"
            return (
                "organization-identifier.scheme",
                f"{found}, accepted is {' or '.join(self.schemes)}; {self._advice(psd2)}",
            )
        if not identifier.has_known_country:
            found = f"the organizationIdentifier {text} names the country {identifier.country}"
            return (
                "organization-identifier.country",
                f"{found}, which {identifier.scheme} does not have; {self._advice(psd2)}",
            )
        if identifier.nca_id is None or psd2 is None or self._is_of(identifier, psd2.nca_id):
            return None
        found = f"the organizationIdentifier {text} names {identifier.nca_id}, the PSD2 statement {shown(psd2.nca_id)}"
        return "organization-identifier.authority-mismatch", f"{found}; use a certificate where both name one authority"

    def _is_of(self, identifier: OrganizationIdentifier, nca_id: str) -> bool:
        if self.match_authority:
            return identifier.nca_id == nca_id
        return identifier.country == nca_id.partition("-")[0]

    def _advice(self, psd2: Psd2Statement | None) -> str:
        if "PSD" not in self.schemes:
            return f"use a certificate with an identifier of {' or '.join(self.schemes)}"
        authority = psd2.nca_id[:_MAX_NCA_ID] if psd2 and psd2.nca_id else "cc-AUTHORITY"
        return f"use a certificate with the authorization number, PSD{authority}-<number>"
