"""keyId: how a Signature header names the seal certificate, `SN=<serial in hex>,CA=<issuer's name>`.

It is a hint: the certificate that is sent decides. But one that names another certificate is a mistake or a trick, so the
serial is compared as a number and the issuer as a parsed name, in whichever style it is written.
Source: NextGenPSD2 Implementation Guidelines 1.3.8 section 12.2; the PSD2 document shows no form (assumption `key-id`).
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from tppkit._encoding import shown
from tppkit.certificates import DistinguishedName, EidasCertificate, parse_name
from tppkit.errors import FormatError, SignatureRejected

_KEY_ID = re.compile(r"SN=([0-9A-Fa-f]{1,64}),CA=(.+)")
# What RFC 4514 text needs and a quoted parameter can hold; a backslash or quote is always percent-encoded.
_SAFE = ",=+#;<>/.:()-_*'@!&?$"


def make_key_id(certificate: EidasCertificate) -> str:
    """The keyId that names this certificate: `SN=9FA1,CA=CN=D-TRUST%20CA,O=D-Trust%20GmbH,C=DE`."""
    return f"SN={certificate.serial_hex},CA={quote(certificate.issuer.rfc4514(), safe=_SAFE)}"


def verify_key_id(text: str, certificate: EidasCertificate) -> None:
    """Check that a keyId names this certificate.

    Raises:
        FormatError: `key-id.malformed`.
        SignatureRejected: `key-id.mismatch`.
    """
    match = _KEY_ID.fullmatch(text)
    if match is None:
        raise FormatError("key-id.malformed", f"the keyId {shown(text)} is not SN=<hexadecimal>,CA=<issuer>")
    if int(match.group(1), 16) != certificate.serial:
        raise SignatureRejected(
            "key-id.mismatch",
            f"the keyId names serial {match.group(1)}, the certificate sent has {certificate.serial_hex}",
        )
    names = _names(match.group(2))
    if not any(name.matches(certificate.issuer) for name in names):
        raise SignatureRejected(
            "key-id.mismatch",
            f"the keyId names the issuer {shown(match.group(2))}, the certificate's is {certificate.issuer}",
        )


def _names(text: str) -> list[DistinguishedName]:
    readings: list[DistinguishedName] = []
    failure: FormatError | None = None
    for form in dict.fromkeys((_unquoted(text), text)):
        try:
            readings.append(parse_name(form))
        except FormatError as e:
            failure = failure or e
    if not readings and failure is not None:
        raise FormatError("key-id.malformed", f"the issuer in the keyId cannot be read: {failure.message}") from failure
    return readings


def _unquoted(text: str) -> str:
    return unquote(text, errors="replace")
