"""Certificate revocation lists: read, and what one says of a certificate."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from asn1crypto import core as asn1_core
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import RevokedCertificate

from tppkit.certificates import EidasCertificate, der
from tppkit.certificates.general_names import GeneralName
from tppkit.errors import Finding, FormatError, Severity, VerificationError
from tppkit.trust.path.link_extensions import read_issuing_point
from tppkit.trust.path.links import Link, read_link
from tppkit.trust.path.names import ComparableName, comparable_der
from tppkit.trust.path.strength import signature_weakness
from tppkit.trust.revocation.answers import Answer
from tppkit.trust.revocation.status import Source, State

MAX_CRL_BYTES = 32 * 1024 * 1024
_CLAUSE = "RFC 5280 section 6.3.3"
_NUMBER, _DELTA, _DISTRIBUTION_POINT, _EXPIRED_CERTS = "2.5.29.20", "2.5.29.27", "2.5.29.28", "2.5.29.60"
_PROCESSED = frozenset({_DISTRIBUTION_POINT, _EXPIRED_CERTS, _NUMBER, "2.5.29.35"})  # and authority key identifier
_PROCESSED_OF_ENTRY = frozenset({"2.5.29.21", "2.5.29.24"})  # reason, invalidity date
_ONLY_IN_DELTAS = "remove_from_crl"
_CRITICAL = b"\x01\x01\xff"
_REMEMBERED_SIGNATURES = 64


@dataclass(frozen=True)
class Crl:
    """A certificate revocation list, read; nothing is proven of it yet.

    Attributes:
        der: its bytes.
        sha256: of the DER, lower-case hexadecimal.
        issuer: the issuer's name; equal for names that are the same (RFC 5280 section 7.1).
        this_update: aware UTC.
        next_update: aware UTC, or None.
        x509: the list as `cryptography` has it.
    """

    der: bytes
    sha256: str
    issuer: ComparableName
    this_update: datetime
    next_update: datetime | None
    x509: x509.CertificateRevocationList

    def entry_of(self, serial: int) -> RevokedCertificate | None:
        """The first entry with this serial number, or None."""
        place = self._places.get(serial)
        return None if place is None else self.x509[place]

    @cached_property
    def _places(self) -> Mapping[int, int]:
        # A list is walked once, from its end so that of several entries the first counts, whoever asks how often.
        last = len(self.x509) - 1
        return {self.x509[place].serial_number: place for place in range(last, -1, -1)}

    @cached_property
    def fault_of_entries(self) -> tuple[str, str] | None:
        """Why no entry may be passed over: code and message; None where each means no more than its serial number.

        An entry may have a critical extension, such as certificateIssuer. Lists are long, so they are walked once.
        """
        if _CRITICAL not in self.x509.tbs_certlist_bytes:
            return None
        try:
            oids = (e.oid.dotted_string for entry in self.x509 for e in entry.extensions if e.critical)
            unknown = next((oid for oid in oids if oid not in _PROCESSED_OF_ENTRY), None)
        except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as e:
            return "crl.malformed", f"an entry of the CRL cannot be read: {str(e)[:120]}"
        if unknown is None:
            return None
        return "crl.critical-extension", f"an entry of the CRL has the critical extension {unknown}"


def parse_crl(data: bytes) -> Crl:
    """Read one CRL from DER or PEM.

    Raises:
        FormatError: `crl.malformed`, `crl.too-large`.
    """
    if len(data) > MAX_CRL_BYTES:
        raise FormatError("crl.too-large", f"{len(data)} bytes are more than is read of a CRL")
    try:
        is_pem = data.lstrip().startswith(b"-----BEGIN")
        parsed = x509.load_pem_x509_crl(data) if is_pem else x509.load_der_x509_crl(data)
        _ = parsed.extensions, parsed.signature_algorithm_oid
        encoded = parsed.public_bytes(Encoding.DER)
        return Crl(
            der=encoded,
            sha256=hashlib.sha256(encoded).hexdigest(),
            issuer=_issuer_of(parsed.tbs_certlist_bytes),
            this_update=parsed.last_update_utc,
            next_update=parsed.next_update_utc,
            x509=parsed,
        )
    except (FormatError, ValueError, TypeError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as e:
        raise FormatError("crl.malformed", f"this is not a CRL: {(str(e).splitlines() or [''])[0][:120]}") from e


def _issuer_of(to_be_signed: bytes) -> ComparableName:
    # TBSCertList ::= SEQUENCE { version INTEGER OPTIONAL, signature, issuer, … } (RFC 5280 section 5.1)
    whole = der.read_whole(to_be_signed, tag=der.SEQUENCE)
    first = der.read_element(to_be_signed, whole.start, whole.end)
    algorithm = der.read_element(to_be_signed, first.end, whole.end) if first.tag == der.INTEGER else first
    issuer = der.read_element(to_be_signed, algorithm.end, whole.end)
    return comparable_der(to_be_signed[issuer.offset : issuer.end])


class SignedLists:
    """Verifies who signed CRLs, and remembers it: a long list is verified once, not for every certificate.

    What is remembered is that the list of these bytes holds with the authority of this certificate, for the 64 that were
    asked about last; never a refusal. Safe to share between threads.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, crl: Crl, authority: Link) -> None:
        """Refuse a list that the authority may not sign or has not signed.

        Raises:
            VerificationError: `crl.key-usage`, `crl.weak-signature`, `crl.signature`.
        """
        pair = crl.sha256, authority.certificate.sha256
        with self._lock:
            if pair in self._known:
                self._known.move_to_end(pair)
                return
        _check_signature(crl, authority)
        with self._lock:
            self._known[pair] = None
            if len(self._known) > _REMEMBERED_SIGNATURES:
                self._known.popitem(last=False)


def verify_crl(
    crl: Crl, *, certificate: EidasCertificate, issuer: EidasCertificate, signed: SignedLists | None = None
) -> Answer:
    """Authenticate a CRL, and read what it says of a certificate.

    Args:
        crl: the list.
        certificate: whose status is asked for.
        issuer: who issued the certificate; must have signed the list, too.
        signed: remembers who signed which list, where one is asked about many certificates; None for no memory.

    Raises:
        VerificationError: `crl.other-issuer`, `crl.delta`, `crl.indirect`, `crl.scope`, `crl.critical-extension`,
            `crl.key-usage`, `crl.weak-signature`, `crl.signature`, `crl.malformed`.

    Source: RFC 5280 sections 5 and 6.3.3.
    """
    # 1. The list is the issuer's own, and complete.
    # 2. Its scope has the certificate.
    # 3. The issuer may sign lists, and signed this one.
    # 4. The certificate's entry.
    authority = read_link(issuer)
    if crl.issuer != authority.subject:
        raise _refused("crl.other-issuer", f"the CRL is not issued by {issuer.subject}")  # 1
    extensions = {extension.oid.dotted_string: extension for extension in crl.x509.extensions}
    if _DELTA in extensions:
        raise _refused("crl.delta", "the CRL tells only what changed since another (a delta CRL)")
    for oid, extension in extensions.items():
        if extension.critical and oid not in _PROCESSED:
            raise _refused(
                "crl.critical-extension", f"the CRL has the critical extension {oid}, which is not processed"
            )
    point = extensions.get(_DISTRIBUTION_POINT)
    if point is not None and isinstance(point.value, x509.IssuingDistributionPoint):
        _check_scope(point.value, read_link(certificate))  # 2
    (signed or SignedLists()).check(crl, authority)  # 3
    entry = crl.entry_of(certificate.serial)  # 4
    if entry is None:
        _check_entries(crl)
    elif _reason(entry) == _ONLY_IN_DELTAS:
        message = (
            f"the entry of {certificate.subject} is taken off the list (removeFromCRL), as delta CRLs alone may tell"
        )
        raise VerificationError("crl.malformed", message, clause="RFC 5280 section 5.3.1")
    kept = extensions.get(_EXPIRED_CERTS)
    finding = _undated(crl)
    return Answer(
        source=Source.CRL,
        sha256=crl.sha256,
        state=State.GOOD if entry is None else State.REVOKED,
        this_update=crl.this_update,
        next_update=crl.next_update,
        signer=issuer,
        revoked_at=None if entry is None else entry.revocation_date_utc,
        reason=None if entry is None else _reason(entry),
        invalid_since=None if entry is None else _invalid_since(entry),
        kept_since=None if kept is None else read_generalized_time(kept.value),
        number=_number(extensions),
        series=b"" if point is None else point.value.public_bytes(),
        findings=(finding,) if finding else (),
    )


def _refused(code: str, message: str) -> VerificationError:
    return VerificationError(code, message, clause=_CLAUSE)


def _undated(crl: Crl) -> Finding | None:
    if crl.next_update is not None:
        return None
    return Finding(
        "crl.undated", Severity.WARNING, "the CRL does not say when the next one comes; it is fresh for a day",
        "RFC 5280 section 5.1.2.5",
    )  # fmt: skip


def _check_scope(point: x509.IssuingDistributionPoint, link: Link) -> None:
    if point.indirect_crl:
        raise _refused("crl.indirect", "the CRL speaks for other authorities than its issuer (an indirect CRL)")
    if point.only_contains_attribute_certs or (
        point.only_contains_user_certs if link.facts.is_ca else point.only_contains_ca_certs
    ):
        raise _refused("crl.scope", f"the CRL does not speak of certificates like {link}")
    if point.only_some_reasons:
        raise _refused("crl.scope", "the CRL speaks of some reasons of revocation only")
    if point.relative_name is not None or (
        point.full_name is not None and link.crl_points.isdisjoint(_names_of(point))
    ):
        raise _refused("crl.scope", f"the CRL is not the part of the list that {link} points to")


def _names_of(point: x509.IssuingDistributionPoint) -> frozenset[GeneralName]:
    try:
        return read_issuing_point(point.public_bytes())
    except FormatError as e:  # stricter than what read the list
        raise _refused("crl.malformed", f"the CRL names its distribution point in no known form: {e.message}") from e


def _check_signature(crl: Crl, authority: Link) -> None:
    if not authority.may("cRLSign"):
        raise _refused("crl.key-usage", f"the key of {authority} may not sign CRLs")
    try:
        weak = signature_weakness(crl.x509.signature_algorithm_oid.dotted_string, crl.x509.signature_hash_algorithm)
        key = authority.certificate.x509.public_key()
        signed = weak is None and crl.x509.is_signature_valid(key)  # type: ignore[arg-type]  # other keys raise
    except (ValueError, TypeError, UnsupportedAlgorithm) as e:
        raise _refused("crl.signature", f"the signature of the CRL cannot be checked: {str(e)[:120]}") from e
    if weak:
        raise _refused("crl.weak-signature", f"the CRL is signed with {weak}")
    if not signed:
        raise _refused("crl.signature", f"the CRL is not signed with the key of {authority}")


def _number(extensions: Mapping[str, x509.Extension[x509.ExtensionType]]) -> int | None:
    number = extensions.get(_NUMBER)
    return number.value.crl_number if number is not None and isinstance(number.value, x509.CRLNumber) else None


def _check_entries(crl: Crl) -> None:
    if crl.fault_of_entries is not None:
        raise _refused(*crl.fault_of_entries)


def _reason(entry: x509.RevokedCertificate) -> str | None:
    # An entry that cannot be read still revokes.
    try:
        return entry.extensions.get_extension_for_class(x509.CRLReason).value.reason.name
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return None


def _invalid_since(entry: x509.RevokedCertificate) -> datetime | None:
    try:
        return entry.extensions.get_extension_for_class(x509.InvalidityDate).value.invalidity_date_utc
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return None


def read_generalized_time(value: x509.ExtensionType) -> datetime | None:
    """The moment that an extension's value consists of; None when it does not."""
    try:
        read = asn1_core.GeneralizedTime.load(value.public_bytes(), strict=True).native
    except (ValueError, TypeError):
        return None
    return read if isinstance(read, datetime) and read.tzinfo is not None else None
