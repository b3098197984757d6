"""Read eIDAS certificates and check them against their profile. No network, no private keys.

certificate = EidasCertificate.from_pem(pem)
certificate.organization_identifier.text, certificate.roles
"""

from tppkit.certificates.certificate import EidasCertificate, EidasRequest
from tppkit.certificates.extensions import ExtensionFacts
from tppkit.certificates.files import load_certificates
from tppkit.certificates.identifier import OrganizationIdentifier, parse_organization_identifier
from tppkit.certificates.key_facts import KeyFacts
from tppkit.certificates.names import DistinguishedName, parse_name
from tppkit.certificates.organization_policy import OrganizationPolicy
from tppkit.certificates.pair import check_pair
from tppkit.certificates.psd2_statement import Psd2Statement, RoleOfPsp
from tppkit.certificates.qcstatements import PdsLocation, QcStatements, parse_qc_statements
from tppkit.certificates.renewal import check_renewal
from tppkit.certificates.rules import Use, check_certificate, check_statement
from tppkit.certificates.sources import Source, read_sources

__all__ = [
    "DistinguishedName", "EidasCertificate", "EidasRequest", "ExtensionFacts", "KeyFacts", "OrganizationIdentifier",
    "OrganizationPolicy", "PdsLocation", "Psd2Statement", "QcStatements", "RoleOfPsp", "Source", "Use", "check_certificate", "check_pair",
    "check_renewal", "check_statement", "load_certificates", "parse_name", "parse_organization_identifier",
    "parse_qc_statements", "read_sources",
]  # fmt: skip
