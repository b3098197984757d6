"""What `tppkit doctor` checks of certificates, keys, CRLs and trusted lists, without a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import product
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit._clock import format_time
from tppkit._text import shortened
from tppkit.certificates import DistinguishedName, EidasCertificate, Use, check_certificate, check_pair, oids
from tppkit.certificates.algorithms import ALREADY, NEVER, end_of, end_of_stamp, scheme_of
from tppkit.certificates.checks.key_usage import CLIENT_AUTH_WAY_OUT
from tppkit.certificates.differences import public_key_info
from tppkit.certificates.editions import CHROME_SERVER_ONLY
from tppkit.certificates.pkcs12_files import certificates_of, is_pkcs12, open_pkcs12
from tppkit.certificates.sources import MAX_SOURCE_BYTES, Source, is_der, read_sources
from tppkit.cli.doctor_row import CRITICAL, OK, UNKNOWN, WARNING, Present, Row, Status
from tppkit.cli.output import counted, read_input, reading
from tppkit.errors import CertificateRejected, ConfigurationError, Finding, FormatError, Severity, VerificationError
from tppkit.httpsig import load_private_key
from tppkit.trust import Anchors, TrustMaterial, load_revocation
from tppkit.trust.path.strength import is_signed_by, require_key, require_signature_algorithm
from tppkit.trust.revocation.answers import State
from tppkit.trust.revocation.crl import verify_crl
from tppkit.trust.revocation.revocation_list import Crl
from tppkit.trust.trusted_list.lists import TrustedLists
from tppkit.trust.trusted_list.qualified_status import check_freshness

_USES = {"qwac": Use.QWAC, "qseal": Use.QSEALC}
_NAMES = {"qwac": "the QWAC", "qseal": "the QSealC", "authority": "the authority", "certificate": "the certificate"}
_VALIDITY = frozenset({"certificate.expired", "certificate.not-yet-valid"})
_ELSEWHERE = _VALIDITY | {"certificate.client-auth-ends"}  # these have rows of their own
_OPENED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")  # for `<(command)`
_SHOWN, _LONGEST = 3, 100


@dataclass(frozen=True, slots=True)
class Held:
    """A certificate and the file that contains it."""

    file: str
    certificate: EidasCertificate

    @property
    def kind(self) -> str:
        """`qwac`, `qseal`, `authority` or `certificate`."""
        extensions, types = self.certificate.extensions, self.certificate.qc.types
        if extensions.is_ca:
            return "authority"
        # Without a type, only a client has clientAuth: a QWAC whose statements are missing or malformed.
        if "web" in types or (not types and "clientAuth" in extensions.extended_key_usage):
            return "qwac"
        return "qseal" if "eseal" in types else "certificate"


class Own:
    """What the files contain; the same certificate in several files counts once.

    Example:
        own = Own()
        own.read("qwac.p12", b"test")
    """

    def __init__(self) -> None:
        self.certificates: dict[bytes, Held] = {}
        self.keys: list[tuple[str, PrivateKeyTypes]] = []

    def of_kind(self, *kinds: str) -> list[Held]:
        """Return the certificates of these kinds."""
        return [one for one in self.certificates.values() if one.kind in kinds]

    @property
    def authorities(self) -> tuple[EidasCertificate, ...]:
        """Certificates of authorities."""
        return tuple(one.certificate for one in self.of_kind("authority"))

    def key_of(self, certificate: EidasCertificate) -> PrivateKeyTypes | None:
        """Return the private key of a certificate; None if no file contains it."""
        return next((key for _, key in self.keys if _is_of(key, certificate)), None)

    def read(self, name: str, password: bytes | None) -> None:
        """Read the certificates and the private key of a file, or of standard input for `-`.

        Raises:
            UnreadableFile: `file.*`, `certificate.*`, `key.unreadable`, `pem.*`, `pkcs12.*`.
        """
        with reading(name):
            regular(Path(name))
            try:
                ders, key = _parse(read_input(name, max_bytes=MAX_SOURCE_BYTES), password)
            except ConfigurationError as e:
                message = f"{e.message}: check the file and, if the key is encrypted, --password-file"
                raise FormatError(e.code, message) from e
            found = {der: Held(name, EidasCertificate.from_der(der)) for der in ders}
        for der, held in found.items():
            self.certificates.setdefault(der, held)
        self.keys += [] if key is None else [(name, key)]


def _is_of(key: PrivateKeyTypes, certificate: EidasCertificate) -> bool:
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return public_key_info(certificate) == public


def regular(path: Path) -> Path:
    """Return a path, unless it may block forever: a FIFO or device, except a pipe that the shell opened.

    Raises:
        FormatError: `file.unreadable`.
    """
    if path.exists() and not (path.is_file() or path.is_dir() or str(path).startswith(_OPENED)):
        raise FormatError("file.unreadable", f"{path} is not a regular file")
    return path


def _parse(data: bytes, password: bytes | None) -> tuple[Sequence[bytes], PrivateKeyTypes | None]:
    if is_pkcs12(data):
        opened = open_pkcs12(data, password)
        return certificates_of(opened), opened.key
    has_key, found = b"PRIVATE KEY-----" in data, tuple[Source, ...]()
    try:
        found = read_sources(data, password=password)
    except FormatError as e:
        has_key = has_key or is_der(data)
        if e.code != "certificate.not-found" or not has_key:
            raise
    ders = [one.der for one in found if one.kind == "certificate"]
    if not ders and not has_key:
        raise FormatError("certificate.not-found", "this is a certificate request: give the issued certificate")
    return ders, load_private_key(data, password=password) if has_key else None


def check_certificate_of(held: Held, present: Present) -> Iterator[Row]:
    """Check a certificate by itself: validity, algorithms, and for a QWAC or QSealC the profile of its use."""
    certificate, name = held.certificate, f"{held.kind}.validity"
    what = f"{_NAMES[held.kind]} {_name(certificate.subject)} ({held.file})"
    if present.at < certificate.not_before:
        message = f"{what} is valid from {format_time(certificate.not_before)} on: use the one before until then, or correct the clock"
        yield Row(name, CRITICAL, message, (certificate.not_after - present.at).days)
    else:
        todo = "get the successor of the authority" if held.kind == "authority" else "order and install its successor"
        yield present.row(name, what, certificate.not_after, todo=todo)
    yield _algorithms(held, present)
    if held.kind in _USES:
        yield _profile(held, present.at)
    if held.kind == "qwac":
        yield _client_auth(certificate, present.at)


def check_pairs(own: Own) -> Iterator[Row]:
    """Check that each QWAC and each QSealC are of one provider."""
    for qwac, qseal in product(own.of_kind("qwac"), own.of_kind("qseal")):
        findings = check_pair(qwac.certificate, qseal.certificate)
        status, found = _worst(findings)
        if found:
            yield Row("pair", status, f"QWAC and QSealC do not fit: {_listed(found)}; tppkit cert pair explains it")
        else:
            identifier = qwac.certificate.organization_identifier
            yield Row("pair", OK, f"QWAC and QSealC are of {identifier}, with the same roles")


def _worst(findings: Sequence[Finding]) -> tuple[Status, list[Finding]]:
    """Return the errors, or else the warnings, and the state that they mean."""
    for severity, status in ((Severity.ERROR, CRITICAL), (Severity.WARNING, WARNING)):
        if found := [one for one in findings if one.severity is severity]:
            return status, found
    return OK, []


def _profile(held: Held, at: datetime) -> Row:
    certificate, name = held.certificate, f"{held.kind}.profile"
    findings = check_certificate(certificate, as_=_USES[held.kind], at=at)
    status, found = _worst([one for one in findings if one.code not in _ELSEWHERE])
    fatal = [one for one in found if one.code in _own_faults(held, at)]
    command = f"tppkit cert check {held.file} --as {held.kind} explains it"
    if status is CRITICAL and fatal:
        return Row(name, CRITICAL, f"banks reject it: {_listed(fatal)}; {command}; order a correct one")
    if status is CRITICAL:
        return Row(name, WARNING, f"strict banks may reject it: {_listed(found)}; {command}")
    more = f"; {counted(len(found), 'warning')}: {command}" if found else ""
    roles = ", ".join(certificate.roles) or "no roles"
    return Row(name, OK, f"{roles} of {certificate.organization_identifier}{more}")


def _own_faults(held: Held, at: datetime) -> frozenset[str]:
    """Return the codes for which banks reject the certificate itself, whatever its chain; they have rows of their own."""
    findings = check_certificate(held.certificate, as_=_USES[held.kind], at=at, essential_only=True)
    return frozenset(one.code for one in findings if one.severity is Severity.ERROR) | _VALIDITY


def _algorithms(held: Held, present: Present) -> Row:
    name, certificate = f"{held.kind}.algorithms", held.certificate
    key = certificate.key
    size = "" if key.curve else f" {key.bits or 'of unknown size'}"
    what = f"{key.name}{size} of {_name(certificate.subject)}, signed with {certificate.signature_algorithm}"
    is_authority = held.kind == "authority"
    try:
        require_key(certificate)
        if not (is_authority and is_signed_by(certificate, certificate)):  # a root is trusted as it is
            require_signature_algorithm(certificate)
    except CertificateRejected as e:
        source = " from another authority" if is_authority else ""
        return Row(name, CRITICAL, f"{e.message}: order a certificate with a key of P-256 or RSA 3072{source}")
    # An RSA signature is as long as the issuer's modulus; the other schemes have no sizes that end.
    end = end_of(scheme_of(certificate.signature_algorithm), len(certificate.x509.signature) * 8)
    if held.kind == "qseal":
        end = min(end, end_of_stamp(certificate))
    todo = "order the next certificate with a key of P-256 from an authority that signs with ECDSA"
    if end == ALREADY:
        return Row(name, CRITICAL, f"{what}: no longer accepted for signatures (ETSI TS 119 312): {todo}")
    if end == NEVER:
        return Row(name, OK, f"{what}: no end is planned (ETSI TS 119 312)")
    row = present.row(name, f"the acceptance of {what} (ETSI TS 119 312)", end, todo=todo)
    if row.status is OK and end < certificate.not_after and not is_authority:  # authorities live longer
        return row._replace(status=WARNING, message=f"{row.message}, before the certificate ends: {todo}")
    return row


def _client_auth(certificate: EidasCertificate, at: datetime) -> Row:
    name, extensions = "qwac.client-auth", certificate.extensions
    if not extensions.is_public_tls:
        return Row(name, OK, "no policy of the CA/Browser Forum, so that rules of browsers do not end clientAuth")
    begins = datetime.combine(CHROME_SERVER_ONLY.begins, time(), UTC)
    source = f"{CHROME_SERVER_ONLY}, section 1.3.2"
    if "clientAuth" not in extensions.extended_key_usage:
        message = f"a public certificate without clientAuth ({source}), which cannot authenticate at a bank: {CLIENT_AUTH_WAY_OUT}"
        return Row(name, CRITICAL, message)
    day = f"public authorities issue no clientAuth from {CHROME_SERVER_ONLY.begins} on ({source})"
    days = (begins - at).days
    if certificate.not_after < begins:
        return Row(name, OK, f"{day}: renew it before that day, and plan another authority", days)
    return Row(name, WARNING, f"{day}, so the successor of this QWAC has none: {CLIENT_AUTH_WAY_OUT}", days)


def check_keys(own: Own) -> Iterator[Row]:
    """Check that each private key belongs to a certificate."""
    leaves = own.of_kind("qwac", "qseal", "certificate")
    for file, key in own.keys:
        belongs = [_name(one.certificate.subject) for one in own.certificates.values() if _is_of(key, one.certificate)]
        what = f"the private key in {file}"
        if belongs:
            yield Row("key", OK, f"{what} belongs to {' and '.join(belongs)}")
        elif leaves:
            message = f"{what} belongs to no given certificate: find the key of the certificate"
            yield Row("key", CRITICAL, message)
        else:
            yield Row("key", UNKNOWN, f"{what} cannot be compared: give its certificate too")


def check_chains(own: Own, present: Present, anchors: Anchors | None, lists: TrustedLists | None) -> Iterator[Row]:
    """Check the chain of each QWAC and QSealC: to the anchors or lists, or else that its issuer is in the files."""
    above = own.authorities
    material = TrustMaterial(anchors, lists=lists) if anchors or lists else None
    for held in own.of_kind(*_USES):
        certificate, name = held.certificate, f"{held.kind}.chain"
        is_sent = held.kind == "qwac" and own.key_of(certificate) is not None
        if material is not None:
            report = material.check_use(
                certificate, as_=_USES[held.kind], at=present.at, intermediates=above, essential_only=True
            )
            refusal = report.refusal  # of the trusted lists too, if the chain itself holds
            if refusal is not None and refusal.code not in _own_faults(held, present.at):
                yield Row(name, CRITICAL, f"{refusal.message} [{refusal.code}]: {refusal.hint}")
            elif report.path is not None and refusal is None:
                end = min(one.not_after for one in report.path.chain[1:] or report.path.chain)
                names = ", ".join(_name(one.subject) for one in report.path.chain[1:])
                what = f"the chain of {_NAMES[held.kind]} by {names or 'itself'}"
                yield present.row(name, what, end, todo="get the successor of the authority")
        is_missing = not any(is_signed_by(certificate, one) for one in (*above, certificate))
        if is_missing and (is_sent or (material is None and above)):
            message = f"no file contains {_name(certificate.issuer)}, which issued {_NAMES[held.kind]}"
            reason = ", because a bank expects it in the handshake" if is_sent else ""
            yield Row(name, WARNING, f"{message}: add its certificate{reason}")


def check_anchors(path: Path, anchors: Anchors, present: Present) -> Iterator[Row]:
    """Check which of the authorities that are trusted are valid."""
    every = (*anchors.roots, *anchors.intermediates)
    for finding in anchors.findings:
        yield Row("anchors", WARNING, f"{finding.message}: replace or remove the file")
    weak = (_algorithms(Held(str(path), one), present) for one in every)
    yield from (row for row in weak if row.status is not OK)
    soon = [one for one in every if one.not_after - present.at <= present.warn]
    first = min(every, key=lambda one: one.not_after)
    days, count = (first.not_after - present.at).days, counted(len(every), "certificate")
    if not any(one.is_valid_at(present.at) for one in anchors.roots):
        yield Row("anchors", CRITICAL, f"no authority of {path} is valid now: get current ones", days)
    elif soon:
        names = "; ".join(f"{_name(one.subject)} on {format_time(one.not_after)[:10]}" for one in soon[:_SHOWN])
        message = f"{len(soon)} of {count} in {path} end or ended: {names}: get their successors, and remove what ended"
        yield Row("anchors", WARNING, message, days)
    else:
        message = f"the first of {count} to end is {_name(first.subject)}, on {format_time(first.not_after)[:10]}"
        yield Row("anchors", OK, message, days)


def check_crl(path: Path, present: Present, certificates: Sequence[EidasCertificate]) -> Iterator[Row]:
    """Check the CRLs of a file: their times, their issuers, and whether they revoke one of the certificates.

    Raises:
        UnreadableFile: `file.*`, `revocation.unreadable`.
    """
    with reading(path):
        found = load_revocation([regular(path)])
    if not found.crls:
        yield Row("crl", UNKNOWN, f"{path} contains an OCSP response, and no CRL: give the CRL of the authority")
    for crl in found.crls:
        what = f"the CRL of {_name(crl.issuer_name)} ({path})"
        if crl.this_update > present.at + timedelta(minutes=5):
            message = f"{what} is dated after the present, {format_time(crl.this_update)}: check the clock"
            yield Row("crl", WARNING, message)
        if crl.next_update is None:
            yield Row("crl", WARNING, f"{what} states no time of the next one: fetch it daily")
        else:
            age = f"{what} of {format_time(crl.this_update)[:10]}"
            yield present.row("crl", age, crl.next_update, todo="fetch the current one", begin=crl.this_update)
        yield from _revocation(crl, what, certificates)


def _revocation(crl: Crl, what: str, certificates: Sequence[EidasCertificate]) -> Iterator[Row]:
    below = [one for one in certificates if one.issuer.comparable == crl.issuer and not is_signed_by(one, one)]
    if not below:
        yield Row("crl", WARNING, f"{what} is of no issuer of a given certificate: give the CRL of the issuer")
    for one in below:
        issuer = next((other for other in certificates if other.extensions.is_ca and is_signed_by(one, other)), None)
        if issuer is None:
            message = f"{what} was not checked, because the certificate of its issuer is not given: add it to the files, or give --trust"
            yield Row("revocation", UNKNOWN, message)
            return
        try:
            answer = verify_crl(crl, certificate=one, issuer=issuer)
        except VerificationError as e:
            yield Row("revocation", CRITICAL, f"{what} proves nothing: {e.message} [{e.code}]: {e.hint}")
            continue
        if answer.state is State.REVOKED:
            since = "" if answer.revoked_at is None else f" since {format_time(answer.revoked_at)}"
            message = f"{_name(one.subject)} is revoked{since} by {what}: stop using it, and order another one"
            yield Row("revocation", CRITICAL, message)
        else:
            yield Row("revocation", OK, f"{_name(one.subject)} is not revoked by {what}")


def check_lists(folder: Path, lists: TrustedLists, present: Present) -> Iterator[Row]:
    """Check how long trusted lists are in force."""
    todo = f"tppkit trust fetch {folder}"
    every = (*([lists.list_of_lists] if lists.list_of_lists else []), *lists.lists)
    known, in_force = {one.territory for one in every}, list[Row]()
    for one in every:
        if one.next_update is None:
            continue  # closed for good: the chain of a certificate shows if it mattered
        what = f"the list of {one.territory}, issued on {format_time(one.issued)[:10]},"
        row = present.row("trusted-list", what, one.next_update, todo=todo, begin=one.issued)
        if row.status is not CRITICAL and (finding := check_freshness(one, present.at)):
            row = row._replace(status=CRITICAL, message=f"{finding.message}: {todo}")
        if row.status is OK:
            in_force.append(row)
        else:
            yield row
    for failure in lists.failures:
        status = WARNING if failure.territory in known else CRITICAL
        name = failure.territory or failure.source
        yield Row("trusted-list", status, f"{name}: {failure.message} [{failure.code}]: {todo}")
    if in_force:
        first = min(in_force, key=lambda row: row.days_left or 0)
        yield first._replace(message=f"{counted(len(in_force), 'list')} in force; {first.message}")


def _name(name: DistinguishedName) -> str:
    """Return the common name, which is shorter than the whole name."""
    return shortened(next(iter(name.values(oids.COMMON_NAME)), "") or str(name), _LONGEST)


def _listed(findings: Sequence[Finding]) -> str:
    more = f" and {len(findings) - _SHOWN} more" if len(findings) > _SHOWN else ""
    return "; ".join(f"{one.message} [{one.code}]" for one in findings[:_SHOWN]) + more
