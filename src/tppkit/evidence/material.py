"""How the certificates of records are trusted: step 3 of the checks, remembered while it holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache, partial
from typing import NamedTuple

from tppkit._cache import Cache
from tppkit._clock import format_time
from tppkit._files import FilePath
from tppkit.certificates import EidasCertificate, Use
from tppkit.certificates.algorithms import NEVER, end_of_chain
from tppkit.errors import Finding, FormatError, Severity, SignatureRejected, TppkitError
from tppkit.evidence.algorithms import Proof
from tppkit.evidence.files import load_answers, load_certificate
from tppkit.evidence.record import Kind
from tppkit.evidence.table import Entry
from tppkit.seals.policy import Paths
from tppkit.trust import TrustMaterial

REMEMBERED = 4_096
_REMEMBERED_ANSWERS = 8  # sets of answers, each of up to 32 MB
_DAY = 86_400_000_000
Failure = tuple[str, str]
"""A code with its message."""
_NO_SEAL: Failure = ("record.certificate", "no seal certificate was stored")
NO_QWAC: Failure = ("record.no-qwac", "no QWAC was stored, so the provider of the seal is not proven")


class Material(NamedTuple):
    """The certificates of records, and what holds within the windows of both paths."""

    seal: EidasCertificate | None
    qwac: EidasCertificate | None
    not_before: datetime
    not_after: datetime
    findings: tuple[Finding, ...]
    failures: tuple[Failure, ...]
    has_revocation: bool
    end: datetime  # when the first signature of both chains ends


class Certificates:
    """Judges the certificates of records. It remembers what holds, never what fails.

        certificates = Certificates(paths, archive="evidence", now=utc_now())
        certificates.judge(entry, received_at, None).failures

    Args:
        paths: verifies certificates.
        archive: the folder with the certificates and answers that records name.
        now: the present, aware UTC, or None.
        at: the time that all records are judged at, without the answers they name; None: their times of receipt.
    """

    def __init__(self, paths: Paths, *, archive: FilePath, now: datetime | None, at: datetime | None) -> None:
        self._paths, self._archive, self._now, self._at = paths, archive, now, at
        self._has_revocation = getattr(paths, "revocation", None) is not None
        self._judges = Cache[tuple[tuple[str, ...], datetime], TrustMaterial](_REMEMBERED_ANSWERS)
        self.load = lru_cache(maxsize=1024)(partial(load_certificate, archive))
        self._known = Cache[tuple[object, ...], Material](REMEMBERED)

    def judge(self, entry: Entry, at: datetime, proof: Proof | None) -> Material:
        """Return the certificates of a record, and how they are trusted at a time.

        Args:
            entry: the record.
            at: the time to judge at, aware UTC.
            proof: what a time stamp proves about it, or None.
        """
        day = entry.received_at // _DAY
        uses: list[tuple[str | None, Use]] = [(entry.seal_cert, Use.QSEALC)]
        if entry.kind != Kind.ANSWER:  # the bank's connection is not part of its answer
            uses.append((entry.qwac_cert, Use.QWAC))
        key = len(uses), entry.seal_cert, entry.qwac_cert, entry.chain, entry.answers, entry.lists, day, proof
        known = self._known.get(key)
        if known is not None and known.not_before <= at <= known.not_after:
            return known
        above = []
        for name in entry.chain:
            with suppress(FormatError):  # the trust material may have it
                above.append(self.load(name))
        judge, failures = self._paths_for(entry, at)
        paths = []
        certificates: list[EidasCertificate | None] = [None, None]
        for place, (stored, use) in enumerate(uses):
            try:
                if stored is None:
                    raise SignatureRejected(*(NO_QWAC if use is Use.QWAC else _NO_SEAL))
                certificates[place] = certificate = self.load(stored)
                paths.append(judge.verify_use(certificate, as_=use, at=at, intermediates=above))
            except TppkitError as e:
                errors = [f for f in getattr(e, "findings", ()) if f.severity is Severity.ERROR and f.code != e.code]
                failures += [(e.code, e.message), *((error.code, error.message) for error in errors)]
        seal, qwac = certificates
        findings = [finding for path in paths for finding in path.findings]
        if not failures and proof is not None and proof.at > at:
            findings += self._revoked_since(certificates, uses, above, proof.at)
        has_revocation = self._has_revocation or judge is not self._paths
        not_before = max((path.window.not_before for path in paths), default=at)
        not_after = min((path.window.not_after for path in paths), default=at)
        end = min((end_of_chain(path.chain) for path in paths), default=NEVER)
        made = Material(
            seal, qwac, not_before, not_after, tuple(dict.fromkeys(findings)), tuple(failures), has_revocation, end
        )
        if not failures:
            self._known.put(key, made)
        return made

    def _paths_for(self, entry: Entry, at: datetime) -> tuple[Paths, list[Failure]]:
        """Return what judges the certificates of a record: with the answers about revocation that it names, if it names any."""
        if not entry.answers or self._at is not None or not isinstance(self._paths, TrustMaterial):
            return self._paths, []
        month = at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        judge = self._judges.get((entry.answers, month))
        if judge is None:
            try:
                judge = self._paths.with_answers(load_answers(self._archive, entry.answers, month), now=self._now)
            except FormatError as e:
                return self._paths, [(e.code, e.message)]
            self._judges.put((entry.answers, month), judge)
        return judge, []

    def _revoked_since(
        self, certificates: Sequence[EidasCertificate | None], uses: Sequence[tuple[str | None, Use]],
        above: Sequence[EidasCertificate], proven_at: datetime,
    ) -> Iterator[Finding]:  # fmt: skip
        """Warn of a revocation after the time of receipt, which its owner states, and before the time that is proven."""
        for certificate, (_, use) in zip(certificates, uses, strict=False):
            try:
                if certificate is not None:
                    self._paths.verify_use(certificate, as_=use, at=proven_at, intermediates=above)
            except TppkitError as e:
                if e.code == "revocation.revoked":
                    message = f"{e.message}; the time of receipt is earlier, but the time stamp is of {format_time(proven_at)}"
                    yield Finding("revocation.after-receipt", Severity.WARNING, message)
