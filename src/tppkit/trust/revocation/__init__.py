"""Revocation by CRL and OCSP: read, judged at a time, kept or fetched."""
