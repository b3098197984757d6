"""The entries of a CRL, and the extensions of a CRL and of its entries.

They are read by our own reader, as `cryptography` warns about names of more than 64 bytes and reads parts of any size, and most of
a list is read before its signature is verified.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

from tppkit.certificates import DistinguishedName, der
from tppkit.certificates.general_names import read_general_names
from tppkit.errors import FormatError
from tppkit.trust.revocation.answers import SINCE_ALWAYS

MAX_PART_BYTES = 64 * 1024  # of a name or of the extensions in one place; a whole certificate has no more
INVALIDITY_DATE = "2.5.29.24"
_REASON, _CERTIFICATE_ISSUER = "2.5.29.21", "2.5.29.29"
PROCESSED_OF_ENTRY = frozenset({_REASON, INVALIDITY_DATE})
# CRLReason ::= ENUMERATED (RFC 5280 section 5.3.1)
_REASONS: Mapping[bytes, str] = MappingProxyType({
    bytes((0x0A, 1, code)): name
    for code, name in (
        (0, "unspecified"), (1, "key_compromise"), (2, "ca_compromise"), (3, "affiliation_changed"), (4, "superseded"),
        (5, "cessation_of_operation"), (6, "certificate_hold"), (8, "remove_from_crl"), (9, "privilege_withdrawn"),
        (10, "aa_compromise"),
    )
})  # fmt: skip


class CrlExtension(NamedTuple):
    """An extension of a CRL or entry: whether it is critical, and DER of its value."""

    is_critical: bool
    value: bytes


class CrlEntry(NamedTuple):
    """An entry of a CRL; its date and extensions are read when they are used.

    `serial`: the serial number of the certificate; `list_der`: DER of the list; `offset`, `end`: of the entry in it; `rest`: the
    offset of its date.
    """

    serial: int
    list_der: bytes
    offset: int
    rest: int
    end: int

    @property
    def revoked_at(self) -> datetime:
        """The revocation date, aware UTC; `SINCE_ALWAYS` if it is unreadable, as the entry still revokes."""
        date = self._date
        return read_time(self.list_der[date.offset : date.end]) or SINCE_ALWAYS

    @property
    def extensions(self) -> Mapping[str, CrlExtension]:
        """The extensions, by dotted identifier.

        Raises:
            FormatError: they are malformed.
        """
        start = self._date.end
        return read_crl_extensions(
            self.list_der, None if start == self.end else der.read_element(self.list_der, start, self.end)
        )

    @property
    def reason(self) -> str | None:
        """A name of RFC 5280 section 5.3.1; None also if it is unreadable, as the entry still revokes."""
        return _REASONS.get(self._value(_REASON))

    @property
    def invalid_since(self) -> datetime | None:
        """The invalidityDate, aware UTC; None also if it is unreadable."""
        return read_time(self._value(INVALIDITY_DATE))

    @property
    def named_issuer(self) -> DistinguishedName | None:
        """The certificateIssuer, or None.

        Raises:
            FormatError: it is malformed or not a distinguished name.
        """
        extension = self.extensions.get(_CERTIFICATE_ISSUER)
        if extension is None:
            return None
        for name in read_general_names(extension.value):
            if isinstance(name.value, DistinguishedName):
                return name.value
        raise FormatError("crl.malformed", "an entry of the CRL does not name its issuer by a distinguished name")

    def _value(self, oid: str) -> bytes:
        with suppress(FormatError):
            found = self.extensions.get(oid)
            return b"" if found is None else found.value
        return b""

    @property
    def _date(self) -> der.Element:
        return der.read_element(self.list_der, self.rest, self.end)


def read_crl_entry(data: bytes, offset: int, end: int) -> CrlEntry:
    """Read the entry at `offset` of a list whose entries end at `end`.

    Raises:
        FormatError: `der.malformed`.
    """
    entry = der.read_element(data, offset, end)
    serial = der.read_element(data, entry.start, entry.end)
    number = int.from_bytes(data[serial.start : serial.end], "big", signed=True)
    return CrlEntry(number, data, offset, serial.end, entry.end)


def read_crl_entries(data: bytes, holder: der.Element | None) -> Iterator[CrlEntry]:
    """Read the entries of a list one by one; `holder` is their sequence, None if there is none.

    Raises:
        FormatError: `der.malformed`.
    """
    offset, end = (0, 0) if holder is None else (holder.start, holder.end)
    while offset < end:
        entry = read_crl_entry(data, offset, end)
        yield entry
        offset = entry.end


def read_crl_extensions(data: bytes, holder: der.Element | None) -> Mapping[str, CrlExtension]:
    """Read the extensions of a list or entry, by dotted identifier; `holder` is their sequence, None if there is none.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`, `crl.malformed`.
    """
    if holder is not None:
        require_bounded(holder, "extensions in one place")
    found: dict[str, CrlExtension] = {}
    for extension in () if holder is None else der.read_children(data, der.expect(holder, der.SEQUENCE)):
        parts = der.read_children(data, extension)
        if not 2 <= len(parts) <= 3:
            raise FormatError("crl.malformed", f"an extension of the CRL has {len(parts)} parts")
        oid, value = der.read_oid(data, parts[0]), der.expect(parts[-1], der.OCTET_STRING)
        if oid in found:
            raise FormatError("crl.malformed", f"the CRL has the extension {oid} twice in one place")
        found[oid] = CrlExtension(len(parts) == 3, data[value.start : value.end])
    return MappingProxyType(found)


def require_bounded(part: der.Element, what: str) -> None:
    """Reject a part of a list that no sound list has, as its contents take many times its size in memory.

    Raises:
        FormatError: `crl.malformed`.
    """
    if part.end - part.offset > MAX_PART_BYTES:
        raise FormatError(
            "crl.malformed", f"the CRL has {what} of {part.end - part.offset} bytes, more than {MAX_PART_BYTES}"
        )


def read_time(encoded: bytes) -> datetime | None:
    """Read DER of a UTCTime or GeneralizedTime in the form of RFC 5280 section 4.1.2.5, aware UTC; None for all else."""
    text = encoded[2:].decode("ascii", "replace")
    if encoded[:2] == b"\x17\x0d":
        text = ("19" if text >= "5" else "20") + text
    elif encoded[:2] != b"\x18\x0f":
        return None
    if len(text) != 15 or not text[:14].isdigit() or text[14] != "Z":
        return None
    with suppress(ValueError):
        return datetime.fromisoformat(f"{text[:8]}T{text[8:14]}").replace(tzinfo=UTC)
    return None
