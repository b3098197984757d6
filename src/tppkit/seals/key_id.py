"""keyId: the name of the seal certificate in a Signature header; in the guidelines, `SN=<serial in hex>,CA=<issuer's name>`.

The certificate in the request decides, but a keyId that names another certificate is an error or an attack. So the serial is
compared as a number and the issuer as a parsed name, in any style. An address is never fetched.
Source: NextGenPSD2 Implementation Guidelines 1.3.8 section 12.2; the PSD2 document shows no form (assumption `key-id`).
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from urllib.parse import quote, unquote, unquote_plus

from tppkit._encoding import decode_base64url, encode_base64url, shown
from tppkit.certificates import DistinguishedName, EidasCertificate
from tppkit.certificates.names import Attribute, parse_name
from tppkit.errors import ConfigurationError, FormatError, SignatureRejected
from tppkit.seals.field_types import require_field_types


class KeyIdForm(Enum):
    """The contents of a keyId."""

    CERTIFICATE = "SN=<serial>,CA=<issuer>"
    SERIAL = "the serial alone"
    CLIENT_ID = "an id issued by the bank"
    URL = "an address, never fetched"
    THUMBPRINT = "SHA-256 of the certificate in base64url"


class Radix(Enum):
    """How a serial number is written."""

    UPPER = "X"
    LOWER = "x"
    DECIMAL = "d"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyIdStyle:
    """How a dialect writes keyId. A verifier accepts other spellings of the same serial and name.

        replace(PROFILES["berlin-group"], key_id=KeyIdStyle(form=KeyIdForm.SERIAL, radix=Radix.DECIMAL))

    Attributes:
        form: the contents of the keyId.
        radix: the radix of the serial, for writing and reading.
        issuer_optional: a verifier also accepts `SN=<serial>` alone.
        percent: percent-encode white space in the issuer. Characters that are not valid between quotes are always encoded.
        unknown_as_text: write attributes without an RFC 4514 name as `oid=text`, instead of Java's `oid=#hex`.
        root_first: write the issuer in the certificate's order, country usually first; otherwise most specific first.
        drops_newlines: remove line breaks from the issuer, as adorsys' verifier does; otherwise they are escaped.

    Raises:
        ConfigurationError: `profile.malformed`, a field is of another type.
    """

    form: KeyIdForm = KeyIdForm.CERTIFICATE
    radix: Radix = Radix.UPPER
    issuer_optional: bool = False
    percent: bool = True
    unknown_as_text: bool = False
    root_first: bool = False
    drops_newlines: bool = False

    def __post_init__(self) -> None:
        require_field_types(self)


BERLIN_GROUP = KeyIdStyle()
_MAX_NAME = 4096

_Comparable = tuple[frozenset[Attribute], ...]

_CERTIFICATE = re.compile(r"SN=([0-9A-Fa-f]{1,64})(?:, {0,8}CA=(.+))?")
_SERIAL = re.compile(r"[0-9A-Fa-f]{1,64}")
_DECIMAL = re.compile(r"[0-9]{1,64}")
_TEXT = re.compile(r'[^"\x00-\x1f\x7f]{1,2048}')
_URL = re.compile(r"https?://[!#-\[\]-~]{1,2000}")
# OpenSSL's one-line format, `/C=DE/O=Bank, Ltd/CN=CA`: a slash before each attribute; other separators are part of a value.
_TYPE = r"(?:[A-Za-z][A-Za-z0-9-]*|[0-9.]+)="
_ONE_LINE = rf"/(?={_TYPE})"
# Its escapes for characters beyond printable ASCII, and since 3.0 for a slash and a plus.
_WRITTEN = r"(?P<bytes>(?:\\x[0-9A-Fa-f]{2})+)|\\(?P<slash>/)"
_IN_VALUE = rf'["<>;\\]|[,+](?! *{_TYPE})'
_ESCAPED = r'\\(?:[ "#+,;<=>\\]|[0-9A-Fa-f]{2})'
# The possible readings of it: the separator of attributes, and the parts to replace in each attribute in one pass. In order: with
# OpenSSL's escapes, the same with RFC 4514 escapes, without escapes, with RFC 4514 escapes only, and with the escapes of 3.0.
_READINGS = tuple([
    (re.compile(separator), re.compile("|".join(parts)))
    for separator, *parts in (
        (_ONE_LINE, _WRITTEN, _IN_VALUE), (_ONE_LINE, _WRITTEN, _ESCAPED, _IN_VALUE), (_ONE_LINE, _IN_VALUE),
        (_ONE_LINE, _ESCAPED, _IN_VALUE), (rf"(?<!\\){_ONE_LINE}", _WRITTEN, r"\\\+", _IN_VALUE),
    )
])  # fmt: skip
# Characters of RFC 4514 text that are valid in a quoted parameter; a quote is always percent-encoded. Where spaces are not encoded,
# a backslash is not either, because WSO2 compares the text with Java's without decoding.
_SAFE = ",=+#;<>/.:()-_*'@!&?$"
_SAFE_WITH_SPACES = _SAFE + " \\%"


def make_key_id(certificate: EidasCertificate, *, style: KeyIdStyle = BERLIN_GROUP, text: str | None = None) -> str:
    """Return the keyId of a certificate, for example `SN=9FA1,CA=CN=D-TRUST%20CA,O=D-Trust%20GmbH,C=DE`.

    Args:
        certificate: the seal certificate.
        style: the style of the dialect.
        text: the client id or address, if the style has one.

    Raises:
        ConfigurationError: `seal.key-id-needed`.
        FormatError: `key-id.malformed`, the text is not valid in the parameter.
    """
    if style.form in (KeyIdForm.CLIENT_ID, KeyIdForm.URL):
        if text is None:
            raise ConfigurationError(
                "seal.key-id-needed", f"the keyId is {style.form.value}, which is not in the certificate: pass key_id"
            )
        _require_text(text, style)
        return text
    if style.form is KeyIdForm.THUMBPRINT:
        return encode_base64url(hashlib.sha256(certificate.der).digest())
    serial = format(certificate.serial, style.radix.value)
    if style.form is KeyIdForm.SERIAL:
        return serial
    issuer = _without_newlines(certificate.issuer) if style.drops_newlines else certificate.issuer
    name = issuer.rfc4514(
        encoded=certificate.issuer_der, unknown_as_text=style.unknown_as_text, root_first=style.root_first
    )
    text = quote(name, safe=_SAFE if style.percent else _SAFE_WITH_SPACES)
    if not style.percent and text != name:
        # A part was encoded, so the verifier will decode: then a percent sign of the name must be encoded too.
        text = quote(name, safe=_SAFE_WITH_SPACES.replace("%", ""))
    return f"SN={serial},CA={text}"


def verify_key_id(text: str, certificate: EidasCertificate, *, style: KeyIdStyle = BERLIN_GROUP) -> None:
    """Check that a keyId names this certificate. Of a client id or an address, only the syntax is checked.

    Args:
        text: the keyId as received.
        certificate: the certificate from the request or the policy.
        style: the style of the dialect.

    Raises:
        FormatError: `key-id.malformed`.
        SignatureRejected: `key-id.mismatch`.
    """
    if style.form in (KeyIdForm.CLIENT_ID, KeyIdForm.URL):
        _require_text(text, style)
        return
    if style.form is KeyIdForm.THUMBPRINT:
        _require_thumbprint(text, certificate)
        return
    serial, issuer = _read(text, style)
    base = 10 if style.radix is Radix.DECIMAL else 16
    if int(serial, base) != certificate.serial:
        ours = format(certificate.serial, style.radix.value)
        raise SignatureRejected("key-id.mismatch", f"the keyId names serial {serial}, the certificate sent has {ours}")
    if issuer is not None and not _names_issuer(issuer, certificate.issuer, style):
        raise SignatureRejected(
            "key-id.mismatch",
            f"the keyId names the issuer {shown(issuer)}, the certificate's is {certificate.issuer}",
        )


def _require_thumbprint(text: str, certificate: EidasCertificate) -> None:
    if decode_base64url(text, what="the thumbprint") != hashlib.sha256(certificate.der).digest():
        raise SignatureRejected("key-id.mismatch", f"the thumbprint {shown(text)} is not the certificate's")


def _require_text(text: str, style: KeyIdStyle) -> None:
    form = _URL if style.form is KeyIdForm.URL else _TEXT
    if not (text.isascii() and form.fullmatch(text)):
        raise FormatError("key-id.malformed", f"the keyId {shown(text)} is not {style.form.value}")


def _read(text: str, style: KeyIdStyle) -> tuple[str, str | None]:
    """Split a keyId into the serial's digits and the issuer's text."""
    decimal = style.radix is Radix.DECIMAL
    if style.form is KeyIdForm.SERIAL:
        serial, issuer = text, None
        fits = (_DECIMAL if decimal else _SERIAL).fullmatch(text) is not None
    else:
        match = _CERTIFICATE.fullmatch(text)
        serial, issuer = match.groups() if match else ("", None)
        fits = match is not None and (issuer is not None or style.issuer_optional)
        fits = fits and not (decimal and not serial.isdecimal())
    if not fits:
        number = "decimal" if decimal else "hexadecimal"
        form = f"a {number} serial" if style.form is KeyIdForm.SERIAL else f"SN=<{number}>,CA=<issuer>"
        raise FormatError("key-id.malformed", f"the keyId {shown(text)} is not {form}")
    return serial, issuer


def is_name_of(text: str, name: DistinguishedName) -> bool:
    """Whether a text of at most 4,096 characters is this name, in any of the spellings that are read in a keyId."""
    if len(text) > _MAX_NAME:
        return False
    names, _ = _names(text, drops_newlines=False)
    return not names.isdisjoint((name.comparable, name.comparable[::-1]))


def _names_issuer(text: str, issuer: DistinguishedName, style: KeyIdStyle) -> bool:
    names, failure = _names(text, drops_newlines=style.drops_newlines)
    if failure:
        raise FormatError("key-id.malformed", f"the issuer in the keyId cannot be read: {failure}")
    if style.drops_newlines:  # on both sides, because `#hex` has the value with line breaks
        issuer = _without_newlines(issuer)
    return not names.isdisjoint((issuer.comparable, issuer.comparable[::-1]))


def _without_newlines(name: DistinguishedName) -> DistinguishedName:
    return DistinguishedName(tuple([
        tuple([(oid, value.replace("\r", "").replace("\n", "")) for oid, value in rdn]) for rdn in name.rdns
    ]))  # fmt: skip


@lru_cache(maxsize=4)  # a text has up to fifteen readings, and may be compared with several certificates
def _names(text: str, *, drops_newlines: bool) -> tuple[frozenset[_Comparable], str]:
    """Parse a text as it is and percent-decoded, also with a plus for a space, as written by Java's URLEncoder.

    Returns:
        The possible names in comparable form, and the error if there is none.
    """
    readings: set[_Comparable] = set()
    failure = ""
    decoded = [text]
    with suppress(UnicodeDecodeError):  # then the percent signs belong to the name
        decoded = [unquote(text, errors="strict"), text, unquote_plus(text, errors="strict")]
    forms = [form for each in decoded for form in (_from_one_line(each) if each[:1] == "/" else (each,))]
    for form in dict.fromkeys(forms):
        try:
            name = parse_name(form)
        except FormatError as e:
            failure = failure or e.message
        else:
            readings.add((_without_newlines(name) if drops_newlines else name).comparable)
    return frozenset(readings), "" if readings else failure


def _from_one_line(text: str) -> list[str]:
    """Return the RFC 4514 texts of the possible readings of OpenSSL's one-line format, without those that are not UTF-8."""
    forms = []
    for separator, replaced in _READINGS:
        with suppress(UnicodeDecodeError):
            forms.append(",".join([replaced.sub(_escape, part) for part in separator.split(text) if part]))
    return forms


def _escape(found: re.Match[str]) -> str:
    r"""Return the RFC 4514 text of an escape or separator: `\xHH` becomes `\HH`, so that any byte stays part of the value."""
    if found.lastgroup == "bytes":
        pairs = found[0].replace("x", "")
        bytes.fromhex(pairs.replace("\\", "")).decode("utf-8")
        return pairs
    if found.lastgroup == "slash":
        return "/"
    return f"\\{found[0]}" if len(found[0]) == 1 else found[0]
