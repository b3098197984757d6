"""Object identifiers of eIDAS and PSD2 certificates, one a line.

Sources: ETSI EN 319 412-5, ETSI TS 119 495, ETSI EN 319 411-2, RFC 5280, RFC 3739, ITU-T X.520.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

COMMON_NAME = "2.5.4.3"
COUNTRY = "2.5.4.6"
ORGANIZATION = "2.5.4.10"
ORGANIZATION_IDENTIFIER = "2.5.4.97"

# Extensions (RFC 5280 section 4.2, RFC 3739 section 3.2.6, RFC 6962 section 3).
SUBJECT_KEY_IDENTIFIER = "2.5.29.14"
KEY_USAGE = "2.5.29.15"
SUBJECT_ALTERNATIVE_NAME = "2.5.29.17"
ISSUER_ALTERNATIVE_NAME = "2.5.29.18"
BASIC_CONSTRAINTS = "2.5.29.19"
NAME_CONSTRAINTS = "2.5.29.30"
CRL_DISTRIBUTION_POINTS = "2.5.29.31"
CERTIFICATE_POLICIES = "2.5.29.32"
POLICY_MAPPINGS = "2.5.29.33"
AUTHORITY_KEY_IDENTIFIER = "2.5.29.35"
POLICY_CONSTRAINTS = "2.5.29.36"
EXTENDED_KEY_USAGE = "2.5.29.37"
INHIBIT_ANY_POLICY = "2.5.29.54"
AUTHORITY_INFORMATION_ACCESS = "1.3.6.1.5.5.7.1.1"
QC_STATEMENTS = "1.3.6.1.5.5.7.1.3"
PRECERTIFICATE_POISON = "1.3.6.1.4.1.11129.2.4.3"
CABF_ORGANIZATION_IDENTIFIER = "2.23.140.3.1"  # EV Guidelines 9.8.2

ACCESS_OCSP = "1.3.6.1.5.5.7.48.1"
ACCESS_CA_ISSUERS = "1.3.6.1.5.5.7.48.2"

QCS_SYNTAX_V1 = "1.3.6.1.5.5.7.11.1"
QCS_SYNTAX_V2 = "1.3.6.1.5.5.7.11.2"
QC_COMPLIANCE = "0.4.0.1862.1.1"
QC_LIMIT_VALUE = "0.4.0.1862.1.2"
QC_RETENTION_PERIOD = "0.4.0.1862.1.3"
QC_SSCD = "0.4.0.1862.1.4"
QC_PDS = "0.4.0.1862.1.5"
QC_TYPE = "0.4.0.1862.1.6"
QC_CC_LEGISLATION = "0.4.0.1862.1.7"
QC_IDENTIFICATION_METHOD = "0.4.0.1862.1.8"
QC_QSCD_LEGISLATION = "0.4.0.1862.1.9"
QC_PSD2 = "0.4.0.19495.2"

SEMANTICS_LEGAL = "0.4.0.194121.1.2"
SEMANTICS_EIDAS_LEGAL = "0.4.0.194121.1.4"

QC_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "0.4.0.1862.1.6.1": "esign",
        "0.4.0.1862.1.6.2": "eseal",
        "0.4.0.1862.1.6.3": "web",
    }
)

# EN 319 412-5 clause 4.3.5: how the holder was identified, by the paragraphs of eIDAS article 24.
IDENTIFICATION_METHODS: Mapping[str, str] = MappingProxyType(
    {
        "0.4.0.1862.1.8.1": "eIDAS1-ab",
        "0.4.0.1862.1.8.2": "eIDAS1-cd",
        "0.4.0.1862.1.8.3": "eIDAS2-acd",
        "0.4.0.1862.1.8.4": "eIDAS2-b",
    }
)

# TS 119 495 V1.8.1, clause 5.1 (roles 5 and 6 since V1.5.1, 51 and 52 since V1.8.1).
PSP_ROLES: Mapping[str, str] = MappingProxyType(
    {
        "0.4.0.19495.1.0": "Unspecified",
        "0.4.0.19495.1.1": "PSP_AS",
        "0.4.0.19495.1.2": "PSP_PI",
        "0.4.0.19495.1.3": "PSP_AI",
        "0.4.0.19495.1.4": "PSP_IC",
        "0.4.0.19495.1.5": "PSP_CB",
        "0.4.0.19495.1.6": "PSP_PA",
        "0.4.0.19495.1.51": "VOP_RS",
        "0.4.0.19495.1.52": "VOP_VS",
    }
)
ROLE_OIDS: Mapping[str, str] = MappingProxyType({name: oid for oid, name in PSP_ROLES.items()})
# The usual abbreviations for holders of these roles (PSD2 articles 4 and 65 to 67).
ROLE_OF_PROVIDER: Mapping[str, str] = MappingProxyType(
    {"PISP": "PSP_PI", "AISP": "PSP_AI", "CBPII": "PSP_IC", "PIISP": "PSP_IC", "ASPSP": "PSP_AS"}
)

EXTENDED_KEY_USAGES: Mapping[str, str] = MappingProxyType(
    {
        "1.3.6.1.5.5.7.3.1": "serverAuth",
        "1.3.6.1.5.5.7.3.2": "clientAuth",
        "1.3.6.1.5.5.7.3.3": "codeSigning",
        "1.3.6.1.5.5.7.3.4": "emailProtection",
        "1.3.6.1.5.5.7.3.8": "timeStamping",
        "1.3.6.1.5.5.7.3.9": "OCSPSigning",
        "1.3.6.1.4.1.311.10.3.12": "msDocumentSigning",
        "2.5.29.37.0": "anyExtendedKeyUsage",
    }
)

# Policies of EU qualified certificates (EN 319 411-2 clause 5.3).
POLICY_QCP_N = "0.4.0.194112.1.0"
POLICY_QCP_L = "0.4.0.194112.1.1"
POLICY_QCP_N_QSCD = "0.4.0.194112.1.2"
POLICY_QCP_L_QSCD = "0.4.0.194112.1.3"
POLICY_QEVCP_W = "0.4.0.194112.1.4"
POLICY_QNCP_W = "0.4.0.194112.1.5"
# RFC 8017 appendix A.2, RFC 5758 section 3.2, RFC 3279 section 2.2, RFC 8410 section 3.
SIGNATURE_ALGORITHMS: Mapping[str, str] = MappingProxyType(
    {
        "1.2.840.113549.1.1.4": "md5WithRSAEncryption",
        "1.2.840.113549.1.1.5": "sha1WithRSAEncryption",
        "1.2.840.113549.1.1.10": "rsassaPss",
        "1.2.840.113549.1.1.11": "sha256WithRSAEncryption",
        "1.2.840.113549.1.1.12": "sha384WithRSAEncryption",
        "1.2.840.113549.1.1.13": "sha512WithRSAEncryption",
        "1.2.840.10045.4.1": "ecdsa-with-SHA1",
        "1.2.840.10045.4.3.2": "ecdsa-with-SHA256",
        "1.2.840.10045.4.3.3": "ecdsa-with-SHA384",
        "1.2.840.10045.4.3.4": "ecdsa-with-SHA512",
        "1.3.101.112": "ed25519",
        "1.3.101.113": "ed448",
    }
)

POLICY_QNCP_W_GEN = "0.4.0.194112.1.6"
POLICY_QCP_W_PSD2 = "0.4.0.19495.3.1"  # TS 119 495 OVR-6.1-3: in addition to one of the three above

# Policies of publicly trusted website certificates (CA/Browser Forum: EV, DV, OV, IV).
PUBLIC_TLS_POLICIES = frozenset({"2.23.140.1.1", "2.23.140.1.2.1", "2.23.140.1.2.2", "2.23.140.1.2.3"})

# Short names of RFC 4514 section 3 and RFC 4519, and two more that eIDAS certificates need.
NAME_ATTRIBUTES: Mapping[str, str] = MappingProxyType(
    {
        "2.5.4.3": "CN",
        "2.5.4.4": "SN",
        "2.5.4.5": "serialNumber",
        "2.5.4.6": "C",
        "2.5.4.7": "L",
        "2.5.4.8": "ST",
        "2.5.4.9": "STREET",
        "2.5.4.10": "O",
        "2.5.4.11": "OU",
        "2.5.4.12": "title",
        "2.5.4.15": "businessCategory",
        "2.5.4.17": "postalCode",
        "2.5.4.42": "GN",
        "2.5.4.97": "organizationIdentifier",
        "0.9.2342.19200300.100.1.1": "UID",
        "0.9.2342.19200300.100.1.25": "DC",
        "1.2.840.113549.1.9.1": "emailAddress",
    }
)

# Every identifier above, alone or in a table.
ALL = frozenset(
    oid
    for value in tuple(globals().values())
    for oid in ((value,) if isinstance(value, str) else value if isinstance(value, Mapping | frozenset) else ())
    if oid[:1].isdigit()
)
