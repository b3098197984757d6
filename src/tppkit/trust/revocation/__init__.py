"""Revocation by CRL and OCSP: reading, verification, and judgement at a time."""
