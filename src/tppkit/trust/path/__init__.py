"""Certification paths: search, and validation by RFC 5280 section 6."""
