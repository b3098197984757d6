"""The identifiers of a certificate's key and of its issuer's."""

from __future__ import annotations

from cryptography import x509


def key_identifiers(key, issuer_key) -> list[tuple[x509.ExtensionType, bool]]:
    """Both extensions, by RFC 5280 section 4.2.1.2, method 1."""
    own, above = x509.SubjectKeyIdentifier, x509.AuthorityKeyIdentifier
    return [(own.from_public_key(key), False), (above.from_issuer_public_key(issuer_key), False)]
