"""The kernel of the audit: every check of a record, by column, whatever another check has found.

    checks = Checks(paths, certificate=partial(load_certificate, folder), now=utc_now())
    checks.rows(columns_of_lines(read_lines(folder)))

It knows no place in a log: neighbours are compared by `stream`, segments by `merge`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from tppkit._cache import Cache
from tppkit._clock import from_microseconds
from tppkit.certificates import EidasCertificate, OrganizationPolicy, Use
from tppkit.errors import Finding, FormatError, SignatureRejected, TppkitError
from tppkit.evidence.record import KINDS, BodyState, EvidenceRecord, read_header_block
from tppkit.evidence.table import Columns, leaves
from tppkit.evidence.verdicts import Verdict, verdict_of
from tppkit.message import Header, Message
from tppkit.seals import PROFILES, SealPolicy, SealProfile, VerifiedHead, verify_request, verify_request_head
from tppkit.seals.policy import Paths
from tppkit.trust import TrustedPath, Window

_ORGANIZATIONS = OrganizationPolicy()
_REMEMBERED = 4_096
Failure = tuple[str, str]
"""A code with its message."""
CHANGED = "the record was changed after it was written: its stored hash differs"
_NO_QWAC: Failure = ("record.no-qwac", "no QWAC was stored, so the provider of the seal is not proven")


class Row(NamedTuple):
    """What was found about one record.

    Attributes:
        line: the number of the line, from 1.
        seq: its place in the stream; None for a line that is not a record, as all that follows but `verdict` and `failures`.
        stream_id: its stream.
        received_at: when the request arrived, in microseconds since 1970.
        x_request_id: the request's id.
        payment_ref: its payment, or None.
        method: as on the wire.
        target: path and query as on the wire.
        http_status: the status of the answer, or None.
        profile: the dialect of the seal.
        verdict: the result.
        code: the failure that decides the verdict, or None.
        failures: every failure, in the order of the checks.
        findings: warnings and notices about revocation and trust, which do not change the verdict.
        organization_identifier: whose seal it is, proven; None unless the signature holds under a trusted certificate.
        claimed_by: the organisation that the stored seal certificate names, proven or not; None if it cannot be read.
        previous: the leaf hash that it names as that of the record before.
        leaf: the leaf hash of its columns, hexadecimal.
        is_intact: whether that hash is the one stored with the record.
        content: what makes the request another one under the same id: a hash of method, target and body.
        is_selected: whether the record was to be examined; if not, it has only its place in the log, and the verdict says nothing.
    """

    line: int
    verdict: Verdict
    code: str | None
    failures: tuple[Failure, ...]
    seq: int | None = None
    stream_id: str | None = None
    received_at: int | None = None
    x_request_id: str | None = None
    payment_ref: str | None = None
    method: str | None = None
    target: str | None = None
    http_status: int | None = None
    profile: str | None = None
    findings: tuple[Finding, ...] = ()
    organization_identifier: str | None = None
    claimed_by: str | None = None
    previous: str | None = None
    leaf: str | None = None
    is_intact: bool = False
    content: str | None = None
    is_selected: bool = True


class Selection(NamedTuple):
    """The records to examine. The others keep their places in the log, so that choosing some makes no gaps.

    Attributes:
        received_from: the first time of receipt, in microseconds since 1970; None for the beginning.
        received_to: the time of receipt before which the selection ends; None for the end.
        organisations: organizationIdentifiers of seal certificates; empty for all.
    """

    received_from: int | None = None
    received_to: int | None = None
    organisations: frozenset[str] = frozenset()

    def includes(self, received_at: int, claimed_by: str | None) -> bool:
        """Whether a record is to be examined."""
        return (
            (self.received_from is None or self.received_from <= received_at)
            and (self.received_to is None or received_at < self.received_to)
            and (not self.organisations or claimed_by in self.organisations)
        )


class _Material(NamedTuple):
    """The certificates of records and how they are trusted within both windows."""

    seal: EidasCertificate | None
    qwac: EidasCertificate | None
    windows: tuple[Window, ...] = ()
    findings: tuple[Finding, ...] = ()
    failures: tuple[Failure, ...] = ()


EVERYTHING = Selection()


class _AcceptAll:
    """Accepts every certificate, because step 3 judges them. It must not be reachable from outside of this module."""

    def verify_use(
        self, certificate: EidasCertificate, *, as_: Use, at: datetime, intermediates: Sequence[EidasCertificate] = ()
    ) -> TrustedPath:
        return TrustedPath((certificate,), Window())


class Checks:
    """Checks records with one set of trust material. It remembers what holds, never what fails.

    Args:
        paths: verifies certificates: a `trust.PathVerifier`, or `trust.TrustMaterial` to require qualified ones.
        certificate: loads a stored certificate by its SHA-256, or raises FormatError.
        at: the time to judge at, aware UTC; None: each record's own time of receipt.
        organizations: the accepted organizationIdentifiers.
        role_of: returns the PSD2 role that a QWAC needs for a method and target, or None. Requests answered with 4xx are exempt.
        selection: the records to examine.
    """

    def __init__(
        self,
        paths: Paths,
        *,
        certificate: Callable[[str], EidasCertificate],
        at: datetime | None = None,
        organizations: OrganizationPolicy = _ORGANIZATIONS,
        role_of: Callable[[str, str], str | None] = lambda method, target: None,
        selection: Selection = EVERYTHING,
    ) -> None:
        self._paths = paths
        self._selection = selection
        self._at = at
        self._organizations = organizations
        self._role_of = role_of
        self._certificate = lru_cache(maxsize=1024)(certificate)
        self._material = Cache[tuple[str, str | None, tuple[str, ...]], _Material](_REMEMBERED)
        self._policies: dict[str, SealPolicy] = {}  # by the names of dialects
        self._carried = Cache[tuple[str, str], tuple[Header, ...]](_REMEMBERED)  # by dialect and seal

    def rows(self, columns: Columns) -> list[Row]:
        """Return what was found about each record, in the order of the columns."""
        found = leaves(columns)
        names = (
            "fault", "line", "leaf", "seq", "stream_id", "previous", "received_at", "x_request_id", "payment_ref", "method", "target",
            "http_status", "kind", "profile", "verdict", "header_block", "signature_raw", "signing_input_sha256", "body", "body_state",
            "body_len", "body_sha256", "body_sha512", "seal_cert", "qwac_cert", "chain",
        )  # fmt: skip
        return [
            self._row(leaf, *values) for leaf, *values in zip(found, *(columns[name] for name in names), strict=True)
        ]

    def _row(
        self, leaf: str | None, fault: FormatError | None, line: int, kept_leaf: str | None, seq: int, stream_id: str, previous: str,
        received_at: int, x_request_id: str, payment_ref: str | None, method: str, target: str, http_status: int | None, kind: int,
        profile: str, verdict: str, header_block: bytes, signature_raw: bytes, signing_input: str, body: bytes | None, body_state: int,
        body_len: int, body_sha256: str, body_sha512: str, seal_cert: str, qwac_cert: str | None, chain: tuple[str, ...],
    ) -> Row:  # fmt: skip
        # 1. The leaf is that of the columns.
        # 2. The body is the one that was hashed.
        # 3. Seal and QWAC fit their use, chain, are qualified and not revoked at the time.
        # 4. The seal holds for the request.
        # 5. The columns are what was signed.
        # 6. The QWAC has the role of the endpoint, unless the request was rejected.
        if fault is not None:
            return Row(line, Verdict.UNREADABLE, fault.code, ((fault.code, fault.message),))
        is_intact = kept_leaf is None or kept_leaf == leaf
        if is_intact and self._selection is not EVERYTHING and not self._selects(received_at, seal_cert):
            return Row(
                line, Verdict.PASSED, None, (), seq, stream_id, received_at, previous=previous, leaf=leaf, is_intact=is_intact,
                is_selected=False,
            )  # fmt: skip
        at = self._at or from_microseconds(received_at)
        failures: list[Failure] = []
        if not is_intact:  # 1
            failures.append(("record.leaf", CHANGED))
        content = body or b""
        is_redacted = body is None and body_state == BodyState.REDACTED
        if fault_of_body := _body_failure(content, is_redacted, body_state, body_len, body_sha256, body_sha512):  # 2
            failures.append(fault_of_body)
        material = self._trusted(seal_cert, qwac_cert, chain, at)  # 3
        failures += material.failures
        dialect = PROFILES.get(profile)
        if dialect is None or kind != KINDS[dialect.format]:
            failures.append(_unknown_dialect(kind, profile, dialect))
        elif material.seal is not None:
            try:  # 4, 5
                if verdict != "holds":
                    raise FormatError("record.malformed", f"the record's verdict is {verdict[:40]!r}, not 'holds'")
                self._verify_seal(
                    dialect, material.seal, material.qwac, at, Message(method, target, (), content), header_block, signature_raw,
                    is_redacted, signing_input, x_request_id,
                )  # fmt: skip
            except TppkitError as e:
                failures.append((e.code, e.message))
        if material.qwac is not None and (role := self._missing_role(material.qwac, method, target, http_status)):  # 6
            failures.append(role)
        claimed = None if material.seal is None else material.seal.organization_identifier
        name = None if claimed is None else claimed.text
        result, deciding = verdict_of([code for code, _ in failures])
        return Row(
            line, result, deciding, tuple(dict.fromkeys(failures)), seq, stream_id, received_at, x_request_id, payment_ref, method, target,
            http_status, profile, material.findings, None if failures else name, name, previous, leaf, is_intact,
            f"{method} {target} {body_sha256}",
        )  # fmt: skip

    def _selects(self, received_at: int, seal_cert: str) -> bool:
        claimed = None
        if self._selection.organisations:
            with suppress(FormatError):
                identifier = self._certificate(seal_cert).organization_identifier
                claimed = None if identifier is None else identifier.text
        return self._selection.includes(received_at, claimed)

    def _trusted(self, seal_cert: str, qwac_cert: str | None, chain: tuple[str, ...], at: datetime) -> _Material:
        key = seal_cert, qwac_cert, chain
        known = self._material.get(key)
        if known is not None and all(window.not_before <= at <= window.not_after for window in known.windows):
            return known
        above = []
        for name in chain:
            with suppress(FormatError):  # the trust material may have it
                above.append(self._certificate(name))
        failures: list[Failure] = []
        paths = []
        certificates: list[EidasCertificate | None] = [None, None]
        uses: tuple[tuple[str | None, Use], ...] = ((seal_cert, Use.QSEALC), (qwac_cert, Use.QWAC))
        for place, (stored, use) in enumerate(uses):
            try:
                if stored is None:
                    raise SignatureRejected(*_NO_QWAC)
                certificates[place] = certificate = self._certificate(stored)
                paths.append(self._paths.verify_use(certificate, as_=use, at=at, intermediates=above))
            except TppkitError as e:
                failures.append((e.code, e.message))
        seal, qwac = certificates
        findings = tuple(dict.fromkeys(finding for path in paths for finding in path.findings))
        made = _Material(seal, qwac, tuple(path.window for path in paths), findings, tuple(failures))
        if not failures:
            self._material.put(key, made)
        return made

    def _verify_seal(
        self, dialect: SealProfile, seal: EidasCertificate, qwac: EidasCertificate | None, at: datetime, message: Message,
        header_block: bytes, signature_raw: bytes, is_redacted: bool, signing_input: str, x_request_id: str,
    ) -> None:  # fmt: skip
        policy = self._policy(dialect)
        carried = self._carried.get((dialect.name, seal.sha256))
        if carried is None:
            carried = policy.profile.certificate_headers(seal)
            self._carried.put((dialect.name, seal.sha256), carried)
        block = read_header_block(header_block)
        # If the seal covers the header of its certificate, use the stored certificate instead.
        replaced = carried and carried[0][0].lower()
        kept = [header for header in block if header[0].lower() != replaced]
        headers = (*kept, (policy.profile.carrier, signature_raw.decode("latin-1")), *carried)
        verify = verify_request_head if is_redacted else verify_request
        verified = verify(message._replace(headers=headers), qwac=qwac, at=at, policy=policy)
        _require_agreement(verified, block, signing_input, x_request_id)

    def _policy(self, profile: SealProfile) -> SealPolicy:
        policy = self._policies.get(profile.name)
        if policy is None:
            row = _with_certificate(profile)
            policy = self._policies[profile.name] = SealPolicy(
                _AcceptAll(), profile=row, organizations=self._organizations
            )
        return policy

    def _missing_role(
        self, qwac: EidasCertificate, method: str, target: str, http_status: int | None
    ) -> Failure | None:
        role = self._role_of(method, target)
        if role is None or role in qwac.roles or 400 <= (http_status or 0) < 500:
            return None
        has = ", ".join(qwac.roles)[:200] or "none"
        return "role.missing", f"the request needs the role {role}, but the QWAC has {has}"


def _unknown_dialect(kind: int, profile: str, dialect: SealProfile | None) -> Failure:
    if dialect is None and kind in KINDS.values():
        return "record.unknown-profile", f"the record names the profile {profile[:40]!r}"
    return "record.unknown-kind", f"the record is of kind {kind}, which this version cannot verify"


def verify_columns(record: EvidenceRecord) -> SealProfile:
    """Check what a single record shows without its seal: steps 1 and 2, and that its kind and dialect are known.

    Returns:
        The dialect of its seal.

    Raises:
        FormatError: `record.unknown-profile`, `record.unknown-kind`, `record.malformed`.
        SignatureRejected: `record.leaf`, `record.body-redacted`, `record.body`, `record.no-qwac`.
    """
    if record.kept_leaf not in (None, record.leaf):
        raise SignatureRejected("record.leaf", CHANGED)
    dialect = PROFILES.get(record.profile)
    if dialect is None or record.kind != KINDS[dialect.format]:
        raise FormatError(*_unknown_dialect(record.kind, record.profile, dialect))
    if record.verdict != "holds":
        raise FormatError("record.malformed", f"the record's verdict is {record.verdict[:40]!r}, not 'holds'")
    is_redacted = record.body is None and record.body_state == BodyState.REDACTED
    fault = _body_failure(
        record.body or b"", is_redacted, record.body_state, record.body_len, record.body_sha256, record.body_sha512
    )
    if fault is not None:
        raise SignatureRejected(*fault)
    if record.qwac_cert is None:
        raise SignatureRejected(*_NO_QWAC)
    return dialect


def verify_agreement(record: EvidenceRecord, verified: VerifiedHead) -> None:
    """Check that the columns of a single record are what was signed.

    Raises:
        FormatError: `record.malformed`.
        SignatureRejected: `record.signing-input`.
    """
    _require_agreement(
        verified, read_header_block(record.header_block), record.signing_input_sha256, record.x_request_id
    )


def _body_failure(
    body: bytes, is_redacted: bool, body_state: int, body_len: int, body_sha256: str, body_sha512: str
) -> Failure | None:
    if is_redacted:
        return "record.body-redacted", "the body was redacted, so its digest cannot be recomputed"
    if (
        hashlib.sha256(body).hexdigest() == body_sha256
        and hashlib.sha512(body).hexdigest() == body_sha512
        and len(body) == body_len
        and body_state == (BodyState.INLINE if body else BodyState.NONE)
    ):
        return None
    return "record.body", "the stored body is not the body that was received"


def _require_agreement(verified: VerifiedHead, block: Sequence[Header], signing_input: str, x_request_id: str) -> None:
    if hashlib.sha256(verified.signing_string).hexdigest() != signing_input:
        raise SignatureRejected("record.signing-input", "the signing string is not the one that was recorded")
    covered = frozenset(verified.parameters.headers)
    profile = verified.profile
    signed_id = ""
    for name, value in block:
        lower = name.lower()
        if lower not in covered and lower not in profile.carriers:
            raise FormatError("record.malformed", f"the seal does not cover the record's {lower[:200]}")
        if lower == profile.request_id and lower in covered:
            signed_id = value
    if signed_id.strip() != x_request_id:
        raise FormatError("record.malformed", "the record's x_request_id is not the one that was signed")


def _with_certificate(profile: SealProfile) -> SealProfile:
    """Return the dialect with a header for the stored certificate, also if the dialect sends none."""
    if profile.certificate_header is not None or profile.sends_x5c:
        return profile
    return replace(profile, certificate_header="TPP-Signature-Certificate")
