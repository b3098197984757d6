"""Extensions of those who vouch for a test PKI's certificates: OCSP responders, the time-stamping authority, list signers.

Sources: RFC 6960 section 4.2.2.2, RFC 3161 section 2.3, ETSI TS 119 612 clause 5.7.1.
"""

from __future__ import annotations

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tppkit.testpki.profiles import Extension, key_usage

_TSL_SIGNING = x509.ObjectIdentifier("0.4.0.2231.3.0")


def responder_extensions() -> list[Extension]:
    """An OCSP responder that the authority delegated, and that needs no check of its own."""
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.OCSP_SIGNING])
    return [key_usage("digital_signature"), (usage, False), (x509.OCSPNoCheck(), False)]


def timestamping_extensions() -> list[Extension]:
    """A time-stamping authority: its one extended key usage is critical."""
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
    return [key_usage("digital_signature"), (usage, True)]


def list_signer_extensions() -> list[Extension]:
    """A signer of trusted lists."""
    constraints = x509.BasicConstraints(ca=False, path_length=None)
    return [(constraints, True), key_usage("digital_signature"), (x509.ExtendedKeyUsage([_TSL_SIGNING]), False)]
