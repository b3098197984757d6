"""Certificate revocation lists as they are read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import Extension, ExtensionType, IssuingDistributionPoint, RevokedCertificate

from tppkit.certificates import DistinguishedName, der
from tppkit.certificates.general_names import read_general_names
from tppkit.certificates.names import ComparableName, read_name
from tppkit.certificates.sources import read_pem_blocks
from tppkit.errors import FormatError

MAX_CRL_BYTES = 32 * 1024 * 1024
MAX_CRLS = 1000
DELTA, DISTRIBUTION_POINT, _NUMBER = "2.5.29.27", "2.5.29.28", "2.5.29.20"
_PROCESSED_OF_ENTRY = frozenset({"2.5.29.21", "2.5.29.24"})  # reason, invalidity date
_CRITICAL = b"\x01\x01\xff"
_PEM_LABEL, _PEM_BEGIN = "X509 CRL", b"-----BEGIN X509 CRL-----"
# What `cryptography` raises on a malformed list, for an entry only when it is read.
UNREADABLE = (
    ValueError, TypeError, x509.DuplicateExtension, x509.InvalidVersion, x509.UnsupportedGeneralNameType,
)  # fmt: skip
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
        x509: the list as `cryptography` reads it.
    """

    der: bytes
    sha256: str
    issuer_name: DistinguishedName
    issuer: ComparableName
    this_update: datetime
    next_update: datetime | None
    x509: x509.CertificateRevocationList

    @cached_property
    def extensions(self) -> Mapping[str, Extension[ExtensionType]]:
        """The extensions of the list, by dotted identifier."""
        return {extension.oid.dotted_string: extension for extension in self.x509.extensions}

    @property
    def distribution_point(self) -> IssuingDistributionPoint | None:
        """The issuing distribution point, or None."""
        point = self.extensions.get(DISTRIBUTION_POINT)
        return point.value if point is not None and isinstance(point.value, IssuingDistributionPoint) else None

    @property
    def number(self) -> int | None:
        """The CRL number, or None."""
        number = self.extensions.get(_NUMBER)
        return number.value.crl_number if number is not None and isinstance(number.value, x509.CRLNumber) else None

    @property
    def base_number(self) -> int | None:
        """The number of the list that a delta CRL updates; None for a complete list."""
        delta = self.extensions.get(DELTA)
        return delta.value.crl_number if delta is not None and isinstance(delta.value, x509.DeltaCRLIndicator) else None

    @property
    def is_indirect(self) -> bool:
        """Whether it may list certificates of other issuers than its own."""
        return self.distribution_point is not None and self.distribution_point.indirect_crl

    def entries_of(self, serial: int, issuer: ComparableName) -> list[RevokedCertificate]:
        """Every entry of the issuer's certificate with this serial number.

        Raises:
            FormatError: `crl.malformed`, an indirect list names an issuer in no known form.
        """
        key = serial if issuer == self.issuer else (issuer, serial)
        first, repeated = self._places
        places = repeated.get(key) or ([first[key]] if key in first else [])
        return [self.x509[place] for place in places]

    @cached_property
    def _places(self) -> tuple[Mapping[_EntryKey, int], Mapping[_EntryKey, list[int]]]:
        # Entries are of the list's issuer, unless the list is indirect: there an entry is of the issuer that was named last (RFC
        # 5280 section 5.3.3).
        first: dict[_EntryKey, int] = {}
        repeated: dict[_EntryKey, list[int]] = {}
        issuer, is_indirect = self.issuer, self.is_indirect
        for place, entry in enumerate(self.x509):
            if is_indirect:
                named = issuer_named_by(entry)
                issuer = issuer if named is None else named.comparable
            key = entry.serial_number if not is_indirect or issuer == self.issuer else (issuer, entry.serial_number)
            if first.setdefault(key, place) != place:
                repeated.setdefault(key, [first[key]]).append(place)
        return first, repeated

    @cached_property
    def fault_of_entries(self) -> tuple[str, str] | None:
        """The code and message of an entry that cannot be skipped, as it has an unknown critical extension; None without one."""
        if _CRITICAL not in self.x509.tbs_certlist_bytes:
            return None
        try:
            oids = (e.oid.dotted_string for entry in self.x509 for e in entry.extensions if e.critical)
            unknown = next((oid for oid in oids if oid not in _PROCESSED_OF_ENTRY), None)
        except UNREADABLE as e:
            return "crl.malformed", f"an entry of the CRL cannot be read: {str(e)[:120]}"
        if unknown is None:
            return None
        return "crl.critical-extension", f"an entry of the CRL has the critical extension {unknown}"


def parse_crl(data: bytes) -> Crl:
    """Read one CRL from DER or PEM.

    Raises:
        FormatError: `crl.malformed` (also for several CRLs), `crl.too-large`.
    """
    first, *others = parse_crls(data)
    if others:
        raise FormatError("crl.malformed", f"there are {len(others) + 1} CRLs instead of one")
    return first


def parse_crls(data: bytes) -> tuple[Crl, ...]:
    """Read a CRL from DER, or every CRL of a PEM file.

    Raises:
        FormatError: `crl.malformed`, also if one of several cannot be read; `crl.too-large`.
    """
    if len(data) > MAX_CRL_BYTES:
        raise FormatError("crl.too-large", f"{len(data)} bytes exceed the limit for a CRL")
    if not has_pem_crl(data):
        return (_parse_der(data),)
    try:
        found = [content for label, content in read_pem_blocks(data) if label == _PEM_LABEL]
    except FormatError as e:
        raise FormatError("crl.malformed", f"this is not a CRL: {e.message}") from e
    if len(found) > MAX_CRLS:
        raise FormatError("crl.too-large", f"{len(found)} CRLs in one file are more than {MAX_CRLS}")
    return tuple(map(_parse_der, found))


def has_pem_crl(data: bytes) -> bool:
    """Whether this is a PEM file with CRLs."""
    return _PEM_BEGIN in data and data[:1] != b"\x30"


def _parse_der(data: bytes) -> Crl:
    try:
        parsed = x509.load_der_x509_crl(data)
        _ = parsed.extensions, parsed.signature_algorithm_oid
        encoded = parsed.public_bytes(Encoding.DER)
        issuer = _issuer_of(parsed.tbs_certlist_bytes)
        return Crl(
            der=encoded,
            sha256=hashlib.sha256(encoded).hexdigest(),
            issuer_name=issuer,
            issuer=issuer.comparable,
            this_update=parsed.last_update_utc,
            next_update=parsed.next_update_utc,
            x509=parsed,
        )
    except (FormatError, *UNREADABLE) as e:
        raise FormatError("crl.malformed", f"this is not a CRL: {(str(e).splitlines() or [''])[0][:120]}") from e


def _issuer_of(to_be_signed: bytes) -> DistinguishedName:
    # TBSCertList ::= SEQUENCE { version INTEGER OPTIONAL, signature, issuer, … } (RFC 5280 section 5.1)
    whole = der.read_whole(to_be_signed, tag=der.SEQUENCE)
    first = der.read_element(to_be_signed, whole.start, whole.end)
    algorithm = der.read_element(to_be_signed, first.end, whole.end) if first.tag == der.INTEGER else first
    issuer = der.read_element(to_be_signed, algorithm.end, whole.end)
    return read_name(to_be_signed, issuer)


def issuer_named_by(entry: RevokedCertificate) -> DistinguishedName | None:
    """The certificateIssuer of an entry, or None.

    Raises:
        FormatError: `crl.malformed`.
    """
    try:
        names = entry.extensions.get_extension_for_class(x509.CertificateIssuer).value.public_bytes()
    except x509.ExtensionNotFound:
        return None
    except UNREADABLE as e:
        raise FormatError("crl.malformed", f"an entry of the CRL cannot be read: {str(e)[:120]}") from e
    for name in read_general_names(names):
        if isinstance(name.value, DistinguishedName):
            return name.value
    raise FormatError("crl.malformed", "an entry of the CRL does not name its issuer by a distinguished name")
