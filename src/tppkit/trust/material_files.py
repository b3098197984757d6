"""The files of trust material, and whether what they contain now may replace what they contained before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import perf_counter, sleep
from typing import NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm

from tppkit._clock import format_time, shift
from tppkit._files import FilePath, FileTimes, as_path, file_times
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, VerificationError
from tppkit.trust.anchors import CERTIFICATE_SUFFIXES, Anchors, load_anchors, load_public_keys
from tppkit.trust.revocation.answers import CLOCK_SKEW
from tppkit.trust.revocation.ocsp_response import OcspResponse
from tppkit.trust.revocation.retained import RevocationEvidence, load_revocation
from tppkit.trust.revocation.revocation_list import DISTRIBUTION_POINT, Crl
from tppkit.trust.trusted_list.fetch import require_not_older
from tppkit.trust.trusted_list.folder import LIST_SUFFIXES, SIGNERS_FOLDER, load_trusted_lists, pointers_to
from tppkit.trust.trusted_list.lists import TrustedLists
from tppkit.trust.trusted_list.model import TrustedList
from tppkit.trust.trusted_list.qualified_status import check_freshness
from tppkit.trust.trusted_list.xml_document import Pace, no_rest

ANSWER_SUFFIXES = frozenset({".crl", ".ocsp", ".ors"})
MAX_ANSWERS = 1000
_SUFFIXES = CERTIFICATE_SUFFIXES | {".pub"} | LIST_SUFFIXES | ANSWER_SUFFIXES
_ATTEMPTS = 3
_PIECE_S, _REST, _LONGEST_REST_S = 0.001, 4, 0.05  # seconds of work, rests for each second of it, seconds of a rest
NO_ANSWERS = RevocationEvidence()


@dataclass(frozen=True, slots=True)
class TrustParts:
    """What trust material consists of.

    Attributes:
        anchors: the authorities; None for those that the lists grant.
        lists: the trusted lists; None without.
        answers: about revocation; None if none is checked.
        keys: SHA-256 of public keys that sign without certificates.
    """

    anchors: Anchors | None = None
    lists: TrustedLists | None = None
    answers: RevocationEvidence | None = None
    keys: frozenset[str] = frozenset()

    @property
    def content(self) -> tuple[object, ...]:
        """What decides about certificates: hashes of all parts. Equal parts have equal content."""
        anchors, lists = self.anchors, self.lists
        return (
            anchors and (_hashes(anchors.roots), _hashes(anchors.intermediates)),
            lists and (_hashes(_every(lists)), frozenset(one.signer.sha256 for one in _every(lists))),
            self.answers and (_hashes(self.answers.crls), _hashes(self.answers.ocsp)),
            self.keys,
        )


class MaterialTimes(NamedTuple):
    """The identities, sizes and times of the files of each part; None for a part that was not read."""

    trust: FileTimes | None
    lists: FileTimes | None
    answers: FileTimes | None


@dataclass(frozen=True, slots=True)
class MaterialFiles:
    """The paths of trust material, each a file or a folder.

    Attributes:
        trust: authorities and public keys.
        trusted_lists: a folder of trusted lists.
        answers: CRLs and OCSP responses: paths, or what was read of them, which stays; None to check no revocation.
    """

    trust: Path | None
    trusted_lists: Path | None
    answers: tuple[Path, ...] | RevocationEvidence | None

    def times(self) -> MaterialTimes:
        """Return the identities, sizes and times of the files."""
        lists = [self.trusted_lists, self.trusted_lists / SIGNERS_FOLDER] if self.trusted_lists else []
        paths = [self.trust] if self.trust else [], lists, self.answers if isinstance(self.answers, tuple) else []
        trust, listed, answers = (file_times(some, suffixes=_SUFFIXES) for some in paths)
        return MaterialTimes(trust, listed, answers)

    def read(
        self, known: TrustParts | None = None, times: MaterialTimes | None = None, *, pace: Pace = no_rest
    ) -> tuple[TrustParts, MaterialTimes]:
        """Read the files, again if one changes meanwhile.

        Args:
            known: what was read before.
            times: the times of the files then; a part whose files have not changed is not read.
            pace: called between pieces of work.

        Raises:
            ConfigurationError: `trust.changing`, they change faster than they are read; see `load_trust`.
            FormatError, VerificationError: see `load_trust`.
        """
        for _ in range(_ATTEMPTS):
            found = self.times()
            parts = self._read(known or TrustParts(), times or MaterialTimes(None, None, None), found, pace)
            if found == self.times():
                return parts, found
        raise ConfigurationError("trust.changing", "the files of the trust material change while they are read")

    def _read(self, known: TrustParts, before: MaterialTimes, found: MaterialTimes, pace: Pace) -> TrustParts:
        anchors, lists, answers, keys = known.anchors, known.lists, known.answers, known.keys
        if self.trust is not None and before.trust != found.trust:
            anchors, keys = load_anchors(self.trust), load_public_keys(self.trust)
        if before.answers != found.answers:
            answers = self._read_answers(pace)
        if self.trusted_lists is not None and before.lists != found.lists:
            lists = load_trusted_lists(self.trusted_lists, pace=pace)
        return TrustParts(anchors, lists, answers, keys)

    def _read_answers(self, pace: Pace) -> RevocationEvidence | None:
        if not isinstance(self.answers, tuple):
            return self.answers
        files = [file for path in self.answers for file in answer_files(path)]
        if not files:
            raise ConfigurationError(
                "trust.no-answers", f"{', '.join(map(str, self.answers))} contains no CRL and no OCSP response"
            )
        answers = load_revocation(files)
        for crl in answers.crls:
            pace()
            crl.index()  # here, not in the first request
        return answers


class Pacing:
    """Rests between pieces of work, for four fifths of the time.

        material_files.read(pace=Pacing())

    Otherwise a thread that reads big lists takes the interpreter for 5 ms each time that a request waits for its socket, so a request
    in a busy server is late by several times that.
    """

    def __init__(self) -> None:
        self._begin = perf_counter()

    def __call__(self) -> None:
        """Rest if a piece of work has taken long enough."""
        worked = perf_counter() - self._begin
        if worked > _PIECE_S:
            sleep(min(worked * _REST, _LONGEST_REST_S))
            self._begin = perf_counter()


def answer_files(path: FilePath) -> list[Path]:
    """Return a file, or the files of a folder that end in .crl, .ocsp or .ors.

    Raises:
        ConfigurationError: `trust.unreadable`, the folder cannot be read or contains too many.
    """
    path = as_path(path)
    try:
        if not path.is_dir():
            return [path]
        files = sorted(one for one in path.iterdir() if one.suffix.lower() in ANSWER_SUFFIXES and one.is_file())
    except OSError as e:
        raise ConfigurationError("trust.unreadable", f"{path} cannot be read: {e.strerror}") from e
    if len(files) > MAX_ANSWERS:
        raise ConfigurationError("trust.unreadable", f"{path} holds more than {MAX_ANSWERS} CRLs and OCSP responses")
    return files


def require_renewal(new: TrustParts, before: TrustParts, *, at: datetime) -> None:
    """Require that new parts may replace those in force.

    Authorities may be removed, because that is how a user ends the trust in one. Lists and CRLs may not, while they are in force:
    nothing but a failure takes them away.

    Args:
        new: read from the files.
        before: those in force.
        at: the present, aware UTC.

    Raises:
        ConfigurationError: `trust.unreadable`, a file cannot be used; `trust.no-anchors`, no authority is valid.
        VerificationError: `trusted-list.*`; `crl.rollback`, `crl.signature`, `crl.missing`, `revocation.stale`,
            `revocation.future`.
    """
    # 1. Each file of authorities can be read, and an authority is valid.
    # 2. No list in force is lost because its file cannot be used, or replaced by an older or an expired one.
    # 3. No CRL in force is lost, or replaced by an older, an expired or a forged one.
    if new.anchors is not None:
        _require_anchors(new.anchors, before.anchors or Anchors(()), at)  # 1
    if new.lists is not None:
        _require_lists(new.lists, before.lists or TrustedLists(()), at)  # 2
    if new.answers is not None:
        _require_crls(new.answers.crls, (before.answers or NO_ANSWERS).crls, tuple(_authorities(new, at)), at)  # 3


def _require_anchors(new: Anchors, before: Anchors, at: datetime) -> None:
    known = {finding.message for finding in before.findings}
    faults = [finding.message for finding in new.findings if finding.message not in known]
    if faults:
        raise ConfigurationError("trust.unreadable", f"the trust material was not replaced: {'; '.join(faults[:3])}")
    if not any(root.is_valid_at(at) for root in new.roots):
        raise ConfigurationError("trust.no-anchors", f"no authority of the files is valid at {format_time(at)}")


def _every(lists: TrustedLists) -> tuple[TrustedList, ...]:
    return (*([lists.list_of_lists] if lists.list_of_lists else []), *lists.lists)


def _require_lists(new: TrustedLists, before: TrustedLists, at: datetime) -> None:
    lost = {one.territory: one for one in _every(before)}
    for one in _every(new):
        old = lost.pop(one.territory, None)
        if old is None or old.sha256 == one.sha256:
            continue
        require_not_older(one, old)
        finding = check_freshness(one, at)
        if finding and finding.code == "trusted-list.expired" and not check_freshness(old, at):
            raise VerificationError(finding.code, finding.message, clause=finding.clause)
    for territory, old in lost.items():
        is_named = new.list_of_lists is None or pointers_to(new.list_of_lists, territory)
        # The list of lists may name no list, or other signers than those of the unchanged one.
        if not is_named or check_freshness(old, at) or old.sha256 in {failure.sha256 for failure in new.failures}:
            continue
        known = {(failure.source, failure.code) for failure in before.failures}
        for failure in new.failures:
            if failure.territory in (territory, None) and (failure.source, failure.code) not in known:
                raise VerificationError(failure.code, f"the list of {territory} would be lost: {failure.message}")
        raise VerificationError(
            "trusted-list.missing", f"the list of {territory} was removed, but it is still in force"
        )


def _authorities(parts: TrustParts, at: datetime) -> Iterator[EidasCertificate]:
    if parts.anchors is not None:
        yield from (*parts.anchors.roots, *parts.anchors.intermediates)
    elif parts.lists is not None:
        for purpose in ("web", "eseal"):
            with suppress(ConfigurationError):  # no list grants one for this purpose
                yield from parts.lists.make_anchors(purpose=purpose, at=at).roots


def _require_crls(
    new: Iterable[Crl], before: Iterable[Crl], authorities: Sequence[EidasCertificate], at: datetime
) -> None:
    latest, in_force = _latest(new), _latest(before)
    for scope, crl in latest.items():
        old = in_force.pop(scope, None)
        if old is not None and old.sha256 == crl.sha256:
            continue
        if crl.this_update > shift(at, CLOCK_SKEW):
            raise VerificationError("revocation.future", f"{_name(crl)} is dated after the present")
        if old is not None and crl.this_update < old.this_update:
            message = f"{_name(crl)} is older than the one of {format_time(old.this_update)} that is in use"
            raise VerificationError("crl.rollback", message)
        if old is not None and _is_stale(crl, at) and not _is_stale(old, at):
            raise VerificationError("revocation.stale", f"{_name(crl)} has ended, the one in use has not")
        named = [one for one in authorities if one.subject.comparable == crl.issuer]
        if named and not any(_is_signed(crl, authority) for authority in named):
            raise VerificationError("crl.signature", f"{_name(crl)} is not signed by that authority")
    trusted = {one.subject.comparable for one in authorities}
    for crl in in_force.values():
        if crl.issuer in trusted and not _is_stale(crl, at):
            raise VerificationError("crl.missing", f"{_name(crl)} was removed, but it is still in force")


def _name(crl: Crl) -> str:
    return f"the CRL of {crl.issuer_name} of {format_time(crl.this_update)}"


def _is_stale(crl: Crl, at: datetime) -> bool:
    return crl.next_update is not None and at > shift(crl.next_update, CLOCK_SKEW)


def _latest(crls: Iterable[Crl]) -> dict[object, Crl]:
    """The latest CRL of each issuer and scope; complete ones and delta CRLs are two scopes."""
    found: dict[object, Crl] = {}
    for crl in sorted(crls, key=lambda one: one.this_update):
        scope = crl.extensions.get(DISTRIBUTION_POINT)
        found[crl.issuer, scope and scope.value, crl.base_number is None] = crl
    return found


def _is_signed(crl: Crl, authority: EidasCertificate) -> bool:
    try:
        return crl.x509.is_signature_valid(authority.x509.public_key())  # type: ignore[arg-type]  # other keys raise
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return False


def _hashes(items: Iterable[EidasCertificate | TrustedList | Crl | OcspResponse]) -> frozenset[str]:
    return frozenset(one.sha256 for one in items)
