"""Read eIDAS certificates and check them against their profile. No network, no private keys.

certificate = EidasCertificate.from_pem(pem)
certificate.organization_identifier.text, certificate.roles
"""

from tppkit.certificates.certificate import EidasCertificate
from tppkit.certificates.extensions import ExtensionFacts
from tppkit.certificates.files import load_certificates
from tppkit.certificates.identifier import OrganizationIdentifier
from tppkit.certificates.key_facts import KeyFacts
from tppkit.certificates.names import DistinguishedName
from tppkit.certificates.organization_policy import OrganizationPolicy
from tppkit.certificates.pair import check_pair
from tppkit.certificates.qcstatements import Psd2Statement, QcStatements
from tppkit.certificates.renewal import check_renewal
from tppkit.certificates.rule import Use
from tppkit.certificates.rules import check_certificate

__all__ = [
    "DistinguishedName", "EidasCertificate", "ExtensionFacts", "KeyFacts", "OrganizationIdentifier", "OrganizationPolicy",
    "Psd2Statement", "QcStatements", "Use", "check_certificate", "check_pair", "check_renewal", "load_certificates",
]  # fmt: skip
