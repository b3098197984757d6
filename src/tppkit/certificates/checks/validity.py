"""Checks of validity, serial number, key and signature algorithm."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from tppkit._clock import format_time
from tppkit.certificates import oids
from tppkit.certificates.certificate import EidasCertificate, Subject
from tppkit.certificates.editions import PUBLIC_LIMITS
from tppkit.certificates.key_facts import SIGNING_KEYS, STRONG_KEYS, key_weakness
from tppkit.certificates.rule import Check, Fault
from tppkit.errors import FormatError

_RARE_KEYS = frozenset({"P-521", "brainpoolP256r1", "brainpoolP384r1", "brainpoolP512r1", "ed448"})
_MAX_SERIAL_BITS = 20 * 8 - 1  # twenty octets, and the first bit is the sign
# RFC 8017 appendix A.2.4, RFC 3279 section 2.2: signatures over MD2, MD5 and SHA-1.
_BROKEN_SIGNATURES = {
    "1.2.840.113549.1.1.2": "MD2 with RSA",
    "1.2.840.113549.1.1.4": "MD5 with RSA",
    "1.2.840.113549.1.1.5": "SHA-1 with RSA",
    "1.2.840.10040.4.3": "SHA-1 with DSA",
    "1.2.840.10045.4.1": "SHA-1 with ECDSA",
}


def not_yet_valid(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The time is before the validity."""
    if at >= certificate.not_before:
        return None
    begins = format_time(certificate.not_before)
    return f"it is not valid before {begins}", {"not_before": begins, "at": format_time(at)}


def expired(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The time is after the validity."""
    if at <= certificate.not_after:
        return None
    ended = format_time(certificate.not_after)
    return f"it expired on {ended}", {"not_after": ended, "at": format_time(at)}


def public_limit_on(issued: date) -> int | None:
    """Return the maximum validity in days of a public website certificate issued on a day; None before the first limit."""
    return next((limit.max_days for limit in reversed(PUBLIC_LIMITS) if limit.begins <= issued), None)


def longer_than(days: int, *, last_second: bool = True) -> Check:
    """A public website certificate is valid for more than `days`; one with the PSD2 policy follows TS 119 495 instead.

    Args:
        days: days of 86,400 seconds.
        last_second: the certificate's last second counts too (RFC 5280 section 4.1.2.5).
    """
    limit = timedelta(days=days)

    def check(certificate: EidasCertificate, at: datetime) -> Fault | None:
        policies = certificate.extensions.policies
        if not certificate.extensions.is_public_tls or oids.POLICY_QCP_W_PSD2 in policies:
            return None
        lasts = certificate.not_after - certificate.not_before + timedelta(seconds=1 if last_second else 0)
        if lasts <= limit:
            return None
        message = f"it is valid for {lasts} hours; the limit of a public one is {days} days"
        return message, {"days": f"{lasts / timedelta(days=1):.5f}", "limit": str(days)}

    return check


def long_serial(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The serial number has more than twenty octets."""
    bits = certificate.serial.bit_length()
    if bits <= _MAX_SERIAL_BITS:
        return None
    octets = bits // 8 + 1
    return f"the serial number has {octets} octets, more than 20", {"octets": str(octets)}


def weak_key(certificate: Subject, at: datetime) -> Fault | None:
    """An RSA key below 2048 bits."""
    key = certificate.key
    if key.bits is None or key_weakness(key) != "key.weak":
        return None
    return f"the RSA key has {key.bits} bits, less than {STRONG_KEYS[key.type]}", {"bits": str(key.bits)}


def unsupported_key(certificate: Subject, at: datetime) -> Fault | None:
    """A key of a type that no certificate here may have, or one that cannot be read."""
    name = certificate.key.name
    if certificate.key.type not in SIGNING_KEYS:
        return f"the key ({name}) is not for signatures, or not supported", {"key": name}
    try:
        certificate.public_key  # noqa: B018  # reading it is the check
    except FormatError:
        return f"the key ({name}) cannot be read", {"key": name}
    return None


def rare_key(certificate: Subject, at: datetime) -> Fault | None:
    """A strong key with which most seals are not supported here. BoringSSL accepts none of them from a client."""
    name = certificate.key.name
    form = "supported here only as JSON Web Signature (ES512)" if name == "P-521" else "not supported here"
    message = f"seals with such a key ({name}) are {form}, and some TLS servers reject it"
    return (message, {"key": name}) if name in _RARE_KEYS else None


def unusual_key(certificate: Subject, at: datetime) -> Fault | None:
    """An elliptic curve that TS 119 312 does not recommend."""
    key = certificate.key
    if key.type != "ec" or key_weakness(key) is None:
        return None
    return f"TS 119 312 does not recommend the key's curve ({key.name})", {"curve": key.name}


def broken_signature(certificate: EidasCertificate, at: datetime) -> Fault | None:
    """The issuer signed with a broken hash function."""
    name = _BROKEN_SIGNATURES.get(certificate.x509.signature_algorithm_oid.dotted_string)
    return None if name is None else (f"it is signed with {name}, which can be forged", {"algorithm": name})
