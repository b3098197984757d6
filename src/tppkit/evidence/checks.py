"""The kernel of the audit: every check of a record, by column, whatever another check has found.

    checks = Checks(paths, archive=folder, now=utc_now())
    checks.rows(columns_of_lines(read_lines(folder)))

It knows no place in a log: neighbours are compared by `stream`, segments by `merge`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, cast

from tppkit._cache import Cache
from tppkit._clock import from_microseconds
from tppkit._files import FilePath
from tppkit.certificates import EidasCertificate, OrganizationPolicy, Use
from tppkit.certificates.algorithms import ALREADY, NEVER
from tppkit.errors import Finding, FormatError, SignatureRejected, TppkitError
from tppkit.evidence.algorithms import Proof, end_of_seal, ended_message
from tppkit.evidence.answers import read_answer, verify_answer_record
from tppkit.evidence.columns import UNCERTIFIED
from tppkit.evidence.material import NO_QWAC, REMEMBERED, Certificates, Failure, Material
from tppkit.evidence.record import KINDS, BodyState, EvidenceRecord, Kind, read_header_block
from tppkit.evidence.table import Columns, Entry, entries, leaves
from tppkit.evidence.verdicts import Verdict, verdict_of
from tppkit.httpsig.signing_string import message_components
from tppkit.message import Header, Message
from tppkit.seals import (
    ANSWER_PROFILES,
    PROFILES,
    SealPolicy,
    SealProfile,
    VerifiedHead,
    verify_request,
    verify_request_head,
)
from tppkit.seals.answers import read_answer_seal
from tppkit.seals.policy import Paths
from tppkit.seals.verify import read_seal
from tppkit.trust import TrustedPath, Window

_ORGANIZATIONS = OrganizationPolicy()
_MAX_SHOWN, _MAX_SIGNED_SHOWN = 1_000, 8_192
CHANGED: Failure = ("record.leaf", "the record was changed after it was written: its stored hash differs")


class RecordVerdict(NamedTuple):
    """What was found about one record.

        for row in audit_archive("evidence", paths=PathVerifier(anchors)):
            print(row.seq, row.verdict, row.code)

    Attributes:
        line: the number of the line in its part, from 1.
        verdict: the result.
        code: the failure that decides the verdict, or None.
        failures: every failure, code and message, in the order of the checks.
        seq: its place in the stream; None for a line that is not a record, as all that follows.
        stream_id: its stream.
        received_at: when the request arrived, in microseconds since 1970.
        at: the time that it was judged at, aware UTC.
        x_request_id: the request's id.
        payment_ref: its payment, or None.
        method: as on the wire.
        target: path and query as on the wire.
        http_status: the status of the answer, or None.
        profile: the dialect of the seal.
        findings: warnings and notices, which do not change the verdict and the exit code.
        organization_identifier: whose seal it is, proven; None unless the record passed.
        claimed_by: the organisation that the stored seal certificate names, or `key` and the name of a callback's key, proven or not; None
            if the certificate cannot be read.
        previous: the leaf hash that it names as that of the record before.
        leaf: the leaf hash of its columns, hexadecimal.
        is_intact: whether that hash is the one stored with the record.
        content: what makes the request another one under the same id: a hash of method, target and body.
        is_selected: whether the record was to be examined; if not, it has only its place in the log, and the verdict says nothing.
        place: what is wrong with its place in the log, an error `log.*`, or None.
        has_revocation: whether revocation was checked, by the answers that were kept with the record or given to the audit.
        key: name and SHA-256 of the key of a callback or login GET, which have no certificate; None for others.
        end: when the proof ends, because an algorithm of the signatures ends and no stamp of a later one proves the record.
        clock_source: the clock of the time of receipt.
        kind: the kind of the signed message; see `record.Kind`.
        signed: the signed string, if the record does not hold, and is the first that this process finds to fail so.
    """

    line: int
    verdict: Verdict
    code: str | None
    failures: tuple[Failure, ...]
    seq: int | None = None
    stream_id: str | None = None
    received_at: int | None = None
    at: datetime | None = None
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
    place: Finding | None = None
    has_revocation: bool = False
    key: str | None = None
    end: datetime = NEVER
    clock_source: str | None = None
    kind: int | None = None
    signed: str | None = None

    @property
    def owner(self) -> str | None:
        """Within what the request id is unique, if the record passed: the organisation, or the address of a callback. None for answers."""
        if self.kind == Kind.ANSWER:  # a bank may answer one request twice
            return None
        if self.key is None:
            return self.organization_identifier
        return self.target if self.verdict is Verdict.PASSED else None

    @property
    def message(self) -> str | None:
        """The message of the failure that decides the verdict, or None."""
        return next((message for code, message in self.failures if code == self.code), None)


def unverified(leaf: str | None, entry: Entry) -> RecordVerdict:
    """Return what an entry shows without its signature: its place in the log, and whether it is intact."""
    if entry.fault is not None:
        fault = entry.fault
        return RecordVerdict(entry.line, Verdict.UNREADABLE, fault.code, ((fault.code, fault.message),))
    is_intact = entry.leaf in (None, leaf)
    return RecordVerdict(
        entry.line, Verdict.PASSED, None, () if is_intact else (CHANGED,), entry.seq, entry.stream_id, entry.received_at,
        previous=entry.previous, leaf=leaf, is_intact=is_intact, is_selected=False,
    )  # fmt: skip


def _examined(leaf: str | None, entry: Entry, at: datetime, failures: Sequence[Failure], **found: Any) -> RecordVerdict:
    """Return the verdict on a record with these failures, and what else was found about it."""
    verdict, deciding = verdict_of(code for code, _ in failures)
    return RecordVerdict(
        entry.line, verdict, deciding, tuple(dict.fromkeys(failures)), entry.seq, entry.stream_id, entry.received_at, at,
        entry.x_request_id, entry.payment_ref, entry.method, entry.target, entry.http_status, entry.profile, previous=entry.previous,
        leaf=leaf, is_intact=entry.leaf in (None, leaf), content=f"{entry.method} {entry.target} {entry.body_sha256}",
        clock_source=entry.clock_source, kind=entry.kind, **found,
    )  # fmt: skip


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
        paths: verifies certificates: a `trust.TrustMaterial`, with which a record is also judged by the answers about revocation that it
            names, or a `trust.PathVerifier`.
        archive: the folder with the certificates and answers that records name.
        now: the present, aware UTC; answers of records that are dated after it prove nothing good, and without `at` algorithms are
            judged then. None accepts answers and algorithms of any time.
        at: the time to judge at, aware UTC, without the answers of records; None: each record's own time of receipt.
        organizations: the accepted organizationIdentifiers.
        role_of: returns the PSD2 role that a QWAC needs for a method and target, or None. Requests answered with 4xx are exempt.
        selection: the records to examine.
    """

    def __init__(
        self,
        paths: Paths,
        *,
        archive: FilePath,
        now: datetime | None = None,
        at: datetime | None = None,
        organizations: OrganizationPolicy = _ORGANIZATIONS,
        role_of: Callable[[str, str], str | None] = lambda method, target: None,
        selection: Selection = EVERYTHING,
    ) -> None:
        self._selection, self._is_choice = selection, selection != EVERYTHING
        self._at = at
        self._judged = at or now or ALREADY
        self._organizations = organizations
        self._role_of = role_of
        self._keys: frozenset[str] = getattr(paths, "keys", frozenset())  # of callbacks
        self._certificates = Certificates(paths, archive=archive, now=now, at=at)
        self._policies: dict[str, SealPolicy] = {}  # by the names of dialects
        self._ends = Cache[tuple[str, str, str], datetime](REMEMBERED)
        self._shown = set[tuple[object, ...]]()
        self._carried = Cache[tuple[str, str], tuple[Header, ...]](REMEMBERED)  # by dialect and seal

    def rows(self, columns: Columns, *, proof: Proof | None = None) -> Iterator[RecordVerdict]:
        """Yield what is found about each record, in the order of the columns.

        Args:
            columns: the records.
            proof: what a time stamp proves about them, or None.
        """
        return (self._row(leaf, entry, proof) for leaf, entry in zip(leaves(columns), entries(columns), strict=True))

    def _row(self, leaf: str | None, entry: Entry, proof: Proof | None) -> RecordVerdict:
        # 1. The leaf is that of the columns.
        # 2. The body is the one that was hashed.
        # 3. Seal and QWAC fit their use, chain, are qualified and not revoked at the time.
        # 4. The seal holds for the request.
        # 5. The columns are what was signed.
        # 6. The QWAC has the role of the endpoint, unless the request was rejected.
        # 7. Algorithms and key sizes are accepted at the time at which the record is proven to exist.
        if entry.fault is not None:
            return unverified(leaf, entry)
        is_intact = entry.leaf in (None, leaf)
        if is_intact and self._is_choice and not self._selects(entry):
            return unverified(leaf, entry)
        at = self._at or from_microseconds(entry.received_at)
        failures: list[Failure] = []
        if not is_intact:  # 1
            failures.append(CHANGED)
        if fault := _body_failure(entry):  # 2
            failures.append(fault)
        if entry.kind in UNCERTIFIED:
            return self._callback_row(leaf, entry, at, failures)
        material = self._certificates.judge(entry, at, proof)  # 3
        failures += material.failures
        end = material.end
        dialect = dialect_of(entry)
        if dialect is None:
            failures.append(_unknown_dialect(entry))
        elif material.seal is not None:
            try:  # 4, 5
                _require_verdict(entry)
                end = min(end, self._verify_seal(entry, dialect, material, at))
            except TppkitError as e:
                failures.append((e.code, e.message))
        if material.qwac is not None and (role := self._missing_role(material.qwac, entry)):  # 6
            failures.append(role)
        proven_at = self._judged if proof is None else min(proof.at, self._judged)
        if end <= proven_at:  # 7
            failures.append(("record.algorithm-ended", ended_message(end, proven_at)))
        claimed = None if material.seal is None else material.seal.organization_identifier
        name = None if claimed is None else claimed.text
        signed = None
        cause = (name, *(code for code, _ in failures))
        if failures and dialect is not None and material.seal is not None and self._is_new(cause):
            signed = self._signed_string(entry, dialect, material.seal)
        return _examined(
            leaf, entry, at, failures, findings=material.findings, organization_identifier=None if failures else name, claimed_by=name,
            has_revocation=material.has_revocation, end=end if proof is None else max(end, proof.end), signed=signed,
        )  # fmt: skip

    def _callback_row(self, leaf: str | None, entry: Entry, at: datetime, failures: list[Failure]) -> RecordVerdict:
        from tppkit.evidence.callbacks import key_label, verify_callback_record  # not needed for requests

        try:  # 4, 5
            _require_verdict(entry)
            if not _is_redacted(entry):
                verify_callback_record(entry)
        except TppkitError as e:
            failures.append((e.code, e.message))
        key = key_label(entry)
        if key.rpartition(" ")[2] not in self._keys:  # 3
            failures.append(
                ("record.unconfirmed-key", f"the key {key} of the record is not among the trusted public keys")
            )
        return _examined(leaf, entry, at, failures, claimed_by=f"key {entry.key_name}", has_revocation=True, key=key)

    def _selects(self, entry: Entry) -> bool:
        claimed = None
        if self._selection.organisations:
            with suppress(FormatError):
                identifier = self._certificates.load(entry.seal_cert or "").organization_identifier
                claimed = None if identifier is None else identifier.text
        return self._selection.includes(entry.received_at, claimed)

    def _verify_seal(self, entry: Entry, dialect: SealProfile, material: Material, at: datetime) -> datetime:
        """Verify the seal, and return when its algorithm ends."""
        policy, seal = self._policy(dialect), cast("EidasCertificate", material.seal)
        if entry.kind == Kind.ANSWER:
            parameters = verify_answer_record(entry, seal, policy=policy, at=at, has_body=not _is_redacted(entry))
        else:
            message, block = self._message(entry, policy.profile, seal)
            verify = verify_request_head if _is_redacted(entry) else verify_request
            verified = verify(message, qwac=material.qwac, at=at, policy=policy)
            verify_agreement(entry, verified, block)
            parameters = verified.parameters
        key = dialect.name, seal.sha256, parameters.algorithm
        end = self._ends.get(key)
        if end is None:
            end = end_of_seal(policy.profile, parameters.algorithm, seal)
            self._ends.put(key, end)
        return end

    def _message(self, entry: Entry, profile: SealProfile, seal: EidasCertificate) -> tuple[Message, list[Header]]:
        """Return the request, and the header lines that were stored."""
        carried = self._carried.get((profile.name, seal.sha256))
        if carried is None:
            carried = profile.certificate_headers(seal)
            self._carried.put((profile.name, seal.sha256), carried)
        block = read_header_block(entry.header_block)
        # If the seal covers the header of its certificate, use the stored certificate instead.
        replaced = carried and carried[0][0].lower()
        kept = [header for header in block if header[0].lower() != replaced]
        headers = (*kept, (profile.carrier, entry.signature_raw.decode("latin-1")), *carried)
        return Message(entry.method, entry.target, headers, entry.body or b""), block

    def _is_new(self, cause: tuple[object, ...]) -> bool:
        if cause in self._shown or len(self._shown) >= _MAX_SHOWN:
            return False
        self._shown.add(cause)
        return True

    def _signed_string(self, entry: Entry, dialect: SealProfile, seal: EidasCertificate) -> str | None:
        policy = self._policy(dialect)
        with suppress(TppkitError, KeyError):  # a field of the seal is missing
            if entry.kind == Kind.ANSWER:
                signed = read_answer_seal(*read_answer(entry, seal, dialect), policy).signing_string
            else:
                message, _ = self._message(entry, policy.profile, seal)
                signed = read_seal(message, message_components(message)[0], policy).signing_string
            return signed[:_MAX_SIGNED_SHOWN].decode("utf-8", "replace")
        return None

    def _policy(self, profile: SealProfile) -> SealPolicy:
        policy = self._policies.get(profile.name)
        if policy is None:
            row = _with_certificate(profile)
            policy = self._policies[profile.name] = SealPolicy(
                _AcceptAll(), profile=row, organizations=self._organizations
            )
        return policy

    def _missing_role(self, qwac: EidasCertificate, entry: Entry) -> Failure | None:
        role = self._role_of(entry.method, entry.target)
        if role is None or role in qwac.roles or 400 <= (entry.http_status or 0) < 500:
            return None
        has = ", ".join(qwac.roles)[:200] or "none"
        return "role.missing", f"the request needs the role {role}, but the QWAC has {has}"


def dialect_of(record: Entry | EvidenceRecord) -> SealProfile | None:
    """Return the dialect of a sealed message; None if the record is of another kind, or its dialect is unknown."""
    dialect = (ANSWER_PROFILES if record.kind == Kind.ANSWER else PROFILES).get(record.profile)
    return dialect if dialect is not None and record.kind in (Kind.ANSWER, KINDS[dialect.format]) else None


def verify_columns(record: EvidenceRecord) -> SealProfile:
    """Check what the record of a request shows without its seal: steps 1 and 2, and that its kind and dialect are known.

    Returns:
        The dialect of its seal.

    Raises:
        FormatError: `record.unknown-profile`, `record.unknown-kind`, `record.malformed`.
        SignatureRejected: `record.leaf`, `record.body-redacted`, `record.body`, `record.no-qwac`.
    """
    if record.kept_leaf not in (None, record.leaf):
        raise SignatureRejected(*CHANGED)
    dialect = dialect_of(record)
    if dialect is None:
        raise FormatError(*_unknown_dialect(record))
    if dialect.for_answers:
        message = "the record is of a bank's answer, not of a request: audit verify and audit show verify it"
        raise FormatError("record.unknown-kind", message)
    _require_verdict(record)
    if fault := _body_failure(record):
        raise SignatureRejected(*fault)
    if record.qwac_cert is None:
        raise SignatureRejected(*NO_QWAC)
    return dialect


def _require_verdict(record: Entry | EvidenceRecord) -> None:
    if record.verdict != "holds":
        raise FormatError("record.malformed", f"the record's verdict is {record.verdict[:40]!r}, not 'holds'")


def _unknown_dialect(record: Entry | EvidenceRecord) -> Failure:
    known = ANSWER_PROFILES if record.kind == Kind.ANSWER else PROFILES
    if record.profile not in known and record.kind in (Kind.ANSWER, *KINDS.values()):
        return "record.unknown-profile", f"the record names the profile {record.profile[:40]!r}"
    return "record.unknown-kind", f"the record is of kind {record.kind}, which this version cannot verify"


def _is_redacted(record: Entry | EvidenceRecord) -> bool:
    return record.body is None and record.body_state == BodyState.REDACTED


def _body_failure(record: Entry | EvidenceRecord) -> Failure | None:
    if _is_redacted(record):
        return "record.body-redacted", "the body was redacted, so its digest cannot be recomputed"
    body = record.body or b""
    if (
        hashlib.sha256(body).hexdigest() == record.body_sha256
        and hashlib.sha512(body).hexdigest() == record.body_sha512
        and len(body) == record.body_len
        and record.body_state == (BodyState.INLINE if body else BodyState.NONE)
    ):
        return None
    return "record.body", "the stored body is not the body that was received"


def verify_agreement(record: Entry | EvidenceRecord, verified: VerifiedHead, block: Sequence[Header]) -> None:
    """Check that the columns of a record are what was signed.

    Args:
        record: the record.
        verified: what its seal was verified for.
        block: its header lines, as `read_header_block` returns them.

    Raises:
        FormatError: `record.malformed`.
        SignatureRejected: `record.signing-input`.
    """
    if hashlib.sha256(verified.signing_string).hexdigest() != record.signing_input_sha256:
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
    if signed_id.strip() != record.x_request_id:
        raise FormatError("record.malformed", "the record's x_request_id is not the one that was signed")


def _with_certificate(profile: SealProfile) -> SealProfile:
    """Return the dialect with a header for the stored certificate, also if the dialect sends none."""
    if profile.certificate_header is not None or profile.sends_x5c:
        return profile
    return replace(profile, certificate_header="TPP-Signature-Certificate")
