"""Checks of extensions: which are present, which are critical, and the addresses of issuer and status."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from urllib.parse import urlsplit

from tppkit._encoding import shown
from tppkit.certificates import oids
from tppkit.certificates.certificate import EidasCertificate
from tppkit.certificates.checks.names import is_internal_host
from tppkit.certificates.rule import Check, Fault

# Extensions that this software processes. The poison extension of a pre-certificate has its own rule.
_PROCESSED = frozenset({
    oids.KEY_USAGE, oids.SUBJECT_ALTERNATIVE_NAME, oids.BASIC_CONSTRAINTS, oids.CERTIFICATE_POLICIES, oids.EXTENDED_KEY_USAGE,
    oids.QC_STATEMENTS, oids.PRECERTIFICATE_POISON,
})  # fmt: skip
# EN 319 412-2 GEN-4.3.4-1, GEN-4.3.8-1, GEN-4.3.9-1, GEN-4.3.12-1: only authorities have these.
_AUTHORITIES_ONLY = {
    oids.POLICY_MAPPINGS: "policyMappings",
    oids.NAME_CONSTRAINTS: "nameConstraints",
    oids.POLICY_CONSTRAINTS: "policyConstraints",
    oids.INHIBIT_ANY_POLICY: "inhibitAnyPolicy",
}
_HTTP = ("http://", "https://")
_HTTP_OR_LDAP = ("http://", "ldap://")


def is_ca(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """An authority's certificate."""
    return ("it is a certification authority's certificate", {}) if certificate.extensions.is_ca else None


def precertificate(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A pre-certificate, which is only for certificate transparency logs."""
    return ("it is a pre-certificate, made for a log", {}) if certificate.extensions.is_precertificate else None


def unknown_critical(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A critical extension that this software does not process."""
    for oid in certificate.extensions.critical:
        if oid not in _PROCESSED:
            return f"this software does not process the critical extension {oid}", {"oid": oid}
    return None


def absent(oid: str, name: str) -> Check:
    """The extension is absent."""

    def check(certificate: EidasCertificate, at: datetime) -> Fault | None:
        return None if oid in certificate.extensions.present else (f"it has no {name}", {"oid": oid})

    return check


def critical(oid: str, name: str) -> Check:
    """The extension is critical, which is not allowed."""

    def check(certificate: EidasCertificate, at: datetime) -> Fault | None:
        return (f"its {name} is critical", {"oid": oid}) if oid in certificate.extensions.critical else None

    return check


def key_usage_not_critical(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The key usage is present but not critical, so software may ignore it."""
    extensions = certificate.extensions
    if oids.KEY_USAGE not in extensions.present or oids.KEY_USAGE in extensions.critical:
        return None
    return "its key usage is not critical", {"oid": oids.KEY_USAGE}


def authority_extension(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """An extension that only certificates of authorities have."""
    found = [name for oid, name in _AUTHORITIES_ONLY.items() if oid in certificate.extensions.present]
    return (f"it has {', '.join(found)}, as only authorities do", {"extensions": ", ".join(found)}) if found else None


def no_issuer_location(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The issuer's certificate has no http address in caIssuers."""
    extensions = certificate.extensions
    urls = extensions.ca_issuers_urls
    if oids.AUTHORITY_INFORMATION_ACCESS not in extensions.present or _any(urls, _HTTP):
        return None
    stated = ", ".join(urls) or "none"
    return f"no http address of the issuer's certificate is stated (caIssuers: {stated})", {"ca_issuers": stated}


def no_status_location(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """Neither an OCSP responder over HTTP nor a CRL is named, so revocation cannot be checked."""
    extensions = certificate.extensions
    if oids.CRL_DISTRIBUTION_POINTS in extensions.present or _any(extensions.ocsp_urls, _HTTP):
        return None
    stated = ", ".join(extensions.ocsp_urls) or "none"
    return f"it names neither a CRL nor an OCSP responder over http (OCSP: {stated})", {"ocsp": stated}


def crl_scheme(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """CRL distribution points, but none with http or ldap."""
    extensions = certificate.extensions
    if oids.CRL_DISTRIBUTION_POINTS not in extensions.present or _any(extensions.crl_urls, _HTTP_OR_LDAP):
        return None
    stated = ", ".join(extensions.crl_urls) or "none"
    return f"no CRL address begins with http:// or ldap:// (stated: {stated})", {"crl": stated}


def _any(urls: tuple[str, ...], schemes: tuple[str, ...]) -> bool:
    return any(url.lower().startswith(schemes) for url in urls)


def internal_address(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The address of issuer, status or CRL is internal to one network or machine."""
    for url in _addresses(certificate):
        try:
            host = urlsplit(url).hostname
        except ValueError:
            host = None
        if host is not None and is_internal_host(host):
            return f"{shown(url)} is an internal address, not one of the public internet", {"url": url}
    return None


def _addresses(certificate: EidasCertificate) -> Iterator[str]:
    yield from certificate.extensions.ocsp_urls
    yield from certificate.extensions.ca_issuers_urls
    yield from certificate.extensions.crl_urls
