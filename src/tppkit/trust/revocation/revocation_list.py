"""Certificate revocation lists as they are read."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tppkit.certificates import DistinguishedName, der
from tppkit.certificates.der import Element
from tppkit.certificates.names import ComparableName, read_name
from tppkit.certificates.sources import read_pem_blocks
from tppkit.errors import FormatError
from tppkit.trust.path.link_extensions import IssuingPoint, read_issuing_point
from tppkit.trust.revocation.crl_entries import (
    PROCESSED_OF_ENTRY,
    CrlEntry,
    CrlExtension,
    read_crl_entries,
    read_crl_entry,
    read_crl_extensions,
    require_bounded,
)

MAX_CRL_BYTES = 32 * 1024 * 1024
MAX_CRLS = 1000
MAX_ENTRIES = 16  # of one certificate
DELTA, DISTRIBUTION_POINT, _NUMBER = "2.5.29.27", "2.5.29.28", "2.5.29.20"
_CRITICAL = b"\x01\x01\xff"
_INDEXING = threading.Lock()  # so that threads that wait for a new list do not all read its entries
_PEM_LABEL, _PEM_BEGIN = "X509 CRL", b"-----BEGIN X509 CRL-----"
_UNREADABLE = (ValueError, TypeError, x509.InvalidVersion)  # what `cryptography` raises on a malformed list
_EntryKey = (
    int | tuple[ComparableName, int]
)  # a serial number; with the issuer's name unless that is the list's own issuer


@dataclass(frozen=True)
class Crl:
    """A certificate revocation list as it was read; nothing of it is proven yet.

        crl = parse_crl(Path("issuing.crl").read_bytes())
        crl.issuer_name, crl.next_update
        verify_crl(crl, certificate=leaf, issuer=issuing)

    Attributes:
        der: its bytes.
        sha256: of the DER, lower-case hexadecimal.
        issuer_name: the issuer's name.
        issuer: the form in which it is compared (RFC 5280 section 7.1).
        this_update: aware UTC.
        next_update: aware UTC, or None.
        extensions: by dotted identifier.
        number: the CRL number, or None.
        base_number: the number of the list that a delta CRL updates; None for a complete list.
        distribution_point: the issuing distribution point, or None.
        place_of_entries: the element of the DER that contains the entries, or None.
        x509: the list as `cryptography` reads it.
    """

    der: bytes
    sha256: str
    issuer_name: DistinguishedName
    issuer: ComparableName
    this_update: datetime
    next_update: datetime | None
    extensions: Mapping[str, CrlExtension]
    number: int | None
    base_number: int | None
    distribution_point: IssuingPoint | None
    place_of_entries: Element | None
    x509: x509.CertificateRevocationList

    @property
    def entries(self) -> Iterator[CrlEntry]:
        """Every entry, in order."""
        return read_crl_entries(self.der, self.place_of_entries)

    @property
    def entries_with_issuers(self) -> Iterator[tuple[CrlEntry, DistinguishedName | None]]:
        """Every entry, in order, and the issuer of its certificate.

        In an indirect list, that is the one named last. From an unreadable name on, it is None until the next name.

        Source: RFC 5280 section 5.3.3.
        """
        issuer: DistinguishedName | None = self.issuer_name
        is_indirect = self.is_indirect
        for entry in self.entries:
            if is_indirect:
                try:
                    issuer = entry.named_issuer or issuer
                except FormatError:
                    issuer = None
            yield entry, issuer

    @property
    def is_indirect(self) -> bool:
        """Whether it may list certificates of other issuers than its own."""
        return self.distribution_point is not None and self.distribution_point.indirect_crl

    def entries_of(self, serial: int, issuer: ComparableName) -> list[CrlEntry]:
        """The entries of the issuer's certificate with this serial number; one more than `MAX_ENTRIES` if there are too many."""
        key = serial if issuer == self.issuer else (issuer, serial)
        first, repeated = self.index()
        places = repeated.get(key) or ([first[key]] if key in first else [])
        return [read_crl_entry(self.der, place, len(self.der)) for place in places[: MAX_ENTRIES + 1]]

    def index(self) -> tuple[Mapping[_EntryKey, int], Mapping[_EntryKey, list[int]]]:
        """Return the places of the entries: of the first one of each key, and of all of a repeated key.

        They are read once, which takes a second for about a million entries.
        """
        if "_places" in self.__dict__:
            return self._places
        with _INDEXING:
            return self._places

    @cached_property
    def _places(self) -> tuple[Mapping[_EntryKey, int], Mapping[_EntryKey, list[int]]]:
        first: dict[_EntryKey, int] = {}
        repeated: dict[_EntryKey, list[int]] = {}
        for entry, issuer in self.entries_with_issuers:
            if issuer is None:
                continue
            name = issuer.comparable
            key = entry.serial if name == self.issuer else (name, entry.serial)
            if first.setdefault(key, entry.offset) != entry.offset:
                repeated.setdefault(key, [first[key]]).append(entry.offset)
        return first, repeated

    @cached_property
    def fault_of_entries(self) -> tuple[str, str] | None:
        """The code and message of an entry that cannot be skipped, as it has an unknown critical extension; None without one."""
        place = self.place_of_entries
        if place is None or self.der.find(_CRITICAL, place.start, place.end) < 0:
            return None
        try:
            # A serial number may have these bytes too.
            possible = (one for one in self.entries if self.der.find(_CRITICAL, one.offset, one.end) >= 0)
            oids = (oid for entry in possible for oid, one in entry.extensions.items() if one.is_critical)
            unknown = next((oid for oid in oids if oid not in PROCESSED_OF_ENTRY), None)
        except FormatError as e:
            return "crl.malformed", f"an entry of the CRL cannot be read: {e.message}"
        if unknown is None:
            return None
        return "crl.critical-extension", f"an entry of the CRL has the critical extension {unknown}"


def parse_crl(data: bytes) -> Crl:
    """Read one CRL from DER or PEM.

    Raises:
        FormatError: `crl.malformed` (also for several CRLs), `crl.too-large`.
    """
    first, *others = _read_blocks(data) or [b""]
    if others:
        raise FormatError("crl.malformed", f"there are {len(others) + 1} CRLs instead of one")
    return _parse_der(first)


def parse_crls(data: bytes) -> tuple[Crl, ...]:
    """Read a CRL from DER, or every CRL of a PEM file.

    Raises:
        FormatError: `crl.malformed`, also if one of several cannot be read; `crl.too-large`.
    """
    return tuple(map(_parse_der, _read_blocks(data)))


def _read_blocks(data: bytes) -> list[bytes]:
    """DER of each list, not parsed yet."""
    if len(data) > MAX_CRL_BYTES:
        raise FormatError("crl.too-large", f"{len(data)} bytes exceed the limit for a CRL")
    if not has_pem_crl(data):
        return [data]
    try:
        found = [content for label, content in read_pem_blocks(data) if label == _PEM_LABEL]
    except FormatError as e:
        raise FormatError("crl.malformed", f"this is not a CRL: {e.message}") from e
    if len(found) > MAX_CRLS:
        raise FormatError("crl.too-large", f"{len(found)} CRLs in one file are more than {MAX_CRLS}")
    return found


def has_pem_crl(data: bytes) -> bool:
    """Whether this is a PEM file with CRLs."""
    return _PEM_BEGIN in data and data[:1] != b"\x30"


def _parse_der(data: bytes) -> Crl:
    try:
        parsed = x509.load_der_x509_crl(data)
        _ = parsed.signature_algorithm_oid
        encoded = parsed.public_bytes(Encoding.DER)
        issuer, entries, holder = _parts(encoded)
        require_bounded(issuer, "a name")
        name = read_name(encoded, issuer)
        extensions = read_crl_extensions(encoded, holder)
        point = extensions.get(DISTRIBUTION_POINT)
        return Crl(
            der=encoded,
            sha256=hashlib.sha256(encoded).hexdigest(),
            issuer_name=name,
            issuer=name.comparable,
            this_update=parsed.last_update_utc,
            next_update=parsed.next_update_utc,
            extensions=extensions,
            number=_number(extensions, _NUMBER),
            base_number=_number(extensions, DELTA),
            distribution_point=None if point is None else read_issuing_point(point.value),
            place_of_entries=entries,
            x509=parsed,
        )
    except (FormatError, *_UNREADABLE) as e:
        raise FormatError("crl.malformed", f"this is not a CRL: {der.parse_failure(e)}") from e


def _parts(data: bytes) -> tuple[Element, Element | None, Element | None]:
    """The issuer, the sequence of entries and that of extensions.

    CertificateList ::= SEQUENCE { tbsCertList, … }; TBSCertList ::= SEQUENCE { version INTEGER OPTIONAL, signature, issuer,
    thisUpdate, nextUpdate OPTIONAL, revokedCertificates OPTIONAL, crlExtensions [0] OPTIONAL } (RFC 5280 section 5.1)
    """
    whole = der.read_whole(data, tag=der.SEQUENCE)
    parts = der.read_children(data, der.read_element(data, whole.start, whole.end))
    if parts[0].tag == der.INTEGER:
        del parts[0]
    optional = {part.tag: part for part in parts[2:]}
    holder = optional.get(0xA0)
    extensions = None if holder is None else der.read_element(data, holder.start, holder.end)
    return parts[1], optional.get(der.SEQUENCE), extensions


def _number(extensions: Mapping[str, CrlExtension], oid: str) -> int | None:
    extension = extensions.get(oid)
    return extension and der.read_integer(extension.value, der.read_whole(extension.value, tag=der.INTEGER))
