"""Checks of key usage, its types A to F, and extended key usage."""

from __future__ import annotations

from datetime import datetime

from tppkit.certificates import oids
from tppkit.certificates.certificate import EidasCertificate
from tppkit.certificates.editions import CHROME_NEW_AUTHORITIES, CHROME_SERVER_ONLY
from tppkit.certificates.rule import Fault

_ENCIPHER = (frozenset({"keyEncipherment"}), frozenset({"keyAgreement"}))
_SIGN, _COMMIT = frozenset({"digitalSignature"}), frozenset({"nonRepudiation"})
# EN 319 412-2 clause 4.3.2, table 1: each type's key usages.
_TYPES: dict[frozenset[str], str] = {
    _COMMIT: "A",
    _COMMIT | _SIGN: "B",
    _SIGN: "C",
    **{_SIGN | encipher: "D" for encipher in _ENCIPHER},
    **dict.fromkeys(_ENCIPHER, "E"),
    **{_COMMIT | _SIGN | encipher: "F" for encipher in _ENCIPHER},
}
_MIXED = frozenset("BDF")
# RFC 5280 section 4.2.1.12: purposes that exclude sealing of a provider's requests.
_OTHER_PURPOSES = frozenset({"serverAuth", "codeSigning", "timeStamping", "OCSPSigning"})

CLIENT_AUTH_ENDS = (
    "Chrome's root program ends clientAuth in certificates that public authorities issue from"
    f" {CHROME_SERVER_ONLY.begins} on, those that are new since {CHROME_NEW_AUTHORITIES.begins} at once (policy 1.8), and many"
    " authorities stopped before"
)
CLIENT_AUTH_WAY_OUT = "order the QWAC under QNCP-w-gen, from a qualified authority whose hierarchy is not in browsers"


def key_usage_type(usages: tuple[str, ...]) -> str | None:
    """Return the type of EN 319 412-2 table 1, `A` to `F`; None for any other combination."""
    return _TYPES.get(frozenset(usages))


def not_for_tls(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A key usage is stated that excludes TLS authentication."""
    usage = certificate.extensions.key_usage
    if not usage or "digitalSignature" in usage:
        return None
    return f"its key usage is {', '.join(usage)}: not for TLS authentication", {"key_usage": ", ".join(usage)}


def not_for_signatures(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The key usage does not allow seals."""
    usage = certificate.extensions.key_usage
    if "digitalSignature" in usage or "nonRepudiation" in usage:
        return None
    stated = ", ".join(usage) or "absent"
    return f"its key usage is {stated}: not for signatures", {"key_usage": stated}


def no_key_usage(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """No key usage is stated; only public website certificates may omit it."""
    extensions = certificate.extensions
    if oids.KEY_USAGE in extensions.present or extensions.is_public_tls:
        return None
    return "it has no key usage", {"oid": oids.KEY_USAGE}


def untyped(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The key usages are none of the types. Public website certificates follow the CA/Browser Forum instead."""
    usage = certificate.extensions.key_usage
    if not usage or certificate.extensions.is_public_tls or key_usage_type(usage):
        return None
    return f"its key usage ({', '.join(usage)}) is none of the types A to F", {"key_usage": ", ".join(usage)}


def mixed(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The key usage is of a type that uses one key for several purposes."""
    usage = certificate.extensions.key_usage
    kind = key_usage_type(usage)
    if kind is None or kind not in _MIXED or certificate.extensions.is_public_tls:
        return None
    values = {"key_usage": ", ".join(usage), "type": kind}
    return f"its key usage ({', '.join(usage)}) is of type {kind}, which uses one key for several purposes", values


def authentication_only(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A seal of a type that is for authentication, not for commitment to content."""
    usage = certificate.extensions.key_usage
    kind = key_usage_type(usage)
    if kind not in ("C", "D"):
        return None
    values = {"key_usage": ", ".join(usage), "type": kind}
    return f"its key usage is of type {kind}: for authentication, not for commitment to content (A, B or F)", values


def no_client_auth(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A website certificate that cannot authenticate a client."""
    usages = certificate.extensions.extended_key_usage
    if "clientAuth" in usages:
        return None
    stated = ", ".join(usages) or "none"
    message = f"the extended key usage has no clientAuth (stated: {stated})"
    if certificate.extensions.is_public_tls:
        message += f". {CLIENT_AUTH_ENDS}: {CLIENT_AUTH_WAY_OUT}"
    return message, {"extended_key_usage": stated}


def client_auth_ends(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A public website certificate that still has clientAuth, which its successor will not have."""
    extensions = certificate.extensions
    if "clientAuth" not in extensions.extended_key_usage or not extensions.is_public_tls:
        return None
    return (
        f"it has clientAuth and a policy of the CA/Browser Forum. {CLIENT_AUTH_ENDS}: {CLIENT_AUTH_WAY_OUT}",
        {"extended_key_usage": ", ".join(extensions.extended_key_usage), "policies": ", ".join(extensions.policies)},
    )


def no_server_auth(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A website certificate that cannot authenticate a website."""
    usages = certificate.extensions.extended_key_usage
    if "serverAuth" in usages:
        return None
    stated = ", ".join(usages) or "none"
    return f"the extended key usage has no serverAuth (stated: {stated})", {"extended_key_usage": stated}


def purposes_exclude_seals(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """A seal whose extended key usage allows other purposes only (RFC 5280: then it must not be used)."""
    usages = certificate.extensions.extended_key_usage
    if not usages or not _OTHER_PURPOSES.issuperset(usages):
        return None
    stated = ", ".join(usages)
    return f"its extended key usage ({stated}) does not allow seals", {"extended_key_usage": stated}
