"""Chains of certificates: found, and judged by RFC 5280 section 6."""
